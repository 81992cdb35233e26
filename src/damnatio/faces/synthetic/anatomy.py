"""The parameters of synthetic faces, one number per image: of the identity, of its capture, and of the shot.

Every number is a hash of (seed, level, identity, instance, shot, parameter) and no draw from a stream, so that an image
does not depend on the others of its batch. Lengths are in decimetres of a head whose x points to the image's right,
y up and z to the camera, with the eyes at y = 0; angles are in radians; rates and mixes lie in 0..1.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[Any]
"""always float32; the type checker loses that at the first product with a number"""
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
Number = F32 | float

MOLES, BLOBS = 2, 3
STRIDE = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64's counter

# Eyes, nose tip, mouth corners in the frame (x, y down): ArcFace's template, a little smaller to show hair and chin.
_TEMPLATE = ((0.361, 0.445), (0.639, 0.445), (0.5, 0.60), (0.385, 0.765), (0.615, 0.765))

# name: (mean, spread, loading on masculinity, on weight, on age); the rest of the variance is the trait's own.
_SHAPE: dict[str, tuple[float, float, float, float, float]] = {
    "head_width": (0.705, 0.038, 0.2, 0.5, 0.0),
    "head_height": (1.15, 0.045, 0.3, 0.0, 0.0),
    "head_depth": (0.97, 0.04, 0.3, 0.2, 0.0),
    "lean": (0.12, 0.03, 0.0, 0.0, 0.0),
    "jaw": (-0.005, 0.05, 0.4, 0.6, 0.0),
    "jaw_y": (-0.66, 0.06, 0.0, 0.0, 0.0),
    "cheekbone": (0.03, 0.028, 0.0, -0.1, 0.0),
    "cheekbone_y": (-0.2, 0.05, 0.0, 0.0, 0.0),
    "cheek": (0.0, 0.035, -0.2, 0.7, -0.2),
    "chin": (0.17, 0.04, 0.3, 0.0, 0.0),
    "chin_width": (0.36, 0.07, 0.5, 0.2, 0.0),
    "chin_y": (-0.98, 0.055, -0.4, 0.0, 0.0),
    "temple": (-0.02, 0.02, 0.0, 0.3, -0.3),
    "forehead": (0.02, 0.025, -0.4, 0.0, 0.0),
    "brow_ridge": (0.025, 0.018, 0.7, 0.0, 0.0),
    "eye_x": (0.315, 0.024, 0.0, 0.2, 0.0),
    "eye_length": (0.170, 0.016, 0.0, 0.0, 0.0),
    "eye_open": (0.072, 0.014, -0.3, 0.0, -0.3),
    "eye_tilt": (0.06, 0.10, -0.2, 0.0, -0.3),
    "iris_size": (0.073, 0.004, 0.0, 0.0, 0.0),
    "socket": (0.055, 0.018, 0.3, -0.4, 0.3),
    "crease": (0.035, 0.015, 0.0, -0.2, 0.0),
    "bags": (0.25, 0.25, 0.1, 0.2, 0.6),
    "brow_y": (0.185, 0.027, -0.5, 0.0, 0.0),
    "brow_thick": (0.038, 0.013, 0.6, 0.0, 0.0),
    "brow_arch": (0.05, 0.028, -0.4, 0.0, 0.0),
    "brow_angle": (0.05, 0.10, 0.0, 0.0, -0.2),
    "brow_length": (0.205, 0.024, 0.0, 0.0, 0.0),
    "nose_y": (-0.42, 0.045, -0.2, 0.0, -0.2),
    "nose_width": (0.135, 0.024, 0.3, 0.3, 0.2),
    "nose_out": (0.19, 0.035, 0.3, 0.0, 0.2),
    "nose_tip": (0.088, 0.013, 0.2, 0.3, 0.2),
    "bridge_width": (0.085, 0.014, 0.2, 0.2, 0.0),
    "bridge_out": (0.045, 0.025, 0.2, 0.0, 0.0),
    "bridge_bend": (0.0, 0.02, 0.2, 0.0, 0.2),
    "mouth_y": (-0.70, 0.035, 0.0, 0.0, 0.0),
    "mouth_width": (0.255, 0.03, 0.2, 0.0, 0.0),
    "lip_upper": (0.055, 0.017, -0.3, 0.0, -0.4),
    "lip_lower": (0.072, 0.018, -0.3, 0.0, -0.4),
    "lip_bow": (0.35, 0.3, -0.2, 0.0, 0.0),
    "lip_corner": (0.0, 0.018, 0.0, 0.0, -0.4),
    "lip_out": (0.04, 0.015, -0.1, 0.0, 0.0),
    "fold": (0.3, 0.25, 0.1, 0.3, 0.6),
    "ear_size": (0.27, 0.03, 0.3, 0.0, 0.4),
    "ear_out": (0.0, 0.025, 0.0, 0.0, 0.0),
    "neck": (0.46, 0.04, 0.6, 0.5, 0.0),
    "skew": (0.0, 0.02, 0.0, 0.0, 0.0),
}

# Colours by pigment, from little to much.
_SKIN = ((0.92, 0.77, 0.69), (0.85, 0.68, 0.57), (0.70, 0.52, 0.40), (0.48, 0.335, 0.255), (0.29, 0.20, 0.16))
_HAIR = ((0.84, 0.68, 0.42), (0.60, 0.42, 0.24), (0.33, 0.21, 0.13), (0.09, 0.075, 0.07))
_IRIS = ((0.42, 0.60, 0.74), (0.46, 0.58, 0.55), (0.48, 0.50, 0.28), (0.40, 0.25, 0.11), (0.15, 0.09, 0.06))
_RED, _GREY = (0.60, 0.25, 0.09), (0.78, 0.77, 0.75)

# A cap is hair with a straight edge and another colour.
_CAP = {"hairline": 0.36, "hairline_peak": 0, "hairline_recede": 0, "hairline_swoop": 0, "hair_top": 0.14,
        "hair_side": 0.05, "curl": 0, "bald": 0}  # fmt: skip


class Params(dict[str, F32]):
    """Named columns [n, 1] (colours [3, n, 1]), which broadcast over the pixels of n images."""

    def __getattr__(self, name: str) -> F32:
        return self[name]

    def among(self, images: slice | NDArray[np.intp]) -> "Params":
        """The parameters of some of the images."""
        return _Some(self, images)

    def who(self, trait: str) -> NDArray[np.intp]:
        """The images that have a trait."""
        return np.flatnonzero(self[trait] > 0)


class _Some(Params):
    """The parameters of some images. A column is cut when it is first used, because few are."""

    def __init__(self, whole: Params, images: slice | NDArray[np.intp]) -> None:
        super().__init__()
        self.whole, self.images = whole, images

    def __missing__(self, name: str) -> F32:
        self[name] = column = self.whole[name][..., self.images, :]
        return column


# Randomness.


def mix(h: U64) -> U64:
    """The finaliser of splitmix64: neighbouring counters give unrelated words."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def key(seed: int, level: int, *counters: I64) -> U64:
    """One word [n] for each row of the counters; the level keeps identity, instance and shot apart."""
    h = mix(np.full(counters[0].shape, (seed * 8 + level) % 2**64, dtype=np.uint64))
    for counter in counters:
        h = mix(h * STRIDE + counter.astype(np.uint64))
    return h


