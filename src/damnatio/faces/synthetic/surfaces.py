"""The surfaces of a head: quadrics and bumps that rays meet in closed form, and the soft edges of all that is drawn.

Only polynomials and square roots are used, which every machine rounds alike.
"""

import numpy as np
from numpy.typing import NDArray

from damnatio.faces.synthetic.anatomy import F32, Number, Params, bump, swell

FAR = -6.0  # depth of a ray that meets nothing

Box = tuple[float, float, float, float]
"""top, bottom, left and right of the region of the frame where a feature can lie; the rest is not computed"""
NECK = (0.6, 1.0, 0.0, 1.0)
EYES = (0.22, 0.6, 0.08, 0.92)
_NOSE = (0.34, 0.78, 0.24, 0.76)
CHEEKS = (0.45, 1.0, 0.05, 0.95)
_LEFT = (0.2, 0.85, 0.0, 0.55)
_RIGHT = (0.2, 0.85, 0.45, 1.0)


# Building blocks.


def soft_step(x: F32, width: Number) -> F32:
    """0 below zero, 1 above, and linear over the width."""
    y: F32 = x * (1 / width)
    y += 0.5
    return np.clip(y, 0, 1, out=y)


def soft_line(x: F32, width: Number) -> F32:
    """1 at zero, falling to 0 at the width on either side."""
    y: F32 = np.abs(x)
    y *= -1 / width
    y += 1
    return np.clip(y, 0, 1, out=y)


def ripple(turns: F32) -> F32:
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


def lay(canvas: F32, colour: F32, alpha: F32 | NDArray[np.bool_]) -> None:
    """Paint over the canvas [3, n, samples]."""
    over = colour - canvas
    over *= alpha
    canvas += over


def rgb(r: float, g: float, b: float) -> F32:
    return np.array([r, g, b], dtype=np.float32)[:, None, None]


class Patch:
    """A box of the frame in some of the images."""

    def __init__(self, side: int, box: Box, images: slice | NDArray[np.intp] = slice(None)) -> None:
        top, bottom, left, right = (round(edge * side) for edge in box)
        self.side, self.at = side, (..., images, slice(top, bottom), slice(left, right))
        self.shape = bottom - top, right - left

    def cut(self, a: F32) -> F32:
        """A copy [..., images, samples] of the box in an array [..., n, side * side]."""
        block = a.reshape(*a.shape[:-1], self.side, self.side)[self.at]
        return np.ascontiguousarray(block).reshape(*block.shape[:-2], self.shape[0] * self.shape[1])

    def paste(self, a: F32, block: F32) -> None:
        """Write such a copy back."""
        grid = a.reshape(*a.shape[:-1], self.side, self.side)
        grid[self.at] = block.reshape(*block.shape[:-1], *self.shape)


# Grids of samples.


def thinned(a: F32, side: int) -> F32:
    """Every other sample of [n, side * side], in both directions."""
    return np.ascontiguousarray(a.reshape(-1, side, side)[:, ::2, ::2]).reshape(len(a), -1)


