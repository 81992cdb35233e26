"""How fast devices are: a table of named GPUs, for an estimate before there is one.

The rates of A100, V100, RTX 3090 and A10 are what InsightFace's own training reached on eight of each (reports under
benchmarks/train): iResNet-50, 128 images per GPU, 618,000 classes. They are far below the peaks that vendors print,
because these networks wait for memory. Any other device is the next of kin, times the ratio of their memory bandwidths,
which is on the low side.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from damnatio.support.errors import DamnatioError, nearest

HERE = "here"
"""the name of the device that is found, which is measured"""
REPORTED = 39.7e-3
"""TFLOP of an image in InsightFace's reports: three times 2 x 6.31 GFLOP of the network and 2 x 0.32 of the head"""


@dataclass(frozen=True)
class Device:
    title: str
    memory: float
    """GB"""
    rates: dict[str, float]
    """TFLOP per second that a training sustains, by precision"""
    measured: bool
    """whether the rates are reported of this very device"""

    def rate(self, precision: str) -> float:
        """In the precision of a recipe; fp32 for one that the table does not know."""
        return self.rates.get(precision, self.rates["fp32"])


def _reported(title: str, memory: float, fp32: float, tf32: float, half: float) -> Device:
    """By images per second of eight GPUs. Without tensor cores for bfloat16, fp32 is what bf16 would take."""
    speeds = {"fp32": fp32, "tf32": tf32 or fp32, "bf16": half or fp32}
    return Device(title, memory, {name: speed / 8 * REPORTED for name, speed in speeds.items()}, True)


def _kin(title: str, memory: float, of: Device, bandwidth: float) -> Device:
    return Device(title, memory, {name: rate * bandwidth for name, rate in of.rates.items()}, False)


_A100 = _reported("NVIDIA A100 80 GB", 80, 3670, 4760, 5170)
_RTX3090 = _reported("NVIDIA RTX 3090", 24, 2940, 2940, 3790)
_A10 = _reported("NVIDIA A10", 24, 2040, 2255, 3300)
DEVICES = {
    "a100": _A100,
    "a100-40": Device("NVIDIA A100 40 GB", 40, _A100.rates, True),
    "h100": _kin("NVIDIA H100 SXM", 80, _A100, 3.35 / 2.04),
    "h200": _kin("NVIDIA H200", 141, _A100, 4.8 / 2.04),
    "v100": _reported("NVIDIA V100 32 GB", 32, 2607, 0, 0),
    "rtx3090": _RTX3090,
    "rtx4090": _kin("NVIDIA RTX 4090", 24, _RTX3090, 1008 / 936),
    "a10": _A10,
    "l40s": _kin("NVIDIA L40S", 48, _A10, 864 / 600),
}


def device_named(name: str) -> Device:
    """A device of the table. An unknown name is an error that lists the known ones."""
    if name not in DEVICES:
        known = ", ".join([HERE, *DEVICES])
        raise DamnatioError(f"There is no device '{name}' in the table.{nearest(name, DEVICES)} It has {known}.")
    return DEVICES[name]


@dataclass(frozen=True)
class Speed:
    """What one device and its processor do in a second."""

    gradients: float
    """images forward and backward, at the recipe's batch"""
    forwards: float
    """images embedded"""
    decoded: float
    """images read from the source and decoded, on all cores of this machine"""
    compared: float
    """comparisons of two embeddings, on all cores of this machine"""
    words: str
    """what the first two rest on"""
    relative: Mapping[str, float] = field(default_factory=dict)
    """the speed in another precision than that of f*'s training, as a multiple; one where it is not known"""


EFFICIENCY, FULL = 0.8, 128
"""What a device keeps of its speed when its share of the batch is halved, below so many images. An assumption: in
InsightFace's reports half the batch costs a tenth to a third of the speed."""


def speed_up(devices: int, batch: int) -> float:
    """How much faster so many devices train one model together, each with its share of the batch."""
    full = max(batch / FULL, 1.0)  # so many devices still have enough images each
    return min(devices, full) * math.pow(2 * EFFICIENCY, math.log2(max(devices / full, 1.0)))
