"""The content of a record, from a plan and the journal of its purge."""

import hashlib
import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from damnatio import __version__
from damnatio.erasure.planning.plan import Plan, PlannedStore
from damnatio.erasure.proving import statement as said
from damnatio.erasure.proving.items import erased_items
from damnatio.erasure.proving.masking import masked
from damnatio.erasure.purging.journal import Journal, now
from damnatio.galleries.items import Census, Mention, Remain
from damnatio.galleries.scanning.verdicts import ClassScan, Scan, Verdict, worst
from damnatio.galleries.searching import SearchesCompared
from damnatio.support.files import digest_of

TOOLS = ("cryptography", "numpy", "torch")
COPIES = "Backups, replicas, archived logs, snapshots and unlinked blocks of the disk were not looked at."
RECIPIENTS = "Recipients to whom templates or photographs were passed on hold their own copies."


def build(
    plan: Plan, journal: Journal, plan_file: Path, key: bytes, signer: said.Signer, number: int, previous: str
) -> said.Statement:
    """The statement. Free text passes through `masked`; the rest are numbers, hashes and fixed words."""
    begun = journal.entries[0]
    stores = [_store(plan, one, journal) for one in plan.stores]
    verdict = worst([store.verdict for store in stores])
    items = erased_items(plan, begun["deleted"], key)
    predicate = said.Predicate(
        case=plan.case,
        number=number,
        previous=previous,
        dates=said.Dates(
            received=plan.received,
            deadline=plan.deadline,
            planned=plan.made,
            begun=begun["at"],
            deleted=max((entry["at"] for entry in journal.entries if entry["what"] == "deleted"), default=begun["at"]),
            signed=now(),
        ),
        tools=_tools(),
        signer=signer,
        verdict=verdict,
        verdict_sentence=sentence(len(items), stores, verdict),
        model=said.Model(
            method=plan.method,
            people=plan.people,
            complete=plan.complete,
            said=[words for words in (plan.verdict, plan.strangers, plan.holds) if words],
            level=plan.level,
            rates=plan.rates,
        ),
        enrolled_again=plan.enrolled,
        decisions={
            "found": len(plan.items),
            "candidates": len(plan.of_standing("candidate")),
            "accepted": len(begun["accepted"]),
            "rejected": len(begun["rejected"]),
            "deleted": len(items),
        },
        items=items,
        item_key=hashlib.sha256(key).hexdigest(),
        stores=stores,
        not_reached=[*_of_runs(plan), COPIES, RECIPIENTS],
        remains=masked([*plan.remains, *_kept(plan, begun)], hidden_names(plan)),
        recipients=masked(plan.recipients, hidden_names(plan)),
        fingerprints=str(begun["fingerprints_until"]) if journal.find("fingerprints") else "",
    )
    return said.Statement(subject=_subjects(plan, plan_file), predicate=predicate)


def verdict_of(scans: Sequence[Verdict], again: said.Again | None, left: int) -> Verdict:
    """On a store: of its files, of the search after the purge, and of the rows that went."""
    verdict = worst(list(scans))
    if left or (again is not None and again.found):
        return "RESIDUE"
    return worst([verdict, "BLIND"]) if again is None or (again.rows and not again.compared) else verdict


def sentence(count: int, stores: list[said.ErasedStore], verdict: Verdict) -> str:
    """The verdict in one sentence."""
    where = f"{count} item{'' if count == 1 else 's'} from {len(stores)} store{'' if len(stores) == 1 else 's'}"
    files = _numbers(store for store in stores if worst([one.verdict for one in store.classes]) == verdict)
    nobody = _numbers(store for store in stores if verdict_of([], store.again, 0) == "BLIND")
    back = _numbers(store for store in stores if store.left or (store.again is not None and store.again.found))
    rows = sum(store.left + (store.again.found if store.again is not None else 0) for store in stores)
    ends = {
        "GONE": ["no fragment of them was found afterwards in any file that was read", "no row that shows the person"]
        if any(store.classes for store in stores)
        else ["no row that shows the person was found afterwards"],
        "BLIND": ["no fragment was found afterwards"],
        "UNREACHED": [f"files of store {files} could not be read, so nothing can be said of them"],
        "RESIDUE": [],
    }[verdict]
    if verdict == "BLIND" and files:
        ends.append(f"files of store {files} are written so that the scan sees nobody")
    if verdict == "BLIND" and nobody:
        ends.append(f"no row of store {nobody} could be compared with the person")
    if verdict == "RESIDUE" and files:
        ends.append(f"fragments of them are still in files of store {files}")
    if verdict == "RESIDUE" and back:
        ends.append(
            f"{rows} row{'' if rows == 1 else 's'} of store {back} still show{'s' if rows == 1 else ''} the person"
        )
    joint = "and" if verdict == "GONE" else "but"
    touched = "" if all(store.neighbours.untouched for store in stores) else "; rows of others changed meanwhile"
    kept = _numbers(store for store in stores if store.remains)
    server = f"; what the server of store {kept} keeps, and until when, is listed" if kept else ""
    return f"The purge deleted {where}, {joint} {', and '.join(ends)}{touched}{server} ({verdict})."


