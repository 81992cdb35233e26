"""Tables: what is written is what is read, and a bad file is told in a sentence."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table, codes_of


def sample() -> Table:
    return Table(
        {
            "image": ["b/1", "a/2", "Größe/ü.png"],
            "row": [3, -1, 2**40],
            "value": [0.1, math.nan, -math.inf],
            "kept": [True, False, True],
            "role": ["", "eval", ""],
        }
    )


def test_table_reads_back_as_written(tmp_path: Path) -> None:
    sample().write(tmp_path / "t.parquet")
    read = Table.read(tmp_path / "t.parquet")
    assert list(read.columns) == ["image", "row", "value", "kept", "role"]
    assert len(read) == 3
    for name, column in sample().columns.items():
        assert read[name].dtype == column.dtype, name
        assert np.array_equal(read[name], column, equal_nan=name == "value"), name
    assert list(tmp_path.iterdir()) == [tmp_path / "t.parquet"]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
rows = st.lists(st.tuples(texts, st.integers(-(2**62), 2**62), st.floats(), st.booleans()), min_size=1, max_size=8)


@settings(deadline=None, max_examples=50)
@given(rows)
def test_any_table_reads_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]]
) -> None:
    path = tmp_path_factory.mktemp("tables") / "t.parquet"
    table = Table.of_rows(["text", "whole", "real", "flag"], rows)
    table.write(path)
    read = Table.read(path)
    for name in ("text", "whole", "flag"):
        assert read[name].tolist() == table[name].tolist()
    assert np.array_equal(read["real"], table["real"], equal_nan=True)


def test_read_column_of_truths_is_a_mask(tmp_path: Path) -> None:
    sample().write(tmp_path / "t.parquet")
    read = Table.read(tmp_path / "t.parquet")
    assert read.where(read["kept"])["row"].tolist() == [3, 2**40]
    assert read.where(~read["kept"])["row"].tolist() == [-1]


def test_some_columns_can_be_read_alone(tmp_path: Path) -> None:
    sample().write(tmp_path / "t.parquet")
    assert list(Table.read(tmp_path / "t.parquet", ["row", "kept"]).columns) == ["row", "kept"]


def test_missing_table_is_told(tmp_path: Path) -> None:
    with pytest.raises(DamnatioError, match=r"There is no table .*gone\.parquet: run the stage"):
        Table.read(tmp_path / "gone.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not a table at all", b"PAR1" + bytes(200) + b"PAR1"])
def test_corrupt_table_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    with pytest.raises(DamnatioError, match=r"bad\.parquet is not a readable Parquet table"):
        Table.read(path)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_truncated_table_is_told(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "bad.parquet"
    sample().write(path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    with pytest.raises(DamnatioError, match="not a readable Parquet table"):
        Table.read(path)


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(DamnatioError, match=r"t\.parquet is not a readable Parquet table") as told:
        Table.read(tmp_path / "t.parquet")
    assert "\n" not in str(told.value)


def test_rows_that_take_no_room_are_not_believed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.nulls(3_000_000)}), tmp_path / "t.parquet")
    with pytest.raises(DamnatioError, match=r"t\.parquet claims 3,000,000 rows in [\d,]+ bytes"):
        Table.read(tmp_path / "t.parquet")


def test_columns_of_numbered_values_are_those_values(tmp_path: Path) -> None:
    """As pandas writes categories, all of them missing among them."""
    texts = pa.array(["x", "y", "x"]).dictionary_encode()
    none = pa.nulls(3, pa.dictionary(pa.int32(), pa.string()))
    pq.write_table(pa.table({"a": texts, "b": none}), tmp_path / "t.parquet")
    assert Table.read(tmp_path / "t.parquet")["a"].tolist() == ["x", "y", "x"]
    assert Table.read(tmp_path / "t.parquet")["b"].tolist() == [None] * 3


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        Table({"a": [1, 2], "b": [1]})


def test_rows_and_columns_are_two_views_of_one_table() -> None:
    table = Table.of_rows(["name", "n"], [("x", 1), ("y", 2)])
    assert table.rows() == [{"name": "x", "n": 1}, {"name": "y", "n": 2}]
    assert table["name"].tolist() == ["x", "y"]
    assert table["name"].dtype == object


def test_where_takes_a_mask_or_places() -> None:
    table = sample()
    assert table.where(np.array([True, False, True]))["row"].tolist() == [3, 2**40]
    assert table.where(np.array([2, 0, 0]))["row"].tolist() == [2**40, 3, 3]
    assert len(table.where(np.zeros(3, dtype=bool))) == 0


def test_joined_tables_stand_one_after_the_other() -> None:
    table = Table({"name": ["x"], "n": [1]})
    longer = Table({"n": [2], "name": ["a longer name"]})
    assert Table.joined([table, longer]).rows() == [{"name": "x", "n": 1}, {"name": "a longer name", "n": 2}]


def test_new_columns_are_added_and_old_ones_replaced() -> None:
    table = Table({"n": [1, 2]}).with_columns(n=[3, 4], name=["x", "y"])
    assert table.rows() == [{"n": 3, "name": "x"}, {"n": 4, "name": "y"}]


def test_table_of_no_rows_reads_back(tmp_path: Path) -> None:
    Table.of_rows(["image", "reason"], []).write(tmp_path / "t.parquet")
    read = Table.read(tmp_path / "t.parquet")
    assert list(read.columns) == ["image", "reason"]
    assert read.rows() == []


def test_codes_are_places_among_the_sorted_values() -> None:
    codes, values = codes_of(np.array(["b", "a", "b", "c"], dtype=object))
    assert codes.tolist() == [1, 0, 1, 2]
    assert values.tolist() == ["a", "b", "c"]


@settings(deadline=None, max_examples=50)
@given(st.lists(texts, max_size=12))
def test_codes_of_strings_are_those_that_numpy_finds(values: list[str]) -> None:
    column = np.array(values, dtype=object)
    codes, distinct = codes_of(column)
    wanted, inverse = np.unique(column, return_inverse=True)
    assert distinct.tolist() == wanted.tolist() == sorted(set(values))
    assert codes.tolist() == inverse.tolist()


def test_equal_strings_of_a_table_read_are_one_object(tmp_path: Path) -> None:
    """At millions of rows and a few identities, a string a row would take more memory than all else."""
    Table({"identity": ["an identity", "another", "an identity"]}).write(tmp_path / "t.parquet")
    first, other, again = Table.read(tmp_path / "t.parquet")["identity"]
    assert first is again
    assert first is not other


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(texts, st.integers(-3, 3)), min_size=1, max_size=12))
def test_rows_are_sorted_as_python_sorts_them(rows: list[tuple[str, int]]) -> None:
    table = Table.of_rows(["name", "number"], rows).sorted_by("name", "number")
    assert list(zip(table["name"], table["number"], strict=True)) == sorted(rows)
