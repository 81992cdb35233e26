"""Parameters of a face to pixels: quadrics and bumps in three dimensions, seen by a distant camera.

A head is an ellipsoid whose radius swells and sinks with bumps (jaw, chin, cheekbones, brow), joined smoothly with the
quadrics of nose, ears and neck, under a shell of hair. Rays meet each in closed form, so an image is some hundred
elementwise operations on arrays [images, samples]: the same bits whatever the batch, its order or the threads.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from damnatio.errors import DamnatioError
from damnatio.faces import anatomy
from damnatio.faces.anatomy import F32, I64, U64, Number, Params, bump, swell

SMALLEST, LARGEST = 32, 112
_BLOCK = 256  # images whose parameters are drawn at once
_CHUNK = 2**18  # samples in flight in one thread
_FAR = -6.0  # depth of a ray that meets nothing

Box = tuple[float, float, float, float]
"""Top, bottom, left and right of the part of the frame where a feature can lie: the rest need not be looked at."""
_FACE, _JAW, _SCALP, _NECK = (0.1, 1.0, 0.0, 1.0), (0.4, 1.0, 0.0, 1.0), (0.0, 0.8, 0.0, 1.0), (0.6, 1.0, 0.0, 1.0)
_EYES, _GLASSES, _NOSE = (0.22, 0.6, 0.08, 0.92), (0.25, 0.65, 0.0, 1.0), (0.34, 0.78, 0.24, 0.76)
_ALL, _CHEEKS, _LIPS = (0.0, 1.0, 0.0, 1.0), (0.45, 1.0, 0.05, 0.95), (0.6, 1.0, 0.2, 0.8)
_LEFT, _RIGHT = (0.2, 0.85, 0.0, 0.55), (0.2, 0.85, 0.45, 1.0)


def render(seed: int, identities: I64, instances: I64, shots: I64, size: int) -> NDArray[np.uint8]:
    """Faces [n, size, size, 3] RGB, one for each (identity, instance, shot)."""
    if not SMALLEST <= size <= LARGEST:
        raise DamnatioError(f"A synthetic face has a side of {SMALLEST} to {LARGEST} pixels, not {size}.")
    count, workers = len(identities), os.cpu_count() or 1
    faces = np.empty((count, size, size, 3), dtype=np.uint8)
    block = max(1, min(_BLOCK, -(-count // workers)))
    step = max(1, _CHUNK // (4 * size * size))

    def fill(start: int) -> None:
        names = [counter[start : start + block] for counter in (identities, instances, shots)]
        face, grain = anatomy.face(seed, *names), anatomy.key(seed, 4, *names)
        anatomy.express(face)
        anatomy.pose(face)
        for i in range(0, len(grain), step):
            some = slice(i, min(i + step, len(grain)))
            part = face.among(some)
            faces[start + some.start : start + some.stop] = _develop(part, _expose(part, size), grain[some])

    # glibc hands memory back to the system after every chunk, and fetches it page by page for the next, until it has
    # once seen a block as large as this one freed.
    np.empty(31 * 2**20, dtype=np.uint8)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(fill, range(0, count, block)))
    return faces


# Building blocks: polynomials and square roots only, which every machine rounds alike.


def _step(x: F32, width: Number) -> F32:
    """0 below zero, 1 above, and linear over the width."""
    y: F32 = x * (1 / width)
    y += 0.5
    return np.clip(y, 0, 1, out=y)


def _line(x: F32, width: Number) -> F32:
    """1 at zero, falling to 0 at the width on either side."""
    y: F32 = np.abs(x)
    y *= -1 / width
    y += 1
    return np.clip(y, 0, 1, out=y)


def _ripple(turns: F32) -> F32:
    """A sine made of parabolas, of period 1."""
    t: F32 = turns - np.rint(turns)
    swing = np.abs(t)
    swing *= -16
    swing += 8
    swing *= t
    return swing


def _join(a: F32, b: F32, radius: float) -> F32:
    """The nearer of two depths, rounded where they meet."""
    fillet = a - b
    np.abs(fillet, out=fillet)
    np.subtract(radius, fillet, out=fillet)
    np.clip(fillet, 0, radius, out=fillet)
    fillet *= fillet
    fillet *= 0.25 / radius
    fillet += np.maximum(a, b)
    return fillet


def _lay(canvas: F32, colour: F32, alpha: F32 | NDArray[np.bool_]) -> None:
    """Paint over the canvas [3, n, samples]."""
    over = colour - canvas
    over *= alpha
    canvas += over


def _rgb(r: float, g: float, b: float) -> F32:
    return np.array([r, g, b], dtype=np.float32)[:, None, None]


class _Patch:
    """A box of the frame in some of the images."""

    def __init__(self, side: int, box: Box, images: slice | NDArray[np.intp] = slice(None)) -> None:
        top, bottom, left, right = (round(edge * side) for edge in box)
        self.side, self.at = side, (..., images, slice(top, bottom), slice(left, right))
        self.shape = bottom - top, right - left

    def cut(self, a: F32) -> F32:
        """A copy [..., images, samples] of that part of an array [..., n, side * side]."""
        part = a.reshape(*a.shape[:-1], self.side, self.side)[self.at]
        return np.ascontiguousarray(part).reshape(*part.shape[:-2], self.shape[0] * self.shape[1])

    def paste(self, a: F32, part: F32) -> None:
        grid = a.reshape(*a.shape[:-1], self.side, self.side)
        grid[self.at] = part.reshape(*part.shape[:-1], *self.shape)


# Depth.


def _aim(quadric: F32, X: F32, Y: F32) -> tuple[F32, F32]:
    """The depth of the quadric's middle along each ray, and how far each ray passes from it."""
    cx, cy, cz, gx, gy, xx, xy, yy, _ = quadric
    dx, dy = X - cx, Y - cy
    miss: F32 = dx * xx
    miss += dy * xy
    miss *= dx
    dx *= -gx
    dx += cz
    dx -= dy * gy
    dy *= dy
    dy *= yy
    miss += dy
    return dx, miss


