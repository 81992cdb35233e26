"""Two pages from a record: the data-protection officer's and the auditor's, as HTML and, where Chromium is, as PDF."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from damnatio.erasure.planning.plan import Share
from damnatio.erasure.proving.statement import ErasedItem, read_record
from damnatio.erasure.wording import templates, unreached_by
from damnatio.support.files import atomic_file, private, write_atomically

PAGES = ("officer", "auditor")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60


def is_missing(folder: Path) -> bool:
    """Whether a page is missing, as after a kill: its HTML, or its PDF where a browser can print it."""
    kinds = ("html", "pdf") if _browser() else ("html",)
    return not all((folder / f"{name}.{kind}").exists() for name in PAGES for kind in kinds)


@private()
def write_pages(record: Path, folder: Path) -> list[Path]:
    """officer.html and auditor.html, from nothing but the record; and their PDFs if a browser is installed. Without
    one, print the pages from any browser."""
    read = read_record(record)
    pages = templates()
    pages.filters.update(share=_share, moment=_moment)
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name in PAGES:
        for half_written in folder.glob(f".{name}.*.tmp"):  # by a process that was killed
            half_written.unlink(missing_ok=True)
        path = folder / f"{name}.html"
        template = pages.get_template(f"proving/{name}.html")
        p = read.statement.predicate
        write_atomically(
            path,
            template.render(
                p=p, statement=read.statement, read=read, kinds=_kinds(p.items), unreached=unreached_by(p.stores)
            ),
        )
        found += [path, *print_page(path)]
    return found


def print_page(page: Path) -> list[Path]:
    """The page as PDF; nothing if there is no browser, or it fails: the HTML is what counts."""
    browser = _browser()
    if browser is None:
        return []
    target = page.with_suffix(".pdf")
    with tempfile.TemporaryDirectory() as profile, atomic_file(target) as temporary:
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        words += ["--no-pdf-header-footer", f"--print-to-pdf={temporary.resolve()}", page.resolve().as_uri()]
        try:
            subprocess.run(words, capture_output=True, check=True, timeout=SECONDS)
        except (OSError, subprocess.SubprocessError):
            temporary.write_bytes(b"")
        failed = not temporary.exists() or not temporary.stat().st_size
        if failed:
            temporary.write_bytes(b"")
    if failed:
        target.unlink()
        return []
    return [target]


def _browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def _kinds(items: list[ErasedItem]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in items:
        found[item.kind] = found.get(item.kind, 0) + 1
    return found


def _moment(time: str) -> str:
    return f"{time[:10]} {time[11:16]} UTC"


def _share(share: Share) -> str:
    return f"{share.count:,} of {share.of:,} ({100 * share.low:.1f} to {100 * share.high:.1f} %)"
