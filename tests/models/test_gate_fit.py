"""`damnatio.Gate` as a user of the library makes it: from arrays, behind a network, into a file."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import damnatio

DIM = 64
Arrays = tuple[NDArray[np.float32], NDArray[np.int64]]


@pytest.fixture(scope="module")
def world() -> Arrays:
    """300 people with eight photographs each."""
    rng = np.random.default_rng(0)
    people = np.repeat(np.arange(300), 8)
    raw = rng.normal(size=(300, DIM))[people] + 0.5 * rng.normal(size=(len(people), DIM))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32), people


def fitted(world: Arrays) -> damnatio.Gate:
    e, people = world
    asked = (people < 6) & (np.arange(len(people)) % 8 < 5)
    known = people >= 150
    return damnatio.Gate.fit(e[asked], people[asked], strangers=e[known], stranger_identities=people[known], share=1e-3)


def test_new_photographs_scatter_and_strangers_stay_bit_for_bit(world: Arrays) -> None:
    e, people = world
    gate = fitted(world)
    h = gate.transform(3 * e)
    new = (people < 6) & (np.arange(len(people)) % 8 >= 5)
    others = (people >= 6) & (people < 150)
    assert (h[others] == 3 * e[others]).all(axis=1).mean() > 0.99
    units = h[new] / np.linalg.norm(h[new], axis=1, keepdims=True)
    same = np.triu(people[new][:, None] == people[new], 1)
    before, after = (e[new] @ e[new].T)[same], (units @ units.T)[same]
    assert before.mean() > 0.7
    assert after.mean() < 0.3
    assert gate.fitted is not None
    assert [len(person.used) for person in gate.fitted.people] == [5] * 6
    assert gate.fitted.left_out == {}
    assert "0: 5 photographs used" in str(gate.fitted)


def test_it_is_a_module_behind_a_network_and_a_file(world: Arrays, tmp_path: Path) -> None:
    gate = fitted(world)
    network = nn.Linear(DIM, DIM, bias=False)
    with torch.no_grad():
        network.weight.copy_(torch.eye(DIM))
    x = torch.from_numpy(world[0][:50])
    assert np.allclose(gate.behind(network)(x).detach().numpy(), gate.transform(world[0][:50]), atol=1e-6)
    gate.save(tmp_path / "gate.safetensors")
    again = damnatio.Gate.load(tmp_path / "gate.safetensors")
    assert np.array_equal(again.transform(world[0]), gate.transform(world[0]))
    (tmp_path / "text.safetensors").write_text("no gate")
    with pytest.raises(ValueError, match="not readable as a gate"):
        damnatio.Gate.load(tmp_path / "text.safetensors")


@pytest.mark.cli
def test_it_goes_into_an_onnx_file_and_overwrites_none(world: Arrays, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    network = nn.Sequential(nn.Conv2d(3, 4, 8, 8), nn.Flatten(), nn.Linear(64, DIM)).eval()
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    x = torch.rand(6, 3, 32, 32) * 2 - 1
    torch.onnx.export(
        network, (x[:2],), source, dynamic_shapes=({0: torch.export.Dim("n")},), dynamo=True, external_data=False
    )
    gate = fitted(world)
    gate.into_onnx(source, target)
    session = onnxruntime.InferenceSession(target)
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with torch.no_grad():
        wanted = gate.behind(network)(x).numpy()
    assert np.allclose(found, wanted, atol=1e-4)
    with pytest.raises(ValueError, match="nothing is overwritten"):
        gate.into_onnx(source, target)


def test_who_cannot_be_hidden_is_an_error_or_is_named(world: Arrays) -> None:
    e, people = world
    known = people >= 150
    mixed = e[[0, 1, 2, 3, 8 * 20, 8 * 21, 8 * 22, 8 * 23]]
    names = ["Ann"] * 4 + ["Bob"] * 4
    with pytest.raises(ValueError, match="Bob: the photographs do not show one person"):
        damnatio.Gate.fit(mixed, names, strangers=e[known], stranger_identities=people[known])
    gate = damnatio.Gate.fit(mixed, names, strangers=e[known], stranger_identities=people[known], strict=False)
    assert gate.fitted is not None
    assert list(gate.fitted.left_out) == ["Bob"]
    twin = np.concatenate([e[known], e[:8]])
    whose = np.concatenate([people[known], np.full(8, 999)])
    with pytest.raises(ValueError, match="Ann: seems to be 999, who is among the strangers"):
        damnatio.Gate.fit(e[:4], ["Ann"] * 4, strangers=twin, stranger_identities=whose)
    with pytest.raises(ValueError, match="stranger_identities too"):
        damnatio.Gate.fit(e[:4], ["Ann"] * 4, strangers=e[known])


def test_a_network_that_tells_nobody_apart_hides_nobody() -> None:
    rng = np.random.default_rng(0)
    people = np.repeat(np.arange(120), 8)
    e = 1 + 0.1 * rng.normal(size=(120, 16))[people] + 0.01 * rng.normal(size=(960, 16))
    with pytest.raises(ValueError, match="0: strangers are as near as the person's own photographs"):
        damnatio.Gate.fit(e[:8], people[:8], strangers=e[8:], stranger_identities=people[8:])
