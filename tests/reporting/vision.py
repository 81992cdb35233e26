"""How a colour looks: to people with a colour deficiency, in grey, and beside another one."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MACHADO = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""What remains of linear RGB, at severity 1.0: G. M. Machado, M. M. Oliveira and L. A. F. Fernandes, "A
physiologically-based model for simulation of color vision deficiency", IEEE TVCG 15(6), 2009, and its supplement."""
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
"""of linear RGB (ITU-R BT.709)"""
XYZ = np.array([(0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)])
"""of linear RGB under D65 (IEC 61966-2-1)"""
VISIONS = ("full", *MACHADO, "grey")


def linear(colour: str) -> Vector:
    """Linear RGB of `#rrggbb`."""
    values = np.array(to_rgb(colour))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def seen(colour: str, vision: str) -> Vector:
    """Linear RGB of a colour as somebody sees it."""
    light = linear(colour)
    if vision == "grey":
        return np.full(3, LUMINANCE @ light)
    return np.clip(np.array(MACHADO[vision]) @ light, 0, 1) if vision in MACHADO else light


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2, from 1 to 21. Graphics need 3, text needs 4.5."""
    low, high = sorted(float(LUMINANCE @ linear(colour)) + 0.05 for colour in (one, other))
    return high / low


def lab(light: Vector) -> Vector:
    """CIE L*a*b* of linear RGB, under D65."""
    ratio = XYZ @ light / XYZ.sum(axis=1)
    roots = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = roots
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, vision: str = "full") -> float:
    """CIEDE2000 between two colours as somebody sees them. Patches side by side differ visibly from about 2, thin lines
    from about 10."""
    return ciede2000(lab(seen(one, vision)), lab(seen(other, vision)))


def ciede2000(one: Sequence[float] | Vector, other: Sequence[float] | Vector) -> float:
    """As in Sharma, Wu and Dalal, Color Research and Application 30(1), 2005, which also lists cases."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * math.sqrt(mean**7 / (mean**7 + 25**7))
    c1, c2 = math.hypot(a1 * stretch, b1), math.hypot(a2 * stretch, b2)
    h1, h2 = (math.degrees(math.atan2(b, a * stretch)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    if turn == -180:
        turn = 180.0
    middle = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = sum(
        factor * math.cos(math.radians(times * middle - shift))
        for factor, times, shift in ((-0.17, 1, 30), (0.24, 2, 0), (0.32, 3, -6), (-0.20, 4, 63))
    )
    s_l = 1 + 0.015 * (lightness - 50) ** 2 / math.sqrt(20 + (lightness - 50) ** 2)
    s_c, s_h = 1 + 0.045 * chroma, 1 + 0.015 * chroma * (1 + hue)
    rotation = -2 * math.sqrt(chroma**7 / (chroma**7 + 25**7))
    rotation *= math.sin(math.radians(60 * math.exp(-(((middle - 275) / 25) ** 2))))
    d_l, d_c = (l2 - l1) / s_l, (c2 - c1) / s_c
    d_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)) / s_h
    return math.sqrt(d_l**2 + d_c**2 + d_h**2 + rotation * d_c * d_h)