def doubled(a: F32, side: int) -> F32:
    """The inverse of `thinned`, by linear interpolation."""
    wide = np.empty((len(a), side, side), dtype=np.float32)
    wide[:, ::2, ::2] = a.reshape(-1, side // 2, side // 2)
    wide[:, 1:-1:2, ::2] = 0.5 * (wide[:, :-2:2, ::2] + wide[:, 2::2, ::2])
    wide[:, -1, ::2] = wide[:, -2, ::2]
    wide[:, :, 1:-1:2] = 0.5 * (wide[:, :, :-2:2] + wide[:, :, 2::2])
    wide[:, :, -1] = wide[:, :, -2]
    return wide.reshape(len(a), -1)


def halved(a: F32, side: int) -> F32:
    """The mean of each two by two samples, in a fixed order."""
    grid = a.reshape(*a.shape[:-1], side, side)
    rows = grid[..., ::2, :] + grid[..., 1::2, :]
    means: F32 = 0.25 * (rows[..., ::2] + rows[..., 1::2])
    return means.reshape(*a.shape[:-1], -1)


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
    """The depth at which a ray first meets a quadric; far behind everything if it does not."""
    q = reach - miss
    z: F32 = np.clip(q, 0, 99)
    np.sqrt(z, out=z)
    z += middle
    q *= 1e5
    np.minimum(z, np.clip(q, FAR, -FAR, out=q), out=z)
    return z


def depth_of(quadric: F32, X: F32, Y: F32) -> F32:
    return _meet(*_aim(quadric, X, Y), quadric[8])


def trace_of(f: Params, axis: int, X: F32, Y: F32, Z: F32) -> F32:
    """One coordinate, in the frame of the head, of the point that the camera sees at (X, Y) and depth Z."""
    at: F32 = X * f.turn[0, axis]
    at += Y * f.turn[1, axis]
    at += Z * f.turn[2, axis]
    return at


def on_face(f: Params, X: F32, Y: F32, Z: F32) -> tuple[F32, F32]:
    """The coordinates (x, y) at which features are placed, with one eye a little above the other."""
    x, y = trace_of(f, 0, X, Y, Z), trace_of(f, 1, X, Y, Z)
    y += f.skew * x * (y * 1.4 + 1)
    return x, y


def flesh(f: Params, X: F32, Y: F32, side: int) -> F32:
    """Depth of skin: head, nose, ears, neck."""
    # The radius depends weakly on the point that a ray meets: two rounds settle it, and every other sample is enough. A
    # ray that misses is taken at its nearest point, so that the radius is smooth across the outline.
    x, y = (thinned(a, side) for a in (X, Y))
    (middle, miss), radius = _aim(f.head, x, y), np.full_like(f.yaw, 1.05)
    for _ in range(2):
        z = middle + np.sqrt(np.clip(radius * radius * f.head[8] - miss, 0, 99))
        radius = swell(f, trace_of(f, 0, x, y, z), trace_of(f, 1, x, y, z))
    radius = doubled(radius, side)
    Z = _meet(*_aim(f.head, X, Y), radius * radius * f.head[8])
    for box, detail in ((EYES, _sockets), (CHEEKS, _muzzle), (_NOSE, _nose)):
        patch = Patch(side, box)
        patch.paste(Z, detail(f, *(patch.cut(a) for a in (X, Y, Z))))
    for box, solid in ((_LEFT, f.left_ear), (_RIGHT, f.right_ear), (NECK, f.throat)):
        patch = Patch(side, box)
        patch.paste(Z, np.maximum(patch.cut(Z), depth_of(solid, patch.cut(X), patch.cut(Y))))
    return Z


def _sockets(f: Params, X: F32, Y: F32, Z: F32) -> F32:
    x, y = on_face(f, X, Y, Z)
    ax = np.abs(x)
    Z -= f.socket * bump(ax, y, f.eye_x - 0.03, 0.035, 0.21, 0.14)
    Z += 0.05 * bump(ax, y, f.eye_x, 0, f.eye_length, 0.095)
    return Z


def _muzzle(f: Params, X: F32, Y: F32, Z: F32) -> F32:
    x, y = on_face(f, X, Y, Z)
    above, below = f.mouth_y + 0.7 * f.lip_upper, f.mouth_y - f.mouth_open - 0.6 * f.lip_lower
    Z += 0.045 * f.cheek_up * bump(np.abs(x), y, 0.38, -0.34, 0.24, 0.18)
    Z += 1.3 * f.lip_out * bump(x, y, 0, above, 1.05 * f.mouth_width, f.lip_upper + 0.04)
    Z += 1.4 * f.lip_out * bump(x, y, 0, below, 0.9 * f.mouth_width, f.lip_lower + 0.03)
    Z -= 0.03 * bump(x, y, 0, below - 0.07 - 0.4 * f.lip_lower, 0.2, 0.07)
    return Z


def _nose(f: Params, X: F32, Y: F32, Z: F32) -> F32:
    nose = _join(depth_of(f.ridge, X, Y), depth_of(f.tip, X, Y), 0.06)
    nose = _join(nose, np.maximum(depth_of(f.left_wing, X, Y), depth_of(f.right_wing, X, Y)), 0.035)
    return _join(Z, nose, 0.07)


def hair_shell(f: Params, X: F32, Y: F32, Z: F32) -> tuple[F32, F32, F32]:
    """Depth of the shell of hair, how much it covers the surface at depth Z, and the tone of its strands."""
    aim = _aim(f.shell, X, Y)
    shell = _meet(*aim, f.shell[8])
    x, y = trace_of(f, 0, X, Y, shell), trace_of(f, 1, X, Y, shell)
    curls = ripple(x * 2.7 + y * 1.1 + 0.35 * ripple(y * 2.9 - x * 1.7 + f.strand))
    strands = ripple(x * 6.5 + y * f.comb + 0.3 * curls + f.strand)
    curls *= f.curl
    shell = _meet(*aim, (1 + 0.06 * curls) * f.shell[8])

    ax = np.abs(x)
    temple = np.clip(ax - f.hairline_temple, 0, 9)
    temple *= temple
    line = f.hairline + f.hairline_swoop * x - 14 * temple
    line += f.hairline_recede * bump(ax, y, 0.36, f.hairline, 0.3, 1)
    line -= f.hairline_peak * bump(x, y, 0, f.hairline, 0.2, 1)
    np.clip(line, -0.28, 9, out=line)
    cover = soft_step(y - line + 0.05 * curls + 0.012 * strands, 0.05)
    # A ray that enters the shell in front of the hairline and misses the head ends on the hair behind it.
    np.maximum(cover, (Z < FAR / 2) & (y > -0.2), out=cover)
    cover *= shell > np.maximum(Z, FAR / 2)
    cover *= 1 - f.bald
    return shell, cover, 0.86 + 0.14 * strands + 0.16 * curls
