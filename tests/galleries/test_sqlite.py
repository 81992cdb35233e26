import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from damnatio.galleries.base import Store
from damnatio.galleries.items import SHARED, Key, Sought
from damnatio.galleries.opening import open_store
from damnatio.galleries.scanning.scan import needles_of, scan_store
from damnatio.support.errors import DamnatioError
from tests.galleries.left import left, people, pieces
from tests.galleries.worlds.sqlite import world

NAMES, VECTORS = people()
WHO = "person 07"
IS_WHO = np.array([name == WHO for name in NAMES])
MINE = VECTORS[IS_WHO]
INSIGHTFACE = """
CREATE TABLE people (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, cover_face_sample_id INTEGER);
CREATE TABLE face_samples (id INTEGER PRIMARY KEY AUTOINCREMENT, person_id INTEGER, crop_path TEXT, embedding BLOB,
    embedding_dim INTEGER, model_name TEXT, provider TEXT);
CREATE TABLE media_items (id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT UNIQUE, thumbnail BLOB);
CREATE TABLE media_faces (id INTEGER PRIMARY KEY AUTOINCREMENT, media_id INTEGER, thumbnail BLOB, embedding BLOB,
    embedding_dim INTEGER, assigned_person_id INTEGER, predicted_person_id INTEGER);
"""


@pytest.fixture
def deepface(tmp_path: Path) -> Iterator[Path]:
    with world(tmp_path, NAMES, VECTORS) as address:
        yield Path(address)


def keys_of(store: Store, name: str = WHO) -> list[Key]:
    return [item.key for item in store.find(Sought(names=[name])).items]


def purge(store: Store, name: str = WHO) -> None:
    store.delete(keys_of(store, name))
    for step in store.steps():
        step.run()


def made(path: Path, script: str, many: str = "", rows: list[tuple[object, ...]] | None = None) -> str:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
        if rows:
            database.executemany(many, rows)
        database.commit()
    return str(path)


# --- what is left ----------------------------------------------------------------------------------------------------


def test_an_ordinary_delete_leaves_bytes_and_the_steps_leave_none(deepface: Path) -> None:
    stored = MINE.astype("<f8")
    with closing(sqlite3.connect(deepface)) as database:
        database.execute("PRAGMA secure_delete = OFF")
        database.execute("DELETE FROM embeddings WHERE img_name = ?", [WHO])
        database.commit()
    assert left(stored, [deepface]) > 0.9 * len(pieces(stored))
    with open_store(str(deepface), write=True) as store:
        assert keys_of(store) == []  # gone for whoever asks the database
        purge(store)
    assert left(stored, [deepface]) == 0
    assert left(VECTORS[~IS_WHO][:5].astype("<f8"), [deepface]) > 0


def test_the_log_of_a_database_is_cut_off(deepface: Path) -> None:
    log = deepface.with_name("faces.db-wal")
    with closing(sqlite3.connect(deepface)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        database.execute("UPDATE embeddings SET aligned = 0")
        database.commit()
        shutil.copy(log, log.with_name("kept"))
    shutil.move(log.with_name("kept"), log)  # as a process that is killed leaves it
    stored = MINE.astype("<f8")
    assert left(stored, [log]) > 0
    with open_store(str(deepface), write=True) as store:
        keys = keys_of(store)
        person = needles_of(store, keys)
        assert {one.name: one.found > 0 for one in scan_store(store, person, keys).classes}["log"]
        purge(store)
        scan = scan_store(store, person, keys)
        assert scan.verdict == "GONE", scan
    assert left(stored, [deepface] + [log] * log.exists()) == 0


def test_a_journal_that_was_kept_goes_too(deepface: Path) -> None:
    journal = deepface.with_name("faces.db-journal")
    with closing(sqlite3.connect(deepface)) as database:
        database.execute("PRAGMA journal_mode = PERSIST")
        database.execute("PRAGMA secure_delete = OFF")
        database.execute("UPDATE embeddings SET embedding = zeroblob(4096) WHERE img_name = ?", [WHO])
        database.commit()
    stored = MINE.astype("<f8")
    assert left(stored, [journal]) > 0
    with open_store(str(deepface), write=True) as store:
        assert journal in next(one for one in store.file_classes() if one.name == "journal").files
        purge(store)
    assert left(stored, [deepface] + [journal] * journal.exists()) == 0


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["float32", "float64", "npy", "json", "words"])
def test_vectors_are_read_however_they_are_written(tmp_path: Path, spelling: str) -> None:
    def written(vector: NDArray[np.float32]) -> object:
        if spelling == "npy":
            import io

            file = io.BytesIO()
            np.save(file, vector)
            return file.getvalue()
        if spelling in ("json", "words"):
            text = str([float(number) for number in vector])
            return text if spelling == "json" else text.strip("[]").replace(",", "")
        return vector.astype(spelling).tobytes()

    rows = [(name, written(vector)) for name, vector in zip(NAMES, VECTORS, strict=True)]
    path = made(tmp_path / "a.db", "CREATE TABLE face (who TEXT, v)", "INSERT INTO face VALUES (?, ?)", list(rows))
    with open_store(f"{path}?table=face&vector=v&name=who", write=True) as store:
        held = np.concatenate([block.vectors for block in store.blocks("face") if block.vectors is not None])
        np.testing.assert_array_equal(held.astype(np.float32), VECTORS)
        keys = keys_of(store)
        person = needles_of(store, keys)
        assert len(keys) == IS_WHO.sum()  # no ids: rows are named by their contents
        purge(store)
        assert scan_store(store, person, keys).verdict == "GONE"
        assert store.census().rows == {"face": int((~IS_WHO).sum())}
        assert [hit[0].key for hit in store.search(MINE[:1], 1)] != keys[:1]
        added = store.add("new", MINE[:2])
        assert [hit[0].key for hit in store.search(MINE[:2], 1)] == added


