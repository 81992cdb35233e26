import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damnatio.galleries import postgres_connection, postgres_log
from damnatio.galleries.address import parse
from damnatio.galleries.base import Store
from damnatio.galleries.items import SHARED, Key, Sought
from damnatio.galleries.opening import open_store
from damnatio.galleries.postgres_connection import conninfo
from damnatio.galleries.scanning.scan import needles_of, scan_store
from damnatio.support.errors import DamnatioError
from tests.galleries.left import left, people
from tests.galleries.postgres_server import database, server

psycopg = pytest.importorskip("psycopg")
NAMES, VECTORS = people(12, 5)
WHO = "person 07"
IS_WHO = np.array([name == WHO for name in NAMES])
MINE = VECTORS[IS_WHO]
OPTIONS = "table=face&vector=embedding&name=subject"
pytestmark = pytest.mark.cli


@pytest.fixture
def place() -> Iterator[str]:
    with database() as address:
        run(address, "CREATE EXTENSION vector")
        yield address


def run(address: str, text: str, rows: list[tuple[Any, ...]] | None = None) -> list[tuple[Any, ...]]:
    with psycopg.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        if rows is not None:
            cursor.executemany(text, rows)
            return []
        cursor.execute(text)
        return list(cursor.fetchall()) if cursor.description else []


def faces(address: str, kind: str = "vector(512)", values: list[Any] | None = None) -> str:
    """A table of faces; returns its address."""
    run(address, f"CREATE TABLE face (id bigserial PRIMARY KEY, subject text, embedding {kind})")
    given = values or [str(vector.tolist()) for vector in VECTORS]
    text = f"INSERT INTO face (subject, embedding) VALUES (%s, %s::{kind})"
    run(address, text, list(zip(NAMES, given, strict=True)))
    return f"{address}&{OPTIONS}"


def keys_of(store: Store, name: str = WHO) -> list[Key]:
    return [item.key for item in store.find(Sought(names=[name])).items]


def purge(store: Store, keys: list[Key]) -> None:
    store.delete(keys)
    for step in store.steps():
        step.run()


def files(address: str, *names: str) -> list[Path]:
    with open_store(address) as store:
        return [path for one in store.file_classes() if one.name in names for path in one.files]


# --- what is left ----------------------------------------------------------------------------------------------------


def test_vacuum_leaves_bytes_and_the_steps_leave_none(place: str) -> None:
    address = faces(place)
    run(place, "CREATE INDEX ON face USING hnsw (embedding vector_cosine_ops)")
    run(place, f"DELETE FROM face WHERE subject = '{WHO}'")
    run(place, "VACUUM face")
    assert left(MINE, files(address, "table")) > 0
    assert left(MINE, files(address, "log")) > 0
    run(place, "VACUUM FULL face")
    assert left(MINE, files(address, "table", "index")) == 0
    assert left(MINE, files(address, "log")) > 0  # where others stop
    with open_store(address, write=True) as store:
        purge(store, [])
    assert left(MINE, files(address, "table", "index", "log", "statistics", "orphaned files")) == 0
    assert left(VECTORS[~IS_WHO][:5], files(address, "table")) > 0
    assert left(VECTORS[~IS_WHO][:5], files(address, "index")) > 0


def as_bytes(dtype: str) -> list[Any]:
    return [vector.astype(dtype).tobytes() for vector in VECTORS]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("halfvec(512)", None),
        ("real[]", [vector.tolist() for vector in VECTORS]),
        ("double precision[]", [vector.tolist() for vector in VECTORS]),
        ("bytea", as_bytes("<f4")),
        ("bytea", as_bytes("<f8")),
        ("text", None),
    ],
)
def test_vectors_of_every_type_are_read_deleted_and_seen_by_the_scan(place: str, kind: str, values: Any) -> None:
    with open_store(faces(place, kind, values), write=True) as store:
        held = np.concatenate([block.vectors for block in store.blocks("face") if block.vectors is not None])
        np.testing.assert_allclose(held.astype(np.float32), VECTORS, atol=1e-3 if kind == "halfvec(512)" else 0)
        keys = keys_of(store)
        person = needles_of(store, keys)
        before = {one.name: one for one in scan_store(store, person, keys).classes}
        assert before["table"].found > 0.5 * before["table"].fragments
        purge(store, keys)
        scan = scan_store(store, person, keys)
        assert scan.verdict == "GONE", scan
        assert {one.name for one in scan.classes if one.control_found} == {"table", "log"}
        assert [hit[0].key for hit in store.search(MINE[:2], 1)] != keys[:2]
        assert store.add("new", MINE[:2]) == [hit[0].key for hit in store.search(MINE[:2], 1)]


