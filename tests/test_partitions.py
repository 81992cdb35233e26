"""Who plays which part: the promises of the draw, and its counts against a recount."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.errors import DamnatioError
from damnatio.partitions import at_scale, counts, draw, retain_set, write
from damnatio.recipe import PartitionSettings
from damnatio.tables import Table

SCALES = {"S1": 2, "S2": 5}
SETTINGS = PartitionSettings(
    retain=10, control=4, test=3, development=4, distractors=6, scales=SCALES, min_images=4, forget_min_images=5
)


def captures(seed: int = 0, identities: int = 36) -> Table:
    """Identities of one to fourteen images; one image in eight is another of its capture instance."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 15, identities)
    sizes[: identities // 2] += 6
    names = [f"p{i:02d}" for i in range(identities) for _ in range(sizes[i])]
    images = [f"p{i:02d}/{j:02d}.png" for i in range(identities) for j in range(sizes[i])]
    return Table({"image": images, "identity": names, "kept": rng.random(len(names)) > 1 / 8})


def by_identity(table: Table) -> dict[str, list[dict[str, object]]]:
    people: dict[str, list[dict[str, object]]] = {}
    for row in table.rows():
        people.setdefault(row["identity"], []).append(row)
    return people


def members(table: Table, partition: str) -> set[str]:
    return set(table["identity"][table["partition"] == partition])


@pytest.fixture
def table() -> Table:
    return draw(captures(), SETTINGS, seed=1)


def test_table_has_a_row_for_every_image(table: Table) -> None:
    assert table["row"].tolist() == list(range(len(captures())))
    assert table["image"].tolist() == captures()["image"].tolist()
    assert table["identity"].tolist() == captures()["identity"].tolist()


def test_partitions_share_no_identity_and_have_the_counts_asked_for(table: Table) -> None:
    sizes = {part: len(members(table, part)) for part in "RTDGF-"}
    assert sizes == {"R": 10, "T": 3, "D": 4, "G": 6, "F": 5, "-": 36 - 28}
    assert sum(sizes.values()) == len(set(table["identity"]))
    for rows in by_identity(table).values():
        for column in ("partition", "control", "scale", "label"):
            assert len({row[column] for row in rows}) == 1


def test_control_is_part_of_retain(table: Table) -> None:
    control = set(table["identity"][table["control"]])
    assert len(control) == 4
    assert control < members(table, "R")


def test_identities_compared_have_enough_images() -> None:
    for seed in range(10):
        table = draw(captures(), SETTINGS, seed)
        kept = dict(zip(captures()["image"], captures()["kept"], strict=True))
        for rows in by_identity(table).values():
            if rows[0]["partition"] in ("T", "D") or rows[0]["control"]:
                assert len(rows) >= 4
            if rows[0]["partition"] == "F":
                assert sum(kept[row["image"]] for row in rows) >= 5


def test_small_scale_is_inside_the_large_one(table: Table) -> None:
    small, large = (set(table["identity"][at_scale(table, SCALES, scale)]) for scale in ("S1", "S2"))
    assert len(small) == 2
    assert len(large) == 5
    assert small < large == members(table, "F")
    assert set(table["identity"][table["scale"] == "S1"]) == small
    assert set(table["scale"][table["partition"] != "F"]) == {""}


def test_scales_are_nested_whatever_the_order_they_are_named_in() -> None:
    turned = SETTINGS.model_copy(update={"scales": {"S2": 5, "S1": 2}})
    assert draw(captures(), turned, seed=1).rows() == draw(captures(), SETTINGS, seed=1).rows()


def test_same_seed_same_table_and_another_seed_another() -> None:
    once = draw(captures(), SETTINGS, seed=1).rows()
    assert once == draw(captures(), SETTINGS, seed=1).rows()
    assert once != draw(captures(), SETTINGS, seed=2).rows()


def test_first_half_enrols_and_the_rest_probes(table: Table) -> None:
    for rows in by_identity(table).values():
        roles = [row["role"] for row in rows]
        if rows[0]["partition"] == "T" or rows[0]["control"]:
            half = len(rows) // 2
            assert roles == ["enrol"] * half + ["probe"] * (len(rows) - half)
        elif rows[0]["partition"] != "F":
            assert set(roles) == {""}


def test_forget_images_are_split_after_the_others_of_an_instance_are_dropped() -> None:
    kept = dict(zip(captures()["image"], captures()["kept"], strict=True))
    dropped = 0
    for seed in range(5):
        for rows in by_identity(draw(captures(), SETTINGS, seed)).values():
            if rows[0]["partition"] == "F":
                roles = Counter(row["role"] for row in rows)
                single = sum(kept[row["image"]] for row in rows)
                assert roles["eval"] == round(0.2 * single)
                assert roles["train"] == single - roles["eval"]
                assert all((row["role"] == "dropped") != kept[row["image"]] for row in rows)
                dropped += roles["dropped"]
    assert dropped > 0


def forget_of(size: int, train: float = 0.8) -> Counter[object]:
    """The roles of a forget identity of so many capture instances."""
    sizes = [size, *([4] * 5)]
    names = [f"p{i}" for i, n in enumerate(sizes) for _ in range(n)]
    images = [f"{name}/{k}" for k, name in enumerate(names)]
    # only the first identity may be drawn: the others have one capture instance
    kept = [name == "p0" or names.index(name) == k for k, name in enumerate(names)]
    tiny = PartitionSettings(
        retain=1,
        control=1,
        test=1,
        development=2,
        distractors=1,
        scales={"S1": 1},
        forget_min_images=2,
        forget_train=train,
    )
    table = draw(Table({"image": images, "identity": names, "kept": kept}), tiny, seed=0)
    assert members(table, "F") == {"p0"}
    return Counter(table["role"][table["partition"] == "F"])


@pytest.mark.parametrize(
    ("size", "train", "evaluated"),
    [(2, 2, 0), (3, 2, 1), (4, 3, 1), (5, 4, 1), (7, 6, 1), (8, 6, 2), (10, 8, 2), (20, 16, 4)],
)
def test_split_of_80_to_20(size: int, train: int, evaluated: int) -> None:
    assert forget_of(size) == Counter({"train": train, "eval": evaluated})


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("size", [2, 3, 4, 9])
def test_every_forget_identity_has_a_train_image(size: int, share: float) -> None:
    """An identity too small to fill both parts contributes forget-train comparisons only (IV-C)."""
    assert forget_of(size, share)["train"] >= 1


def test_labels_of_retain_identities_are_contiguous(table: Table) -> None:
    people = by_identity(table)
    labels = {name: rows[0]["label"] for name, rows in people.items() if rows[0]["partition"] == "R"}
    assert sorted(labels.values(), key=str) == sorted(range(10), key=str)
    assert set(table["label"][table["partition"] != "R"]) == {-1}
    rows, classes = retain_set(table)
    assert rows.tolist() == [r for r, part in enumerate(table["partition"]) if part == "R"]
    assert classes.tolist() == [labels[table["identity"][row]] for row in rows]


def test_counts_against_a_recount(table: Table) -> None:
    people = by_identity(table)
    for said in counts(table, SCALES).rows():
        inside = {"S1"} if said["scale"] == "S1" else {"S1", "S2"}
        expected: Counter[str] = Counter()
        for rows in people.values():
            part, control = rows[0]["partition"], rows[0]["control"]
            roles = [row["role"] for row in rows]
            train, evaluated, probes = roles.count("train"), roles.count("eval"), roles.count("probe")
            expected["T"] += part == "T"
            expected["D"] += part == "D"
            expected["Distr."] += part == "G"
            expected["R trained"] += part == "R"
            if control:
                expected["R"] += 1
                expected["mated R"] += probes
            if part == "T":
                expected["mated T"] += probes
            if part == "F" and rows[0]["scale"] in inside:
                expected["F"] += 1
                expected["mated F tr-tr"] += sum(1 for i in range(train) for _ in range(i))
                expected["mated F ev-ev"] += sum(1 for i in range(evaluated) for _ in range(i))
                expected["mated F tr-ev"] += train * evaluated
                expected["mated F tr->ev"] += evaluated
                expected["F images dropped"] += roles.count("dropped")
                expected["F train only"] += evaluated == 0
        assert {name: value for name, value in said.items() if name != "scale"} == {
            name: expected[name] for name in said if name != "scale"
        }
    assert [row["scale"] for row in counts(table, SCALES).rows()] == ["S1", "S2"]


@pytest.mark.parametrize(
    ("setting", "change", "words"),
    [
        ("test", {"test": 99}, "99 test identities with at least 4 images"),
        ("development", {"development": 99}, "99 development identities with at least 4 images"),
        ("scales.S1", {"scales": {"S1": 99}}, "99 forget identities with at least 5 capture instances"),
        ("distractors", {"distractors": 99}, "99 distractors"),
        ("retain", {"retain": 99}, "95 further retain identities"),
        ("control", {"retain": 99, "control": 99}, "99 retain control identities"),
    ],
)
def test_too_few_identities_are_told_with_the_number_needed(
    setting: str, change: dict[str, object], words: str
) -> None:
    """Which setting asks for how many, how many there are, and how many the whole recipe needs."""
    wanted = SETTINGS.model_copy(update=change)
    total = wanted.retain + wanted.test + wanted.development + wanted.distractors + max(wanted.scales.values())
    with pytest.raises(DamnatioError) as told:
        draw(captures(), wanted, seed=1)
    assert words in str(told.value)
    assert f"needs {total:,} identities in all" in str(told.value)
    assert "of 36" in str(told.value)
    assert f"partitions.{setting} asks for" in str(told.value)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_any_draw_is_disjoint_and_complete(faces: int, seed: int) -> None:
    table = draw(captures(faces), SETTINGS, seed)
    parts = [members(table, part) for part in "RTDGF"]
    assert [len(part) for part in parts] == [10, 3, 4, 6, 5]
    assert len(set.union(*parts)) == 28


def test_written_tables_say_who_is_too_small_to_split(tmp_path: Path) -> None:
    small = SETTINGS.model_copy(update={"forget_min_images": 2})
    few = captures()
    people = sorted(set(few["identity"]))
    kept = few["kept"].copy()
    for name in people:  # everybody has two capture instances at most
        rows = np.flatnonzero(few["identity"] == name)
        kept[rows] = np.arange(len(rows)) < 2
    table = draw(few.with_columns(kept=kept), small, seed=1)
    write(table, SCALES, tmp_path)
    assert Table.read(tmp_path / "partitions.parquet").rows() == table.rows()
    assert json.loads((tmp_path / "train_only.json").read_text()) == sorted(members(table, "F"))
    said = json.loads((tmp_path / "counts.json").read_text())
    assert said == Table.read(tmp_path / "counts.parquet").rows() == counts(table, SCALES).rows()
    assert [row["F train only"] for row in said] == [2, 5]


def test_who_asks_for_fewer_images_is_drawn_after_who_asks_for_more() -> None:
    """Everybody with two images or more has a part, and the development set and the distractors are of one image."""
    sizes = [1] * 12 + [2] * 5 + [3] * 2 + [4] * 6 + [9] * 3
    names = [f"p{i:02d}" for i, size in enumerate(sizes) for _ in range(size)]
    images = [f"p{i:02d}/{j}.png" for i, size in enumerate(sizes) for j in range(size)]
    faces = Table({"image": images, "identity": names, "kept": np.ones(len(names), dtype=bool)})
    settings = PartitionSettings(
        retain=7,
        control=7,
        test=7,
        test_min_images=2,
        development=8,
        development_min_images=1,
        distractors=4,
        scales={"S1": 2},
        forget_min_images=9,
    )
    for seed in range(5):
        table = draw(faces, settings, seed)
        counted = {part: sorted(Counter(table["identity"][table["partition"] == part]).values()) for part in "FRTDG-"}
        assert counted == {
            "F": [9, 9],
            "R": [4, 4, 4, 4, 4, 4, 9],
            "T": [2, 2, 2, 2, 2, 3, 3],
            "D": [1] * 8,
            "G": [1] * 4,
            "-": [],
        }
        assert len({name for name, role in zip(table["identity"], table["role"], strict=True) if role == "probe"}) == 14
