"""Pixel distances on two scales: of real photographs, of real photographs altered as within one capture instance, and
of rendered faces. The paper's Fig. 2 shows four distances within instances, and four across."""

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from damnatio.faces.distances import SCALES, pixel_distances
from damnatio.faces.synthetic import Synthetic
from damnatio.recipe.schema import PixelScale
from damnatio.support.tables import codes_of, groups_of

Images = NDArray[np.uint8]
WITHIN, ACROSS = (8, 3, 6, 6), (134, 136, 120, 115)
"""the distances of the paper's Fig. 2"""
THRESHOLD = 30.0
"""IV-B"""
EACH = 12
"""photographs of a person that are compared, so that nobody dominates"""
SEED, SAMPLE = 1, 400
"""photographs that are altered"""
RENDERED = 150
"""rendered people"""
Pairs = dict[PixelScale, NDArray[np.float64]]


def _encoded(image: Images, quality: int) -> Images:
    file = BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file).convert("RGB"))


def _noisy(image: Images, strength: float) -> Images:
    rng = np.random.default_rng(SEED)
    return np.clip(np.rint(image + rng.normal(0, strength, image.shape)), 0, 255).astype(np.uint8)


def _turned(image: Images, degrees: float) -> Images:
    turned = Image.fromarray(image).rotate(degrees, resample=Image.Resampling.BICUBIC)
    return np.asarray(turned)


def _brighter(image: Images, factor: float) -> Images:
    brighter: Images = np.clip(np.rint(image * factor), 0, 255).astype(np.uint8)
    return brighter


ALTERED: dict[str, Callable[[Images], Images]] = {
    "encoded again, JPEG quality 90": lambda image: _encoded(image, 90),
    "encoded again, JPEG quality 50": lambda image: _encoded(image, 50),
    "noise of deviation 2 of 255": lambda image: _noisy(image, 2.0),
    "noise of deviation 5 of 255": lambda image: _noisy(image, 5.0),
    "brighter by 5 %": lambda image: _brighter(image, 1.05),
    "brighter by 20 %": lambda image: _brighter(image, 1.2),
    "shifted by one pixel": lambda image: np.roll(image, 1, axis=1),
    "shifted by two pixels": lambda image: np.roll(image, 2, axis=1),
    "turned by one degree": lambda image: _turned(image, 1.0),
}


def people_in(folder: Path) -> list[Images]:
    """At most `EACH` photographs of everybody who has two or more."""
    found = []
    for person in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(person.iterdir())[:EACH]
        if len(files) > 1:
            found.append(np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files]))
    return found


def across(people: list[Images]) -> Pairs:
    return {
        scale: np.concatenate([pixel_distances(each, scale)[np.triu_indices(len(each), 1)] for each in people])
        for scale in SCALES
    }


def altered(people: list[Images]) -> dict[str, Pairs]:
    rng = np.random.default_rng(SEED)
    chosen = rng.choice(len(people), min(SAMPLE, len(people)), replace=False)
    found = {}
    for name, change in ALTERED.items():
        pairs = [np.stack([people[place][0], change(people[place][0])]) for place in chosen]
        found[name] = {scale: np.array([pixel_distances(pair, scale)[0, 1] for pair in pairs]) for scale in SCALES}
    return found


def rendered() -> tuple[Pairs, Pairs]:
    """Within and across the instances of rendered people, of whom every second moment is a burst."""
    settings = {"source": "synthetic", "size": 112, "identities": RENDERED, "instances": 6, "burst": 0.5, "seed": SEED}
    source = Synthetic(Synthetic.Settings(**settings))
    index = source.index()
    moments = index["instance"]
    within: dict[PixelScale, list[float]] = {scale: [] for scale in SCALES}
    between: dict[PixelScale, list[float]] = {scale: [] for scale in SCALES}
    for rows in groups_of(codes_of(index["identity"])[0]):
        images = np.stack([np.asarray(image) for image in source.read(index.where(rows))])
        above = np.triu_indices(len(rows), 1)
        same = (moments[rows][:, None] == moments[rows][None, :])[above].astype(bool)
        for scale in SCALES:
            distances = pixel_distances(images, scale)[above]
            within[scale] += distances[same].tolist()
            between[scale] += distances[~same].tolist()
    return _arrays(within), _arrays(between)


def _arrays(pairs: dict[PixelScale, list[float]]) -> Pairs:
    return {scale: np.array(values) for scale, values in pairs.items()}


def pages(folder: Path) -> Iterator[str]:
    people = people_in(folder)
    real = across(people)
    yield (
        "Made by `python benchmarks/fidelity pixels`. Input: values from -1 to 1, as the network takes them. "
        "Normalised: each image with zero mean and unit variance. The paper's Fig. 2 shows "
        f"{', '.join(map(str, sorted(WITHIN)))} within instances and {', '.join(map(str, sorted(ACROSS)))} across; its "
        f"threshold is {THRESHOLD:g}.\n"
    )
    yield "### Photographs of one person in Labeled Faces in the Wild\n"
    yield f"All pairs of at most {EACH} photographs of each of {len(people):,} people; nearly all across instances.\n"
    yield _line(["scale", "pairs", "least", "1 %", "median", "99 %", "most", "below 30", "share from 115 to 136"])
    yield _line(["---"] * 9)
    shares = {}
    for scale, values in real.items():
        low, high = min(ACROSS), max(ACROSS)
        shares[scale] = float(((values >= low - 0.5) & (values < high + 0.5)).mean())
        cells = [f"{q:.0f}" for q in np.quantile(values, [0, 0.01, 0.5, 0.99, 1])]
        yield _line([scale, f"{len(values):,}", *cells, f"{(values < THRESHOLD).sum()}", f"{shares[scale]:.3f}"])
    ratio = (shares["input"] / shares["normalised"]) ** len(ACROSS)
    yield (
        f"\nFour pairs drawn at random fall where the paper's four do {ratio:,.0f} times as often on the input scale "
        "as on the normalised one. (It drew them to show them, not at random; and LFW is not WebFace4M.)\n"
    )
    yield "### Photographs and altered copies of them\n"
    yield f"{min(SAMPLE, len(people))} photographs of LFW: median and range of 95 %. Below 30: one capture instance.\n"
    yield _line(["altered", *(f"{scale}: distance" for scale in SCALES), *(f"{scale}: below 30" for scale in SCALES)])
    yield _line(["---"] * 5)
    for name, pairs in altered(people).items():
        yield _line([name, *(_range(pairs[scale]) for scale in SCALES), *(_below(pairs[scale]) for scale in SCALES)])
    yield f"\n### Rendered faces of 112 pixels\n\n{RENDERED} people, half of whose moments are bursts.\n"
    yield _line(["pairs", *(f"{scale}: distance" for scale in SCALES), *(f"{scale}: below 30" for scale in SCALES)])
    yield _line(["---"] * 5)
    for name, pairs in zip(("within a burst", "across moments"), rendered(), strict=True):
        yield _line([name, *(_range(pairs[scale]) for scale in SCALES), *(_below(pairs[scale]) for scale in SCALES)])


def _range(values: NDArray[np.float64]) -> str:
    low, middle, high = np.quantile(values, [0.025, 0.5, 0.975])
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def _below(values: NDArray[np.float64]) -> str:
    return f"{(values < THRESHOLD).mean():.3f}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
