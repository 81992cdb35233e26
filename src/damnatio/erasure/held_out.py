"""What a gate does to photographs that it was not fitted on, measured before it is written.

People: halves in turn. A gate is fitted on the first half of everybody's photographs and tried on the second, and the
reverse; the written gate uses all. The halves are consecutive, in the order of the names of files, so that photographs
of one occasion are in one half.

Strangers: parts in turn, by people. A gate is fitted with the strangers of all other parts, and tried on this one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from damnatio.erasure.gating import Plan
from damnatio.methods.closed_form import Known
from damnatio.methods.gate_and_scatter import GateAndScatter
from damnatio.methods.gate_widths import Photographs
from damnatio.methods.strangers import ENOUGH, Strangers, Units
from damnatio.models.gate import Gate
from damnatio.models.statistics import Held, Statistics, Touched

LINKED = 1e-4
"""Two photographs are linked if their score is one that this share of strangers exceeds."""
MOST_PARTS = 10


@dataclass(frozen=True)
class Trial:
    """A way to make a gate for some people, given some strangers."""

    method: GateAndScatter
    dim: int
    seed: int
    statistics: Statistics | None
    """of the model's card"""
    gate: Gate | None
    """that the model has already"""

    def fitted(self, people: Sequence[Photographs], strangers: Strangers | None) -> Gate | None:
        known = Known(people, strangers, self.dim, self.seed)
        return self.method.hide(known, self.statistics, self.gate).gate


def measured(trial: Trial, plan: Plan, goal: float) -> Gate:
    """The gate of the plan, with what was measured of everybody whom the request names, and of strangers."""
    touched = _touched(trial, plan)
    if touched.how == "unknown":  # nothing says from which score on two photographs are linked
        return plan.gate.with_measured({}, touched)
    level = plan.hidden.statistics.level(LINKED)
    shown = _shown(plan)
    counts = {person.name: np.zeros(5, np.int64) for person in shown}
    for fitted_on in (0, 1):
        gate = trial.fitted([half for person in shown if len((half := _half(person, fitted_on)).units)], plan.strangers)
        for person in shown:
            counts[person.name] += _counted(_half(person, 1 - fitted_on).units, gate, level)
    offsets = plan.gate.record.begins()
    held = {}
    for chosen in plan.hidden.chosen:
        if chosen.member is not None:
            photographs, hidden, pairs, before, linked = map(int, counts[chosen.name])
            name = chosen.member.entry.pseudonym
            held[name] = Held(
                photographs=photographs, hidden=hidden, pairs=pairs, before=before, linked=linked, goal=goal,
                begins=offsets[name],
            )  # fmt: skip
    return plan.gate.with_measured(held, touched)


def _shown(plan: Plan) -> list[Photographs]:
    """The photographs that the written gate was made of."""
    used = {chosen.name: set(chosen.used) for chosen in plan.hidden.chosen if chosen.member is not None}
    found = []
    for person in plan.people:
        if person.name in used:
            places = [place for place, image in enumerate(person.kept) if image in used[person.name]]
            found.append(Photographs(person.name, person.units[places], [person.kept[place] for place in places]))
    return found


def _half(person: Photographs, which: int) -> Photographs:
    middle = (len(person.images) + 1) // 2
    part = slice(None, middle) if which == 0 else slice(middle, None)
    return Photographs(person.name, person.units[part], person.images[part])


def _counted(units: Units, gate: Gate | None, level: float) -> NDArray[np.int64]:
    """Photographs, how many are hidden, pairs, and how many are linked before and after."""
    raw = torch.from_numpy(units.astype(np.float32))
    with torch.inference_mode():
        hidden = int((gate.opening(raw) >= 1).sum()) if gate is not None and len(raw) else 0
        altered = gate(raw).double().numpy() if gate is not None and len(raw) else units
    pairs = np.triu_indices(len(units), 1)
    altered = altered / np.linalg.norm(altered, axis=1, keepdims=True)
    before, after = (int(((some @ some.T)[pairs] >= level).sum()) for some in (units, altered))
    return np.array([len(units), hidden, len(pairs[0]), before, after])


def _touched(trial: Trial, plan: Plan) -> Touched:
    strangers, aim = plan.strangers, plan.gate.record.strangers
    if strangers is None or len(strangers) < ENOUGH:
        at_hand = len(strangers) if strangers is not None else 0
        known, tail = trial.statistics, plan.gate.record.tail
        if known is not None and known.people >= ENOUGH and known.tail == tail:
            return Touched(how="card", aim=aim, people=at_hand, source=known.source)
        return Touched(how="unknown", aim=aim, people=at_hand)
    count = len(strangers)
    spare = count - ENOUGH  # as many people may be left out while enough remain to measure how scores lie
    parts = int(np.clip(np.ceil(count / spare), 2, MOST_PARTS)) if spare else MOST_PARTS
    part = np.arange(count) % parts
    shown, touched = _shown(plan), 0
    for each in range(parts):
        tried = part[strangers.codes] == each
        gate = trial.fitted(shown, _only(strangers, ~tried))
        units = torch.from_numpy(strangers.units[tried].astype(np.float32))
        with torch.inference_mode():
            touched += int((gate.opening(units) > 0).sum()) if gate is not None else 0
    return Touched(how="measured", aim=aim, people=count, photographs=len(strangers.units), touched=touched)


def _only(strangers: Strangers, rows: NDArray[np.bool_]) -> Strangers:
    kept, codes = np.unique(strangers.codes[rows], return_inverse=True)
    return Strangers(strangers.units[rows], codes, [strangers.names[code] for code in kept])
