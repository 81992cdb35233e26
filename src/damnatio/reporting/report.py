"""Stage 8: turns the numbers of all evaluated models into results.csv, tables, figures and one page."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.evaluation.rates import COLUMNS, VERSION
from damnatio.faces.base import Faces
from damnatio.methods import METHODS
from damnatio.methods.base import method_settings
from damnatio.partitions import COUNTS, Partitions
from damnatio.partitions import FILE as PARTITIONS
from damnatio.recipe.schema import Recipe
from damnatio.reporting import against_paper, cost, figures, layouts
from damnatio.reporting.drawing import Evaluated, draw
from damnatio.reporting.findings import judging
from damnatio.reporting.grids import Grid
from damnatio.reporting.latex import document, latex
from damnatio.reporting.looks import in_order
from damnatio.reporting.lookup import Results
from damnatio.reporting.naming import Naming
from damnatio.reporting.page.content import panel_of
from damnatio.reporting.page.writing import Page, content_of, write_page
from damnatio.reporting.panels import Panel, panels_of
from damnatio.reporting.pictures import FILE as PICTURES
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


def write_report(
    recipe: Recipe,
    partitions: Path,
    evaluated: Sequence[Evaluated],
    folder: Path,
    *,
    examples: Path | None = None,
    pictures: Path | None = None,
) -> None:
    """Write all of `report/`, from the folders of the partitions, of the evaluations, of the example pairs and of the
    map's pictures. Without the last two no photograph is shown."""
    results, warnings = long_results(recipe.model.backbone, evaluated)
    results.write_csv(folder / RESULTS)
    warnings.write_csv(folder / WARNINGS)
    grids = grids_of(recipe, results, warnings, Table.read(partitions / COUNTS))
    spent = {(e.scale, e.variant): cost.of_training(e.training) for e in evaluated if e.training}
    cost.write(spent, folder)
    by_scale = {scale: [{v: each for (at, v), each in spent.items() if at == scale}] for scale in recipe.forget.scales}
    write_grids([*grids, *([cost.table(by_scale, headings(recipe), maps_of(recipe))] if spent else [])], folder)
    known = Results(results, warnings, headings(recipe), maps_of(recipe))
    illustrations = draw(recipe, known, _panels(recipe, results, warnings), evaluated, examples, folder)
    evidence = judging.evidence_of([(results, warnings)])
    found = judging.judged(evidence)
    write_atomically(folder / "findings.md", judging.markdown(found))
    against_paper.compare({"": evidence[0]}, {"": found}).write(folder)
    naming = Naming(Partitions.read(partitions / PARTITIONS), names=recipe.report.names)
    shown = json.loads(checked(pictures / PICTURES).read_text()) if pictures else {}
    write_page(
        Page(
            title=recipe.name,
            lead=_lead(recipe),
            panels=_panels_of(recipe, evaluated, known, naming),
            titles=known.titles,
            facts=_facts(recipe, evaluated),
            recipe=yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False),
            warnings=once_each(warnings),
            grids=grids,
            findings={"": found},
            illustrations=illustrations,
            pictures={naming.image(name): each for name, each in shown.items()},
        ),
        folder,
    )


def answers_of(recipe: Recipe, partitions: Path, evaluated: Sequence[Evaluated]) -> dict[str, Any]:
    """The content of a page on these evaluations, for whoever wants its answers alone."""
    results, warnings = long_results(recipe.model.backbone, evaluated)
    known = Results(results, warnings, headings(recipe), maps_of(recipe))
    naming = Naming(Partitions.read(partitions / PARTITIONS), names=recipe.report.names)
    panels = _panels_of(recipe, evaluated, known, naming)
    return content_of(Page(recipe.name, _lead(recipe), panels, known.titles, facts=()))


def _panels_of(
    recipe: Recipe, evaluated: Sequence[Evaluated], results: Results, naming: Naming
) -> list[dict[str, Any]]:
    """What the page holds of each scale, which is named by its people."""
    points, people = recipe.evaluate.operating_points, recipe.partitions.scales
    scales = dict.fromkeys(each.scale for each in evaluated)
    return [panel_of(s, evaluated, results, points, f"{people[s]:,} people ({s})", naming) for s in scales]


