"""An erasure by fine-tuning: the request runs through the stages of any recipe, and the evaluation tells how well each
person was forgotten."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from damnatio.embedding import FILE as EMBEDDINGS
from damnatio.embedding import load_embeddings
from damnatio.erasure.delivery import file_name, working
from damnatio.erasure.embedder import Embedder
from damnatio.erasure.erase import Erased
from damnatio.erasure.gating import Plan, plan, settle, why_unusable
from damnatio.erasure.lines import judged_together, left_out, outcome, unusable
from damnatio.erasure.measuring import SCALE, pipeline_of, recipe_of
from damnatio.erasure.people import FacesOf, Person, read_others, read_people, together, unused
from damnatio.erasure.questions import Ask, Settled
from damnatio.erasure.record import Line, Pairs
from damnatio.erasure.request import GATE_AND_SCATTER, PEOPLE, Request
from damnatio.erasure.verdict import HOLDS, LINKED, NOT, PARTLY, UNMEASURED, Judged, on_person
from damnatio.evaluation.measuring import ORIGINAL
from damnatio.methods.base import method_settings
from damnatio.methods.gate_and_scatter import GateAndScatter
from damnatio.models.card import Card
from damnatio.models.exporting import export
from damnatio.models.importing import weights_file
from damnatio.models.maps import need_no_map
from damnatio.models.statistics import Held, Touched
from damnatio.models.store import load_backbone
from damnatio.partitions import EVAL, TRAIN, Partitions
from damnatio.partitions import FILE as PARTITIONS
from damnatio.pipeline import Pipeline
from damnatio.recipe.schema import CaptureSettings, ModelSettings
from damnatio.running.publishing import publish
from damnatio.support.devices import set_threads
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table

LEAST_MOMENTS = 2
HALF = 0.5
"""A person of whom more than this share of pairs is still linked is not forgotten."""
LIMITS = (
    "The network was trained to forget, so everybody's embedding moved: enrol galleries again, or read in the report "
    "what old templates are still worth.",
    "New photographs and averaged templates may link a person again; the report says how often.",
)
MEASURED = (
    "The model was trained on four fifths of each person's photographs. The report measures it on these and on the "
    "other fifth, which is new to it."
)


def erase_by_training(
    request: Request,
    settings: ModelSettings,
    model: nn.Module,
    card: Card,
    say: Callable[[str], None],
    ask: Ask | None = None,
) -> Erased:
    need_no_map(model, f"fine-tuning it by {request.method}")
    recipe = recipe_of(request, model, card, request.model)
    if recipe.forget.methods != [request.method]:
        raise DamnatioError("An erasure has one method: say --method, and leave forget.methods out.")
    set_threads(recipe.threads, recipe.deterministic)
    assert request.people is not None
    faces = FacesOf(request.people, card.size, request.resize)
    chosen = method_settings(recipe, "GS")
    planned, answers = _looked_at(request, faces, model, card, recipe.threads, recipe.captures, chosen, ask)
    short = [person.name for person in planned.people if len(person.places) < LEAST_MOMENTS]
    if len(short) == len(planned.people):
        raise DamnatioError(
            f"Nobody in {request.people} has two capture instances, and {request.method} can do nothing with one: "
            f"bring images of other moments, or take --method {GATE_AND_SCATTER}."
        )
    say(f"Plan: {len(planned.people) - len(short)} of {len(planned.people)} people are forgotten by {request.method}")
    for warning in planned.warnings:
        say(f"  Note: {warning}")
    with working(request, say) as delivery:
        pipeline = pipeline_of(request, model, card, request.model, delivery.workspace)
        published = publish(pipeline, faces_shown=False)
        name = file_name(request.model, weights_file(settings).suffix, request.method)
        altered, written = load_backbone(pipeline.altered(SCALE, request.method).path)
        export(altered, written, delivery.staged(name))
        touched = Touched(how="everybody")
        lines, verdict = judged_together(_lines(request, planned, pipeline), touched, request.accept_unmeasured)
        missing = [words for line in lines for words in left_out(line)]
        for words in [*outcome(lines), *missing, touched.sentence, HOLDS[""]]:
            say(words)
        record = delivery.record(
            model=weights_file(settings),
            **verdict.said(),
            people=lines,
            not_same=answers.not_same,
            unmeasured=[line.name for line in lines if line.verdict == UNMEASURED],
            holds=HOLDS[""],
            touched=touched,
            strangers=touched.sentence,
            left_out=unusable(faces.left_out(of_people=False)),
            warnings=planned.warnings,
            limits=list(LIMITS),
            measured=MEASURED,
        )
        return delivery.deliver(record, published.recipe, planned)


def _looked_at(
    request: Request,
    faces: FacesOf,
    model: nn.Module,
    card: Card,
    threads: int,
    captures: CaptureSettings,
    chosen: object,
    ask: Ask | None,
) -> tuple[Plan, Settled]:
    """The people and strangers under f*, so that what cannot work is refused before anything is trained."""
    embedder = Embedder.of(model, card, threads)
    people = read_people(faces, embedder, captures)
    _, crowds = read_others(request, card.size, embedder, faces)
    strangers = together([crowd.strangers for crowd in crowds])
    planned = plan(
        GateAndScatter(chosen),
        people,
        strangers,
        dim=card.dim,
        seed=0,
        statistics=card.scores,
        gate=None,
    )
    planned.warnings.extend(words for crowd in crowds for words in crowd.cut)
    planned.warnings.extend(unused(faces.path, faces.left_out(of_people=False)))
    for each in planned.hidden.chosen:
        planned.warnings.extend(f"{image} seems to show somebody else than {each.name}." for image in each.suspects)
    return planned, settle(request, planned, ask)


def _lines(request: Request, planned: Plan, pipeline: Pipeline) -> list[Line]:
    evaluation = {name: pipeline.evaluation(SCALE, name).path for name in (ORIGINAL, request.method)}
    levels = {name: _level(path) for name, path in evaluation.items()}
    table = Partitions.read(pipeline.partitions().path / PARTITIONS)
    scored = {}
    for name in levels:
        units, rows = load_embeddings(pipeline.embeddings(SCALE, name).path / EMBEDDINGS, table.table)
        scored[name] = units
    members = table.at(rows)
    return [_line(request, person, members, scored, levels) for person in planned.people]


def _level(evaluation: Path) -> float:
    """The threshold at a false match rate of 1 in 10,000, or the next higher one that was calibrated."""
    table = Table.read(evaluation / "results.parquet")
    rows = table.where((table["task"] == "1:1") & (table["metric"] == "threshold"))
    points = rows["operating_point"]
    return float(rows["value"][np.argmin(np.where(points >= LINKED * (1 - 1e-9), points, 1 + LINKED - points))])


def _line(
    request: Request,
    person: Person,
    members: Partitions,
    scored: dict[str, NDArray[np.float64]],
    levels: dict[str, float],
) -> Line:
    if len(person.places) < LEAST_MOMENTS:
        reason = (
            f"{len(person.images)} images show one moment, and {request.method} needs two; --method "
            f"{GATE_AND_SCATTER} hides a person on one"
            if person.images
            else why_unusable(person)
        )
        return Line(
            name=person.name,
            verdict=NOT,
            reason=reason,
            given=person.given,
            unusable=unusable(person.left_out),
        )
    mine = members.table["identity"] == f"{PEOPLE}/{person.name}"
    seen = np.flatnonzero(mine & (members.table["role"] == TRAIN))
    new = np.flatnonzero(mine & (members.table["role"] == EVAL))
    both = np.concatenate([seen, new])
    a, b = np.triu_indices(len(both), 1)
    is_new = b >= len(seen)
    linked = []
    for title, some in (("seen", ~is_new), ("new", is_new)):
        if some.any():
            counts = {}
            for name, units in scored.items():
                scores = (units[both[a[some]]] * units[both[b[some]]]).sum(axis=1)
                counts[name] = int((scores >= levels[name]).sum())
            after = counts[request.method]
            linked.append(Pairs(photographs=title, pairs=int(some.sum()), before=counts[ORIGINAL], after=after))
    held = _held(new, scored, levels, request)
    found = judged(linked, held, request.goal)
    return Line(
        name=person.name,
        verdict=found.verdict,
        reason=found.reason,
        given=person.given,
        used=len(seen),
        copies=len(person.images) - len(person.places),
        unusable=unusable(person.left_out),
        held=held,
        linked=linked,
    )


def _held(
    new: NDArray[np.int64], scored: dict[str, NDArray[np.float64]], levels: dict[str, float], request: Request
) -> Held:
    """Pairs of two photographs that were not trained on."""
    pairs = np.triu_indices(len(new), 1)
    linked = {name: int(((units[new] @ units[new].T)[pairs] >= levels[name]).sum()) for name, units in scored.items()}
    return Held(
        photographs=0, hidden=0, pairs=len(pairs[0]), before=linked[ORIGINAL], linked=linked[request.method],
        goal=request.goal,
    )  # fmt: skip


def judged(linked: list[Pairs], held: Held, goal: float) -> Judged:
    """The verdict by the share of pairs that are still linked, seen or new, whichever is more, and by those of two
    photographs that were not trained on."""
    worst = max(linked, key=lambda pairs: pairs.after / pairs.pairs)
    share = worst.after / worst.pairs
    if 1 - share >= goal:
        return on_person(held)
    reason = (
        f"{worst.after} of {worst.pairs} pairs with {worst.photographs} photographs are still linked, the goal is at "
        f"most {1 - goal:.0%}"
    )
    return Judged(PARTLY if share <= HALF else NOT, reason)
