"""What every registered method that fine-tunes must keep, whoever wrote it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional as F

from damnatio.cli.main import main
from damnatio.forgetting.fine_tuning import forgetting_job
from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import Context, Embedded, ForgetBatch, Method, RetainBatch, fine_tuning
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.support.errors import DamnatioError
from damnatio.training.loop import _Loop
from damnatio.workspace import Workspace
from tests.conftest import TINY
from tests.methods.world import batch_of, method_named

EVERY = [name for name in METHODS.names() if issubclass(METHODS.get(name), Method)]


def ready(name: str, batch: ForgetBatch) -> tuple[Method, Head]:
    method, head = method_named(name, batch)
    context = Context(method.forget, head, 3, lambda: batch.unit, lambda: F.normalize(batch.raw, dim=1))
    method.prepare(context)
    method.begin_epoch(0, context)
    return method, head


def test_the_papers_seven_methods_and_two_references_are_there() -> None:
    assert {"PD", "HD", "NG+", "CURE", "CP", "EC", "OF", "FT", "GA"} <= set(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_losses_are_finite_scalars_and_reproducible(name: str) -> None:
    batch = batch_of([4, 4, 2])
    retain = RetainBatch(batch.raw[:7], batch.frozen, torch.arange(7))
    if batch.frozen is not None:
        retain = RetainBatch(batch.raw[:7], batch.frozen[:7], torch.arange(7))
    values = []
    for _ in range(2):
        method, head = ready(name, batch)
        losses = method.forget_loss(batch, head), method.retain_loss(retain, head)
        assert all(loss.shape == () and bool(torch.isfinite(loss)) for loss in losses)
        values.append([float(loss.detach()) for loss in losses])
    assert values[0] == values[1]


@pytest.mark.parametrize("name", EVERY)
def test_a_copy_with_the_same_state_gives_the_same_loss(name: str) -> None:
    """What a method decided before training travels in its state, so that a resumed run goes on with it."""
    batch = batch_of([4, 4, 2])
    method, head = ready(name, batch)
    copy, _ = method_named(name, batch)
    copy.load_state_dict(method.state_dict())
    assert torch.equal(copy.forget_loss(batch, head), method.forget_loss(batch, head))


@pytest.mark.parametrize("name", EVERY)
def test_settings_refuse_what_they_do_not_know(name: str) -> None:
    with pytest.raises(ValidationError):
        fine_tuning(name).Settings(method=name, nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        fine_tuning(name).Settings(method=name, lr=-1)


@pytest.mark.parametrize("name", ["EC", "OF", "CURE"])
def test_an_image_of_no_forget_identity_is_rejected(name: str) -> None:
    batch = batch_of([4, 4])
    method, head = ready(name, batch)
    strange = ForgetBatch(batch.raw, batch.frozen, batch.images + 1, batch.identities)
    with pytest.raises(DamnatioError, match="belongs to no forget identity"):
        method.forget_loss(strange, head)


@pytest.mark.parametrize("name", EVERY)
def test_every_method_says_what_it_is(name: str) -> None:
    method, _ = method_named(name, batch_of([4, 4]))
    assert method.title
    assert method.reference
    assert "L = " in f"{type(method).__doc__} {type(method.loss).__doc__}"
    assert ("reconstruction" in method.title) == method.reconstruction


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """The tiny world up to its f*, for methods to be trained in."""
    recipe = load("demo", [*TINY, "forget.methods=[]"])
    with Workspace(tmp_path_factory.mktemp("contract") / "run", say=lambda line: None) as workspace:
        pipeline = Pipeline(recipe, workspace)
        pipeline.original()
        yield pipeline


def loop_of(pipeline: Pipeline, name: str, folder: Path) -> _Loop:
    folder.mkdir(exist_ok=True)
    faces, table = pipeline.images(pipeline.faces()), pipeline._table(pipeline.partitions())
    return _Loop(forgetting_job(pipeline.recipe, faces, table, pipeline.original().path, "S1", name), folder)


def states(loop: _Loop) -> dict[str, torch.Tensor]:
    return {f"{m}.{k}": t.clone() for m, module in loop.modules.items() for k, t in module.state_dict().items()}


@pytest.mark.cli
@pytest.mark.parametrize("name", EVERY)
def test_a_resumed_training_goes_on_as_if_nothing_had_been(name: str, pipeline: Pipeline, tmp_path: Path) -> None:
    """Two steps, a checkpoint, a new process's loop and two more are four steps; and f* is what it was."""
    whole = loop_of(pipeline, name, tmp_path / "whole")
    assert whole.job.forgetting is not None
    frozen = {k: t.clone() for k, t in whole.job.forgetting.original.state_dict().items()}
    whole.begin()
    for step in range(4):
        whole._step(step, whole.batches[step])
    first = loop_of(pipeline, name, tmp_path / "halves")
    first.begin()
    for step in range(2):
        first._step(step, first.batches[step])
    first._save(2)
    second = loop_of(pipeline, name, tmp_path / "halves")
    assert second.begin() == 2
    for step in range(2, 4):
        second._step(step, second.batches[step])
    once, twice = states(whole), states(second)
    assert once.keys() == twice.keys()
    assert all(torch.equal(once[key], twice[key]) for key in once)
    after = whole.job.forgetting.original.state_dict()
    assert all(torch.equal(frozen[key], after[key]) for key in frozen), "the frozen f* is untouched"


