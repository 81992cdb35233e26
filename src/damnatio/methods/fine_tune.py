"""FT: continue the training on the retain set only. A reference that is not in the paper."""

from torch import Tensor

from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import ForgetBatch, Method, MethodSettings


@METHODS.register("FT")
class FT(Method):
    """L = L_retain: fine-tuning without a forget term. The difference between another method and this one is the effect
    of its forget term."""

    class Settings(MethodSettings):
        pass

    title = "Fine-tune"
    reference = "a reference of the unlearning literature"
    kind = "reference"

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        return batch.raw.new_zeros(())
