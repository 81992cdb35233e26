"""Classic face benchmarks of one model: pairs of images, closed-set retrieval and search, by the rules of
docs/protocol.md.

A source is a folder of faces with or without a list of pairs, or an InsightFace `.bin` file of pairs.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from damnatio.embedding import embed_batch, in_float64
from damnatio.evaluation.pair_lists import FOLDS, PairList, draw_pairs, read_pair_list
from damnatio.evaluation.scanning import Places, Scores, Units, dots, on_grid
from damnatio.evaluation.score_files import Side, write_scores
from damnatio.faces.base import UnreadableError
from damnatio.faces.decoding import decode, image_file
from damnatio.faces.folder import Folder
from damnatio.metrics.benchmarks import Folds, compactness, retrieval, ten_fold, ten_fold_on_grid
from damnatio.metrics.identification import cmc, ranks
from damnatio.metrics.verification import acceptance_rate, calibrate
from damnatio.models.card import Card
from damnatio.models.importing import import_model
from damnatio.recipe.schema import ModelSettings
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular
from damnatio.support.progress import progress
from damnatio.support.tables import codes_of

TARGETS = (1e-3, 1e-4)
RANKS = (1, 5, 10, 20)
CELLS = 1 << 22
"""so many scores of queries with a gallery are held at once"""


@dataclass(frozen=True)
class Options:
    pairs: Path | None = None
    draw: int = 6000
    seed: int = 1
    flip: bool = True
    batch: int = 32
    scores: Path | None = None


def benchmark(model: ModelSettings, source: Path, options: Options) -> dict[str, Any]:
    """Every number that the source allows, in types that JSON has."""
    if options.pairs is not None and not source.is_dir():
        raise DamnatioError(f"--pairs names images of a folder, and {source} is not a folder.")
    network = import_model(model)
    result: dict[str, Any] = {"model": str(model.weights), "source": str(source), "flip": options.flip}
    if source.is_dir() and options.pairs is None:
        return result | _folder(network, source, options)
    if source.is_dir() and options.pairs is not None:
        listed = read_pair_list(options.pairs, source)
        units = _embedded(network, listed.images, lambda i: image_file(source / listed.images[i]), source, options)
        origin = str(options.pairs)
    else:
        listed, contents = _bin(source)
        units = _embedded(network, listed.images, lambda i: contents[i], source, options)
        origin = source.name
    return result | {"images": len(units)} | _verification(units, listed, origin, options)


def _folder(network: tuple[nn.Module, Card], root: Path, options: Options) -> dict[str, Any]:
    """Verification of pairs drawn from a folder, and retrieval and search among its images."""
    folder = Folder(Folder.Settings(source="folder", root=root, size=network[1].size))
    table = folder.index()
    names, skipped = table["image"].tolist(), {name: reason for name, _, reason in folder.skipped}
    units = _embedded(network, names, lambda i: image_file(root / names[i]), root, options, skipped)
    if not len(units):
        raise DamnatioError(f"{root} gave no readable image: {'; '.join(sorted(set(skipped.values()))[:3])}.")
    read = np.array([name not in skipped for name in names])
    table = table.where(read)
    codes, people = codes_of(table["identity"])
    result: dict[str, Any] = {"images": len(units), "identities": len(people), "skipped": skipped}
    first, second, same = draw_pairs(codes, options.draw, options.seed)
    if len(same):
        drawn = PairList(table["image"].tolist(), first, second, same)
        result |= _verification(units, drawn, f"drawn with seed {options.seed}", options)
    elif options.scores:
        raise DamnatioError(f"{root} has too few people for {FOLDS} folds of pairs: there are no scores to write.")
    found = retrieval(_score_rows(units, units), codes)
    result["retrieval"] = {
        "recall_at_1": found.recall_at_1,
        "mean_average_precision": found.mean_average_precision,
        "queries": found.queries,
        "left_out": found.left_out,
        "compactness": compactness(units, codes),
    }
    enrolled = np.unique(codes, return_index=True)[1]
    probes = np.setdiff1d(np.arange(len(codes)), enrolled)
    places = ranks(_score_rows(units[probes], units[enrolled]), codes[probes], codes[enrolled])
    shares = dict(zip(map(str, RANKS), cmc(places, RANKS).tolist(), strict=True))
    return result | {"cmc": {"gallery": len(enrolled), "probes": len(probes), "ranks": shares}}


def _verification(units: Units, pairs: PairList, origin: str, options: Options) -> dict[str, Any]:
    scores = dots(units, pairs.first, units, pairs.second)
    if options.scores:
        references, probes, a, b = _sides(pairs)
        write_scores(options.scores, references, probes, [(a, b, scores)])
    nonmated, mated = scores[~pairs.same], scores[pairs.same]
    counts = {"origin": origin, "same": len(mated), "different": len(nonmated)}
    points = [
        {
            "target_fmr": point.target,
            "threshold": point.threshold,
            "fmr": point.rate,
            "errors": point.accepted,
            "comparisons": point.count,
            "tmr": acceptance_rate(mated, point.threshold),
            "warning": point.warning,
        }
        for point in (calibrate(nonmated, TARGETS) if len(nonmated) else [])
    ]
    return {
        "pairs": counts,
        "accuracy": _accuracy(ten_fold(scores, pairs.same, pairs.folds)),
        "accuracy_on_grid": _accuracy(ten_fold_on_grid(scores, pairs.same, pairs.folds)),
        "verification": points,
    }


def _accuracy(folds: Folds) -> dict[str, Any]:
    return {
        "mean": folds.mean,
        "deviation": folds.deviation,
        "folds": folds.accuracies.tolist(),
        "thresholds": folds.thresholds.tolist(),
    }


def _sides(pairs: PairList) -> tuple[Side, Side, Places, Places]:
    """The pairs for a score file. Subjects are the folders of the images where these agree with the list of pairs.

    Where they do not, each pair has a subject of its own, and the second image of a non-mated pair has another.
    """
    people = [name.rpartition("/")[0] for name in pairs.images]
    codes = codes_of(np.array(people, dtype=object))[0]
    if all(people) and ((codes[pairs.first] == codes[pairs.second]) == pairs.same).all():
        side = Side(pairs.images, people)
        return side, side, pairs.first, pairs.second
    numbers = np.arange(len(pairs.same))
    subjects = [f"pair{number}" for number in numbers]
    others = [subject if same else f"{subject}-other" for subject, same in zip(subjects, pairs.same, strict=True)]
    references, probes = ([pairs.images[place] for place in side] for side in (pairs.first, pairs.second))
    return Side(references, subjects), Side(probes, others), numbers, numbers


def _bin(path: Path) -> tuple[PairList, Sequence[bytes]]:
    need_regular(path, "The source")
    if not path.is_file():
        raise DamnatioError(f"There is no folder or file {path}.")
    from damnatio.faces.pairs_bin import read_pairs

    contents, same = read_pairs(path)
    if len(same) < FOLDS:
        raise DamnatioError(f"{path} holds {len(same)} pairs: {FOLDS} folds need one each.")
    places = np.arange(len(contents))
    names = [f"image{place}" for place in places]
    return PairList(names, places[::2], places[1::2], np.array(same, dtype=bool)), contents


def _embedded(
    network: tuple[nn.Module, Card],
    names: Sequence[str],
    content: Callable[[int], bytes],
    where: Path,
    options: Options,
    skipped: dict[str, str] | None = None,
) -> Units:
    """Unit vectors of the images. `skipped` receives the images that cannot be read, and the reasons. If it is None,
    every image must be readable: without an image of a list of pairs, the folds would change."""
    backbone, card = network
    embeddings, read = [np.empty((0, card.dim), np.float32)], list[str]()
    with progress("embed", len(names), "images") as advance:
        for start in range(0, len(names), options.batch):
            images = []
            for place in range(start, min(start + options.batch, len(names))):
                try:
                    images.append(_image(content(place), card.size))
                    read.append(names[place])
                except (UnreadableError, OSError) as error:
                    reason = str(error.strerror if isinstance(error, OSError) else error)
                    if skipped is None:
                        raise DamnatioError(f"{where}: the image {names[place]} cannot be used: {reason}.") from error
                    skipped[names[place]] = reason
            if images:
                embeddings.append(embed_batch(backbone, card, np.stack(images), options.flip))
            advance(options.batch)
    return on_grid(in_float64(np.concatenate(embeddings), lambda place: read[place], where))


def _image(content: bytes, size: int) -> NDArray[np.uint8]:
    image = decode(content)
    height, width = image.shape[:2]
    if (height, width) != (size, size):
        raise UnreadableError(f"{width}x{height}, and the model takes {size}x{size}")
    return image


def _score_rows(queries: Units, gallery: Units) -> Iterator[Scores]:
    """Blocks of scores: one row per query, one column per template of the gallery."""
    rows = max(1, CELLS // len(gallery))
    for start in range(0, len(queries), rows):
        yield queries[start : start + rows] @ gallery.T


def as_json(result: dict[str, Any]) -> str:
    """The result as text. JSON has no NaN, so that the rate of an empty set is null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return None if isinstance(value, float) and math.isnan(value) else value

    return json.dumps(plain(result), indent=1) + "\n"


