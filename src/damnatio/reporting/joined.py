"""The joined report: several finished reports of one protocol, in one set of tables and figures.

A run of a joined report is one experiment with one seed. Runs of one experiment are averaged: a number of theirs is
shown as the mean over the seeds ± the standard deviation. All numbers come from the `results.csv` of each report, so
neither models, embeddings nor images are needed.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.recipe.protocols import other_protocol, other_settings
from damnatio.recipe.schema import Recipe
from damnatio.reporting import against_paper, cost, layouts, trade_off
from damnatio.reporting.findings import judging
from damnatio.reporting.findings.claims import Finding
from damnatio.reporting.findings.evidence import Evidence
from damnatio.reporting.grids import Grid
from damnatio.reporting.illustrations import Illustration
from damnatio.reporting.joined_figures import rates_by_group
from damnatio.reporting.looks import in_order
from damnatio.reporting.lookup import Averaged, Results
from damnatio.reporting.page import comparing
from damnatio.reporting.page.comparing import Side, read_content, titles_of
from damnatio.reporting.page.writing import Page, write_page
from damnatio.reporting.panels import Panel
from damnatio.reporting.report import RESULTS, WARNINGS, headings, maps_of, once_each, read_report, write_grids
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically
from damnatio.support.manifests import checked, manifest_of
from damnatio.support.tables import Table


@dataclass(frozen=True)
class Run:
    """The finished report of one experiment with one seed."""

    experiment: str
    recipe: Recipe
    folder: Path

    @property
    def seed(self) -> int:
        return self.recipe.seed

    @property
    def page(self) -> str:
        """The name of its page in the folder of the joined report."""
        return f"page-{self.experiment or 'seed'}-{self.seed}.html"

    @cached_property
    def tables(self) -> tuple[Table, Table]:
        """Its long results and its warnings."""
        return read_report(self.folder)

    @property
    def titles(self) -> Mapping[str, str]:
        try:
            return headings(self.recipe)
        except DamnatioError:  # a method of another machine's plugin
            return {ORIGINAL: "f*", **{variant: variant for variant in self.recipe.forget.methods}}

    @property
    def maps(self) -> set[str]:
        try:
            return maps_of(self.recipe)
        except DamnatioError:
            return set()


def write_joined(name: str, runs: Sequence[Run], folder: Path) -> None:
    """Write all of a joined report: what `write_numbers` writes, and a page that links each run's."""
    grids, found = write_numbers(runs, folder)
    for run in runs:
        shutil.copyfile(checked(run.folder / "index.html"), folder / run.page)
    bars = " Bars are standard deviations over seeds." if len(_seeds(runs)) > 1 else ""
    sides = sides_of(runs)
    write_page(
        Page(
            title=name,
            lead=f"{len(runs)} runs of one protocol side by side.",
            panels=comparing.panels_of(sides),
            titles=titles_of(sides),
            facts=[(_described(run), f"key {manifest_of(run.folder).get('key', 'unknown')}") for run in runs],
            warnings=once_each(_long(runs, 1)),
            grids=grids,
            findings=found,
            illustrations=[
                Illustration(trade_off.NAME, "What forgetting costs", f"{trade_off.CAPTION}{bars}"),
                Illustration("rates-by-group", "Rates of each group", f"{BY_GROUP}{bars}"),
            ],
            compared=comparing.compared(sides) if len(runs) > 1 else None,
            links=[(run.page, _described(run)) for run in runs],
        ),
        folder,
    )


def write_numbers(runs: Sequence[Run], folder: Path) -> tuple[list[Grid], dict[str, list[Finding]]]:
    """Write `results.csv`, tables, figures, findings and the comparison with the paper, from the results alone. The
    tables and the findings are what a page shows of them."""
    for which, file in enumerate((RESULTS, WARNINGS)):
        _long(runs, which).write_csv(folder / file)
    grids, found = grids_of(runs), findings_of(runs)
    write_grids([*grids, *costs_of(runs)], folder)
    panels, point = panels_of(runs), runs[0].recipe.evaluate.operating_points[0]
    trade_off.trade_off(panels, folder)
    rates_by_group(panels, point, folder)
    write_atomically(folder / "findings.md", findings_text(found))
    against_paper.compare(evidence_of(runs), found).write(folder)
    return grids, found


BY_GROUP = "R and T shall stay where f* is; the forget groups shall fall."


def grids_of(runs: Sequence[Run]) -> list[Grid]:
    """The paper's Tables V, IV and III and the numbers of its text, over all runs."""
    panels, points = panels_of(runs), runs[0].recipe.evaluate.operating_points
    grids = [*layouts.comparison(panels, points[0]), layouts.rates(panels, points)]
    grids += [layouts.distances(panels), layouts.text(panels)]
    seeds = _seeds(runs)
    if len(seeds) > 1:
        listed = ", ".join(map(str, seeds))
        for grid in grids:
            counted = "; n is added up over them" if "n" in grid.header else ""
            grid.notes.insert(0, f"Mean ± standard deviation over the seeds {listed}{counted}.")
    return grids


def panels_of(runs: Sequence[Run]) -> list[Panel]:
    """One panel per experiment and scale. Its title leaves out what is the same in all of them."""
    panels = []
    for name, its in _by_experiment(runs).items():
        results = Averaged([Results(*run.tables, run.titles, run.maps) for run in its])
        variants = sorted(in_order(list(results.titles)), key=results.maps.__contains__)
        panels += [Panel(title, results, scale, variants) for scale, title in _scales(runs, name).items()]
    return panels


