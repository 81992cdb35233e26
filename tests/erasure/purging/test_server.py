"""A guest on a server: planned by a role that may only read, purged by one that may delete."""

import json
from pathlib import Path

import numpy as np
import pytest

from damnatio import erase
from damnatio.cli.main import main
from damnatio.erasure.planning.plan import Plan
from damnatio.erasure.planning.showing import lines_of
from damnatio.erasure.proving.checking import Evidence, check
from damnatio.erasure.proving.statement import read_record
from damnatio.erasure.request import Case
from tests.erasure.cases import MEMBERS, OWN, PERSON, new_world
from tests.galleries.postgres_faces import run
from tests.galleries.postgres_server import database

pytestmark = pytest.mark.cli
OPTIONS = "table=face&vector=embedding&name=subject"


def test_a_reader_plans_and_another_user_purges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = new_world(tmp_path / "world")
    with np.load(world.gallery) as file:
        rows = [(str(name), vector.tolist()) for name, vector in zip(file["names"], file["embeddings"], strict=True)]
    with database() as place:
        run(place, "CREATE TABLE face (id bigserial PRIMARY KEY, subject text, embedding real[])")
        run(place, "INSERT INTO face (subject, embedding) VALUES (%s, %s)", rows)
        run(place, "CREATE ROLE reader LOGIN")
        try:
            run(place, "GRANT SELECT ON face TO reader")
            gallery = f"{place.replace('postgres:@', 'reader@')}&{OPTIONS}"
            case = Case(id="2026-17", key=world.key)
            erase(
                world.model,
                world.people,
                out=world.out,
                gallery=gallery,
                same=["0815"],
                case=case,
                overrides=["threads=1"],
            )
            plan = Plan.model_validate(json.loads(world.plan.read_text())["plan"])
            assert any("reader may not vacuum it" in one.what for one in plan.stores[0].remains)
            assert any("will remain: The write-ahead log" in line for line in lines_of(plan, world.plan))
            assert "The write-ahead log" in (world.out / "plan.html").read_text()
            words = ["purge", str(world.plan), "--accept", "all", "--confirm", str(OWN + 1), "--key", str(world.key)]
            assert main(words) == 2
            assert "the user reader may not delete from `face`" in capsys.readouterr().err
            assert main([*words, "--gallery", f"{place}&{OPTIONS}"]) == 0
            assert "remains: The write-ahead log" in capsys.readouterr().out
            assert run(place, "SELECT count(*) FROM face") == [(MEMBERS + 2,)]
            assert run(place, f"SELECT count(*) FROM face WHERE subject = '{PERSON}'") == [(0,)]
        finally:
            run(place, "DROP OWNED BY reader")
            run(place, "DROP ROLE reader")
    predicate = read_record(world.record).statement.predicate
    (store,) = predicate.stores
    assert any("Free space in the pages" in one.what and one.command for one in store.remains)
    assert "and no row that shows the person was found afterwards" in predicate.verdict_sentence
    assert "what the server of store 1 keeps, and until when, is listed" in predicate.verdict_sentence
    assert check(Evidence(world.record)).passed
    for page in ("officer.html", "auditor.html"):
        assert "The write-ahead log" in (world.out / page).read_text()
