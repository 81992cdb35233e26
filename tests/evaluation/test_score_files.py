"""Score files: what is written reads back to the same bits, here and as bob reads it; faults name their line."""

import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.evaluation.score_files import COLUMNS, Side, read_scores, write_scores
from damnatio.support.errors import DamnatioError

REFERENCES = Side(["ann/1", "bob/1"], ["ann", "bob"])
PROBES = Side(["ann/2", "ann/3", "bob/2", "eve/1"], ["ann", "ann", "bob", "eve"])
A, B = np.repeat(np.arange(2), 4), np.tile(np.arange(4), 2)
SCORES = np.array([0.9, 0.1 + 0.2, -0.25, 0.4, 0.5, 1 / 3, 0.8, 0.40000000000000002])


def written(path: Path) -> Path:
    write_scores(path, REFERENCES, PROBES, [(A[:3], B[:3], SCORES[:3]), (A[3:], B[3:], SCORES[3:])])
    return path


@pytest.mark.parametrize("name", ["scores.csv", "deeper/scores.csv", "scores.txt"])
def test_what_is_written_reads_back(tmp_path: Path, name: str) -> None:
    found = read_scores(written(tmp_path / name))
    assert found.scores.tobytes() == SCORES.tobytes()
    assert found.mated.tolist() == [True, True, False, False, False, False, True, False]
    assert [found.reference_subjects[i] for i in range(8)] == [REFERENCES.subjects[a] for a in A.tolist()]
    assert [found.probe_subjects[i] for i in range(8)] == [PROBES.subjects[b] for b in B.tolist()]
    assert found.probes is not None
    assert [found.probes[i] for i in range(8)] == [PROBES.names[b] for b in B.tolist()]
    if name.endswith(".txt"):
        assert found.references is None
    else:
        assert found.references is not None
        assert [found.references[i] for i in range(8)] == [REFERENCES.names[a] for a in A.tolist()]
    assert not list(tmp_path.rglob(".*.tmp"))


def test_bob_splits_the_csv_file_and_groups_it_by_probe(tmp_path: Path) -> None:
    """As bob.bio.base.score.load does: subjects decide what is genuine, `probe_key` what belongs to one search."""
    with written(tmp_path / "scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    genuine = [float(row["score"]) for row in rows if row["bio_ref_subject_id"] == row["probe_subject_id"]]
    assert genuine == [SCORES[0], SCORES[1], SCORES[6]]
    assert [row["probe_key"] for row in rows] == [PROBES.names[b] for b in B.tolist()]


def test_the_four_columns_are_claimed_real_label_score(tmp_path: Path) -> None:
    lines = written(tmp_path / "scores-dev").read_text().splitlines()
    assert lines[0] == "ann ann ann/2 0.9"
    assert lines[1] == "ann ann ann/3 0.30000000000000004"
    assert lines[4] == "bob ann ann/2 0.5"


@settings(max_examples=60)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=30))
def test_every_number_keeps_its_bits(tmp_path_factory: pytest.TempPathFactory, numbers: list[float]) -> None:
    for name in ("s.csv", "s.txt"):
        path = tmp_path_factory.getbasetemp() / name
        places = np.zeros(len(numbers), np.int64)
        write_scores(path, REFERENCES, PROBES, [(places, places, np.array(numbers))])
        assert read_scores(path).scores.tobytes() == np.array(numbers).tobytes()


@pytest.mark.parametrize("name", ["a,b", 'say "x"', "two\nlines", "a b", "NA", "", "Ž", "007"])
def test_any_name_survives_csv(tmp_path: Path, name: str) -> None:
    path = tmp_path / "scores.csv"
    write_scores(path, Side([name], [name]), Side([name, "x"], [name, "x"]), [(A[:2] * 0, B[:2], SCORES[:2])])
    found = read_scores(path)
    assert found.mated.tolist() == [True, False]
    assert found.reference_subjects[0] == name
    assert found.probes is not None
    assert found.probes[0] == name


