"""erasure.html: what was done, for whoever asked for it. One file, without a photograph."""

import math
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from damnatio.erasure.record import Record
from damnatio.erasure.wording import shown
from damnatio.support.files import write_atomically

FIRST = {
    ("1:1", "T"): "strangers still recognised",
    ("1:1", "T single"): "strangers still recognised, single photographs",
    ("1:1", "B"): "bystanders still recognised, single photographs",
    ("1:1", "Ftr-Ftr"): "forgotten people linked, photographs seen",
    ("1:1", "Fev-Fev"): "forgotten people linked, new photographs",
    ("1:1", "avg(Ftr)-Fev"): "forgotten people linked, new against the average of seen",
}
"""the rows of the report that the page shows"""


def write_page(record: Record, path: Path, report: Path | None) -> None:
    """Write the page. `report` is the folder of the report, if there is one."""
    page = Environment(loader=PackageLoader("damnatio", "erasure"), autoescape=True, finalize=shown)
    page.filters["percent"] = lambda share: "" if share is None else f"{100 * share:.1f} %"
    text = page.get_template("page.html").render(record=record, rows=_rows(record, report) if report else [])
    write_atomically(path, text)


def _rows(record: Record, report: Path) -> list[dict[str, Any]]:
    """Rates before and after, at the lowest operating point that was calibrated."""
    from damnatio.reporting.report import read_report

    results, _ = read_report(report)
    rates = [row for row in results.rows() if row["metric"] == "TMR" and not math.isnan(row["value"])]
    lowest = min((row["operating_point"] for row in rates), default=0.0)
    found = []
    for (task, group), title in FIRST.items():
        by = {
            row["method"]: row
            for row in rates
            if (row["task"], row["group"]) == (task, group) and row["operating_point"] == lowest
        }
        if {"original", record.method} <= by.keys():
            before, after = by["original"], by[record.method]
            found.append(
                {
                    "title": title,
                    "before": f"{before['value']:.4f}",
                    "after": f"{after['value']:.4f}",
                    "count": f"{after['count']:,}",
                    "point": f"{lowest:g}",
                }
            )
    return found
