"""One run of the contest: a draw, a contestant and a setting, from f* to the rates of the altered model.

A run's folder holds `run.json` (what was asked for, and what it cost) and the embeddings of the altered model, so that
its evaluation can be made again alone. It is read again only if it was made with the same settings. The commit of the
code is kept beside, and the tables show it.
"""

import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contest.rules import PEOPLE, PHOTOGRAPHS, SCALE, Contestant
from contest.worlds import Draw, Place, fresh
from damnatio.embedding import FILE, in_float64, load_embeddings, save_embeddings
from damnatio.evaluation.legacy import Embedded
from damnatio.evaluation.measuring import ORIGINAL, measure, reference_of, table_of, write
from damnatio.evaluation.protocol import compare
from damnatio.evaluation.rates import Result
from damnatio.forgetting.closed_form import alter, mapped, strangers
from damnatio.forgetting.fine_tuning import forgetting_job
from damnatio.methods import METHODS
from damnatio.methods.base import method_settings
from damnatio.methods.closed_form import ClosedForm
from damnatio.partitions import TRAIN, Rows
from damnatio.recipe.schema import Recipe
from damnatio.support.code import digests
from damnatio.support.errors import DamnatioError
from damnatio.support.files import content_key, write_atomically
from damnatio.support.tables import Table
from damnatio.training.loop import Job, fit

RUN, RESULTS = "run.json", "results.parquet"
WITHOUT_EFFECT = {"scales", "methods", "settings", "workers", "log_every"}
WITHOUT_EFFECT |= {"checkpoint_seconds", "checkpoint_share", "probe_pairs", "channels_last", "compile"}
"""of the section `forget`: other contestants, and how a result is reached"""


def _commit() -> str:
    """The commit of the code at work; with a + if files of the package differ from it."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "../../src")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + "+" * bool(changed)


COMMIT, MEASURING = _commit(), digests(["damnatio.evaluation.measuring", "damnatio.evaluation.protocol"])
"""of the code as it was when this process started, whatever is edited meanwhile"""


@dataclass(frozen=True)
class Run:
    """A finished run. `error` says why a training broke off; then there are no results."""

    contestant: str
    draw: int
    setting: dict[str, float]
    gradients: int
    seconds: float
    commit: str
    error: str
    results: Table | None

    def value(self, group: str, metric: str = "TMR", point: float | None = None, task: str = "1:1") -> float:
        assert self.results is not None
        return value_of(self.results, group, metric, point, task)


def value_of(results: Table, group: str, metric: str, point: float | None = None, task: str = "1:1") -> float:
    """One number of an evaluation; NaN if it has no such row."""
    fits = (results["task"] == task) & (results["group"] == group) & (results["metric"] == metric)
    if point is not None:
        fits &= results["operating_point"] == point
    found = results["value"][fits]
    return float(found[0]) if len(found) else float("nan")


def recipe_for(recipe: Recipe, contestant: Contestant, setting: Mapping[str, float]) -> Recipe:
    """The recipe of a draw with a contestant's settings under its own name."""
    forget = recipe.forget
    own = {**forget.settings.get(contestant.method, {}), "method": contestant.method, **contestant.settings, **setting}
    changed = {**contestant.forget, "methods": [contestant.name], "settings": {contestant.name: own}}
    return recipe.model_copy(update={"forget": forget.model_copy(update=changed)})


def base_of(recipe: Recipe, contestant: Contestant) -> dict[str, float]:
    """The values of a contestant's knobs before they are multiplied."""
    settings = method_settings(recipe_for(recipe, contestant, {}), contestant.name)
    return {knob: float(getattr(settings, knob)) for knob in contestant.knobs}


def run(place: Place, number: int, contestant: Contestant, setting: Mapping[str, float]) -> Run:
    """The run, from its folder if it is there."""
    recipe = recipe_for(place.recipe(number), contestant, setting)
    wanted = {
        "contestant": contestant.name,
        "method": method_settings(recipe, contestant.name).model_dump(mode="json", exclude_none=True),
        "forget": recipe.forget.model_dump(mode="json", exclude=WITHOUT_EFFECT, exclude_none=True),
        "draw": number,
        "steps": place.world.steps,
    }
    if _is_closed_form(contestant):  # it takes seconds: after an edit it is made again
        wanted["code"] = content_key(METHODS.code(contestant.method))
    folder = place.folder / f"draw-{number}" / f"{contestant.name}-{content_key(dict(setting))[:8]}"
    made = _read(folder, wanted)
    if made is None:
        made = _forget(place, place.draw(number), contestant, recipe, fresh(folder))
        made |= {"wanted": wanted, "setting": dict(setting), "commit": COMMIT}
        write_atomically(folder / RUN, json.dumps(made, indent=1) + "\n")
    return Run(
        contestant=contestant.name,
        draw=number,
        setting=made["setting"],
        gradients=made["gradients"],
        seconds=made["seconds"],
        commit=made["commit"],
        error=made["error"],
        results=None if made["error"] else _evaluated(place, place.draw(number), folder),
    )