@pytest.mark.parametrize("name", ["a b", 'a"b', "a\tb", ""])
def test_a_name_that_four_columns_cannot_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DamnatioError, match="no place in a file of four columns"):
        write_scores(tmp_path / "s.txt", Side(["a"], [name]), PROBES, [])
    assert not list(tmp_path.iterdir())


def test_files_of_bob_with_other_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(
        "probe_reference_id,probe_subject_id,probe_age,bio_ref_reference_id,bio_ref_subject_id,score\n"
        "p1,ann,31,r1,ann,0.5\n\np2,ann,32,r2,bob,-inf\n"
    )
    found = read_scores(path)
    assert found.scores.tolist() == [0.5, -np.inf]
    assert found.mated.tolist() == [True, False]
    assert found.probes is not None
    assert found.probes[1] == "p2"
    path.write_text("probe_subject_id,bio_ref_subject_id,score\nann,ann,1\n")
    assert read_scores(path).probes is None


def test_a_file_without_comparisons(tmp_path: Path) -> None:
    for name in ("none.csv", "none.txt"):
        write_scores(tmp_path / name, REFERENCES, PROBES, [])
        found = read_scores(tmp_path / name)
        assert len(found.scores) == len(found.mated) == 0


HEAD = "bio_ref_subject_id,probe_subject_id,score\n"
FAULTS = [
    ("s.csv", "bio_ref_subject_id,probe_subject_id,value\na,a,1\n", "s.csv has no column 'score'"),
    ("s.csv", "", "has no column 'bio_ref_subject_id'"),
    ("s.csv", HEAD + "a,a,1\na,b,high\n", "line 3: the score 'high' is not a number"),
    ("s.csv", HEAD + "a,a,1\n\na,b,nan\n", "line 4: the score 'nan' is not a number"),
    ("s.csv", HEAD + "a,a,1\na,b,\n", "line 3: the score '' is not a number"),
    ("s.csv", HEAD + 'a,a,1\n"a\nb",b,x\n', "line 4: the score 'x' is not a number"),
    ("s.csv", HEAD + "a,a,1\na,b\n", "line 3: 2 columns where 3 are expected"),
    ("s.txt", "a a x 1\na b y 0.1 0.2\n", "line 2: 5 columns where 4 are expected"),
    ("s.txt", "a a x 1\na b y z\n", "line 2: the score 'z' is not a number"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), FAULTS)
def test_a_fault_names_its_line(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DamnatioError) as error:
        read_scores(tmp_path / name)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_text_or_not_there(tmp_path: Path) -> None:
    for name in ("s.csv", "s.txt"):
        (tmp_path / name).write_bytes(HEAD.encode() + b"\xff\xfe,b,1\n")
        with pytest.raises(DamnatioError):
            read_scores(tmp_path / name)
        with pytest.raises(DamnatioError, match="There is no score file"):
            read_scores(tmp_path / f"absent-{name}")


def test_an_interrupted_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = written(tmp_path / "scores.csv")
    before = path.read_bytes()

    def breaking() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        yield A, B, SCORES
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_scores(path, REFERENCES, PROBES, breaking())
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["scores.csv"]


@pytest.mark.cli
def test_millions_of_comparisons_pass_in_little_memory(tmp_path: Path) -> None:
    """Four million, in a process of its own: as Python objects they would take gigabytes."""
    code = f"""
import resource, numpy as np
from pathlib import Path
from damnatio.evaluation.score_files import Side, read_scores, write_scores
side = Side([f"person{{i:05d}}/{{i:05d}}.jpg" for i in range(2000)], [f"person{{i:05d}}" for i in range(2000)])
path, every = Path({str(tmp_path)!r}) / "big.csv", np.arange(2000)
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_scores(path, side, side, ((np.full(2000, i), every, np.full(2000, i / 2000)) for i in range(2000)))
middle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = read_scores(path)
assert (len(found.scores), found.mated.sum()) == (4_000_000, 2000)
print(start, middle, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    start, middle, end = (int(word) // 1024 for word in done.stdout.split())
    assert middle - start < 150
    assert end - start < 800
