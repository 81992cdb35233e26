"""The draw of the partitions against its promises, its counts against a recount, and the rows that stages read."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.partitions import Partitions, counts, draw
from damnatio.recipe.schema import PartitionSettings
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table

SCALES = {"S1": 2, "S2": 5}
SETTINGS = PartitionSettings(
    retain=10,
    control=4,
    test=3,
    development=4,
    distractors=6,
    scales=SCALES,
    min_images=4,
    forget_min_images=5,
    order="scarcest-first",
)
FIRST = SETTINGS.model_copy(update={"order": "retain-first"})


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
    return draw(captures(), SETTINGS, seed=1).table


def test_table_has_one_row_per_image(table: Table) -> None:
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
        table = draw(captures(), SETTINGS, seed).table
        kept = dict(zip(captures()["image"], captures()["kept"], strict=True))
        for rows in by_identity(table).values():
            if rows[0]["partition"] in ("T", "D") or rows[0]["control"]:
                assert len(rows) >= 4
            if rows[0]["partition"] == "F":
                assert sum(kept[row["image"]] for row in rows) >= 5


def test_small_scale_is_inside_the_large_one(table: Table) -> None:
    small, large = (set(table["identity"][Partitions(table, SCALES).in_forget_set(scale)]) for scale in ("S1", "S2"))
    assert len(small) == 2
    assert len(large) == 5
    assert small < large == members(table, "F")
    assert set(table["identity"][table["scale"] == "S1"]) == small
    assert set(table["scale"][table["partition"] != "F"]) == {""}


def test_scales_are_nested_whatever_the_order_they_are_named_in() -> None:
    turned = SETTINGS.model_copy(update={"scales": {"S2": 5, "S1": 2}})
    assert draw(captures(), turned, seed=1).table.rows() == draw(captures(), SETTINGS, seed=1).table.rows()


def test_same_seed_same_table_and_another_seed_another() -> None:
    once = draw(captures(), SETTINGS, seed=1).table.rows()
    assert once == draw(captures(), SETTINGS, seed=1).table.rows()
    assert once != draw(captures(), SETTINGS, seed=2).table.rows()


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
        for rows in by_identity(draw(captures(), SETTINGS, seed).table).values():
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
        order="scarcest-first",
    )
    table = draw(Table({"image": images, "identity": names, "kept": kept}), tiny, seed=0).table
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
    rows, classes = Partitions(table, SCALES).retain()
    assert rows.tolist() == [r for r, part in enumerate(table["partition"]) if part == "R"]
    assert classes.tolist() == [labels[table["identity"][row]] for row in rows]


def test_counts_against_a_recount(table: Table) -> None:
    people = by_identity(table)
    for said in counts(Partitions(table, SCALES)).rows():
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
                expected["mated T single"] += sum(1 for i in range(len(rows)) for _ in range(i))
            marked = sum(bool(row["bystander"]) for row in rows)
            if part == "F" and rows[0]["scale"] not in inside:  # forgotten at S2, a bystander at S1
                marked = train + evaluated
            expected["B"] += marked > 0
            expected["mated B"] += sum(1 for i in range(marked) for _ in range(i))
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
    assert [row["scale"] for row in counts(Partitions(table, SCALES)).rows()] == ["S1", "S2"]


# --- what the stages read, row by row --------------------------------------------------------------------------------


@pytest.fixture
def nested() -> Partitions:
    """Three scales, named against the order of their sizes."""
    scales = {"small": 2, "huge": 6, "middle": 4}
    return draw(captures(), SETTINGS.model_copy(update={"scales": scales}), seed=1)


def test_forget_set_of_a_scale_holds_those_of_the_smaller_ones(nested: Partitions) -> None:
    inside = {"small": {"small"}, "middle": {"small", "middle"}, "huge": {"small", "middle", "huge"}}
    for scale, names in inside.items():
        forget = [row["partition"] == "F" and row["scale"] in names for row in nested.table.rows()]
        assert nested.in_forget_set(scale).tolist() == forget
        assert len(set(nested.table["identity"][nested.in_forget_set(scale)])) == nested.scales[scale]
        for role in ("train", "eval", "dropped"):
            wanted = [inside and row["role"] == role for inside, row in zip(forget, nested.table.rows(), strict=True)]
            assert nested.in_forget_set(scale, role).tolist() == wanted


def test_mask_of_a_partition_row_by_row(nested: Partitions) -> None:
    rows = nested.table.rows()
    for partition in "RTDGF-":
        assert nested.has(partition).tolist() == [row["partition"] == partition for row in rows]
    probes = [row["partition"] == "T" and row["role"] == "probe" for row in rows]
    assert nested.has("T", "probe").tolist() == probes


def test_forget_gives_train_images_only_and_numbers_their_identities(nested: Partitions) -> None:
    for scale in nested.scales:
        inside = nested.in_forget_set(scale)
        wanted = [row for row in nested.table.rows() if inside[row["row"]] and row["role"] == "train"]
        people = sorted({row["identity"] for row in wanted})
        rows, codes = nested.forget(scale)
        assert rows.tolist() == [row["row"] for row in wanted]
        assert codes.tolist() == [people.index(row["identity"]) for row in wanted]
        assert len(people) == nested.scales[scale]


def test_training_reads_all_retain_images_and_the_train_images_of_every_scale(nested: Partitions) -> None:
    wanted = set()
    for row in nested.table.rows():
        if row["partition"] == "R" or (row["partition"] == "F" and row["role"] == "train"):
            wanted.add(row["row"])
    found = nested.trained().tolist()
    assert set(found) == wanted
    assert len(found) == len(wanted)


def test_evaluation_reads_the_images_that_it_compares(nested: Partitions) -> None:
    inside = {"": {"small", "middle", "huge"}, "small": {"small"}, "middle": {"small", "middle"}}
    for scale, names in inside.items():
        wanted = []
        for row in nested.table.rows():
            compared = {
                "T": True,
                "D": True,
                "G": True,
                "R": row["role"] in ("enrol", "probe"),
                "F": row["role"] in ("train", "eval") and row["scale"] in names,
                "-": False,
            }
            if compared[row["partition"]]:
                wanted.append(row["row"])
        assert nested.evaluated(scale).tolist() == wanted


def test_partitions_at_some_rows_keep_their_order(nested: Partitions) -> None:
    some = nested.at(np.array([5, 0, 3]))
    assert some.table["row"].tolist() == [5, 0, 3]
    assert some.has("F").tolist() == nested.has("F")[[5, 0, 3]].tolist()
    assert some.scales == nested.scales


# --- pools -----------------------------------------------------------------------------------------------------------

POOLS = {"F": "people", "R": "retain", "T": "retain", "D": "others"}


def pooled() -> Table:
    """Everybody is in one of three pools, whose names sort otherwise than the people's."""
    table = captures(identities=90)
    number = np.array([int(name[1:]) for name in table["identity"]])
    return table.with_columns(pool=np.array(["retain", "people", "others"], dtype=object)[number % 3])


