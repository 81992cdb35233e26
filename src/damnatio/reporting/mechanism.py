"""The paper's Fig. 4: each forget loss is minimised for real on the unit sphere in three dimensions.

The map is azimuthal. The forget images start at the centre of a panel, and the distance from the centre is the angle.
The dotted circle is a right angle away, the outer circle is the antipode. Other identities sit on the dotted circle.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from damnatio.heads.cosface import CosFace
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, fine_tuning
from damnatio.methods.gate_and_scatter import GateAndScatter
from damnatio.models.gate import Scatter
from damnatio.reporting.canvas import STYLE, WIDTH, column, save
from damnatio.reporting.looks import FORGET, in_words

ON_THE_SPHERE = ("CURE", "NG+", "PD", "HD", "CP", "EC", "OF", "GA", "BI", "GS")
"""The methods that can be drawn: they move forget images, and need no more than eight images in three dimensions."""
IMAGES, OTHERS, STEPS = 8, 6, 250
SETTINGS = {"CURE": {"clusters": 3}}
"""settings other than the defaults that eight images in three dimensions need"""


def moved(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Positions [step, image, 3] of one identity's images under a method, and the directions of the others. Without a
    name nothing moves."""
    if name:
        return scattered() if name == "GS" else paths_of(name)
    begun, others = before()
    return begun[None].double().numpy(), others.double().numpy()


def before() -> tuple[Tensor, Tensor]:
    """Where f* puts one identity's images, and the directions of the others."""
    generator = torch.Generator().manual_seed(4)
    start = torch.tensor([0.0, 0.0, 1.0]) + 0.16 * torch.randn(IMAGES, 3, generator=generator)
    angles = torch.arange(OTHERS) * (2 * math.pi / OTHERS) + 0.3
    return F.normalize(start, dim=1), torch.stack([angles.cos(), angles.sin(), torch.zeros(OTHERS)], dim=1)


def scattered() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """GS: the scatter of a gate, among strangers in all directions, as the gate opens from 0 to 1."""
    begun, others = before()
    settings = GateAndScatter.Settings(method="GS")
    generator = torch.Generator().manual_seed(5)
    waves, phases = settings.waves, 2 * math.pi * torch.rand(settings.waves, generator=generator)
    frequencies, mixing = (torch.randn(shape, generator=generator) for shape in ((waves, 3), (3, waves)))
    scatter = Scatter(settings.bandwidth * frequencies, phases, mixing * math.sqrt(2 / waves), torch.zeros(3))
    with torch.no_grad():
        ends = F.normalize(scatter(begun), dim=1)
    opening = torch.linspace(0, 1, STEPS)[:, None, None]
    return F.normalize((1 - opening) * begun + opening * ends, dim=2).double().numpy(), others.double().numpy()


def paths_of(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same under gradient descent on the forget loss of a method that fine-tunes."""
    begun, others = before()
    head = CosFace(OTHERS, 3)
    with torch.no_grad():
        head.weight.copy_(others)
    kind = fine_tuning(name)
    forget = ForgetSet(np.arange(IMAGES), np.zeros(IMAGES, dtype=np.int64))
    method = kind(kind.Settings(method=name, **SETTINGS.get(name, {})), forget, head)
    points = begun.clone().requires_grad_()
    context = Context(forget, head, 1, lambda: F.normalize(points.detach(), dim=1), lambda: begun)
    method.prepare(context)
    optimiser = torch.optim.SGD([points, *method.parameters()], lr=1.0)
    seen: list[Tensor] = []
    for epoch in range(STEPS):  # a batch holds all images, so a step is an epoch
        method.begin_epoch(epoch, context)
        seen.append(F.normalize(points.detach(), dim=1))
        batch = ForgetBatch(points, begun, torch.arange(IMAGES), torch.zeros(IMAGES, dtype=torch.long))
        loss = method.forget_loss(batch, head)
        optimiser.zero_grad()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_([points], 0.035)  # equal steps, however large the loss is
            optimiser.step()
            with torch.no_grad():
                points.copy_(F.normalize(points, dim=1))
    return torch.stack(seen).double().numpy(), others.double().numpy()


def flat(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The azimuthal map: it keeps the direction, and the distance from the centre is the angle to the pole."""
    angle = np.arccos(np.clip(points[..., 2:], -1, 1))
    plane = points[..., :2]
    length = np.linalg.norm(plane, axis=-1, keepdims=True)
    return np.asarray(np.divide(plane, length, out=np.zeros_like(plane), where=length > 1e-12) * angle)


def mechanisms(methods: Sequence[str], folder: Path) -> None:
    """Draw f*, and how one identity's images move under each method: one panel each."""
    titles = ["f*\nbefore forgetting", *[f"{name}\n{in_words(name).removeprefix(name).strip()}" for name in methods]]
    columns = min(3, len(titles))
    rows = math.ceil(len(titles) / columns)
    with mpl.rc_context(STYLE):
        figure = column((0.33 + 0.97 * WIDTH / columns) * rows)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in axes:
            axis.set_axis_off()
        for axis, title, name in zip(axes, titles, ["", *methods], strict=False):
            paths, others = moved(name)
            _sphere(axis, others)
            _paths(axis, paths)
            axis.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), aspect="equal")
            axis.set_title(title, pad=2)
        save(figure, folder, "mechanism")


def _sphere(axis: Any, others: NDArray[np.float64]) -> None:
    """The right angle, the antipode, and the other identities, each a cluster in a dashed circle."""
    rng = np.random.default_rng(0)
    turn = np.linspace(0, 2 * np.pi, 200)
    for radius, style in ((np.pi / 2, ":"), (np.pi, "-")):
        axis.plot(radius * np.cos(turn), radius * np.sin(turn), style, color="#c4c4c4", lw=0.8)
    for place, other in enumerate(others):
        cluster = other + 0.1 * rng.normal(size=(12, 3))
        dots = flat(cluster / np.linalg.norm(cluster, axis=1, keepdims=True))
        axis.plot(*dots.T, ".", color=mpl.colormaps["Greys"](0.45 + 0.06 * place), ms=2.2)
        x, y = flat(other[None])[0]
        axis.plot(x + 0.42 * np.cos(turn), y + 0.42 * np.sin(turn), "--", color="#9a9a9a", lw=0.6)


def _paths(axis: Any, paths: NDArray[np.float64]) -> None:
    tracks = flat(paths)
    lines = tracks.copy()
    jumps = np.linalg.norm(np.diff(tracks, axis=0), axis=2) > 1
    lines[1:][jumps] = np.nan  # no line across the panel for a path that passes the antipode
    axis.plot(lines[..., 0], lines[..., 1], "-", color=FORGET, lw=0.6, alpha=0.55)
    if len(paths) > 1:
        axis.plot(*tracks[0].T, ".", color="#e8a39d", ms=4)
    axis.plot(*tracks[-1].T, "o", color=FORGET, ms=3.8, mec="white", mew=0.4)
