"""What is found in bytes: each spelling, at any place, over the ends of chunks, inside containers; and nothing else."""

import gzip
import io
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damnatio.galleries.scanning.containers import MAGICS
from damnatio.galleries.scanning.decimals import Decimals, first_digits, number_places, numbers
from damnatio.galleries.scanning.fragments import fragments_of
from damnatio.galleries.scanning.matching import Matcher, Seen
from damnatio.galleries.scanning.needles import Needles, pieces_of
from damnatio.galleries.scanning.streams import Stream
from tests.galleries.scanning.spelt import DIM, SPELT, naive, people, zipped

PERSON, OTHERS = people(3, seed=1), people(200, seed=2)
FRAGMENTS = fragments_of(Needles(list(PERSON)), Needles(list(OTHERS[:2])))
MATCHER, DECIMALS = Matcher(FRAGMENTS, MAGICS), Decimals(FRAGMENTS)
EACH = DIM // 8


def found(content: bytes, step: int = 1 << 22) -> tuple[set[int], set[int]]:
    """The fragments of the person and of the control that are seen, fed in steps."""
    seen: set[int] = set()

    def report(what: Seen, begins: int) -> None:
        seen.update(what.fragments.tolist())

    stream = Stream(MATCHER, DECIMALS, report)
    for start in range(0, len(content), step):
        stream.feed(content[start : start + step])
    stream.end()
    assert stream.skipped == 0
    return {one for one in seen if one < 3 * EACH}, {one for one in seen if one >= 3 * EACH}


@pytest.mark.parametrize("how", SPELT)
@pytest.mark.parametrize("before", [0, 1, 2, 3, 6151])
def test_every_spelling_is_found_anywhere(how: str, before: int) -> None:
    noise = np.random.default_rng(before).integers(0, 256, 9000, dtype=np.uint8).tobytes()
    content = SPELT[how](np.concatenate([OTHERS[:40], PERSON, OTHERS[40:]]))
    person, control = found(noise[:before] + content + noise)
    assert person == set(range(3 * EACH))
    assert len(control) == 2 * EACH


@pytest.mark.parametrize("how", SPELT)
def test_neighbours_are_nobody(how: str) -> None:
    person, control = found(SPELT[how](OTHERS))
    assert person == set()
    assert len(control) == 2 * EACH


def test_noise_zeros_and_repetitions_are_nobody() -> None:
    noise = np.random.default_rng(0).integers(0, 256, 1 << 22, dtype=np.uint8).tobytes()
    digits = np.random.default_rng(0).integers(48, 58, 1 << 18, dtype=np.uint8).tobytes()
    value = PERSON[0, :1].tobytes() * 100_000  # one value of the person, again and again
    for content in (noise, digits, bytes(1 << 20), value, b"0.1, " * 50_000, b"-.-e+e" * 9_000, b"." * 50_000):
        assert found(content) == (set(), set())


@pytest.mark.parametrize("how", ["float32", "CBOR float64", "float16", "json", "scientific", "compressed npz"])
@pytest.mark.parametrize("step", [997, 5000, 65536])
def test_chunks_do_not_matter(how: str, step: int) -> None:
    content = SPELT[how](np.concatenate([OTHERS, PERSON]))
    assert found(content, step) == found(content)


