"""GA: raise the cross-entropy of the forget identities, and nothing else. A reference that is not in the paper."""

from pydantic import Field

from damnatio.methods import METHODS
from damnatio.methods.neggrad_plus import NGPlus


@METHODS.register("GA")
class GA(NGPlus):
    """L = -CE(forget): NegGrad+ without its retain term. Papers on unlearning call it gradient ascent."""

    class Settings(NGPlus.Settings):
        lambda_retain: float = Field(0.0, ge=0)
        lambda_forget: float = Field(1.0, ge=0)

    title = "Gradient ascent"
    reference = "a reference of the unlearning literature"
    kind = "reference"
