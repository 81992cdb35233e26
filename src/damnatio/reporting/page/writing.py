"""Writes the page: the template, its style and scripts, and the content, in one file that needs nothing else."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from damnatio import __version__
from damnatio.metrics.verification import ENOUGH_ERRORS
from damnatio.reporting import answers
from damnatio.reporting.findings.judging import EXPLANATION
from damnatio.reporting.findings.judging import MARKS as FOUND
from damnatio.reporting.illustrations import Illustration, embedded
from damnatio.reporting.looks import for_a_page
from damnatio.reporting.page.content import BINS, Json
from damnatio.reporting.page.words import COLUMNS, SCORES, SYMBOLS
from damnatio.support.files import write_atomically

SCRIPTS = ("state", "words", "answer", "zoom", "plane", "upright", "charts", "tables", "compare", "main")
DATA = "page.json"
"""the file beside the page that holds its content, for `damnatio compare`"""


@dataclass(frozen=True)
class Page:
    """All that a page shows."""

    title: str
    lead: str
    panels: Sequence[Json]
    titles: Mapping[str, str]
    """the heading of each variant, in the order of the tables"""
    facts: Sequence[tuple[str, str]]
    """of the provenance: what, and its value"""
    recipe: str = ""
    warnings: Sequence[str] = ()
    grids: Sequence[Any] = ()
    findings: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """by title; one without a title for a single run"""
    illustrations: Sequence[Illustration] = ()
    pictures: Mapping[str, str] = field(default_factory=dict)
    """by the name of the image: its address, which holds it"""
    compared: Json | None = None
    """several runs side by side (`comparing.compared`)"""
    links: Sequence[tuple[str, str]] = ()
    """other pages: address and title"""
    notes: Sequence[str] = ()
    """what a reader has to know before the numbers, such as protocols that differ"""


def write_page(page: Page, folder: Path) -> None:
    """Write `index.html` and its content into a folder that holds the illustrations already."""
    content = content_of(page)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    write_atomically(folder / DATA, text + "\n")
    source = Environment(loader=PackageLoader("damnatio", "reporting/page"), autoescape=True, trim_blocks=True)
    rendered = source.get_template("page.html").render(
        page=page,
        content=text.replace("<", "\\u003c"),
        style=_asset("page.css"),
        charts=_asset("echarts.js"),
        licence=_asset("echarts.LICENSE"),
        script="\n".join(_asset(f"{name}.js") for name in SCRIPTS),
        figures=[embedded(each, folder) for each in page.illustrations],
        questions=answers.QUESTIONS,
        headings=answers.HEADINGS,
        meanings={**answers.MEANINGS, "Not known": answers.DATA},
        signs=answers.SIGNS,
        symbols=SYMBOLS,
        explanation=EXPLANATION,
        found=FOUND,
        version=__version__,
    )
    write_atomically(folder / "index.html", rendered)


def content_of(page: Page) -> Json:
    """What the script reads."""
    looks = {look.pop("name"): look for look in for_a_page(list(page.titles))}
    return {
        "version": __version__,
        "title": page.title,
        "variants": {variant: {"title": title, **looks[variant]} for variant, title in page.titles.items()},
        "columns": {
            column.key: {
                "heading": column.heading,
                "symbol": column.symbol,
                "metric": column.metric,
                "place": f"{column.task} {column.calibration}",
                "family": column.family,
                "good": column.good,
            }
            for column in COLUMNS
        },
        "scores": {key: {"name": name, "symbol": symbol} for key, (name, symbol) in SCORES.items()},
        "bins": BINS,
        "enough": ENOUGH_ERRORS,
        "questions": answers.QUESTIONS,
        "short": answers.HEADS,
        "marks": list(answers.MARKS),
        "signs": answers.SIGNS,
        "panels": list(page.panels),
        "compared": page.compared,
        "pictures": dict(page.pictures),
    }


def _asset(name: str) -> str:
    return files("damnatio.reporting.page").joinpath(name).read_text(encoding="utf-8")
