"""Numbers from stored embeddings alone: those of the evaluation stage, and a sentence for what cannot be measured."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from damnatio.embedding import FILE
from damnatio.evaluation import rechecking
from damnatio.evaluation.measuring import Measured
from damnatio.evaluation.rates import COLUMNS
from damnatio.evaluation.rechecking import Setup, differences, original_of
from damnatio.evaluation.score_files import read_scores
from damnatio.partitions import COLUMNS as NEEDED
from damnatio.partitions import TEST, TEXTS
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.recipe.schema import Recipe
from damnatio.support.arrays import save_tensors
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table
from damnatio.workspace import Workspace
from tests.conftest import TINY

pytestmark = pytest.mark.cli

SETTINGS = [*TINY, "forget.methods=[HD]", "evaluate.replicates=30"]


@dataclass
class Run:
    recipe: Recipe
    protocol: Path
    embeddings: dict[str, Path]
    evaluations: dict[str, Path]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Evaluated to the end, once for all tests of this file."""
    recipe = load("demo", SETTINGS)
    pipeline = Pipeline(recipe, Workspace(tmp_path_factory.mktemp("whole") / "run"))
    labels = ("original", "HD")
    return Run(
        recipe,
        pipeline.partitions().path / "partitions.parquet",
        {label: pipeline.embeddings("S1", label).path / FILE for label in labels},
        {label: pipeline.evaluation("S1", label).path for label in labels},
    )


def recheck(
    recipe: Recipe,
    embeddings: Path,
    protocol: Path,
    scale: str,
    original: Path | None,
    folder: Path,
    scores: Path | None = None,
) -> Measured:
    setup = Setup(partitions=protocol, seed=recipe.seed, settings=recipe.evaluate, scale=scale)
    star = original_of(original, setup) if original else None
    return rechecking.recheck(embeddings, setup, original=star, folder=folder, scores=scores)


def assert_same_table(a: Path, b: Path) -> None:
    left, right = Table.read(a), Table.read(b)
    assert list(left.columns) == list(right.columns)
    for name, column in left.columns.items():
        if column.dtype.kind == "f":
            assert np.array_equal(column, right[name], equal_nan=True), name
        else:
            assert column.tolist() == right[name].tolist(), name


@pytest.mark.parametrize("label", ["original", "HD"])
def test_every_number_of_the_evaluation_again(run: Run, label: str, tmp_path: Path) -> None:
    original = None if label == "original" else run.embeddings["original"]
    found = recheck(run.recipe, run.embeddings[label], run.protocol, "S1", original, tmp_path / "new" / "folder")
    stored = run.evaluations[label]
    for name in ("results.parquet", "curves.parquet"):
        assert_same_table(tmp_path / "new/folder" / name, stored / name)
    assert (tmp_path / "new/folder/warnings.json").read_bytes() == (stored / "warnings.json").read_bytes()
    for name in ("sketches.safetensors", "retain_scores.safetensors"):
        mine, theirs = load_file(tmp_path / "new/folder" / name), load_file(stored / name)
        assert {key: value.tolist() for key, value in mine.items()} == {k: v.tolist() for k, v in theirs.items()}
    assert len(found.results) == len(Table.read(stored / "results.parquet"))
    assert list(Table.read(stored / "results.parquet").columns) == list(COLUMNS)
    footprint = [result.value for result in found.results if result.metric == "footprint"]
    assert (footprint == [0.0]) == (label == "original")


def test_smallest_scale_is_meant_where_none_is_named(run: Run, tmp_path: Path) -> None:
    recheck(run.recipe, run.embeddings["original"], run.protocol, "", None, tmp_path)
    assert_same_table(tmp_path / "results.parquet", run.evaluations["original"] / "results.parquet")


