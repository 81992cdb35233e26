"""Models: cards, tensors, ONNX graphs, and the checkpoints of an unfinished training."""

import io
import tempfile
import warnings
from collections import OrderedDict
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

from damnatio.faces.base import Images, UnreadableError
from damnatio.models.card import Card, read_card
from damnatio.models.gate import Cone, Entry, Gate, Gated, Member, Record, Scatter, pseudonym
from damnatio.models.inputs import Mask, Rows
from damnatio.models.onnx.files import embedding_size, read_graph
from damnatio.models.onnx.gate_nodes import append_gate
from damnatio.models.state_dicts import fill_counters, guess, read_state
from damnatio.models.statistics import Tail
from damnatio.models.store import filled, load_head, new_backbone, new_head, put_tensors
from damnatio.recipe.schema import ModelSettings, TrainSettings
from damnatio.support.arrays import read_tensors
from damnatio.support.manifests import CHECKPOINT
from damnatio.training.loop import METRICS, Job, _Loop
from fuzz.mutations import changed_json, damaged, edited, mixed
from fuzz.readers.base import Reader
from fuzz.structures import changed_onnx, changed_safetensors, changed_torch, payload

SIDE, DIM = 32, 8


def _cards(folder: Path) -> list[bytes]:
    card = Card(backbone="iresnet-tiny", dim=128, size=32, origin="somewhere", sha256="0" * 64, parity=1e-6)
    return [card.model_dump_json(indent=1).encode(), b'{"backbone": "vit-b", "dim": 512, "size": 112}']


# --- tensors ---------------------------------------------------------------------------------------------------------


class Small(nn.Module):
    """A network of a few hundred weights: damage to a large file would hit only its numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=4)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 8 * 8, DIM)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.norm(self.conv(x)).relu().flatten(1))
        return out


def _state() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return Small().state_dict()


def _safetensors(folder: Path) -> list[bytes]:
    state = _state()
    return [save(state), save({f"module.{name}": tensor for name, tensor in state.items()}, {"format": "pt"})]


def _pickled(folder: Path) -> list[bytes]:
    found = []
    for content in (_state(), {"state_dict": OrderedDict(_state()), "epoch": 3}, {"model": _state()}):
        for new in (True, False):
            file = io.BytesIO()
            torch.save(content, file, _use_new_zipfile_serialization=new)
            found.append(file.getvalue())
    return found


def _zipped(folder: Path) -> list[bytes]:
    return [content for content in _pickled(folder) if content.startswith(b"PK")]


def _read_state(path: Path) -> None:
    """Read like an import: load the tensors, recognise the backbone, and fill a network."""
    state = read_state(path)
    network = Small()
    put_tensors(network, fill_counters(state, network.state_dict()), path)
    with torch.inference_mode():
        network.eval()(torch.zeros(1, 3, SIDE, SIDE))


def _backbones(folder: Path) -> list[bytes]:
    return [save({k: t.contiguous() for k, t in new_backbone("iresnet-tiny", SIDE, DIM).state_dict().items()})]


def _guess(path: Path) -> None:
    guess(read_state(path), SIDE, path)


def _heads(folder: Path) -> list[bytes]:
    return [save({"weight": torch.ones(5, DIM)})]


def _read_head(path: Path) -> None:
    read_tensors(path)
    path.rename(path.with_name("head.safetensors"))
    load_head(ModelSettings(dim=DIM), path.parent)


# --- graphs ----------------------------------------------------------------------------------------------------------


class Attending(nn.Module):
    """A small network with the operators of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 4, 8, stride=8)
        self.place = nn.Parameter(torch.rand(1, 16, 4))
        self.norm = nn.LayerNorm(4)
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
        self.fc = nn.Linear(64, DIM)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2) + self.place
        seen = self.norm(x)
        likeness = self.query(seen) @ self.key(seen).transpose(1, 2) / 2
        x = x + likeness.softmax(-1) @ self.value(seen)
        out: Tensor = self.fc(nn.functional.gelu(x).flatten(1))
        return out


