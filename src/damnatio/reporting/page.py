"""The report's page: one HTML file that holds every table and figure."""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from jinja2 import Environment, PackageLoader, Template

from damnatio import __version__
from damnatio.evaluation.measuring import ORIGINAL
from damnatio.recipe.schema import Recipe
from damnatio.reporting.findings.claims import Finding
from damnatio.reporting.findings.judging import EXPLANATION, MARKS
from damnatio.reporting.grids import Grid
from damnatio.reporting.lookup import Quantity, Results
from damnatio.support.files import write_atomically
from damnatio.support.tables import Table


@dataclass(frozen=True)
class Illustration:
    """A figure of the page: the file `name`.svg of the report, with its title and caption."""

    name: str
    title: str
    caption: str
    small: bool = False


def write_page(
    recipe: Recipe,
    results: Results,
    warnings: Table,
    grids: Sequence[Grid],
    illustrations: Sequence[Illustration],
    found: Sequence[Finding],
    folder: Path,
) -> None:
    """Write index.html into the report's folder, which holds the figures already."""
    text = template("page.html").render(
        name=recipe.name,
        backbone=recipe.model.backbone,
        head=recipe.model.head,
        size=recipe.faces.size,
        source=recipe.faces.source,
        cards=_cards(recipe, results),
        warnings=once_each(warnings),
        grids=grids,
        figures=[embedded(each, folder) for each in illustrations],
        findings=found,
        explanation=EXPLANATION,
        marks=MARKS,
        version=__version__,
        recipe=yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False),
    )
    write_atomically(folder / "index.html", text)


def template(name: str) -> Template:
    return Environment(loader=PackageLoader("damnatio", "reporting"), autoescape=True).get_template(name)


def once_each(warnings: Table) -> list[str]:
    """What several models are warned of is said once."""
    return list(dict.fromkeys(f"{w['task']}: {w['warning']}" for w in warnings.rows()))


def embedded(illustration: Illustration, folder: Path) -> Mapping[str, str | bool]:
    """The figure as the template takes it, with its file inside."""
    svg = base64.b64encode((folder / f"{illustration.name}.svg").read_bytes()).decode()
    return {
        "title": illustration.title,
        "caption": illustration.caption,
        "small": illustration.small,
        "data": f"data:image/svg+xml;base64,{svg}",
    }


def _cards(recipe: Recipe, results: Results) -> list[dict[str, str]]:
    """The numbers that a reader wants first: how each model links strangers and the forgotten."""
    scale, point = recipe.forget.scales[0], recipe.evaluate.operating_points[-1]
    cards = []
    for variant in (ORIGINAL, *recipe.forget.methods):
        test, unseen = (
            results[Quantity(scale, variant, "1:1", group, "TMR", point)].value for group in ("T", "Fev-Fev")
        )
        if math.isnan(test) and math.isnan(unseen):
            continue  # the variant was evaluated only at another scale
        title = f"{results.titles[variant]}: test → forget-eval TMR at FMR {point:g}"
        cards.append({"value": f"{test:.3f} → {unseen:.3f}", "title": title})
    return cards
