import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from damnatio.galleries.items import SHARED, Sought
from damnatio.galleries.opening import open_store
from damnatio.support.errors import DamnatioError
from tests.galleries.postgres_faces import (
    IS_WHO,
    MINE,
    NAMES,
    VECTORS,
    WHO,
    faces,
    keys_of,
    psycopg,
    purge,
    run,
)
from tests.galleries.postgres_server import database

pytestmark = pytest.mark.cli


@pytest.fixture
def place() -> Iterator[str]:
    with database() as address:
        run(address, "CREATE EXTENSION vector")
        yield address


# --- a guest ---------------------------------------------------------------------------------------------------------

SETTINGS = "SELECT count(*), max(modification::text) FROM pg_file_settings, pg_stat_file('postgresql.auto.conf')"
FILES = "SELECT pg_relation_filenode('face'), pg_relation_filenode('pg_catalog.pg_statistic')"


def test_a_purge_changes_no_setting_and_no_catalogue_and_writes_no_table_anew(place: str) -> None:
    address = faces(place)
    run(place, "ANALYZE face")
    before = run(place, SETTINGS), run(place, FILES), run(place, "SELECT pg_conf_load_time()")
    with open_store(address, write=True) as store:
        assert [step.command for step in store.steps()] == ['VACUUM (ANALYZE) "face"']
        purge(store, keys_of(store))
    assert (run(place, SETTINGS), run(place, FILES), run(place, "SELECT pg_conf_load_time()")) == before
    assert run(place, "SELECT count(*) FROM face") == [(int((~IS_WHO).sum()),)]
    assert run(place, "SELECT last_vacuum IS NOT NULL FROM pg_stat_user_tables WHERE relname = 'face'") == [(True,)]


def test_what_the_server_keeps_is_said_with_its_end_and_its_command(place: str) -> None:
    with open_store(faces(place), write=True) as store:
        found = store.remains()
    said = {remain.what: remain for remain in found}
    assert all(remain.what and remain.until and remain.command for remain in found)
    (pages,) = [remain for what, remain in said.items() if "Free space in the pages of face" in what]
    assert pages.command.startswith('VACUUM (FULL, ANALYZE) "face"')
    (log,) = [remain for what, remain in said.items() if "write-ahead log" in what]
    assert "checkpoint_timeout = 300 s" in log.until
    assert "wal_keep_size = 0 MB" in log.until
    assert any("pg_statistic" in what for what in said)
    assert any("Backups" in what for what in said)


# --- columns ---------------------------------------------------------------------------------------------------------


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
def test_vectors_of_every_type_are_read_deleted_and_searched(place: str, kind: str, values: Any) -> None:
    with open_store(faces(place, kind, values), write=True) as store:
        held = np.concatenate([block.vectors for block in store.blocks("face") if block.vectors is not None])
        np.testing.assert_allclose(held.astype(np.float32), VECTORS, atol=1e-3 if kind == "halfvec(512)" else 0)
        keys = keys_of(store)
        purge(store, keys)
        assert not keys_of(store)
        assert [hit[0].key for hit in store.search(MINE[:2], 1)] != keys[:2]
        assert store.add("new", MINE[:2]) == [hit[0].key for hit in store.search(MINE[:2], 1)]


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
        before = store.census(keys)
        purge(store, keys)
        after = store.census(keys)
        assert after.others == before.others
        assert after.matched_rows == 0
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
    with open_store(place, write=True) as store:
        keys = keys_of(store, "Ann")
        assert {key.place for key in keys} == {"face_search"}
        assert len(keys) == 5
        before = store.census(keys)
        purge(store, keys)
        assert store.census(keys).others == before.others
        assert not keys_of(store, "Ann")
        assert any("thumbnails" in sentence for sentence in store.unreached())
        with pytest.raises(DamnatioError, match="enrols people from photographs only"):
            store.add("Ann", VECTORS[:1])
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
        before = store.census(keys)
        purge(store, keys)
        assert store.census(keys).others == before.others
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
        before = store.census(keys)
        purge(store, keys)
        assert store.census(keys).others == before.others
        assert len(store.add("new", MINE[:1])) == 1
    ((content,),) = run(place, "SELECT index_data FROM embeddings_index")
    built = faiss.deserialize_index(np.frombuffer(content, np.uint8))
    assert set(faiss.vector_to_array(built.id_map)) == set((np.flatnonzero(~IS_WHO) + 1).tolist())
