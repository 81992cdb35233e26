"""The gate: its equations as Python loops, the bits outside it, its people in any order, and the faults of a file."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from damnatio.models.gate import Cone, Gate, Gated, Record, pseudonym, ungated
from damnatio.models.onnx.gate_nodes import probes
from damnatio.models.statistics import Tail
from damnatio.support.errors import DamnatioError
from tests.models.gates import gate_around, member, record, scatter, units

DIM = 12


def naive(gate: Gate, raw: list[float]) -> list[float]:
    """The equations at the top of models/gate.py, number by number in Python's own precision."""
    length = math.sqrt(sum(v * v for v in raw))
    e = [v / length for v in raw]
    directions, offsets, ramp = gate.directions.tolist(), gate.offsets.tolist(), float(gate.ramp)
    deepest = max(sum(a * b for a, b in zip(e, p, strict=True)) - t for p, t in zip(directions, offsets, strict=True))
    g = min(max(deepest / ramp, 0.0), 1.0)
    if g <= 0:
        return raw
    part = gate.scatter
    angles = [
        sum(w * v for w, v in zip(row, e, strict=True)) + phase
        for row, phase in zip(part.frequencies.tolist(), part.phases.tolist(), strict=True)
    ]
    waves = [math.cos(angle) for angle in angles]
    drawn = [
        m + sum(a * wave for a, wave in zip(row, waves, strict=True))
        for row, m in zip(part.spread.tolist(), part.mean.tolist(), strict=True)
    ]
    size = math.sqrt(sum(v * v for v in drawn))
    mixed = [(1 - g) * a + g * b / size for a, b in zip(e, drawn, strict=True)]
    size = math.sqrt(sum(v * v for v in mixed))
    return [v / size * length for v in mixed]


def test_gate_computes_its_equations() -> None:
    gate = gate_around(units(5, DIM, 0))
    raw = torch.cat([probes(gate), units(20, DIM, 9) * 3])
    wanted = torch.tensor([naive(gate, row) for row in raw.tolist()])
    torch.testing.assert_close(gate(raw), wanted, rtol=1e-4, atol=1e-4)
    opened = gate.opening(F.normalize(raw, dim=1))
    assert ((opened > 0) & (opened < 1)).any()
    assert (opened == 1).any()


def test_outside_every_cone_not_one_bit_changes() -> None:
    gate = gate_around(units(3, DIM, 0))
    strangers = units(200, DIM, 1) * torch.rand(200, 1) * 50
    shut = gate.opening(F.normalize(strangers, dim=1))[:, 0] == 0
    assert shut.sum() > 150
    inside = gate.directions * 4
    assert torch.equal(gate(strangers[shut]), strangers[shut])
    mixed = gate(torch.cat([strangers[shut], inside]))  # one batch with people in the gate
    assert torch.equal(mixed[: int(shut.sum())], strangers[shut])
    assert (F.cosine_similarity(mixed[-3:], inside) < 0.9).all()


def test_hidden_embeddings_keep_their_length_and_are_unlike_each_other() -> None:
    gate = gate_around(units(1, 128, 0), waves=1024)
    near = F.normalize(gate.directions + 0.02 * torch.randn(40, 128, generator=torch.Generator().manual_seed(2)), dim=1)
    hidden = gate(near * 7)
    torch.testing.assert_close(hidden.norm(dim=1), torch.full((40,), 7.0))
    scores = F.normalize(hidden, dim=1) @ F.normalize(hidden, dim=1).T
    assert (near @ near.T).min() > 0.85
    assert scores[~torch.eye(40, dtype=torch.bool)].mean() < 0.3


def test_half_precision_hides_the_same_people() -> None:
    gate, half = gate_around(units(4, 64, 0), waves=512), gate_around(units(4, 64, 0), waves=512).half()
    raw = torch.cat([gate.directions * 20, units(50, 64, 3) * 20])
    ours, theirs = gate(raw), half(raw.half()).float()
    assert theirs.isfinite().all()
    assert (F.cosine_similarity(ours, theirs) > 0.999).all()
    assert torch.equal(theirs[4:], raw[4:].half().float())


# --- widths ----------------------------------------------------------------------------------------------------------


def test_widths_share_the_bound_evenly() -> None:
    tail = Tail(share=0.1, at=1.0, scale=0.5)
    assert tail.z(0.1) == 1.0
    assert tail.beyond(tail.z(1e-3)) == pytest.approx(1e-3)
    assert tail.beyond(-4.0) == 0.1
    cones = [Cone(centre=0.1, deviation=0.05), Cone(centre=0.1, deviation=0.05, least=0.9)]
    people = [member(units(1, DIM, seed), cones=[cone]).entry for seed, cone in enumerate(cones)]
    people.sort(key=lambda entry: entry.pseudonym)
    both = Record(strangers=2e-3, tail=tail, source="", bandwidth=8.0, people=people)
    wide = 0.1 + 0.05 * (1.0 + 0.5 * math.log(0.1 / 1e-3))  # each of two cones has half of the bound
    assert sorted(both.offsets()) == pytest.approx([wide, 0.9])


def test_people_come_and_go_in_any_order_with_the_same_gate() -> None:
    a, b, c = (member(units(n, DIM, seed), least=-1.0) for seed, n in enumerate((1, 2, 1)))
    part = scatter(DIM)
    together = Gate.of([a, b, c], record(), 0.05, part)
    for order in ([a, b, c], [c, a, b], [b, c, a]):
        one = Gate.of(order[:1], record(), 0.05, part)
        assert same(one.extended(order[1:]), together)
        assert same(one.extended(order[1:2]).extended(order[2:]), together)
    left = together.without([b.entry.pseudonym])
    assert left is not None
    assert same(left, Gate.of([c, a], record(), 0.05, part))
    assert same(left.extended([b]), together)
    assert together.without([m.entry.pseudonym for m in (a, b, c)]) is None
    assert float(together.offsets.min()) > float(left.offsets.min())  # more people, narrower cones
    assert [len(m.directions) for m in together.members()] == [len(e.cones) for e in together.record.people]