def test_each_partition_is_drawn_from_its_pool() -> None:
    table = draw(pooled(), SETTINGS.model_copy(update={"pools": POOLS}), seed=1).table
    for partition, pool in {**POOLS, "G": "retain"}.items():
        assert set(pooled()["pool"][table["partition"] == partition]) == {pool}
    assert {part: len(members(table, part)) for part in "RTDGF"} == {"R": 10, "T": 3, "D": 4, "G": 6, "F": 5}


def test_partition_that_names_no_pool_is_drawn_from_that_of_retain_or_from_all() -> None:
    table = draw(pooled(), SETTINGS.model_copy(update={"pools": {"R": "others"}}), seed=1).table
    assert set(pooled()["pool"][table["partition"] != "-"]) == {"others"}
    table = draw(pooled(), SETTINGS.model_copy(update={"pools": {"F": "people"}}), seed=1).table
    assert set(pooled()["pool"][table["partition"] == "F"]) == {"people"}
    assert set(pooled()["pool"][table["partition"] == "R"]) == {"people", "retain", "others"}


def test_draw_numbers_identities_by_pool_and_then_by_name() -> None:
    """As if the pool stood before the name."""
    table = pooled()
    names = [f"{pool}/{name}" for pool, name in zip(table["pool"], table["identity"], strict=True)]
    before = Table({"image": table["image"], "identity": names, "kept": table["kept"]})
    drawn, wanted = (draw(faces, SETTINGS, seed=1).table for faces in (table, before))
    assert drawn.with_columns(identity=names).rows() == wanted.rows()


