"""Copy the tables and figures of a finished run here, with the recipe and the command that made them; write the short
table `summary.md`, the paper's findings and the comparison with the paper from its results; and put into the documents
what they show. Photographs are never copied: of a run on real faces, figures that show faces stay where they are. Of a
run of several experiments, each one's report comes into a folder of its name. The tables and figures that join them are
made from all experiments that are here, so they may come from several runs and machines.

usage: python results/collect.py runs/demo results/demo
       python results/collect.py results/demo               the summary, the findings, the joined tables and the
                                                            documents again, from what is here
       python results/collect.py                            the documents alone
"""

import csv
import json
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ("distributions-*", "weak-strong-*", "det-*", "trade-off", "mechanism")
"""as PNG alone, which the documents show; the report of a run has them as SVG and PDF too"""
KEPT = (
    "results.csv",
    "warnings.csv",
    "against-paper*.csv",
    "cost.jsonl",
    "*.md",
    *(f"{figure}.png" for figure in FIGURES),
)
SHOW_FACES = ("captures.png",)
JOINED = ("results.csv", "warnings.csv", "against-paper*.csv", "*.md", "*.tex", "*.png")
"""of a joined report, which has no face in it"""

ROWS = {
    "original": "f\\*, before",
    "FT": "FT, the control: forgets nobody",
    "BI": "BI, burn-in",
    "HD": "HD, hard dispersion",
    "OF": "OF, orthonormal frame",
    "GS": "GS, gate and scatter",
}
"""the methods that tell most, as the summary names them; the last is a map behind the network"""
COLUMNS = {
    "T": "strangers still recognised ↑",
    "B": "bystanders still linked ↑",
    "Fev-Fev": "forgotten people linked by new photos ↓",
    "avg(Ftr)-Fev": "re-linked by averaging ↓",
}
"""the groups that tell most"""
OTHER = "other-processor.csv"
"""the results of the same recipe as another processor computed them, if they were kept"""
ENOUGH = 30
"""false matches that a threshold must rest on"""


def collect(run: Path, target: Path) -> list[Path]:
    """Copy everything; the folders that hold the report of one experiment each."""
    names = json.loads((run / "report" / "stage.json").read_text())["settings"].get("experiments")
    if not names:
        collect_one(run / "report", target)
        return [target]
    for name in names:
        collect_one(run / f"report-{name}", target / name)
    return [target / name for name in names]


def collect_one(report: Path, target: Path) -> None:
    """The report of one experiment."""
    target.mkdir(parents=True, exist_ok=True)
    made = json.loads((report / "stage.json").read_text())
    recipe, how = made["settings"]["recipe"], made["made"]
    copy(report, (*KEPT, *(SHOW_FACES if recipe["faces"]["source"] == "synthetic" else ())), target)
    command = re.sub(r" --task \S+", "", how["command"])  # a run in slots calls itself for each part
    header = f"# {command}\n# damnatio {how['damnatio']}, {how['machine']}, {how['finished']}\n"
    (target / "recipe.yaml").write_text(header + yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True))


def copy(report: Path, patterns: tuple[str, ...], target: Path) -> None:
    for file in sorted(file for pattern in patterns for file in report.glob(pattern)):
        shutil.copy(file, target / file.name)


