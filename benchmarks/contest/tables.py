"""The results of a contest: one CSV file with a row per run, and what is made of that file alone: the tables, and a
figure."""

import csv
import math
import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contest.holding import Contest, Entry, Tried
from contest.rules import FORGETTING, RECOGNITION, REPORTED, TUNING, WORLDS
from contest.runs import Run, value_of
from damnatio.evaluation.measuring import ORIGINAL
from damnatio.support.files import atomic_file, write_atomically
from damnatio.support.tables import Table


@dataclass(frozen=True)
class Column:
    """A number of an evaluation."""

    name: str
    title: str
    group: str
    metric: str
    point: float | None


COLUMNS = (
    Column("test", "test ↑", "T", "TMR", RECOGNITION),
    Column("single", "test, single photos ↑", "T single", "TMR", RECOGNITION),
    Column("bystanders", "bystanders ↑", "B", "TMR", RECOGNITION),
    Column("legacy_test", "test, old templates ↑", "T", "TMR_legacy", RECOGNITION),
    Column("seen_2", "seen ↓", "Ftr-Ftr", "TMR", FORGETTING),
    Column("seen_4", "seen, 1e-4 ↓", "Ftr-Ftr", "TMR", RECOGNITION),
    Column("new_2", "new ↓", "Fev-Fev", "TMR", FORGETTING),
    Column("new_4", "new, 1e-4 ↓", "Fev-Fev", "TMR", RECOGNITION),
    Column("averaged_2", "averaged ↓", "avg(Ftr)-Fev", "TMR", FORGETTING),
    Column("averaged_4", "averaged, 1e-4 ↓", "avg(Ftr)-Fev", "TMR", RECOGNITION),
    Column("legacy_averaged_2", "new, old template ↓", "avg(Ftr)-Fev", "TMR_legacy", FORGETTING),
    Column("footprint", "footprint ↓", "R", "footprint", None),
)
SHORT = {
    "test": "others still recognised ↑",
    "seen_2": "linked: photos seen ↓",
    "new_2": "linked: new photos ↓",
    "averaged_2": "re-linked by averaging ↓",
    "footprint": "footprint ↓",
}
"""the columns of the summary"""
NAMES = {ORIGINAL: "f\\*, before"}
BEHIND = "*a map behind f\\*, which stays in the file:*"
MAPS = ("GS",)
"""behind f*, which stays in the file"""
REMOVED = {
    "OF": "OF was taken out: it ran with an earlier frame.",
    "CP": "CP was taken out: it ran with the centroid of a batch (`step`).",
    "FT": "No control (FT) took part.",
}
"""said where a method is missing"""
WHERE = {
    "rendered": "10 rendered people forgotten by iresnet-tiny; another f\\* and other people in each draw",
    "lfw": "40 people of LFW forgotten by a published MobileFaceNet, whose tail is trained; other people in each draw",
}


# --- the runs as a file ---------------------------------------------------------------------------------------------


def publish(contest: Contest, world: str, out: Path) -> None:
    """Write the CSV file of a contest, and everything that is made of it."""
    rows = list(_rows(contest))
    out.mkdir(parents=True, exist_ok=True)
    with atomic_file(out / f"{world}.csv") as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_tables(out / f"{world}.csv")


def write_tables(file: Path) -> None:
    """The tables and the figure of a CSV file, beside it."""
    runs = read(file)
    world = file.stem
    write_atomically(file.with_suffix(".md"), f"{table(runs, world)}\n{tried(runs)}")
    write_atomically(file.with_name(f"{world}-summary.md"), summary(runs, world))
    draw(runs, file.with_suffix(".png"))


def _rows(contest: Contest) -> Iterator[dict[str, str]]:
    for number, results in contest.originals.items():
        yield _row(ORIGINAL, number, results)
    for entry in contest.entries:
        for each in entry.tried:
            yield _run_row(entry, each.run, each)
        for run in entry.reported:
            yield _run_row(entry, run, None)


def _run_row(entry: Entry, run: Run, judged: Tried | None) -> dict[str, str]:
    row = _row(run.contestant, run.draw, run.results)
    knobs = " ".join(f"{name}={run.setting[name]:.3g}" for name in entry.contestant.knobs)
    cost = {"image_gradients": str(run.gradients), "seconds": f"{run.seconds:.1f}"}
    harm = {"harm": f"{judged.harm:.4f}", "chosen": "yes" if judged is entry.chosen else "no"} if judged else {}
    return row | {"setting": knobs, **cost, **harm, "commit": run.commit, "error": run.error}


