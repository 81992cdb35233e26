"""Every loss as a user of the library calls it: its examples, its errors, half precision, batches without a pair."""

import doctest
import importlib
import inspect
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import damnatio
from damnatio import frames, losses
from damnatio.heads.cosface import CosFace
from damnatio.losses import ForgetLoss
from damnatio.methods import METHODS

DIM, CLASSES = 16, 5
IDENTITIES = torch.tensor([0, 0, 0, 1, 1, 2])
PLACES = torch.arange(6)


def embeddings(dtype: torch.dtype = torch.float32) -> Tensor:
    return 3 * torch.randn(6, DIM, generator=torch.Generator().manual_seed(1)).to(dtype)


BEFORE = torch.randn(6, DIM, generator=torch.Generator().manual_seed(2))
HEAD = torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(3))


def made(name: str, **options: Any) -> ForgetLoss:
    """One loss of each kind for the six images here."""
    means = losses.mean_directions(BEFORE, IDENTITIES)
    kinds: dict[str, Any] = {
        "PairwiseDispersion": lambda: losses.PairwiseDispersion(**options),
        "HardDispersion": lambda: losses.HardDispersion(**options),
        "CentroidPush": lambda: losses.CentroidPush(**options),
        "ExtendedCosFace": lambda: losses.ExtendedCosFace(6, DIM, **options),
        "OrthonormalFrame": lambda: losses.OrthonormalFrame(frames.closed(DIM), **options),
        "NegGradPlus": lambda: losses.NegGradPlus(means, **options),
        "Cure": lambda: losses.Cure(6, DIM, clusters=2, **options),
        "BurnIn": lambda: losses.BurnIn(means, **options),
    }
    loss: ForgetLoss = kinds[name]()
    if loss.updates:
        loss.update(embeddings(), IDENTITIES)
    return loss


EVERY = [
    name
    for name in losses.__all__
    if name != "ForgetLoss"
    and isinstance(getattr(losses, name), type)
    and issubclass(getattr(losses, name), ForgetLoss)
]


def value(loss: ForgetLoss, x: Tensor, identities: Tensor = IDENTITIES) -> Tensor:
    found: Tensor = loss(x, identities, PLACES[: len(x)], before=BEFORE[: len(x)], head=HEAD)
    return found


