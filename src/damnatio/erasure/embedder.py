"""Embeddings for an erasure: raw vectors of images, by onnxruntime where the network is an ONNX graph, else by torch.

onnxruntime is faster than the interpreter of the graph in torch, and it is what runs the file in service.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from damnatio.faces.base import Images
from damnatio.models.card import Card
from damnatio.models.gate import ungated
from damnatio.models.importing import import_model
from damnatio.models.onnx.files import need_onnx
from damnatio.models.onnx.graph import GraphNetwork
from damnatio.recipe.files import model_settings
from damnatio.support.devices import device
from damnatio.support.errors import DamnatioError

BATCH = 16
"""images that are embedded at once: onnxruntime is slower on more, and torch hardly faster"""

Raw = NDArray[np.float32]


class Embedder:
    """f of images, as the raw vectors that the network gives."""

    def __init__(self, run: Callable[[Any], Raw], card: Card) -> None:
        self._run, self.card = run, card

    @staticmethod
    def of(network: nn.Module, card: Card, threads: int = 0) -> "Embedder":
        """Of a network without a map."""
        if isinstance(network, GraphNetwork) and device().type == "cpu":
            content = network.to_model().SerializeToString()
            return Embedder(_session(content, threads, one_by_one=network.one_by_one), card)
        return Embedder(_torch(network), card)

    @staticmethod
    def of_file(path: Path, threads: int = 0) -> "Embedder":
        """Of a file of a model with its card beside it, as it is used in service."""
        model, card = import_model(model_settings(path))
        network = ungated(model)[0]
        if isinstance(network, GraphNetwork) and device().type == "cpu":
            return Embedder(_session(path.read_bytes(), threads, one_by_one=network.one_by_one), card)
        return Embedder(_torch(model), card)

    def raw(self, images: Images) -> Raw:
        """One row per image. The images of one call share batches with no others, so that their bits do not depend on
        what else is embedded."""
        found = np.empty((len(images), self.card.dim), dtype=np.float32)
        for start in range(0, len(images), BATCH):
            block = images[start : start + BATCH]
            found[start : start + len(block)] = self._run(self.card.prepare(block, device()))
        return found


def _torch(network: nn.Module) -> Callable[[Any], Raw]:
    network.eval()

    def run(x: torch.Tensor) -> Raw:
        with torch.inference_mode():
            return np.asarray(network(x).float().cpu().numpy())

    return run


def _session(content: bytes, threads: int, *, one_by_one: bool) -> Callable[[Any], Raw]:
    need_onnx()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning slows a busy machine down
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run(x: torch.Tensor) -> Raw:
        values = x.contiguous().numpy()
        step = 1 if one_by_one else len(values)
        try:
            found = [session.run(None, {name: values[i : i + step]})[0] for i in range(0, len(values), step)]
        except Exception as error:  # onnxruntime's errors have no common class
            reason = " ".join(str(error).split())[:200]
            raise DamnatioError(f"onnxruntime cannot run the model on {step} images at once ({reason}).") from error
        return np.concatenate(found)

    return run


def units_of(raw: Raw, whose: Callable[[int], str]) -> NDArray[np.float64]:
    """The unit vectors in float64. A vector that has no direction is an error; `whose` names its image."""
    double = raw.astype(np.float64)
    lengths = np.linalg.norm(double, axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise DamnatioError(
            f"The model gives {whose(int(bad[0]))} an embedding that is zero or not finite: check how it is fed with "
            "`damnatio check MODEL FACES`."
        )
    units: NDArray[np.float64] = double / lengths[:, None]
    return units