class _Draw:
    """Successive parameters of the rows of a key: the i-th call hashes the counter i."""

    def __init__(self, base: U64, spread: float = 1.0) -> None:
        self.base, self.count, self.spread = base[:, None], 0, spread

    def words(self) -> U64:
        self.count += 1
        return mix(self.base + np.uint64(self.count * int(STRIDE) % 2**64))

    def uniform(self, low: float = 0.0, high: float = 1.0) -> F32:
        unit: F32 = (self.words() >> np.uint64(40)).astype(np.float32) / 2**24
        return low + (high - low) * unit

    def bell(self, mean: float = 0.0, spread: float = 1.0) -> F32:
        """Nearly normal: the sum of four uniforms, which has no tail beyond 3.5 spreads."""
        quarters = self.words().view(np.uint16).astype(np.float32) / 2**16
        unit: F32 = 3**0.5 * (quarters.sum(1, keepdims=True) - 2)
        return mean + spread * self.spread * unit

    def chance(self, rate: Number) -> F32:
        return (self.uniform() < rate).astype(np.float32)

    def tint(self, spread: float) -> F32:
        """A gain [3, n, 1] that leaves green as it is."""
        return np.stack([1 + self.bell(0, spread), np.ones(self.base.shape, np.float32), 1 + self.bell(0, spread)])

    def colour(self) -> F32:
        """Any colour of the surroundings: a grey of any depth, tinted."""
        grey = self.bell(0.45, 0.17)
        rgb: F32 = np.stack([grey + self.bell(0, 0.07) for _ in range(3)])
        return rgb.clip(0.02, 0.98)


