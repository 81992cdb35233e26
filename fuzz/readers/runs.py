"""The inputs and outputs of a run: recipes, tables, embeddings, scores, reports, manifests."""

import io
import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save

from damnatio.embedding import load_embeddings
from damnatio.evaluation.rechecking import Setup, recheck
from damnatio.evaluation.score_files import read_scores
from damnatio.faces.base import Faces
from damnatio.faces.folder import Folder
from damnatio.recipe import files as recipes
from damnatio.recipe.schema import EvaluateSettings
from damnatio.reporting.findings.judging import judge, markdown
from damnatio.reporting.report import RESULTS, WARNINGS, read_report
from damnatio.support.manifests import MANIFEST
from damnatio.support.tables import Table
from damnatio.workspace import Output, Workspace
from fuzz.mutations import changed_json, damaged, edited, laughs, mixed
from fuzz.readers.base import Reader
from fuzz.structures import changed_safetensors, odd_table

TOP = Path(__file__).resolve().parents[2]


# --- recipes ---------------------------------------------------------------------------------------------------------


def _recipes(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((TOP / "configs").glob("*.yaml"))]


def _overrides(folder: Path) -> list[bytes]:
    settings = [
        *("seed=3", "faces.size=48", "faces={source: synthetic, size: 32}", "partitions.scales={S1: 3, S2: 6}"),
        *(
            "forget.methods=[HD, OF]",
            "forget.settings.HD.lr=0.1",
            "train={epochs: 2, lr: 1e-3}",
            "forget.freeze=layer3",
        ),
    ]
    return [setting.encode() for setting in settings]


def _read_override(path: Path) -> None:
    recipes.load("demo", [path.read_bytes().decode(errors="surrogateescape")])  # as a command line hands it over


# --- tables and embeddings -------------------------------------------------------------------------------------------


@cache
def _partitions() -> Table:
    """Sixteen people with four images each."""
    roles = {"R": ("enrol", "probe"), "T": ("enrol", "probe"), "F": ("train", "eval")}
    sizes = [("R", 4), ("T", 4), ("D", 4), ("G", 2), ("F", 2)]
    people = [(partition, f"{partition}{number}") for partition, size in sizes for number in range(size)]
    rows: list[tuple[object, ...]] = []
    for place, (partition, person) in enumerate(people):
        for number in range(4):
            role = roles.get(partition, ("", ""))[number // 2]
            image, label = f"{person}/{number}.png", place if partition == "R" else -1
            scale = "S1" if partition == "F" else ""
            rows.append((len(rows), image, person, partition, partition == "R", scale, role, label))
    names = ["row", "image", "identity", "partition", "control", "scale", "role", "label"]
    return Table.of_rows(names, rows)


def _table_bytes(table: Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(column) for name, column in table.columns.items()}), file)
    return file.getvalue()


def _tables(folder: Path) -> list[bytes]:
    return [_table_bytes(_partitions()), _table_bytes(Table({"a": [1.5, 2.5], "b": ["x", "y"]}))]


def _read_table(path: Path) -> None:
    table = Table.read(path)
    table.rows()
    table.where(np.arange(len(table)))


@cache
def _embedding_bytes() -> bytes:
    rows = np.arange(len(_partitions()), dtype=np.int64)
    units = np.random.default_rng(0).normal(size=(len(rows), 8)).astype(np.float32)
    return save({"embeddings": units, "rows": rows})


def _read_embeddings(path: Path) -> None:
    load_embeddings(path, _partitions())


def _setup(partitions: Path) -> Setup:
    settings = EvaluateSettings(replicates=0, operating_points=[0.1])
    return Setup(partitions=partitions, seed=1, settings=settings)


def _recheck_embeddings(path: Path) -> None:
    _partitions().write(path.parent / "partitions.parquet")
    recheck(path, _setup(path.parent / "partitions.parquet"), folder=path.parent / "out")


def _recheck_partitions(path: Path) -> None:
    (path.parent / "embeddings.safetensors").write_bytes(_embedding_bytes())
    recheck(path.parent / "embeddings.safetensors", _setup(path), folder=path.parent / "out")


def _pixels(folder: Path) -> list[bytes]:
    file = io.BytesIO()
    np.save(file, np.zeros((2, 16, 16, 3), dtype=np.uint8))
    return [file.getvalue()]