def test_pool_that_the_faces_do_not_have_is_refused() -> None:
    wanted = SETTINGS.model_copy(update={"pools": {"R": "retained"}})
    with pytest.raises(DamnatioError, match=r"partitions\.pools\.R: .* no pool 'retained'\. Did you mean 'retain'\?"):
        draw(pooled(), wanted, seed=1)
    with pytest.raises(DamnatioError, match=r"the faces have no pool 'retained'\. Take 'source: collection'"):
        draw(captures(), wanted, seed=1)


def test_pool_with_too_few_identities_is_named() -> None:
    wanted = SETTINGS.model_copy(update={"pools": POOLS, "development": 31, "development_min_images": 1})
    with pytest.raises(DamnatioError, match=r"asks for 31 .* and 30 are left of 30 in the pool 'others'"):
        draw(pooled(), wanted, seed=1)


# --- bystanders ------------------------------------------------------------------------------------------------------


def bystanders(table: Table) -> dict[str, set[str]]:
    """The names of the marked images of each bystander."""
    found: dict[str, set[str]] = {}
    for row in table.rows():
        if row["bystander"]:
            found.setdefault(row["identity"], set()).add(row["image"])
    return found


def kept_images(faces: Table) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in faces.rows():
        if row["kept"]:
            found.setdefault(row["identity"], set()).add(row["image"])
    return found


def test_bystanders_are_the_test_identities_that_could_have_been_forgotten() -> None:
    """Of their images, those kept of their capture instances count."""
    others, many = 0, SETTINGS.model_copy(update={"forget_min_images": 9})
    for seed in range(10):
        table, kept = draw(captures(), many, seed).table, kept_images(captures())
        test = members(table, "T")
        wanted = {name: kept[name] for name in test if len(kept.get(name, ())) >= 9}
        assert bystanders(table) == wanted
        others += len(test) - len(wanted)
    assert others > 0


def test_whoever_is_forgotten_at_a_larger_scale_only_is_a_bystander_at_the_smaller_one() -> None:
    drawn = draw(captures(), SETTINGS, 1)
    images, names = drawn.table["image"], drawn.table["identity"]
    beyond = drawn.in_forget_set("S2") & ~drawn.in_forget_set("S1")
    for scale, wanted in (("S1", set(names[beyond])), ("S2", set())):
        added = drawn.bystanders(scale) & ~drawn.bystanders()
        assert set(names[added]) == wanted
    kept = {image for name in set(names[beyond]) for image in kept_images(captures())[name]}
    assert set(images[drawn.bystanders("S1") & ~drawn.bystanders()]) == kept


DRAWN = {
    "F": ["p02", "p03", "p19", "p21", "p25"],
    "T": ["p07", "p18", "p28"],
    "D": ["p04", "p11", "p20", "p29"],
    "eval": [
        *("p02/04.png", "p02/10.png", "p03/06.png", "p03/07.png", "p19/00.png", "p19/03.png"),
        *("p19/12.png", "p21/02.png", "p21/10.png", "p25/01.png", "p25/12.png"),
    ],
}
"""what version 0.2.0 drew, which knew no bystanders"""


