"""What a record says: an in-toto Statement (version 1) whose predicate is an erasure.

It holds no biometric data and no name: no vector, no score, no name of a person or of a file, no id of a row. An item
is the HMAC of its store, place and id under a key of this record alone. That key lies in OUT/record.key beside the
plan; once both are destroyed, nobody can say which rows the items were.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from damnatio.erasure.planning.plan import EnrolledAgain, Rate
from damnatio.erasure.proving.envelope import STATEMENT, Envelope, read_envelope
from damnatio.galleries.items import Frozen, How, Kind, Mention, Remain
from damnatio.galleries.scanning.verdicts import Verdict
from damnatio.galleries.searching import SearchesCompared
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular

PREDICATE = "urn:damnatio:erasure:v1"
FORMAT = 2
AFTER, BEFORE, PLAN = "altered model", "model before", "plan"
"""the subjects of the statement; other files that go with the model are `altered model, file 2` and so on"""


class Subject(Frozen):
    name: str
    digest: dict[Literal["sha256"], str]


class Dates(Frozen):
    received: str
    deadline: str
    planned: str
    begun: str
    deleted: str
    """when the last store was deleted from"""
    signed: str


class Model(Frozen):
    method: str
    people: int
    complete: bool
    """whether everybody asked for was measured to be forgotten, and the share of strangers touched is known"""
    said: list[str] = Field(default=[])
    """the verdict, the share of strangers touched, and whether the file still holds the people, as in erasure.json"""
    level: float
    """two photographs are linked, and a template is found, from this cosine on"""
    rates: list[Rate]


class ErasedItem(Frozen):
    hmac: str
    store: int
    kind: Kind
    how: How
    copies: int


class Command(Frozen):
    command: str
    seconds: float
    at: str


class ScannedClass(Frozen):
    """One class of files, before the delete and after the last step."""

    name: str
    verdict: Verdict
    files: int
    bytes: int
    fragments: int
    found_before: int
    found_after: int
    control_fragments: int
    control_found: int
    encodings_before: dict[str, int]
    encodings_after: dict[str, int]
    reason: str = ""


class Neighbours(Frozen):
    """Everybody else: rows, the hash of (place, id, name, bytes) of each, and searches."""

    rows_before: int
    rows_after: int
    deleted: int
    others_before: str
    others_after: str
    searches: SearchesCompared

    @property
    def untouched(self) -> bool:
        counted = self.rows_before - self.rows_after == self.deleted
        return counted and self.others_before == self.others_after


class Again(Frozen):
    """A new search under the model before, after the purge: by name, with every template, and for every deleted vector.
    What the operator left is not counted."""

    rows: int
    """that were looked at"""
    compared: int
    """of these, with the templates: others have no vector of this model, and no photograph that it takes"""
    found: int
    """that show the person"""


class ErasedStore(Frozen):
    number: int
    kind: str
    address: str
    versions: dict[str, str]
    items: int
    verdict: Verdict
    commands: list[Command]
    classes: list[ScannedClass]
    neighbours: Neighbours
    left: int = 0
    """rows that were to be deleted, and are there"""
    again: Again | None = None
    """None: no search was possible"""
    allowed: list[str] = Field(default=[])
    """what the delete set off beside itself, as the operator allowed"""
    mentions: list[Mention] = Field(default=[])
    """where else in the store names stand as text, after the purge"""
    unreached: list[str]
    notes: list[str]
    remains: list[Remain] = Field(default=[])
    """what its server keeps of the rows, until when, and what ends it"""


class Signer(Frozen):
    public_key: str
    fingerprint: str


class Predicate(Frozen):
    format: int = FORMAT
    case: str
    number: int
    """in the chain of the signer's records"""
    previous: str
    """the SHA-256 of the record before it; empty: it is the first"""
    dates: Dates
    tools: dict[str, str]
    signer: Signer
    verdict: Verdict
    verdict_sentence: str
    model: Model
    enrolled_again: list[EnrolledAgain]
    decisions: dict[Literal["found", "candidates", "accepted", "rejected", "deleted"], int]
    items: list[ErasedItem]
    item_key: str
    """the SHA-256 of the key of the HMACs"""
    stores: list[ErasedStore]
    not_reached: list[str]
    remains: list[str]
    recipients: list[str]
    fingerprints: str = Field("", description="until when fingerprints may be used; empty: none were kept")

    @property
    def untouched(self) -> bool:
        return all(store.neighbours.untouched for store in self.stores)


class Statement(Frozen):
    type: Literal["https://in-toto.io/Statement/v1"] = Field("https://in-toto.io/Statement/v1", alias="_type")
    subject: list[Subject]
    predicate_type: Literal["urn:damnatio:erasure:v1"] = Field("urn:damnatio:erasure:v1", alias="predicateType")
    predicate: Predicate

    def digest(self, name: str) -> str:
        return next(one.digest["sha256"] for one in self.subject if one.name == name)


@dataclass(frozen=True)
class Read:
    """A record as it lies on the disk."""

    path: Path
    envelope: Envelope
    statement: Statement
    sha256: str


def read_record(path: Path) -> Read:
    """The record in a file. Its signature is not looked at."""
    need_regular(path, "The record")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DamnatioError(f"There is no record {path}.") from None
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise DamnatioError(f"{path} is no whole record: it is no text.") from error
    envelope = read_envelope(text, str(path))
    return Read(path, envelope, _statement(envelope, path), hashlib.sha256(content).hexdigest())


def _statement(envelope: Envelope, path: Path) -> Statement:
    if envelope.kind != STATEMENT:
        raise DamnatioError(f"{path} holds {envelope.kind}, and no statement of an erasure.")
    try:
        content: Any = json.loads(envelope.payload)
        format = content["predicate"]["format"]
        if content["predicateType"] == PREDICATE and isinstance(format, int) and format > FORMAT:
            raise DamnatioError(f"{path} has the format {format}, and this damnatio reads {FORMAT}: use a newer one.")
        return Statement.model_validate(content)
    except DamnatioError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamnatioError(f"{path} holds no statement of an erasure that can be read.") from error