def original(place: Place, number: int) -> Table:
    """The rates of f* on a draw."""
    return Table.read(_reference(place, place.draw(number)) / RESULTS)


def _read(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    if not (folder / RUN).exists():
        return None
    made: dict[str, Any] = json.loads((folder / RUN).read_text())
    return made if made["wanted"] == wanted else None


def _forget(place: Place, draw: Draw, contestant: Contestant, recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Alter f*, embed with the altered model, keep the embeddings; the cost."""
    if _is_closed_form(contestant):
        seconds = _in_closed_form(place, draw, contestant, recipe, folder)
        save_embeddings(mapped(folder / "model", draw.units.astype(np.float32)), draw.rows, folder)
        return {"gradients": 0, "seconds": seconds, "error": ""}
    world = place.world
    trunk = None if recipe.forget.freeze is None else place.trunk
    started = time.process_time()
    model = fresh(folder / "model")
    job = forgetting_job(recipe, place.faces, draw.partitions, draw.original, SCALE, contestant.name, trunk)
    order = np.random.default_rng([recipe.seed, world.steps]).permutation(len(job.rows))
    shown = np.resize(order, world.steps * world.retain)
    job = replace(job, rows=job.rows[shown], labels=job.labels[shown])
    _check_budget(job, place)
    try:
        fit(job, model)
    except DamnatioError as error:  # the loss became infinite
        return {"gradients": world.gradients(), "seconds": time.process_time() - started, "error": str(error)}
    seconds = time.process_time() - started
    save_embeddings(place.embed(recipe, model, draw.rows), draw.rows, folder)
    return {"gradients": world.gradients(), "seconds": seconds, "error": ""}


def _is_closed_form(contestant: Contestant) -> bool:
    return issubclass(METHODS.get(contestant.method), ClosedForm)


def _check_budget(job: Job, place: Place) -> None:
    """Refuse a training that differs from the budget: a recipe may have a schedule of its own for a method."""
    world, settings, forgetting = place.world, job.settings, job.forgetting
    assert forgetting is not None
    planned = (1, world.steps * world.retain, world.retain, PEOPLE, PHOTOGRAPHS)
    batch = forgetting.identities_per_batch, forgetting.images_per_identity
    if (settings.epochs, len(job.rows), settings.batch, *batch) != planned:
        raise DamnatioError(
            f"{job.title} would not have the budget of the contest: {settings.epochs} epochs of {len(job.rows)} retain "
            f"images. Each has one epoch of {world.steps * world.retain}."
        )


def _in_closed_form(place: Place, draw: Draw, contestant: Contestant, recipe: Recipe, folder: Path) -> float:
    """The seconds count the embedding of the images that the method sees: forget-train and strangers on whom nothing is
    measured."""
    seen = draw.rows[draw.partitions.at(draw.rows).in_forget_set(SCALE, TRAIN)]
    pool = (recipe.partitions.pools or {}).get("F")
    others = strangers(draw.partitions, pool)
    started = time.process_time()

    def units_of(rows: Rows) -> NDArray[np.float64]:
        return in_float64(place.embed(recipe, draw.original, rows), lambda row: f"image {rows[row]}", draw.original)

    known = units_of(others), others
    model = fresh(folder / "model")
    alter(recipe, draw.partitions, draw.original, units_of(seen), seen, known, SCALE, contestant.name, model)
    return time.process_time() - started


def _evaluated(place: Place, draw: Draw, folder: Path) -> Table:
    """The rates of a run's embeddings, measured again if the code that measures has changed."""
    key = folder / "evaluation.key"
    if not (folder / RESULTS).exists() or key.read_text() != _measuring(draw.recipe):
        units, rows = load_embeddings(folder / FILE, draw.partitions.table)
        reference = reference_of(_reference(place, draw))
        star = Embedded(draw.units, draw.rows)
        compared = compare(units, rows, draw.partitions, SCALE, 0, draw.recipe.seed, star)
        found = measure(compared, draw.recipe.evaluate.operating_points, reference, draw.recipe.evaluate.replicates)
        key.unlink(missing_ok=True)
        table_of(Result, found.results).write(folder / RESULTS)
        write_atomically(key, _measuring(draw.recipe))
    return Table.read(folder / RESULTS)


def _reference(place: Place, draw: Draw) -> Path:
    """The folder of the evaluation of f*."""
    folder = place.folder / f"draw-{draw.number}" / f"{ORIGINAL}-rates"
    key = folder / "evaluation.key"
    if not key.exists() or key.read_text() != _measuring(draw.recipe):
        compared = compare(draw.units, draw.rows, draw.partitions, SCALE, 0, draw.recipe.seed)
        found = measure(compared, draw.recipe.evaluate.operating_points, None, draw.recipe.evaluate.replicates)
        write(found, fresh(folder))
        write_atomically(key, _measuring(draw.recipe))
    return folder


def _measuring(recipe: Recipe) -> str:
    """A hash of the code and the settings of an evaluation."""
    return content_key({"code": MEASURING, "settings": recipe.evaluate.model_dump(mode="json")})
