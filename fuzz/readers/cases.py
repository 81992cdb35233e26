"""The papers of a case: a plan, the journal of its purge, a record, the chain of records."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from damnatio.erasure.planning.plan import KIND, read_plan
from damnatio.erasure.proving.building import sentence
from damnatio.erasure.proving.chain import Link, read_chain
from damnatio.erasure.proving.checking import Evidence, check
from damnatio.erasure.proving.envelope import canonical, signed
from damnatio.erasure.proving.keys import fingerprint, public_pem
from damnatio.erasure.purging.journal import Journal
from fuzz.mutations import Mutate, changed_json, damaged, edited, mixed
from fuzz.readers.base import Reader

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
HASH = "0" * 64


def _statement() -> dict[str, Any]:
    """A record without stores."""
    public = KEY.public_key()
    signer = {"public_key": public_pem(public).decode(), "fingerprint": fingerprint(public)}
    dates = dict.fromkeys(("received", "deadline", "planned", "begun", "deleted", "signed"), "2026-08-17")
    decisions = dict.fromkeys(("found", "candidates", "accepted", "rejected", "deleted"), 0)
    predicate = {
        **{"format": 2, "case": "5", "number": 1, "previous": "", "dates": dates, "tools": {}, "signer": signer},
        **{"verdict": "GONE", "verdict_sentence": sentence(0, [], "GONE"), "enrolled_again": [], "items": []},
        **{"model": {"method": "GS", "people": 1, "complete": True, "level": 0.4, "rates": []}, "item_key": HASH},
        **{"decisions": decisions, "stores": [], "not_reached": ["a"], "remains": ["b"], "recipients": ["c"]},
    }
    kind = {"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:damnatio:erasure:v1"}
    return {**kind, "subject": [{"name": "plan", "digest": {"sha256": HASH}}], "predicate": predicate}


def _records(folder: Path) -> list[bytes]:
    return [signed(canonical(_statement()), KEY).text.encode()]


def _resigned(change: Mutate) -> Mutate:
    """The statement is changed, and signed again: as a signer who lies writes it."""

    def run(rng: Random, seeds: Sequence[bytes]) -> bytes:
        payloads = [base64.b64decode(json.loads(content)["payload"]) for content in seeds]
        return signed(change(rng, payloads), KEY).text.encode()

    return run


def _plans(folder: Path) -> list[bytes]:
    file = {"name": "model.onnx", "bytes": 5, "sha256": HASH}
    lists = (
        "besides",
        "settings",
        "files",
        "rates",
        "enrolled",
        "stores",
        "items",
        "leftovers",
        "remains",
        "recipients",
    )
    content = {
        **{"format": 2, "damnatio": "0.2.0", "case": "5", "made": "2026-08-17", "received": "2026-08-17"},
        **{"templates": [{"label": "mean", "bar": 0.4}], "measured": 0, "person": HASH, "source": "model.onnx"},
        **{"deadline": "2026-09-16", "names": ["Ann"], "people": 1, "level": 0.4, "method": "GS"},
        **{"complete": True, "verdict": "Ann was forgotten.", "model": file, **{name: [] for name in lists}},
    }
    return [_sealed(content)]


def _resealed(change: Mutate) -> Mutate:
    def run(rng: Random, seeds: Sequence[bytes]) -> bytes:
        changed = change(rng, [canonical(json.loads(content)["plan"]) for content in seeds])
        try:
            content = json.loads(changed)
            return _sealed(content)
        except (ValueError, RecursionError):
            return changed

    return run


def _sealed(content: Any) -> bytes:
    envelope = signed(canonical(content), KEY, KIND)
    seal = {"keyid": envelope.keyid, "sig": base64.b64encode(envelope.signature).decode()}
    return json.dumps({"plan": content, "seal": seal}).encode()


def _journals(folder: Path) -> list[bytes]:
    journal = Journal(folder / "journal.jsonl")
    journal.write("begin", case="5", deleted=[1, 2])
    journal.write("deleting", 1, items=2)
    return [journal.path.read_bytes()]


def _chains(folder: Path) -> list[bytes]:
    links = [Link(number=number, case="5", signed="2026-08-17T00:00:00Z", sha256=HASH) for number in (1, 2)]
    return ["".join(link.model_dump_json() + "\n" for link in links).encode()]


READERS = [
    Reader(
        "record", ".json", _records, lambda path: check(Evidence(path)),
        mixed(damaged, _resigned(edited), _resigned(changed_json)),
    ),
    Reader(
        "plan", ".json", _plans, lambda path: read_plan(path, KEY),
        mixed(damaged, _resealed(edited), _resealed(changed_json)),
    ),
    Reader("journal", ".jsonl", _journals, Journal, mixed(damaged, edited)),
    Reader("chain", ".jsonl", _chains, read_chain, mixed(damaged, edited)),
]  # fmt: skip