def _meet(middle: F32, miss: F32, reach: F32) -> F32:
    """Where a ray first meets a quadric; far behind all else if it does not."""
    q = reach - miss
    z: F32 = np.clip(q, 0, 99)
    np.sqrt(z, out=z)
    z += middle
    q *= 1e5
    np.minimum(z, np.clip(q, _FAR, -_FAR, out=q), out=z)
    return z


def _depth(quadric: F32, X: F32, Y: F32) -> F32:
    return _meet(*_aim(quadric, X, Y), quadric[8])


def _trace(f: Params, axis: int, X: F32, Y: F32, Z: F32) -> F32:
    """A head coordinate of what the camera sees at (X, Y) and depth Z."""
    at: F32 = X * f.turn[0, axis]
    at += Y * f.turn[1, axis]
    at += Z * f.turn[2, axis]
    return at


def _on_face(f: Params, X: F32, Y: F32, Z: F32) -> tuple[F32, F32]:
    """Where features are placed: (x, y) with one eye a little above the other."""
    x, y = _trace(f, 0, X, Y, Z), _trace(f, 1, X, Y, Z)
    y += f.skew * x * (y * 1.4 + 1)
    return x, y


def _flesh(f: Params, X: F32, Y: F32, side: int) -> F32:
    """Depth of skin: head, nose, ears, neck."""
    # The radius depends on the point met, weakly: two rounds settle it, and every other sample tells it. A ray that
    # misses is taken at its nearest, for the radius to run on smoothly across the outline.
    x, y = (_thin(a, side) for a in (X, Y))
    (middle, miss), radius = _aim(f.head, x, y), np.full_like(f.yaw, 1.05)
    for _ in range(2):
        z = middle + np.sqrt(np.clip(radius * radius * f.head[8] - miss, 0, 99))
        radius = swell(f, _trace(f, 0, x, y, z), _trace(f, 1, x, y, z))
    radius = _double(radius, side)
    Z = _meet(*_aim(f.head, X, Y), radius * radius * f.head[8])
    for box, detail in ((_EYES, _sockets), (_CHEEKS, _muzzle), (_NOSE, _nose)):
        patch = _Patch(side, box)
        patch.paste(Z, detail(f, *(patch.cut(a) for a in (X, Y, Z))))
    for box, solid in ((_LEFT, f.left_ear), (_RIGHT, f.right_ear), (_NECK, f.throat)):
        patch = _Patch(side, box)
        patch.paste(Z, np.maximum(patch.cut(Z), _depth(solid, patch.cut(X), patch.cut(Y))))
    return Z


