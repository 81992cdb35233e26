"""One trial: make a gate, map everybody's embedding, and measure both sides by the protocol."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from damnatio.methods.closed_form import Known
from damnatio.methods.gate_and_scatter import GateAndScatter, Hidden
from damnatio.methods.gate_widths import Photographs
from damnatio.methods.strangers import Strangers
from damnatio.models.gate import Gate
from damnatio.partitions import DEVELOPMENT, DISTRACTOR, EVAL, RETAIN, TEST, TRAIN
from damnatio.support.tables import codes_of, groups_of

from .choices import SEED
from .rates import Judge, Row
from .worlds import SCALE, Rows, Units, World


@dataclass(frozen=True)
class Trial:
    """A gate, and everything that it does to the embeddings of a world."""

    hidden: Hidden
    gate: Gate
    opening: Units
    """g of every image"""
    units: Units
    """f of every image"""


def known(world: World, scale: str = SCALE, most: int | None = None, strangers: bool = True) -> Known:
    """What a gate may be made of: at most so many forget-train images of each person, and the retain control."""
    members = world.members
    seen = np.flatnonzero(members.in_forget_set(scale, TRAIN))
    people = photographs(world, [seen[group][:most] for group in groups_of(codes_of(_names(world, seen))[0])])
    return Known(people, retained(world) if strangers else None, world.units.shape[1], SEED)


def _names(world: World, places: Rows) -> NDArray[Any]:
    return world.members.table["identity"][places]


def photographs(world: World, groups: Sequence[Rows]) -> list[Photographs]:
    names, images = world.members.table["identity"], world.members.table["image"]
    return [Photographs(str(names[g[0]]), world.units[g], [str(image) for image in images[g]]) for g in groups]


def retained(world: World, places: Rows | None = None) -> Strangers:
    """The retain control as strangers; or the people at these places."""
    found = np.flatnonzero(world.members.has(RETAIN)) if places is None else places
    codes, names = codes_of(_names(world, found))
    return Strangers(world.units[found], codes, [str(name) for name in names])


def made(world: World, what: Known, **settings: Any) -> Hidden:
    """A gate by the rule, with the recipe's settings but for these."""
    chosen = GateAndScatter.Settings(**{**world.settings, **settings})
    return GateAndScatter(chosen).hide(what)


def forget(world: World, what: Known, **settings: Any) -> Trial:
    """A gate by the rule, and what it does to everybody."""
    hidden = made(world, what, **settings)
    assert hidden.gate is not None
    return Trial(hidden, hidden.gate, *through(hidden.gate, world.units))


def through(gate: Gate, units: Units) -> tuple[Units, Units]:
    """g and f of unit vectors. Only what is in the gate is mapped; f is normalised in float64, as the evaluation reads
    it."""
    mapped = units.copy()
    with torch.inference_mode():
        single = torch.from_numpy(units.astype(np.float32))
        opening = gate.opening(single)[:, 0].numpy().astype(np.float64)
        inside = np.flatnonzero(opening > 0)
        if len(inside):
            hidden = gate(single[inside]).numpy().astype(np.float64)
            mapped[inside] = hidden / np.linalg.norm(hidden, axis=1, keepdims=True)
    return opening, mapped


def caught(world: World, opening: Units, scale: str = SCALE) -> Row:
    """Who is in the gate: of the forgotten, new photographs that are hidden entirely (g = 1); of everybody else,
    photographs that are touched at all (g > 0)."""
    members = world.members
    strangers = members.has(TEST) | members.has(DEVELOPMENT) | members.has(DISTRACTOR)
    return {
        "caught": share(opening[members.in_forget_set(scale, EVAL)] >= 1),
        "strangers caught": share(opening[strangers] > 0),
        "strangers": int(strangers.sum()),
        "test caught": share(opening[members.has(TEST)] > 0),
    }


def share(mask: NDArray[np.bool_]) -> float:
    return float(np.mean(mask)) if len(mask) else math.nan


def row(world: World, trial: Trial, judge: Judge, scale: str = SCALE) -> Row:
    """Everything that most studies tell of a trial."""
    expected = [each.caught for each in trial.hidden.chosen]
    return {
        **caught(world, trial.opening, scale),
        "expected": float(np.mean(expected)),
        "offset": float(trial.gate.offsets.mean()),
        "cones": len(trial.gate.offsets),
        **judge.rates(trial.units),
    }
