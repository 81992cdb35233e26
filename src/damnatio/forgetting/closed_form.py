"""A closed form puts a map behind f*, made of embeddings that f* gave."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from damnatio.methods import METHODS
from damnatio.methods.base import method_settings
from damnatio.methods.closed_form import ClosedForm, Known
from damnatio.methods.gate_widths import Photographs
from damnatio.methods.strangers import EACH, Strangers, evenly
from damnatio.models.card import altered_card
from damnatio.models.gate import Gated, ungated
from damnatio.models.store import load_backbone, save_model
from damnatio.partitions import RETAIN, TRAIN, UNUSED, Partitions
from damnatio.recipe.schema import Recipe
from damnatio.support.tables import codes_of, groups_of

LEAST = 100
"""strangers that a closed form learns from, if there are so many; or as many as the retain control has people"""
BLOCK = 4096
"""embeddings that are mapped at once"""


def alter(
    recipe: Recipe,
    partitions: Partitions,
    original: Path,
    units: NDArray[np.float64],
    rows: NDArray[np.int64],
    others: tuple[NDArray[np.float64], NDArray[np.int64]],
    scale: str,
    variant: str,
    folder: Path,
) -> None:
    """Write f* and the map that a closed form puts behind it. `units[i]` is f* of the image at table row `rows[i]`; of
    these, the method sees the forget-train images. `others` has the same of strangers on whom nothing is measured."""
    settings = method_settings(recipe, variant)
    kind = METHODS.get(settings.method)
    assert issubclass(kind, ClosedForm)
    network, card = load_backbone(original)
    members = partitions.at(rows)
    known = Known(
        people=_photographs(members, units, scale),
        strangers=_strangers(partitions, *others),
        dim=card.dim,
        seed=recipe.seed,
    )
    made = kind(settings).alter(known).to(next(network.parameters()).device)
    card = altered_card(card, variant, scale).model_copy(update={"map": settings.method})
    save_model(Gated(network, made), None, card, folder)


def _photographs(members: Partitions, units: NDArray[np.float64], scale: str) -> list[Photographs]:
    seen = np.flatnonzero(members.in_forget_set(scale, TRAIN))
    names, images = members.table["identity"][seen], members.table["image"][seen]
    return [
        Photographs(str(names[group[0]]), units[seen[group]], [str(image) for image in images[group]])
        for group in groups_of(codes_of(names)[0])
    ]


def strangers(partitions: Partitions, forgotten: str | None) -> NDArray[np.int64]:
    """The rows of some images of people on whom nothing is measured, as many people as the control has: retain
    identities outside the control, and if these are few, identities of no partition. Nobody of the pool of those who
    are `forgotten` is among them."""
    table = partitions.table
    control = table["control"].astype(bool)
    retained, most = partitions.has(RETAIN) & ~control, max(LEAST, len(set(table["identity"][control])))
    inside = np.array([forgotten is not None and str(image).startswith(f"{forgotten}/") for image in table["image"]])
    taken: list[NDArray[np.int64]] = []
    for mask in (retained, partitions.has(UNUSED) & ~inside):
        places = np.flatnonzero(mask)
        people = list(groups_of(codes_of(table["identity"][places])[0]))
        for at in evenly(len(people), max(most - len(taken), 0)):
            taken.append(places[people[at][evenly(len(people[at]), EACH)]])
    return np.sort(np.concatenate([np.zeros(0, np.int64), *taken]))


def _strangers(partitions: Partitions, units: NDArray[np.float64], rows: NDArray[np.int64]) -> Strangers | None:
    if not len(rows):
        return None
    codes, names = codes_of(partitions.table["identity"][rows])
    return Strangers(units, codes, [str(name) for name in names])


def mapped(model: Path, units: NDArray[np.float32]) -> NDArray[np.float32]:
    """The embeddings of an altered model, by its map, from those of f*: f(x) = map(f*(x)). No image is read."""
    network, _ = load_backbone(model)
    _, follows = ungated(network)
    assert follows is not None
    found = np.empty_like(units)
    device = next(network.parameters()).device
    with torch.inference_mode():
        for start in range(0, len(units), BLOCK):
            block = torch.from_numpy(units[start : start + BLOCK]).to(device)
            found[start : start + BLOCK] = follows(block).cpu().numpy()
    return found