def _sockets(f: Params, X: F32, Y: F32, Z: F32) -> F32:
    x, y = _on_face(f, X, Y, Z)
    ax = np.abs(x)
    Z -= f.socket * bump(ax, y, f.eye_x - 0.03, 0.035, 0.21, 0.14)
    Z += 0.05 * bump(ax, y, f.eye_x, 0, f.eye_length, 0.095)
    return Z


def _muzzle(f: Params, X: F32, Y: F32, Z: F32) -> F32:
    x, y = _on_face(f, X, Y, Z)
    above, below = f.mouth_y + 0.7 * f.lip_upper, f.mouth_y - f.mouth_open - 0.6 * f.lip_lower
    Z += 0.045 * f.cheek_up * bump(np.abs(x), y, 0.38, -0.34, 0.24, 0.18)
    Z += 1.3 * f.lip_out * bump(x, y, 0, above, 1.05 * f.mouth_width, f.lip_upper + 0.04)
    Z += 1.4 * f.lip_out * bump(x, y, 0, below, 0.9 * f.mouth_width, f.lip_lower + 0.03)
    Z -= 0.03 * bump(x, y, 0, below - 0.07 - 0.4 * f.lip_lower, 0.2, 0.07)
    return Z


def _nose(f: Params, X: F32, Y: F32, Z: F32) -> F32:
    nose = _join(_depth(f.ridge, X, Y), _depth(f.tip, X, Y), 0.06)
    nose = _join(nose, np.maximum(_depth(f.left_wing, X, Y), _depth(f.right_wing, X, Y)), 0.035)
    return _join(Z, nose, 0.07)


def _hair(f: Params, X: F32, Y: F32, Z: F32) -> tuple[F32, F32, F32]:
    """Depth of the shell of hair, how surely it covers what lies at depth Z, and the tone of its strands."""
    aim = _aim(f.shell, X, Y)
    shell = _meet(*aim, f.shell[8])
    x, y = _trace(f, 0, X, Y, shell), _trace(f, 1, X, Y, shell)
    curls = _ripple(x * 2.7 + y * 1.1 + 0.35 * _ripple(y * 2.9 - x * 1.7 + f.strand))
    strands = _ripple(x * 6.5 + y * f.comb + 0.3 * curls + f.strand)
    curls *= f.curl
    shell = _meet(*aim, (1 + 0.06 * curls) * f.shell[8])

    ax = np.abs(x)
    temple = np.clip(ax - f.hairline_temple, 0, 9)
    temple *= temple
    line = f.hairline + f.hairline_swoop * x - 14 * temple
    line += f.hairline_recede * bump(ax, y, 0.36, f.hairline, 0.3, 1)
    line -= f.hairline_peak * bump(x, y, 0, f.hairline, 0.2, 1)
    np.clip(line, -0.28, 9, out=line)
    cover = _step(y - line + 0.05 * curls + 0.012 * strands, 0.05)
    # A ray that enters the shell in front of the hairline and passes the head ends on the hair behind.
    np.maximum(cover, (Z < _FAR / 2) & (y > -0.2), out=cover)
    cover *= shell > np.maximum(Z, _FAR / 2)
    cover *= 1 - f.bald
    return shell, cover, 0.86 + 0.14 * strands + 0.16 * curls


# Colour: each feature paints its patch of the canvas [3, n, samples], at points (x, y) of the face.


