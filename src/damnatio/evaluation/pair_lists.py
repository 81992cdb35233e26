"""Lists of image pairs, same person or not: read from a file, or drawn as LFW drew its own."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.comparing import mated_pairs
from damnatio.evaluation.scanning import Places
from damnatio.faces.decoding import ENDINGS
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular
from damnatio.support.tables import Codes

COLUMNS = ("image_a", "image_b", "same")
FOLDS = 10
TRUTH = {"1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True)
class PairList:
    """Pairs of places among `images`. A fold is a contiguous range of the list."""

    images: list[str]
    first: Places
    second: Places
    same: NDArray[np.bool_]
    folds: int = FOLDS


def read_pair_list(path: Path, root: Path) -> PairList:
    """A `.csv` file with the columns image_a, image_b, same (paths below `root`), or else LFW's own format."""
    need_regular(path, "The list of pairs")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DamnatioError(f"There is no list of pairs {path}.") from None
    except UnicodeDecodeError as error:
        raise DamnatioError(f"The list of pairs {path} is not text in UTF-8 ({error}).") from error
    whole = path.suffix.lower() == ".csv"
    folds, pairs = (FOLDS, list(_of_csv(path, text))) if whole else _of_lfw(path, text)
    places: dict[str, int] = {}
    first, second, same = list[int](), list[int](), list[bool]()
    for line, a, b, label in pairs:
        for name, places_of_side in ((a, first), (b, second)):
            found = name if whole else _with_ending(root, name)
            if found not in places and not _is_file(root / found):
                raise DamnatioError(f"{path}, line {line}: there is no image {found} in {root}.")
            places_of_side.append(places.setdefault(found, len(places)))
        same.append(label)
    if len(same) < folds:
        raise DamnatioError(f"{path} lists {len(same)} pairs: {folds} folds need one each.")
    return PairList(list(places), np.array(first), np.array(second), np.array(same), folds)


Line = tuple[int, str, str, bool]
"""number of the line, the two images, whether they show one person"""


def _of_csv(path: Path, text: str) -> Iterator[Line]:
    reader = csv.DictReader(text.splitlines())
    try:
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise DamnatioError(f"{path} has no column '{missing[0]}': a list of pairs has {', '.join(COLUMNS)}.")
        for row in reader:
            a, b, label = (row[name] or "" for name in COLUMNS)
            if label.strip().lower() not in TRUTH:
                raise DamnatioError(f"{path}, line {reader.line_num}: 'same' is 1 or 0, not '{label[:80]}'.")
            yield reader.line_num, a, b, TRUTH[label.strip().lower()]
    except csv.Error as error:
        raise DamnatioError(f"{path}, line {reader.reader.line_num}: {error}.") from error


def _of_lfw(path: Path, text: str) -> tuple[int, list[Line]]:
    """`10 300`, then ten times 300 lines `name i j` and 300 lines `name1 i name2 j`. `300` alone: one such set of
    lines."""
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    head = lines[0][1] if lines else []
    if len(head) not in (1, 2) or not all(map(_is_number, head)):
        raise DamnatioError(f"{path} does not begin with the numbers of folds and pairs, such as '10 300'.")
    folds, each = (1, int(head[0])) if len(head) == 1 else (int(head[0]), int(head[1]))
    if len(lines) - 1 != folds * each * 2:
        raise DamnatioError(f"{path} announces {folds * each * 2} pairs and lists {len(lines) - 1}.")
    return (folds if folds > 1 else FOLDS), [_lfw_line(path, number, words) for number, words in lines[1:]]


def _lfw_line(path: Path, number: int, words: Sequence[str]) -> Line:
    if len(words) not in (3, 4) or not (_is_number(words[1]) and _is_number(words[-1])):
        raise DamnatioError(f"{path}, line {number}: expected 'name i j' or 'name1 i name2 j'.")
    other = words[0] if len(words) == 3 else words[2]
    a, b = f"{words[0]}/{words[0]}_{int(words[1]):04d}", f"{other}/{other}_{int(words[-1]):04d}"
    return number, a, b, len(words) == 3


def _is_number(word: str) -> bool:
    return word.isdecimal() and len(word) < 10


def _with_ending(root: Path, name: str) -> str:
    """The file of an image. The lists of LFW leave its ending out."""
    found = (f"{name}{ending}" for ending in sorted(ENDINGS) if _is_file(root / f"{name}{ending}"))
    return next(found, f"{name}.jpg")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is longer than file names may be
        return False


def draw_pairs(codes: Codes, count: int, seed: int) -> tuple[Places, Places, NDArray[np.bool_]]:
    """Ten folds with equally many mated and non-mated pairs, `count` in all or as many as there are.

    As in LFW, nobody is in two folds and no pair occurs twice. Every person gives one mated pair before anybody gives a
    second one. For a non-mated pair, two people are drawn evenly, then one image of each.
    """
    rng = np.random.default_rng([seed, 8])
    sizes = np.bincount(codes)
    people = rng.permutation(len(sizes))
    people = people[np.argsort(sizes[people] < 2, kind="stable")]  # those with mated pairs are distributed first
    fold_of = np.empty(len(sizes), dtype=np.int64)
    fold_of[people] = np.arange(len(sizes)) % FOLDS
    folds = [np.flatnonzero(fold_of[codes] == fold) for fold in range(FOLDS)]
    mated = [mated_pairs(codes[rows]) for rows in folds]
    others = [len(rows) * (len(rows) - 1) // 2 - len(a) for rows, (a, _) in zip(folds, mated, strict=True)]
    each = min(count // (2 * FOLDS), *(len(a) for a, _ in mated), *(number // 2 for number in others))
    first, second = [], []
    for rows, (a, b) in zip(folds, mated, strict=True):
        chosen = _in_turns(codes[rows[a]], each, rng)
        strangers = _strangers(codes[rows], each, rng)
        first += [rows[a[chosen]], rows[strangers[0]]]
        second += [rows[b[chosen]], rows[strangers[1]]]
    return np.concatenate(first), np.concatenate(second), np.tile(np.repeat([True, False], each), FOLDS)


def _in_turns(whose: Codes, count: int, rng: np.random.Generator) -> Places:
    """Choose so many of the pairs: one of each person before a second of anybody."""
    shuffled = rng.permutation(len(whose))
    order = np.argsort(whose[shuffled], kind="stable")
    _, starts, counts = np.unique(whose[shuffled][order], return_index=True, return_counts=True)
    turn = np.empty(len(whose), dtype=np.int64)
    turn[order] = np.arange(len(whose)) - np.repeat(starts, counts)
    return shuffled[np.argsort(turn, kind="stable")[:count]]


def _strangers(codes: Codes, count: int, rng: np.random.Generator) -> tuple[Places, Places]:
    order = np.argsort(codes, kind="stable")
    _, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
    keys = np.zeros(0, dtype=np.int64)
    while len(keys) < count:
        p, q = rng.integers(len(starts), size=(2, 2 * count))
        i, j = (order[starts[person] + rng.integers(counts[person])] for person in (p, q))
        fresh = (np.minimum(i, j) * len(codes) + np.maximum(i, j))[p != q]
        keys = np.concatenate([keys, fresh])
        keys = keys[np.sort(np.unique(keys, return_index=True)[1])]
    return np.divmod(keys[:count], len(codes))
