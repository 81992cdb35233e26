"""Charting libraries beside each other: what the report's page would carry, and how quickly it would answer.

usage: python benchmarks/charts [--rounds N] [--work FOLDER] [--chromium PROGRAM] [--try]

The libraries come from npm into the work folder, with their pictures and pages. Each draws the same 80 lines and 400
points in a tab of the same Chromium. The table goes to results/benchmarks/charts.md, which docs/report-page.md shows.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this folder is the package `charts`

ROOT = Path(__file__).resolve().parents[2]


def turned(names: list[str], number: int) -> list[str]:
    """Another one begins in every round: the first finds a colder machine."""
    return [*names[number % len(names) :], *names[: number % len(names)]]


def compare(work: Path, rounds: int, program: str | None, keep: bool) -> None:
    import history
    from charts import browser, data, peers, tables

    found = browser.chromium(program)
    print("fetching the libraries from npm", flush=True)
    peers.fetch(work)
    drawn = data.made()
    bundles = {peer: peers.bundle(peer, work) for peer in peers.PEERS}
    sizes = {peer.name: len((script + style).encode()) for peer, (script, style) in bundles.items()}
    files = {peer.name: browser.write_page(work, peer.page, *bundles[peer], drawn) for peer in peers.PEERS}
    upkeeps = {package: peers.upkeep(package, work) for peer in peers.PEERS for package in peer.packages}
    seen = {name: browser.Seen() for name in files}
    load = round(os.getloadavg()[0], 1)  # before the browser adds its own
    with browser.tabs(found, list(files)) as (version, pages):
        for number in range(rounds):
            for name in turned(list(files), number):
                browser.measure(pages[name], files[name], drawn, seen[name])
                times = "  ".join(f"{action} {of[-1]:7.1f}" for action, of in seen[name].times.items())
                print(f"{number + 1}  {name:<31} {times}", flush=True)
        for name, page in pages.items():
            browser.look(page, files[name], drawn, seen[name], work)
    settings = {"rounds": rounds, "browser": f"{Path(found).name} {version}", "load": load}
    text = tables.table(seen, sizes, upkeeps, settings)
    print(f"\n{text}")
    if keep:
        versions = {package: of.version for package, of in upkeeps.items()}
        history.append("charts", tables.ratios(seen, sizes), **settings, sizes=sizes, versions=versions)
        (ROOT / "results/benchmarks/charts.md").write_text(text)
        subprocess.run([sys.executable, "results/collect.py"], cwd=ROOT, check=True)  # shows it in docs/report-page.md


def main(words: list[str] | None = None) -> int:
    from damnatio.support.errors import DamnatioError

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="of all libraries in turn (7)")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/bench-charts", help="libraries, pages and pictures")
    parser.add_argument("--chromium", help="the browser's program")
    parser.add_argument("--try", dest="trial", action="store_true", help="print the table, write nothing to results/")
    o = parser.parse_args(words)
    try:
        compare(o.work.resolve(), o.rounds, o.chromium, not o.trial)
    except DamnatioError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
