"""Makes the pages."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this folder is the package `fidelity`

from fidelity import __doc__ as usage
from fidelity import drawing, pixels, table_two, trials

ROOT = Path(__file__).resolve().parents[2]


def main(words: Sequence[str] | None = None) -> None:
    assets = Path(os.environ.get("DAMNATIO_ASSETS") or ROOT.parent / "shared").expanduser()
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="+", choices=("table-two", "pixels", "drawing", *trials.PAGES))
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "fidelity")
    parser.add_argument("--faces", type=Path, default=assets / "data/lfw-aligned-112", help="LFW, a folder per person")
    parser.add_argument(
        "--run",
        type=Path,
        help="of trials.yaml and the others (runs/<its name>); without one, the numbers kept",
    )
    o = parser.parse_args(words)
    made: dict[str, Callable[[], Iterator[str]]] = {
        "table-two": table_two.pages,
        "pixels": lambda: pixels.pages(o.faces),
        "drawing": lambda: drawing.pages(o.faces),
        **{name: partial(trials.pages, page, o.out / f"{name}.csv") for name, page in trials.PAGES.items()},
        "table-two-summary": table_two.summary,
    }
    o.out.mkdir(parents=True, exist_ok=True)
    for name, page in trials.PAGES.items():
        found = (o.run or ROOT / "runs" / name) / "report" / "results.csv"
        if name in o.page and found.exists():
            trials.keep(page, found, o.out / f"{name}.csv")
        elif name in o.page and not (o.out / f"{name}.csv").exists():
            parser.error(f"{found} is not there: run benchmarks/fidelity/{name}.yaml first.")
    if "table-two" in o.page:
        o.page.append("table-two-summary")
    for name in o.page:
        text = "\n".join(made[name]()) + "\n"
        (o.out / f"{name}.md").write_text(text)
        print(text)


if __name__ == "__main__":
    main()
