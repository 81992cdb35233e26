"""People are taken out of a model's gate again. If nobody is left, the model is the network as it was before."""

from collections.abc import Callable

from torch import nn

from damnatio.erasure.delivery import file_name, working
from damnatio.erasure.erase import Erased
from damnatio.erasure.gated import LIMITS
from damnatio.erasure.request import Request
from damnatio.erasure.verdict import DONE, HOLDS
from damnatio.models.card import Card
from damnatio.models.exporting import export
from damnatio.models.gate import Gate, Gated, ungated
from damnatio.models.importing import weights_file
from damnatio.models.statistics import Touched
from damnatio.recipe.schema import ModelSettings
from damnatio.support.errors import DamnatioError


def restore(
    request: Request, settings: ModelSettings, model: nn.Module, card: Card, say: Callable[[str], None]
) -> Erased:
    network, gate = ungated(model)
    if not isinstance(gate, Gate):
        raise DamnatioError(f"{request.model} hides nobody, so nobody can be restored.")
    left = gate.without(request.restore)
    suffix = weights_file(settings).suffix
    with working(request, say) as delivery:
        named = file_name(request.model, suffix, request.method)
        name = named if left is not None else f"{named.removesuffix(f'-{request.method}{suffix}')}-restored{suffix}"
        restored = f"{card.origin}, {len(set(request.restore))} people restored"
        altered = card.model_copy(update={"origin": restored})
        written = export(network if left is None else Gated(network, left), altered, delivery.staged(name))
        touched = Touched(how="unknown", aim=left.record.strangers) if left else None
        remaining = [entry.pseudonym for entry in left.record.people] if left else []
        record = delivery.record(
            model=weights_file(settings),
            complete=True,
            exit_code=DONE,
            holds=HOLDS["GS"] if left else "",
            verdict=f"Restored: {', '.join(request.restore)}. The model hides {len(remaining) or 'nobody'}"
            f"{' people' if len(remaining) > 1 else ' person' if remaining else ' any more'}.",
            people=[],
            hidden_before=remaining,
            restored=list(request.restore),
            touched=touched,
            strangers=touched.sentence if touched else "",
            statistics=left.record.source if left else "",
            limits=[*written.limits, *LIMITS] if left else [],
        )
        say(record.verdict)
        return delivery.deliver(record)
