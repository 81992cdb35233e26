"""Studies of quantities: photographs of a person, people to forget, strangers that the gate may catch."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from damnatio.methods.closed_form import Known
from damnatio.partitions import EVAL
from damnatio.support.tables import codes_of, groups_of

from .choices import SEED, Choices
from .rates import Judge, Row
from .trials import Trial, forget, known, made, photographs, retained, row, share
from .worlds import SCALE, Rows, World, with_people, with_shares

ORIGINAL = "f*"
Counts = NDArray[np.int64]


def of_photographs(world: World, choices: Choices) -> Iterator[Row]:
    """Gates made of few and of many photographs of the same people, judged on the same new photographs. With strangers
    at hand, and without any: then the widths rest on the statistics of cosine models at large."""
    world = with_people(world, choices)
    judge = Judge(world, SCALE)
    yield {"used": 0, "at hand": "", **judge.rates(world.units)}
    for strangers in (True, False):
        for count in choices.counts:
            trial = forget(world, known(world, most=count, strangers=strangers))
            yield {
                "used": count,
                "at hand": "strangers" if strangers else "nobody",
                **_calibration(world, trial),
                **row(world, trial, judge),
            }


def _calibration(world: World, trial: Trial) -> Row:
    """How the share that the rule expects to catch agrees with the share caught, person by person."""
    members = world.members
    seen = members.in_forget_set(SCALE, EVAL)
    gaps = []
    for each in trial.hidden.chosen:
        own = trial.opening[seen & (members.table["identity"] == each.name)]
        gaps.append(each.caught - share(own >= 1))
    return {"expected - caught": float(np.mean(gaps)), "mean |expected - caught|": float(np.mean(np.abs(gaps)))}


def of_shares(world: World, choices: Choices) -> Iterator[Row]:
    """Ever larger shares of the population are forgotten; beside it HD, which fine-tunes f*, where it was computed."""
    world = with_shares(world)
    for scale, people in world.partitions.scales.items():
        judge = Judge(world, scale)
        common = {"share": float(scale[1:]) / 100, "people": people}
        yield {**common, "model": ORIGINAL, **judge.rates(world.units)}
        trial = forget(world, known(world, scale))
        yield {
            **common,
            "model": "GS",
            "bound": world.settings["strangers"],
            "photographs": float(np.median([len(each.used) for each in trial.hidden.chosen])),
            **row(world, trial, judge, scale),
        }
        if scale in world.tuned:
            yield {**common, "model": "HD", **judge.rates(world.tuned[scale])}


def of_widths(world: World, choices: Choices) -> Iterator[Row]:
    """The bound on strangers, from very narrow gates to very wide ones."""
    world = with_people(world, choices)
    judge = Judge(world, SCALE)
    yield {"bound": 0.0, **judge.rates(world.units)}
    draws = [_counted(world, choices, number) for number in range(choices.draws)]
    for place, bound in enumerate(choices.bounds):
        trial = forget(world, known(world), strangers=bound)
        inside, of = (np.array([draw[part] for draw in draws]) for part in (0, 1))
        yield {
            "bound": bound,
            **row(world, trial, judge),
            "strangers caught, all draws": float(inside[:, place].sum() / of.sum()),
            "strangers, all draws": int(of.sum()),
            "draws above the bound": share(inside[:, place] / of > bound),
        }


def _counted(world: World, choices: Choices, number: int) -> tuple[Counts, int]:
    """How many photographs of strangers a gate catches at each bound, and of how many, for one set of people to forget.
    Some of the others are at hand as strangers; all who are not, whom the rule never saw, are counted."""
    codes, _ = codes_of(world.members.table["identity"])
    everybody = list(groups_of(codes))
    many = [group for group in everybody if len(group) >= 4]
    rng = np.random.default_rng([SEED, 2, number])
    chosen = [many[place] for place in rng.permutation(len(many))[: choices.people]]
    names = {int(codes[group[0]]) for group in chosen}
    others = [group for group in everybody if int(codes[group[0]]) not in names]
    order = rng.permutation(len(others))
    at_hand = np.concatenate([others[place][:5] for place in order[: choices.at_hand]])
    unseen: Rows = np.concatenate([others[place][:5] for place in order[choices.at_hand :]])
    people = photographs(world, [group[: choices.used] for group in chosen])
    gate = made(world, Known(people, retained(world, at_hand), world.units.shape[1], SEED), waves=16).gate
    assert gate is not None
    scores = world.units[unseen] @ gate.directions.numpy().astype(np.float64).T
    counts = []
    for bound in choices.bounds:
        offsets = gate.record.model_copy(update={"strangers": bound}).offsets()
        counts.append(np.count_nonzero((scores > np.array(offsets)).any(axis=1)))
    return np.array(counts), len(unseen)
