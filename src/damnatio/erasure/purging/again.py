"""The search after the purge: under f*, with the templates and names of the plan, and for every deleted vector.

It finds what a trigger put back, what was enrolled meanwhile, and what the delete passed over. Rows that the plan found
and the operator left are no finds.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from damnatio.erasure.embedder import Embedder
from damnatio.erasure.planning.plan import Plan
from damnatio.erasure.planning.sought import Looked
from damnatio.erasure.planning.templates import Templates
from damnatio.erasure.proving.statement import Again
from damnatio.galleries.base import Store
from damnatio.galleries.finding import Following
from damnatio.galleries.items import PICTURES, Key, Sought, Units, Vectors
from damnatio.galleries.walking import walk
from damnatio.models.gate import ungated
from damnatio.models.importing import import_model, weights_file
from damnatio.recipe.files import model_settings
from damnatio.support.errors import DamnatioError
from damnatio.support.files import digest_of

Look = Callable[[bytes], Units | str]


def search_again(
    store: Store,
    plan: Plan,
    templates: Templates,
    look: Look | None,
    deleted: Sequence[Vectors],
    left: Collection[Key],
) -> tuple[Again, list[Key]]:
    """What is found, and the rows. `left` are the rows of the plan that were to stay."""
    sought = Sought(plan.names, templates.units, templates.bars, templates.labels, plan.besides, look)
    found = store.find(sought)
    following = Following(store, left, (), {str(number): vector for number, vector in enumerate(deleted)})
    walk(store, following, title="search again")
    keys = {item.key: None for item in (*found.items, *following.items) if item.key not in left}
    return Again(rows=found.rows, compared=found.compared, found=len(keys)), list(keys)


def has_pictures(store: Store) -> bool:
    return any(place.kind in PICTURES for place in store.places())


def looking(plan: Plan, folder: Path) -> Look | None:
    """f* of photographs: the network in the altered file without its gate, or the model before where it still is. None:
    neither is at hand, and photographs can only be searched by name."""
    altered = folder / plan.files[0].name
    for path, sha256, settings in (
        (altered, plan.files[0].sha256, [one for one in plan.settings if one.startswith("plugins=")]),
        (Path(plan.source), plan.model.sha256, plan.settings),
    ):
        try:
            found = model_settings(path, settings)
            if digest_of(weights_file(found)) != sha256:
                continue
            network, card = import_model(found)
        except (DamnatioError, OSError):
            continue
        bare, gate = ungated(network)
        if gate is not None or path != altered:
            return Looked(Embedder.of(bare, card))
    return None