def test_a_name_in_another_table_is_followed(tmp_path: Path) -> None:
    script = (
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE face (id TEXT PRIMARY KEY, "
        "person INTEGER REFERENCES people (id), v BLOB); INSERT INTO people VALUES (1, 'Ann'), (2, 'Bob')"
    )
    rows: list[tuple[object, ...]] = [(f"f{row}", row % 2 + 1, VECTORS[row].tobytes()) for row in range(6)]
    path = made(tmp_path / "a.db", script, "INSERT INTO face VALUES (?, ?, ?)", rows)
    with open_store(f"sqlite:{path}?table=face&vector=v&name=people.name", write=True) as store:
        assert keys_of(store, "Bob") == [Key("face", f"f{row}") for row in (1, 3, 5)]
        assert len(store.add("Bob", VECTORS[:1])) == 1
        assert len(keys_of(store, "Bob")) == 4
        purge(store, "Bob")
        assert keys_of(store, "Bob") == []
        assert len(keys_of(store, "Ann")) == 3


def test_insightface_has_samples_faces_and_thumbnails(tmp_path: Path) -> None:
    path = made(tmp_path / "studio.db", INSIGHTFACE)
    blobs = [vector.tobytes() for vector in VECTORS[:6]]
    with closing(sqlite3.connect(path)) as database:
        database.executescript("INSERT INTO people (name) VALUES ('Ann'), ('Bob')")
        sample = "INSERT INTO face_samples (person_id, embedding, embedding_dim) VALUES (?, ?, 512)"
        database.executemany(sample, [(1, blobs[0]), (2, blobs[1]), (None, blobs[2])])
        media = "INSERT INTO media_items (path, thumbnail) VALUES (?, ?)"
        database.executemany(media, [("a.jpg", b"one face" * 9), ("b.jpg", b"two faces" * 9)])
        face = "INSERT INTO media_faces (media_id, thumbnail, embedding, assigned_person_id) VALUES (?, ?, ?, ?)"
        database.executemany(face, [(1, b"x", blobs[3], 1), (2, b"y", blobs[4], 1), (2, b"z", blobs[5], 2)])
        database.commit()
    with open_store(path, write=True) as store:
        sought = Sought(names=["Ann"], templates=VECTORS[2:3], threshold=0.9)
        found = {(item.place, item.id): item for item in store.find(sought).items}
        assert set(found) == {
            ("face_samples", "1"),
            ("face_samples", "3"),  # her sample without a name, by similarity
            ("media_faces", "1"),
            ("media_faces", "2"),
            ("media_items", "1"),
            ("media_items", "2"),
        }
        assert found["face_samples", "3"].how == "similarity"
        assert not found["media_items", "1"].flags
        assert SHARED in found["media_items", "2"].flags  # Bob is in it too
        assert store.photograph(Key("media_items", "1")) == b"one face" * 9
        assert any("crop" in sentence for sentence in store.unreached())
        keys = [item.key for item in found.values() if SHARED not in item.flags]
        before = store.census(keys)
        assert store.delete(keys) == len(keys)
        assert store.census(keys).others == before.others
        assert len(keys_of(store, "Bob")) == 3


def test_the_faiss_blob_of_deepface_is_built_anew(deepface: Path) -> None:
    faiss = pytest.importorskip("faiss")
    with closing(sqlite3.connect(deepface)) as database:
        rows = database.execute("SELECT id, img_name, embedding FROM embeddings").fetchall()
        index = faiss.IndexIDMap(faiss.IndexHNSWFlat(512, 8))
        vectors = np.stack([np.frombuffer(row[2], "<f8") for row in rows]).astype(np.float32)
        index.add_with_ids(vectors, np.array([row[0] for row in rows]))
        database.execute(
            "INSERT INTO embeddings_index (model_name, detector_backend, align, l2_normalized, index_data) "
            "VALUES ('ArcFace', 'opencv', 1, 1, ?)",
            [faiss.serialize_index(index).tobytes()],
        )
        database.execute("DELETE FROM embeddings WHERE id = (SELECT min(id) FROM embeddings WHERE img_name = ?)", [WHO])
        database.commit()
    with open_store(str(deepface), write=True) as store:
        items = store.find(Sought(names=[WHO])).items
        assert [item.kind for item in items].count("index") == 1
        assert {item.how for item in store.orphans()} == {"orphan"}  # the row that was deleted is still in the index
        assert store.delete([item.key for item in items]) == len(items)
        assert list(store.orphans()) == []
        for step in store.steps():
            step.run()
    assert left(MINE, [deepface]) == 0
    with closing(sqlite3.connect(deepface)) as database:
        ((content,),) = database.execute("SELECT index_data FROM embeddings_index").fetchall()
    built = faiss.deserialize_index(np.frombuffer(content, np.uint8))
    kept = {row[0] for row in rows if row[1] != WHO}
    assert set(faiss.vector_to_array(built.id_map).tolist()) == kept
    assert built.search(vectors[:1] if rows[0][1] != WHO else vectors[1:2], 1)[1][0, 0] in kept


def vec_database(path: Path) -> sqlite3.Connection:
    vec = pytest.importorskip("sqlite_vec")
    engine = sqlite3
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        engine = pytest.importorskip("pysqlite3.dbapi2")
    database = engine.connect(path)
    database.enable_load_extension(True)
    vec.load(database)
    return database


@pytest.mark.parametrize("kind", ["float", "int8"])
def test_sqlite_vec_in_all_its_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "vec.db"
    whole = np.clip(np.rint(VECTORS * 600), -127, 127)
    with closing(vec_database(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"CREATE VIRTUAL TABLE faces USING vec0(embedding {kind}[512], person text)")
        for name, vector, bytes8 in zip(NAMES, VECTORS, whole.astype(np.int8), strict=True):
            value = "?" if kind == "float" else "vec_int8(?)"
            content = vector.tobytes() if kind == "float" else bytes8.tobytes()
            database.execute(f"INSERT INTO faces (embedding, person) VALUES ({value}, ?)", [content, name])
        database.commit()
    with open_store(f"sqlite:{path}?table=faces&name=person", write=True) as store:
        keys = keys_of(store)
        assert len(keys) == IS_WHO.sum()
        person = needles_of(store, keys)
        before = store.census(keys)
        assert scan_store(store, person, keys).verdict == "RESIDUE"
        store.delete(keys)
        for step in store.steps():
            step.run()
        assert store.census(keys).others == before.others
        scan = scan_store(store, person, keys)
        assert scan.verdict == "GONE", scan
        assert "sqlite-vec" in store.versions


def test_a_table_of_a_newer_sqlite_vec_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vec.db"
    with closing(vec_database(path)) as database:
        database.execute("CREATE VIRTUAL TABLE faces USING vec0(embedding float[8], person text)")
        database.execute("UPDATE faces_info SET value = 'v99.0.0' WHERE key = 'CREATE_VERSION'")
        database.commit()
    with pytest.raises(DamnatioError, match=r"made by sqlite-vec v99\.0\.0"):
        open_store(f"sqlite:{path}?table=faces&name=person")


# --- bad input -------------------------------------------------------------------------------------------------------


def test_a_database_that_is_locked_or_open_elsewhere_is_refused(deepface: Path) -> None:
    with closing(sqlite3.connect(deepface)) as database:
        database.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DamnatioError, match="locked by another program"):
            open_store(str(deepface), write=True)
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('select * from embeddings'); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code + "\n", str(deepface)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        while str(deepface) not in _open(process.pid):
            assert process.poll() is None
        with pytest.raises(DamnatioError, match=f"open in process {process.pid}"):
            open_store(str(deepface), write=True)
    finally:
        process.kill()
        process.wait()
    with open_store(str(deepface), write=True) as store:
        assert keys_of(store)


def _open(process: int) -> set[str]:
    """The files that a process has open; what it closes meanwhile is left out."""
    found = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(os.readlink(entry))
    return found


def test_read_only_newer_encrypted_and_unknown_are_sentences(deepface: Path, tmp_path: Path) -> None:
    content = bytearray(deepface.read_bytes())
    deepface.chmod(0o444)
    with pytest.raises(DamnatioError, match="read-only"):
        open_store(str(deepface), write=True)
    with open_store(str(deepface)) as store:
        assert keys_of(store)
    content[19] = 3
    newer = tmp_path / "newer.db"
    newer.write_bytes(content)
    with pytest.raises(DamnatioError, match="newer SQLite"):
        open_store(str(newer))
    newer.write_bytes(np.random.default_rng(0).bytes(5000))
    with pytest.raises(DamnatioError, match="no SQLite database, or it is encrypted"):
        open_store(f"sqlite:{newer}")
    other = made(tmp_path / "other.db", "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
    with pytest.raises(DamnatioError, match=r"no tables of deepface.*It has notes"):
        open_store(other)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("table=embeding", "no table `embeding`. Did you mean 'embeddings'"),
        ("table=embeddings&vector=embeding", "no column `embeding`. Did you mean 'embedding'"),
        ("table=embeddings&name=nobody.name", "no table `nobody`"),
        ("table=embeddings&id=model_name", "names 200 rows by 1 values"),
        ("table=embeddings&vector=img_name", "no column of vectors"),
        ("table=embeddings&dtype=float31", "no dtype 'float31'. Did you mean 'float3"),
        ("vector=embedding", "lacks the option 'table'"),
    ],
)
def test_a_wrong_column_is_one_sentence(deepface: Path, options: str, said: str) -> None:
    before = deepface.read_bytes()
    with pytest.raises(DamnatioError) as caught:
        open_store(f"sqlite:{deepface}?{options}", write=True)
    assert said in str(caught.value)
    assert deepface.read_bytes() == before