def test_score_files_hold_every_comparison(run: Run, tmp_path: Path) -> None:
    """What bob would count from the files is what the results say."""
    found = recheck(run.recipe, run.embeddings["HD"], run.protocol, "S1", None, tmp_path, tmp_path / "scores")
    at = {(r.group, r.operating_point, r.metric): r for r in found.results if r.task == "1:1"}
    for target in run.recipe.evaluate.operating_points:
        threshold = at["D", target, "threshold"].value
        for file, mated, nonmated in (("T", "T", "TxT"), ("FtrxFtr", "Ftr-Ftr", "FtrxFtr"), ("R", "R", "RxR")):
            scores = read_scores(tmp_path / "scores" / f"{file}.csv")
            for group, metric, these in ((mated, "TMR", scores.mated), (nonmated, "FMR", ~scores.mated)):
                result = at[group, target, metric]
                assert int(these.sum()) == result.count, (file, group)
                assert float(np.mean(scores.scores[these] >= threshold)) == pytest.approx(result.value, abs=1e-12)
    table = Table.read(run.protocol)
    listed = read_scores(tmp_path / "scores/D.csv")
    assert not listed.mated[listed.scores < -2].any()
    assert listed.probes is not None
    assert set(listed.probes.values) <= set(table["image"])


def without_one(run: Run) -> dict[str, NDArray[Any]]:
    """The embeddings of f* without an image of a test identity, which every scale compares."""
    stored = load_file(run.embeddings["original"])
    tested = Table.read(run.protocol)["partition"][stored["rows"]] == TEST
    return {name: np.delete(array, np.flatnonzero(tested)[0], axis=0) for name, array in stored.items()}


def test_embeddings_that_lack_an_image_are_told(run: Run, tmp_path: Path) -> None:
    save_file(without_one(run), tmp_path / FILE)
    with pytest.raises(DamnatioError, match=r"lacks 1 images that the protocol compares at S1, \S+ first"):
        recheck(run.recipe, tmp_path / FILE, run.protocol, "S1", None, tmp_path)


def test_original_that_lacks_an_image_is_told(run: Run, tmp_path: Path) -> None:
    save_file(without_one(run), tmp_path / FILE)
    setup = Setup(partitions=run.protocol, seed=run.recipe.seed, settings=run.recipe.evaluate, scale="S1")
    whole = original_of(run.embeddings["original"], setup)
    with pytest.raises(DamnatioError, match=rf"{tmp_path / FILE} lacks 1 images that the protocol compares at S1"):
        rechecking.recheck(run.embeddings["HD"], setup, original=replace(whole, embeddings=tmp_path / FILE))


def test_original_of_another_dimension_is_told(run: Run, tmp_path: Path) -> None:
    stored = load_file(run.embeddings["original"])
    save_file({**stored, "embeddings": stored["embeddings"][:, :-1].copy()}, tmp_path / FILE)
    with pytest.raises(DamnatioError, match=r"holds vectors of 32 values and \S+ of 31: the one model was not"):
        recheck(run.recipe, run.embeddings["HD"], run.protocol, "S1", tmp_path / FILE, tmp_path)


def test_model_that_is_its_original_is_unchanged(run: Run, tmp_path: Path) -> None:
    """As stored in float32, and whatever the order of the vectors."""
    star = run.embeddings["original"]
    stored = load_file(star)
    order = np.random.default_rng(0).permutation(len(stored["rows"]))
    save_file({name: np.ascontiguousarray(values[order]) for name, values in stored.items()}, tmp_path / FILE)
    found = recheck(run.recipe, tmp_path / FILE, run.protocol, "S1", star, tmp_path / "out").results
    drift = {(r.group, r.metric): r.value for r in found if r.metric in ("unchanged", "drift_cosine")}
    assert {group for group, _ in drift} == {"R", "T", "B", "F", "Ftr", "Fev"}
    assert set(drift.values()) == {1.0}


def test_length_of_a_vector_does_not_matter(run: Run, tmp_path: Path) -> None:
    stored = load_file(run.embeddings["original"])
    lengths = 2.0 ** np.random.default_rng(0).integers(-5, 5, (len(stored["rows"]), 1))
    save_file({**stored, "embeddings": (stored["embeddings"] * lengths).astype(np.float32)}, tmp_path / FILE)
    recheck(run.recipe, tmp_path / FILE, run.protocol, "S1", None, tmp_path / "out")
    assert_same_table(tmp_path / "out/results.parquet", run.evaluations["original"] / "results.parquet")


