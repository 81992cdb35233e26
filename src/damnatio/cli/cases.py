"""The verbs of a case, after `erase` made its plan: `purge`, `verify` and `keys`."""

import argparse
from pathlib import Path

from damnatio.cli.arguments import Verbs, folder, positive
from damnatio.cli.showing import say

PURGE = (
    "Carry out a plan of `damnatio erase --case`: delete exactly its items, run what each store needs until no byte is "
    "left, scan the files, search for the person again, compare everybody else, and sign OUT/record.json. Candidates "
    "are deleted only if you accept them, by the numbers in the plan. Anything that changed since the plan is a "
    "refusal, before anything is deleted. A purge that was killed goes on with the same words. Exit code 0: no row "
    "shows the person, and nothing is left in any file that was read, whatever the model's own verdict; 3: something "
    "is, or could not be seen; 2: nothing was deleted, or the message says that it is half done."
)
VERIFY = (
    "Check a record. Without options: the signature, the chain, the sums, and the hashes of the files beside it. Each "
    "option checks more; the output names every level and says whether it ran. Exit code 0: nothing failed; 3: "
    "something did; 2: it is no record, or something that was named cannot be used."
)
KEYS = (
    "Make the pair of keys that seals plans and signs records (Ed25519), or with --holder the pair of whoever keeps "
    "fingerprints (X25519). Hand the public key, or its fingerprint, to those who will check records."
)


def add(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    purge = verbs.add_parser("purge", help="carry out the plan of a case: delete, scan, sign", description=PURGE)
    purge.add_argument("plan", type=Path, metavar="PLAN", help="OUT/plan.json of `damnatio erase --case`")
    confirm = "how many items you expect to be deleted"
    purge.add_argument("--confirm", type=int, required=True, metavar="N", help=confirm)
    accept = "candidates that show the person: 3,5-8 or all; may be repeated"
    purge.add_argument("--accept", action="append", default=[], metavar="NUMBERS", help=accept)
    reject = "items that must stay: candidates that show somebody else, or anything under a legal hold"
    purge.add_argument("--reject", action="append", default=[], metavar="NUMBERS", help=reject)
    allow = "a trigger, rule, foreign key or full-text table that the delete sets off, by its name in the plan"
    purge.add_argument("--allow", action="append", default=[], metavar="NAME", help=f"{allow}; may be repeated")
    again = "a store of the plan once more, where its address needs a password, which no plan holds"
    purge.add_argument("--gallery", action="append", default=[], metavar="URI", help=again)
    purge.add_argument("--key", type=Path, metavar="FILE", help="the key that sealed the plan, and signs the record")
    holder = "also write fingerprints for later scans, which only the owner of this public key can read"
    purge.add_argument("--fingerprints-for", type=Path, metavar="FILE", help=holder)
    days = "days until fingerprints may no longer be used (365)"
    purge.add_argument("--fingerprints-days", type=positive, default=365, metavar="DAYS", help=days)
    purge.set_defaults(act=_purge, resumes=True)

    verify = verbs.add_parser("verify", help="check the signed record of an erasure", description=VERIFY)
    verify.add_argument("record", type=Path, metavar="RECORD", help="record.json")
    verify.add_argument("--key", type=Path, metavar="FILE", help="the signer's public key, from the signer")
    verify.add_argument("--previous", type=Path, metavar="RECORD", help="the record before it, to check the chain")
    verify.add_argument("--chain", type=Path, metavar="FILE", help="the signer's chain of records, to check it")
    verify.add_argument("--plan", type=Path, metavar="PLAN", help="the plan: check that each item is the record's")
    verify.add_argument("--stores", action="store_true", help="open the stores again and count")
    verify.add_argument("--gallery", action="append", default=[], metavar="URI", help="a store with its password")
    prints = "look for the deleted rows in the files of the stores again"
    verify.add_argument("--fingerprints", type=Path, metavar="FILE", help=prints)
    verify.add_argument("--holder-key", type=Path, metavar="FILE", help="the private key that opens them")
    model = "measure the rates again: the altered model, and photographs of the people"
    verify.add_argument("--model", type=Path, nargs=2, metavar=("MODEL", "FACES"), help=model)
    verify.add_argument("--pages", type=folder, metavar="FOLDER", help="write the officer's and the auditor's page")
    verify.set_defaults(act=_verify)

    keys = verbs.add_parser("keys", help="make the keys of records", description=KEYS)
    keys.add_argument("--out", type=Path, metavar="FILE", help="the private key (~/.config/damnatio/key.pem)")
    keys.add_argument("--holder", action="store_true", help="a pair for the holder of fingerprints; needs --out")
    keys.set_defaults(act=_keys)


def _purge(options: argparse.Namespace) -> int:
    from damnatio.erasure.purging.purge import Words, purge

    words = Words(
        plan=options.plan,
        confirm=options.confirm,
        accept=options.accept,
        reject=options.reject,
        allow=options.allow,
        galleries=options.gallery,
        key=options.key,
        holder=options.fingerprints_for,
        days=options.fingerprints_days,
    )
    return 0 if purge(words, say).verdict == "GONE" else 3


def _verify(options: argparse.Namespace) -> int:
    from damnatio.erasure.proving.checking import Evidence, check, lines_of

    evidence = Evidence(
        record=options.record,
        key=options.key,
        previous=options.previous,
        chain=options.chain,
        plan=options.plan,
        stores=options.stores,
        galleries=options.gallery,
        fingerprints=options.fingerprints,
        holder_key=options.holder_key,
        model=options.model[0] if options.model else None,
        faces=options.model[1] if options.model else None,
    )
    checked = check(evidence)
    for line in lines_of(checked):
        say(line)
    if options.pages:
        from damnatio.erasure.proving.pages import write_pages

        for path in write_pages(options.record, options.pages):
            say(f"Page: {path}")
    return 0 if checked.passed else 3


def _keys(options: argparse.Namespace) -> int:
    from damnatio.erasure.proving.keys import fingerprint_of_file, make_pair, usual_place
    from damnatio.support.errors import DamnatioError

    if options.holder and options.out is None:
        raise DamnatioError("--holder: say where the holder keeps the private key, with --out FILE.")
    private = options.out or usual_place()
    public = make_pair(private, holder=options.holder)
    print(f"Private key: {private}  (keep it secret and backed up; it is not encrypted: use an encrypted disk)")
    print(f"Public key: {public}")
    print(f"Fingerprint: {fingerprint_of_file(public)}")
    return 0