@pytest.mark.parametrize(
    "module",
    ["losses.base", "frames", "data", "metrics.verification", *[f"losses.{name}" for name in (
        "burn_in", "centroid_push", "cure", "distillation", "extended_cosface", "hard_dispersion", "neggrad_plus",
        "orthonormal_frame", "pairwise_dispersion")]],
)  # fmt: skip
def test_the_examples_of_the_library_are_true(module: str) -> None:
    tried = importlib.import_module(f"damnatio.{module}")
    found = doctest.testmod(tried, extraglobs={"torch": torch}, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


@pytest.mark.parametrize("name", EVERY)
def test_a_scaled_embedding_has_the_same_loss(name: str) -> None:
    loss = made(name)
    assert torch.allclose(value(loss, embeddings()), value(loss, 7 * embeddings()), atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_reduction_is_over_the_values_of_none(name: str, reduction: str) -> None:
    values = value(made(name, reduction="none"), embeddings())
    assert values.ndim == 1
    if name == "OrthonormalFrame":
        assert torch.allclose(values, 100 * (1 - (F.normalize(embeddings()) * frames.closed(DIM)(PLACES)).sum(dim=1)))
    reduced = values.mean() if reduction == "mean" else values.sum()
    assert torch.allclose(value(made(name, reduction=reduction), embeddings()), reduced, rtol=1e-4)


@pytest.mark.parametrize("name", EVERY)
def test_half_precision_is_computed_in_float32(name: str) -> None:
    loss = made(name)
    narrow = embeddings(torch.bfloat16)
    whole = value(loss, narrow.float())
    with torch.autocast("cpu", torch.bfloat16):
        found = value(loss, narrow)
    assert found.dtype == torch.float32
    assert torch.equal(found, whole)


@pytest.mark.parametrize("name", EVERY)
def test_a_batch_without_a_pair_gives_no_nan(name: str) -> None:
    x = embeddings()[:3].requires_grad_()
    found = value(made(name), x, torch.tensor([0, 1, 2]))
    found.backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.isfinite(found)
    assert torch.isfinite(x.grad).all()
    if name in ("PairwiseDispersion", "HardDispersion"):
        assert found == 0
        assert not x.grad.any()


@pytest.mark.parametrize("name", EVERY)
def test_a_fresh_copy_with_the_same_state_gives_the_same_loss(name: str) -> None:
    loss, fresh = made(name), made(name)
    with torch.no_grad():
        for tensor in (*loss.parameters(), *(b for b in loss.buffers() if b.is_floating_point())):
            tensor.copy_(torch.randn(tensor.shape))
    fresh.load_state_dict(loss.state_dict())
    assert torch.equal(value(loss, embeddings()), value(fresh, embeddings()))


@pytest.mark.parametrize("name", EVERY)
def test_what_is_missing_is_named_with_its_meaning(name: str) -> None:
    loss = made(name)
    for need in loss.needs:
        given = {"images": PLACES, "before": BEFORE, "head": HEAD} | {need: None}
        with pytest.raises(ValueError, match=rf"^{name} needs {need}=: "):
            loss(embeddings(), IDENTITIES, given["images"], before=given["before"], head=given["head"])
    loss(embeddings(), IDENTITIES, *[PLACES] if "images" in loss.needs else [], before=BEFORE, head=HEAD)


@pytest.mark.parametrize("name", ["ExtendedCosFace", "NegGradPlus"])
def test_a_head_is_a_tensor_a_module_or_one_of_ours(name: str) -> None:
    loss = made(name)
    module = torch.nn.Linear(DIM, CLASSES, bias=False)
    ours = CosFace(CLASSES, DIM)
    with torch.no_grad():
        module.weight.copy_(HEAD)
        ours.weight.copy_(HEAD)
    found = [loss(embeddings(), IDENTITIES, PLACES, head=head) for head in (HEAD, module, ours)]
    assert torch.equal(found[0], found[1])
    assert torch.allclose(found[0], found[2])
    with pytest.raises(damnatio.DamnatioError, match=r"has \[16, 5\]. Give head.T"):
        loss(embeddings(), IDENTITIES, PLACES, head=HEAD.T)


def test_places_and_identities_outside_the_tables_are_errors() -> None:
    far = torch.tensor([0, 0, 0, 1, 1, 1_000_000])
    for name, words in (("NegGradPlus", "identity"), ("BurnIn", "identity"), ("ExtendedCosFace", "image")):
        with pytest.raises(ValueError, match=f"{name}: {words} 1000000 is none of 0 to"):
            made(name)(embeddings(), far, far, before=BEFORE, head=HEAD)
    assert torch.isfinite(value(made("CentroidPush"), embeddings(), far)), "centroids of a batch need no codes"


def test_cure_without_clusters_and_shapes_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ValueError, match="no clusters yet"):
        losses.Cure(6, DIM)(embeddings(), IDENTITIES, PLACES, before=BEFORE)
    with pytest.raises(ValueError, match=r"wants embeddings of shape \[N, d\]"):
        losses.HardDispersion()(embeddings(), IDENTITIES[:3])
    with pytest.raises(ValueError, match="reduction is one of"):
        losses.HardDispersion(reduction="average")


@pytest.mark.parametrize("name", [n for n in METHODS.names() if n not in ("GS", "FT", "GA")])
def test_the_defaults_of_a_recipe_are_those_of_the_loss(name: str) -> None:
    kind: Any = METHODS.get(name)
    method = kind.make_loss.__annotations__["return"]
    loss = getattr(losses, str(method).rsplit(".", 1)[-1].rstrip("'>"))
    settings = kind.Settings(method=name)
    for option, parameter in inspect.signature(loss.__init__).parameters.items():
        if parameter.default is not inspect.Parameter.empty and hasattr(settings, option):
            assert getattr(settings, option) == parameter.default, option
    assert (settings.lambda_retain, settings.lambda_forget) == (loss.lambda_retain, loss.lambda_forget)
