"""FT: go on training on the retain set alone. A reference, not of the paper."""

from torch import Tensor

from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import ForgetBatch, Method, MethodSettings


@METHODS.register("FT")
class FineTune(Method):
    """L = L_retain: what the fine-tuning itself does, with nothing forgotten. The difference of any other method to
    this one is what its forget term did."""

    class Settings(MethodSettings):
        pass

    title = "Fine-tune"
    reference = "a reference of the unlearning literature"
    kind = "reference"

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        return batch.raw.new_zeros(())