def _ramp(at: F32, stops: Sequence[float], colours: Sequence[Sequence[float]]) -> F32:
    """Colours [3, n, 1] on a piecewise linear scale."""
    return np.stack([np.interp(at, stops, channel) for channel in zip(*colours, strict=True)]).astype(np.float32)


def _blend(a: F32, b: Sequence[float], share: F32) -> F32:
    return a + share * (np.array(b, dtype=np.float32)[:, None, None] - a)


def _cos_sin(angle: F32) -> tuple[F32, F32]:
    """In double precision, so that the last bit does not depend on how a machine or a batch is vectorised."""
    wide = angle.astype(np.float64)
    return np.cos(wide).astype(np.float32), np.sin(wide).astype(np.float32)


# The three levels.


def identity(seed: int, identities: I64, unlikeness: float = 1.0) -> Params:
    """The lasting traits of n people. `unlikeness` multiplies how far the shapes of faces lie from their mean."""
    draw = _Draw(key(seed, 1, identities))
    male = draw.chance(0.5)
    masculine, heavy, old = (2 * male - 1) * 0.85 + draw.bell(0, 0.45), draw.bell(), draw.bell()
    p = Params()
    for name, (mean, spread, on_sex, on_weight, on_age) in _SHAPE.items():
        own = (1 - on_sex**2 - on_weight**2 - on_age**2) ** 0.5
        p[name] = mean + spread * unlikeness * (
            on_sex * masculine + on_weight * heavy + on_age * old + own * draw.bell()
        )

    melanin = draw.uniform()
    warm = draw.bell(0, 0.025)
    undertone = np.stack([1 + warm, np.ones_like(warm), 1 - 2 * warm])
    p["skin"] = _ramp(melanin, (0, 0.3, 0.6, 0.8, 1), _SKIN) * undertone + draw.bell(0, 0.012)
    p["flush"] = draw.uniform(0, 0.35) * (1 - melanin)
    painted = draw.uniform(0.05, 0.5) + (1 - male) * draw.uniform(0, 0.25)
    p["lips"] = _blend(p.skin * np.array([0.92, 0.66, 0.66], np.float32)[:, None, None], (0.70, 0.22, 0.25), painted)
    p["freckles"] = draw.chance(0.25 * (1 - melanin)) * draw.uniform(0.3, 1)
    p["iris"] = _ramp(np.clip(draw.uniform(-0.05, 0.9) + 0.9 * melanin, 0, 1), (0, 0.25, 0.4, 0.6, 1), _IRIS)
    hair = _ramp(np.clip(draw.uniform(-0.45, 0.8) + 1.6 * melanin, 0, 1), (0, 0.3, 0.6, 1), _HAIR)
    hair = _blend(hair, _RED, draw.chance(0.3 * (1 - melanin)) * draw.uniform(0.2, 0.9))
    grey = np.clip(0.9 * (old + draw.bell(0, 0.3)) - 0.75, 0, 1)
    p["hair"], p["brow"] = _blend(hair, _GREY, grey), _blend(0.75 * hair, _GREY, 0.4 * grey)
    p["brow_dark"] = draw.uniform(0.55, 1)

    # Hair is a shell over the skull that ends at the hairline, and a curtain behind of length `hair_length`.
    p["bald"] = bald = male * draw.chance(0.06 + np.clip(0.1 * old, 0, 0.2))
    long = (1 - bald) * draw.chance(0.68 - 0.58 * male)
    fringe = (1 - bald) * draw.chance(0.32 - 0.17 * male)
    p["hair_top"] = draw.uniform(0.04, 0.22) * (1 + draw.chance(0.15))
    p["hair_side"] = draw.uniform(0.02, 0.07) + long * draw.uniform(0.02, 0.14) + 0.1 * draw.chance(0.15)
    bare = male * draw.chance(np.clip(0.1 + 0.15 * old, 0, 1)) * (1 - fringe) * draw.uniform(0.2, 0.4)
    p["hairline"] = draw.bell(0.64, 0.07) + bare - fringe * draw.uniform(0.2, 0.36)
    p["hairline_peak"] = draw.bell(0, 0.05) * (1 - fringe)
    p["hairline_recede"] = (draw.bell(0.04, 0.04) + male * draw.uniform(0, 0.16)) * (1 - fringe)
    p["hairline_swoop"] = draw.bell(0, 0.16)
    p["hairline_temple"] = draw.uniform(0.44, 0.58) - long * draw.uniform(0, 0.1)
    p["hair_length"] = long * draw.uniform(0.7, 1.9)
    p["hair_wide"] = draw.uniform(0.74, 0.98)
    p["curl"], p["strand"], p["comb"] = draw.uniform() ** 2, draw.uniform(), draw.bell(1, 3)

    beard = male * draw.chance(0.45)
    p["beard"], p["beard_low"] = beard * draw.uniform(0.15, 1), beard * draw.uniform()
    p["moustache"] = np.maximum(p.beard * draw.uniform(0.5, 1), male * draw.chance(0.12) * draw.uniform(0.4, 1))
    p["moles"] = draw.chance(0.3)
    for i in range(MOLES):
        p[f"mole{i}_x"], p[f"mole{i}_y"] = draw.uniform(-0.55, 0.55), draw.uniform(-0.95, 0.5)
        p[f"mole{i}_size"] = draw.uniform(0.018, 0.035)
    return p


