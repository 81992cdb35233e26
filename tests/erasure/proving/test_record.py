"""The record: signed as others can check it, without a name, and found out when it is changed."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from damnatio.cli.main import main
from damnatio.erasure.planning.plan import read_plan
from damnatio.erasure.proving.chain import Link, add_link, chain_of
from damnatio.erasure.proving.checking import Evidence, check
from damnatio.erasure.proving.envelope import canonical, signed
from damnatio.erasure.proving.keys import make_pair, public_of, signing_key
from damnatio.erasure.proving.masking import masked
from damnatio.erasure.proving.statement import read_record
from damnatio.support.errors import DamnatioError
from tests.erasure.cases import ALIAS, PERSON, World, planned
from tests.erasure.purging.test_purge import ACCEPTED


@pytest.fixture
def done(world: World) -> World:
    assert main(["purge", str(world.plan), *ACCEPTED]) == 0
    return world


def outcomes(evidence: Evidence) -> dict[str, str]:
    return {level.name: level.outcome for level in check(evidence).levels}


def payload_of(path: Path) -> dict[str, Any]:
    return dict(json.loads(base64.b64decode(json.loads(path.read_text())["payload"])))


def test_the_signature_is_one_of_dsse_over_a_statement_of_in_toto(done: World) -> None:
    """As its specification says, without our code."""
    envelope = json.loads(done.record.read_text())
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"]
    assert kind == "application/vnd.in-toto+json"
    to_sign = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    key = load_pem_public_key(public_of(done.key).read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    (signature,) = envelope["signatures"]
    key.verify(base64.b64decode(signature["sig"]), to_sign)
    with pytest.raises(InvalidSignature):
        key.verify(base64.b64decode(signature["sig"]), to_sign + b" ")
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "urn:damnatio:erasure:v1"
    names = [one["name"] for one in statement["subject"]]
    assert len(set(names)) == len(names)
    assert all(len(one["digest"]["sha256"]) == 64 for one in statement["subject"])


def test_the_record_holds_no_name_no_id_and_no_biometric_data(done: World, kept: tuple[World, Path]) -> None:
    text = json.dumps(payload_of(done.record), ensure_ascii=False)
    plan = read_plan(done.plan, signing_key(done.key))
    files = [path for path in done.people.rglob("*") if path.is_file()]
    with np.load(kept[1] / "gallery.npz") as before:
        gone = before["embeddings"][np.isin(before["names"], [PERSON, ALIAS])]
    secrets = {PERSON, f'"{ALIAS}"', plan.items[0].item.name}
    secrets |= {one.item.id for one in plan.items} | {one.item.id[:12] for one in plan.items}
    secrets |= {path.name for path in files} | {str(path) for path in files}
    secrets |= {f"{one.item.score:.4f}" for one in plan.items if one.item.score is not None}
    for value in gone.ravel():
        secrets |= {repr(float(value))[:9], f"{value:.6g}"}
    for row in gone:
        for start in range(0, len(row), 4):
            content = row[start : start + 4].tobytes()
            secrets |= {content.hex(), base64.b64encode(content).decode().rstrip("=")}
    assert len(secrets) > 1_000
    found = sorted(secret for secret in secrets if secret in text)
    assert not found
    assert len(gone) == 4


def test_names_in_addresses_and_commands_are_masked() -> None:
    content = {"a": "rm -f /photos/Ann_Lee/x.jpg", "b": ["faces:/annlee/", "ANN%20LEE"], "c": 3, "d": "Annabel Leeds"}
    assert masked("/data/AnnLee01.jpg ann-lee2 Bann Lee", ["Ann Lee"]) == "/data/[name]01.jpg [name]2 Bann [name]"
    decomposed = "Zoe" + chr(0x308)
    assert masked(f"Zo\u00eb |{decomposed}|Zo%C3%AB", [decomposed]) == "[name] |[name]|[name]"
    assert masked(content, ["Ann Lee"]) == {
        "a": "rm -f /photos/[name]/x.jpg",
        "b": ["faces:/[name]/", "[name]"],
        "c": 3,
        "d": "Annabel Leeds",
    }


def test_every_level_that_can_run_passes(done: World) -> None:
    found = outcomes(Evidence(done.record, key=public_of(done.key), plan=done.plan, stores=True))
    passed = ["signature", "sums", "chain", "files", "items", "stores"]
    assert found == {**dict.fromkeys(passed, "passed"), "rescan": "not run", "rates": "not run"}


@pytest.mark.cli
def test_the_command_names_the_levels(done: World, capsys: pytest.CaptureFixture[str]) -> None:
    model = done.out / "model-GS.safetensors"
    words = ["verify", str(done.record), "--stores", "--model", str(model), str(done.people)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "Checked: signature, sums, chain, files, stores, rates. All passed." in out
    assert "0 of 28 pairs of photographs are linked" in out
    assert main(["verify", str(done.record), "--model", str(done.model), str(done.people)]) == 3
    out = capsys.readouterr().out
    assert "FAILED: files, rates" in out  # the model before links them


def test_a_row_that_comes_back_is_seen(done: World, kept: tuple[World, Path]) -> None:
    done.gallery.write_bytes((kept[1] / "gallery.npz").read_bytes())
    (level,) = [level for level in check(Evidence(done.record, stores=True)).levels if level.name == "stores"]
    assert level.outcome == "unsure"
    assert "66 rows, 62 after the purge" in level.words


def resigned(world: World, change: Callable[[dict[str, Any]], None]) -> None:
    """The record as its own signer could forge it."""
    content = payload_of(world.record)
    change(content["predicate"])
    world.record.write_text(signed(canonical(content), signing_key(world.key)).text)


def test_a_changed_record_fails(done: World, capsys: pytest.CaptureFixture[str]) -> None:
    envelope = json.loads(done.record.read_text())
    content = payload_of(done.record)
    content["predicate"]["case"] = "2026-18"
    envelope["payload"] = base64.b64encode(canonical(content)).decode()
    done.record.write_text(json.dumps(envelope))
    assert main(["verify", str(done.record)]) == 3
    assert "signature  failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p["items"].pop(), "3 items are listed, and 4 were deleted"),
        (lambda p: p["stores"][0]["classes"][0].update(found_after=5), "has fragments left"),
        (lambda p: p["stores"][0]["classes"][0].update(control_found=0), "is GONE without a control"),
        (lambda p: p["stores"][0].update(verdict="BLIND"), "is not the worst of its files"),
        (lambda p: p.update(verdict_sentence="All is well."), "the sentence says another thing"),
    ],
)
def test_a_record_that_contradicts_itself_fails(
    done: World, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    resigned(done, change)
    found = {level.name: level for level in check(Evidence(done.record)).levels}
    assert found["signature"].outcome == "passed"
    assert found["sums"].outcome == "failed"
    assert words in found["sums"].words


def test_another_signer(done: World) -> None:
    make_pair(done.root / "other.pem")
    assert outcomes(Evidence(done.record, key=done.root / "other.pub.pem"))["signature"] == "failed"


def test_another_plan_or_model_beside_it(done: World) -> None:
    (done.out / "model-GS.safetensors").write_bytes(b"another")
    assert outcomes(Evidence(done.record))["files"] == "failed"


def test_an_item_that_is_not_of_the_plan(done: World) -> None:
    resigned(done, lambda p: p["items"][0].update(hmac="0" * 64))
    assert outcomes(Evidence(done.record, plan=done.plan))["items"] == "failed"
    (done.out / "record.key").unlink()
    with pytest.raises(DamnatioError, match="nobody can say which rows the items were"):
        check(Evidence(done.record, plan=done.plan))


def test_what_is_no_record(done: World, capsys: pytest.CaptureFixture[str]) -> None:
    whole = done.record.read_text()
    for text, words in (
        (whole[:-100], "was cut short, or is something else"),
        ("{}", "was cut short, or is something else"),
        (done.plan.read_text(), "was cut short, or is something else"),
        (signed(b"{}", signing_key(done.key)).text, "no statement of an erasure"),
        (signed(b"{}", signing_key(done.key), "text/plain").text, "holds text/plain"),
    ):
        done.record.write_text(text)
        assert main(["verify", str(done.record)]) == 2
        assert words in capsys.readouterr().err
    with pytest.raises(DamnatioError, match="There is no record"):
        read_record(done.root / "nowhere.json")
    content = json.loads(base64.b64decode(json.loads(whole)["payload"]))
    content["predicate"]["format"] = 99
    done.record.write_text(signed(canonical(content), signing_key(done.key)).text)
    assert main(["verify", str(done.record)]) == 2
    assert "this damnatio reads 2: use a newer one" in capsys.readouterr().err


@pytest.mark.cli
def test_each_record_names_the_one_before_it(done: World) -> None:
    first = done.root / "first.json"
    first.write_bytes(done.record.read_bytes())
    done.out.rename(done.root / "out-1")
    planned(done, same=[])
    assert main(["purge", str(done.plan), "--confirm", "0"]) == 0
    chain = chain_of(done.key)
    second = Evidence(done.record, previous=first, chain=chain)
    assert read_record(done.record).statement.predicate.number == 2
    assert outcomes(second)["chain"] == "passed"
    assert outcomes(Evidence(done.record))["chain"] == "not run"
    assert outcomes(Evidence(done.record, previous=done.record))["chain"] == "failed"
    lines = chain.read_text().splitlines()
    chain.write_text(lines[1] + "\n")
    with pytest.raises(DamnatioError, match="lacks records"):
        check(second)
    other = json.loads(lines[0]) | {"sha256": "0" * 64}
    chain.write_text(json.dumps(other) + "\n" + lines[1] + "\n")
    assert outcomes(second)["chain"] == "failed"


def test_keys_are_never_overwritten(done: World, capsys: pytest.CaptureFixture[str]) -> None:
    before = done.key.read_bytes()
    assert main(["keys"]) == 2
    assert "a key is never overwritten" in capsys.readouterr().err
    assert done.key.read_bytes() == before
    assert done.key.stat().st_mode & 0o777 == 0o600


@pytest.mark.cli
def test_a_record_whose_place_another_took_is_made_anew(world: World) -> None:
    """A purge that was killed after it wrote its record, and before it was in the chain; then another record came."""
    with pytest.MonkeyPatch.context() as patch:

        def stop(path: Path, link: object) -> None:
            raise KeyboardInterrupt

        patch.setattr("damnatio.erasure.proving.signing.add_link", stop)
        assert main(["purge", str(world.plan), *ACCEPTED]) == 130
    assert world.record.exists()
    other = Link(number=1, case="other", signed="2026-01-01T00:00:00Z", sha256="1" * 64)
    add_link(chain_of(world.key), other)
    assert main(["purge", str(world.plan), *ACCEPTED]) == 0
    predicate = read_record(world.record).statement.predicate
    assert (predicate.number, predicate.previous) == (2, other.sha256)
    assert outcomes(Evidence(world.record, chain=chain_of(world.key)))["chain"] == "passed"


def test_a_record_of_another_plan_is_not_taken_for_this_ones(
    done: World, kept: tuple[World, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    resigned(done, lambda p: p.update(case="2026-99"))
    content = payload_of(done.record)
    content["subject"][-1]["digest"]["sha256"] = "0" * 64
    done.record.write_text(signed(canonical(content), signing_key(done.key)).text)
    assert main(["purge", str(done.plan), *ACCEPTED]) == 2
    assert "is no record of this plan" in capsys.readouterr().err


def test_rows_that_nobody_planned_to_delete_are_a_contradiction(done: World) -> None:
    def forge(p: dict[str, Any]) -> None:
        p["stores"][0]["neighbours"].update(rows_before=70, deleted=8)

    resigned(done, forge)
    found = {level.name: level for level in check(Evidence(done.record)).levels}
    assert "lost 8 rows, and 4 were to be deleted" in found["sums"].words
