"""Checkpoints: all that a training needs to continue after a step with the same result.

One file holds the modules, the optimiser and the state of torch's generators. It is read as a whole and compared with
the training before anything of it is used, so that a damaged file changes nothing.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from damnatio.support.arrays import save_tensors
from damnatio.support.files import write_atomically
from damnatio.support.manifests import CHECKPOINT


class Checkpoint:
    """The checkpoint of one training, in the folder of its output."""

    def __init__(self, folder: Path, modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer) -> None:
        self.path = folder / CHECKPOINT
        self._modules, self._optimiser = modules, optimiser
        self._device = next(modules["backbone"].parameters()).device

    def save(self, step: int, sampler: Mapping[str, int]) -> None:
        """Write everything as it is after so many steps. `sampler` says where the batches stand, for a reader."""
        tensors: dict[str, Tensor] = {"rng": torch.get_rng_state()}
        if self._device.type == "cuda":
            tensors["rng_cuda"] = torch.cuda.get_rng_state(self._device)
        for name, module in self._modules.items():
            tensors |= {f"{name}.{key}": tensor for key, tensor in module.state_dict().items()}
        for place, state in self._optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{place}.{key}": value for key, value in state.items() if value is not None}
        metadata = {"step": str(step), "sampler": json.dumps(sampler), "folder": self.path.parent.name}
        save_tensors(tensors, self.path, {**metadata, "sha256": _digest(metadata, tensors)})

    def restore(self) -> int:
        """Put everything back as it was; the number of steps done. FileNotFoundError if there is no checkpoint, and
        ValueError, which says why, if there is none that fits this training."""
        try:
            step, tensors = self._read()
        except (SafetensorError, KeyError) as error:
            raise ValueError(str(error)) from error
        for name, module in self._modules.items():
            module.load_state_dict(_below(name, tensors))
        states: dict[int, dict[str, Tensor]] = {}
        for key, tensor in _below("optimiser", tensors).items():
            place, entry = key.split(".")
            states.setdefault(int(place), {})[entry] = tensor
        self._optimiser.load_state_dict({**self._optimiser.state_dict(), "state": states})
        torch.set_rng_state(tensors["rng"])
        if "rng_cuda" in tensors and self._device.type == "cuda":
            torch.cuda.set_rng_state(tensors["rng_cuda"], self._device)
        return step

    def _read(self) -> tuple[int, dict[str, Tensor]]:
        """The step and the tensors of the file, once all of them are known to fit."""
        with safe_open(self.path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
            metadata = dict(file.metadata() or {})
        if metadata.pop("sha256", "") != _digest(metadata, tensors):
            raise ValueError("its content is not what was written")
        if metadata["folder"] != self.path.parent.name:
            raise ValueError(f"it is of {metadata['folder']}")
        for name, module in self._modules.items():
            if _shapes(_below(name, tensors)) != _shapes(module.state_dict()):
                raise ValueError(f"its {name} has tensors of other names or shapes")
        parameters = self._optimiser.param_groups[0]["params"]
        for name, tensor in _below("optimiser", tensors).items():
            if tensor.ndim and tensor.shape != parameters[int(name.split(".")[0])].shape:
                raise ValueError("its optimiser has tensors of other shapes")
        return int(metadata["step"]), tensors


def drop_lines_after(step: int, log: Path) -> None:
    """Remove the lines of later steps from a log, since these steps are taken again, and lines that were cut off."""
    if log.exists():
        kept = [line for line in log.read_bytes().splitlines() if (_step_of(line) or math.inf) <= step]
        write_atomically(log, b"".join(line + b"\n" for line in kept))


def _step_of(line: bytes) -> int | None:
    """The step of a line of the log; None if the line cannot be read."""
    try:
        step: int = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if isinstance(step, int) else None


def _below(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    prefix = f"{name}."
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _digest(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """A hash of the whole content. The file format has none, and one changed byte makes another model."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
