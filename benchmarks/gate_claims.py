"""Does what `erase` says hold on photographs and strangers that it never saw?

usage: python benchmarks/gate_claims.py NAME=EMBEDDINGS.npz ... [--draws N] [--out FOLDER]

Each file has `embeddings` [n, d] and `names` [n] under one model. In each draw some people are hidden by
1 to 19 photographs, with 250 strangers at hand. Their other photographs, and all other strangers, are the
truth. Nothing was chosen by the result: the rules are those of `erasure/verdict.py`.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from damnatio.erasure.gating import plan
from damnatio.erasure.held_out import Trial, measured
from damnatio.erasure.people import Person
from damnatio.erasure.verdict import FORGOTTEN, LEAST, LINKED, PERSON, on_person, upper
from damnatio.methods.gate_and_scatter import GateAndScatter
from damnatio.methods.strangers import Strangers
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import codes_of

COUNTS = (1, 2, 4, 8, 12, 19)
PEOPLE, AT_HAND, REST = 8, 250, 6
"""people of a draw; strangers at hand; the fewest photographs of a person that are the truth"""
HEAD = (
    "world", "photographs", "people", "hidden, truth", "hidden, least of 9 in 10 people", "called forgotten",
    "of these beyond .25 in truth", "pairs linked, held out", "pairs linked, truth", "strangers touched, reported",
    "bound", "strangers touched, truth", "refused",
)  # fmt: skip


@dataclass(frozen=True)
class World:
    name: str
    units: NDArray[np.float64]
    names: NDArray[np.str_]

    @staticmethod
    def read(name: str, file: Path) -> "World":
        with np.load(file) as content:
            raw, names = content["embeddings"].astype(np.float64), content["names"].astype(str)
        return World(name, raw / np.linalg.norm(raw, axis=1, keepdims=True), names)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("worlds", nargs="+", metavar="NAME=FILE")
    words.add_argument("--draws", type=int, default=5)
    words.add_argument("--out", type=Path, default=Path("results/gate-and-scatter"))
    given = words.parse_args()
    rows = [row for each in given.worlds for row in studied(World.read(*_parted(each)), given.draws)]
    lines = ["| " + " | ".join(HEAD) + " |", "|" + " --- |" * len(HEAD)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    (given.out / "claims.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def _parted(words: str) -> tuple[str, Path]:
    name, _, file = words.partition("=")
    return name, Path(file)


def studied(world: World, draws: int) -> Iterator[list[str]]:
    names, counts = np.unique(world.names, return_counts=True)
    for count in COUNTS:
        able = names[counts >= count + REST]
        if len(able) < PEOPLE:
            continue
        sums, shares, refused = Sums(), [], 0
        for draw in range(draws):
            rng = np.random.default_rng([count, draw])
            try:
                shares += drawn(world, rng.choice(able, PEOPLE, replace=False), count, rng, sums)
            except DamnatioError:
                refused += 1
        yield sums.row(world.name, count, shares, refused)


@dataclass
class Sums:
    people: int = 0
    forgotten: int = 0
    wrong: int = 0
    held: int = 0
    held_linked: int = 0
    pairs: int = 0
    linked: int = 0
    reported: int = 0
    photographs: int = 0
    bound: float = 0.0
    strangers: int = 0
    touched: int = 0

    def row(self, name: str, count: int, shares: list[float], refused: int) -> list[str]:
        draws = max(self.people // PEOPLE, 1)
        least = f"{np.quantile(shares, 0.1, method='lower'):.3f}" if shares else ""
        return [
            name, str(count), str(self.people), f"{np.mean(shares):.3f}" if shares else "", least, str(self.forgotten),
            str(self.wrong), f"{self.held_linked} of {self.held}", f"{self.linked} of {self.pairs}",
            f"{self.reported} of {self.photographs}", f"{self.bound / draws:.4f}",
            f"{self.touched} of {self.strangers}", str(refused),
        ]  # fmt: skip


def drawn(world: World, hidden: NDArray[np.str_], count: int, rng: np.random.Generator, sums: Sums) -> list[float]:
    """One draw: adds to the sums, and gives the true share of hidden photographs of each person."""
    people, rest = [], {}
    for name in hidden:
        rows = rng.permutation(np.flatnonzero(world.names == name))
        people.append(_person(str(name), world.units[rows[:count]]))
        rest[str(name)] = world.units[rows[count:]]
    others = rng.permutation(np.setdiff1d(np.unique(world.names), hidden))
    at_hand, fresh = _strangers(world, others[:AT_HAND]), _strangers(world, others[AT_HAND:])
    method, dim = GateAndScatter(GateAndScatter.Settings(method="GS")), world.units.shape[1]
    planned = plan(method, people, at_hand, dim=dim, seed=0, statistics=None, gate=None)
    gate = measured(Trial(method, dim, 0, None, None), planned, 0.9)
    level = _level(fresh)
    held = {entry.pseudonym: entry.held for entry in gate.record.people}
    touched, shares = gate.record.touched, []
    assert touched is not None
    with torch.inference_mode():
        inside = gate.opening(torch.from_numpy(fresh.units.astype(np.float32))) > 0
    sums.strangers, sums.touched = sums.strangers + len(inside), sums.touched + int(inside.sum())
    sums.reported, sums.photographs = sums.reported + touched.touched, sums.photographs + touched.photographs
    sums.bound += touched.bound
    for chosen in planned.hidden.chosen:
        assert chosen.member is not None
        mine = held[chosen.member.entry.pseudonym]
        assert mine is not None
        raw = torch.from_numpy(rest[chosen.name].astype(np.float32))
        with torch.inference_mode():
            shares.append(float((gate.opening(raw) >= 1).double().mean()))
            after = gate(raw).double().numpy()
        after /= np.linalg.norm(after, axis=1, keepdims=True)
        scores = (after @ after.T)[np.triu_indices(len(after), 1)]
        linked = int((scores >= level).sum())
        sums.people += 1
        if mine.pairs >= LEAST and on_person(mine).verdict == FORGOTTEN:
            assert upper(mine.linked, mine.pairs) <= PERSON
            sums.forgotten, sums.wrong = sums.forgotten + 1, sums.wrong + (linked > PERSON * len(scores))
        sums.held, sums.held_linked = sums.held + mine.pairs, sums.held_linked + mine.linked
        sums.pairs, sums.linked = sums.pairs + len(scores), sums.linked + linked
    return shares


def _person(name: str, units: NDArray[np.float64]) -> Person:
    images = [f"{name}/{place:03d}" for place in range(len(units))]
    return Person(name, images, np.arange(len(units)), np.arange(len(units)), units)


def _strangers(world: World, names: NDArray[np.str_]) -> Strangers:
    rows = np.flatnonzero(np.isin(world.names, names))
    codes, kept = codes_of(np.array([f"retain/{name}" for name in world.names[rows]], dtype=object))
    return Strangers(world.units[rows], codes, [str(name) for name in kept])


def _level(fresh: Strangers) -> float:
    """The score that 1 in 10,000 pairs of fresh strangers exceeds, counted: one photograph of each."""
    units = fresh.units[[group[0] for group in fresh.groups][:3000]]
    scores = (units @ units.T)[np.triu_indices(len(units), 1)]
    return float(np.quantile(scores, 1 - LINKED, method="higher"))


if __name__ == "__main__":
    main()