def test_order_of_the_vectors_does_not_matter(run: Run, tmp_path: Path) -> None:
    """For any rate or threshold: which subjects a replicate draws goes by name."""
    stored = load_file(run.embeddings["original"])
    order = np.random.default_rng(0).permutation(len(stored["rows"]))
    save_file({name: np.ascontiguousarray(values[order]) for name, values in stored.items()}, tmp_path / FILE)
    recheck(run.recipe, tmp_path / FILE, run.protocol, "S1", None, tmp_path / "out")
    assert_same_table(tmp_path / "out/results.parquet", run.evaluations["original"] / "results.parquet")


def test_nested_scales_of_unknown_sizes_are_refused(run: Run, tmp_path: Path) -> None:
    table = Table.read(run.protocol)
    scale = table["scale"].copy()
    for old, new in (("S1", "small"), ("S2", "large")):
        scale[scale == old] = new
    table.with_columns(scale=scale).write(tmp_path / "protocol.parquet")
    with pytest.raises(DamnatioError, match="does not say which of its scales large, small holds the other"):
        recheck(run.recipe, run.embeddings["original"], tmp_path / "protocol.parquet", "small", None, tmp_path)


def test_order_of_the_protocol_does_not_matter(run: Run, tmp_path: Path) -> None:
    table = Table.read(run.protocol)
    metadata = Table.read_metadata(run.protocol)
    table.where(np.random.default_rng(0).permutation(len(table))).write(tmp_path / "protocol.parquet", metadata)
    recheck(run.recipe, run.embeddings["original"], tmp_path / "protocol.parquet", "S1", None, tmp_path)
    assert_same_table(tmp_path / "results.parquet", run.evaluations["original"] / "results.parquet")
    table.where(np.arange(1, len(table))).write(tmp_path / "protocol.parquet")
    with pytest.raises(DamnatioError, match="not a whole table of partitions"):
        recheck(run.recipe, run.embeddings["original"], tmp_path / "protocol.parquet", "S1", None, tmp_path)


def test_differences_name_each_number_that_is_another(run: Run) -> None:
    stored = Table.read(run.evaluations["HD"] / "results.parquet")
    assert differences(stored, stored) == []
    (place,) = np.flatnonzero(
        (stored["group"] == "T") & (stored["metric"] == "TMR") & (stored["operating_point"] == 0.1)
    )
    value, low = stored["value"].copy(), stored["low"].copy()
    value[place], low[place] = 0.25, np.nan
    changed = stored.with_columns(value=value, low=low)
    was = stored["value"][place].item()
    first, second = differences(stored, changed)
    assert first == f"1:1 T TMR at 0.1: value is {was!r}, and 0.25 is stored"
    assert second.startswith("1:1 T TMR at 0.1: low is ")
    assert second.endswith("and nan is stored")
    fewer = stored.where(np.arange(len(stored)) != place)
    assert differences(stored, fewer) == ["1:1 T TMR at 0.1 is not stored"]
    assert differences(fewer, stored) == ["1:1 T TMR at 0.1 is stored and was not found again"]


# --- what cannot be measured -----------------------------------------------------------------------------------------


def refused(run: Run, folder: Path, **given: Any) -> str:
    known = {"embeddings": run.embeddings["original"], "protocol": run.protocol, "scale": "S1", "original": None}
    with pytest.raises(DamnatioError) as caught:
        recheck(run.recipe, **{**known, **given}, folder=folder / "out")
    assert not (folder / "out").exists()
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("column", NEEDED)
def test_table_without_a_column_is_named(run: Run, tmp_path: Path, column: str) -> None:
    table = Table.read(run.protocol)
    Table({name: values for name, values in table.columns.items() if name != column}).write(tmp_path / "p.parquet")
    sentence = refused(run, tmp_path, protocol=tmp_path / "p.parquet")
    assert sentence == f"{tmp_path / 'p.parquet'} is no table of partitions: it has no column {column}."