@pytest.mark.cli
def test_distillation_starts_at_zero_and_resumes(pipeline: Pipeline, tmp_path: Path) -> None:
    """With BatchNorm frozen, f is f* before the first step: the term is zero there, and not after it."""
    words = ["forget.methods=[]", "forget.batch_norm=frozen", "forget.settings.HD-distil={method: HD, retain: distil}"]
    other = Pipeline(load("demo", [*TINY, *words]), pipeline.workspace)
    whole = loop_of(other, "HD-distil", tmp_path / "whole")
    whole.begin()
    head = whole.job.head.weight.detach().clone()
    terms = [whole._step(step, whole.batches[step])["retain"] for step in range(3)]
    assert terms[0] == pytest.approx(0, abs=1e-5)
    assert min(terms[1:]) > 1e-4
    assert torch.equal(whole.job.head.weight, head), "distillation needs no head"
    first = loop_of(other, "HD-distil", tmp_path / "halves")
    first.begin()
    first._step(0, first.batches[0])
    first._save(1)
    second = loop_of(other, "HD-distil", tmp_path / "halves")
    assert second.begin() == 1
    for step in (1, 2):
        second._step(step, second.batches[step])
    once, twice = states(whole), states(second)
    assert all(torch.equal(once[key], twice[key]) for key in once)


@pytest.mark.cli
def test_the_loop_gives_each_batch_the_frozen_embeddings_that_it_needs(pipeline: Pipeline, tmp_path: Path) -> None:
    words = ["forget.methods=[]", "forget.settings.HD-distil={method: HD, retain: distil}"]
    other = Pipeline(load("demo", [*TINY, *words]), pipeline.workspace)
    for name, expected in (("HD", (False, False)), ("HD-distil", (True, False)), ("CURE", (True, True))):
        loop = loop_of(other, name, tmp_path / name)
        assert loop.job.forgetting is not None
        method = loop.job.forgetting.method
        seen: list[Embedded] = []
        for term in ("retain_loss", "forget_loss"):
            object.__setattr__(method, term, _noted(getattr(method, term), seen))
        loop.begin()
        loop._step(0, loop.batches[0])
        assert tuple(batch.frozen is not None for batch in seen) == expected, name
        assert all(batch.frozen is None or batch.frozen.shape == batch.unit.shape for batch in seen)


def _noted(loss: Callable[..., torch.Tensor], seen: list[Embedded]) -> Callable[..., torch.Tensor]:
    """The loss, which also notes the batches that it gets."""

    def run(batch: Embedded, head: Head) -> torch.Tensor:
        seen.append(batch)
        return loss(batch, head)

    return run


@pytest.mark.cli
def test_the_paper_retain_term_has_the_key_of_outputs_that_know_no_other(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(*words: str, variant: str = "HD") -> dict[str, Any]:
        asked = Pipeline(load("demo", [*TINY, "forget.methods=[]", *words]), pipeline.workspace)
        settings: list[dict[str, Any]] = []
        stage = asked._stage

        def spy(name: str, *rest: Any, **named: Any) -> Any:
            if name != "5-forget":
                return stage(name, *rest, **named)
            settings.append(rest[1])
            return None

        monkeypatch.setattr(asked, "_stage", spy)
        asked.altered("S1", variant)
        return settings[0]

    plain = key()
    assert "retain" not in plain["forget"]
    assert "retain" not in plain["method"]
    assert key("forget.retain=classify") == key("forget.settings.HD.retain=classify") == plain
    assert key("forget.retain=distil") == key("forget.settings.HD.retain=distil") != plain
    assert key("forget.optimiser=adamw") == key("forget.settings.HD.optimiser=adamw") != plain
    assert key("forget.retain=distil", variant="CURE") == key(variant="CURE"), "CURE has a term of its own"


OUTSIDE = '''
"""RP: align each forget image with a random direction."""

import torch
from torch.nn import functional as F

from damnatio.methods import METHODS
from damnatio.methods.base import Method, MethodSettings


@METHODS.register("RP")
class RandomPush(Method):
    class Settings(MethodSettings):
        weight: float = 10.0

    title, reference = "Random push", "mine"

    def forget_loss(self, batch, head):
        directions = F.normalize(torch.randn(batch.unit.shape), dim=1)
        return self.settings.weight * (1 - (batch.unit * directions).sum(dim=1)).mean()
'''


@pytest.mark.cli
def test_a_method_from_outside_the_package_runs_like_any_other(tmp_path: Path, tiny: list[str]) -> None:
    plugin = tmp_path / "random_push.py"
    plugin.write_text(OUTSIDE)
    words = ["--set", f"plugins=[{plugin}]", "--set", "forget.methods=[RP]", "--set", "forget.settings.RP.weight=5"]
    assert main(["forget", "demo", "--run", str(tmp_path / "run"), *tiny, *words]) == 0
    assert list((tmp_path / "run/5-forget").glob("S1-RP-*/model.safetensors"))
