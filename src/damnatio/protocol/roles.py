"""What each image does in the protocol, in one word per image, and how such words are drawn.

| word                           | the image |
|--------------------------------|----------------------------------------------------------------------------|
| `forget-train`, `forget-eval`  | of a person to forget: seen by the method, or new to it |
| `retain`                       | of a person whom the network was trained on |
| `retain-enrol`, `retain-probe` | the same, compared: it makes the template, or is compared with it |
| `test-enrol`, `test-probe`     | of a person whom the network never saw and who must stay recognised |
| `development`                  | of a person on whom thresholds are calibrated |
| `distractor`                   | of a person who only fills the gallery |
| `bystander`                    | of a person like the forgotten ones who is not to be forgotten |
| `-`                            | not compared |
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from damnatio.support.errors import DamnatioError, nearest
from damnatio.support.tables import codes_of, groups_of

SEEN, NEW = "forget-train", "forget-eval"
RETAIN, RETAIN_ENROL, RETAIN_PROBE = "retain", "retain-enrol", "retain-probe"
TEST_ENROL, TEST_PROBE = "test-enrol", "test-probe"
DEVELOPMENT, DISTRACTOR, BYSTANDER, UNUSED = "development", "distractor", "bystander", "-"
WORDS = (
    SEEN,
    NEW,
    RETAIN,
    RETAIN_ENROL,
    RETAIN_PROBE,
    TEST_ENROL,
    TEST_PROBE,
    DEVELOPMENT,
    DISTRACTOR,
    BYSTANDER,
    UNUSED,
)
SEVERAL = 4
"""images that a person needs to be compared; whoever has fewer is a distractor"""
MOST_TEST = 1_000
_SPLIT = 14  # a stream of random numbers of its own

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Members:
    """The images of an evaluation: names, identities and roles, one entry each, and who is a bystander. A test image
    may be one too."""

    images: NDArray[np.object_]
    identities: NDArray[np.object_]
    roles: NDArray[np.object_]
    bystanders: Mask

    def has(self, *words: str) -> Mask:
        """The images with one of these roles."""
        return np.isin(self.roles.astype(str), words)

    @staticmethod
    def of(identities: ArrayLike, roles: ArrayLike, bystanders: ArrayLike | None = None) -> "Members":
        """From a user's arrays: identities are numbers or text; an image has its place for a name."""
        people, words = np.asarray(identities), np.asarray(roles)
        if people.ndim != 1 or people.shape != words.shape:
            raise DamnatioError(
                f"identities and roles want one entry per image, and have the shapes {list(people.shape)} and "
                f"{list(words.shape)}."
            )
        for word in dict.fromkeys(words.tolist()):
            if word not in WORDS:
                raise DamnatioError(f"'{word}' is no role of an image.{nearest(str(word), WORDS)}")
        marked = words == BYSTANDER
        if bystanders is not None:
            given = np.asarray(bystanders)
            if given.shape != words.shape or given.dtype != bool:
                raise DamnatioError("bystanders wants true or false for each image.")
            marked = marked | given
        width = len(str(len(people)))
        names = np.array([f"{place:0{width}d}" for place in range(len(people))], object)
        return Members(names, as_text(people), words.astype(object), marked)


def split(
    identities: ArrayLike,
    forget: int | Collection[Any],
    retain: int = 0,
    *,
    seed: int = 0,
    seen: float = 0.5,
) -> NDArray[np.object_]:
    """Roles for images of which only the identities are known. `forget` names the people to forget, or says how many to
    draw; of each of them a share `seen` of the images is for the method, and the rest is new. `retain` people are those
    whom the network was trained on, half of them compared. Of the others with four images or more a quarter, 1,000 at
    most, are test people, and the rest is the development set; whoever has fewer images is a distractor.

    >>> roles = split([person for person in range(20) for _ in range(6)], forget=[3, 17], retain=4)
    >>> [int((roles == word).sum()) for word in ("forget-train", "forget-eval", "test-probe", "development")]
    [6, 6, 9, 66]
    """
    people = np.asarray(identities)
    codes, names = codes_of(as_text(people))
    groups = list(groups_of(codes))
    rng = np.random.default_rng([seed, _SPLIT])
    order = rng.permutation(len(groups)).tolist()
    several = [code for code in order if len(groups[code]) >= SEVERAL]
    if isinstance(forget, int | np.integer):
        asked = several[: int(forget)]
        if len(asked) < forget:
            raise DamnatioError(f"{len(several)} people have {SEVERAL} images or more, fewer than forget={forget}.")
    else:
        known = {str(name): code for code, name in enumerate(names.tolist())}
        missing = [one for one in forget if str(one) not in known]
        if missing:
            raise DamnatioError(f"forget= names {missing[0]!r}, whom no image shows.{nearest(str(missing[0]), known)}")
        asked = [known[str(one)] for one in forget]
    free = [code for code in several if code not in set(asked)]
    if len(free) < retain + 2:
        raise DamnatioError(
            f"{len(free)} people with {SEVERAL} images or more are left, and retain={retain} leaves fewer than two to "
            "calibrate thresholds on: bring more people, or lower retain."
        )
    kept, others = free[:retain], free[retain:]
    tested = others[: min(MOST_TEST, len(others) // 4)]
    roles = np.full(len(people), DISTRACTOR, dtype=object)
    for code in others[len(tested) :]:
        roles[groups[code]] = DEVELOPMENT
    for code in asked:
        mine = rng.permutation(groups[code])
        new = min(round((1 - seen) * len(mine)), len(mine) - 1)
        roles[mine[:new]], roles[mine[new:]] = NEW, SEEN
    for place, code in enumerate(kept):
        halves(roles, groups[code], (RETAIN_ENROL, RETAIN_PROBE) if 2 * place < len(kept) else (RETAIN, RETAIN))
    for code in tested:
        halves(roles, groups[code], (TEST_ENROL, TEST_PROBE))
    return roles


def halves(roles: NDArray[np.object_], places: NDArray[np.int64], words: tuple[str, str]) -> None:
    """The first half enrols, the second half probes; an odd image is a probe."""
    roles[places[: len(places) // 2]], roles[places[len(places) // 2 :]] = words


def as_text(values: NDArray[Any]) -> NDArray[np.object_]:
    """Names: whatever a user names people by, as text."""
    return np.array([str(value) for value in values.tolist()], object)
