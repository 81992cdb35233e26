"""Every number of an evaluation again, from stored embeddings and the table of partitions: no model, no images."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from damnatio.embedding import load_embeddings
from damnatio.errors import DamnatioError, nearest
from damnatio.evaluating import COLUMNS, Measured, Reference, measure, reference_from, write
from damnatio.files import need_regular
from damnatio.partitions import FORGET, at_scale
from damnatio.protocol import Comparisons, Named, compare, evaluated_rows
from damnatio.recipe import Recipe
from damnatio.scanning import Codes, Scores, blocks
from damnatio.score_files import Side, write_scores
from damnatio.tables import Table

Blocks = Iterator[tuple[Codes, Codes, Scores]]
CELLS = 1 << 22
"""scores at once, where all are written"""
TEXTS = ("image", "identity", "partition", "scale", "role")
NEEDED = ("row", "control", *TEXTS)


def recheck(
    recipe: Recipe,
    embeddings: Path,
    protocol: Path,
    scale: str,
    original: Path | None,
    folder: Path,
    scores: Path | None = None,
) -> Measured:
    """Measure the model behind `embeddings`, an altered one if f*'s embeddings are given as `original`, and write what
    the evaluation stage writes; and all scores of 1:1, if there is a folder for them. The recipe gives the operating
    points, the replicates and the seed."""
    need_regular(protocol)  # Arrow would take a folder of tables for one
    table = Table.read(protocol)
    missing = [name for name in NEEDED if name not in table.columns]
    if missing:
        raise DamnatioError(f"{protocol} is no table of partitions: it has no column {', '.join(missing)}.")
    for name in (*TEXTS, "row"):
        whole = table[name].dtype.kind in "iu"
        if not (whole if name == "row" else all(isinstance(value, str) for value in table[name])):
            what = "whole numbers" if name == "row" else "text"
            raise DamnatioError(f"{protocol}: the column '{name}' holds {what}, and here it does not.")
    table = table.where(np.argsort(table["row"], kind="stable"))
    if not np.array_equal(table["row"], np.arange(len(table))):
        raise DamnatioError(f"{protocol} is not a whole table of partitions: its rows are not 0 to {len(table) - 1}.")
    if table["control"].dtype != bool:
        raise DamnatioError(f"{protocol}: the column 'control' says true or false, and here it does not.")
    scales = _scales(recipe, table)
    scale = scale or min(scales, key=lambda name: scales[name])
    if scale not in scales:
        raise DamnatioError(f"{protocol} has no scale '{scale}'.{nearest(scale, scales)}")
    settings = recipe.evaluate
    wanted = evaluated_rows(table.where((table["partition"] != FORGET) | at_scale(table, scales, scale)))

    def compared(path: Path) -> Comparisons:
        units, rows = load_embeddings(path, table)
        lacking = np.setdiff1d(wanted, rows)
        if len(lacking):
            raise DamnatioError(
                f"{path} lacks {len(lacking):,} images that the protocol compares at {scale}, "
                f"{table['image'][lacking[0]]} first: they belong to different runs."
            )
        return compare(units, rows, table, scales, scale, settings.nonmated_pairs, recipe.seed)

    reference: Reference | None = None
    if original is not None:
        reference = reference_from(measure(compared(original), settings.operating_points, None))
    ours = compared(embeddings)
    found = measure(ours, settings.operating_points, reference, settings.replicates)
    folder.mkdir(parents=True, exist_ok=True)
    write(found, folder)
    Table.of_rows(COLUMNS, found.rows).write_csv(folder / "results.csv")
    if scores is not None:
        write_group_scores(ours, scores)
    return found


def write_group_scores(compared: Comparisons, folder: Path) -> None:
    """Every comparison of every 1:1 group, mated and non-mated, as files that bob reads."""
    for group, (first, second) in compared.sets.items():
        references, probes = (Side(s.names.tolist(), s.people.tolist()) for s in (first, second or first))
        write_scores(folder / f"{group.replace(' ', '-')}.csv", references, probes, _all_scores(first, second))


def _all_scores(first: Named, second: Named | None) -> Blocks:
    """Each vector of the first set with each of the second; with none, each pair of the first once."""
    other = second or first
    for part in blocks(len(first.codes), max(1, CELLS // max(len(other.codes), 1))):
        scores = first.units[part] @ other.units.T
        later = np.arange(len(other.codes)) > np.arange(part.start, part.stop)[:, None]
        i, j = np.nonzero(later if second is None else np.ones(scores.shape, bool))
        yield i + part.start, j, scores[i, j]


def _scales(recipe: Recipe, table: Table) -> dict[str, int]:
    """The nested forget sets by size, as the recipe has them; a single one needs no recipe."""
    present = sorted({str(name) for name in table["scale"][table["partition"] == FORGET]})
    known = recipe.partitions.scales
    if set(present) <= set(known):
        return known
    if len(present) > 1:
        raise DamnatioError(
            f"The recipe {recipe.name} does not say which of the scales {', '.join(present)} holds the other: name the "
            "recipe of the run, `damnatio evaluate RECIPE --embeddings ...`."
        )
    return {present[0]: 1}
