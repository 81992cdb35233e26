"""Compute every number of an evaluation again from stored embeddings and partitions, without a model or an image."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from damnatio.embedding import load_embeddings
from damnatio.evaluation.measuring import Measured, Reference, Result, measure, reference_from, table_of, write
from damnatio.evaluation.pairings import Pairing
from damnatio.evaluation.protocol import Comparisons, Named, compare
from damnatio.evaluation.scanning import Places, Scores, blocks
from damnatio.evaluation.score_files import Side, write_scores
from damnatio.partitions import Partitions
from damnatio.recipe.schema import Recipe
from damnatio.support.errors import DamnatioError, nearest

Blocks = Iterator[tuple[Places, Places, Scores]]
CELLS = 1 << 22
"""so many scores are computed at once"""


def recheck(
    recipe: Recipe,
    embeddings: Path,
    protocol: Path,
    scale: str,
    original: Path | None,
    folder: Path,
    scores: Path | None = None,
) -> Measured:
    """Measure the model behind `embeddings` and write what the evaluation stage writes. The model is an altered one if
    f*'s embeddings are given as `original`, else it is measured as f*. With a folder for `scores`, all scores of 1:1
    are written too. The recipe gives the operating points, the replicates and the seed."""
    partitions = Partitions.read(protocol)
    scales = partitions.scales
    scale = scale or min(scales, key=lambda name: scales[name])
    if scale not in scales:
        raise DamnatioError(f"{protocol} has no scale '{scale}'.{nearest(scale, scales)}")
    settings = recipe.evaluate
    wanted = partitions.evaluated(scale)

    def compared(path: Path) -> Comparisons:
        units, rows = load_embeddings(path, partitions.table)
        lacking = np.setdiff1d(wanted, rows)
        if len(lacking):
            raise DamnatioError(
                f"{path} lacks {len(lacking):,} images that the protocol compares at {scale}, "
                f"{partitions.table['image'][lacking[0]]} first: they belong to different runs."
            )
        return compare(units, rows, partitions, scale, settings.nonmated_pairs, recipe.seed)

    reference: Reference | None = None
    if original is not None:
        reference = reference_from(measure(compared(original), settings.operating_points, None))
    ours = compared(embeddings)
    found = measure(ours, settings.operating_points, reference, settings.replicates)
    folder.mkdir(parents=True, exist_ok=True)
    write(found, folder)
    table_of(Result, found.results).write_csv(folder / "results.csv")
    if scores is not None:
        write_group_scores(ours, scores)
    return found


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
