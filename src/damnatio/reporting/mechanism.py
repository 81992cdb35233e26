"""The paper's Fig. 4: each forget loss is minimised for real on the unit sphere in three dimensions.

The map is azimuthal. The forget images start at the centre of a panel, and the distance from the centre is the angle.
The dotted circle is a right angle away, the outer circle is the antipode. Other identities sit on the dotted circle.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from damnatio.heads.cosface import CosFace
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, fine_tuning
from damnatio.reporting.figures import STYLE, save

ON_THE_SPHERE = ("CURE", "NG+", "PD", "HD", "CP", "EC", "OF", "GA")
"""The methods that can be drawn: they move forget images, and need no more than eight images in three dimensions."""
IMAGES, OTHERS, STEPS = 8, 6, 250
SETTINGS = {"CURE": {"clusters": 3}}
"""settings other than the defaults that eight images in three dimensions need"""


def paths_of(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Positions [step, image, 3] of one identity's images under gradient descent on the method's forget loss, and the
    directions of the other identities."""
    generator = torch.Generator().manual_seed(4)
    start = torch.tensor([0.0, 0.0, 1.0]) + 0.16 * torch.randn(IMAGES, 3, generator=generator)
    angles = torch.arange(OTHERS) * (2 * math.pi / OTHERS) + 0.3
    others = torch.stack([angles.cos(), angles.sin(), torch.zeros(OTHERS)], dim=1)
    head = CosFace(OTHERS, 3)
    with torch.no_grad():
        head.weight.copy_(others)
    kind = fine_tuning(name)
    forget = ForgetSet(np.arange(IMAGES), np.zeros(IMAGES, dtype=np.int64))
    method = kind(kind.Settings(method=name, **SETTINGS.get(name, {})), forget, head)
    begun = F.normalize(start, dim=1)
    points = begun.clone().requires_grad_()
    context = Context(forget, head, 1, lambda: F.normalize(points.detach(), dim=1), lambda: begun)
    method.prepare(context)
    method.begin_epoch(0, context)
    optimiser = torch.optim.SGD([points, *method.parameters()], lr=1.0)
    seen: list[Tensor] = []
    for _ in range(STEPS):
        units = F.normalize(points, dim=1)
        seen.append(units.detach().clone())
        batch = ForgetBatch(points, units, begun, torch.arange(IMAGES), torch.zeros(IMAGES, dtype=torch.long))
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
    """Draw how one identity's images move, one panel per method."""
    rng = np.random.default_rng(0)
    columns = min(len(methods), 5)
    rows = math.ceil(len(methods) / columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.3 * columns, 2.5 * rows), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
        for axis in axes:
            axis.set_axis_off()
        for axis, name in zip(axes, methods, strict=False):
            paths, others = paths_of(name)
            turn = np.linspace(0, 2 * np.pi, 200)
            for radius, style in ((np.pi / 2, ":"), (np.pi, "-")):
                axis.plot(radius * np.cos(turn), radius * np.sin(turn), style, color="#bbbbbb", lw=0.8)
            for place, other in enumerate(others):
                cluster = other + 0.1 * rng.normal(size=(12, 3))
                dots = flat(cluster / np.linalg.norm(cluster, axis=1, keepdims=True))
                axis.plot(*dots.T, ".", color=mpl.colormaps["Greys"](0.45 + 0.06 * place), ms=2.5)
            tracks = flat(paths)
            lines = tracks.copy()
            lines[1:][np.linalg.norm(np.diff(tracks, axis=0), axis=2) > 1] = (
                np.nan
            )  # no line across the panel for a path that passes the antipode
            axis.plot(lines[..., 0], lines[..., 1], "-", color="#b3392f", lw=0.5, alpha=0.5)
            axis.plot(*tracks[0].T, ".", color="#e8a39d", ms=4)
            axis.plot(*tracks[-1].T, "o", color="#b3392f", ms=4)
            axis.set(xlim=(-3.3, 3.3), ylim=(-3.3, 3.3), aspect="equal", title=f"{name}: {fine_tuning(name).title}")
        save(figure, folder, "mechanism")
