"""Signing a record: its place in the chain, the signature, the file. A record that is there is never signed again."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from damnatio.erasure.planning.plan import Plan
from damnatio.erasure.proving.building import build
from damnatio.erasure.proving.chain import Link, add_link, chain_of, holding
from damnatio.erasure.proving.envelope import canonical, signed
from damnatio.erasure.proving.items import item_key
from damnatio.erasure.proving.keys import fingerprint, public_pem
from damnatio.erasure.proving.statement import Signer, Statement, read_record
from damnatio.erasure.purging.journal import Journal
from damnatio.support.files import private, write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

RECORD = "record.json"


@private()
def sign_record(plan: Plan, journal: Journal, plan_file: Path, key: "Ed25519PrivateKey", key_file: Path) -> Statement:
    """Write record.json beside the plan, and its link into the chain. A call that was killed in between is completed by
    the next one: the record is read again, and only the link is added. If another record took its place in the chain
    meanwhile, it is made anew: nobody was told of it yet."""
    folder = plan_file.resolve().parent
    path, chain = folder / RECORD, chain_of(key_file)
    with holding(chain) as links:
        if not path.exists() or _is_displaced(path, links):
            public = key.public_key()
            signer = Signer(public_key=public_pem(public).decode(), fingerprint=fingerprint(public))
            previous = links[-1].sha256 if links else ""
            made = build(plan, journal, plan_file, item_key(folder), signer, len(links) + 1, previous)
            payload = canonical(made.model_dump(mode="json", by_alias=True))
            write_atomically(path, signed(payload, key).text)
        read = read_record(path)
        predicate = read.statement.predicate
        if all(link.sha256 != read.sha256 for link in links):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            add_link(
                chain, Link(number=len(links) + 1, case=predicate.case, signed=predicate.dates.signed, sha256=digest)
            )
    return read.statement


def _is_displaced(path: Path, links: list[Link]) -> bool:
    """Whether a record is in no chain, and follows another record than the last one."""
    read = read_record(path)
    linked = any(link.sha256 == read.sha256 for link in links)
    return not linked and read.statement.predicate.number != len(links) + 1