def _numbers(stores: Iterable[said.ErasedStore]) -> str:
    return " and ".join(str(store.number) for store in stores)


def _store(plan: Plan, one: PlannedStore, journal: Journal) -> said.ErasedStore:
    baseline, deleted, after = (journal.find(what, one.number) for what in ("baseline", "deleted", "after"))
    assert baseline is not None
    assert deleted is not None
    assert after is not None
    scans = [Scan.model_validate(entry["scan"]) for entry in (baseline, after)]
    counts = [Census.model_validate(entry["census"]) for entry in (baseline, after)]
    searched = journal.find("again", one.number)
    again = said.Again.model_validate(searched["again"]) if searched is not None and searched["again"] else None
    items = int((journal.find("deleting", one.number) or {"items": 0})["items"])
    commands = [said.Command(command=f"delete {items} items", seconds=deleted["seconds"], at=deleted["at"])]
    for step in journal.all("step", one.number):
        command = masked(step["command"], hidden_names(plan))
        commands.append(said.Command(command=command, seconds=step["seconds"], at=step["at"]))
    return said.ErasedStore(
        number=one.number,
        kind=one.kind,
        address=masked(one.address, hidden_names(plan)),
        versions=masked(baseline["versions"], hidden_names(plan)),
        items=items,
        verdict=verdict_of([scans[1].verdict], again, counts[1].matched_rows),
        commands=commands,
        classes=_classes(scans[0], scans[1], plan),
        neighbours=said.Neighbours(
            rows_before=sum(counts[0].rows.values()),
            rows_after=sum(counts[1].rows.values()),
            deleted=counts[0].matched_rows - counts[1].matched_rows,
            others_before=counts[0].others,
            others_after=counts[1].others,
            searches=SearchesCompared.model_validate(after["searches"]),
        ),
        left=counts[1].matched_rows,
        again=again,
        allowed=masked(baseline.get("allowed", []), hidden_names(plan)),
        mentions=[
            Mention(place=masked(one["place"], hidden_names(plan)), rows=one["rows"])
            for one in (searched or {}).get("mentions", [])
        ],
        unreached=masked(baseline["unreached"], hidden_names(plan)),
        notes=masked(one.notes, hidden_names(plan)),
        remains=[
            Remain(**{name: masked(words, hidden_names(plan)) for name, words in remain.items()})
            for remain in after.get("remains", [])
        ],
    )


def _classes(before: Scan, after: Scan, plan: Plan) -> list[said.ScannedClass]:
    then: dict[str, ClassScan] = {one.name: one for one in before.classes}
    return [
        said.ScannedClass(
            name=masked(one.name, hidden_names(plan)),
            verdict=one.verdict,
            files=one.files,
            bytes=one.bytes,
            fragments=one.fragments,
            found_before=then[one.name].found if one.name in then else 0,
            found_after=one.found,
            control_fragments=one.control_fragments,
            control_found=one.control_found,
            encodings_before=then[one.name].encodings if one.name in then else {},
            encodings_after=one.encodings,
            reason=masked(one.reason, hidden_names(plan)),
        )
        for one in after.classes
    ]


def _kept(plan: Plan, begun: dict[str, Any]) -> list[str]:
    """What the plan listed and the purge left, without paths, which may hold names."""
    found = []
    if plan.method == "GS":
        found.append("The altered model holds a suppression template of each person: it is personal data.")
    found.append("The plan and the photographs of the request are the operator's working papers.")
    if begun["rejected"]:
        count = len(begun["rejected"])
        found.append(
            f"Rejected by the operator, and left where {'it is' if count == 1 else 'they are'}: {count} found."
        )
    return found


def hidden_names(plan: Plan) -> list[str]:
    """All names that the person goes by: those that were looked for, and those of the rows that were found."""
    stored = {one.item.name for one in plan.items if len(one.item.name) > 1}
    return [*plan.names, *sorted(stored - set(plan.names))]


def _of_runs(plan: Plan) -> list[str]:
    """Outputs of damnatio's own runs, which a purge does not touch."""
    kinds = [left.kind for left in plan.leftovers if left.kind is not None]
    if not kinds:
        return []
    counts = ", ".join(f"{kinds.count(kind)} with {kind}" for kind in dict.fromkeys(kinds))
    return [
        f"Runs of damnatio hold the person, and no purge touches them: folders {counts}. The plan lists them; the "
        "operator removes them, and trains anew without the person where a checkpoint is needed."
    ]


def _subjects(plan: Plan, plan_file: Path) -> list[said.Subject]:
    found = [said.Subject(name=said.BEFORE, digest={"sha256": plan.model.sha256})]
    for place, file in enumerate(plan.files, 1):
        name = said.AFTER if place == 1 else f"{said.AFTER}, file {place}"
        found.append(said.Subject(name=name, digest={"sha256": file.sha256}))
    return [*found, said.Subject(name=said.PLAN, digest={"sha256": digest_of(plan_file)})]


def _tools() -> dict[str, str]:
    found = {
        "damnatio": __version__,
        "python": platform.python_version(),
        "system": f"{sys.platform} {platform.machine()}",
    }
    for name in TOOLS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