def test_short_vectors_are_gone_from_the_statistics(place: str) -> None:
    names, vectors = people(12, 5, dim=64)
    mine = vectors[[name == WHO for name in names]]
    run(place, "CREATE TABLE face (id bigserial PRIMARY KEY, subject text, embedding vector(64))")
    rows = [(name, str(vector.tolist())) for name, vector in zip(names, vectors, strict=True)]
    run(place, "INSERT INTO face (subject, embedding) VALUES (%s, %s::vector)", rows)
    run(place, "ANALYZE face")
    with open_store(f"{place}&{OPTIONS}", write=True) as store:
        keys = keys_of(store)
        person = needles_of(store, keys)
        purge(store, keys)
        statistics = {one.name: one for one in store.file_classes()}["statistics"].files
        assert left(mine, statistics) == 0
        assert left(vectors, statistics) > 0
        scan = scan_store(store, person, keys)
        assert scan.verdict == "GONE", scan
        assert {one.name for one in scan.classes if one.control_found} == {"table", "statistics", "log"}


def test_a_table_without_a_key_and_with_parts(place: str) -> None:
    run(place, "CREATE SCHEMA people")
    run(place, "CREATE TABLE people.face (subject text, v real[]) PARTITION BY HASH (subject)")
    for part in range(2):
        text = f"CREATE TABLE people.f{part} PARTITION OF people.face FOR VALUES WITH (MODULUS 2, REMAINDER {part})"
        run(place, text)
    rows = [(name, vector.tolist()) for name, vector in zip(NAMES, VECTORS, strict=True)]
    run(place, "INSERT INTO people.face VALUES (%s, %s)", [*rows, *rows[:3]])
    with open_store(f"{place}&table=people.face&vector=v&name=subject", write=True) as store:
        items = store.find(Sought(names=[WHO])).items
        assert sum(item.copies for item in items) == IS_WHO.sum() + IS_WHO[:3].sum()
        keys = [item.key for item in items]
        person, before = needles_of(store, keys), store.census(keys)
        purge(store, keys)
        after = store.census(keys)
        assert after.others == before.others
        assert after.matched_rows == 0
        assert scan_store(store, person, keys).verdict == "GONE"
        assert store.add("new", MINE[:1]) == [hit[0].key for hit in store.search(MINE[:1], 1)]


# --- known databases -------------------------------------------------------------------------------------------------

IMMICH = """
CREATE TABLE person (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name varchar NOT NULL DEFAULT '',
    "thumbnailPath" varchar NOT NULL DEFAULT '', "faceAssetId" uuid);
CREATE TABLE asset_face (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), "assetId" uuid NOT NULL, "personId" uuid
    REFERENCES person (id) ON DELETE SET NULL, "boundingBoxX1" int NOT NULL DEFAULT 0);
ALTER TABLE person ADD FOREIGN KEY ("faceAssetId") REFERENCES asset_face (id) ON DELETE SET NULL;
CREATE TABLE face_search ("faceId" uuid PRIMARY KEY REFERENCES asset_face (id) ON DELETE CASCADE,
    embedding vector(512) NOT NULL);
CREATE INDEX face_index ON face_search USING hnsw (embedding vector_cosine_ops);
INSERT INTO person (name) VALUES ('Ann'), ('Bob');
"""
COMPREFACE = """
CREATE TABLE subject (id uuid PRIMARY KEY, api_key varchar(36) NOT NULL, subject_name varchar(255) NOT NULL);
CREATE TABLE img (id uuid PRIMARY KEY, content bytea);
CREATE TABLE embedding (id uuid PRIMARY KEY, subject_id uuid NOT NULL REFERENCES subject (id), embedding float8[] NOT
    NULL, calculator varchar(255) NOT NULL, img_id uuid REFERENCES img (id));
INSERT INTO subject VALUES (gen_random_uuid(), 'key', 'Ann'), (gen_random_uuid(), 'key', 'Bob');
"""
DEEPFACE = """
CREATE TABLE embeddings (id bigserial PRIMARY KEY, img_name text NOT NULL, face jsonb NOT NULL,
    model_name text NOT NULL, detector_backend text NOT NULL, aligned boolean DEFAULT true,
    l2_normalized boolean DEFAULT false, embedding float8[] NOT NULL, created_at timestamptz DEFAULT now(),
    face_hash bytea NOT NULL, embedding_hash bytea NOT NULL, UNIQUE (face_hash, embedding_hash));
CREATE TABLE embeddings_index (id serial PRIMARY KEY, model_name text, detector_backend text, align bool,
    l2_normalized bool, index_data bytea, created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now(),
    UNIQUE (model_name, detector_backend, align, l2_normalized));
"""