def instance(seed: int, identities: I64, instances: I64, variation: float = 1.0) -> Params:
    """The parameters of a capture: pose, expression, light, camera, surroundings, things worn. `variation` multiplies
    how far those that are nearly normal lie from their mean."""
    draw = _Draw(key(seed, 2, identities, instances), variation)
    p = Params()
    p["yaw"] = np.clip(draw.bell(0, 0.25), -0.61, 0.61)
    p["pitch"] = np.clip(draw.bell(0, 0.12), -0.33, 0.33)
    p["roll"] = np.clip(draw.bell(0, 0.06), -0.175, 0.175)
    p["zoom"], p["shift_x"], p["shift_y"] = draw.bell(1, 0.025), draw.bell(0, 0.011), draw.bell(0, 0.011)

    p["smile"] = np.clip(draw.bell(0.3, 0.4), -0.25, 1)
    p["mouth_open"] = draw.chance(0.35) * draw.uniform(0.01, 0.13) + draw.uniform(0, 0.008)
    p["brow_raise"] = draw.bell(0.004, 0.016)
    p["eye_close"] = np.clip(draw.bell(0, 0.14), -0.2, 0.4) + 0.6 * draw.chance(0.03)
    p["gaze_x"], p["gaze_y"] = draw.bell(0, 0.018), draw.bell(0, 0.008)

    (ahead, aside), (level, above) = _cos_sin(draw.bell(0, 0.6)), _cos_sin(draw.bell(0.5, 0.32))
    p["light_x"], p["light_y"], p["light_z"] = aside * level, above, ahead * level
    warmth, tint = draw.bell(0, 0.12), draw.bell(0, 0.03)
    p["light"] = draw.uniform(0.75, 1.25) * np.stack([1 + warmth, 1 + tint, 1 - warmth])
    p["fill"] = draw.uniform(0.25, 0.65) * draw.tint(0.08)
    p["shine"] = draw.uniform(0, 0.22)

    p["exposure"] = draw.bell(1.05, 0.14) * draw.tint(0.05)
    p["contrast"] = draw.bell(0, 0.22)
    p["saturation"] = draw.uniform(0.7, 1.2) * (1 - draw.chance(0.04))
    p["blur"] = np.clip(draw.bell(0.1, 0.4), 0, 1)  # variance, in pixels of a frame of 112
    p["noise"] = draw.uniform(0.002, 0.006)
    p["loss"] = draw.uniform(3, 35)  # quality that JPEG takes, of 100, in a frame of 112 pixels

    p["backdrop_x"], p["backdrop_y"] = _cos_sin(draw.uniform(0, 6.28))
    p["backdrop"], p["backdrop_to"], p["cloth"] = draw.colour(), draw.colour(), draw.colour()
    for i in range(BLOBS):
        p[f"blob{i}"], p[f"blob{i}_r"] = draw.colour(), draw.uniform(0.15, 0.6)
        p[f"blob{i}_x"], p[f"blob{i}_y"] = draw.uniform(-0.5, 0.5), draw.uniform(-0.5, 0.5)
    p["cap"], p["cap_colour"] = draw.chance(0.04), draw.colour()
    p["glasses"], p["rim"] = draw.chance(0.12), 0.4 * draw.colour()
    p["shades"] = 0.85 * draw.chance(0.2)
    return p


def shot(seed: int, identities: I64, instances: I64, shots: I64) -> Params:
    """The differences between the shots of one burst: less than a pixel of shake, as shares of the frame."""
    draw = _Draw(key(seed, 3, identities, instances, shots))
    p = Params(shake_x=draw.uniform(-0.0008, 0.0008), shake_y=draw.uniform(-0.0008, 0.0008))
    p.update(shake_roll=draw.uniform(-0.0015, 0.0015), shake_zoom=draw.uniform(0.999, 1.001))
    return p


