"""Who is left for the partitions that are drawn later? Mean images per identity of each partition, by the order of the
draw, where the forget set asks for well-covered people."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from damnatio.faces.folder import Folder
from damnatio.faces.synthetic import Synthetic
from damnatio.partitions import draw
from damnatio.recipe.files import load
from damnatio.recipe.schema import PartitionSettings
from damnatio.support.tables import Table
from fidelity.table_two import CHOSEN, NUMBERS, PROBES, Kept, Rule, fit, log_normal

SEEDS = range(1, 6)
TENTH = 10
"""the paper's counts divided by this"""
ORDERS = ("retain-first", "scarcest-first")
SHOWN = {"R": "retain", "control": "control", "F": "forget", "T": "test", "D": "development", "G": "distractors"}


def webface() -> tuple[Table, PartitionSettings]:
    """A tenth of WebFace4M as the best log-normal fit to Table II has it, and the paper's partitions of it."""
    rule = Rule("images", CHOSEN)
    population = log_normal(fit("log-normal", Kept(0.8), rule).spread)
    sizes = np.random.default_rng(0).choice(NUMBERS, 205_990 // TENTH, p=population)
    paper = load("paper-tables-3-4").partitions
    counts = {
        name: getattr(paper, name) // TENTH for name in ("retain", "control", "test", "development", "distractors")
    }
    scales = {name: count // TENTH for name, count in paper.scales.items()}
    return _faces(sizes), paper.model_copy(update={**counts, "scales": scales})


def rendered() -> tuple[Table, PartitionSettings]:
    recipe = load(Path(__file__).resolve().parents[1] / "rendered.yaml")
    index = Synthetic(recipe.faces).index()
    return index.with_columns(kept=index["shot"] == 0), recipe.partitions


def lfw(root: Path) -> tuple[Table, PartitionSettings]:
    recipe = load("lfw-mobilefacenet", [f"faces.root={root}"])
    index = Folder(recipe.faces).index()
    return index.with_columns(kept=np.ones(len(index), dtype=bool)), recipe.partitions


def _faces(sizes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Table:
    names = np.repeat([f"{place:06d}" for place in range(len(sizes))], sizes).astype(object)
    images = [f"{name}/{place}" for place, name in enumerate(names)]
    return Table({"image": images, "identity": names, "kept": np.ones(len(names), dtype=bool)})


def means(faces: Table, settings: PartitionSettings) -> dict[str, float]:
    """Mean images of the identities of each partition, over some seeds."""
    found: dict[str, list[float]] = {name: [] for name in SHOWN}
    for seed in SEEDS:
        table = draw(faces, settings, seed).table
        for name in SHOWN:
            mask = (table["control"] if name == "control" else table["partition"] == name).astype(bool)
            if mask.any():
                found[name].append(mask.sum() / len(set(table["identity"][mask])))
    return {name: float(np.mean(values)) for name, values in found.items() if values}


def pages(root: Path) -> Iterator[str]:
    yield (
        f"Made by `python benchmarks/fidelity drawing`: mean images per identity, over {len(SEEDS)} seeds. In "
        f"Table II, retain control and test set have {PROBES['R'] / 1_000:.1f} and {PROBES['T'] / 1_000:.1f} probes "
        "per identity, which are half of the images: test identities are no worse covered than retain identities.\n"
    )
    yield _line(["faces", "`partitions.order`", "everybody", *SHOWN.values()])
    yield _line(["---"] * (3 + len(SHOWN)))
    worlds = {
        "WebFace4M, a tenth (log-normal fit)": webface(),
        "rendered faces": rendered(),
        "LFW": lfw(root),
    }
    for name, (faces, settings) in worlds.items():
        everybody = len(faces) / len(set(faces["identity"]))
        for order in ORDERS:
            found = means(faces, settings.model_copy(update={"order": order}))
            cells = [f"{found[part]:.1f}" if part in found else "" for part in SHOWN]
            yield _line([name, order, f"{everybody:.1f}", *cells])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
