"""Who of RETAIN, the bystanders or a gallery may be a person to forget: a question to the operator, before anything is
written. Nobody is spared who may be the person, and nobody is taken for the person, without an answer.

Among the hundreds of people of a RETAIN some always resemble somebody as only 1 in 10,000 strangers does, by chance.
They are asked about only where they are as alike as photographs of one person are. The others are not asked about, and
not spared either. A row of a gallery is always asked about: it may have to be deleted.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from damnatio.erasure.people import Person, kept_and_forgotten
from damnatio.erasure.request import GALLERY, Request
from damnatio.methods.gate_widths import Chosen
from damnatio.methods.strangers import Strangers
from damnatio.models.statistics import Statistics
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular

LEVEL = 1e-4
"""Whoever is more alike than all but this share of strangers may be the person."""
MATED = 1.645
"""as many deviations below the mean lie 1 in 20 of the pairs of photographs of one person, if these are normal"""
REST = "all-others"
COPY = 1 - 1e-6
"""the cosine of two embeddings of one photograph"""


@dataclass(frozen=True)
class Question:
    """May `name` be `person`?"""

    name: str
    person: str
    score: float
    """the highest to a photograph or a prototype of the person"""
    above: float
    """the score from which on it is a question"""
    copy: bool
    """both have the very same photograph"""
    asked: bool = True
    """False: alike only as some of so many strangers are by chance"""

    @property
    def rank(self) -> float:
        """One name may resemble several people: it is asked for the one whom it resembles most."""
        return self.score - self.above

    def __str__(self) -> str:
        return f"{self.name} resembles {self.person} (score {self.score:.3f}, a question from {self.above:.3f} on)"


Ask = Callable[[Question], bool]
"""asks the operator: is it the person?"""


@dataclass(frozen=True)
class Settled:
    """The answers."""

    same: dict[str, str] = field(default_factory=dict)
    """names in galleries, and the person that each is"""
    not_same: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    """whoever resembles a person, was not asked about, and is not spared"""


def questions(
    people: Sequence[Person], chosen: Sequence[Chosen], everyone: Strangers | None, statistics: Statistics
) -> list[Question]:
    """Whoever lies above the level by a photograph of a person, or by a prototype above it or in the gate. The gate is
    one that spares nobody, so that nobody is spared or hidden who was no question."""
    if everyone is None:
        return []
    level, found = statistics.level(LEVEL), dict[str, Question]()
    mated = statistics.mated_mean - MATED * statistics.mated_deviation
    members = {each.name: each for each in chosen if each.member is not None}
    for person in (person for person in people if person.name in members):
        each = members[person.name]
        assert each.member is not None
        used = person.units[np.isin(person.kept, each.used)]
        kinds = [(person.every, level), (each.member.directions.astype(np.float64), min(level, each.offset))]
        scores = np.stack([(everyone.units @ templates.T).max(axis=1) for templates, _ in kinds])
        levels = np.array([[above] for _, above in kinds])
        by = (scores - levels).argmax(axis=0)
        for row in np.flatnonzero((scores >= levels).any(axis=0)):
            score, above = float(scores[by[row], row]), float(levels[by[row], 0])
            copy = bool((used @ everyone.units[row]).max() > COPY)
            name = everyone.names[everyone.codes[row]]
            asked = copy or score >= mated or name.startswith(f"{GALLERY}/")
            one = Question(name, person.name, score, above, copy, asked)
            known = found.get(one.name)
            if known is None or one.rank > known.rank:
                found[one.name] = one
    return sorted(found.values(), key=lambda one: (-one.score, one.name))


def settled(
    found: Sequence[Question], everyone: Strangers | None, people: Sequence[str], request: Request, ask: Ask | None
) -> Settled:
    """The answer to every question, in the words of the request or by the operator. Without one, and where somebody is
    to be forgotten and kept at once, an error."""
    names = everyone.names if everyone is not None else []
    same, not_same = _named(request.same, names, "--same"), _named(request.not_same, names, "--not-same")
    if both := sorted(set(same) & set(not_same)):
        raise DamnatioError(f"--same {both[0]} and --not-same {both[0]}: leave one out.")
    certain = {one.name: one for one in found if one.copy and not one.name.startswith(f"{GALLERY}/")}
    open_ = [one for one in found if one.name not in {*same, *not_same, *certain}]
    if REST in request.not_same:
        not_same, open_ = [*not_same, *(one.name for one in open_)], []
    unasked, open_ = [one.name for one in open_ if not one.asked], [one for one in open_ if one.asked]
    if open_ and ask is None:
        raise DamnatioError(_unanswered(open_))
    for one in open_:
        assert ask is not None
        (same if ask(one) else not_same).append(one.name)
    resembled = {one.name: one.person for one in found}
    alone = people[0] if len(people) == 1 else ""
    whose = {name: resembled.get(name, alone) for name in [*certain, *same]}
    for name, person in whose.items():
        if not person:
            raise DamnatioError(f"--same {name}: it resembles none of the {len(people)} people to forget.")
        if not name.startswith(f"{GALLERY}/"):
            pool, _, folder = name.partition("/")
            how = "a photograph is in both" if name in certain else "as you said"
            raise kept_and_forgotten(pool, folder, person, how)
    return Settled(whose, sorted(not_same), sorted(unasked))


def _named(words: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """The people whom an option names, each with its source: `0815` is `gallery/0815`, and `@FILE` has a name per
    line."""
    found: list[str] = []
    for word in _lines(words, option):
        those = [name for name in names if word in (name, name.partition("/")[2])]
        if not those:
            raise DamnatioError(f"{option} {word}: nobody in RETAIN, the bystanders or a gallery has this name.")
        found += [name for name in those if name not in found]
    return found


def _lines(words: Sequence[str], option: str) -> Iterator[str]:
    for word in words:
        if not word.startswith("@"):
            yield from [word] if word != REST else []
            continue
        try:
            text = _text(Path(word[1:]))
        except DamnatioError:
            raise
        except (OSError, ValueError) as error:
            raise DamnatioError(f"{option} {word}: the file cannot be read ({error}).") from None
        yield from filter(None, map(str.strip, text.splitlines()))


def _text(path: Path) -> str:
    need_regular(path)
    return path.read_text("utf-8-sig")


def _unanswered(open_: Sequence[Question]) -> str:
    head = (
        f"{len(open_)} of RETAIN or the galleries may be a person to forget, so nothing was written. Say for each "
        f"whether it is (@FILE: a name per line; --not-same {REST}: whoever is not named):"
    )
    return "\n".join([head, *(f"  {one}\n    {_flags(one)}" for one in open_)])


def _flags(one: Question) -> str:
    name = shlex.quote(one.name)
    yes = f"--same {name}" if one.name.startswith(f"{GALLERY}/") else "take the folder out"
    return f"yes: {yes}   no: --not-same {name}"
