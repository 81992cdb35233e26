"""Studies of what a gate cannot do: tell relatives apart at no cost, hide that it is there, keep the file from whoever
holds it."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from damnatio.evaluation.comparing import mated_across, templates
from damnatio.methods.closed_form import Known
from damnatio.methods.strangers import mean_direction
from damnatio.models.gate import Gate
from damnatio.partitions import DEVELOPMENT, DISTRACTOR, EVAL, TEST, TRAIN
from damnatio.support.tables import codes_of, groups_of

from .choices import SEED, Choices
from .copies import COPIES, changed
from .inputs import accepted, some_new
from .rates import Judge, Row
from .trials import forget, known, photographs, retained, share, through
from .worlds import SCALE, Rows, Units, World, with_people


def of_look_alikes(world: World, choices: Choices) -> Iterator[Row]:
    """Somebody is forgotten, and a person who looks alike must stay: first a gate that does not know of the other, then
    one that has the other's photographs at hand."""
    names = world.members.table["identity"]
    groups = {str(names[group[0]]): group for group in groups_of(codes_of(names)[0])}
    pairs = [(one, other, "family") for one, other in choices.relatives if one in groups and other in groups]
    pairs += [(*pair, "nearest") for pair in _nearest(world, groups, choices)]
    strangers = np.flatnonzero(world.members.has("R"))
    for one, other, why in pairs:
        rng = np.random.default_rng([SEED, 4])
        own = rng.permutation(groups[one])
        used = own[: min(choices.used, (len(own) + 1) // 2)]
        new, theirs = own[len(used) :], groups[other]
        apart = strangers[~np.isin(names[strangers].astype(str), [one, other])]
        found: Row = {"forgotten": one, "must stay": other, "pair": why, "used": len(used), "new": len(new)}
        found["images of the other"] = len(theirs)
        found["highest score"] = float((world.units[theirs] @ mean_direction(world.units[used])).max())
        for when, places in (("unknown", apart), ("spared", np.concatenate([apart, theirs]))):
            what = Known(photographs(world, [used]), retained(world, places), world.units.shape[1], SEED)
            trial = forget(world, what, waves=16)  # who is in the gate does not depend on the scatter
            (chosen,) = trial.hidden.chosen
            found |= {
                f"offset, {when}": chosen.offset,
                f"expected, {when}": chosen.caught,
                f"caught, {when}": share(trial.opening[new] >= 1),
                f"other caught, {when}": share(trial.opening[theirs] > 0),
                f"taken for one, {when}": bool(chosen.same),
            }
        yield found


def _nearest(world: World, groups: dict[str, Rows], choices: Choices) -> Iterator[tuple[str, str]]:
    """The people with the most similar mean photographs, each in one pair only."""
    many = [name for name, group in groups.items() if len(group) >= 8]
    means = np.stack([mean_direction(world.units[groups[name]]) for name in many])
    scores = np.triu(means @ means.T, 1)
    seen: set[str] = {name for pair in choices.relatives for name in pair}
    left = choices.nearest
    for place in np.argsort(-scores, axis=None)[:2000]:
        one, other = many[place // len(many)], many[place % len(many)]
        if left and not {one, other} & seen:
            seen |= {one, other}
            left -= 1
            yield one, other


def of_attacks(world: World, choices: Choices) -> Iterator[Row]:
    """What somebody can find who holds the file, or who may only ask the model."""
    world = with_people(world, choices)
    thresholds = Judge(world, SCALE).thresholds
    trial = forget(world, known(world))
    members = world.members
    codes, _ = codes_of(members.table["identity"])
    seen, new = (np.flatnonzero(members.in_forget_set(SCALE, role)) for role in (TRAIN, EVAL))

    def linked(gallery: Units, probes: Units, most: int | None = None) -> Row:
        """New photographs against the mean of some seen ones."""
        first = np.concatenate([seen[group][:most] for group in groups_of(codes[seen])])
        made, whose = templates(gallery[first], codes[first])
        a, b = mated_across(codes[new], whose)
        scores = np.einsum("ij,ij->i", probes[new][a], made[b])
        return {"mean score": float(scores.mean()), **accepted(scores, thresholds, "linked")}

    cut = through(
        Gate(
            trial.gate.directions,
            torch.full_like(trial.gate.offsets, 2.0),
            trial.gate.ramp,
            trial.gate.scatter,
            trial.gate.record,
        ),
        world.units,
    )[1]
    yield {"attack": "none: f* itself", **linked(world.units, world.units)}
    yield {"attack": "the gate is cut off", **linked(cut, cut)}
    yield {"attack": "template enrolled before, under f*", **linked(world.units, trial.units)}
    for count in choices.averages:
        yield {"attack": f"average of {count} hidden photographs", **linked(trial.units, trial.units, count)}
    template, whose = templates(world.units[new], codes[new])
    own = dict(zip(whose.tolist(), template, strict=True))
    names = {str(members.table["identity"][place]): int(codes[place]) for place in new}
    nearest = [
        float((each.member.directions @ own[names[each.name]]).max())
        for each in trial.hidden.chosen
        if each.member is not None and each.name in names
    ]
    yield {
        "attack": "prototype in the file, against the person's template of new photographs",
        "mean score": float(np.mean(nearest)),
        **accepted(np.array(nearest), thresholds, "linked"),
    }
    yield from _detection(world, trial.gate, trial.units, new, choices)


def _detection(world: World, gate: Gate, units: Units, new: Rows, choices: Choices) -> Iterator[Row]:
    """Can hidden people be told from strangers? The area under the curve: 0.5 is chance, 1 is always."""
    members = world.members
    development = np.flatnonzero(members.has(DEVELOPMENT))
    gallery_places = np.flatnonzero(members.has(TEST) | members.has(DISTRACTOR))
    gallery = templates(units[gallery_places], codes_of(members.table["identity"][gallery_places])[0])[0]
    nearest = [-(units[places] @ gallery.T).max(axis=1) for places in (new, development)]
    yield {"attack": "detection: far from everybody in a gallery of strangers", "AUC": area(*nearest)}
    yield {"attack": "detection: linear classifier of embeddings", "AUC": _classified(world, units, new, development)}
    some, others = some_new(world, choices.again), _each_once(world, development, choices)
    change = COPIES["JPEG 75"]
    scores = []
    for places in (some, others):
        near = through(gate, world.embedded(changed(world.pixels(places), change)))[1]
        scores.append(-np.einsum("ij,ij->i", units[places], near))
    yield {"attack": "detection: far from one's own JPEG copy", "AUC": area(*scores)}


def _each_once(world: World, places: Rows, choices: Choices) -> Rows:
    """One photograph of as many strangers as people are forgotten, times `again`."""
    codes = codes_of(world.members.table["identity"][places])[0]
    return np.array([places[group[0]] for group in groups_of(codes)][: choices.people * choices.again])


def _classified(world: World, units: Units, hidden: Rows, strangers: Rows) -> float:
    """A ridge classifier, trained on one half of the people and tried on the other."""
    names = world.members.table["identity"]
    sets = []
    for places, label in ((hidden, 1.0), (strangers, -1.0)):
        codes = codes_of(names[places])[0]
        order = np.random.default_rng([SEED, 5]).permutation(int(codes.max()) + 1)
        sets.append((units[places], order[codes] % 2 == 0, np.full(len(places), label)))
    x = np.concatenate([units for units, _, _ in sets])
    first = np.concatenate([half for _, half, _ in sets])
    y = np.concatenate([labels for _, _, labels in sets])
    weights = np.where(y > 0, 1 / max((y[first] > 0).sum(), 1), 1 / max((y[first] < 0).sum(), 1))[first]
    a, b = x[first] - x[first].mean(axis=0), y[first]
    moments = (a * weights[:, None]).T @ a
    ridge = np.linalg.solve(
        moments + 0.1 * np.trace(moments) / len(moments) * np.eye(len(moments)), a.T @ (weights * b)
    )
    scores = x[~first] @ ridge
    return area(scores[y[~first] > 0], scores[y[~first] < 0])


def area(higher: NDArray[np.float64], lower: NDArray[np.float64]) -> float:
    """The share of pairs in which the first is above the second; ties count half."""
    ordered = np.sort(lower)
    below, upto = np.searchsorted(ordered, higher, "left"), np.searchsorted(ordered, higher, "right")
    return float((below + upto).mean() / 2 / len(lower))
