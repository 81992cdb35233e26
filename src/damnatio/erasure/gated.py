"""An erasure by gate and scatter: plan, write, look at what was written, and measure where there is RETAIN."""

from collections.abc import Callable

import torch
from torch import nn

from damnatio.erasure.delivery import Delivery, file_name, working
from damnatio.erasure.embedder import Embedder
from damnatio.erasure.erase import Erased
from damnatio.erasure.galleries import read_galleries
from damnatio.erasure.gating import Plan, near, plan, settle
from damnatio.erasure.held_out import Trial, measured
from damnatio.erasure.lines import judged_together, lines_of, outcome, unusable
from damnatio.erasure.lines import planned as plan_lines
from damnatio.erasure.measuring import pipeline_of, recipe_of
from damnatio.erasure.people import FacesOf, read_others, read_people, together, unused
from damnatio.erasure.questions import Ask, Settled
from damnatio.erasure.record import Line
from damnatio.erasure.request import GALLERY, Request
from damnatio.erasure.verdict import HOLDS, UNMEASURED, chance
from damnatio.erasure.verifying import verify
from damnatio.methods.base import method_settings
from damnatio.methods.gate_and_scatter import GateAndScatter
from damnatio.methods.strangers import Strangers
from damnatio.models.card import Card
from damnatio.models.exporting import export
from damnatio.models.gate import Gate, Gated, ungated
from damnatio.models.importing import weights_file
from damnatio.models.store import save_model
from damnatio.recipe.schema import ModelSettings, Recipe
from damnatio.running.publishing import publish
from damnatio.support.errors import DamnatioError

LIMITS = (
    "A near copy of one photograph stays like that photograph: two copies of one moment are still linked.",
    "Photographs that the old model itself would not have recognised are not hidden, and templates made by the old "
    "model stay as they are: delete the person's templates from every gallery.",
)
"""beside those in the card of the model"""
ALL_AND_FOUR_FIFTHS = (
    "The delivered model's gate was made from all photographs. The report measures a gate that was made in the same "
    "way from four fifths of each person's photographs, so that the other fifth is new to it."
)
ALONE = " It hides only the people of this request, and not those whom the model hid before."


def erase_by_gate(
    request: Request,
    settings: ModelSettings,
    model: nn.Module,
    card: Card,
    say: Callable[[str], None],
    ask: Ask | None = None,
) -> Erased:
    network, gate = ungated(model)
    if gate is not None and not isinstance(gate, Gate):
        raise DamnatioError(f"{request.model} was altered by {card.map}, and a gate cannot follow that map.")
    recipe = recipe_of(request, model, card, request.model)
    if recipe.threads:  # `set_threads` takes seconds for kernels that are not used here
        torch.set_num_threads(recipe.threads)
    embedder = Embedder.of(network, card, recipe.threads)
    assert request.people is not None
    faces = FacesOf(request.people, card.size, request.resize)
    people = read_people(faces, embedder, recipe.captures)
    others, crowds = read_others(request, card.size, embedder, faces)
    gallery = read_galleries(request, card.dim, people)
    method = GateAndScatter(method_settings(recipe, request.method))

    def decided(answers: Settled | None = None) -> Plan:
        strangers = together([*(crowd.strangers for crowd in crowds), *([gallery] if gallery else [])])
        return plan(
            method,
            people,
            strangers,
            dim=card.dim,
            seed=recipe.seed,
            statistics=card.scores,
            gate=gate,
            aliases=request.case.aliases if request.case else (),
            answers=answers,
        )

    planned = decided()
    if crowds and (alike := near(planned)):
        crowds = [crowd.completed(alike, embedder) for crowd in crowds]
        planned = decided()
    answers = settle(request, planned, ask)
    planned = decided(answers)
    if gallery:  # what is the person's counts as the person's
        own = {name: f"{GALLERY}/{person}" for person, names in planned.templates.items() for name in names}
        gallery = Strangers(gallery.units, gallery.codes, [own.get(name, name) for name in gallery.names])
    planned.warnings.extend(words for crowd in crowds for words in crowd.cut)
    planned.warnings.extend(unused(faces.path, faces.left_out(of_people=False)))
    behind = measured(Trial(method, card.dim, recipe.seed, card.scores, gate), planned, request.goal)
    touched = behind.record.touched
    assert touched is not None
    _say_plan(planned, behind, say)
    with working(request, say) as delivery:
        name = file_name(request.model, weights_file(settings).suffix, request.method)
        hidden = len(behind.record.people)
        origin = f"{card.origin}, altered by {request.method}: {hidden} people hidden"
        written = export(Gated(network, behind), card.model_copy(update={"origin": origin}), delivery.staged(name))
        verified = verify(delivery.staged(name), embedder, planned, faces, others, gallery, recipe.threads)
        lines, verdict = judged_together(lines_of(planned, behind, verified), touched, request.accept_unmeasured)
        need_as_measured(lines)
        reported = _measured(request, network, card, delivery, planned, say) if request.retain else None
        record = delivery.record(
            model=weights_file(settings),
            **verdict.said(),
            people=lines,
            unmeasured=[line.name for line in lines if line.verdict == UNMEASURED],
            holds=HOLDS["GS"],
            touched=touched,
            strangers=touched.sentence,
            left_out=unusable(faces.left_out(of_people=False)),
            hidden_before=planned.before,
            statistics=planned.hidden.statistics.source,
            level=verified.level if planned.hidden.statistics.people else None,
            compared=verified.strangers,
            inside=verified.inside,
            same=answers.same,
            not_same=answers.not_same,
            gallery=verified.gallery,
            warnings=planned.warnings,
            limits=[*written.limits, *LIMITS],
            measured=ALL_AND_FOUR_FIFTHS + (ALONE if planned.before else "") if reported else "",
        )
        for line in [*outcome(lines), record.holds]:
            say(line)
        return delivery.deliver(record, reported, planned)


def _say_plan(planned: Plan, behind: Gate, say: Callable[[str], None]) -> None:
    assert behind.record.touched is not None
    say(
        f"Plan: asked for {len(planned.people)}, hidden in all {len(behind.record.people)} "
        f"(statistics: {planned.hidden.statistics.source})"
    )
    for line in plan_lines(lines_of(planned, behind)):
        say(line)
    say(f"  {behind.record.touched.sentence}")
    for warning in planned.warnings:
        say(f"  Note: {warning}")


def need_as_measured(lines: list[Line]) -> None:
    """The written file must do to the given photographs what its gate did when it was measured."""
    for line in lines:
        for pairs in line.linked:
            if line.held and (pairs.after > chance(pairs.pairs)) != (line.held.given_linked > chance(line.held.given)):
                raise DamnatioError(
                    f"The written model links {pairs.after} of {pairs.pairs} pairs of {line.name}'s photographs, and "
                    f"its gate links {line.held.given_linked}: it was not delivered. Please report this."
                )


def _measured(
    request: Request, network: nn.Module, card: Card, delivery: Delivery, planned: Plan, say: Callable[[str], None]
) -> Recipe | None:
    """Run the stages up to the report; None if RETAIN is too small, which is a warning."""
    weights = request.model
    if planned.before:  # the stages start from the network alone
        weights = delivery.workspace.folder / "model"
        weights.mkdir(exist_ok=True)
        save_model(network, None, card.model_copy(update={"map": ""}), weights)
    try:
        pipeline = pipeline_of(request, network, card, weights, delivery.workspace)
        return publish(pipeline, faces_shown=False).recipe
    except DamnatioError as error:
        planned.warnings.append(f"Nothing was measured: {error}")
        say(f"  Note: nothing was measured: {error}")
        return None