def _row(method: str, draw: int, results: Table | None) -> dict[str, str]:
    row = {"method": method, "draw": str(draw), "setting": "", "harm": "", "chosen": ""}
    for column in COLUMNS:
        metric = column.metric
        if method == ORIGINAL:  # its own templates are the old ones
            metric = metric.removesuffix("_legacy")
        value = math.nan if results is None else value_of(results, column.group, metric, column.point)
        row[column.name] = f"{value:.6f}"
    return row | {"image_gradients": "0", "seconds": "0", "commit": "", "error": ""}


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


# --- what is made of the file -----------------------------------------------------------------------------------------


def reported(runs: Sequence[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    """The runs of the reported draws, by method, in the order of the file."""
    found: dict[str, list[dict[str, str]]] = {}
    for row in runs:
        if int(row["draw"]) != TUNING:
            found.setdefault(row["method"], []).append(row)
    return found


def mean(rows: Sequence[dict[str, str]], name: str) -> float:
    return statistics.fmean(float(row[name]) for row in rows)


def spread(rows: Sequence[dict[str, str]], name: str) -> float:
    """The standard deviation over the draws; 0 for a single draw."""
    values = [float(row[name]) for row in rows]
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else 0.0


def table(runs: Sequence[dict[str, str]], world: str) -> str:
    """One row per method, over the reported draws."""
    methods = reported(runs)
    titles = [column.title for column in COLUMNS]
    lines = [["", *titles, "image-gradients", "seconds", "setting chosen"]]
    for name, rows in methods.items():
        cells = [_cell(rows, column.name, digits=4 if column.name == "footprint" else 3) for column in COLUMNS]
        gradients = f"{round(mean(rows, 'image_gradients')):,}"
        cost = [gradients, _cell(rows, "seconds", digits=1)] if name != ORIGINAL else ["", ""]
        if name in MAPS:
            lines.append([BEHIND, *[""] * (len(lines[0]) - 1)])
        lines.append([NAMES.get(name, name), *cells, *cost, rows[0]["setting"].replace("_", "\\_")])
    points = ["" if column.point is None else f"{column.point:g}" for column in COLUMNS]
    lines.append(["chance", *points, "", "", ""])
    draws = len(methods[ORIGINAL])
    missing = f" {len(REPORTED) - draws} of {len(REPORTED)} draws are missing." if draws < len(REPORTED) else ""
    commits = sorted({row["commit"] for row in runs if row["commit"]})
    sentences = (
        f"Mean ± standard deviation over {draws} draws of people.{missing}",
        "[The rules](../../benchmarks/contest/rules.py) say what was declared before:",
        "equal image-gradients and four settings for each method, chosen on other people.",
        "Shares of mated comparisons that are accepted at a false match rate of 1e-4 (test, bystanders) or 1e-2 (seen,",
        "new, averaged), except where a column says 1e-4.",
        "Bystanders: people like the forgotten who are not to be forgotten, on single photographs.",
        "Old templates: enrolled under f\\*, probes under f, at the threshold of f\\*.",
        f"Seconds: of one processor thread, for forgetting alone. {budget(world)}",
        f"Code at {', '.join(commits)}.",
        *missing_methods(methods),
    )
    return f"**The contest: {WHERE[world]}**\n\n{_markdown(lines)}\n\n{' '.join(sentences)}\n"


def budget(world: str) -> str:
    rules = WORLDS[world]
    return (
        f"The budget of {rules.gradients():,} image-gradients is {rules.gradients() / rules.usual:.0%} of that in "
        "a run of the recipe itself: methods that fine-tune may reach more with more."
    )


def tried(runs: Sequence[dict[str, str]]) -> str:
    """Every setting on the draw that chooses."""
    lines = [["", "setting", "harm ↓", "test ↑", "new ↓", "averaged ↓", "footprint ↓"]]
    for row in runs:
        if int(row["draw"]) == TUNING:
            bold = "**" if row["chosen"] == "yes" else ""
            values = [f"{float(row[name]):.3f}" for name in ("harm", "test", "new_2", "averaged_2", "footprint")]
            setting = row["setting"].replace("_", "\\_")
            lines.append([row["method"], f"{bold}{setting}{bold}", *(["-"] * 5 if row["error"] else values)])
    return f"**The settings tried, on the people of draw 0; chosen ones in bold**\n\n{_markdown(lines)}\n"


def summary(runs: Sequence[dict[str, str]], world: str) -> str:
    """The short table, ordered by the harm on the reported draws, as the rules define it."""
    methods = reported(runs)
    before = mean(methods[ORIGINAL], "test")
    harm = {name: linked(rows) + max(0.0, before - mean(rows, "test")) for name, rows in methods.items()}
    order = sorted((name for name in methods if name != ORIGINAL), key=lambda name: (name in MAPS, harm[name]))
    lines = [["", *SHORT.values(), "image-gradients", "seconds"]]
    for name in (ORIGINAL, *order):
        rows = methods[name]
        cells = [_cell(rows, column, digits=3) for column in SHORT]
        cost = (
            ["", ""]
            if name == ORIGINAL
            else [f"{round(mean(rows, 'image_gradients')):,}", f"{mean(rows, 'seconds'):.0f}"]
        )
        if name in MAPS:
            lines.append([BEHIND, *[""] * (len(lines[0]) - 1)])
        lines.append([NAMES.get(name, name), *cells, *cost])
    lines.append(["chance", f"{RECOGNITION:g}", *[f"{FORGETTING:g}"] * 3, "", "", ""])
    return (
        f"{_markdown(lines)}\n\nMean ± standard deviation of {len(methods[ORIGINAL])} draws: {WHERE[world]}. The first "
        "column at a false match rate of 1 in 10,000, the next three at 1 in 100. "
        f"{' '.join(missing_methods(methods))}\n"
    )


def missing_methods(methods: Collection[str]) -> list[str]:
    return [words for name, words in REMOVED.items() if name not in methods]


def linked(rows: Sequence[dict[str, str]]) -> float:
    """The forgetting that the choice asks for: the worse of new pairs and averaged templates."""
    return statistics.fmean(max(float(row["new_2"]), float(row["averaged_2"])) for row in rows)


def _cell(rows: Sequence[dict[str, str]], name: str, digits: int) -> str:
    value = mean(rows, name)
    if not math.isfinite(value):
        return "-"
    return f"{value:.{digits}f} ± {spread(rows, name):.{digits}f}"


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    ruled = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in ruled)


def draw(runs: Sequence[dict[str, str]], file: Path) -> None:
    """Forgetting against the cost to everybody else: one point per method, with its spread over the draws."""
    import matplotlib as mpl

    from damnatio.reporting.canvas import FORMATS, STYLE, column, drawn_in, legend
    from damnatio.reporting.looks import in_order, looks_of

    methods = reported(runs)
    before = {row["draw"]: float(row["test"]) for row in methods.pop(ORIGINAL)}
    with mpl.rc_context(STYLE):
        figure = column(2.9)
        axes = figure.subplots()
        looks = looks_of(in_order(list(methods)))
        for name, look in looks.items():
            lost = [before[row["draw"]] - float(row["test"]) for row in methods[name]]
            links = [max(float(row["new_2"]), float(row["averaged_2"])) for row in methods[name]]
            if not all(map(math.isfinite, (*lost, *links))):
                continue
            x, y = statistics.fmean(lost), statistics.fmean(links)
            across = [[x - min(lost)], [max(lost) - x]]
            up = [[y - min(links)], [max(links) - y]]
            dot: Any = {"marker": look.marker, "ms": look.size, "color": look.colour, "ls": "", "lw": 0.8}
            axes.errorbar(x, y, up, across, label=name, **dot)
        axes.axvline(0, color="#bbbbbb", linewidth=0.6, zorder=0)
        axes.axhline(0.01, color="#bbbbbb", linewidth=0.6, linestyle="--", zorder=0)
        axes.set_ylim(-0.05, 1.05)
        axes.set_xlabel("test TMR lost at FMR 1e-4 (cost to everybody else)")
        axes.set_ylabel("forgotten people still linked at FMR 1e-2\n(worse of new pairs and averaged templates)")
        legend(figure, drawn_in([axes]), handle=1.0)
        figure.savefig(file, **FORMATS["png"])
