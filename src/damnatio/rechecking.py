"""Every number of an evaluation again, from stored embeddings and the table of partitions: no model, no images."""

from pathlib import Path

from damnatio.embedding import load_embeddings
from damnatio.errors import DamnatioError, nearest
from damnatio.evaluating import COLUMNS, Measured, Reference, measure, reference_from, write
from damnatio.partitions import FORGET
from damnatio.protocol import Comparisons, compare
from damnatio.recipe import Recipe
from damnatio.tables import Table

NEEDED = ("row", "image", "identity", "partition", "control", "scale", "role")


def recheck(
    recipe: Recipe, embeddings: Path, protocol: Path, scale: str, original: Path | None, folder: Path
) -> Measured:
    """Measure the model behind `embeddings`, an altered one if f*'s embeddings are given as `original`, and write what
    the evaluation stage writes. The recipe gives the operating points, the replicates and the seed."""
    table = Table.read(protocol)
    missing = [name for name in NEEDED if name not in table.columns]
    if missing:
        raise DamnatioError(f"{protocol} is no table of partitions: it has no column {', '.join(missing)}.")
    scales = _scales(recipe, table)
    scale = scale or min(scales, key=lambda name: scales[name])
    if scale not in scales:
        raise DamnatioError(f"{protocol} has no scale '{scale}'.{nearest(scale, scales)}")
    settings = recipe.evaluate

    def compared(path: Path) -> Comparisons:
        units, rows = load_embeddings(path, table)
        return compare(units, rows, table, scales, scale, settings.nonmated_pairs, recipe.seed)

    reference: Reference | None = None
    if original is not None:
        reference = reference_from(measure(compared(original), settings.operating_points, None))
    found = measure(compared(embeddings), settings.operating_points, reference, settings.replicates)
    folder.mkdir(parents=True, exist_ok=True)
    write(found, folder)
    Table.of_rows(COLUMNS, found.rows).write_csv(folder / "results.csv")
    return found


def _scales(recipe: Recipe, table: Table) -> dict[str, int]:
    """The nested forget sets by size: as the recipe has them, or in the order of their names."""
    present = sorted({str(name) for name in table["scale"][table["partition"] == FORGET]})
    known = recipe.partitions.scales
    return known if set(present) <= set(known) else {name: place for place, name in enumerate(present)}
