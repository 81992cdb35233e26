"""The pages in one headless Chromium, in turn: their times, and what can be seen of them."""

import json
import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from charts.data import Data
from damnatio.support.errors import DamnatioError

if TYPE_CHECKING:
    from playwright.sync_api import Page

MOVES = 20
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-frame-rate-limit", "--disable-gpu-vsync"),  # a picture takes the time it needs, not 16.7 ms
    *("--disable-background-timer-throttling", "--disable-renderer-backgrounding"),
)
ACTIONS = ("first drawing", "threshold", "toggle", "zoom", "animation")
LABELLED = "#lines[aria-label], #lines svg[aria-label], #lines canvas[aria-label]"
REACHED = "#lines :is(a[href], button, [tabindex='0'])"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>
<style>body {{ margin: 0 }} #lines {{ width: 1000px; height: 420px }} #points {{ width: 600px; height: 420px }}
{style}</style><div id="lines"></div><div id="points"></div>
<script>window.DATA = {data}</script><script>window.started = performance.now()</script><script>{script}</script></html>
"""


@dataclass
class Seen:
    """Of one library: milliseconds per action, one number per round, and what was found in its page."""

    times: dict[str, list[float]] = field(default_factory=lambda: {action: [] for action in ACTIONS})
    hover: bool = False
    animated: bool = False
    keyboard: bool = False
    label: bool = False
    vector: bool = False

    def median(self, action: str) -> float:
        return statistics.median(self.times[action])


def chromium(named: str | None) -> str:
    """The browser's program."""
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None or shutil.which(found) is None:
        raise DamnatioError(
            f"The pages are measured in Chromium, and there is no {named or NAMES[0]}: install it (Debian: apt install "
            "chromium), or name it with --chromium."
        )
    return found


def write_page(folder: Path, name: str, script: str, style: str, data: Data) -> Path:
    """One file that holds everything, as a report does."""
    file = folder / f"{name}.html"
    safe = script.replace("</script", "<\\/script")
    file.write_text(PAGE.format(name=name, style=style, data=json.dumps(data.values()), script=safe))
    return file


@contextmanager
def tabs(program: str, names: list[str]) -> Iterator[tuple[str, dict[str, "Page"]]]:
    """The version of one browser, and a tab of it for each name. A page that fails or asks the network is an error."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as missing:
        raise DamnatioError("Chromium is driven by playwright: pip install -e '.[bench]'.") from missing
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            context = browser.new_context(viewport={"width": 1024, "height": 860})
            problems: list[str] = []
            context.on(
                "weberror", lambda error: problems.append(f"{error.page.url if error.page else ''}: {error.error}")
            )
            context.on("request", lambda asked: None if asked.url.startswith("file:") else problems.append(asked.url))
            yield browser.version, {name: context.new_page() for name in names}
            if problems:
                raise DamnatioError(f"A page failed or asked the network for something: {'; '.join(problems)}")
        finally:
            browser.close()


def measure(page: "Page", file: Path, data: Data, seen: Seen) -> None:
    """One round: open the page anew, then each action several times."""
    page.bring_to_front()
    page.goto(file.as_uri())

    def run(code: str, given: object = None) -> float:
        return float(page.evaluate(code, given))

    steps = range(MOVES)
    toggles = [["toggle", 4 * (step // 2), bool(step % 2)] for step in steps]
    zooms = [["zoom", 0.1 + 0.01 * (step % 2), 0.8] for step in steps]
    seen.times["first drawing"].append(run("() => window.firstDrawing"))
    seen.times["threshold"].append(run("window.each", [["threshold", 0.1 + step / 40] for step in steps]))
    seen.times["toggle"].append(run("window.each", toggles))
    seen.times["zoom"].append(run("window.each", zooms))
    seen.times["animation"].append(run("window.animate", data.after))


def look(page: "Page", file: Path, data: Data, seen: Seen, pictures: Path) -> None:
    """What a person at the page would find: a reply to the mouse and to the keyboard, points on their way, words for a
    screen reader, and lines rather than a picture on paper."""
    page.bring_to_front()
    page.goto(file.as_uri())
    page.evaluate("() => window.firstDrawing")
    page.wait_for_timeout(300)
    page.screenshot(path=pictures / f"{file.stem}.png")
    seen.label = page.locator(LABELLED).count() > 0
    seen.keyboard = page.locator(REACHED).count() > 0
    printed = page.pdf(width="1100px", height="900px")
    seen.vector = b"/Subtype /Image" not in printed
    lines, points = page.locator("#lines"), page.locator("#points")
    before = lines.screenshot()
    page.mouse.move(400, 150)
    page.mouse.move(420, 160)
    page.wait_for_timeout(300)
    seen.hover = lines.screenshot(path=pictures / f"{file.stem}-hover.png") != before
    page.mouse.move(0, 0)
    stills: list[Any] = [points.screenshot()]
    page.evaluate("places => { window.chart.move(places) }", data.after)
    page.wait_for_timeout(200)
    stills.append(points.screenshot())
    page.wait_for_timeout(2000)
    stills.append(points.screenshot())
    seen.animated = len(set(stills)) == 3