def test_bystanders_change_no_other_partition() -> None:
    table = draw(captures(), SETTINGS, seed=1).table
    assert sorted(members(table, "F")) == DRAWN["F"]
    assert sorted(members(table, "T")) == DRAWN["T"]
    assert sorted(members(table, "D")) == DRAWN["D"]
    evaluated = table["image"][(table["role"] == "eval").astype(bool)].tolist()
    assert evaluated == DRAWN["eval"]


def test_everybody_left_in_the_pool_of_bystanders_is_one() -> None:
    """Who has two capture instances. Nobody else's partition, role or label depends on that."""
    faces = pooled()
    lone = (faces["identity"] == "p01") & (np.cumsum(faces["identity"] == "p01") > 1)  # p01 has one capture instance
    faces = faces.with_columns(kept=faces["kept"] & ~lone)
    plain, named = (
        draw(faces, SETTINGS.model_copy(update={"pools": pools}), seed=1) for pools in (POOLS, {**POOLS, "B": "people"})
    )
    kept, pool = kept_images(faces), dict(zip(faces["identity"], faces["pool"], strict=True))
    left = {name for name in members(plain.table, "-") if pool[name] == "people"}
    wanted = {name for name in left if len(kept.get(name, ())) >= 2}
    assert wanted
    assert wanted < left
    assert members(named.table, "B") == wanted
    assert bystanders(named.table) == {name: kept[name] for name in wanted}
    for before, now in zip(plain.table.rows(), named.table.rows(), strict=True):
        same = {name: value for name, value in before.items() if name not in ("partition", "bystander")}
        assert same == {name: now[name] for name in same}
        assert now["partition"] == ("B" if now["identity"] in wanted else before["partition"])
    assert set(named.trained().tolist()) == set(plain.trained().tolist())
    marked = {row["row"] for row in named.table.rows() if row["bystander"]}
    assert set(named.evaluated().tolist()) == set(plain.evaluated().tolist()) | marked


def test_test_identities_of_another_pool_than_the_forgotten_are_no_bystanders() -> None:
    table = draw(pooled(), SETTINGS.model_copy(update={"pools": POOLS}), seed=1).table
    assert not bystanders(table)
    assert counts(Partitions(table, SCALES)).rows()[-1]["mated B"] == 0
    beside = {**POOLS, "T": "people"}
    table = draw(pooled(), SETTINGS.model_copy(update={"pools": beside}), seed=1).table
    assert set(bystanders(table)) <= members(table, "T")
    assert bystanders(table)


def test_pool_of_bystanders_that_the_faces_do_not_have_is_refused() -> None:
    with pytest.raises(DamnatioError, match=r"partitions\.pools\.B: the faces have no pool 'peple'\. Did you mean"):
        draw(pooled(), SETTINGS.model_copy(update={"pools": {"B": "peple"}}), seed=1)


def test_table_of_an_older_version_has_no_bystanders(tmp_path: Path) -> None:
    drawn = draw(captures(), SETTINGS, seed=1)
    drawn.write(tmp_path)
    again = Partitions.read(tmp_path / "partitions.parquet")
    assert again.bystanders().tolist() == drawn.bystanders().tolist()
    assert again.bystanders().any()
    older = Table({name: values for name, values in drawn.table.columns.items() if name != "bystander"})
    older.write(tmp_path / "older.parquet", Table.read_metadata(tmp_path / "partitions.parquet"))
    assert not Partitions.read(tmp_path / "older.parquet").bystanders().any()
    drawn.table.with_columns(bystander=["yes"] * len(drawn.table)).write(tmp_path / "text.parquet")
    with pytest.raises(DamnatioError, match="the column 'bystander' must hold true or false"):
        Partitions.read(tmp_path / "text.parquet")


# --- what cannot be drawn or read ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scales", ['{"S1": Infinity, "S2": 5}', "[" * 20_000, "[2, 5]", '{"S1": "two"}'])
def test_sizes_of_scales_that_are_no_numbers_are_refused(tmp_path: Path, table: Table, scales: str) -> None:
    table.write(tmp_path / "p.parquet", {"scales": scales})
    with pytest.raises(DamnatioError, match="the sizes of its scales are not readable"):
        Partitions.read(tmp_path / "p.parquet")


