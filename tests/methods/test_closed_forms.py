"""What every registered closed form must keep, whoever wrote it, and what GS promises beyond."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch.nn import functional as F

from damnatio.embedding import FILE, embed, read_embeddings
from damnatio.forgetting.closed_form import strangers
from damnatio.methods import METHODS
from damnatio.methods.closed_form import ClosedForm, Known
from damnatio.methods.gate_and_scatter import GateAndScatter
from damnatio.methods.gate_widths import Photographs
from damnatio.methods.strangers import COSINE, Strangers
from damnatio.models.gate import Gated
from damnatio.models.store import load_backbone
from damnatio.partitions import Partitions
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table
from damnatio.workspace import Workspace
from tests.conftest import TINY

DIM = 128


def closed_form(name: str, **settings: object) -> ClosedForm:
    kind = METHODS.get(name)
    assert issubclass(kind, ClosedForm)
    return kind(kind.Settings(method=name, **settings))


EVERY = [name for name in METHODS.names() if issubclass(METHODS.get(name), ClosedForm)]


def photographs(rng: np.random.Generator, count: int, images: int, spread: float) -> NDArray[np.float64]:
    """`images` unit vectors around each of `count` directions."""
    centres = np.repeat(rng.normal(size=(count, DIM)), images, axis=0)
    units = centres + spread * rng.normal(size=(count * images, DIM))
    return np.asarray(units / np.linalg.norm(units, axis=1, keepdims=True))


def world(people: int = 4, others: int = 120, spread: float = 0.5) -> tuple[Known, NDArray[np.float64]]:
    """People to forget with six photographs each, strangers, and six more photographs of the people."""
    rng = np.random.default_rng(0)
    units = photographs(rng, people, 12, spread).reshape(people, 12, DIM)
    to_forget = [
        Photographs(f"p{i}", theirs[:6], [f"p{i}/{n}.png" for n in range(6)]) for i, theirs in enumerate(units)
    ]
    strangers = Strangers(
        photographs(rng, others, 3, spread), np.repeat(np.arange(others), 3), [f"s{i}" for i in range(others)]
    )
    return Known(people=to_forget, strangers=strangers, dim=DIM, seed=1), units[:, 6:]


def floats(units: NDArray[np.float64]) -> torch.Tensor:
    return torch.from_numpy(units.astype(np.float32))


@pytest.mark.parametrize("name", EVERY)
def test_the_map_is_reproducible_and_made_of_its_tensors(name: str) -> None:
    known, _ = world()
    one, two = closed_form(name).alter(known), closed_form(name).alter(known)
    x = torch.randn(50, DIM, generator=torch.Generator().manual_seed(0))
    assert one(x).shape == x.shape
    assert bool(torch.isfinite(one(x)).all())
    assert torch.equal(one(x), two(x))
    kind = METHODS.get(name)
    assert issubclass(kind, ClosedForm)
    again = kind.Map.read(one.tensors(), "here")
    assert torch.equal(again(x), one(x))


@pytest.mark.parametrize("name", EVERY)
def test_every_closed_form_says_what_it_is_and_refuses_what_it_does_not_know(name: str) -> None:
    method = METHODS.get(name)
    assert method.title
    assert method.reference
    assert "f(x) = " in (method.__doc__ or "")
    for unknown in ({"nonsense": 1}, {"lr": 0.1}):
        with pytest.raises(ValidationError):
            method.Settings(method=name, **unknown)


@pytest.mark.cli
@pytest.mark.parametrize("name", EVERY)
def test_the_evaluation_maps_what_the_saved_model_computes(name: str, tmp_path: Path) -> None:
    """Through the stages: the embeddings that are evaluated are those that the model gives of the images."""
    recipe = load("demo", [*TINY, f"forget.methods=[{name}]"])
    with Workspace(tmp_path / "run", say=lambda line: None) as workspace:
        pipeline = Pipeline(recipe, workspace)
        units, rows = read_embeddings(pipeline.embeddings("S1", name).path / FILE)
        model, card = load_backbone(pipeline.altered("S1", name).path)
        assert isinstance(model, Gated)
        assert card.map == name
        assert f"altered by {name}" in card.origin
        live = embed(model, card, pipeline.images(pipeline.faces()), rows, 64)
        table = Partitions.read(pipeline.partitions().path / "partitions.parquet")
        assert np.array_equal(np.sort(rows), np.sort(table.evaluated()))
        known, names = read_embeddings(pipeline.strangers().path / FILE)[1], table.table["identity"]
        assert len(set(names[known])) >= 16, "retain identities outside the control"
        assert not set(names[known]) & set(names[rows]), "nothing is measured on whom a closed form learns from"
    assert np.abs(units / np.linalg.norm(units, axis=1, keepdims=True) - live).max() < 1e-3


def test_strangers_are_retain_identities_outside_the_control_then_unused_ones() -> None:
    """Eight images each: of the control, of the other retain identities, of nobody, of the pool to forget from."""
    kinds = {"c": ("R", True), "r": ("R", False), "u": ("-", False), "people/x": ("-", False), "t": ("T", False)}
    people = [(f"{name}{i}", *kind) for name, kind in kinds.items() for i in range(2)]
    rows = [(f"{name}/{n}.png", name, *kind) for name, *kind in people for n in range(8)]
    columns = dict(zip(("image", "identity", "partition", "control"), zip(*rows, strict=True), strict=True))
    table = Partitions(Table({name: list(values) for name, values in columns.items()}), {"S1": 1})

    def taken(pool: str | None) -> list[str]:
        return sorted(table.table["identity"][strangers(table, pool)])

    assert taken("people") == ["r0"] * 5 + ["r1"] * 5 + ["u0"] * 5 + ["u1"] * 5
    assert set(taken(None)) == {"r0", "r1", "u0", "u1", "people/x0", "people/x1"}


# --- gate and scatter -------------------------------------------------------------------------------------------------


def gate_and_scatter(**settings: object) -> GateAndScatter:
    method = closed_form("GS", **settings)
    assert isinstance(method, GateAndScatter)
    return method


def test_forgotten_people_are_strangers_on_new_photographs_and_others_are_as_they_were() -> None:
    known, new = world(people=10, spread=0.35)
    assert known.strangers is not None
    gate = gate_and_scatter(strangers=1e-2).alter(known)
    others = floats(known.strangers.units)
    assert torch.equal(gate(others), others), "bit for bit"
    hidden = F.normalize(gate(floats(new.reshape(-1, DIM))), dim=1).double().numpy().reshape(new.shape)
    before = np.einsum("pid,pjd->pij", new, new)[:, *np.triu_indices(6, 1)]
    after = np.einsum("pid,pjd->pij", hidden, hidden)[:, *np.triu_indices(6, 1)]
    units = known.strangers.units
    between = (units @ units.T)[known.strangers.codes[:, None] != known.strangers.codes[None, :]]
    assert before.mean() > 0.8
    assert abs(after.mean() - between.mean()) < 0.05
    assert np.mean(after >= np.quantile(between, 0.99)) < 0.1
    templates = F.normalize(floats(hidden[:, :3].mean(axis=1)), dim=1).double().numpy()
    averaged = np.einsum("pd,pid->pi", templates, hidden[:, 3:])
    assert np.mean(averaged >= np.quantile(between, 0.999)) < 0.1


def test_a_gate_is_the_same_whatever_the_order_of_erasures() -> None:
    known, _ = world(people=4, spread=0.9)  # so wide that not all photographs are caught, whatever the width
    whole = gate_and_scatter().alter(known)
    assert {entry.caught for entry in whole.record.people} != {1.0}
    for first in ((0, 1), (3,), (2, 0, 1)):
        then = [place for place in range(4) if place not in first]
        start = gate_and_scatter().alter(_only(known, list(first)))
        more = gate_and_scatter().hide(_only(known, then), gate=start)
        assert more.gate is not None
        assert more.gate.record == whole.record
        assert all(torch.equal(more.gate.tensors()[name], tensor) for name, tensor in whole.tensors().items())
    names = {c.name: c.member.entry.pseudonym for c in gate_and_scatter().hide(known).chosen if c.member}
    back = whole.without([names["p3"]])
    alone = gate_and_scatter().alter(_only(known, [0, 1, 2]))
    assert back is not None
    assert back.record.offsets() == pytest.approx(alone.record.offsets())
    assert torch.equal(back.directions, alone.directions)


def _only(known: Known, places: list[int]) -> Known:
    return Known(
        people=[known.people[place] for place in places], strangers=known.strangers, dim=known.dim, seed=known.seed
    )


def test_without_strangers_the_gate_rests_on_the_statistics_and_says_so() -> None:
    known, _ = world()
    alone = Known(people=known.people, strangers=None, dim=DIM, seed=1)
    default = gate_and_scatter().hide(alone)
    assert default.statistics == COSINE
    assert default.gate is not None
    assert default.gate.record.source == COSINE.source
    own = COSINE.model_copy(update={"nonmated_deviation": 0.1, "source": "its card"})
    measured = gate_and_scatter().hide(alone, own)
    assert measured.gate is not None
    assert measured.gate.record.source == "its card"
    assert min(measured.gate.record.offsets()) > max(default.gate.record.offsets())


def test_people_whose_photographs_show_nobody_make_no_gate() -> None:
    rng = np.random.default_rng(0)
    units = photographs(rng, 3, 1, 0.1)
    known = Known(people=[Photographs("p", units, ["a", "b", "c"])], strangers=None, dim=DIM, seed=1)
    assert gate_and_scatter().hide(known).gate is None
    with pytest.raises(DamnatioError, match="show one person"):
        gate_and_scatter().alter(known)