def costs_of(runs: Sequence[Run]) -> list[Grid]:
    """The hours of each training, over all runs whose reports have them."""
    panels: dict[str, list[dict[str, cost.Cost]]] = {}
    titles: dict[str, str] = {}
    maps: set[str] = set()
    for name, its in _by_experiment(runs).items():
        found = [cost.read(run.folder) for run in its]
        for run in its:
            titles |= run.titles
            maps |= run.maps
        for scale, title in _scales(runs, name).items():
            panels[title] = [{v: each for (at, v), each in costs.items() if at == scale} for costs in found]
    known = any(costs for panel in panels.values() for costs in panel)
    order = sorted(in_order(list(titles)), key=maps.__contains__)
    return [cost.table(panels, {v: titles[v] for v in order}, maps)] if known else []


def _scales(runs: Sequence[Run], experiment: str) -> dict[str, str]:
    """The scales of an experiment, and the title of its panel at each."""
    experiments = _by_experiment(runs)
    every = {scale for run in runs for scale in run.recipe.forget.scales}
    titles = {}
    for scale in dict.fromkeys(scale for run in experiments[experiment] for scale in run.recipe.forget.scales):
        parts = [experiment] if len(experiments) > 1 else []
        parts += [scale] if (len(every) > 1 and scale != experiment) or not parts else []
        titles[scale] = " ".join(parts)
    return titles


def findings_of(runs: Sequence[Run]) -> dict[str, list[Finding]]:
    """The paper's findings, judged on each seed by itself; the seed is part of the title where there are several."""
    seeds, found = _seeds(runs), {}
    for seed in seeds:
        for name, mine in judged_together([run for run in runs if run.seed == seed]).items():
            of_seed = f"{name}, seed {seed}" if name else f"Seed {seed}"
            found[of_seed if len(seeds) > 1 else name] = judging.judge([run.tables for run in mine])
    return found


def judged_together(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """All runs, if they complete each other: other backbones, scales or methods. Runs of one backbone that measured
    the same again are experiments of their own, and each is judged by itself, under its name."""
    return _by_experiment(runs) if judging.contradiction([run.tables[0] for run in runs]) else {"": list(runs)}


def evidence_of(runs: Sequence[Run]) -> dict[str, Evidence]:
    """What is compared with the paper, by title: the means over seeds of each experiment. Experiments of one backbone
    that complete each other are one."""
    means = {}
    for name, its in _by_experiment(runs).items():
        tables = against_paper.mean_of([run.tables[0] for run in its])
        means[name] = (tables, Table.joined([run.tables[1] for run in its]))
    if judging.contradiction([results for results, _ in means.values()]):
        return {name: Evidence(*both) for name, both in means.items()}
    return {n.backbone: n for n in judging.evidence_of(list(means.values()))}


def findings_text(found: Mapping[str, Sequence[Finding]]) -> str:
    """The findings of each seed, as a page of text."""
    return "\n".join((f"## {title}\n\n" if title else "") + judging.markdown(one) for title, one in found.items())


def terminal_tables(runs: Sequence[Run], width: int) -> list[Any]:
    """The tables that compare the experiments, for a terminal of this width."""
    grids = grids_of(runs)
    return [*[table for grid in grids[:2] for table in grid.terminal(width)], "\n".join(grids[0].notes)]


def _long(runs: Sequence[Run], which: int) -> Table:
    """The tables of all runs one after the other; each row begins with its experiment and its seed."""
    tables = []
    for run in runs:
        table = run.tables[which]
        experiment, seed = [run.experiment] * len(table), [run.seed] * len(table)
        tables.append(Table({"experiment": experiment, "seed": seed, **table.columns}))
    return Table.joined(tables)


def _by_experiment(runs: Sequence[Run]) -> dict[str, list[Run]]:
    names = dict.fromkeys(run.experiment for run in runs)
    return {name: [run for run in runs if run.experiment == name] for name in names}


def _seeds(runs: Sequence[Run]) -> list[int]:
    return list(dict.fromkeys(run.seed for run in runs))


def _described(run: Run) -> str:
    """A run as the page names it."""
    return f"{run.experiment or run.recipe.model.backbone}, seed {run.seed}"


def sides_of(runs: Sequence[Run]) -> list[Side]:
    """One side per experiment; runs of one experiment that differ in more than their seeds are sides of their own."""
    groups: list[list[Run]] = []
    for run in runs:
        mine = next((group for group in groups if _is_seed_of(group, run)), None)
        if mine is None:
            groups.append([run])
        else:
            mine.append(run)
    names = [group[0].experiment or group[0].recipe.name for group in groups]
    return [
        Side(
            f"{name} ({place + 1})" if names.count(name) > 1 else name,
            [read_content(run.folder) for run in group],
            str(other_protocol(groups[0][0].recipe, group[0].recipe) or ""),
        )
        for place, (name, group) in enumerate(zip(names, groups, strict=True))
    ]


def _is_seed_of(group: Sequence[Run], run: Run) -> bool:
    """Whether a run is a further seed of these."""
    return (
        run.experiment == group[0].experiment
        and all(run.seed != other.seed for other in group)
        and other_settings(group[0].recipe, run.recipe) is None
    )
