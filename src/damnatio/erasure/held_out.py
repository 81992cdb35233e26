"""What a gate does to photographs that it was not fitted on, measured before it is written.

People: halves in turn. A gate is fitted on the first half of everybody's photographs and tried on the second, and the
reverse; the written gate uses all. The halves are consecutive, in the order of the names of files, so that photographs
of one occasion are in one half.

Strangers: the half that the gate was not fitted on. The gate is tried before anybody of that half was spared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from damnatio.erasure.gating import Plan
from damnatio.erasure.verdict import LINKED
from damnatio.erasure.verifying import links_of, shown
from damnatio.methods.closed_form import Known
from damnatio.methods.gate_and_scatter import GateAndScatter
from damnatio.methods.gate_widths import Photographs
from damnatio.methods.strangers import ENOUGH, Units
from damnatio.models.gate import Gate
from damnatio.models.statistics import Held, Statistics, Touched


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

    def fitted(self, people: Sequence[Photographs], plan: Plan) -> Gate | None:
        """A gate for the people, made as that of the plan was."""
        report = set(plan.report.names) if plan.report else set()
        fit = plan.strangers.only(set(plan.strangers.names) - report) if plan.strangers else None
        known = Known(people, fit, self.dim, self.seed, plan.spared)
        return self.method.hide(known, self.statistics, self.gate).gate


def measured(trial: Trial, plan: Plan, goal: float) -> Gate:
    """The gate of the plan, with what was measured of everybody whom the request names, and of strangers."""
    level = plan.hidden.statistics.level(LINKED)
    people = _used(plan)
    counts = {person.name: np.zeros(5, np.int64) for person in people}
    for fitted_on in (0, 1) if plan.hidden.statistics.people else ():  # else nothing says what is linked
        halves = {person.name: _half(person, fitted_on) for person in people}
        gate = trial.fitted([half for half in halves.values() if len(half.units)], plan)
        for person in people:
            if len(halves[person.name].units):  # a single photograph has no other half
                counts[person.name] += _counted(_half(person, 1 - fitted_on), gate, level)
    begins, held = plan.gate.record.begins(), {}
    for chosen in plan.hidden.chosen:
        if chosen.member is not None:
            photographs, hidden, pairs, before, linked = map(int, counts[chosen.name])
            name = chosen.member.entry.pseudonym
            whole = next(each for each in plan.people if each.name == chosen.name)
            places = shown(whole, chosen.suspects)
            units = whole.every[places]
            given = links_of(whole.instances[places], units, _altered(units, plan.gate), level)
            held[name] = Held(
                photographs=photographs, hidden=hidden, pairs=pairs, before=before, linked=linked, goal=goal,
                given=given.pairs, given_linked=given.after, begins=begins[name],
            )  # fmt: skip
    return plan.gate.with_measured(held, _touched(trial, plan))


def _used(plan: Plan) -> list[Photographs]:
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


def _counted(person: Photographs, gate: Gate | None, level: float) -> NDArray[np.int64]:
    """Photographs, how many are hidden, pairs, and how many are linked before and after."""
    hidden = 0
    if gate is not None and len(person.units):
        hidden = int((gate.opening(torch.from_numpy(person.units.astype(np.float32))) >= 1).sum())
    links = links_of(np.arange(len(person.units)), person.units, _altered(person.units, gate), level)
    return np.array([len(person.units), hidden, links.pairs, links.before, links.after])


def _altered(units: Units, gate: Gate | None) -> Units:
    if gate is None or not len(units):
        return units
    with torch.inference_mode():
        raw = gate(torch.from_numpy(units.astype(np.float32))).double().numpy()
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def _touched(trial: Trial, plan: Plan) -> Touched:
    aim, report = plan.gate.record.strangers, plan.report
    if report is not None:
        few = report.few[0]  # of those who come near a cone all photographs are there, and they must not count more
        units = torch.from_numpy(few.astype(np.float32))
        with torch.inference_mode():
            touched = int((plan.fitted.opening(units) > 0).sum())
        return Touched(how="measured", aim=aim, people=len(report), photographs=len(units), touched=touched)
    at_hand, card = len(plan.strangers) if plan.strangers else 0, trial.statistics
    if card is not None and card.people >= ENOUGH and card.tail == plan.gate.record.tail:
        return Touched(how="card", aim=aim, people=at_hand, source=card.source)
    return Touched(how="unknown", aim=aim, people=at_hand)
