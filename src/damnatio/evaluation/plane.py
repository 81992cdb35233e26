"""Some people's photographs as points of a plane: who lies near whom under one model.

A few forget identities and a few who stay are chosen by the seed. Their embeddings are laid out by t-SNE (van der
Maaten and Hinton, 2008), which puts near what is alike, and says nothing of how far apart two groups are. The layout of
an altered model begins with that of f*: whoever keeps his neighbours stays where he was.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.scanning import Units
from damnatio.evaluation.sets import KEPT as GROUPS
from damnatio.partitions import Partitions
from damnatio.protocol import roles
from damnatio.protocol.roles import Members
from damnatio.support.tables import Table, codes_of, groups_of

FILE = "plane.parquet"
FORGOTTEN, KEPT = 8, 16
"""identities of the forget set, and of each group that stays"""
SEEN, UNSEEN, IMAGES = 8, 6, 6
"""images of a forget identity that a method saw and that it did not see, and of one who stays"""
NEIGHBOURS = 8.0
"""the perplexity: about as many as a person has images"""
FIRST_STEPS, LATER_STEPS, EXAGGERATED = 1500, 500, 150
FACTOR = 12.0
"""by which the first steps of f* exaggerate the attraction"""

Points = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Plane:
    """Images by their rows in `faces.parquet`, and the place of each."""

    rows: Rows
    points: Points


def write_plane(
    units: Units, rows: Rows, partitions: Partitions, scale: str, seed: int, start: Path | None, to: Path
) -> None:
    """Lay out the chosen images and write them as a table; `start` is the table of f*."""
    members = partitions.at(rows).members(scale)
    chosen, kinds = _choose(members, np.random.default_rng([seed, 10]))
    before = None
    if start is not None:
        table = Table.read(start)
        known = {row: (x, y) for row, x, y in zip(table["row"], table["x"], table["y"], strict=True)}
        kept = np.array([row in known for row in rows[chosen].tolist()], bool)
        chosen, kinds = chosen[kept], kinds[kept]
        before = np.array([known[row] for row in rows[chosen].tolist()]).reshape(-1, 2)
    points = lay_out(np.asarray(units[chosen], np.float64), before)
    columns = {
        "row": rows[chosen],
        "image": members.images[chosen],
        "identity": members.identities[chosen],
        "kind": kinds,
    }
    Table({**columns, "x": points[:, 0], "y": points[:, 1]}).write(to)


def _choose(members: Members, rng: np.random.Generator) -> tuple[Rows, NDArray[np.object_]]:
    """Places of the chosen images among the rows, and what each is: `seen` or `unseen` of the forget set, `retain`,
    `test`."""
    groups = {
        "seen": (members.has(roles.SEEN), SEEN),
        "unseen": (members.has(roles.NEW), UNSEEN),
        "retain": (members.has(roles.RETAIN, *GROUPS["R"]), IMAGES),
        "test": (members.has(*GROUPS["T"]), IMAGES),
    }
    identities = members.identities
    forgotten = _some(identities[groups["seen"][0] | groups["unseen"][0]], FORGOTTEN, rng)
    people = {"seen": forgotten, "unseen": forgotten}
    people |= {kind: _some(identities[groups[kind][0]], KEPT, rng) for kind in ("retain", "test")}
    places, kinds = [np.zeros(0, np.int64)], []
    for kind, (mask, most) in groups.items():
        mine = np.flatnonzero(mask & np.isin(identities, list(people[kind])))
        for group in groups_of(codes_of(identities[mine])[0]):
            taken = mine[np.sort(rng.permutation(group)[:most])]
            places.append(taken)
            kinds += [kind] * len(taken)
    return np.concatenate(places), np.array(kinds, object)


def _some(identities: NDArray[np.object_], most: int, rng: np.random.Generator) -> set[str]:
    """So many of the identities that have more than one image here, or all."""
    codes, names = codes_of(identities)
    several = names[np.bincount(codes, minlength=len(names)) > 1]
    return set(rng.permutation(several)[:most].tolist())


# --- the layout -----------------------------------------------------------------------------------------------------


def lay_out(units: Units, start: Points | None = None) -> Points:
    """A place in the plane for each unit vector. Only a layout of the same size is a start that keeps its places, so
    whoever draws several chooses the size for all of them."""
    if len(units) < 4:
        return np.zeros((len(units), 2)) if start is None else start
    alike = _affinities(2 - 2 * np.clip(units @ units.T, -1, 1))
    if start is not None:
        return _descended(alike, start, 0, LATER_STEPS)
    centred = units - units.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    spread = left[:, :2] * sizes[:2]
    spread *= np.sign(spread[np.abs(spread).argmax(axis=0), [0, 1]])  # an axis may come out either way round
    return _descended(alike, 1e-2 * spread / max(spread.std(), 1e-12), EXAGGERATED, FIRST_STEPS)


def _affinities(distances: Points) -> Points:
    """How alike each two points are: Gaussian weights whose width gives each point the same perplexity, made symmetric;
    their sum is 1."""
    count = len(distances)
    target = np.log(min(NEIGHBOURS, (count - 1) / 3))
    low, high, beta = np.zeros(count), np.full(count, np.inf), np.ones(count)
    others = ~np.eye(count, dtype=bool)
    for _ in range(60):
        weights = np.exp(-distances * beta[:, None]) * others
        sums = np.maximum(weights.sum(axis=1), 1e-300)
        entropy = np.log(sums) + beta * (distances * weights).sum(axis=1) / sums
        broad = entropy > target
        low, high = np.where(broad, beta, low), np.where(broad, high, beta)
        beta = np.where(np.isinf(high), beta * 2, (low + high) / 2)
    alike = weights / sums[:, None]
    return np.asarray(np.maximum((alike + alike.T) / (2 * count), 1e-12))


def gradient(alike: Points, points: Points) -> Points:
    """Of the divergence of the affinities of the points (Student's t, one degree of freedom) from `alike`."""
    squares = (points**2).sum(axis=1)
    student = 1 / (1 + np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0))
    np.fill_diagonal(student, 0)
    pull = (alike - student / student.sum()) * student
    return np.asarray(4 * (pull.sum(axis=1)[:, None] * points - pull @ points))


def _descended(alike: Points, points: Points, exaggerated: int, steps: int) -> Points:
    """Gradient descent with momentum and a gain for each coordinate, as in the reference implementation."""
    points, speed, gains = points.copy(), np.zeros_like(points), np.ones_like(points)
    rate = max(len(points) / FACTOR / 4, 5.0)
    for step in range(steps):
        slope = gradient(alike * FACTOR if step < exaggerated else alike, points)
        gains = np.maximum(np.where(np.sign(slope) == np.sign(speed), gains * 0.8, gains + 0.2), 0.01)
        momentum = 0.5 if step < exaggerated else 0.8
        speed = momentum * speed - rate * gains * slope
        points = points + speed
        points -= points.mean(axis=0)
    return points
