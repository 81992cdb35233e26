"""OF against its definition, its zero, and the frame against the greedy rule restated naively."""

from pathlib import Path

import pytest
import torch

from damnatio import frames
from damnatio.heads.base import Head
from damnatio.methods.base import Context, ForgetBatch
from damnatio.methods.orthonormal_frame import OF
from damnatio.support.errors import DamnatioError
from tests.methods.world import batch_of, method_named


def prepared(batch: ForgetBatch) -> tuple[OF, Head]:
    method, head = method_named("OF", batch)
    assert isinstance(method, OF)
    method.prepare(Context(method.forget, head, 3, lambda: batch.unit, lambda: batch.unit))
    return method.double(), head


def test_it_is_the_scaled_mean_distance_to_each_images_own_target() -> None:
    batch = batch_of([3, 2], dim=16, seed=2)
    method, head = prepared(batch)
    assert method.loss.targets is not None
    naive = [1 - float(batch.unit[i] @ method.loss.targets[i]) for i in range(5)]
    assert float(method.forget_loss(batch, head)) == pytest.approx(100 * sum(naive) / 5, abs=1e-9)


def test_it_is_zero_on_the_targets_and_follows_image_ids_not_places() -> None:
    batch = batch_of([3, 2], dim=16, seed=2)
    method, head = prepared(batch)
    order = torch.tensor([4, 0, 3, 1, 2])
    assert method.loss.targets is not None
    shuffled = ForgetBatch(method.loss.targets[order], None, batch.images[order], batch.identities[order])
    assert float(method.forget_loss(shuffled, head)) == pytest.approx(0, abs=1e-5)
    misplaced = ForgetBatch(method.loss.targets, None, batch.images[order], batch.identities[order])
    assert float(method.forget_loss(misplaced, head)) > 10


def test_the_gradient_is_that_of_finite_differences() -> None:
    batch = batch_of([3, 2], dim=4, seed=1)
    method, head = prepared(batch)

    def loss(raw: torch.Tensor) -> torch.Tensor:
        moved = ForgetBatch(raw, None, batch.images, batch.identities)
        return method.forget_loss(moved, head)

    assert torch.autograd.gradcheck(loss, batch.raw.clone().requires_grad_())


@pytest.mark.parametrize("frame", ["greedy", "closed"])
def test_either_frame_gives_each_image_a_target_of_its_own(frame: str) -> None:
    batch = batch_of([3, 2], dim=16, seed=2)
    method, head = method_named("OF", batch, frame=frame)
    assert isinstance(method, OF)
    method.prepare(Context(method.forget, head, 3, lambda: batch.unit, lambda: batch.unit))
    targets = method.loss.targets_of(method.forget.places(batch.images)).double()
    off = (targets @ targets.T - torch.eye(5, dtype=torch.float64)).abs()
    assert off.max() < 0.75
    assert torch.allclose(targets.norm(dim=1), torch.ones(5, dtype=torch.float64), atol=1e-6)
    assert (method.loss.targets is None) == (frame == "closed"), "the closed form stores nothing"


def test_a_frame_of_several_blocks_is_kept_in_the_folder_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "DRAWN", 512)  # two targets per block
    batch = batch_of([3, 2], dim=16, seed=2)
    method, head = method_named("OF", batch)
    method.prepare(Context(method.forget, head, 3, lambda: batch.unit, lambda: batch.unit, tmp_path))
    kept = sorted(path.name for path in (tmp_path / "pieces").iterdir())
    assert kept == [f"targets-{part}-of-256.safetensors" for part in ("0-2", "2-4", "4-5")]


def test_more_images_than_the_closed_frame_has_targets_are_refused() -> None:
    batch = batch_of([65], dim=8)
    with pytest.raises(DamnatioError, match="65 forget images need one target each, and the closed-form frame has 64"):
        method_named("OF", batch, frame="closed")