def same(gate: Gate, other: Gate) -> bool:
    return all(torch.equal(a, b) for a, b in zip(gate.tensors().values(), other.tensors().values(), strict=True))


def test_nobody_is_in_a_gate_twice_and_nobody_unknown_leaves_it() -> None:
    person = member(units(1, DIM, 0))
    gate = Gate.of([person], record(), 0.05, scatter(DIM))
    with pytest.raises(DamnatioError, match=r"p-[0-9a-f]{12} is in the gate already, with the same prototypes"):
        gate.extended([person])
    with pytest.raises(DamnatioError, match=rf"nobody of the pseudonym p-0: it hides {person.entry.pseudonym}\.$"):
        gate.without(["p-0"])
    with pytest.raises(DamnatioError, match="A gate needs at least one person"):
        Gate.of([], record(), 0.05, scatter(DIM))


def test_a_pseudonym_depends_on_the_prototypes_alone() -> None:
    vectors = units(2, DIM, 0).numpy()
    assert pseudonym(vectors) == pseudonym(np.asfortranarray(vectors.astype(">f4")))
    assert pseudonym(vectors) != pseudonym(vectors[::-1])


# --- in a file -------------------------------------------------------------------------------------------------------


def test_a_gate_is_read_as_it_was_written() -> None:
    gate = Gate.of([member(units(2, DIM, 0)), member(units(1, DIM, 1))], record(), 0.05, scatter(DIM))
    again = Gate.read({**gate.tensors(), "conv.weight": torch.ones(3)}, "f")
    assert again.record == gate.record
    assert same(again, gate)


def edited(old: str, new: str) -> Any:
    """Another text in the record."""

    def change(tensors: dict[str, Tensor]) -> None:
        text = bytes(tensors["gate.record"].numpy()).decode()
        assert old in text
        tensors["gate.record"] = torch.tensor(list(text.replace(old, new).encode()), dtype=torch.uint8)

    return change


def put(name: str, value: Any) -> Any:
    def change(tensors: dict[str, Tensor]) -> None:
        tensors[f"gate.{name}"] = value(tensors[f"gate.{name}"]) if callable(value) else value

    return change


def drop(name: str) -> Any:
    return lambda tensors: tensors.pop(f"gate.{name}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop("mean"), "the tensor gate.mean is missing, or is not of a gate"),
        (drop("record"), "the tensor gate.record is missing"),
        (put("more", torch.ones(2)), "the tensor gate.more is missing, or is not of a gate"),
        (put("record", torch.zeros(0, dtype=torch.uint8)), "its record is not readable"),
        (put("record", torch.ones(3)), "its record is not readable"),
        (put("record", torch.full((9000,), ord("["), dtype=torch.uint8)), "its record is not readable"),
        (edited('"format":1', '"format":2'), "its format is 2, and this version of damnatio knows 1"),
        (edited('"photographs":3', '"photographs":0'), "its record is not readable"),
        (edited('"photographs":3', '"photographs":4'), "the hash in its record is not that of its tensors"),
        (edited('"source":"a test"', '"source":"b test"'), "the hash in its record is not that of its tensors"),
        (edited('"p-', '"q-'), "are not those that the pseudonym was made of"),
        (put("ramp", torch.tensor(-1.0)), "its ramp is not above zero"),
        (put("ramp", torch.tensor(0.07)), "the hash in its record is not that of its tensors"),
        (put("phases", lambda t: t + 1), "the hash in its record is not that of its tensors"),
        (put("offsets", lambda t: t + 0.1), "its widths are not those of its record"),
        (put("offsets", lambda t: t[:1]), r"offsets is \(1,\), where \(2,\) is expected"),
        (put("directions", lambda t: t.flip(0)), "are not those that the pseudonym was made of"),
        (put("directions", lambda t: t[:1]), r"directions is \(1, 12\), where \(2, 12\) is expected"),
        (put("directions", lambda t: t[0]), "its tensors have odd shapes"),
        (put("frequencies", lambda t: t[:, :3]), r"frequencies is \(64, 3\), where \(64, 12\) is expected"),
        (put("spread", lambda t: t.T), r"spread is \(64, 12\), where \(12, 64\) is expected"),
        (put("mean", lambda t: t.double()), "its tensors are not finite float32"),
        (put("mean", lambda t: t.half()), "its tensors are not finite float32"),
        (put("spread", lambda t: t * torch.nan), "its tensors are not finite float32"),
        (put("phases", lambda t: t.to(torch.int32)), "its tensors are not finite float32"),
    ],
)
def test_faults_of_a_file_are_one_sentence(change: Any, said: str) -> None:
    tensors = gate_around(units(2, DIM, 0)).tensors()
    change(tensors)
    with pytest.raises(DamnatioError, match=rf"^f.pth holds a gate that damnatio did not write, .* since: .*{said}"):
        Gate.read(tensors, "f.pth")


def test_a_gated_network_has_the_mode_of_its_network_and_gives_it_back() -> None:
    network, gate = torch.nn.Linear(4, DIM), gate_around(units(1, DIM, 0))
    assert Gated(network, gate).training
    model = Gated(network.eval(), gate)
    assert not model.training
    assert ungated(model) == (network, gate)
    assert ungated(network) == (network, None)