@pytest.mark.parametrize("column", [*TEXTS, "row"])
def test_column_of_another_kind_is_named(run: Run, tmp_path: Path, column: str) -> None:
    table = Table.read(run.protocol)
    values = np.array([None, b"\xff"] * len(table), dtype=object)[: len(table)]
    table.with_columns(**{column: values}).write(tmp_path / "p.parquet")
    sentence = refused(run, tmp_path, protocol=tmp_path / "p.parquet")
    kind = "whole numbers" if column == "row" else "text"
    assert sentence == f"{tmp_path / 'p.parquet'}: the column '{column}' must hold {kind}."


def test_unknown_scale_is_named_with_the_nearest(run: Run, tmp_path: Path) -> None:
    sentence = refused(run, tmp_path, scale="S11")
    assert "no scale 'S11'" in sentence
    assert "S1" in sentence.replace("S11", "")


def test_missing_and_broken_files_are_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"no tensors")
    for path in (tmp_path / "absent", tmp_path / "broken"):
        assert f"{path} is not a readable safetensors file" in refused(run, tmp_path, embeddings=path)
        assert f"{path} is not a readable safetensors file" in refused(run, tmp_path, original=path)
    assert f"{tmp_path / 'broken'} is not a readable Parquet" in refused(run, tmp_path, protocol=tmp_path / "broken")
    assert f"There is no table {tmp_path / 'absent'}" in refused(run, tmp_path, protocol=tmp_path / "absent")


Stored = dict[str, NDArray[Any]]


def without(name: str) -> Callable[[Stored], Stored]:
    return lambda stored: {key: values for key, values in stored.items() if key != name}


def spoilt(value: float) -> Callable[[Stored], Stored]:
    def spoil(stored: Stored) -> Stored:
        units = stored["embeddings"].copy()
        units[5] = value
        return {**stored, "embeddings": units}

    return spoil


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("embeddings"), "has no tensor 'embeddings'"),
        (without("rows"), "has no tensor 'rows'"),
        (lambda stored: {**stored, "rows": stored["rows"][:-1].copy()}, "do not fit each other"),
        (lambda stored: {**stored, "embeddings": stored["embeddings"].ravel().copy()}, "do not fit each other"),
        (lambda stored: {**stored, "rows": stored["rows"] + 100_000}, "belong to different runs"),
        (lambda stored: {**stored, "rows": stored["rows"] - 100_000}, "belong to different runs"),
        (lambda stored: {name: values.repeat(2, axis=0) for name, values in stored.items()}, "a row twice"),
        (spoilt(0.0), "zero or not finite"),
        (spoilt(np.nan), "zero or not finite"),
        (spoilt(np.inf), "zero or not finite"),
    ],
)
def test_unusable_embeddings_are_refused(
    run: Run, tmp_path: Path, change: Callable[[Stored], Stored], said: str
) -> None:
    stored = load_file(run.embeddings["original"])
    save_file(change(stored), tmp_path / FILE)
    sentence = refused(run, tmp_path, embeddings=tmp_path / FILE)
    assert str(tmp_path / FILE) in sentence
    assert said in sentence
    if "finite" in said:
        assert str(Table.read(run.protocol)["image"][stored["rows"][5]]) in sentence


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e5m2])
def test_floats_that_numpy_has_not_are_refused(run: Run, tmp_path: Path, kind: torch.dtype) -> None:
    stored = {name: torch.from_numpy(values) for name, values in load_file(run.embeddings["original"]).items()}
    save_tensors({**stored, "embeddings": stored["embeddings"].to(kind)}, tmp_path / FILE)
    assert "embeddings are float32, float64 or float16" in refused(run, tmp_path, embeddings=tmp_path / FILE)


def test_one_development_identity_is_refused(run: Run, tmp_path: Path) -> None:
    table = Table.read(run.protocol)
    names = table["identity"].copy()
    names[table["partition"] == "D"] = "somebody"
    table.with_columns(identity=names).write(tmp_path / "p.parquet", Table.read_metadata(run.protocol))
    assert "at least two" in refused(run, tmp_path, protocol=tmp_path / "p.parquet")
