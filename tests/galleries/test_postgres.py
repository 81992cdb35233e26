import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damnatio.galleries.items import SHARED, Sought
from damnatio.galleries.opening import open_store
from damnatio.galleries.scanning.scan import needles_of, scan_store
from damnatio.support.errors import DamnatioError
from tests.galleries.left import left, people
from tests.galleries.postgres_faces import (
    IS_WHO,
    MINE,
    NAMES,
    OPTIONS,
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
