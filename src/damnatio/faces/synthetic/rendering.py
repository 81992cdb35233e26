"""From the parameters of a face to its pixels: quadrics and bumps in three dimensions, seen by a distant camera.

A head is an ellipsoid whose radius swells and sinks with bumps (jaw, chin, cheekbones, brow), joined smoothly with the
quadrics of nose, ears and neck, under a shell of hair. Rays meet each of them in closed form, so an image takes some
hundred elementwise operations on arrays [images, samples]: the same bits for any batch, order or number of threads.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from damnatio.faces.synthetic import anatomy
from damnatio.faces.synthetic.anatomy import F32, I64, U64, Params
from damnatio.faces.synthetic.painting import backdrop_of, dress, paint
from damnatio.faces.synthetic.surfaces import FAR, doubled, flesh, halved, thinned
from damnatio.support.errors import DamnatioError
from damnatio.support.workers import cores

SMALLEST, LARGEST = 32, 112
_BLOCK = 256  # images whose parameters are drawn at once
_CHUNK = 2**18  # samples in flight in one thread


def render(
    seed: int,
    identities: I64,
    instances: I64,
    shots: I64,
    size: int,
    *,
    unlikeness: float = 1.0,
    variation: float = 1.0,
) -> NDArray[np.uint8]:
    """Faces [n, size, size, 3] RGB, one for each (identity, instance, shot). `unlikeness` says how much the identities
    differ, and `variation` how much the captures of one do, both against what is usual."""
    if not SMALLEST <= size <= LARGEST:
        raise DamnatioError(f"A synthetic face has a side of {SMALLEST} to {LARGEST} pixels, not {size}.")
    count, workers = len(identities), cores()
    faces = np.empty((count, size, size, 3), dtype=np.uint8)
    block = max(1, min(_BLOCK, -(-count // workers)))
    step = max(1, _CHUNK // (4 * size * size))

    def fill(start: int) -> None:
        names = [counter[start : start + block] for counter in (identities, instances, shots)]
        face = anatomy.face(seed, *names, unlikeness=unlikeness, variation=variation)
        grain = anatomy.key(seed, 4, *names)
        anatomy.express(face)
        anatomy.pose(face)
        for i in range(0, len(grain), step):
            some = slice(i, min(i + step, len(grain)))
            chunk = face.among(some)
            faces[start + some.start : start + some.stop] = _develop(chunk, _expose(chunk, size), grain[some])

    # glibc returns memory to the system after every chunk and fetches it page by page for the next, until a block as
    # large as this one was freed once.
    np.empty(31 * 2**20, dtype=np.uint8)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(fill, range(0, count, block)))
    return faces


# Light.


def _slope(grid: F32, axis: int) -> F32:
    """The gradient along an axis from both neighbours. The flatter side weighs more: a silhouette is no slope."""
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
    """The shares of the lamp and of the sky that each sample [n, side * side] sees past its surroundings."""
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
    lit, sky = (doubled(a, side) for a in _shadows(f, thinned(Z, side), side // 2, 2 * gap))
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
    for i, bleed in enumerate((0.30, 0.18, 0.14)):  # red light travels furthest under the skin
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
    """Light [3, n, size * size] that reaches the sensor, from two by two samples per pixel."""
    side = 2 * size
    a, b, X0, Y0 = f.camera
    at = (np.arange(side, dtype=np.float32) + 0.5) / side
    across, down = np.tile(at, side), np.repeat(at, side)
    X, Y, gap = across * a - down * b + X0, Y0 - across * b - down * a, np.sqrt(a * a + b * b) / side
    Z = flesh(f, X, Y, side)

    colours = paint(f, X, Y, Z, side, 1.5 * gap)
    dress(f, colours, X, Y, Z, side)
    _illuminate(f, colours, Z, side, gap)
    seen = (Z > FAR / 2).astype(np.float32)
    colours *= seen
    light, behind = halved(colours, side), backdrop_of(f, size)
    light += (1 - halved(seen, side)) * behind * behind
    return light


def _develop(f: Params, light: F32, key: U64) -> NDArray[np.uint8]:
    """The image that a camera makes of the light: exposure, colour balance, tone curve, blur, noise, JPEG."""
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

    # Four bytes of a hash make one nearly normal number. Brighter pixels get more noise.
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