def face(
    seed: int, identities: I64, instances: I64, shots: I64, *, unlikeness: float = 1.0, variation: float = 1.0
) -> Params:
    """The three levels together."""
    f = identity(seed, identities, unlikeness)
    f.update(instance(seed, identities, instances, variation))
    f.update(shot(seed, identities, instances, shots))
    return f


def express(f: Params) -> None:
    """Apply the expression to the traits, and the cap to the hair."""
    f["cheek_up"] = smile = np.clip(f.smile, 0, 1)
    f["mouth_width"] = f.mouth_width * (1 + 0.2 * smile)
    f["mouth_open"] = f.mouth_open + 0.07 * np.clip(smile - 0.5, 0, 1)
    f["lip_corner"] = f.lip_corner + 0.075 * f.smile
    f["lip_upper"] = f.lip_upper * (1 - 0.25 * smile)
    f["fold"] = 0.6 * np.clip(f.fold, 0, 1) + 0.4 * smile
    f["eye_open"] = np.clip(f.eye_open * (1 - f.eye_close - 0.22 * smile) + 0.3 * f.brow_raise, 0.002, 1)
    f["brow_y"] = f.brow_y + f.brow_raise
    f["chin_y"] = f.chin_y - 0.6 * f.mouth_open
    f["jaw_y"] = f.jaw_y - 0.3 * f.mouth_open
    f["chin"] = f.chin + 0.04 * f.beard
    f["shell_colour"] = f.hair + f.cap * (f.cap_colour - f.hair)
    for name, value in _CAP.items():
        f[name] = f[name] + f.cap * (value - f[name])


# Solids. A quadric is kept as nine columns, from which the depth Z of a ray at the camera's (X, Y) follows.


def bump(x: F32, y: F32, cx: Number, cy: Number, rx: Number, ry: Number) -> F32:
    """A smooth hill of height 1 and radii (rx, ry)."""
    u, v = x - cx, y - cy
    u *= 1 / rx
    v *= 1 / ry
    u *= u
    v *= v
    u += v
    np.subtract(1, u, out=u)
    np.clip(u, 0, 1, out=u)
    u *= u
    return u


def swell(f: Params, x: F32, y: F32) -> F32:
    """The head's radius at (x, y) against its ellipsoid's."""
    ax = np.sqrt(x * x + 0.004)  # features come in pairs; rounded, to leave no ridge on the midline
    s = 0.09 * bump(x, y, 0, -0.75, 0.56, 0.6)
    s += f.chin * bump(x, y, 0, f.chin_y, f.chin_width, 0.36)
    s += f.jaw * bump(ax, y, 0.52, f.jaw_y, 0.36, 0.42)
    s += f.cheekbone * bump(ax, y, 0.5, f.cheekbone_y, 0.3, 0.24)
    s += f.cheek * bump(ax, y, 0.42, -0.52, 0.28, 0.3)
    s += f.temple * bump(ax, y, 0.68, 0.3, 0.3, 0.4)
    s += f.forehead * bump(x, y, 0, 0.5, 0.6, 0.42)
    s += f.brow_ridge * bump(ax, y, 0.25, 0.13, 0.3, 0.13)
    s += 1
    return s


def _front(f: Params, y: F32) -> F32:
    """How far forward the face's midline lies, without the nose."""
    s = swell(f, np.zeros_like(y), y)
    z: F32 = f.head_depth * np.sqrt(np.clip(s * s - (y / f.head_height) ** 2, 0.01, 9))
    z -= f.lean * y
    return z


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _turn(yaw: F32, pitch: F32) -> F32:
    """The rotation [3, 3, n, 1] of head coordinates into the camera's."""
    (cy, sy), (cp, sp) = _cos_sin(yaw), _cos_sin(pitch)
    return np.stack([cy, 0 * cy, sy, sy * sp, cp, -cy * sp, -sy * cp, sp, cy * cp]).reshape(3, 3, -1, 1)


def _quadric(turn: F32, centre: Sequence[Number], S: Sequence[Sequence[Number]]) -> F32:
    """|S (p - centre)| = 1 in head coordinates, made a quadratic in the camera's (X, Y, Z) and solved for Z."""
    x, y, z = ([_dot(line, row) for line in S] for row in turn)
    a = _dot(z, z)
    gx, gy = _dot(x, z) / a, _dot(y, z) / a
    xx, xy, yy = _dot(x, x) / a - gx * gx, _dot(x, y) / a - gx * gy, _dot(y, y) / a - gy * gy
    return np.stack([*(_dot(row, centre) for row in turn), gx, gy, xx, 2 * xy, yy, 1 / a])


