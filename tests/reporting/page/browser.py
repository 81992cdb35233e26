"""A page in a real, headless Chromium, and everything that it complains of."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
LOCAL = ("file:", "data:", "blob:")


@contextmanager
def chromium() -> "Iterator[Browser]":
    """The browser; the test is skipped where it cannot be started."""
    reason = "Playwright drives the browser: pip install playwright (it is in the extra `dev`)"
    api = pytest.importorskip("playwright.sync_api", reason=reason)
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"No browser: none of {', '.join(PROGRAMS)} is installed (Debian: apt install chromium)")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(QUIET))
        yield browser
        browser.close()


@dataclass
class Opened:
    """An open page."""

    page: "Page"
    complaints: list[str] = field(default_factory=list)
    """errors and warnings of the console, errors of scripts, and requests to anywhere"""

    def state(self, expression: str) -> Any:
        """What the page's script has, such as `state.place`."""
        return self.page.evaluate(expression)

    def move(self, place: int) -> None:
        """Put the slider there, as a hand does, and wait until all is drawn."""
        self.page.evaluate(
            "place => { byId('target').value = place; byId('target').dispatchEvent(new Event('input')); }",
            place,
        )
        self.page.wait_for_function("place => state.place === place", arg=place)

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_text_contents()]

    @property
    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(self.state("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@contextmanager
def opened(browser: "Browser", file: Path, width: int = 1280, theme: str = "light") -> Iterator[Opened]:
    """Open a page; whatever it complains of until it is closed fails the test."""
    scheme: Any = theme
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    found = Opened(context.new_page())
    page, complaints = found.page, found.complaints
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(LOCAL) else complaints.append(r.url))
    page.goto(file.as_uri())
    yield found
    assert found.state("window.hacked") is None, "a name was run as a script"
    assert complaints == []
    context.close()