def _faces(folder: Path) -> None:
    (folder / "pixels.npy").write_bytes(_pixels(folder)[0])
    Table({"image": ["a", "b"], "identity": ["x", "y"]}).write(folder / "faces.parquet")


def _read_pixels(path: Path) -> None:
    """The file is damaged after its stage was finished."""
    with Workspace(path.parent / "run", say=_say_nothing) as workspace:
        folder = workspace.stage("1-faces", "all", {"a": 1}, {}, _faces).path
    path.rename(folder / "pixels.npy")
    source = Folder(Folder.Settings(source="folder", root=path.parent, size=16))
    assert Faces(folder, source).read([1, 0]).shape == (2, 16, 16, 3)


# --- scores and reports ----------------------------------------------------------------------------------------------


def _scores(folder: Path) -> list[bytes]:
    header = b"probe_template_id,probe_key,probe_subject_id,bio_ref_template_id,bio_ref_subject_id,score\n"
    return [header + b'p1,p1,ann,r1,ann,0.5\np2,p2,"b, b",r1,ann,-0.25\np3,p3,c,r1,ann,inf\n']


def _four_columns(folder: Path) -> list[bytes]:
    return [b"ann ann p1 0.5\nann bob p2 -0.25\nbob bob p3 1e-3\n"]


def _read_scores(path: Path) -> None:
    read_scores(path)


@cache
def _report(name: str) -> bytes:
    lines = (TOP / "results" / "demo" / name).read_bytes().splitlines(keepends=True)
    return b"".join(lines[:1] + lines[1::9])


def _read_report(path: Path, name: str, other: str) -> None:
    path.rename(path.with_name(name))
    path.with_name(other).write_bytes(_report(other))
    markdown(judge([read_report(path.parent)]))


# --- stages ----------------------------------------------------------------------------------------------------------


def _nothing(folder: Path) -> None:
    pass


def _say_nothing(line: str) -> None:
    pass


@cache
def _stage() -> tuple[str, bytes]:
    """The name of an output's folder, and its stage.json."""
    with tempfile.TemporaryDirectory() as run, Workspace(Path(run), say=_say_nothing) as workspace:
        output = workspace.stage("1-faces", "all", {"a": 1}, {}, _nothing)
        made = {"damnatio": "0.1.0", "command": "damnatio", "finished": "2026-01-01T00:00:00Z", "seconds": 0.1}
        return output.path.name, json.dumps({**output.manifest, "made": made}, indent=1).encode()


def _read_stage(path: Path) -> None:
    """A finished output whose stage.json is damaged is either taken or made again."""
    folder = path.parent / "run" / "1-faces" / _stage()[0]
    folder.mkdir(parents=True)
    path.rename(folder / MANIFEST)
    with Workspace(path.parent / "run", say=_say_nothing) as workspace:
        output = workspace.stage("1-faces", "all", {"a": 1}, {}, _nothing)
    assert isinstance(Output(output.path, output.key).manifest, dict)


READERS = [
    Reader("recipe", ".yaml", _recipes, recipes.load, mixed(edited, edited, edited, laughs)),
    Reader("override", ".txt", _overrides, _read_override, edited),
    Reader("table", ".parquet", _tables, _read_table, mixed(damaged, odd_table)),
    Reader(
        "embeddings",
        ".safetensors",
        lambda _: [_embedding_bytes()],
        _read_embeddings,
        mixed(damaged, changed_safetensors),
    ),
    Reader(
        "recheck",
        ".safetensors",
        lambda _: [_embedding_bytes()],
        _recheck_embeddings,
        mixed(damaged, changed_safetensors),
    ),
    Reader("partitions", ".parquet", lambda _: [_table_bytes(_partitions())], _recheck_partitions, odd_table),
    Reader("pixels", ".npy", _pixels, _read_pixels, damaged),
    Reader("scores-csv", ".csv", _scores, _read_scores, edited),
    Reader("scores-text", ".txt", _four_columns, _read_scores, edited),
    Reader("results", ".csv", lambda _: [_report(RESULTS)], lambda p: _read_report(p, RESULTS, WARNINGS), edited),
    Reader("warnings", ".csv", lambda _: [_report(WARNINGS)], lambda p: _read_report(p, WARNINGS, RESULTS), edited),
    Reader("stage", ".json", lambda _: [_stage()[1]], _read_stage, changed_json),
]