def summary(results: Path) -> str:
    """The short table of a run: its first scale, at the lowest false match rate that rests on enough comparisons and at
    the highest."""
    with results.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["task"] == "1:1"]
    rows = [row for row in rows if row["scale"] == rows[0]["scale"] and row["method"] in ROWS]
    points = operating_points(rows)
    found = {(row["method"], row["group"], row["metric"], row["operating_point"]): row for row in rows}
    methods = [name for name in ROWS if (name, "R", "footprint", "") in found]
    columns = {group: title for group, title in COLUMNS.items() if ("original", group, "TMR", points[0]) in found}
    lines = [["", *columns.values(), "footprint ↓"], ["---"] * (len(columns) + 2)]
    for name in methods:
        if name == "GS":
            lines.append(["*a map behind f\\*, which stays in the file:*", *[""] * (len(columns) + 1)])
        rates = [" / ".join(f"{float(found[name, g, 'TMR', at]['value']):.3f}" for at in points) for g in columns]
        lines.append([ROWS[name], *rates, f"{float(found[name, 'R', 'footprint', '']['value']):.3f}"])
    lines.append(["chance", *[" / ".join(f"{float(at):g}" for at in points)] * len(columns), ""])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    first = {group: found["original", group, "TMR", points[0]] for group in columns}
    counts = ", ".join(f"{int(first[group]['count']):,}" for group in columns)
    people, at = first["Fev-Fev"]["subjects"], " and ".join(f"1 in {1 / float(point):,.0f}" for point in points)
    sentences = [
        f"{rows[0]['backbone']}, {rows[0]['scale']}: {people} people are forgotten.",
        f"All columns but the last are shares of comparisons that are accepted at false match rates of {at},",
        f"which is chance; they rest on {counts} comparisons of one person with the same person.",
        *_people(found, methods, points),
        '"New": neither photograph was used to forget; "averaging": a new one against the mean of those that were.',
        *(
            ["Bystanders are people of the same collection who are not to be forgotten, compared as the forgotten are."]
            if "B" in columns
            else []
        ),
        "The footprint says how far the scores of retained people moved, in units of the cosine.",
        *(["" if "FT" in methods else "No control (FT) was run here."]),
    ]
    text = " ".join(filter(None, sentences))
    note = NOTE.get(results.parent.name, "")
    return f"{table}\n\n{text}\n" + (f"\n{note}\n" if note else "")


def _people(found: dict[tuple[str, ...], dict[str, str]], methods: Sequence[str], points: Sequence[str]) -> list[str]:
    """How many people still link beyond chance, where the results have it; else how many have any pair that links."""
    said = []
    for metric, words in (("linked_people", "link beyond chance"), ("weakly_forgotten", "have a pair that links")):
        known = [name for name in methods if (name, "F", metric, points[0]) in found]
        if known and not said:
            each = []
            for name in known:
                rows = [found[name, "F", metric, at] for at in points]
                shares = [float(row["value"]) for row in rows]
                linked = [share if metric == "linked_people" else 1 - share for share in shares]
                numbers = [str(round(share * int(row["count"]))) for share, row in zip(linked, rows, strict=True)]
                each.append(f"{ROWS[name].split(',')[0]} {' / '.join(numbers)}")
            count = int(found[known[0], "F", metric, points[0]]["count"])
            chance = "one in twenty" if metric == "linked_people" else " / ".join(_by_chance(found, count, points))
            said.append(f"Of {count} people, so many still {words}: {', '.join(each)}; by chance at most {chance}.")
    return said


def _by_chance(found: dict[tuple[str, ...], dict[str, str]], people: int, points: Sequence[str]) -> list[str]:
    """How many people have a pair that links by chance, at most: if all had as many pairs as they have in the mean."""
    groups = ("Ftr-Ftr", "Ftr-Fev", "Fev-Fev")
    pairs = sum(int(found["original", group, "TMR", points[0]]["count"]) for group in groups) / people
    return [f"{math.ceil(people * (1 - (1 - float(at)) ** pairs))}" for at in points]


NOTE = {
    "lfw-mobilefacenet": (
        "BI had 384 steps of AdamW, with distillation and frozen BatchNorm; HD and FT had 192 of SGD. OF and CP were "
        "taken out of this run's tables, and its figures with them: OF ran with an earlier frame and CP with the "
        "centroid of a batch (`step`), which are no longer what these names stand for, and the run was not made again. "
        "GS's gates were narrowed to spare the retained people on whom its footprint is measured. Captures were told "
        "apart on the older `normalised` scale: on it 2 of 17,335 pairs of LFW are one capture, on "
        "today's 3."
    )
}
"""what has to be said beside the table of a run"""