def lines(result: dict[str, Any]) -> Iterator[str]:
    """The result as lines for people to read."""
    people = f" of {result['identities']:,} people, {len(result['skipped']):,} skipped" if "skipped" in result else ""
    yield _line("images", f"{result['images']:,}{people}")
    for name, reason in list(result.get("skipped", {}).items())[:3]:
        yield _line("skipped", f"{name}: {reason}")
    if "pairs" in result:
        pairs, exact, grid = result["pairs"], result["accuracy"], result["accuracy_on_grid"]
        yield _line("pairs", f"{pairs['same']:,} same, {pairs['different']:,} different, {pairs['origin']}")
        yield _line("accuracy", f"{exact['mean']:.4f} +- {exact['deviation']:.4f}   over {len(exact['folds'])} folds")
        yield _line("  on a grid", f"{grid['mean']:.4f} +- {grid['deviation']:.4f}   as InsightFace computes it")
        for point in result["verification"]:
            rests = f"threshold {point['threshold']:.4f}, {point['errors']:,} errors in {point['comparisons']:,}"
            yield _line(f"TMR@FMR={point['target_fmr']:g}", f"{point['tmr']:.4f}   {rests}")
            if point["warning"]:
                yield _line("", f"FMR = {point['warning']}")
    else:
        yield _line("pairs", f"none: {FOLDS} folds need at least two people with two images in each")
    if "retrieval" in result:
        found, search = result["retrieval"], result["cmc"]
        counts = f"{found['queries']:,} queries, {found['left_out']:,} images without another of their person left out"
        rates = f"R@1 {found['recall_at_1']:.4f}   mAP {found['mean_average_precision']:.4f}"
        yield _line("retrieval", f"{rates}   {counts}")
        yield _line("compactness", f"{found['compactness']:.4f}   mean cosine to the centroid of the person")
        shares = "   ".join(f"{rank}: {share:.4f}" for rank, share in search["ranks"].items())
        yield _line("CMC", f"{shares}   {search['probes']:,} probes, {search['gallery']:,} people, one image enrolled")


def _line(label: str, text: str) -> str:
    return f"{label:<16}{text}"
