"""Score files: one comparison per line, in the formats of bob.bio.base. Its tools read our files, and we read theirs.

A `.csv` file has a header and the columns of `COLUMNS`. Any other file is the classic text of four columns, `claimed_id
real_id test_label score`. A comparison is mated if both subjects are the same. A 1:N search is the comparisons of one
probe with every template. Files are written and read by blocks: names are held once, comparisons as numbers.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from numpy.typing import NDArray

from damnatio.support.errors import DamnatioError
from damnatio.support.files import atomic_file

Places = NDArray[np.int64]
Scores = NDArray[np.float64]

PROBE, KEY, PROBE_SUBJECT = "probe_template_id", "probe_key", "probe_subject_id"
REFERENCE, REFERENCE_SUBJECT, SCORE = "bio_ref_template_id", "bio_ref_subject_id", "score"
COLUMNS = (PROBE, KEY, PROBE_SUBJECT, REFERENCE, REFERENCE_SUBJECT, SCORE)
FOUR = (REFERENCE_SUBJECT, PROBE_SUBJECT, PROBE, SCORE)
NEEDED = (REFERENCE_SUBJECT, PROBE_SUBJECT, SCORE)
PROBE_NAMES = (PROBE, KEY, "probe_reference_id")
REFERENCE_NAMES = (REFERENCE, "bio_ref_reference_id")
ROWS = 1 << 16


@dataclass(frozen=True)
class Side:
    """One side of the comparisons: the names of images or templates, and the subject of each."""

    names: Sequence[str]
    subjects: Sequence[str]


@dataclass(frozen=True)
class Names:
    """A column of strings, many of which repeat: the distinct values, and for each line the number of its value."""

    numbers: NDArray[np.int32]
    values: NDArray[Any]

    def __getitem__(self, line: int) -> str:
        return str(self.values[self.numbers[line]])


@dataclass(frozen=True)
class ScoreFile:
    """Comparisons in the order of the file. Names that the file does not give are None."""

    scores: Scores
    mated: NDArray[np.bool_]
    reference_subjects: Names
    probe_subjects: Names
    references: Names | None
    probes: Names | None


def is_csv(path: Path) -> bool:
    """bob's rule: `scores.csv`, and also `scores.csv.old`."""
    return ".csv" in path.suffixes


def write_scores(path: Path, references: Side, probes: Side, blocks: Iterable[tuple[Places, Places, Scores]]) -> None:
    """Write comparisons block by block. A block holds places among the references, places among the probes, and scores.

    Every score is written with the fewest digits that read back to the same number.
    """
    texts = [*references.names, *references.subjects, *probes.names, *probes.subjects]
    table = is_csv(path)
    quoting = "needed" if table and any(set(text) & set(',"\r\n') for text in texts) else "none"
    spaced = next((text for text in texts if not text or any(c.isspace() or c == '"' for c in text)), None)
    if not table and spaced is not None:
        raise DamnatioError(f"{path}: the name {spaced!r} has no place in a file of four columns: write a .csv file.")
    reference_texts, reference_subjects = _texts(references.names), _texts(references.subjects)
    probe_texts, probe_subjects = _texts(probes.names), _texts(probes.subjects)
    columns = COLUMNS if table else FOUR
    schema = pa.schema([(name, pa.float64() if name == SCORE else pa.string()) for name in columns])
    options = pc.WriteOptions(include_header=False, delimiter="," if table else " ", quoting_style=quoting)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        if table:
            file.write((",".join(columns) + "\n").encode())
        with pc.CSVWriter(file, schema, write_options=options) as writer:
            for a, b, scores in blocks:
                for start in range(0, len(scores), ROWS):
                    lines = slice(start, start + ROWS)
                    first, second = pa.array(a[lines]), pa.array(b[lines])
                    name = probe_texts.take(second)
                    content = {
                        PROBE: name,
                        KEY: name,
                        PROBE_SUBJECT: probe_subjects.take(second),
                        REFERENCE: reference_texts.take(first),
                        REFERENCE_SUBJECT: reference_subjects.take(first),
                        SCORE: pa.array(scores[lines], pa.float64()),
                    }
                    writer.write_batch(pa.record_batch([content[column] for column in columns], schema=schema))