def _radii(x: Number, y: Number, z: Number) -> Sequence[Sequence[Number]]:
    return (1 / x, 0, 0), (0, 1 / y, 0), (0, 0, 1 / z)


def pose(f: Params) -> None:
    """Set the solids of the head before the camera, and the camera so that landmarks fall on the template."""
    turn, body = _turn(f.yaw, f.pitch), _turn(0.5 * f.yaw, 0.4 * f.pitch)
    zero, lean = np.zeros_like(f.yaw), f.lean / f.head_depth
    head = (1 / f.head_width, 0, 0), (0, 1 / f.head_height, 0), (0, lean, 1 / f.head_depth)
    f["turn"], f["head"] = turn, _quadric(turn, (0, 0, 0), head)

    top_y, top_z = 0.05, _front(f, zero + 0.05) - 0.05 + f.bridge_out
    tip_y, tip_z = f.nose_y, _front(f, f.nose_y) + f.nose_out - f.nose_tip
    dy, dz = top_y - tip_y, top_z - tip_z
    length = np.sqrt(dy * dy + dz * dz)
    uy, uz, ry, rz = dy / length, dz / length, 0.66 * length, 0.5 * f.bridge_out + 0.09
    ridge = (1 / f.bridge_width, 0, 0), (0, uy / ry, uz / ry), (0, -uz / rz, uy / rz)
    f["ridge"] = _quadric(turn, (0, tip_y + 0.45 * dy, tip_z + 0.45 * dz + f.bridge_bend), ridge)
    f["tip"] = _quadric(turn, (0, tip_y, tip_z), _radii(1.1 * f.nose_tip, 0.9 * f.nose_tip, f.nose_tip))
    for side, sign in (("left", -1), ("right", 1)):
        wing = sign * 0.68 * f.nose_width, tip_y - 0.012, tip_z - 0.42 * f.nose_out
        f[f"{side}_wing"] = _quadric(turn, wing, _radii(0.42 * f.nose_width, 0.068, 0.1))
        lobe = (18, 0, sign * 6.5), (0, 1 / f.ear_size, 0), (0, 0, 6)
        f[f"{side}_ear"] = _quadric(turn, (sign * (f.head_width + f.ear_out), -0.14, -0.12), lobe)
    f["throat"] = _quadric(body, (0, -1.5, -0.2), _radii(f.neck, 1.5, 0.48))
    f["torso"] = _quadric(body, (0, -2.2, -0.35), _radii(1.7 + zero, 0.98, 0.72))
    shell = f.head_width + f.hair_side + 0.02, 0.9 + f.hair_top, f.head_depth + 0.6 * f.hair_side + 0.02
    f["shell"] = _quadric(turn, (0, 0.26, -0.06), _radii(*shell))
    f["curtain"] = _quadric(turn, (0, -0.3, -0.22), _radii(f.hair_wide, 1.3, 0.6))

    eye_z, lip_z = _front(f, zero) - 0.1, _front(f, f.mouth_y) - 0.06
    marks = ((-f.eye_x, zero, eye_z), (f.eye_x, zero, eye_z), (zero, tip_y, tip_z + f.nose_tip),
             (-f.mouth_width, f.mouth_y, lip_z), (f.mouth_width, f.mouth_y, lip_z))  # fmt: skip
    # The least-squares similarity between two sets of points is one complex division.
    seen = [_dot(turn[0], mark) - _dot(turn[1], mark).astype(np.float64) * 1j for mark in marks]
    want = [complex(*mark) for mark in _TEMPLATE]
    seen_mean, want_mean = sum(seen) / 5, sum(want) / 5
    spread = sum(abs(a - seen_mean) ** 2 for a in seen)
    fit = sum(np.conj(a - seen_mean) * (b - want_mean) for a, b in zip(seen, want, strict=True)) / spread
    cos, sin = _cos_sin(f.roll + f.shake_roll)
    back = 1 / (fit * f.zoom * f.shake_zoom * (cos + 1j * sin))
    origin = seen_mean - back * (want_mean + f.shift_x + f.shake_x + 1j * (f.shift_y + f.shake_y))
    f["camera"] = np.stack([back.real, back.imag, origin.real, -origin.imag]).astype(np.float32)