def judge(target: Path) -> None:
    """The tables, the paper's findings and the comparison with the paper, from the results of one run."""
    from damnatio.recipe.building import built
    from damnatio.reporting import against_paper, cost
    from damnatio.reporting.findings.judging import evidence_of, judged, markdown
    from damnatio.reporting.report import headings, maps_of, measured_grids, read_report

    results, warnings = read_report(target)
    recipe = built(yaml.safe_load((target / "recipe.yaml").read_text()), target / "recipe.yaml")
    grids = measured_grids(recipe, results, warnings)
    if spent := cost.read(target):
        panels = {s: [{v: each for (at, v), each in spent.items() if at == s}] for s in recipe.forget.scales}
        grids.append(cost.table(panels, headings(recipe), maps_of(recipe)))
    for grid in grids:
        (target / f"{grid.name}.md").write_text(grid.markdown())
    evidence = evidence_of([(results, warnings)])
    found = judged(evidence)
    (target / "findings.md").write_text(markdown(found))
    against_paper.compare({"": evidence[0]}, {"": found}).write(target)


def join(folders: Sequence[Path], target: Path) -> None:
    """The tables and figures that put several experiments side by side."""
    from damnatio.recipe.building import built
    from damnatio.recipe.experiments import without_seed
    from damnatio.recipe.protocols import other_protocol
    from damnatio.reporting.joined import Run, write_numbers

    runs = []
    for folder in folders:
        file = folder / "recipe.yaml"
        recipe = built(yaml.safe_load(file.read_text()), file)
        runs.append(Run(without_seed(folder.name, recipe.seed), recipe, folder))
        if difference := other_protocol(runs[0].recipe, recipe):
            sys.exit(f"{folders[0]} and {folder} cannot stand in one table: {difference}. Collect them apart.")
    with tempfile.TemporaryDirectory() as drawn:
        write_numbers(runs, Path(drawn))
        copy(Path(drawn), JOINED, target)


def other_processor(target: Path) -> str:
    """How far the same recipe went from these results on another processor."""
    from compare import lines

    methods = sorted({row["method"] for row in csv.DictReader((target / OTHER).open(newline=""))})
    table = "\n".join(lines(target / "results.csv", target / OTHER, methods))
    names = " and ".join("f\\*" if name == "original" else name for name in reversed(methods))
    return (
        f"**{names}, trained with one thread and no instruction newer than SSE4, compared with these results**\n\n"
        f"```\n{table}\n```\n\n`in the interval` counts the rows that stayed within the 95 % interval stated here.\n"
    )


def operating_points(rows: list[dict[str, str]]) -> list[str]:
    """The lowest target rate at which every model's calibration saw enough false matches, and the highest there is."""
    errors: dict[str, float] = {}
    for row in rows:
        if (row["group"], row["metric"]) == ("D", "FMR"):
            seen = float(row["value"]) * int(row["count"])
            errors[row["operating_point"]] = min(seen, errors.get(row["operating_point"], seen))
    enough = [point for point in errors if errors[point] >= ENOUGH]
    highest = max(errors, key=float)
    return list(dict.fromkeys([min(enough, key=float) if enough else highest, highest]))


def _reports_in(target: Path) -> list[Path]:
    """The folders that hold the results of one experiment each: the target, or those in it, in the order of the joined
    results; new ones come last."""
    inner = sorted(file.parent for file in target.glob("*/recipe.yaml"))
    if not inner:
        return [target]
    known: list[str] = []
    if (target / "results.csv").exists():
        with (target / "results.csv").open(newline="") as file:
            known = list(dict.fromkeys(row["experiment"] for row in csv.DictReader(file)))
    return sorted(inner, key=lambda folder: known.index(folder.name) if folder.name in known else len(known))


def show_in_documents() -> None:
    """Put the files that the documents name between their marks."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = re.sub(
            r"(<!-- from (\S+) -->\n).*?(<!-- end -->)",
            lambda match: match[1] + (ROOT / match[2]).read_text().strip() + "\n" + match[3],
            page.read_text(),
            flags=re.DOTALL,
        )
        page.write_text(text)


def main(*folders: Path) -> None:
    if not folders:
        show_in_documents()
        return
    target = folders[-1]
    plain = collect(*folders) if len(folders) == 2 else _reports_in(target)
    for one in plain:
        (one / "summary.md").write_text(summary(one / "results.csv"))
        judge(one)
    if plain != [target]:
        join(plain + [folder for folder in _reports_in(target) if folder not in plain], target)
    if (target / OTHER).exists():
        (target / OTHER).with_suffix(".md").write_text(other_processor(target))
    show_in_documents()
    print(f"{len([file for file in target.rglob('*') if file.is_file()])} files in {target}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