def _lead(recipe: Recipe) -> str:
    people = " or ".join(f"{recipe.partitions.scales[scale]:,}" for scale in recipe.forget.scales)
    how = f"{recipe.model.backbone}, {recipe.faces.size} × {recipe.faces.size} pixels, {recipe.faces.source} faces"
    return f"A face recognition model was made to forget {people} people, and this is what came of it. ({how}.)"


def _facts(recipe: Recipe, evaluated: Sequence[Evaluated]) -> list[tuple[str, str]]:
    """Where the numbers come from. Nothing that differs between equal runs, such as dates and folders: those are in
    stage.json."""
    manifests = [manifest_of(each.path) for each in evaluated]
    made = [section_of(manifest, "made") for manifest in manifests]
    facts = [("recipe", recipe.name), ("seed", str(recipe.seed))]
    for what in ("damnatio", "python", "torch", "numpy", "machine"):
        values = dict.fromkeys(str(each[what]) for each in made if what in each)
        if values:
            facts.append((what, ", ".join(values)))
    facts += [
        (f"evaluation {each.scale} {each.variant}", f"key {manifest['key']}")
        for each, manifest in zip(evaluated, manifests, strict=True)
        if "key" in manifest
    ]
    facts.append(("command and dates", "in stage.json beside this file, and in that of each stage"))
    facts.append(("recompute from the stored embeddings", "damnatio recheck RUN"))
    facts.append(("recompute from the faces", "damnatio run recipe.yaml; its content stands below, with every default"))
    return facts


def once_each(warnings: Table) -> list[str]:
    """What several models are warned of is said once."""
    return list(dict.fromkeys(f"{w['task']}: {w['warning']}" for w in warnings.rows()))


def write_grids(grids: Sequence[Grid], folder: Path) -> None:
    for grid in grids:
        write_atomically(folder / f"{grid.name}.md", grid.markdown())
        write_atomically(folder / f"{grid.name}.csv", grid.csv())
        write_atomically(folder / f"{grid.name}.tex", latex(grid))
    write_atomically(folder / "tables.tex", document(grids))


def headings(recipe: Recipe) -> dict[str, str]:
    """The heading of each variant in tables and figures, in their order, with maps behind the network last; a double
    dagger marks a reconstruction."""
    rebuilt = {v for v in recipe.forget.methods if METHODS.get(method_settings(recipe, v).method).reconstruction}
    order = sorted(in_order(recipe.forget.methods), key=maps_of(recipe).__contains__)
    return {ORIGINAL: "f*", **{v: f"{v}‡" if v in rebuilt else v for v in order}}


def maps_of(recipe: Recipe) -> set[str]:
    """The variants that are maps behind a network which stays as it is."""
    return {v for v in recipe.forget.methods if METHODS.get(method_settings(recipe, v).method).behind}


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
    return [*measured_grids(recipe, results, warnings), layouts.protocol(counts)]


def measured_grids(recipe: Recipe, results: Table, warnings: Table) -> list[Grid]:
    """Those that follow from the results alone."""
    panels, points = _panels(recipe, results, warnings), recipe.evaluate.operating_points
    return [
        layouts.rates(panels, points),
        layouts.distances(panels),
        layouts.text(panels),
        *([layouts.legacy(panels, points)] if recipe.forget.methods else []),
        layouts.people(panels, points),
        layouts.rates(panels, points, fixed=True),
        *([layouts.rates(panels, points, intervals=True)] if recipe.evaluate.replicates else []),
    ]


def _panels(recipe: Recipe, results: Table, warnings: Table) -> list[Panel]:
    look_up = Results(results, warnings, headings(recipe), maps_of(recipe))
    return panels_of(look_up, recipe.forget.scales, list(look_up.titles))


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
    except DamnatioError:
        raise
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
