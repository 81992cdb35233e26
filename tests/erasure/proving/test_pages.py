"""The officer's and the auditor's page, from the record alone."""

import shutil
from pathlib import Path

import pytest

from damnatio.cli.main import main
from damnatio.erasure.proving import pages
from damnatio.erasure.proving.statement import read_record
from tests.erasure.cases import ALIAS, PERSON, World
from tests.erasure.purging.test_purge import ACCEPTED


def test_both_pages_say_what_their_reader_needs(world: World) -> None:
    assert main(["purge", str(world.plan), *ACCEPTED]) == 0
    officer, auditor = ((world.out / f"{name}.html").read_text() for name in ("officer", "auditor"))
    read = read_record(world.record)
    p = read.statement.predicate
    for words in (p.case, p.dates.deadline, "4 templates", "until 2026-12-31", "Airport", "0 of 4", p.verdict_sentence):
        assert words in officer
    neighbours = p.stores[0].neighbours
    for words in (
        p.signer.fingerprint,
        read.sha256,
        neighbours.others_after,
        "damnatio verify record.json",
        *(f"{level} " for level in ("--previous", "--plan", "--fingerprints", "--model")),
        "--stores",
        "Blind spots",
    ):
        assert words in auditor
    for one in read.statement.subject:
        assert one.digest["sha256"] in auditor
    for page in (officer, auditor):
        assert "proves" not in page
        assert "`" not in page, "a mark of the documents"
        assert "no copy exists" not in page
        assert PERSON not in page
        assert ALIAS not in page
        assert not [word for word in ("http://", "https://", "<script", "<img", "<link") if word in page]


def test_they_can_be_written_again_elsewhere(world: World, tmp_path: Path) -> None:
    assert main(["purge", str(world.plan), *ACCEPTED]) == 0
    assert main(["verify", str(world.record), "--pages", str(tmp_path / "pages")]) == 0
    assert (tmp_path / "pages/officer.html").read_bytes() == (world.out / "officer.html").read_bytes()


@pytest.mark.cli
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium here")
def test_a_browser_prints_them(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>Words</p>")
    (printed,) = pages.print_page(page)
    assert printed.read_bytes().startswith(b"%PDF")


def test_a_browser_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "BROWSERS", ("false",))
    page = tmp_path / "page.html"
    page.write_text("<p>Words</p>")
    assert pages.print_page(page) == []
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
