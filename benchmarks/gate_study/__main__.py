"""Runs the studies."""

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from . import __doc__ as usage
from . import tables, worlds
from .adversaries import of_attacks, of_look_alikes
from .choices import Choices
from .figures import draw
from .inputs import of_degraded, of_precision, of_scatter
from .quantities import of_photographs, of_shares, of_widths
from .rates import Row

STUDIES: dict[str, Callable[[worlds.World, Choices], Iterator[Row]]] = {
    "photographs": of_photographs,
    "shares": of_shares,
    "widths": of_widths,
    "scatter": of_scatter,
    "degraded": of_degraded,
    "precision": of_precision,
    "alike": of_look_alikes,
    "attacks": of_attacks,
}
ROOT = Path(__file__).resolve().parents[2]


def run(places: Sequence[worlds.World], choices: Choices, only: Sequence[str], out: Path) -> None:
    """Every study on every world; its table and figure are written as soon as it is done."""
    for study in only:
        start, rows = time.perf_counter(), []
        for world in places:
            rows += [{"world": world.name, **row} for row in STUDIES[study](world, choices)]
        tables.write(study, rows, out)
        draw(study, tables.read(study, out), out)
        print(f"{study:<12} {len(rows):>3} rows {time.perf_counter() - start:>7.1f} s", flush=True)


def main(words: Sequence[str] | None = None, choices: Choices | None = None) -> None:
    assets = Path(os.environ.get("DAMNATIO_ASSETS") or ROOT.parent / "shared").expanduser()
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "gate-and-scatter")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "gate-study", help="the runs that are studied")
    parser.add_argument("--faces", type=Path, default=assets / "data/lfw-aligned-112", help="LFW, a folder per person")
    parser.add_argument("--weights", type=Path, default=assets / "models/mobilefacenet-facexzoo.safetensors")
    parser.add_argument("--only", nargs="+", choices=STUDIES, default=list(STUDIES), help="some of the studies")
    parser.add_argument("--worlds", nargs="+", choices=("rendered", "lfw"), default=["rendered", "lfw"])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="of the recipe of rendered faces"
    )
    o = parser.parse_args(words)
    if o.threads:
        torch.set_num_threads(o.threads)
    threads = [f"threads={o.threads}"]
    places = []
    if "rendered" in o.worlds:
        places.append(worlds.rendered(o.work, [*threads, *o.set]))
    if "lfw" in o.worlds and o.faces.is_dir() and o.weights.is_file():
        places.append(worlds.lfw(o.work, o.faces, o.weights, threads))
    elif "lfw" in o.worlds:
        print(f"No real faces: {o.faces} or {o.weights} is not there.")
    run(places, choices or Choices(), o.only, o.out)


if __name__ == "__main__":
    main()