@given(st.data())
def test_what_is_left_of_a_damaged_file_is_what_a_naive_search_finds(data: st.DataObject) -> None:
    content = bytearray(np.concatenate([OTHERS[:5], PERSON, OTHERS[5:9]]).tobytes())
    for _ in range(data.draw(st.integers(0, 30))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 0x80  # more than 64 units in the last place
    cut = bytes(content[data.draw(st.integers(0, 2000)) :])
    expected = {row * EACH + start // 8 for row, start in naive(PERSON, cut)}
    assert found(cut)[0] == expected


def test_a_fragment_needs_all_of_its_eight_values() -> None:
    content = PERSON.copy()
    content[0, 3] += 1e-3
    content[1, 15] = -content[1, 15]
    assert found(content.tobytes())[0] == set(range(3 * EACH)) - {0, EACH + 1}
    content = PERSON.copy()
    content[2] = (content[2].view(np.int32) + 64).view(np.float32)
    assert found(content.tobytes())[0] == set(range(3 * EACH))
    content[2] = (content[2].view(np.int32) + 1).view(np.float32)
    assert found(content.tobytes())[0] == set(range(2 * EACH))


def test_a_vector_that_a_store_brings_to_unit_length_is_found() -> None:
    long = PERSON * np.float32(17.3)
    fragments = fragments_of(Needles(list(long)), Needles())
    for content in (long, long / np.linalg.norm(long, axis=1, keepdims=True)):
        seen = np.zeros(fragments.count, bool)
        for what in Matcher(fragments).look(np.frombuffer(content.astype(np.float32).tobytes(), np.uint8)):
            seen[what.fragments] = True
        assert seen.all()


# --- containers ------------------------------------------------------------------------------------------------------

RAW = np.concatenate([OTHERS, PERSON]).tobytes()
PACKED = {
    "gzip": gzip.compress(RAW),
    "zip": zipped(RAW),
    "zip in gzip": gzip.compress(zipped(RAW)),
    "three deep": gzip.compress(zipped(zipped(RAW))),
    "zstd": pa.compress(RAW, codec="zstd", asbytes=True),
    "lz4": pa.compress(RAW, codec="lz4", asbytes=True),
    "zip of zstd": zipped(pa.compress(RAW, codec="zstd", asbytes=True)),
    "two frames and text": pa.compress(RAW[:9000], codec="zstd", asbytes=True)
    + b"page"
    + pa.compress(RAW[9000:], codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("how", PACKED)
@pytest.mark.parametrize("step", [1 << 22, 1000])
def test_containers_are_unpacked_wherever_they_begin(how: str, step: int) -> None:
    person, control = found(b"x" * 777 + PACKED[how] + b"and more" * 500, step)
    missing = 1 if how.startswith("two") else 0  # the fragment that was cut in two
    assert len(person) >= 3 * EACH - missing
    assert len(control) >= 2 * EACH - missing


@pytest.mark.parametrize("how", ["gzip", "zip", "zstd", "lz4"])
def test_a_container_whose_end_is_gone_is_unpacked_as_far_as_it_goes(how: str) -> None:
    first = np.concatenate([PERSON, people(20_000, seed=3)]).tobytes()
    packed: bytes
    if how in ("gzip", "zip"):
        packed = gzip.compress(first, 1) if how == "gzip" else zipped(first)
    else:
        packed = pa.compress(first, codec=how, asbytes=True)
    person, _ = found(packed[: len(first) // 2])
    assert person == set(range(3 * EACH))


def test_many_members_of_a_zip_are_unpacked() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, vector in enumerate([*OTHERS, *PERSON]):
            archive.writestr(f"{number}.npy", vector.tobytes())
    person, control = found(file.getvalue())
    assert len(person) == 3 * EACH
    assert len(control) == 2 * EACH


# --- bytes and text --------------------------------------------------------------------------------------------------


def test_codes_and_pieces_of_photographs_are_found_as_they_are() -> None:
    random = np.random.default_rng(5)
    photograph, code = random.bytes(5000), random.bytes(64)
    short = random.bytes(12)
    fragments = fragments_of(Needles(codes=[code, short], contents=pieces_of(photograph)), Needles())
    assert fragments.count == 2 + 1 + 64
    matcher = Matcher(fragments)
    content = b"abc" + photograph + code[:40] + b"." + short
    seen = np.zeros(fragments.count, bool)
    for what in matcher.look(np.frombuffer(content, np.uint8)):
        seen[what.fragments] = True
    assert np.flatnonzero(~seen).tolist() == [1]  # the second half of the code


def test_pieces_of_few_different_bytes_are_left_out() -> None:
    assert pieces_of(bytes(10_000)) == []
    assert fragments_of(Needles(vectors=[np.zeros(64), np.ones(64)], codes=[bytes(64)]), Needles()).count == 0


@given(st.lists(st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-30), min_size=1, max_size=30))
def test_numbers_are_read_as_python_reads_them(values: list[float]) -> None:
    for form in ("{!r}", "{:.9e}", "{:.8f}"):
        spelt = [form.format(value) for value in values]
        text = np.frombuffer(" | ".join(spelt).encode() + bytes(40), np.uint8)
        places = number_places(text)
        read, steps = numbers(text, places)
        np.testing.assert_allclose(read, [float(one) for one in spelt], rtol=1e-12, atol=0)
        assert (steps > 0).all()
        for one, digits in zip(spelt, first_digits(text, places).tolist(), strict=True):
            said = one.lstrip("-").partition("e")[0].replace(".", "").lstrip("0")
            usual = 1e-8 < abs(float(one)) < 1000 and len(said) >= 4
            assert not usual or digits == int(said[:6].ljust(6, "0"))


def test_what_both_share_is_the_persons() -> None:
    fragments = fragments_of(Needles(list(PERSON)), Needles([PERSON[0], OTHERS[0]]))
    assert np.count_nonzero(~fragments.is_control) == 3 * EACH
    assert np.count_nonzero(fragments.is_control) == EACH


@pytest.mark.parametrize("dim", [8, 9, 128, 130, 512])
def test_vectors_of_any_length_are_covered_to_their_end(dim: int) -> None:
    vector = people(1, dim=dim)
    fragments = fragments_of(Needles(list(vector)), Needles())
    assert fragments.count == -(-dim // 8)
    assert np.isin(vector[0], fragments.values).all()
