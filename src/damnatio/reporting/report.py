"""Stage 8: turns the numbers of all evaluated models into results.csv, tables, figures and one page."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from damnatio.embedding import load_examples
from damnatio.evaluation.measuring import ORIGINAL
from damnatio.evaluation.rates import COLUMNS, VERSION
from damnatio.faces.base import Faces
from damnatio.methods import METHODS
from damnatio.methods.base import method_settings
from damnatio.partitions import COUNTS
from damnatio.recipe.schema import Recipe
from damnatio.reporting import against_paper, figures, layouts
from damnatio.reporting.findings import judging
from damnatio.reporting.grids import Grid
from damnatio.reporting.lookup import Results
from damnatio.reporting.mechanism import ON_THE_SPHERE, mechanisms
from damnatio.reporting.page import Illustration, write_page
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically
from damnatio.support.manifests import checked, manifest_of, section_of
from damnatio.support.tables import Table, codes_of, groups_of

RESULTS, WARNINGS = "results.csv", "warnings.csv"
_FRACTIONS = ("operating_point", "value", "low", "high", "wilson_low", "wilson_high")
_NUMBERS: dict[str, Any] = {"count": int, "subjects": int, **dict.fromkeys(_FRACTIONS, float)}
_EMPTY = dict.fromkeys(_FRACTIONS, "nan")
_FRONT = ("backbone", "scale", "method")
_COLUMNS = (*_FRONT, *COLUMNS)
_WARNED = (*_FRONT, "task", "group", "operating_point", "warning")


@dataclass(frozen=True)
class Evaluated:
    """The folder of an evaluation: of f* (`original`) or of a variant, at a scale."""

    scale: str
    variant: str
    path: Path


def write_report(
    recipe: Recipe,
    partitions: Path,
    examples: Path | None,
    evaluated: Sequence[Evaluated],
    folder: Path,
) -> None:
    """Write all of `report/`, from the folders of the partitions, of the example pairs and of the evaluations. Without
    example pairs no figure shows a photograph."""
    results, warnings = long_results(recipe.model.backbone, evaluated)
    results.write_csv(folder / RESULTS)
    warnings.write_csv(folder / WARNINGS)
    grids = grids_of(recipe, results, warnings, Table.read(partitions / COUNTS))
    write_grids(grids, folder)
    titles = headings(recipe)
    drawn = [
        figures.Drawn(
            e.scale,
            titles[e.variant],
            load_file(checked(e.path / "sketches.safetensors")),
            Table.read(e.path / "curves.parquet"),
        )
        for e in evaluated
    ]
    illustrations = []
    for scale in recipe.forget.scales:
        name = f"distributions-{scale}"
        figures.distributions([model for model in drawn if model.scale == scale], folder, name)
        caption = (
            "Under f* the mated forget scores lie with the mated retain scores; forgetting moves them to the left."
        )
        illustrations.append(Illustration(name, f"Score distributions at {scale}", caption))
    figures.det(drawn, folder)
    caption = "As far down as the development set resolves."
    illustrations.append(Illustration("det", "Rates over the operating range", caption))
    pairs = load_examples(examples) if examples else []
    if pairs:
        figures.capture_pairs(pairs, recipe.captures.threshold, folder)
        caption = "Pairs of images of one identity, with their pixel distance δ and their similarity s under f*."
        illustrations.append(Illustration("captures", "Capture instances", caption, small=True))
    kinds = dict.fromkeys(method_settings(recipe, variant).method for variant in recipe.forget.methods)
    if moving := [kind for kind in kinds if kind in ON_THE_SPHERE]:
        mechanisms(moving, folder)
        caption = "One identity's images under gradient descent on each loss; other identities on the dotted circle."
        illustrations.append(Illustration("mechanism", "Mechanism of each forget loss, on the unit sphere", caption))
    evidence = judging.evidence_of([(results, warnings)])
    found = judging.judged(evidence)
    write_atomically(folder / "findings.md", judging.markdown(found))
    against_paper.compare({"": evidence[0]}, {"": found}).write(folder)
    write_page(
        recipe,
        results=Results(results, warnings, titles),
        warnings=warnings,
        grids=grids,
        illustrations=illustrations,
        found=found,
        folder=folder,
    )


def write_grids(grids: Sequence[Grid], folder: Path) -> None:
    for grid in grids:
        write_atomically(folder / f"{grid.name}.md", grid.markdown())
        write_atomically(folder / f"{grid.name}.csv", grid.csv())
        write_atomically(folder / f"{grid.name}.tex", grid.latex())


def headings(recipe: Recipe) -> dict[str, str]:
    """The heading of each variant in tables and figures; a double dagger marks a reconstruction."""
    rebuilt = {v for v in recipe.forget.methods if METHODS.get(method_settings(recipe, v).method).reconstruction}
    return {ORIGINAL: "f*", **{v: f"{v}‡" if v in rebuilt else v for v in recipe.forget.methods}}


def long_results(backbone: str, evaluated: Sequence[Evaluated]) -> tuple[Table, Table]:
    """All results and all warnings in long form. Backbone, scale and variant (column `method`) come first."""
    tables, warned = [], []
    for model in evaluated:
        table = Table.read(model.path / "results.parquet")
        front = {"backbone": backbone, "scale": model.scale, "method": model.variant}
        tables.append(Table({**{k: [v] * len(table) for k, v in front.items()}, **{c: table[c] for c in COLUMNS}}))
        warned += [{**front, **warning} for warning in json.loads(checked(model.path / "warnings.json").read_text())]
    return Table.joined(tables), Table.of_rows(_WARNED, [[w[name] for name in _WARNED] for w in warned])


def grids_of(recipe: Recipe, results: Table, warnings: Table, counts: Table) -> list[Grid]:
    """The tables of a report: the paper's first two and ours, then what stands behind them."""
    panels, points = _panels(recipe, results, warnings), recipe.evaluate.operating_points
    return [
        layouts.rates(panels, points),
        layouts.distances(panels),
        *([layouts.legacy(panels, points)] if recipe.forget.methods else []),
        layouts.people(panels, points),
        layouts.rates(panels, points, fixed=True),
        *([layouts.rates(panels, points, intervals=True)] if recipe.evaluate.replicates else []),
        layouts.protocol(counts),
    ]