def test_table_without_forget_identities_is_refused(tmp_path: Path, table: Table) -> None:
    partition = table["partition"].copy()
    partition[partition == "F"] = "-"
    table.with_columns(partition=partition).write(tmp_path / "p.parquet")
    with pytest.raises(DamnatioError, match="has no forget identities"):
        Partitions.read(tmp_path / "p.parquet")


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
def test_too_few_identities_are_reported_with_the_number_needed(
    setting: str, change: dict[str, object], words: str
) -> None:
    """Which setting asks for how many, how many there are, and how many the whole recipe needs."""
    wanted = SETTINGS.model_copy(update=change)
    total = wanted.retain + wanted.test + wanted.development + wanted.distractors + max(wanted.scales.values())
    with pytest.raises(DamnatioError) as raised:
        draw(captures(), wanted, seed=1)
    assert words in str(raised.value)
    assert f"needs {total:,} identities in all" in str(raised.value)
    assert "of 36" in str(raised.value)
    assert f"partitions.{setting} asks for" in str(raised.value)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_any_draw_is_disjoint_and_complete(faces: int, seed: int) -> None:
    table = draw(captures(faces), SETTINGS, seed).table
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
    drawn = draw(few.with_columns(kept=kept), small, seed=1)
    drawn.write(tmp_path)
    table = drawn.table
    again = Partitions.read(tmp_path / "partitions.parquet")
    assert (again.table.rows(), again.scales) == (table.rows(), SCALES)
    assert Table.read(tmp_path / "partitions.parquet").rows() == table.rows()
    assert json.loads((tmp_path / "train_only.json").read_text()) == sorted(members(table, "F"))
    said = json.loads((tmp_path / "counts.json").read_text())
    assert said == Table.read(tmp_path / "counts.parquet").rows() == counts(Partitions(table, SCALES)).rows()
    assert [row["F train only"] for row in said] == [2, 5]


def test_partition_that_asks_for_fewer_images_is_drawn_later() -> None:
    """Everybody with two images or more is needed elsewhere, so development set and distractors have one image each."""
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
        order="scarcest-first",
    )
    for seed in range(5):
        table = draw(faces, settings, seed).table
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


# --- who is drawn first ----------------------------------------------------------------------------------------------


def crowd(seed: int) -> Table:
    """Four hundred people; a third of them have twelve images, the others five, each its own capture instance."""
    sizes = np.where(np.random.default_rng(seed).random(400) < 1 / 3, 12, 5)
    names = [f"p{i:03d}" for i, size in enumerate(sizes) for _ in range(size)]
    images = [f"{name}/{k}" for k, name in enumerate(names)]
    return Table({"image": images, "identity": names, "kept": np.ones(len(names), dtype=bool)})


def share_of_well_covered(table: Table, partition: str) -> float:
    sizes = Counter(table["identity"][table["partition"] == partition]).values()
    return sum(size == 12 for size in sizes) / len(sizes)


def test_every_partition_is_a_fair_sample_if_the_retain_set_is_drawn_first() -> None:
    """In the mean: retain of everybody, and the others of whom the forget set leaves. Drawn in one order for all, the
    test set would be what the forget set passed over."""
    large = PartitionSettings(
        retain=200, control=50, test=30, development=40, distractors=50, scales={"S1": 30}, forget_min_images=10
    )
    surplus: dict[str, list[float]] = {part: [] for part in "RTDG"}
    passed_over = []
    for seed in range(30):
        faces = crowd(seed)
        table = draw(faces, large, seed).table
        assert [len(members(table, part)) for part in "RTDGF"] == [200, 30, 40, 50, 30]
        assert share_of_well_covered(table, "F") == 1
        sizes = Counter(faces["identity"])
        well = sum(size == 12 for size in sizes.values())
        left = [sizes[name] for part in "TDG-" for name in members(table, part)]
        surplus["R"].append(share_of_well_covered(table, "R") - well / 400)
        for part in "TDG":
            surplus[part].append(share_of_well_covered(table, part) - sum(size == 12 for size in left) / len(left))
        scarce = draw(faces, large.model_copy(update={"order": "scarcest-first"}), seed).table
        passed_over.append(share_of_well_covered(scarce, "T"))
    for found in surplus.values():
        assert abs(np.mean(found)) < 4 * np.std(found) / math.sqrt(len(found))
    assert np.mean(passed_over) < 0.02


