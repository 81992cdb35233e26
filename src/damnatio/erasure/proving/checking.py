"""Checking a record, level by level. Each level says whether it passed, failed or did not run, and on what it rests."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from damnatio.erasure.planning.plan import Plan
from damnatio.erasure.proving import statement as said
from damnatio.erasure.proving.building import sentence, verdict_of
from damnatio.erasure.proving.chain import read_chain
from damnatio.erasure.proving.items import erased_item, read_item_key
from damnatio.erasure.proving.keys import fingerprint, holder_key, public_signing_key, read_public
from damnatio.erasure.proving.statement import Read, read_record
from damnatio.galleries.scanning.verdicts import worst
from damnatio.support.errors import DamnatioError
from damnatio.support.files import digest_of, need_regular

Outcome = Literal["passed", "failed", "unsure", "not run"]
"""unsure: what was found neither agrees with the record nor contradicts it"""
OLDER = "the damnatio that made it checks this"
MODELS = (".onnx", ".pth", ".pt", ".safetensors")


@dataclass(frozen=True)
class Evidence:
    """The record, and what is at hand to check it with."""

    record: Path
    key: Path | None = None
    previous: Path | None = None
    chain: Path | None = None
    plan: Path | None = None
    stores: bool = False
    galleries: Sequence[str] = ()
    fingerprints: Path | None = None
    holder_key: Path | None = None
    model: Path | None = None
    faces: Path | None = None


@dataclass(frozen=True)
class Level:
    name: str
    outcome: Outcome
    words: str


@dataclass(frozen=True)
class Checked:
    record: Read
    levels: list[Level]

    @property
    def passed(self) -> bool:
        return all(level.outcome != "failed" for level in self.levels)


def check(evidence: Evidence) -> Checked:
    """All levels for which there is evidence. What is no record is an error."""
    if evidence.fingerprints is not None and evidence.holder_key is None:
        raise DamnatioError("--fingerprints are sealed: name the private key of their holder with --holder-key.")
    record = read_record(evidence.record)
    if evidence.galleries:
        from damnatio.erasure.proving.reopening import addresses

        addresses(record.statement.predicate.stores, evidence.galleries)
    levels: list[tuple[str, Callable[[Read, Evidence], Level]]] = [
        ("signature", _signature),
        ("sums", _sums),
        ("chain", _chain),
        ("files", _files),
        ("items", _items),
        ("stores", _stores),
        ("rescan", _rescan),
        ("rates", _rates),
    ]
    return Checked(record, [level(record, evidence) for _, level in levels])


def lines_of(checked: Checked) -> list[str]:
    predicate = checked.record.statement.predicate
    found = [f"Record of case {predicate.case}, number {predicate.number}, signed {predicate.dates.signed}"]
    found += [f"  {level.name:<10} {level.outcome:<8} {level.words}" for level in checked.levels]
    ran = [level.name for level in checked.levels if level.outcome != "not run"]
    failed = [level.name for level in checked.levels if level.outcome == "failed"]
    unsure = [level.name for level in checked.levels if level.outcome == "unsure"]
    ends = f" FAILED: {', '.join(failed)}." if failed else ("" if unsure else " All passed.")
    found.append(f"Checked: {', '.join(ran)}.{ends}" + (f" Unsure: {', '.join(unsure)}." if unsure else ""))
    if not failed:
        found.append(predicate.verdict_sentence)
    return found


# --- the record alone ------------------------------------------------------------------------------------------------


def _signature(record: Read, evidence: Evidence) -> Level:
    own = record.statement.predicate.signer
    key = public_signing_key(own.public_key.encode(), str(record.path))
    mark = fingerprint(key)
    if not record.envelope.is_signed_by(key) or own.fingerprint != mark or record.envelope.keyid != mark:
        return Level("signature", "failed", "the record was changed after it was signed, or another key signed it")
    if evidence.key is None:
        words = f"by the key {mark}, which the record itself names: compare it with the signer's, or give --key"
        return Level("signature", "passed", words)
    if fingerprint(read_public(evidence.key)) != mark:
        return Level("signature", "failed", f"the record is signed by {mark}, which is not the key {evidence.key}")
    return Level("signature", "passed", f"by the given key {mark}")


def _sums(record: Read, evidence: Evidence) -> Level:
    if record.statement.predicate.format < said.FORMAT:
        return Level("sums", "not run", f"the record has the format {record.statement.predicate.format}: {OLDER}")
    wrong = list(_contradictions(record.statement.predicate))
    if wrong:
        return Level("sums", "failed", "; ".join(wrong))
    return Level("sums", "passed", "counts, verdicts and hashes inside the record agree with each other")


def _contradictions(p: said.Predicate) -> Iterator[str]:
    counted = {store.number: sum(item.store == store.number for item in p.items) for store in p.stores}
    if any(item.store not in counted for item in p.items):
        yield "items are listed of a store that is not"
    if len(p.items) != p.decisions["deleted"] or len({item.hmac for item in p.items}) != len(p.items):
        yield f"{len(p.items)} items are listed, and {p.decisions['deleted']} were deleted"
    if p.decisions["found"] < p.decisions["deleted"]:
        yield "more was deleted than found"
    for store in p.stores:
        if store.items != counted[store.number]:
            yield f"store {store.number} names {store.items} items, and {counted[store.number]} are listed"
        if store.verdict != verdict_of([one.verdict for one in store.classes], store.again, store.left):
            yield f"the verdict on store {store.number} is not the worst of its files and rows"
        if any(one.found_after and one.verdict != "RESIDUE" for one in store.classes):
            yield f"store {store.number} has fragments left that its verdict does not say"
        n = store.neighbours
        rows = sum(item.copies for item in p.items if item.store == store.number and item.kind != "index")
        if n.untouched and n.deleted > max(rows, store.items):
            yield f"store {store.number} lost {n.deleted} rows, and {rows} were to be deleted"
        blind = (one for one in store.classes if one.verdict == "GONE" and one.bytes and not one.control_found)
        yield from (f"store {store.number}: {one.name} is GONE without a control" for one in blind)
    if p.verdict != worst([store.verdict for store in p.stores]):
        yield "the verdict is not the worst of the stores"
    if p.verdict_sentence != sentence(len(p.items), p.stores, p.verdict):
        yield "the sentence says another thing than the numbers"


def _chain(record: Read, evidence: Evidence) -> Level:
    p = record.statement.predicate
    if evidence.previous is None and evidence.chain is None:
        if not p.previous and p.number == 1:
            return Level("chain", "passed", "it is the first record of its key, by its own word")
        return Level("chain", "not run", f"record {p.number} follows {p.previous[:16]}...: give --previous or --chain")
    if evidence.previous is not None:
        before = read_record(evidence.previous)
        if before.sha256 != p.previous or before.statement.predicate.number != p.number - 1:
            return Level("chain", "failed", f"{evidence.previous} is not the record before it")
    if evidence.chain is not None:
        links = read_chain(evidence.chain)
        mine = next((link for link in links if link.sha256 == record.sha256), None)
        if mine is None or mine.number != p.number:
            return Level("chain", "failed", f"{evidence.chain} does not hold this record as number {p.number}")
        if p.previous != (links[p.number - 2].sha256 if p.number > 1 else ""):
            return Level("chain", "failed", "the record before it in the chain is another than it names")
    return Level("chain", "passed", f"number {p.number}, after {p.previous[:16] or 'none'}")


def _files(record: Read, evidence: Evidence) -> Level:
    """The files beside the record that the statement is about, known by their hashes and not by their names."""
    wanted = {one.digest["sha256"]: one.name for one in record.statement.subject if one.name != said.BEFORE}
    folder = record.path.resolve().parent
    beside = [path for path in sorted(folder.iterdir()) if path.is_file() and path != record.path.resolve()]
    found = {digest_of(path) for path in beside}
    missing = [name for digest, name in wanted.items() if digest not in found]
    if evidence.model is not None and _digest_of_model(evidence.model) not in wanted:
        return Level("files", "failed", f"{evidence.model} is not the altered model of the record")
    if len(missing) == len(wanted):
        return Level("files", "not run", "neither the model nor the plan lies beside the record")
    if (folder / "plan.json").exists() and said.PLAN in missing:
        return Level("files", "failed", "the plan beside the record is not the one that it names")
    words = f"{len(wanted) - len(missing)} of {len(wanted)} files are beside it with the hashes that it names"
    if any(name.startswith(said.AFTER) for name in missing) and any(path.suffix in MODELS for path in beside):
        return Level("files", "failed", f"{words}; the altered model is another")
    return Level("files", "passed", words)


def _digest_of_model(path: Path) -> str:
    from damnatio.models.importing import weights_file
    from damnatio.recipe.files import model_settings

    return digest_of(weights_file(model_settings(path)))


def _items(record: Read, evidence: Evidence) -> Level:
    if evidence.plan is None:
        return Level("items", "not run", "give --plan, with record.key beside it")
    if record.statement.predicate.format < said.FORMAT:
        return Level("items", "not run", f"the plan is older than this damnatio: {OLDER}")
    need_regular(evidence.plan, "The plan")
    try:
        content: Any = json.loads(evidence.plan.read_text(encoding="utf-8"))
        plan = Plan.model_validate(content["plan"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamnatioError(f"{evidence.plan} is no plan that can be read.") from error
    key, p = read_item_key(evidence.plan.resolve().parent), record.statement.predicate
    if digest_of(evidence.plan) != record.statement.digest(said.PLAN):
        return Level("items", "failed", f"{evidence.plan} is not the plan that the record names")
    if not hmac.compare_digest(hashlib.sha256(key).hexdigest(), p.item_key):
        return Level("items", "failed", "record.key is not the key of this record")
    planned = {erased_item(one, key).hmac for one in plan.items}
    foreign = sum(item.hmac not in planned for item in p.items)
    if foreign:
        return Level("items", "failed", f"{foreign} of {len(p.items)} items are not in the plan")
    return Level("items", "passed", f"all {len(p.items)} items are items of the plan")


# --- the stores, the files, the model --------------------------------------------------------------------------------


def _stores(record: Read, evidence: Evidence) -> Level:
    if not evidence.stores:
        return Level("stores", "not run", "give --stores to open them and count")
    from damnatio.erasure.proving.reopening import reopened

    return Level("stores", *reopened(record.statement.predicate, evidence.galleries))


def _rescan(record: Read, evidence: Evidence) -> Level:
    if evidence.fingerprints is None or evidence.holder_key is None:
        return Level("rescan", "not run", "give --fingerprints and --holder-key to scan the files again")
    from damnatio.erasure.proving.fingerprints import read_fingerprints
    from damnatio.erasure.proving.reopening import rescanned

    prints = read_fingerprints(evidence.fingerprints, holder_key(evidence.holder_key))
    prints.need_valid(date.today())
    if prints.case != record.statement.predicate.case:
        raise DamnatioError(f"{evidence.fingerprints} belongs to the case {prints.case}.")
    return Level("rescan", *rescanned(record.statement.predicate, evidence.galleries, prints))


def _rates(record: Read, evidence: Evidence) -> Level:
    if evidence.model is None or evidence.faces is None:
        return Level("rates", "not run", "give --model MODEL FACES to measure again")
    from damnatio.erasure.proving.remeasuring import remeasured

    return Level("rates", *remeasured(record.statement.predicate.model, evidence.model, evidence.faces))
