"""Finished runs side by side on one page, of one protocol or of several."""

from collections.abc import Sequence
from pathlib import Path

from damnatio.reporting.joined import Run, sides_of
from damnatio.reporting.page.comparing import compared, lines_of, panels_of, titles_of
from damnatio.reporting.page.writing import Page, write_page
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import manifest_of


def write_comparison(name: str, runs: Sequence[Run], folder: Path) -> list[str]:
    """Write the page, and return what a terminal shows of it."""
    sides = sides_of(runs)
    content = compared(sides)
    if not content["scales"] or not content["targets"]:
        raise DamnatioError(
            "These runs have no forget set or no false match rate in common, so that nothing can be compared: choose "
            "runs whose recipes name the same scales."
        )
    panels, titles = panels_of(sides), titles_of(sides)
    differing = [f"{side.title}: {side.differs}" for side in sides if side.differs]
    notes = [f"The protocols differ, so rates do not measure the same. {'; '.join(differing)}."] if differing else []
    page = Page(
        title=name,
        lead=f"{len(runs)} runs side by side.",
        panels=panels,
        titles=titles,
        facts=[(f"{run.experiment or run.recipe.name} seed {run.seed}", _origin(run.folder)) for run in runs],
        compared=content,
        notes=notes,
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_page(page, folder)
    first = panels[0]["targets"][panels[0]["first"]]
    target = first if first in content["targets"] else content["targets"][-1]
    return [*notes, *lines_of(content, titles, target)]


def _origin(report: Path) -> str:
    """Where a run's report lies, and its key, which stands for all that went into it."""
    return f"{report}, key {manifest_of(report).get('key', 'unknown')}"