def read_scores(path: Path) -> ScoreFile:
    """The comparisons of a score file, ours or bob's."""
    if not path.is_file():
        raise DamnatioError(f"There is no score file {path}.")
    header = _header(path) if is_csv(path) else list(FOUR)
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise DamnatioError(f"{path} has no column '{missing[0]}': a score file needs {', '.join(NEEDED)}.")
    probe = next((name for name in PROBE_NAMES if name in header), None)
    reference = next((name for name in REFERENCE_NAMES if name in header), None)
    texts = [name for name in (REFERENCE_SUBJECT, PROBE_SUBJECT, reference, probe) if name]
    types = {name: pa.dictionary(pa.int32(), pa.string()) for name in texts}
    convert = pc.ConvertOptions(
        include_columns=[*texts, SCORE], column_types={**types, SCORE: pa.float64()}, null_values=[]
    )
    read = pc.ReadOptions(column_names=header, skip_rows=int(is_csv(path)))
    parse = pc.ParseOptions(delimiter="," if is_csv(path) else " ", newlines_in_values=is_csv(path))
    try:
        table = pc.read_csv(path, read, parse, convert).unify_dictionaries()
    except pa.ArrowInvalid as error:
        if "Empty CSV file" not in str(error):
            raise DamnatioError(_fault(path, header) or f"{path} cannot be read: {error}.") from error
        table = pa.table({name: pa.array([], type=types.get(name, pa.float64())) for name in [*texts, SCORE]})
    scores: Scores = table.column(SCORE).to_numpy()
    if np.isnan(scores).any():
        raise DamnatioError(_fault(path, header) or f"{path} holds a score that is not a number.")
    names = {name: _names(table.column(name)) for name in texts}
    mated = _equal(names[REFERENCE_SUBJECT], names[PROBE_SUBJECT])
    return ScoreFile(
        scores,
        mated,
        names[REFERENCE_SUBJECT],
        names[PROBE_SUBJECT],
        names[reference] if reference else None,
        names[probe] if probe else None,
    )


def _texts(values: Sequence[str]) -> Any:
    return pa.array(values, pa.string())


def _names(column: Any) -> Names:
    if not column.num_chunks:
        return Names(np.zeros(0, np.int32), np.zeros(0, object))
    numbers = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in column.chunks])
    return Names(numbers.astype(np.int32), column.chunk(0).dictionary.to_numpy(zero_copy_only=False))


def _equal(a: Names, b: Names) -> NDArray[np.bool_]:
    """Whether the two strings of each line are equal, by their numbers."""
    places = {value: place for place, value in enumerate(b.values)}
    translated = np.array([places.get(value, -1) for value in a.values], dtype=np.int64)
    return np.asarray(translated[a.numbers] == b.numbers)


def _header(path: Path) -> list[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return next(csv.reader(file), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DamnatioError(f"{path} is not a CSV file in UTF-8 ({error}).") from error


def _fault(path: Path, header: Sequence[str]) -> str:
    """One sentence about the first line at fault. The file is read again slowly, because the fast reader does not
    number its lines."""
    place = header.index(SCORE)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file, delimiter="," if is_csv(path) else " ")
            for fields in reader:
                if not fields or (is_csv(path) and reader.line_num == 1):
                    continue
                if len(fields) != len(header):
                    return f"{path}, line {reader.line_num}: {len(fields)} columns where {len(header)} are expected."
                if not _is_number(fields[place]):
                    return f"{path}, line {reader.line_num}: the score '{fields[place]}' is not a number."
    except (UnicodeDecodeError, csv.Error) as error:
        return f"{path} is not text in UTF-8 ({error})."
    return ""


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False
