"""Colours of a face: each feature paints its patch of the canvas [3, n, samples], at points (x, y) of the face."""

from collections.abc import Callable

import numpy as np

from damnatio.faces.synthetic import anatomy
from damnatio.faces.synthetic.anatomy import F32, Params, bump
from damnatio.faces.synthetic.surfaces import (
    CHEEKS,
    EYES,
    FAR,
    NECK,
    Box,
    Patch,
    depth_of,
    hair_shell,
    lay,
    on_face,
    rgb,
    ripple,
    soft_line,
    soft_step,
    trace_of,
)

_FACE = (0.1, 1.0, 0.0, 1.0)
_JAW = (0.4, 1.0, 0.0, 1.0)
_SCALP = (0.0, 0.8, 0.0, 1.0)
_GLASSES = (0.25, 0.65, 0.0, 1.0)
_ALL = (0.0, 1.0, 0.0, 1.0)
_LIPS = (0.6, 1.0, 0.2, 0.8)


def _complexion(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    ax, dark = np.abs(x), f.skin * _DARK
    red = f.flush * bump(ax, y, 0.4, -0.36, 0.26, 0.24) + 0.35 * bump(x, y, 0, f.nose_y, 0.14, 0.14)
    lay(canvas, f.skin * rgb(1, 0.72, 0.7), red)
    slant = (f.mouth_width + 0.04 - f.nose_width) / (f.nose_y - f.mouth_y)
    fold = soft_line(ax - f.nose_width - 0.03 - slant * (f.nose_y - y), 0.045)
    lay(canvas, dark, 0.6 * f.fold * fold * bump(ax, y, 0.25, (f.nose_y + f.mouth_y) / 2, 0.3, 0.22))
    nostril = 2 * bump(ax, y, 0.5 * f.nose_width, f.nose_y - 0.75 * f.nose_tip, 0.05, 0.03)
    lay(canvas, 0.35 * dark, 0.9 * np.clip(nostril, 0, 1))


def _freckles(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    speckle = ripple(x * 9.7 + y * 3.7 + f.strand) * ripple(y * 10.7 - x * 4.9) - 0.45
    lay(canvas, f.skin * _DARK, f.freckles * np.clip(speckle, 0, 1) * bump(np.abs(x), y, 0.25, -0.25, 0.42, 0.3))


def _moles(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    spots = np.zeros_like(x)
    for i in range(anatomy.MOLES):
        radius = f[f"mole{i}_size"]
        spots += bump(x, y, f[f"mole{i}_x"], f[f"mole{i}_y"], radius, radius)
    lay(canvas, 0.5 * f.skin * _DARK, np.clip(2 * spots, 0, 1))


def _beard(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    ax = np.abs(x)
    edge = f.mouth_y - 0.1 - 0.2 * f.beard_low + 1.9 * np.clip(ax - 0.3, 0, 0.33)
    bristle = 0.9 + 0.1 * ripple(x * 17 + f.strand) * ripple(y * 13)
    jaw = soft_step(edge - y, 0.12) * soft_step(y + 1.28, 0.15) * soft_step(f.head_width - 0.02 - ax, 0.06)
    lay(canvas, f.brow, 0.9 * f.beard * bristle * jaw)
    above = 2 * bump(x, y, 0, f.mouth_y + f.lip_upper + 0.055, 1.25 * f.mouth_width, 0.1)
    lay(canvas, f.brow, 0.9 * f.moustache * bristle * np.clip(above, 0, 1))


def _mouth(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    """Each lip follows a parabola, and the lips part around the line between them."""
    across = x * (1 / f.mouth_width)
    arch = 1 - across * across
    s = y - f.mouth_y + 0.5 * f.mouth_open - f.lip_corner * (1 - arch)
    line = soft_line(s, 0.3 * soft + 0.014) * soft_step(arch + 0.06, 0.1)
    np.clip(arch, 0, 1, out=arch)
    parted = 0.5 * f.mouth_open * arch
    bow = 1 + f.lip_bow * (np.clip(3 * np.abs(across), 0, 1) - 0.6)
    lips = soft_step(parted + f.lip_upper * arch * bow - s, soft)
    lips *= soft_step(s + parted + f.lip_lower * arch * (1.4 - 0.4 * arch), soft)
    lips *= arch > 0
    lay(canvas, f.lips, 0.85 * lips)
    inside = soft_step(parted - np.abs(s), soft) * (arch > 0)
    teeth = np.clip(30 * parted, 0, 0.9) * soft_step(s + 0.12 * f.mouth_open, soft)
    lay(canvas, rgb(0.22, 0.06, 0.06), inside)
    lay(canvas, rgb(0.84, 0.80, 0.74), inside * teeth)
    lay(canvas, 0.5 * f.skin * _DARK, 0.7 * line)


def _eyes(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    """Lids are parabolas; so is the brow, thinner towards the temple."""
    ax, dark = np.abs(x), f.skin * _DARK
    off = ax - f.eye_x
    u = off * (1 / f.eye_length)
    arch = 1 - u * u
    s = y - off * f.eye_tilt
    above, below = s - f.eye_open * arch * (1 - 0.25 * u), s + 0.62 * f.eye_open * arch * (1 + 0.2 * u)
    within = soft_step(-above, soft) * soft_step(below, soft)
    shade = 0.88 - 0.3 * np.clip(above * 20 + 1, 0, 1)
    crease = soft_line(above - f.crease, 0.024) * np.clip(arch, 0, 1)
    lay(canvas, dark, 0.6 * (crease + f.bags * bump(ax, y, f.eye_x - 0.01, -0.115, 0.17, 0.06)))
    lay(canvas, shade * rgb(0.93, 0.9, 0.88), within)

    side = np.sign(x)
    look, rise = off - side * f.gaze_x, s - f.gaze_y - 0.008
    r = (look * look + rise * rise) * (1 / (f.iris_size * f.iris_size))
    ball = within * soft_step(1 - r, 2 * soft / f.iris_size)
    lay(canvas, f.iris * (shade * (0.6 + 0.5 * np.clip(r, 0, 1))), ball)
    lay(canvas, rgb(0.03, 0.03, 0.03), ball * soft_step(0.17 - r, soft / f.iris_size))
    glint = 2 * bump(look * side, rise, 0.03 * f.light_x, 0.03, 0.025, 0.025)
    lay(canvas, rgb(1, 1, 1), within * np.clip(glint, 0, 1))
    lay(canvas, 0.35 * dark, 0.9 * soft_line(above, 0.35 * soft + 0.014) * soft_step(arch + 0.08, 0.1))
    lay(canvas, 0.7 * dark, 0.5 * soft_line(below, 0.35 * soft + 0.01) * soft_step(arch, 0.1))

    u = (off + 0.015) * (1 / f.brow_length)
    bent = u - 0.2
    curve = f.brow_y + f.brow_angle * off + f.brow_arch * (0.25 - bent * bent)
    thick = f.brow_thick * (1 - 0.45 * u) * np.clip(2 - 2 * np.abs(u), 0, 1)
    lay(canvas, f.brow, f.brow_dark * soft_step(thick - np.abs(y - curve), soft + 0.012) * (np.abs(u) < 1))


def _glasses(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    """Superellipses around the eyes, a bridge and two arms."""
    ax = np.abs(x)
    u, v = (ax - f.eye_x) * (1 / 0.235), (y + 0.03) * (1 / 0.185)
    u *= u
    v *= v
    r = u * u + v * v
    lay(canvas, 0.5 * f.rim, f.shades * soft_step(1 - r, 0.4))
    arms = soft_step(0.02 - np.abs(y - 0.03), 0.02) * ((ax < 0.1) | (ax > 0.54))
    lay(canvas, f.rim, np.maximum(arms, soft_step(0.35 - np.abs(r - 1), 0.35)))


_DARK = rgb(0.62, 0.5, 0.47)  # the share of its colour that skin keeps in a shadow
_FEATURES: tuple[tuple[Callable[[Params, F32, F32, F32, F32], None], Box, str], ...] = (
    (_complexion, CHEEKS, ""),
    (_freckles, _FACE, "freckles"),
    (_moles, _FACE, "moles"),
    (_beard, _JAW, "moustache"),
    (_mouth, _LIPS, ""),
    (_eyes, EYES, ""),
    (_glasses, _GLASSES, "glasses"),
)
"""of each feature: the function that paints it, its box, and the trait of the faces that have it ("" if all have it)"""


def paint(f: Params, X: F32, Y: F32, Z: F32, side: int, soft: F32) -> F32:
    """Colours [3, n, samples] of the skin at depth Z and of the features on it."""
    x, y = on_face(f, X, Y, Z)
    colours = np.empty((3, *x.shape), dtype=np.float32)
    colours[:] = f.skin
    for feature, box, trait in _FEATURES:
        some = f.who(trait) if trait else slice(None)
        patch = Patch(side, box, some)
        canvas = patch.cut(colours)
        feature(f.among(some) if trait else f, canvas, patch.cut(x), patch.cut(y), soft[some])
        patch.paste(colours, canvas)
    return colours


def dress(f: Params, colours: F32, X: F32, Y: F32, Z: F32, side: int) -> None:
    """Paint hair and clothes where they are nearest to the camera."""
    scalp, body = Patch(side, _SCALP), Patch(side, NECK)
    shell, cover, tone = hair_shell(f, *(scalp.cut(a) for a in (X, Y, Z)))
    some = f.who("hair_length")
    g, behind = f.among(some), Patch(side, _ALL, some)
    x, y = behind.cut(X), behind.cut(Y)
    curtain = depth_of(g.curtain, x, y)
    curtain += FAR * (trace_of(g, 1, x, y, curtain) < 0.3 - g.hair_length)
    torso = depth_of(f.torso, body.cut(X), body.cut(Y))
    for patch, depth, colour in ((behind, curtain, 0.85 * g.hair), (body, torso, f.cloth)):
        canvas, before = patch.cut(colours), patch.cut(Z)
        lay(canvas, colour, depth > before)
        patch.paste(colours, canvas)
        patch.paste(Z, np.maximum(before, depth))
    canvas = scalp.cut(colours)
    lay(canvas, f.shell_colour * (tone + f.cap * (0.9 - tone)), cover)
    scalp.paste(colours, canvas)
    scalp.paste(Z, np.maximum(scalp.cut(Z), shell + FAR * (cover < 0.5)))


def backdrop_of(f: Params, size: int) -> F32:
    """Colours [3, n, size * size] of the background, which is out of focus: a gradient and blobs."""
    at = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    x, y = np.tile(at, size)[None], np.repeat(at, size)[None]
    canvas: F32 = f.backdrop + np.clip(x * f.backdrop_x + y * f.backdrop_y + 0.5, 0, 1) * (f.backdrop_to - f.backdrop)
    for i in range(anatomy.BLOBS):
        radius = f[f"blob{i}_r"]
        lay(canvas, f[f"blob{i}"], bump(x, y, f[f"blob{i}_x"], f[f"blob{i}_y"], radius, radius))
    return canvas
