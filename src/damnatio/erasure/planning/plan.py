"""plan.json: what was found, what the purge will do, and what it cannot reach.

The plan is readable JSON, and sealed: a signature over its content stands at the end. It names the person, as it must
to be judged by people: it is a working paper, and stays with the case or is destroyed. The record names nobody.
"""

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from damnatio.erasure.proving.envelope import Envelope, canonical, signed
from damnatio.erasure.proving.keys import fingerprint
from damnatio.erasure.record import File
from damnatio.galleries.items import Census, Effect, Frozen, Item, Mention, Remain
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular, write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT = 2
JSON, PAGE = "plan.json", "plan.html"
KIND = "application/vnd.damnatio.plan+json"
Standing = Literal["sure", "candidate", "follows"]
"""sure: it goes unless it is rejected; candidate: somebody has to accept or reject it; follows: it goes if one of the
items to which it is attached goes"""


RunKind = Literal["photographs", "embeddings", "checkpoints"]


class Share(Frozen):
    """So many of so many, with Wilson's interval of 95 %."""

    count: int
    of: int
    low: float
    high: float


class Rate(Frozen):
    """One measurement under the model before and after."""

    name: str
    before: Share
    after: Share


class EnrolledAgain(Frozen):
    """The person enrolled anew from half of the photographs, and searched with the others, among people of a gallery.
    A photograph is found if the person's own template is the first result and its score reaches the level."""

    store: int
    """0: no gallery holds vectors of this model, and the person was enrolled alone"""
    kind: str
    among: int
    """templates of other people"""
    before: Share
    """enrolled and searched under the old model"""
    after: Share
    """enrolled and searched under the altered model"""
    survivor: Share
    """an old template that survived, searched under the altered model"""


class PlannedStep(Frozen):
    name: str
    command: str
    locks: str = ""
    needs: int = 0
    folder: str = ""


class PlannedClass(Frozen):
    """A class of files that will be scanned."""

    name: str
    files: int
    bytes: int
    unreached: str = ""


class PlannedStore(Frozen):
    number: int
    kind: str
    address: str
    """without its password"""
    versions: dict[str, str]
    census: Census
    """of all items of the plan in this store, and of everybody else"""
    needs: int
    """bytes of free disk for the delete itself"""
    steps: list[PlannedStep]
    classes: list[PlannedClass]
    unreached: list[str]
    notes: list[str]
    remains: list[Remain] = Field(default=[])
    """what a server will keep of the rows"""
    effects: list[Effect] = Field(default=[])
    """what the delete sets off beside itself: refused unless it is allowed by name"""
    mentions: list[Mention] = Field(default=[])
    """where else the names stand as text"""


class PlannedItem(Frozen):
    number: int
    store: int
    standing: Standing
    follows: list[int] = Field(default=[])
    """the numbers of the items to which it is attached"""
    item: Item


class Template(Frozen):
    """A photograph, a prototype or the mean of a person: a row of this cosine to it, or more, is a candidate."""

    label: str
    bar: float


class Leftover(Frozen):
    """A file or folder of damnatio itself, or of the request, that holds the person and that no purge touches."""

    path: str
    what: str
    """what it holds, and what to do about it"""
    kind: RunKind | None = None
    """of an output of a run of damnatio: what it holds of the person"""


class Plan(Frozen):
    format: int = FORMAT
    damnatio: str
    case: str
    made: str
    received: str
    deadline: str
    names: list[str]
    """that were looked for"""
    besides: list[str]
    """that are somebody else's, as the operator said: their rows are no candidates"""
    people: int
    level: float
    """the score from which on two photographs are linked, and a template is found"""
    templates: list[Template]
    """what the stores were searched with"""
    measured: int
    """the strangers on whom the bars were measured; 0: not measured"""
    person: str
    """the SHA-256 of person.npz, which holds the templates until the record is signed"""
    method: str
    complete: bool
    verdict: str
    """on the model: the sentence of erasure.json, which names nobody"""
    strangers: str = ""
    holds: str = ""
    """whether the file still holds the people"""
    model: File
    source: str
    """where the model before lies"""
    settings: list[str]
    """with which it is read"""
    files: list[File]
    rates: list[Rate]
    enrolled: list[EnrolledAgain]
    stores: list[PlannedStore]
    items: list[PlannedItem]
    leftovers: list[Leftover]
    remains: list[str]
    """what the operator said is out of reach, and until when"""
    recipients: list[str]
    """whom the operator has to notify"""

    def of_standing(self, standing: Standing) -> list[PlannedItem]:
        return [item for item in self.items if item.standing == standing]


def write_plan(plan: Plan, path: Path, key: "Ed25519PrivateKey") -> None:
    content = plan.model_dump(mode="json")
    envelope = signed(canonical(content), key, KIND)
    seal = {"keyid": envelope.keyid, "sig": base64.b64encode(envelope.signature).decode()}
    write_atomically(path, json.dumps({"plan": content, "seal": seal}, indent=1, ensure_ascii=False) + "\n")


def read_plan(path: Path, key: "Ed25519PrivateKey") -> Plan:
    """The plan, if it is whole, of a format that is known, and as it was sealed with this key."""
    need_regular(path, "The plan")
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        plan, seal = content["plan"], content["seal"]
        sealed = canonical(plan)
        keyid, signature = str(seal["keyid"]), base64.b64decode(seal["sig"], validate=True)
    except FileNotFoundError:
        raise DamnatioError(f"There is no plan {path}: `damnatio erase ... --case ID` makes one.") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamnatioError(f"{path} is no whole plan: make a new one with `damnatio erase`.") from error
    mine = fingerprint(key.public_key())
    if keyid != mine:
        raise DamnatioError(
            f"{path} was sealed with the key {keyid[:16]}, and this one is {mine[:16]}: give the right one with --key."
        )
    if not Envelope(KIND, sealed, keyid, signature).is_signed_by(key.public_key()):
        raise DamnatioError(f"{path} was changed after it was sealed: nothing was deleted. Make a new plan.")
    format = plan.get("format") if isinstance(plan, dict) else None
    if format != FORMAT:
        again = ": make a new plan" if isinstance(format, int) and format < FORMAT else ""
        raise DamnatioError(f"{path} has the format {format}, and this damnatio reads {FORMAT}{again}.")
    try:
        return Plan.model_validate(plan)
    except ValidationError as error:
        raise DamnatioError(f"{path} is no plan of this damnatio: {error.errors()[0]['msg']}.") from error
