"""Studies of what comes in: near copies of a photograph, degraded photographs, half precision."""

import copy
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from damnatio.evaluation.comparing import mated_across, mated_pairs, templates
from damnatio.models.gate import Gate
from damnatio.partitions import EVAL, TEST, TRAIN
from damnatio.support.tables import codes_of, groups_of

from .choices import SEED, Choices
from .copies import COPIES, DEGRADED, changed
from .rates import Judge, Row
from .trials import caught, forget, known, row, share, through
from .worlds import SCALE, Rows, Units, World, with_people

Thresholds = dict[float, float]


def some_new(world: World, most: int) -> Rows:
    """Places of at most so many new photographs of each forgotten person."""
    new = np.flatnonzero(world.members.in_forget_set(SCALE, EVAL))
    groups = groups_of(codes_of(world.members.table["identity"][new])[0])
    return np.concatenate([new[group][:most] for group in groups])


def accepted(scores: NDArray[np.float64], thresholds: Thresholds, name: str) -> Row:
    return {f"{name} {point:g}": share(scores >= threshold) for point, threshold in thresholds.items()}


def of_scatter(world: World, choices: Choices) -> Iterator[Row]:
    """Bandwidths and numbers of waves: photographs of different capture instances must come apart, and the near copies
    of one photograph may stay together."""
    world = with_people(world, choices)
    judge = Judge(world, SCALE)
    thresholds = judge.thresholds
    new = some_new(world, choices.again)
    images = world.pixels(new)
    near = {name: world.embedded(changed(images, change)) for name, change in COPIES.items()}
    bursts = _bursts(world)
    standard = world.settings
    tries = [(width, int(standard["waves"])) for width in choices.bandwidths]
    tries += [(float(standard["bandwidth"]), waves) for waves in choices.waves if waves != standard["waves"]]
    for bandwidth, waves in tries:
        trial = forget(world, known(world), bandwidth=bandwidth, waves=waves)
        found: Row = {"bandwidth": bandwidth, "waves": waves, **row(world, trial, judge)}
        for name, units in near.items():
            scores = np.einsum("ij,ij->i", trial.units[new], through(trial.gate, units)[1])
            found |= accepted(scores, thresholds, name) | {f"{name} score": float(scores.mean())}
        if bursts is not None:
            first, second = (through(trial.gate, units)[1] for units in bursts)
            scores = np.einsum("ij,ij->i", first, second)
            found |= accepted(scores, thresholds, "burst") | {
                "bursts": len(scores),
                "burst score": float(scores.mean()),
            }
        yield found


def _bursts(world: World) -> tuple[Units, Units] | None:
    """Pairs of images of one capture instance of forgotten people; None if the collection has none. Of each burst one
    image was dropped before; it is embedded here."""
    table = world.partitions.table
    names = set(world.members.table["identity"][world.members.in_forget_set(SCALE)])
    rows = np.flatnonzero(np.isin(table["identity"].astype(str), sorted(names)))
    codes = codes_of(table["identity"][rows])[0] * (int(world.captures.max()) + 1) + world.captures[rows]
    pairs = [rows[group][:2] for group in groups_of(codes) if len(group) > 1]
    if not pairs:
        return None
    images = world.faces.read(np.concatenate(pairs))
    units = world.embedded(images)
    return units[::2], units[1::2]


def of_degraded(world: World, choices: Choices) -> Iterator[Row]:
    """Degraded probes: what f* still links, what the gate still catches, and what f links. A photograph that f* itself
    cannot place escapes the gate, and links nobody."""
    world = with_people(world, choices)
    thresholds = Judge(world, SCALE).thresholds
    trial = forget(world, known(world))
    members = world.members
    new, seen = some_new(world, choices.again), np.flatnonzero(members.in_forget_set(SCALE, TRAIN))
    others = _some_test(world, choices)
    codes, _ = codes_of(members.table["identity"])
    images, strange = world.pixels(new), world.pixels(others)
    for name, change in {"none": lambda image: image, **DEGRADED}.items():
        units = world.embedded(changed(images, change))
        apart = world.embedded(changed(strange, change))
        opening, mapped = through(trial.gate, units)
        found: Row = {"degraded by": name, "caught": share(opening >= 1), "in the gate": share(opening > 0)}
        found["test caught"] = share(through(trial.gate, apart)[0] > 0)
        different = np.triu(codes[new][:, None] != codes[new][None, :], 1)
        found |= accepted((units @ units.T)[different], thresholds, "f*: different people")
        for model, probes, clean in (("f*", units, world.units), ("f", mapped, trial.units)):
            template, whose = templates(clean[seen], codes[seen])
            a, b = mated_across(codes[new], whose)
            averaged = np.einsum("ij,ij->i", probes[a], template[b])
            i, j = mated_pairs(codes[new])
            single = np.einsum("ij,ij->i", probes[i], probes[j])
            found |= accepted(averaged, thresholds, f"{model}: template") | accepted(
                single, thresholds, f"{model}: pair"
            )
        yield found


def _some_test(world: World, choices: Choices) -> Rows:
    """One photograph of each of some test people."""
    test = np.flatnonzero(world.members.has(TEST))
    groups = [test[group][:1] for group in groups_of(codes_of(world.members.table["identity"][test])[0])]
    order = np.random.default_rng([SEED, 3]).permutation(len(groups))[: choices.bystanders]
    return np.concatenate([groups[place] for place in order])


def of_precision(world: World, choices: Choices) -> Iterator[Row]:
    """The gate in half precision: its embeddings rounded, and all of its arithmetic."""
    world = with_people(world, choices)
    judge = Judge(world, SCALE)
    trial = forget(world, known(world))
    seen = world.members.in_forget_set(SCALE)
    single = world.units.astype(np.float32)
    rounded = single.astype(np.float16)
    half = copy.deepcopy(trial.gate).half()
    ways = {
        "float32": _mapped(trial.gate, torch.from_numpy(single)),
        "embeddings rounded to float16": _mapped(trial.gate, torch.from_numpy(rounded.astype(np.float32))),
        "gate in float16": _mapped(half, torch.from_numpy(rounded)),
    }
    exact = ways["float32"][1]
    for name, (opening, mapped) in ways.items():
        outside = opening <= 0
        yield {
            "precision": name,
            **caught(world, opening),
            **judge.rates(mapped),
            "largest difference outside": float(np.abs(mapped - exact)[outside].max()),
            "least cosine, forgotten": float(np.einsum("ij,ij->i", mapped, exact)[seen].min()),
            "other side of the gate": share((opening > 0) != (ways["float32"][0] > 0)),
        }


def _mapped(gate: Gate, units: torch.Tensor) -> tuple[Units, Units]:
    """g and f of vectors in the precision that they have. Outside the gate a vector stays as it is."""
    with torch.inference_mode():
        opening = gate.opening(units / units.norm(dim=1, keepdim=True))[:, 0].double().numpy()
        mapped = units.double().numpy()
        inside = np.flatnonzero(opening > 0)
        mapped[inside] = gate(units[torch.from_numpy(inside)]).double().numpy()
    return opening, mapped / np.linalg.norm(mapped, axis=1, keepdims=True)