def test_retain_set_drawn_first_depends_on_nothing_but_its_size_and_the_seed() -> None:
    """Another forget set leaves f* its training set, and so f* as it is."""
    retain = members(draw(captures(), FIRST, seed=4).table, "R")
    others = FIRST.model_copy(update={"scales": {"S1": 3}, "forget_min_images": 7, "test": 2, "distractors": 1})
    assert members(draw(captures(), others, seed=4).table, "R") == retain


def test_draw_with_the_retain_set_first_keeps_every_promise() -> None:
    kept = kept_images(captures())
    for seed in range(10):
        try:
            table = draw(captures(), FIRST, seed).table
        except DamnatioError as error:
            assert "scarcest-first" in str(error)  # noqa: PT017 - a small world may run short of people
            continue
        assert [len(members(table, part)) for part in "RTDGF"] == [10, 3, 4, 6, 5]
        control = set(table["identity"][table["control"]])
        assert len(control) == 4
        assert control < members(table, "R")
        for rows in by_identity(table).values():
            if rows[0]["partition"] in ("T", "D") or rows[0]["control"]:
                assert len(rows) >= 4
            if rows[0]["partition"] == "F":
                assert len(kept[str(rows[0]["identity"])]) >= 5


def test_retain_set_of_controls_alone_can_be_drawn_first() -> None:
    """As on LFW, where most people have one image: the control takes whom it needs, wherever they are in the order."""
    sizes = [1] * 80 + [6] * 20
    names = [f"p{i:02d}" for i, size in enumerate(sizes) for _ in range(size)]
    images = [f"{k}" for k in range(len(names))]
    faces = Table({"image": images, "identity": names, "kept": np.ones(len(names), dtype=bool)})
    few = FIRST.model_copy(update={"control": 10, "scales": {"S1": 2}, "development_min_images": 1})
    table = draw(faces, few, seed=1).table
    assert Counter(Counter(table["identity"][table["control"]]).values()) == {6: 10}
    with pytest.raises(DamnatioError, match=r"21 retain control.* and 20 are left .* set partitions\.order: scarcest"):
        draw(faces, few.model_copy(update={"retain": 30, "control": 21}), seed=1)


def test_images_before_deduplication_can_be_what_admits_a_forget_identity() -> None:
    """So identities too small to split occur, as the paper says; one capture instance is never enough."""
    sizes, instances = [12] * 8 + [4] * 22, [12, 12, 2, 2, 2, 1, 1, 1] + [4] * 22
    names = [f"p{i:02d}" for i, size in enumerate(sizes) for _ in range(size)]
    kept = [k < count for size, count in zip(sizes, instances, strict=True) for k in range(size)]
    faces = Table({"image": [f"{k}" for k in range(len(names))], "identity": names, "kept": kept})
    counted = SETTINGS.model_copy(update={"forget_min_images": 10, "forget_counts": "images"})
    table = draw(faces, counted, seed=1).table
    assert members(table, "F") == {"p00", "p01", "p02", "p03", "p04"}
    (row,) = [row for row in counts(Partitions(table, SCALES)).rows() if row["scale"] == "S2"]
    assert row["F train only"] == 3
    with pytest.raises(DamnatioError, match="5 forget identities with at least 10 capture instances, and 2 are left"):
        draw(faces, counted.model_copy(update={"forget_counts": "instances"}), seed=1)
    with pytest.raises(DamnatioError, match="6 forget identities with at least 10 images, and 5 are left"):
        draw(faces, counted.model_copy(update={"scales": {"S1": 6}}), seed=1)