def test_an_error_in_the_middle_deletes_nothing(deepface: Path) -> None:
    with closing(sqlite3.connect(deepface)) as database:
        database.executescript(
            "CREATE TABLE left_rows (n INTEGER); CREATE TRIGGER stop BEFORE DELETE ON embeddings WHEN (SELECT count(*) "
            "FROM embeddings) < 195 BEGIN SELECT RAISE(ABORT, 'enough'); END;"
        )
    with open_store(str(deepface), write=True) as store:
        before = store.census()
        with pytest.raises(DamnatioError, match="enough"):
            store.delete(keys_of(store))
        assert store.census() == before
        with pytest.raises(DamnatioError, match="no table `elsewhere`: nothing was deleted"):
            store.delete([*keys_of(store), Key("elsewhere", "1")])
        assert store.census() == before


@pytest.mark.cli
@pytest.mark.parametrize("at", ["delete", "vacuum"])
def test_a_purge_that_is_killed_ends_when_it_runs_again(deepface: Path, at: str) -> None:
    code = (
        "import os, signal, sys; from tests.galleries.test_sqlite import keys_of\n"
        "from damnatio.galleries.opening import open_store\n"
        "store = open_store(sys.argv[1], write=True); store.delete(keys_of(store))\n"
        "if sys.argv[2] == 'vacuum': store.change('PRAGMA cache_size = 2'); "
        "store._connection.set_progress_handler(lambda: os.kill(os.getpid(), 9), 400); "
        "store.steps()[0].run(); sys.exit(3)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(deepface), at], check=False)
    assert done.returncode == -signal.SIGKILL
    with open_store(str(deepface), write=True) as store:
        purge(store)
        assert store.census().rows == {"embeddings": int((~IS_WHO).sum())}
    assert left(MINE.astype("<f8"), deepface.parent.iterdir()) == 0
