"""The protocol on arrays: the same numbers as from a table of partitions, and what a missing role removes."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import damnatio
from damnatio.evaluation.arrays import Results, evaluate
from damnatio.evaluation.legacy import Embedded
from damnatio.evaluation.measuring import measure, reference_from
from damnatio.partitions import Partitions
from damnatio.protocol import split
from damnatio.protocol.roles import WORDS
from tests.evaluation.small_world import SCALES, compared, partitions, random_units


def test_it_gives_every_number_that_a_table_of_partitions_gives() -> None:
    table = partitions()
    (star, rows), (units, _) = random_units(table, 1), random_units(table, 2)
    first = measure(compared(table, star, rows, "S1"), [0.1], None)
    found = measure(compared(table, units, rows, "S1", Embedded(star, rows)), [0.1], reference_from(first))
    members = Partitions(table, SCALES).at(rows).members("S1")
    marks = members.bystanders.astype(bool)
    results = evaluate(
        units, members.identities, members.roles, before=star, fmr=[0.1], fpir=[0.1], bystanders=marks, seed=1
    )
    wanted = [row for row in found.results if row.count and not np.isnan(row.value)]
    assert len(results.rows["after"]) == len(wanted) > 100
    for ours, theirs in zip(results.rows["after"], wanted, strict=True):
        assert (ours.group, ours.metric, ours.value, ours.count) == (
            theirs.group,
            theirs.metric,
            theirs.value,
            theirs.count,
        )


@pytest.fixture(scope="module")
def world() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """120 people; f tells the first ten no longer from strangers."""
    rng = np.random.default_rng(0)
    people = np.repeat(np.arange(120), 8)
    before = rng.normal(size=(120, 24))[people] + 0.5 * rng.normal(size=(len(people), 24))
    after = before.copy()
    after[people < 10] = rng.normal(size=(80, 24))
    return before, after, people


def results_of(world: tuple[NDArray[np.float64], ...], without: tuple[str, ...] = ()) -> Results:
    before, after, people = world
    roles = split(people, forget=list(range(10)), retain=40)
    roles = np.where(np.isin(roles.astype(str), without), "-", roles)
    return evaluate(torch.from_numpy(after), people, roles, before=before, fmr=[1e-2], fpir=[0.05])


def test_the_forgotten_are_unlinked_and_others_recognised(world: tuple[NDArray[np.float64], ...]) -> None:
    results = results_of(world)
    rate, old = results["Fev-Fev", "TMR", 1e-2], results["before", "Fev-Fev", "TMR", 1e-2]
    assert rate.low <= rate.value <= rate.high
    assert rate.value < 0.2 < 0.9 < old.value
    assert rate.count == 10 * 6
    assert results["T", "TMR", 1e-2].value > 0.9
    assert results["Fev-Fev", "W1"].value < 0.1
    assert results.table.num_rows == len(results.rows["after"]) + len(results.rows["before"])
    text = str(results)
    assert "forgotten: two new photographs are linked" in text
    assert "1:N: FPIR = 0.05 rests on" in text
    with pytest.raises(KeyError, match=r"no number .*; of this group there are"):
        results["Fev-Fev", "TMR", 0.5]


def test_a_missing_role_removes_its_numbers_and_nothing_else(world: tuple[NDArray[np.float64], ...]) -> None:
    whole = results_of(world)
    least = results_of(world, tuple(word for word in WORDS if word not in ("development", "forget-eval")))
    assert least["Fev-Fev", "TMR", 1e-2] == whole["Fev-Fev", "TMR", 1e-2]
    groups = {row.group for row in least.rows["after"]}
    assert not [row for row in least.rows["after"] if row.metric in ("TMR_eer", "threshold_eer", "footprint")]
    assert not groups & {"R", "T", "T single", "Ftr-Ftr", "Ftr-Fev", "avg(Ftr)-Fev", "RxR", "TxT", "FtrxFtr"}
    for without in WORDS[:-1]:
        if without != "development":
            found = results_of(world, (without,))
            same = {row.metric for row in found.rows["after"] if row.group == "D" and row.task == "1:1"}
            assert "threshold" in same
    with pytest.raises(ValueError, match="no 'development' image"):
        results_of(world, ("development",))
    with pytest.raises(ValueError, match="nobody is to be forgotten"):
        results_of(world, ("forget-train", "forget-eval"))


def test_what_cannot_be_measured_is_refused_in_a_sentence(world: tuple[NDArray[np.float64], ...]) -> None:
    _, after, people = world
    roles = split(people, forget=10, retain=40)
    with pytest.raises(ValueError, match=r"after wants one embedding per image, \[960, d\]"):
        evaluate(after[:5], people, roles)
    broken = after.copy()
    broken[7] = 0
    with pytest.raises(ValueError, match="after has no direction in row 7"):
        evaluate(broken, people, roles)
    with pytest.raises(ValueError, match=r"'forget' is no role of an image. Did you mean 'forget-"):
        evaluate(after, people, ["forget"] * len(people))
    with pytest.raises(damnatio.DamnatioError, match=r"call damnatio.recheck"):
        evaluate("embeddings.safetensors", people, roles)


def test_roles_are_drawn_by_names_or_by_number() -> None:
    people = [f"n{i:02d}" for i in range(60) for _ in range(6)] + ["lonely"]
    roles = split(people, forget=["n03", "n17"], retain=10, seed=3)
    mine = {name: roles[[i for i, p in enumerate(people) if p == name]].tolist() for name in ("n03", "lonely")}
    assert sorted(mine["n03"]) == ["forget-eval"] * 3 + ["forget-train"] * 3
    assert mine["lonely"] == ["distractor"]
    drawn = split(people, forget=4, retain=10)
    assert len({p for p, role in zip(people, drawn, strict=True) if role == "forget-train"}) == 4
    assert sorted(set(roles)) == sorted(set(WORDS) - {"bystander", "-"})
    with pytest.raises(ValueError, match="whom no image shows"):
        split(people, forget=["n99"])
    with pytest.raises(ValueError, match="bring more people"):
        split(people, forget=2, retain=57)
