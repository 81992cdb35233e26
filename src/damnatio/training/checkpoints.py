"""Checkpoints: all that a training needs to continue after a step with the same result.

One file holds the modules, the optimiser and the state of torch's generators. It does not depend on the number of
processes: the rows of a class matrix that is spread over them are written in their order, and each process reads its
own. The checkpoint before the present one is kept, and used if the present one is damaged. A file is compared with its
hash and with the training before anything of it is used, so that a damaged file changes nothing.
"""

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from damnatio.heads.base import Head
from damnatio.support import processes, row_files
from damnatio.support.files import write_atomically
from damnatio.support.manifests import CHECKPOINTS
from damnatio.support.row_files import HASH, NO_HASH, Rows

T = TypeVar("T")


class Schedule:
    """When a checkpoint is due: so many seconds after the last one at the least, and seldom enough that writing takes
    no more than its share of the time."""

    def __init__(self, seconds: float, share: float) -> None:
        self._seconds, self._share = seconds, share
        self._wait, self._last = seconds, time.monotonic()

    def is_due(self) -> bool:
        return time.monotonic() - self._last >= self._wait

    def took(self, seconds: float) -> None:
        """A checkpoint was written just now, in so many seconds."""
        self._wait = max(self._seconds, seconds * (1 / self._share - 1))
        self._last = time.monotonic()


class Checkpoint:
    """The checkpoints of one training, in the folder of its output. Every process calls each method."""

    def __init__(self, folder: Path, modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer) -> None:
        self.paths = [folder / name for name in CHECKPOINTS]
        """of the present one and of the one before it"""
        self._modules, self._optimiser = modules, optimiser
        self._device = next(modules["backbone"].parameters()).device
        head = modules["head"]
        assert isinstance(head, Head)
        self._head = head
        self._parameters: list[Tensor] = optimiser.param_groups[0]["params"]

    def save(self, step: int, sampler: Mapping[str, int]) -> None:
        """Write everything as it is after so many steps. `sampler` says where the batches stand, for a reader."""
        tensors = {"rng": Rows(torch.get_rng_state())}
        if self._device.type == "cuda":
            tensors["rng_cuda"] = Rows(torch.cuda.get_rng_state(self._device))
        for name, module in self._modules.items():
            tensors |= {f"{name}.{key}": self._rows(f"{name}.{key}", t) for key, t in module.state_dict().items()}
        for place, state in self._optimiser.state_dict()["state"].items():
            names = {f"optimiser.{place}.{key}": value for key, value in state.items() if value is not None}
            tensors |= {name: self._rows(name, value) for name, value in names.items()}
        present, before = self.paths
        metadata = {"step": str(step), "sampler": json.dumps(sampler), "folder": present.parent.name, HASH: NO_HASH}
        fresh = present.with_name(f".{present.name}.fresh.tmp")
        row_files.write(tensors, fresh, metadata)
        if processes.is_main():
            if present.exists():
                os.replace(present, before)
            os.replace(fresh, present)

    def restore(self, say: Callable[[str], None]) -> int:
        """Put everything back as it was, and return the number of steps done; 0 if there is no checkpoint that fits.
        A file that is damaged or of another training is reported and deleted."""
        for path in self.paths:
            step, fault = processes.from_main(partial(self._examined, path))
            if step is not None:
                self._load(path)
                return step
            if fault and processes.is_main():
                goes_on = "the one before it is used" if self.paths[1].exists() and path != self.paths[1] else ""
                say(f"the checkpoint {path} is damaged ({fault}): {goes_on or 'the training starts anew'}")
                path.unlink()
        return 0

    def _examined(self, path: Path) -> tuple[int | None, str]:
        """The step of a file that can be used; or None, and why it cannot be used, empty if there is no file."""
        try:
            metadata, found = row_files.check(path), row_files.shapes(path)
            step, folder = int(metadata["step"]), metadata["folder"]
        except FileNotFoundError:
            return None, ""
        except (SafetensorError, ValueError, KeyError) as error:
            return None, str(error) or type(error).__name__
        fault = f"it is of {folder}" if folder != path.parent.name else self._misfit(found)
        return (None, fault) if fault else (step, "")

    def _misfit(self, found: Mapping[str, tuple[int, ...]]) -> str:
        """What keeps tensors of these shapes from being those of this training; empty: nothing."""
        for name, module in self._modules.items():
            wanted = {key: tuple(self._rows(f"{name}.{key}", t).shape) for key, t in module.state_dict().items()}
            if _below(name, found) != wanted:
                return f"its {name} has tensors of other names or shapes"
        for name, shape in _below("optimiser", found).items():
            place = int(name.split(".")[0])
            known = place < len(self._parameters)
            if shape and not (known and list(shape) == self._rows(f"optimiser.{name}", self._parameters[place]).shape):
                return "its optimiser has tensors of other shapes"
        return "" if "rng" in found else "it has no state of the generators"

    def _load(self, path: Path) -> None:
        found = row_files.shapes(path)
        spread = {name: self._head.rows for name, shape in found.items() if shape and self._is_spread(name)}
        tensors = row_files.read(path, spread if self._head.shared else {})
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

    def _rows(self, name: str, tensor: Tensor) -> Rows:
        spread = self._head.shared and tensor.ndim and self._is_spread(name)
        return Rows(tensor, self._head.classes if spread else None)

    def _is_spread(self, name: str) -> bool:
        """Whether a tensor has a row for each row of the class matrix."""
        first, _, rest = name.partition(".")
        if first == "optimiser":
            return self._parameters[int(rest.split(".")[0])] is self._head.weight
        return name == "head.weight"


def drop_lines_after(step: int, log: Path) -> None:
    """Remove the lines of later steps from a log, since these steps are taken again, and lines that were cut off."""
    if log.exists():
        kept = [line for line in log.read_bytes().splitlines() if _step_of(line) <= step]
        write_atomically(log, b"".join(line + b"\n" for line in kept))


def _step_of(line: bytes) -> float:
    """The step of a line of the log; infinity if the line cannot be read."""
    try:
        step: int = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf
    return step if isinstance(step, int) else math.inf


def _below(name: str, entries: Mapping[str, T]) -> dict[str, T]:
    prefix = f"{name}."
    return {key.removeprefix(prefix): entry for key, entry in entries.items() if key.startswith(prefix)}