def test_immich_is_recognised_and_its_faces_go_with_their_vectors(place: str) -> None:
    run(place, IMMICH)
    for row in range(20):
        who = "Ann" if row % 4 == 0 else "Bob"
        run(
            place,
            f'WITH f AS (INSERT INTO asset_face ("assetId", "personId") SELECT gen_random_uuid(), id FROM person '
            f"WHERE name = '{who}' RETURNING id) INSERT INTO face_search SELECT id, '{VECTORS[row].tolist()}' FROM f",
        )
    mine = VECTORS[0:20:4]
    with open_store(place, write=True) as store:
        keys = keys_of(store, "Ann")
        assert {key.place for key in keys} == {"face_search"}
        assert len(keys) == 5
        person, before = needles_of(store, keys), store.census(keys)
        purge(store, keys)
        assert store.census(keys).others == before.others
        scan = scan_store(store, person, keys)
        assert scan.verdict == "GONE", scan
        assert left(mine, [path for one in store.file_classes() for path in one.files]) == 0
        assert any("thumbnails" in sentence for sentence in store.unreached())
        with pytest.raises(DamnatioError, match="enrols people from photographs only"):
            store.add("Ann", mine)
    assert run(place, "SELECT count(*) FROM asset_face") == [(15,)]


def test_the_photographs_of_compreface_are_found_even_those_that_it_forgot(place: str) -> None:
    run(place, COMPREFACE)
    random = np.random.default_rng(0)
    photographs = [random.bytes(3000) for _ in range(7)]
    for row in range(6):
        who = "Ann" if row < 3 else "Bob"
        with psycopg.connect(place) as connection:
            connection.execute(
                "WITH i AS (INSERT INTO img VALUES (gen_random_uuid(), %s) RETURNING id) INSERT INTO embedding SELECT "
                "gen_random_uuid(), s.id, %s, 'facenet', i.id FROM subject s, i WHERE subject_name = %s",
                [photographs[row], VECTORS[row].tolist(), who],
            )
    shared = "UPDATE embedding SET img_id = (SELECT min(img_id::text)::uuid FROM embedding e JOIN subject s ON s.id = "
    run(place, f"{shared} e.subject_id WHERE subject_name = 'Ann') WHERE embedding[1] = {VECTORS[5].tolist()[0]!r}")
    with psycopg.connect(place) as connection:  # as CompreFace's own delete leaves it
        connection.execute("INSERT INTO img VALUES (gen_random_uuid(), %s)", [photographs[6]])
    with open_store(place, write=True) as store:
        items = store.find(Sought(names=["Ann"])).items
        kinds = [(item.kind, item.how) for item in items]
        assert kinds.count(("template", "name")) == 3
        assert kinds.count(("photograph", "attached")) == 3
        assert kinds.count(("photograph", "orphan")) == 2  # Bob's own, which nothing refers to any more, and the other
        flagged = [item for item in items if SHARED in item.flags]
        assert len(flagged) == 1
        keys = [item.key for item in items if item not in flagged]
        with pytest.raises(DamnatioError, match="other rows refer to these"):
            store.delete([item.key for item in flagged])
        person, before = needles_of(store, keys), store.census(keys)
        assert len(person.contents) > 100
        purge(store, keys)
        assert store.census(keys).others == before.others
        scan = scan_store(store, person, keys)
        assert scan.verdict == "GONE", scan
        assert len(store.add("Ann", VECTORS[:1])) == 1
        assert len(keys_of(store, "Ann")) == 1
    assert run(place, "SELECT count(*) FROM img") == [(3,)]