def _complexion(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    ax, dark = np.abs(x), f.skin * _DARK
    red = f.flush * bump(ax, y, 0.4, -0.36, 0.26, 0.24) + 0.35 * bump(x, y, 0, f.nose_y, 0.14, 0.14)
    _lay(canvas, f.skin * _rgb(1, 0.72, 0.7), red)
    slant = (f.mouth_width + 0.04 - f.nose_width) / (f.nose_y - f.mouth_y)
    fold = _line(ax - f.nose_width - 0.03 - slant * (f.nose_y - y), 0.045)
    _lay(canvas, dark, 0.6 * f.fold * fold * bump(ax, y, 0.25, (f.nose_y + f.mouth_y) / 2, 0.3, 0.22))
    nostril = 2 * bump(ax, y, 0.5 * f.nose_width, f.nose_y - 0.75 * f.nose_tip, 0.05, 0.03)
    _lay(canvas, 0.35 * dark, 0.9 * np.clip(nostril, 0, 1))


def _freckles(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    speckle = _ripple(x * 9.7 + y * 3.7 + f.strand) * _ripple(y * 10.7 - x * 4.9) - 0.45
    _lay(canvas, f.skin * _DARK, f.freckles * np.clip(speckle, 0, 1) * bump(np.abs(x), y, 0.25, -0.25, 0.42, 0.3))


def _moles(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    spots = np.zeros_like(x)
    for i in range(anatomy.MOLES):
        radius = f[f"mole{i}_size"]
        spots += bump(x, y, f[f"mole{i}_x"], f[f"mole{i}_y"], radius, radius)
    _lay(canvas, 0.5 * f.skin * _DARK, np.clip(2 * spots, 0, 1))


def _beard(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    ax = np.abs(x)
    edge = f.mouth_y - 0.1 - 0.2 * f.beard_low + 1.9 * np.clip(ax - 0.3, 0, 0.33)
    bristle = 0.9 + 0.1 * _ripple(x * 17 + f.strand) * _ripple(y * 13)
    jaw = _step(edge - y, 0.12) * _step(y + 1.28, 0.15) * _step(f.head_width - 0.02 - ax, 0.06)
    _lay(canvas, f.brow, 0.9 * f.beard * bristle * jaw)
    above = 2 * bump(x, y, 0, f.mouth_y + f.lip_upper + 0.055, 1.25 * f.mouth_width, 0.1)
    _lay(canvas, f.brow, 0.9 * f.moustache * bristle * np.clip(above, 0, 1))


def _mouth(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    """Each lip follows a parabola, and they part around the line between them."""
    across = x * (1 / f.mouth_width)
    arch = 1 - across * across
    s = y - f.mouth_y + 0.5 * f.mouth_open - f.lip_corner * (1 - arch)
    line = _line(s, 0.3 * soft + 0.014) * _step(arch + 0.06, 0.1)
    np.clip(arch, 0, 1, out=arch)
    parted = 0.5 * f.mouth_open * arch
    bow = 1 + f.lip_bow * (np.clip(3 * np.abs(across), 0, 1) - 0.6)
    lips = _step(parted + f.lip_upper * arch * bow - s, soft)
    lips *= _step(s + parted + f.lip_lower * arch * (1.4 - 0.4 * arch), soft)
    lips *= arch > 0
    _lay(canvas, f.lips, 0.85 * lips)
    inside = _step(parted - np.abs(s), soft) * (arch > 0)
    teeth = np.clip(30 * parted, 0, 0.9) * _step(s + 0.12 * f.mouth_open, soft)
    _lay(canvas, _rgb(0.22, 0.06, 0.06), inside)
    _lay(canvas, _rgb(0.84, 0.80, 0.74), inside * teeth)
    _lay(canvas, 0.5 * f.skin * _DARK, 0.7 * line)


def _eyes(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    """Lids are parabolas; so is the brow, thinner towards the temple."""
    ax, dark = np.abs(x), f.skin * _DARK
    off = ax - f.eye_x
    u = off * (1 / f.eye_length)
    arch = 1 - u * u
    s = y - off * f.eye_tilt
    above, below = s - f.eye_open * arch * (1 - 0.25 * u), s + 0.62 * f.eye_open * arch * (1 + 0.2 * u)
    within = _step(-above, soft) * _step(below, soft)
    shade = 0.88 - 0.3 * np.clip(above * 20 + 1, 0, 1)
    crease = _line(above - f.crease, 0.024) * np.clip(arch, 0, 1)
    _lay(canvas, dark, 0.6 * (crease + f.bags * bump(ax, y, f.eye_x - 0.01, -0.115, 0.17, 0.06)))
    _lay(canvas, shade * _rgb(0.93, 0.9, 0.88), within)

    side = np.sign(x)
    look, rise = off - side * f.gaze_x, s - f.gaze_y - 0.008
    r = (look * look + rise * rise) * (1 / (f.iris_size * f.iris_size))
    ball = within * _step(1 - r, 2 * soft / f.iris_size)
    _lay(canvas, f.iris * (shade * (0.6 + 0.5 * np.clip(r, 0, 1))), ball)
    _lay(canvas, _rgb(0.03, 0.03, 0.03), ball * _step(0.17 - r, soft / f.iris_size))
    glint = 2 * bump(look * side, rise, 0.03 * f.light_x, 0.03, 0.025, 0.025)
    _lay(canvas, _rgb(1, 1, 1), within * np.clip(glint, 0, 1))
    _lay(canvas, 0.35 * dark, 0.9 * _line(above, 0.35 * soft + 0.014) * _step(arch + 0.08, 0.1))
    _lay(canvas, 0.7 * dark, 0.5 * _line(below, 0.35 * soft + 0.01) * _step(arch, 0.1))

    u = (off + 0.015) * (1 / f.brow_length)
    bent = u - 0.2
    curve = f.brow_y + f.brow_angle * off + f.brow_arch * (0.25 - bent * bent)
    thick = f.brow_thick * (1 - 0.45 * u) * np.clip(2 - 2 * np.abs(u), 0, 1)
    _lay(canvas, f.brow, f.brow_dark * _step(thick - np.abs(y - curve), soft + 0.012) * (np.abs(u) < 1))


def _glasses(f: Params, canvas: F32, x: F32, y: F32, soft: F32) -> None:
    """Superellipses around the eyes, a bridge and two arms."""
    ax = np.abs(x)
    u, v = (ax - f.eye_x) * (1 / 0.235), (y + 0.03) * (1 / 0.185)
    u *= u
    v *= v
    r = u * u + v * v
    _lay(canvas, 0.5 * f.rim, f.shades * _step(1 - r, 0.4))
    arms = _step(0.02 - np.abs(y - 0.03), 0.02) * ((ax < 0.1) | (ax > 0.54))
    _lay(canvas, f.rim, np.maximum(arms, _step(0.35 - np.abs(r - 1), 0.35)))


_DARK = _rgb(0.62, 0.5, 0.47)  # what a shadow takes from skin
_FEATURES: tuple[tuple[Callable[[Params, F32, F32, F32, F32], None], Box, str], ...] = (
    (_complexion, _CHEEKS, ""),
    (_freckles, _FACE, "freckles"),
    (_moles, _FACE, "moles"),
    (_beard, _JAW, "moustache"),
    (_mouth, _LIPS, ""),
    (_eyes, _EYES, ""),
    (_glasses, _GLASSES, "glasses"),
)
"""How to paint a feature, where, and the trait of those who have it, if not all do."""


def _paint(f: Params, X: F32, Y: F32, Z: F32, side: int, soft: F32) -> F32:
    """Colours [3, n, samples] of skin at depth Z, and of all that lies in it."""
    x, y = _on_face(f, X, Y, Z)
    colours = np.empty((3, *x.shape), dtype=np.float32)
    colours[:] = f.skin
    for feature, box, trait in _FEATURES:
        some = f.who(trait) if trait else slice(None)
        patch = _Patch(side, box, some)
        canvas = patch.cut(colours)
        feature(f.among(some) if trait else f, canvas, patch.cut(x), patch.cut(y), soft[some])
        patch.paste(colours, canvas)
    return colours


def _dress(f: Params, colours: F32, X: F32, Y: F32, Z: F32, side: int) -> None:
    """Set hair and clothes into the scene, where they are nearest."""
    scalp, body = _Patch(side, _SCALP), _Patch(side, _NECK)
    shell, cover, tone = _hair(f, *(scalp.cut(a) for a in (X, Y, Z)))
    some = f.who("hair_length")
    g, behind = f.among(some), _Patch(side, _ALL, some)
    x, y = behind.cut(X), behind.cut(Y)
    curtain = _depth(g.curtain, x, y)
    curtain += _FAR * (_trace(g, 1, x, y, curtain) < 0.3 - g.hair_length)
    torso = _depth(f.torso, body.cut(X), body.cut(Y))
    for patch, depth, colour in ((behind, curtain, 0.85 * g.hair), (body, torso, f.cloth)):
        canvas, before = patch.cut(colours), patch.cut(Z)
        _lay(canvas, colour, depth > before)
        patch.paste(colours, canvas)
        patch.paste(Z, np.maximum(before, depth))
    canvas = scalp.cut(colours)
    _lay(canvas, f.shell_colour * (tone + f.cap * (0.9 - tone)), cover)
    scalp.paste(colours, canvas)
    scalp.paste(Z, np.maximum(scalp.cut(Z), shell + _FAR * (cover < 0.5)))


def _backdrop(f: Params, size: int) -> F32:
    """Colours [3, n, size * size] of what is out of focus behind: a gradient and blobs."""
    at = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    x, y = np.tile(at, size)[None], np.repeat(at, size)[None]
    canvas: F32 = f.backdrop + np.clip(x * f.backdrop_x + y * f.backdrop_y + 0.5, 0, 1) * (f.backdrop_to - f.backdrop)
    for i in range(anatomy.BLOBS):
        radius = f[f"blob{i}_r"]
        _lay(canvas, f[f"blob{i}"], bump(x, y, f[f"blob{i}_x"], f[f"blob{i}_y"], radius, radius))
    return canvas


# Light.


def _thin(a: F32, side: int) -> F32:
    """Every other sample of [n, side * side], in both directions."""
    return np.ascontiguousarray(a.reshape(-1, side, side)[:, ::2, ::2]).reshape(len(a), -1)


def _double(a: F32, side: int) -> F32:
    """The inverse of `_thin`, by linear interpolation."""
    wide = np.empty((len(a), side, side), dtype=np.float32)
    wide[:, ::2, ::2] = a.reshape(-1, side // 2, side // 2)
    wide[:, 1:-1:2, ::2] = 0.5 * (wide[:, :-2:2, ::2] + wide[:, 2::2, ::2])
    wide[:, -1, ::2] = wide[:, -2, ::2]
    wide[:, :, 1:-1:2] = 0.5 * (wide[:, :, :-2:2] + wide[:, :, 2::2])
    wide[:, :, -1] = wide[:, :, -2]
    return wide.reshape(len(a), -1)


def _halve(a: F32, side: int) -> F32:
    """The mean of each two by two samples, in a fixed order."""
    grid = a.reshape(*a.shape[:-1], side, side)
    rows = grid[..., ::2, :] + grid[..., 1::2, :]
    means: F32 = 0.25 * (rows[..., ::2] + rows[..., 1::2])
    return means.reshape(*a.shape[:-1], -1)


def _slope(grid: F32, axis: int) -> F32:
    """The gradient along an axis from both neighbours, leaning to the flatter: a silhouette is no slope."""
    d = np.diff(grid, axis=axis)
    ahead, behind = (d[:, 1:], d[:, :-1]) if axis == 1 else (d[:, :, 1:], d[:, :, :-1])
    p, q = ahead * ahead, behind * behind
    inner = ahead * q
    inner += behind * p
    p += q
    p += 1e-9
    inner /= p
    return np.pad(inner, [(0, 0), (int(axis == 1),) * 2, (int(axis == 2),) * 2], mode="edge")


def _shadows(f: Params, Z: F32, side: int, gap: F32) -> tuple[F32, F32]:
    """How much of the lamp, and of the sky, each sample [n, side * side] sees past what stands around it."""
    row, column = np.divmod(np.arange(side * side), side)
    plane = np.sqrt(f.light_x * f.light_x + f.light_y * f.light_y) + 1e-3
    cast = np.zeros_like(Z)
    for reach in (0.08, 0.16, 0.26, 0.38):
        right, down = (np.rint(v / plane * reach / gap).astype(np.int64) for v in (f.light_x, -f.light_y))
        towards = np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1)
        rise = np.take_along_axis(Z, towards, axis=1) - Z
        rise -= reach * f.light_z / plane
        np.maximum(cast, np.clip(12 * rise, 0, 1) * (rise < 1), out=cast)
    k = max(1, round(0.035 * side))
    pad = np.pad(np.clip(Z, -0.4, 9).reshape(-1, side, side), ((0, 0), (k, k), (k, k)), mode="edge")
    around = pad[:, 2 * k :, k:-k] + pad[:, : -2 * k, k:-k] + pad[:, k:-k, 2 * k :] + pad[:, k:-k, : -2 * k]
    return 1 - 0.75 * cast, 1 - np.clip(3.2 * (0.25 * around.reshape(Z.shape) - Z), 0, 0.6)


def _illuminate(f: Params, colours: F32, Z: F32, side: int, gap: F32) -> None:
    """Turn colours [3, n, samples] of a surface of depth Z into the light that it sends to the camera."""
    lit, sky = (_double(a, side) for a in _shadows(f, _thin(Z, side), side // 2, 2 * gap))
    grid = Z.reshape(-1, side, side)
    right, up = (np.clip(_slope(grid, axis).reshape(Z.shape) * (s / gap), -3, 3) for axis, s in ((2, 1), (1, -1)))
    norm = 1 / np.sqrt(1 + right * right + up * up)
    right *= f.light_x
    facing = f.light_z - right
    facing -= up * f.light_y
    facing *= norm
    gleam = np.clip((facing + norm) * (1 / np.sqrt(2 + 2 * f.light_z)), 0, 1)
    for _ in range(4):
        gleam *= gleam
    gleam *= lit
    up *= norm
    sky *= 0.75 - 0.3 * up
    colours *= colours  # the camera's curve is a square root
    for i, bleed in enumerate((0.30, 0.18, 0.14)):  # red light wanders furthest under the skin
        shade = facing * (1 / (1 + bleed))
        shade += bleed / (1 + bleed)
        np.clip(shade, 0, 1, out=shade)
        shade *= lit
        shade *= f.light[i]
        shade += sky * f.fill[i]
        colours[i] *= shade
        colours[i] += gleam * (0.5 * f.shine * f.light[i])


# Camera.


def _expose(f: Params, size: int) -> F32:
    """Light [3, n, size * size] that reaches the sensor, from two by two samples a pixel."""
    side = 2 * size
    a, b, X0, Y0 = f.camera
    at = (np.arange(side, dtype=np.float32) + 0.5) / side
    across, down = np.tile(at, side), np.repeat(at, side)
    X, Y, gap = across * a - down * b + X0, Y0 - across * b - down * a, np.sqrt(a * a + b * b) / side
    Z = _flesh(f, X, Y, side)

    colours = _paint(f, X, Y, Z, side, 1.5 * gap)
    _dress(f, colours, X, Y, Z, side)
    _illuminate(f, colours, Z, side, gap)
    seen = (Z > _FAR / 2).astype(np.float32)
    colours *= seen
    light, behind = _halve(colours, side), _backdrop(f, size)
    light += (1 - _halve(seen, side)) * behind * behind
    return light


def _develop(f: Params, light: F32, key: U64) -> NDArray[np.uint8]:
    """What the camera makes of the light: exposure, colour balance, tone curve, blur, noise and a JPEG file."""
    import simplejpeg

    n, size = light.shape[1], round(light.shape[2] ** 0.5)
    light = light * f.exposure
    light *= 1.6 / (1 + 0.6 * light)  # a soft shoulder, not a clipped highlight
    v = np.sqrt(np.clip(light, 0, 1))
    grey = (v[0] + v[1] + v[2]) * (1 / 3)
    v = grey + (v - grey) * f.saturation
    v += f.contrast * (v - 0.45) * v * (1 - v) * 4

    v = v.reshape(3, n, size, size)
    passes = 1 + size // 40
    weight = (f.blur * ((size / 112) ** 2 / passes))[..., None]
    for _ in range(passes):
        for axis in (2, 3):
            pad = np.pad(v, [(0, 0), (0, 0), (int(axis == 2),) * 2, (int(axis == 3),) * 2], mode="edge")
            sides = pad[:, :, :-2] + pad[:, :, 2:] if axis == 2 else pad[..., :-2] + pad[..., 2:]
            v = v + weight * (sides - 2 * v)

    # Four bytes of a hash make one nearly normal number; the brighter, the noisier.
    count = size * size * 3
    counter = np.arange((count + 1) // 2, dtype=np.uint64)
    counter *= anatomy.STRIDE
    b = anatomy.mix(key[:, None] + counter).view(np.uint8).reshape(n, -1, 4)[:, :count].astype(np.float32)
    grain = (b[..., 0] + b[..., 1] + b[..., 2] + b[..., 3] - 510) * (1 / 147.8)
    v = np.ascontiguousarray(v.transpose(1, 2, 3, 0)).reshape(n, -1)
    v += f.noise * grain * (0.3 + v)
    pixels = np.clip(v * 255 + 0.5, 0, 255).astype(np.uint8).reshape(n, size, size, 3)
    for i, loss in enumerate(f.loss.ravel()):
        # Small images are large ones that were compressed before they were shrunk.
        code = simplejpeg.encode_jpeg(pixels[i], quality=100 - round(loss * size / 112), colorsubsampling="444")
        pixels[i] = simplejpeg.decode_jpeg(code)
    return pixels
