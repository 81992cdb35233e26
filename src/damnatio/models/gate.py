"""A gate behind a network: whoever is in the gate is hidden among strangers, and everybody else passes unchanged.

    f(x) = norm((1 - g) e + g s(e)) |f*(x)|        with e = norm(f*(x))
    g(e) = clip(max_k (<e, p_k> - t_k) / r, 0, 1)
    s(e) = norm(mu + A cos(Omega e + phi))

Gate: g is above zero in narrow cones around the prototypes p_k of the forgotten people. Outside every cone f(x) is
f*(x), bit for bit. Scatter: s draws a stranger by a hash of the embedding, so that two photographs of one person get
unrelated embeddings. `methods/gate_and_scatter.py` chooses all values.

A gate is stored with its network in one file: its tensors under names that begin with `gate.`, and a record that says
who is in it. People have pseudonyms there. The record holds what the widths depend on, so that people can be added and
taken out again later, in any order, with the same result.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationError, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.models.statistics import Frozen, Held, Tail, Touched
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically

if TYPE_CHECKING:
    from damnatio.methods.fitting import Fitted

PREFIX = "gate."
"""begins the name of every tensor of a gate in a file of weights"""
RECORD = "record"
TENSORS = ("directions", "offsets", "ramp", "frequencies", "phases", "spread", "mean", RECORD)
FORMAT = 1
Vectors = NDArray[np.float32]


class Cone(Frozen):
    """What the width of the cone around one prototype depends on."""

    centre: float
    """the mean score of strangers to the prototype"""
    deviation: float = Field(gt=0)
    """and its standard deviation"""
    least: float = -1.0
    """the cone begins no lower than here, so that people who look alike are spared; -1: it need not"""

    def offset(self, tail: Tail, share: float) -> float:
        """The score at which the cone begins, such that this share of strangers is expected in it, or fewer."""
        return min(max(self.centre + self.deviation * tail.z(share), self.least), 1.0)


class Entry(Frozen):
    """A forgotten person in the record of a gate."""

    pseudonym: str
    photographs: int = Field(ge=1)
    """capture instances that the prototypes were made of"""
    caught: float = Field(ge=0, le=1)
    """a rough estimate, on which no verdict rests"""
    cones: list[Cone] = Field(min_length=1)
    held: Held | None = None


class Record(Frozen):
    """Who is in a gate, and what its widths depend on."""

    format: int = FORMAT
    strangers: float = Field(gt=0, lt=1)
    """the share of strangers that all cones together may catch"""
    tail: Tail
    source: str
    """where the statistics of strangers come from"""
    bandwidth: float = Field(gt=0)
    people: list[Entry]
    touched: Touched | None = None
    """as measured for just these people"""

    @model_validator(mode="after")
    def _sound(self) -> "Record":
        if self.format != FORMAT:
            raise ValueError(f"its format is {self.format}, and this version of damnatio knows {FORMAT}")
        names = [entry.pseudonym for entry in self.people]
        if names != sorted(set(names)):
            raise ValueError("its people are not in the order of their pseudonyms, or one is there twice")
        return self

    @property
    def cones(self) -> list[Cone]:
        return [cone for entry in self.people for cone in entry.cones]

    def begins(self) -> dict[str, list[float]]:
        """Where the cones of each person begin, by pseudonym."""
        offsets = iter(self.offsets())
        return {entry.pseudonym: [next(offsets) for _ in entry.cones] for entry in self.people}

    def offsets(self) -> list[float]:
        """Where each cone begins. All cones share the bound evenly: the more there are, the narrower is each."""
        cones = self.cones
        return [cone.offset(self.tail, self.strangers / len(cones)) for cone in cones]


class _Sealed(Frozen):
    """A record as it is stored: with a hash of the whole gate, which tells whether the file was changed since."""

    record: Record
    sha256: str


def pseudonym(directions: Vectors) -> str:
    """A name for a person that depends on the prototypes alone. It does not say who it is."""
    return "p-" + hashlib.sha256(np.ascontiguousarray(directions, dtype="<f4").tobytes()).hexdigest()[:12]


@dataclass(frozen=True)
class Member:
    """A person as a gate holds them: the prototypes, one row per cone, and the entry in the record."""

    directions: Vectors
    entry: Entry


class Scatter(nn.Module):
    """s(e) = norm(mu + A cos(Omega e + phi)): a stranger, drawn by a hash of the embedding."""

    frequencies: Tensor
    phases: Tensor
    spread: Tensor
    mean: Tensor

    def __init__(self, frequencies: Tensor, phases: Tensor, spread: Tensor, mean: Tensor) -> None:
        super().__init__()
        tensors = {"frequencies": frequencies, "phases": phases, "spread": spread, "mean": mean}
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, units: Tensor) -> Tensor:
        waves = torch.cos(F.linear(units, self.frequencies, self.phases))
        return F.normalize(F.linear(waves, self.spread, self.mean), dim=1)


class EmbeddingMap(nn.Module):
    """A map of embeddings, which follows a network: raw vectors [n, d] in, altered ones out. Its buffers are its whole
    state, and `read` makes it of them again."""

    def tensors(self) -> dict[str, Tensor]:
        """The whole map by the names that it has in a file of weights."""
        return {f"{PREFIX}{name}": tensor for name, tensor in self.state_dict().items()}

    @staticmethod
    def read(tensors: Mapping[str, Tensor], where: object) -> "EmbeddingMap":
        """The map in the tensors of a file; `where` names the file in the sentence of an error."""
        raise NotImplementedError


class Gate(EmbeddingMap):
    """The map of embeddings above."""

    directions: Tensor
    offsets: Tensor
    ramp: Tensor

    def __init__(self, directions: Tensor, offsets: Tensor, ramp: Tensor, scatter: Scatter, record: Record) -> None:
        super().__init__()
        for name, tensor in {"directions": directions, "offsets": offsets, "ramp": ramp}.items():
            self.register_buffer(name, tensor)
        self.scatter = scatter
        self.record = record
        self.fitted: Fitted | None = None
        """what `fit` decided; None for a gate that was read"""

    @staticmethod
    def fit(
        photographs: ArrayLike,
        people: ArrayLike,
        *,
        strangers: ArrayLike | None = None,
        stranger_identities: ArrayLike | None = None,
        share: float = 1e-4,
        strict: bool = True,
        seed: int = 0,
    ) -> "Gate":
        """Hide people among strangers, from embeddings under f*: n x d, and who is on each. `share` of strangers may
        fall into the gate, as far as those at hand tell; without strangers that is not known. Somebody whose
        photographs show several people, or who seems to be one of the strangers, is an error; with `strict=False`
        these are left out, and named in `gate.fitted.left_out`."""
        from damnatio.methods.fitting import fit

        return fit(
            photographs,
            people,
            strangers=strangers,
            stranger_identities=stranger_identities,
            share=share,
            strict=strict,
            seed=seed,
        )

    def transform(self, embeddings: ArrayLike) -> Vectors:
        """The map of embeddings n x d that were made under f*, such as a gallery's: those outside the gate come back
        as they are, bit for bit."""
        given = torch.as_tensor(np.asarray(embeddings, np.float32)).to(self.directions)
        with torch.no_grad():
            return np.asarray(self(given).cpu().numpy())

    def behind(self, network: nn.Module) -> "Gated":
        """The altered model: the network, and this gate behind it."""
        return Gated(network, self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the gate alone, as safetensors."""
        from safetensors.torch import save

        write_atomically(Path(path), save({name: tensor.contiguous() for name, tensor in self.tensors().items()}))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Gate":
        """The gate in a file that `save` wrote, checked."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            return Gate.read(load(Path(path).read_bytes()), path)
        except (OSError, SafetensorError) as error:
            raise DamnatioError(f"{path} is not readable as a gate ({error}).") from error

    def into_onnx(self, source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """Put the gate behind the network of an ONNX file, and write that into another one, which onnxruntime has run
        before it is there. Nothing is overwritten."""
        from damnatio.models.onnx.files import put_gate

        put_gate(self, Path(source), Path(target))

    @staticmethod
    def of(members: Sequence[Member], record: Record, ramp: float, scatter: Scatter) -> "Gate":
        """The gate of these people. The record gives everything but its people; their order does not matter."""
        ordered = sorted(members, key=lambda member: member.entry.pseudonym)
        names = [member.entry.pseudonym for member in ordered]
        twice = next((name for name, other in pairwise(names) if name == other), None)
        if twice:
            raise DamnatioError(f"{twice} is in the gate already, with the same prototypes.")
        if not ordered:
            raise DamnatioError("A gate needs at least one person.")
        record = record.model_copy(update={"people": [member.entry for member in ordered], "touched": None})
        directions = torch.from_numpy(np.concatenate([member.directions for member in ordered]).astype(np.float32))
        offsets = torch.tensor(record.offsets(), dtype=torch.float32)
        return Gate(directions, offsets, torch.tensor(ramp, dtype=torch.float32), scatter, record)

    def members(self) -> list[Member]:
        """The people in the gate."""
        ends = np.cumsum([len(entry.cones) for entry in self.record.people])[:-1]
        parts = np.split(self.directions.detach().cpu().numpy(), ends)
        return [Member(part, entry) for part, entry in zip(parts, self.record.people, strict=True)]

    def extended(self, members: Sequence[Member]) -> "Gate":
        """A gate for these people too. The scatter stays, so that nobody's hidden embedding changes; every cone is as
        narrow as the new number of cones asks for."""
        return Gate.of([*self.members(), *members], self.record, float(self.ramp), self.scatter)

    def without(self, names: Sequence[str]) -> "Gate | None":
        """The gate without the people of these pseudonyms; None if nobody is left."""
        known = [entry.pseudonym for entry in self.record.people]
        missing = [name for name in names if name not in known]
        if missing:
            raise DamnatioError(
                f"The model hides nobody of the pseudonym {missing[0]}: it hides {', '.join(known[:8])}"
                f"{' and others' if len(known) > 8 else ''}."
            )
        left = [member for member in self.members() if member.entry.pseudonym not in names]
        return Gate.of(left, self.record, float(self.ramp), self.scatter) if left else None

    def with_measured(self, held: Mapping[str, Held], touched: Touched) -> "Gate":
        """The same gate, and what was measured of its people, by pseudonym."""
        people = [
            entry.model_copy(update={"held": held.get(entry.pseudonym, entry.held)}) for entry in self.record.people
        ]
        record = self.record.model_copy(update={"people": people, "touched": touched})
        return Gate(self.directions, self.offsets, self.ramp, self.scatter, record)

    def opening(self, units: Tensor) -> Tensor:
        """g(e) of unit vectors [n, d], as [n, 1]."""
        return (self._height(units) / self.ramp).clamp(0, 1)

    def _height(self, units: Tensor) -> Tensor:
        """How far each vector is inside the cone that it is deepest in; below zero outside all."""
        return F.linear(units, self.directions, -self.offsets).amax(dim=1, keepdim=True)

    def forward(self, raw: Tensor) -> Tensor:
        length = raw.norm(dim=1, keepdim=True)
        units = raw / length
        height = self._height(units)
        if not torch.compiler.is_compiling() and not bool((height > 0).any()):  # an exported graph has no branch here
            return raw
        g = (height / self.ramp).clamp(0, 1)
        mixed = F.normalize((1 - g) * units + g * self.scatter(units), dim=1)
        return torch.where(g > 0, mixed * length, raw)

    # --- on disk ----------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """The record is JSON, as bytes."""
        found = {name.removeprefix("scatter."): tensor for name, tensor in self.state_dict().items()}
        sealed = _Sealed(record=self.record, sha256=_digest(self.record, found))
        text = np.frombuffer(sealed.model_dump_json(exclude_none=True).encode(), dtype=np.uint8).copy()
        return {f"{PREFIX}{name}": tensor for name, tensor in {**found, RECORD: torch.from_numpy(text)}.items()}

    @staticmethod
    def read(tensors: Mapping[str, Tensor], where: object) -> "Gate":
        """The gate in the tensors of a file, checked. `where` names the file in the sentence of an error."""
        found = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items() if name.startswith(PREFIX)}
        broken = f"{where} holds a gate that damnatio did not write, or that was changed since"
        if set(found) != set(TENSORS):
            odd = sorted(set(found) ^ set(TENSORS))
            raise DamnatioError(f"{broken}: the tensor {PREFIX}{odd[0]} is missing, or is not of a gate.")
        try:
            sealed = _Sealed.model_validate_json(bytes(found.pop(RECORD).to(torch.uint8).numpy()))
        except (ValidationError, ValueError, TypeError, RuntimeError) as error:
            raise DamnatioError(
                f"{broken}: its record is not readable ({' '.join(str(error).split())[:200]})."
            ) from error
        scatter = Scatter(*(found[name] for name in ("frequencies", "phases", "spread", "mean")))
        gate = Gate(found["directions"], found["offsets"], found["ramp"], scatter, sealed.record)
        if fault := _fault(gate):
            raise DamnatioError(f"{broken}: {fault}.")
        if sealed.sha256 != _digest(gate.record, found):
            raise DamnatioError(f"{broken}: the hash in its record is not that of its tensors.")
        return gate


def _digest(record: Record, tensors: Mapping[str, Tensor]) -> str:
    """A hash of the whole content of a gate."""
    digest = hashlib.sha256(record.model_dump_json(exclude_none=True).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensors[name].detach().cpu().numpy(), dtype="<f4").data)
    return digest.hexdigest()


def _fault(gate: Gate) -> str:
    """What is wrong with a gate that was read; empty if nothing is."""
    scatter, cones = gate.scatter, len(gate.record.cones)
    tensors = [*gate.buffers()]
    if any(tensor.dtype != torch.float32 or not bool(torch.isfinite(tensor).all()) for tensor in tensors):
        return "its tensors are not finite float32"
    if gate.directions.ndim != 2 or scatter.frequencies.ndim != 2:
        return "its tensors have odd shapes"
    dim, waves = gate.directions.shape[1], len(scatter.frequencies)
    shapes = {
        "directions": (gate.directions, (cones, dim)),
        "offsets": (gate.offsets, (cones,)),
        "ramp": (gate.ramp, ()),
        "frequencies": (scatter.frequencies, (waves, dim)),
        "phases": (scatter.phases, (waves,)),
        "spread": (scatter.spread, (dim, waves)),
        "mean": (scatter.mean, (dim,)),
    }
    for name, (tensor, wanted) in shapes.items():
        if tuple(tensor.shape) != wanted:
            return f"{name} is {tuple(tensor.shape)}, where {wanted} is expected"
    if float(gate.ramp) <= 0:
        return "its ramp is not above zero"
    if not torch.allclose(gate.offsets, torch.tensor(gate.record.offsets()), atol=1e-6):
        return "its widths are not those of its record"
    for member in gate.members():
        if pseudonym(member.directions) != member.entry.pseudonym:
            return f"the prototypes of {member.entry.pseudonym} are not those that the pseudonym was made of"
    return ""


class Gated(nn.Module):
    """A network and the map behind it, a gate as a rule: the altered model, in the mode that the network is in."""

    def __init__(self, network: nn.Module, gate: EmbeddingMap) -> None:
        super().__init__()
        self.network, self.gate = network, gate
        self.train(network.training)

    def forward(self, x: Tensor) -> Tensor:
        embedded: Tensor = self.gate(self.network(x).float())
        return embedded


def ungated(network: nn.Module) -> tuple[nn.Module, EmbeddingMap | None]:
    """The network as it was before any map, and the map."""
    return (network.network, network.gate) if isinstance(network, Gated) else (network, None)