def _graphs(folder: Path) -> list[bytes]:
    """Export with the exporter that most files in the world come from; it is also the quicker one."""
    torch.manual_seed(0)
    found, one, path = [], torch.zeros(1, 3, SIDE, SIDE), folder / "network.onnx"
    for network in (Small(), Attending()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            batch = {"x": {0: "batch"}}
            torch.onnx.export(
                network.eval(), (one,), path, input_names=["x"], dynamic_axes=batch, opset_version=17, dynamo=False
            )
        found.append(path.read_bytes())
    return found


def _read_graph(path: Path) -> None:
    embedding_size(path)
    network = read_graph(path).network
    for point in network.cut_points():
        network.cut(point)
    network.to_model().SerializeToString()


# --- gates -----------------------------------------------------------------------------------------------------------


def _gate() -> Gate:
    """Two people and eight waves: damage then hits names, shapes and the record as often as numbers."""
    torch.manual_seed(0)
    units = nn.functional.normalize(torch.randn(2, DIM), dim=1).numpy()
    cone = Cone(centre=0.0, deviation=0.1, least=0.5)
    members = [
        Member(one[None], Entry(pseudonym=pseudonym(one[None]), photographs=2, caught=0.9, cones=[cone]))
        for one in units
    ]
    tail = Tail(share=0.05, at=1.6, scale=0.45)
    record = Record(strangers=1e-4, tail=tail, source="noise", bandwidth=8.0, people=[])
    scatter = Scatter(torch.randn(8, DIM), torch.rand(8), torch.randn(DIM, 8), torch.zeros(DIM))
    return Gate.of(members, record, 0.1, scatter)


def _gated_tensors(folder: Path) -> list[bytes]:
    return [save({**_state(), **_gate().tensors()}), save({**_state(), **_gate().extended([]).tensors()})]


def _read_gated(path: Path) -> None:
    network, card = Small(), Card(backbone="small", dim=DIM, size=SIDE, map="GS")
    state = read_state(path)
    model = filled(network, fill_counters(state, network.state_dict()), card, path)
    assert isinstance(model, Gated)
    with torch.inference_mode():
        model.eval()(torch.zeros(1, 3, SIDE, SIDE))


def _gated_graphs(folder: Path) -> list[bytes]:
    from onnx import load_model_from_string

    found = []
    for content in _graphs(folder):
        model = load_model_from_string(content)
        append_gate(model, _gate())
        found.append(model.SerializeToString())
    return found


def _read_gated_graph(path: Path) -> None:
    embedding_size(path)
    model = read_graph(path).model
    with torch.inference_mode():
        model(torch.zeros(1, 3, SIDE, SIDE))


# --- checkpoints -----------------------------------------------------------------------------------------------------


class Noise:
    """Images for a training of a few steps."""

    def read(self, rows: Rows, mirrored: Mask | None = None) -> Images:
        return np.random.default_rng(0).integers(0, 256, (len(rows), SIDE, SIDE, 3), dtype=np.uint8)

    def prepare(self, entries: Images, device: torch.device) -> Tensor:
        return Card(backbone="", dim=DIM, size=SIDE).prepare(entries, device)


def _job() -> Job:
    torch.manual_seed(0)
    rows, labels = np.arange(8), np.arange(8) // 2
    settings = TrainSettings(batch=4, epochs=2, optimiser="adamw", checkpoint_seconds=0, workers=0)
    card = Card(backbone="small", dim=DIM, size=SIDE)
    head = new_head(ModelSettings(dim=DIM), 4)
    return Job("fuzz", Small(), head, card, Noise(), rows, labels, settings, 0.01, 1)


def _loop(folder: Path) -> _Loop:
    """A checkpoint holds the name of its folder."""
    (folder / "job").mkdir(exist_ok=True)
    return _Loop(_job(), folder / "job")


def _checkpoints(folder: Path) -> list[bytes]:
    loop = _loop(folder)
    loop.begin()
    loop._step(0, loop.batches[0])
    loop._save(1)
    return [(loop.folder / CHECKPOINT).read_bytes()]


METRIC_LINES = b"".join(
    b'{"step": %d, "epoch": 0.5, "lr": 0.01, "loss": 3.2, "images_per_second": 9.0}\n' % n for n in (1, 2)
)


def _resume(folder: Path, checkpoint: bytes, metrics: bytes) -> None:
    loop = _loop(folder)
    (loop.folder / CHECKPOINT).write_bytes(checkpoint)
    (loop.folder / METRICS).write_bytes(metrics)
    if loop.begin() == 0:
        raise UnreadableError("the training starts anew, and says so")


def _read_checkpoint(path: Path) -> None:
    _resume(path.parent, path.read_bytes(), METRIC_LINES)


@cache
def _checkpoint() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return _checkpoints(Path(folder))[0]


def _read_metrics(path: Path) -> None:
    _resume(path.parent, _checkpoint(), path.read_bytes())


READERS = [
    Reader("card", ".json", _cards, read_card, changed_json),
    Reader("safetensors", ".safetensors", _safetensors, _read_state, mixed(damaged, changed_safetensors)),
    Reader("backbone", ".safetensors", _backbones, _guess, changed_safetensors),
    Reader("head", ".safetensors", _heads, _read_head, mixed(damaged, changed_safetensors)),
    Reader("pth", ".pth", _pickled, _read_state, mixed(damaged, damaged, payload)),
    Reader("pth-inside", ".pt", _zipped, _read_state, changed_torch),
    Reader("onnx", ".onnx", _graphs, _read_graph, mixed(damaged, changed_onnx, changed_onnx, changed_onnx)),
    Reader("gate", ".safetensors", _gated_tensors, _read_gated, mixed(damaged, changed_safetensors)),
    Reader("gate-nodes", ".onnx", _gated_graphs, _read_gated_graph, mixed(damaged, changed_onnx, changed_onnx)),
    Reader("checkpoint", ".safetensors", _checkpoints, _read_checkpoint, mixed(damaged, changed_safetensors)),
    Reader("metrics", ".jsonl", lambda _: [METRIC_LINES], _read_metrics, mixed(damaged, edited)),
]