def test_the_index_of_deepface_is_built_anew_in_the_same_transaction(place: str) -> None:
    faiss = pytest.importorskip("faiss")
    run(place, DEEPFACE)
    rows = [
        (name, json.dumps([0.5] * 9), vector.tolist(), bytes([row]), bytes([row]))
        for row, (name, vector) in enumerate(zip(NAMES, VECTORS, strict=True))
    ]
    text = (
        "INSERT INTO embeddings (img_name, face, model_name, detector_backend, embedding, face_hash, embedding_hash) "
    )
    run(place, text + "VALUES (%s, %s, 'ArcFace', 'opencv', %s, %s, %s)", rows)
    index = faiss.IndexIDMap(faiss.IndexHNSWFlat(512, 8))
    index.add_with_ids(VECTORS, np.arange(1, len(VECTORS) + 1))
    with psycopg.connect(place) as connection:
        connection.execute(
            "INSERT INTO embeddings_index (model_name, detector_backend, align, l2_normalized, index_data) "
            "VALUES ('ArcFace', 'opencv', true, false, %s)",
            [faiss.serialize_index(index).tobytes()],
        )
    with open_store(place, write=True) as store:
        items = store.find(Sought(names=[WHO])).items
        assert [item.place for item in items if item.kind == "index"] == ["embeddings_index"]
        keys = [item.key for item in items]
        person, before = needles_of(store, keys), store.census(keys)
        purge(store, keys)
        assert store.census(keys).others == before.others
        scan = scan_store(store, person, keys)
        assert scan.verdict == "GONE", scan
        assert {one.name for one in scan.classes} >= {"table", "index blobs", "log"}
        assert len(store.add("new", MINE[:1])) == 1
    ((content,),) = run(place, "SELECT index_data FROM embeddings_index")
    built = faiss.deserialize_index(np.frombuffer(content, np.uint8))
    assert set(faiss.vector_to_array(built.id_map)) == set((np.flatnonzero(~IS_WHO) + 1).tolist())


# --- others at work --------------------------------------------------------------------------------------------------


def test_a_session_that_still_sees_the_rows_stops_the_vacuum(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_log, "WAIT", 0.3)
    with open_store(faces(place), write=True) as store:
        keys = keys_of(store)
        with psycopg.connect(place) as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT count(*) FROM face")
            store.delete(keys)
            with pytest.raises(DamnatioError, match=r"process \d+ still sees the deleted rows"):
                store.steps()[0].run()
        purge(store, keys)
        assert left(MINE, [path for one in store.file_classes() for path in one.files]) == 0


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
        with pytest.raises(DamnatioError, match="other rows refer to these"):
            store.delete(keys_of(store))
        assert store.census() == before


def test_the_settings_are_put_back_also_after_a_kill(place: str) -> None:
    address = faces(place)
    with open_store(address, write=True) as store:
        store.steps()[-1].run()
    assert run(place, "SHOW wal_recycle") == [("on",)]
    run(place, f"ALTER SYSTEM SET wal_recycle = '{postgres_log.OURS}'")  # as a killed process leaves it
    run(place, "SELECT pg_reload_conf()")
    with open_store(address, write=True):
        pass
    assert run(place, "SELECT count(*) FROM pg_file_settings WHERE name = 'wal_recycle'") == [(0,)]


@pytest.mark.parametrize("steps", [0, 1])
def test_a_purge_that_is_killed_ends_when_it_runs_again(place: str, steps: int) -> None:
    address = faces(place)
    code = (
        "import os, signal, sys; from tests.galleries.test_postgres import keys_of\n"
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
        assert left(MINE, [path for one in store.file_classes() for path in one.files]) == 0


# --- what cannot be reached, and bad input ---------------------------------------------------------------------------


def test_files_of_a_server_elsewhere_are_unreached(place: str, tmp_path: Path) -> None:
    with open_store(f"{faces(place)}&data={tmp_path}", write=True) as store:
        keys = keys_of(store)
        person = needles_of(store, keys)
        purge(store, keys)
        scan = scan_store(store, person, keys)
        assert scan.verdict == "UNREACHED"
        assert "run this on its machine" in scan.classes[0].reason
    (tmp_path / "global").mkdir()
    (tmp_path / "global" / "pg_control").write_bytes(bytes(8192))
    with open_store(f"{place}&{OPTIONS}&data={tmp_path}") as store:
        assert "another server" in store.file_classes()[0].unreached


def test_slots_publications_and_cascades_are_said(place: str) -> None:
    address = faces(place)
    run(place, "CREATE TABLE visit (face bigint REFERENCES face (id) ON DELETE CASCADE)")
    run(place, "CREATE PUBLICATION all_faces FOR TABLE face")
    run(place, "SELECT pg_create_physical_replication_slot('standby', true)")
    try:
        with open_store(address) as store:
            said = " ".join(store.unreached())
    finally:
        run(place, "SELECT pg_drop_replication_slot('standby')")
    assert "1 replication slots" in said
    assert "1 publications" in said
    assert "`visit`" in said
    assert "Backups" in said


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
        assert store.file_classes()[0].unreached
        assert any("only a superuser" in sentence for sentence in store.unreached())
    with pytest.raises(DamnatioError, match="may not delete from `face`"):
        open_store(address, write=True)
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
        ("data=/", "no tables of deepface"),
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
