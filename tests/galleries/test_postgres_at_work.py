import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from damnatio.galleries import postgres_connection
from damnatio.galleries.address import parse
from damnatio.galleries.opening import open_store
from damnatio.galleries.postgres_connection import conninfo
from damnatio.support.errors import DamnatioError
from tests.galleries.postgres_faces import (
    IS_WHO,
    OPTIONS,
    WHO,
    faces,
    keys_of,
    psycopg,
    purge,
    run,
)
from tests.galleries.postgres_server import database, server

pytestmark = pytest.mark.cli


@pytest.fixture
def place() -> Iterator[str]:
    with database() as address:
        run(address, "CREATE EXTENSION vector")
        yield address


# --- others at work --------------------------------------------------------------------------------------------------


def test_a_session_that_still_sees_the_rows_is_said(place: str) -> None:
    with open_store(faces(place), write=True) as store:
        keys = keys_of(store)
        with psycopg.connect(place) as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT count(*) FROM face")
            purge(store, keys)
            said = [remain for remain in store.remains() if "is in the middle of a transaction" in remain.what]
            assert [remain.command for remain in said] == ['VACUUM "face"']
        assert not keys_of(store)


def test_a_locked_table_is_one_sentence_and_nothing_is_deleted(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(postgres_connection.SETTINGS, "lock_timeout", "200ms")
    with open_store(faces(place), write=True) as store:
        keys, before = keys_of(store), store.census()
        with psycopg.connect(place) as other:
            other.execute("LOCK TABLE face IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(DamnatioError, match="locked by another session"):
                store.delete(keys)
        assert store.census() == before


def test_an_error_in_the_middle_deletes_nothing(place: str) -> None:
    address = faces(place)
    run(place, "CREATE TABLE pass (face bigint REFERENCES face (id))")
    run(place, f"INSERT INTO pass SELECT max(id) FROM face WHERE subject = '{WHO}'")
    with open_store(address, write=True) as store:
        before = store.census()
        for attempt in (store.rehearse, store.delete):  # a purge asks before it deletes from any store
            with pytest.raises(DamnatioError, match="other rows refer to these"):
                attempt(keys_of(store))
        assert store.census() == before


@pytest.mark.parametrize("steps", [0, 1])
def test_a_purge_that_is_killed_ends_when_it_runs_again(place: str, steps: int) -> None:
    address = faces(place)
    code = (
        "import os, signal, sys; from tests.galleries.postgres_faces import keys_of\n"
        "from damnatio.galleries.opening import open_store\n"
        "store = open_store(sys.argv[1], write=True); store.delete(keys_of(store))\n"
        f"for step in store.steps()[:{steps}]: step.run()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, address], check=False)
    assert done.returncode == -signal.SIGKILL
    with open_store(address, write=True) as store:
        purge(store, keys_of(store))
        assert store.census().rows == {"face": int((~IS_WHO).sum())}


# --- what cannot be reached, and bad input ---------------------------------------------------------------------------


def test_slots_publications_and_cascades_are_said(place: str) -> None:
    address = faces(place)
    run(place, "CREATE TABLE visit (face bigint REFERENCES face (id) ON DELETE CASCADE)")
    run(place, "CREATE PUBLICATION all_faces FOR TABLE face")
    run(place, "SELECT pg_create_physical_replication_slot('standby', true)")
    try:
        with open_store(address) as store:
            said = " ".join([*store.unreached(), *(remain.words for remain in store.remains())])
    finally:
        run(place, "SELECT pg_drop_replication_slot('standby')")
    assert "The replication slot standby keeps" in said
    assert "1 publications" in said
    assert "`visit`" in said
    assert "Backups" in said


def test_what_a_delete_sets_off_is_named_and_counted_inside_its_transaction(place: str) -> None:
    """Triggers on other events, and those that are switched off, set nothing off."""
    address = faces(place)
    run(place, "CREATE TABLE visit (face bigint CONSTRAINT visited REFERENCES face (id) ON DELETE SET NULL, note text)")
    run(place, "INSERT INTO visit (note) VALUES (%s), ('nobody')", [(f"with {WHO.upper().replace(' ', '_')}.",)])
    run(
        place,
        "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO face (subject, embedding) VALUES ('visitor', old.embedding); RETURN old; END $$",
    )
    for name, what in (("back", "AFTER DELETE"), ("quiet", "AFTER DELETE"), ("other", "AFTER INSERT")):
        run(place, f"CREATE TRIGGER {name} {what} ON face FOR EACH ROW EXECUTE FUNCTION again()")
    run(place, "ALTER TABLE face DISABLE TRIGGER quiet")
    run(place, "ALTER TABLE face DISABLE TRIGGER other")
    run(place, "CREATE RULE noted AS ON DELETE TO face DO ALSO NOTIFY gone")
    with open_store(address, write=True) as store:
        assert [one.name for one in store.effects()] == ["back", "noted", "visited"]
        assert [(one.place, one.rows) for one in store.mentions([WHO])] == [("visit.note", 1)]
        keys = keys_of(store)
        before, would = store.census(keys), store.rehearse(keys)
        assert would is not None
        assert (before.matched_rows, would.matched_rows) == (len(keys), 0)
        assert would.others != before.others  # the trigger puts rows back
        assert store.census(keys) == before
        run(place, "DROP TRIGGER back ON face")
        again = store.rehearse(keys)
        assert again is not None
        assert (again.matched_rows, again.others) == (0, before.others)


@pytest.fixture
def guarded(place: str) -> Iterator[str]:
    """The address of a user who needs a password."""
    rules = Path(server().pgdata) / "pg_hba.conf"
    before = rules.read_text()
    run(place, "DROP ROLE IF EXISTS guarded")
    run(place, "CREATE ROLE guarded LOGIN PASSWORD 'open sesame'")
    rules.write_text("local all guarded scram-sha-256\n" + before)
    run(place, "SELECT pg_reload_conf()")
    yield place.replace("postgres:@", "guarded:open%20sesame@")
    rules.write_text(before)
    run(place, "SELECT pg_reload_conf()")
    run(place, "DROP OWNED BY guarded")
    run(place, "DROP ROLE guarded")


def test_refused_credentials_and_missing_rights_are_one_sentence(
    place: str, guarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faces(place)
    address = f"{guarded}&{OPTIONS}"
    with pytest.raises(DamnatioError, match="password authentication failed") as caught:
        open_store(address.replace("open%20sesame", "mellon"))
    assert "mellon" not in str(caught.value)
    with pytest.raises(DamnatioError, match="may not read `face`"):
        open_store(address)
    run(place, "GRANT SELECT ON face TO guarded")
    with open_store(address) as store:
        assert "sesame" not in store.address.shown
        assert keys_of(store)
        shown = store.address.shown
        assert store.steps() == []
        assert any("guarded may not vacuum it" in remain.what for remain in store.remains())
    with pytest.raises(DamnatioError, match="may not delete from `face`"):
        open_store(address, write=True)
    run(place, "GRANT DELETE ON face TO guarded")
    with open_store(address, write=True) as store:  # who may delete need not own the table
        store.rehearse(keys_of(store))
    run(place, "REVOKE DELETE ON face FROM guarded")
    monkeypatch.setenv("PGPASSWORD", "open sesame")
    with open_store(shown) as store:  # the plan holds no password
        assert keys_of(store)
    run(place, "ALTER TABLE face ENABLE ROW LEVEL SECURITY")
    with pytest.raises(DamnatioError, match="row-level security hides rows"):
        open_store(address)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("table=fase", "no table `fase`. Did you mean 'face'"),
        ("table=face&vector=embeding", "no column `embeding`. Did you mean 'embedding'"),
        ("table=face&name=people.name", "no table `people`"),
        ("table=face&id=subject", "names 60 rows by 12 values"),
        ("table=face&vector=subject", "no column of vectors"),
        ("table=face&vector=id", "is bigint, and no vector"),
        ("data=/", "no option 'data'"),
        ("tabel=face", "no option 'tabel'. Did you mean 'table'"),
    ],
)
def test_a_wrong_column_is_one_sentence(place: str, options: str, said: str) -> None:
    faces(place)
    with pytest.raises(DamnatioError) as caught:
        open_store(f"{place}&{options}", write=True)
    assert said in str(caught.value)


def test_servers_that_are_not_there_are_one_sentence(place: str) -> None:
    with pytest.raises(DamnatioError, match="check server, database, user and password"):
        open_store(f"postgresql://nobody@127.0.0.1:1/none?{OPTIONS}")
    with pytest.raises(DamnatioError, match="does not exist"):
        open_store(server().get_uri("nothing_here"))
    with pytest.raises(DamnatioError, match="names no server"):
        open_store("postgres:faces.db")


def test_an_address_for_the_driver_has_no_options_of_ours() -> None:
    address = parse(f"postgresql+psycopg://me:a%40b@host:5433/db?sslmode=require&{OPTIONS}")
    assert conninfo(address) == "postgresql://me:a%40b@host:5433/db?sslmode=require"
    assert conninfo(parse(address.shown)) == "postgresql://me@host:5433/db?sslmode=require"