def _panels(recipe: Recipe, results: Table, warnings: Table) -> list[layouts.Panel]:
    look_up = Results(results, warnings, headings(recipe))
    return layouts.panels_of(look_up, recipe.forget.scales, [ORIGINAL, *recipe.forget.methods])


def read_report(folder: Path) -> tuple[Table, Table]:
    """The long results and the warnings of a finished report. Results of another version are refused."""
    version = section_of(manifest_of(folder), "settings").get("results", VERSION)  # the first had no number
    if version != VERSION:
        raise DamnatioError(
            f"{folder / RESULTS} has version {version} of the results, and this damnatio reads version {VERSION}: use "
            "the damnatio that made it, or make the report again with this one."
        )
    return _read_csv(folder / RESULTS, _COLUMNS), _read_csv(folder / WARNINGS, _WARNED)


def _read_csv(path: Path, names: Sequence[str]) -> Table:
    try:
        with checked(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
            if any(None in row or None in row.values() for row in rows):
                raise ValueError("a row of more or fewer columns than the first")
            if not rows and path.name == RESULTS:
                raise ValueError("it has no row")
            columns = {n: [_NUMBERS.get(n, str)(row[n] or _EMPTY.get(n, "")) for row in rows] for n in names}
    except OSError:
        raise DamnatioError(f"There is no finished report in {path.parent}: run the recipe to its end first.") from None
    except (csv.Error, ValueError, KeyError) as error:  # ValueError: not UTF-8, or a number that is none
        raise DamnatioError(
            f"{path} is no table of a report ({error}): delete the folder {path.parent} and run the recipe again."
        ) from None
    return Table(columns)


def terminal_tables(recipe: Recipe, folder: Path, width: int) -> list[Any]:
    """The report's tables for a terminal of this width: the rates and the distances."""
    results, warnings = read_report(folder)
    panels = _panels(recipe, results, warnings)
    rates, distances = layouts.rates(panels, recipe.evaluate.operating_points), layouts.distances(panels)
    lines = dict.fromkeys(f"† {w['task']}: {w['warning']}" for w in warnings.rows())
    return [*rates.terminal(width), "\n".join(rates.notes), *distances.terminal(width), "\n".join(lines)]


def draw_sheet(faces: Faces, path: Path, rows: int, columns: int) -> None:
    """Draw the first identities that have most images, one row each, spread over their capture instances."""
    codes, names = codes_of(faces.table["identity"])
    groups = sorted(groups_of(codes), key=lambda group: -min(len(group), columns))[:rows]
    chosen = [group[np.linspace(0, len(group) - 1, min(columns, len(group))).round().astype(int)] for group in groups]
    sheet = [(str(names[codes[group[0]]]), faces.read(group)) for group in chosen]
    path.parent.mkdir(parents=True, exist_ok=True)
    figures.contact_sheet(sheet, path)
