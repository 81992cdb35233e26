"""Compute every number of an evaluation again from stored embeddings and partitions, without a model or an image."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from damnatio.embedding import load_embeddings
from damnatio.evaluation.legacy import Embedded
from damnatio.evaluation.measuring import Measured, Reference, measure, reference_from, table_of, write
from damnatio.evaluation.pairings import Pairing
from damnatio.evaluation.protocol import Comparisons, compare
from damnatio.evaluation.rates import Result
from damnatio.evaluation.scanning import Places, Scores, blocks
from damnatio.evaluation.score_files import Side, write_scores
from damnatio.evaluation.sets import Named
from damnatio.partitions import Partitions
from damnatio.recipe.schema import EvaluateSettings
from damnatio.support.errors import DamnatioError, nearest
from damnatio.support.tables import Table

Blocks = Iterator[tuple[Places, Places, Scores]]
CELLS = 1 << 22
"""so many scores are computed at once"""
NUMBERS = ("value", "count", "subjects", "low", "high", "wilson_low", "wilson_high")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Setup:
    """All that decides the numbers of a model beside its embeddings."""

    partitions: Path
    """the table of partitions"""
    seed: int
    settings: EvaluateSettings
    scale: str = ""
    """unset: the smallest that the table has"""


@dataclass(frozen=True)
class Original:
    """f*, as an altered model is compared with it: its embeddings, and what its own evaluation leaves."""

    embeddings: Path
    reference: Reference


def recheck(
    embeddings: Path,
    setup: Setup,
    *,
    original: Original | None = None,
    folder: Path | None = None,
    scores: Path | None = None,
) -> Measured:
    """Measure the model behind `embeddings`.

    `original` is f* for an altered model, and None for f* itself. `folder` gets what the evaluation stage writes, and
    `scores` all scores of 1:1 among the embeddings of the model itself.
    """
    compared = _compared(embeddings, setup, original.embeddings if original else None)
    reference = original.reference if original else None
    found = measure(compared, setup.settings.operating_points, reference, setup.settings.replicates)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write(found, folder)
        table_of(Result, found.results).write_csv(folder / "results.csv")
    if scores is not None:
        write_group_scores(compared, scores)
    return found


def original_of(embeddings: Path, setup: Setup) -> Original:
    """f* by its embeddings, for the models that were made from it."""
    found = measure(_compared(embeddings, setup), setup.settings.operating_points, None)
    return Original(embeddings, reference_from(found))


def differences(found: Table, stored: Table) -> list[str]:
    """One line for each number that is not as stored, or that only one of the tables has.

    Rates and thresholds of given embeddings are the same to the last bit everywhere; sums of distances are not, hence
    the tolerance."""
    ours, theirs = _by_name(found), _by_name(stored)
    lines = []
    for name in sorted({*ours, *theirs}):
        if name not in theirs:
            lines.append(f"{name} is not stored")
        elif name not in ours:
            lines.append(f"{name} is stored and was not found again")
        else:
            lines += [
                f"{name}: {column} is {ours[name][column]!r}, and {theirs[name][column]!r} is stored"
                for column in NUMBERS
                if not _same(ours[name][column], theirs[name][column])
            ]
    return lines


def _by_name(table: Table) -> dict[str, dict[str, Any]]:
    """The rows by what names a number, such as `1:1 T TMR at 0.01`."""
    named = {}
    for row in table.rows():
        at = "" if math.isnan(row["operating_point"]) else f" at {row['operating_point']:g}"
        named[f"{row['task']} {row['group']} {row['metric']}{at}"] = row
    return named


def _same(ours: float, theirs: float) -> bool:
    both = math.isnan(ours) and math.isnan(theirs)
    return both or math.isclose(ours, theirs, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _compared(embeddings: Path, setup: Setup, original: Path | None = None) -> Comparisons:
    table = Partitions.read(setup.partitions)
    scales = table.scales
    scale = setup.scale or min(scales, key=lambda name: scales[name])
    if scale not in scales:
        raise DamnatioError(f"{setup.partitions} has no scale '{scale}'.{nearest(scale, scales)}")
    star = _embedded(original, table, scale) if original else None
    model = _embedded(embeddings, table, scale)
    if star and star.units.shape[1] != model.units.shape[1]:
        raise DamnatioError(
            f"{embeddings} holds vectors of {model.units.shape[1]} values and {original} of {star.units.shape[1]}: the "
            "one model was not made from the other."
        )
    return compare(model.units, model.rows, table, scale, setup.settings.nonmated_pairs, setup.seed, star)


def _embedded(path: Path, table: Partitions, scale: str) -> Embedded:
    units, rows = load_embeddings(path, table.table)
    lacking = np.setdiff1d(table.evaluated(scale), rows)
    if len(lacking):
        raise DamnatioError(
            f"{path} lacks {len(lacking):,} images that the protocol compares at {scale}, "
            f"{table.table['image'][lacking[0]]} first: they belong to different runs."
        )
    return Embedded(units, rows)


def write_group_scores(compared: Comparisons, folder: Path) -> None:
    """Write every comparison of every 1:1 group, mated and non-mated, to files that bob reads."""
    for group, pairing in compared.pairings.items():
        references, probes = (Side(s.names.tolist(), s.people.tolist()) for s in (pairing.first, pairing.second))
        write_scores(folder / f"{group.replace(' ', '-')}.csv", references, probes, _all_scores(pairing))


def _all_scores(pairing: Pairing[Named]) -> Blocks:
    """The scores of all pairs that meet, mated and non-mated."""
    for rows in blocks(len(pairing.first), max(1, CELLS // max(len(pairing.second), 1))):
        columns = pairing.columns(rows)
        scores = pairing.first.units[rows] @ pairing.second.units[columns].T
        i, j = np.nonzero(pairing.met(rows))
        yield i + rows.start, j + columns.start, scores[i, j]
