"""The verbs that work on finished runs: `recheck`, `findings`, `join`, `compare`. None needs a model or an image."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from damnatio.cli.arguments import Verbs, folder
from damnatio.cli.showing import add_tables
from damnatio.support.errors import DamnatioError, nearest

if TYPE_CHECKING:
    from damnatio.cli.stored import Stored
    from damnatio.evaluation.rechecking import Original
    from damnatio.support.tables import Table

COMPARE = """\
Put finished runs side by side on one page. Runs of one name that differ in their seeds alone become one column, with
mean and spread; every other one is compared with the first, with the interval of the difference. Runs of another
protocol are shown and marked.
"""
LISTED = 20
"""rows that differ and are shown, for each model"""


def add(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    text = "compute every number of a run again, from its stored embeddings, and compare"
    verb = verbs.add_parser("recheck", help=text, description=f"{text.capitalize()}. Exit code 1: some differ.")
    verb.add_argument("run", type=Path, metavar="RUN", help="the folder of a run; the settings are those of the run")
    verb.add_argument("--method", default="", help="only this one of its methods; original is f* (all)")
    verb.add_argument("--scale", default="", help="only this forget set (all)")
    verb.add_argument("--out", type=folder, metavar="FOLDER", help="write the numbers, one folder per model")
    verb.add_argument("--scores", type=folder, metavar="FOLDER", help="write all scores of 1:1 as CSV, for bob")
    own = verb.add_argument_group(
        "other files", "measure these embeddings with the settings of the run, instead of the run's own"
    )
    own.add_argument("--embeddings", type=Path, metavar="E.safetensors", help="those of the model to measure")
    own.add_argument(
        "--partitions", type=Path, metavar="partitions.parquet", help="the table of partitions (that of the run)"
    )
    own.add_argument("--original", type=Path, metavar="E0.safetensors", help="those of f*, for an altered model")
    verb.set_defaults(act=_recheck)
    found = verbs.add_parser("findings", help="check the paper's eight findings on one or more finished runs")
    found.add_argument("runs", nargs="+", metavar="RUN", help="folders of runs; several compare backbones; or NAME=RUN")
    found.add_argument("--paper", action="store_true", help="put every number beside the paper's")
    found.add_argument(
        "--out", type=folder, metavar="FOLDER", help="write findings.md, and with --paper against-paper.*"
    )
    found.set_defaults(act=_findings)
    text = "join finished runs of one protocol into one report: tables and figures across them"
    several = verbs.add_parser("join", help=text, description=f"{text.capitalize()}. Only their reports are read.")
    run = "folders of runs; NAME=RUN names the experiment, and runs of one name are its seeds"
    several.add_argument("runs", nargs="+", metavar="RUN", help=run)
    several.add_argument("--out", type=folder, required=True, metavar="FOLDER", help="where `report/` is written")
    add_tables(several)
    several.set_defaults(act=_join)
    text = "put finished runs side by side on one page: seeds, backbones, data, versions"
    beside = verbs.add_parser("compare", help=text, description=COMPARE)
    beside.add_argument("runs", nargs="+", metavar="RUN", help=run)
    beside.add_argument("--out", type=folder, required=True, metavar="FOLDER", help="where index.html is written")
    beside.set_defaults(act=_compare_runs)


def _recheck(options: argparse.Namespace) -> int:
    print(f"damnatio recheck: {options.run}", flush=True)  # torch takes seconds to import
    from damnatio.cli.stored import stored_evaluations

    stored = stored_evaluations(options.run)
    if options.embeddings:
        _measure(options, stored)
        return 0
    for name in ("partitions", "original"):
        if getattr(options, name):
            raise DamnatioError(f"--{name} goes with --embeddings: name the embeddings to measure, or leave it out.")
    chosen = [model for model in stored if options.method in ("", model.variant) and options.scale in ("", model.scale)]
    if not chosen:
        _refuse(options, stored)
    return _compare(options, chosen)


def _refuse(options: argparse.Namespace, stored: "list[Stored]") -> None:
    for kind, wanted, known in (
        ("method", options.method, {model.variant for model in stored}),
        ("scale", options.scale, {model.scale for model in stored}),
    ):
        if wanted and wanted not in known:
            raise DamnatioError(f"{options.run} holds no evaluation of the {kind} '{wanted}'.{nearest(wanted, known)}")
    raise DamnatioError(f"{options.run} holds no evaluation of {options.method} at {options.scale}.")


def _compare(options: argparse.Namespace, chosen: "list[Stored]") -> int:
    """Every number of these models again, beside those that the run has."""
    from damnatio.evaluation.measuring import table_of
    from damnatio.evaluation.rates import Result
    from damnatio.evaluation.rechecking import differences, original_of, recheck

    originals: dict[tuple[Path, str], Original] = {}
    total = different = 0
    for model in chosen:
        original: Original | None = None
        if model.original:
            key = model.original, repr(model.setup)  # f* is measured once for all models made from it
            if key not in originals:
                originals[key] = original_of(model.original, model.setup)
            original = originals[key]
        measured = recheck(
            model.embeddings,
            model.setup,
            original=original,
            folder=options.out / model.name if options.out else None,
            scores=options.scores / model.name if options.scores else None,
        )
        found = table_of(Result, measured.results)
        lines = [f"{file}: {line}" for file, table in _results(model) for line in differences(found, table)]
        total, different = total + len(found), different + len(lines)
        verdict = f"{len(lines)} differ" if lines else "all as stored"
        whose = f"{model.experiment} {model.scale}".strip()
        print(f"{whose} {model.variant:<12} {len(found):>5} numbers, {verdict}", flush=True)
        for line in lines[:LISTED]:
            print(f"  {line}")
        if len(lines) > LISTED:
            print(f"  and {len(lines) - LISTED} more")
    if len(chosen) > 1 or different:
        print(f"{total:,} numbers, {f'{different:,} differ' if different else 'all as stored'}")
    _say_where(options)
    return 1 if different else 0


def _results(model: "Stored") -> "list[tuple[Path, Table]]":
    """The numbers of a model in a run: the results of its evaluation, and the rows of the report, which people read."""
    from damnatio.reporting.report import RESULTS, read_report
    from damnatio.support.tables import Table

    tables = [(model.folder / "results.parquet", Table.read(model.folder / "results.parquet"))]
    if model.report:
        table, _ = read_report(model.report)
        mine = (table["scale"] == model.scale) & (table["method"] == model.variant)
        tables.append((model.report / RESULTS, table.where(mine)))
    return tables


def _measure(options: argparse.Namespace, stored: "list[Stored]") -> None:
    """Embeddings that need not be of the run, with its settings."""
    if options.method:
        raise DamnatioError("--method names a model of the run, and --embeddings another: leave one of them out.")
    from damnatio.evaluation.measuring import table_of
    from damnatio.evaluation.rates import Result
    from damnatio.evaluation.rechecking import original_of, recheck

    setup = replace(stored[-1].setup, partitions=options.partitions or stored[-1].setup.partitions, scale=options.scale)
    original = original_of(options.original, setup) if options.original else None
    found = recheck(options.embeddings, setup, original=original, folder=options.out, scores=options.scores)
    _show(table_of(Result, found.results))
    for warning in found.warnings:
        print(f"{warning['task']} {warning['group']}: {warning['warning']}")
    _say_where(options)


def _show(found: "Table") -> None:
    from rich.console import Console
    from rich.table import Table as Shown

    console = Console(width=None if sys.stdout.isatty() else 160, markup=False)
    shown = Shown(box=None, header_style="bold", pad_edge=False)
    names = ["task", "group", "at", "metric", "value", "n", "95 % (subjects)", "95 % (Wilson)"]
    names = names if console.width >= 110 else names[:-1]  # results.csv has them all
    for name in names:
        shown.add_column(name, justify="right" if name in ("at", "value", "n") else "left")
    for row in found.rows():
        at = "" if row["operating_point"] != row["operating_point"] else f"{row['operating_point']:g}"
        spans = [
            "" if row[low] != row[low] else f"[{row[low]:.4f}, {row[high]:.4f}]"
            for low, high in (("low", "high"), ("wilson_low", "wilson_high"))
        ]
        cells = [row["task"], row["group"], at, row["metric"], f"{row['value']:.6f}", f"{row['count']:,}", *spans]
        shown.add_row(*cells[: len(names)])
    console.print(shown)


def _say_where(options: argparse.Namespace) -> None:
    if options.out:
        print(f"results       {options.out}")
    if options.scores:
        print(f"scores        {options.scores}")


def _findings(options: argparse.Namespace) -> int:
    from damnatio.reporting import against_paper, joined
    from damnatio.reporting.findings.judging import evidence_of, judged
    from damnatio.reporting.report import read_report
    from damnatio.running.joint import gathered, reports_of
    from damnatio.support.files import write_atomically

    named = [_named(text) for text in options.runs]
    if len(named) == 1 and "" in reports_of(named[0][1]):  # a plain run: its numbers are enough
        evidence = {"": evidence_of([read_report(named[0][1] / "report")])[0]}
        found = {"": judged(list(evidence.values()))}
    else:
        runs = list(gathered(named).values())
        evidence, found = joined.evidence_of(runs), joined.findings_of(runs)
    text = joined.findings_text(found)
    compared = against_paper.compare(evidence, found) if options.paper else None
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        write_atomically(options.out / "findings.md", text)
        if compared:
            compared.write(options.out)
        print(f"written       {options.out}")
    else:
        print(compared.markdown() if compared else text, end="")
    return 0


def _join(options: argparse.Namespace) -> int:
    print(f"damnatio join: {' '.join(options.runs)}", flush=True)
    from damnatio.cli.showing import say, show_joined
    from damnatio.running.joint import gathered, join
    from damnatio.workspace import Workspace

    runs = gathered([_named(text) for text in options.runs])
    with Workspace(options.out, say=say) as workspace:
        show_joined(list(runs.values()), join(runs, workspace), options.tables)
    return 0


def _compare_runs(options: argparse.Namespace) -> int:
    print(f"damnatio compare: {' '.join(options.runs)}", flush=True)
    from damnatio.reporting.comparison import write_comparison
    from damnatio.running.joint import gathered

    runs = gathered([_named(text) for text in options.runs], beside=True)
    for line in write_comparison(options.out.resolve().name, list(runs.values()), options.out):
        print(line)
    print(f"Page: {options.out / 'index.html'}")
    return 0


def _named(text: str) -> tuple[str, Path]:
    """NAME=RUN, or a run without a name; a folder whose own name has a `=` is a folder."""
    name, equals, place = text.partition("=")
    return (name, Path(place)) if equals and not Path(text).exists() else ("", Path(text))
