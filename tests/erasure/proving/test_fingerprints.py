"""Fingerprints: found where the bytes are, nowhere else, by their holder, until their date."""

import json
import zipfile
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from damnatio.cli.main import main
from damnatio.erasure.proving.fingerprints import (
    LENGTH,
    PrintMatcher,
    pieces_of,
    prints_of,
    read_fingerprints,
    write_fingerprints,
)
from damnatio.erasure.proving.keys import holder_key, make_pair, public_holder_key
from damnatio.galleries.scanning.needles import Needles
from damnatio.support.errors import DamnatioError
from tests.erasure.cases import World
from tests.erasure.purging.test_purge import ACCEPTED

KEY = bytes(range(32))


def vectors(count: int, dim: int = 512) -> list[np.ndarray[tuple[int, ...], np.dtype[np.floating]]]:
    return list(np.random.default_rng(3).standard_normal((count, dim)).astype(np.float32))


def found(content: bytes, prints: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> list[tuple[int, int]]:
    chunk = np.frombuffer(content, np.uint8)
    seen = [seen for seen in PrintMatcher(prints, KEY).look(chunk) if seen.how == "as it was stored"]
    return sorted((int(at), int(row)) for each in seen for at, row in zip(each.at, each.fragments, strict=True))


def test_a_hundred_vectors_take_77_kilobytes(tmp_path: Path) -> None:
    public = make_pair(tmp_path / "holder.pem", holder=True)
    path = write_fingerprints(tmp_path, "5", "2027-01-01", {1: Needles(vectors(100))}, public_holder_key(public))
    assert LENGTH * 6_400 <= path.stat().st_size < 78_000
    read = read_fingerprints(path, holder_key(tmp_path / "holder.pem"))
    assert len(read.stores[1]) == 6_400
    assert (read.case, read.until) == ("5", "2027-01-01")


def test_pieces_are_found_at_every_offset_and_nowhere_else() -> None:
    """Beside a search for the plain bytes."""
    pieces = pieces_of(Needles(vectors(3, 64)))
    random = np.random.default_rng(1)
    content = random.bytes(5_001) + pieces[2] + random.bytes(3) + pieces[7] + pieces[8] + random.bytes(999) + pieces[2]
    naive = sorted(
        (at, row) for row, piece in enumerate(pieces) for at in range(len(content)) if content.startswith(piece, at)
    )
    assert len(naive) == 4
    assert found(content, prints_of(pieces, KEY)) == naive
    assert found(random.bytes(100_000), prints_of(pieces, KEY)) == []


def test_another_key_gives_other_fingerprints() -> None:
    pieces = pieces_of(Needles(vectors(2, 64)))
    one, other = prints_of(pieces, KEY), prints_of(pieces, bytes(32))
    assert not (one == other).all(axis=1).any()
    assert not set(pieces) & {row.tobytes() for row in one}


def test_pieces_that_could_be_anybodys_are_left_out() -> None:
    assert pieces_of(Needles([np.zeros(512, np.float32), np.ones(512, np.float32)])) == []


def test_only_the_holder_opens_them(tmp_path: Path) -> None:
    public = make_pair(tmp_path / "holder.pem", holder=True)
    make_pair(tmp_path / "other.pem", holder=True)
    path = write_fingerprints(tmp_path, "5", "2027-01-01", {1: Needles(vectors(1))}, public_holder_key(public))
    with pytest.raises(DamnatioError, match="for another holder, or damaged"):
        read_fingerprints(path, holder_key(tmp_path / "other.pem"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamnatioError, match="for another holder, or damaged"):
        read_fingerprints(path, holder_key(tmp_path / "holder.pem"))
    path.write_bytes(b"")
    with pytest.raises(DamnatioError, match="for another holder, or damaged"):
        read_fingerprints(path, holder_key(tmp_path / "holder.pem"))
    make_pair(tmp_path / "signer.pem")
    with pytest.raises(DamnatioError, match="is no X25519 key"):
        holder_key(tmp_path / "signer.pem")


def test_after_their_date_they_are_refused(tmp_path: Path) -> None:
    public = make_pair(tmp_path / "holder.pem", holder=True)
    path = write_fingerprints(tmp_path, "5", "2027-01-01", {1: Needles(vectors(1))}, public_holder_key(public))
    read = read_fingerprints(path, holder_key(tmp_path / "holder.pem"))
    read.need_valid(date(2027, 1, 1))
    with pytest.raises(DamnatioError, match="could be used until 2027-01-01: destroy them"):
        read.need_valid(date(2027, 1, 2))


def test_a_later_scan_finds_what_comes_back(
    world: World, kept: tuple[World, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    holder = world.root / "holder.pem"
    public = make_pair(holder, holder=True)
    assert main(["purge", str(world.plan), *ACCEPTED, "--fingerprints-for", str(public)]) == 0
    prints = world.out / "fingerprints.bin"
    words = ["verify", str(world.record), "--fingerprints", str(prints), "--holder-key", str(holder)]
    capsys.readouterr()
    assert main(words) == 0
    assert "GONE, 0 of 64 fingerprints found, control 512 of 512" in capsys.readouterr().out
    with zipfile.ZipFile(world.gallery.with_name("gallery.npz.old"), "w", zipfile.ZIP_DEFLATED) as copy:
        copy.write(kept[1] / "gallery.npz", "inner.npz")
    assert main(words) == 3
    assert "RESIDUE, 64 of 64 fingerprints found" in capsys.readouterr().out
    world.gallery.with_name("gallery.npz.old").write_bytes(np.random.default_rng(0).bytes(5_000))
    assert main(words) == 0  # nobody can be seen in it: that is no proof, and no failure
    assert "Unsure: rescan." in capsys.readouterr().out
    assert main(words[:-2]) == 2
    assert "name the private key of their holder" in capsys.readouterr().err
    assert json.loads(world.record.read_text())["payload"]
