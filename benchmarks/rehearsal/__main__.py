"""Rehearse the paper's recipe at its full counts: what would break at size breaks here.

usage: python benchmarks/rehearsal                  all of it, at full size
       python benchmarks/rehearsal --share 0.01     a hundredth of the identities, in minutes

Every step is a process of its own, mostly a command of damnatio. Its time and the peak memory of each of its processes
go into a table under results/rehearsal. A training is ended after a few steps. Finished steps are kept in the work
folder: the same call goes on with the others.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this folder is the package `rehearsal`

ROOT = Path(__file__).resolve().parents[2]


def main(words: list[str] | None = None) -> int:
    from rehearsal.recipe import Size
    from rehearsal.steps import STEPS, Rehearsal
    from rehearsal.tables import publish

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the paper's identities (1)")
    parser.add_argument("--processes", type=int, default=2, help="that train together (2)")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/rehearsal", help="everything that is computed")
    parser.add_argument("--out", type=Path, help="where the table goes (results/rehearsal at full size, else the work)")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), help="some of the steps")
    parser.add_argument("--again", action="store_true", help="take finished steps again")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the recipe, for a trial")
    o = parser.parse_args(words)
    if not 0 < o.share <= 1:
        parser.error("--share is more than 0 and at most 1")
    work = o.work / f"{o.share:g}"
    rehearsal = Rehearsal(Size(o.share), work, o.processes, o.set)
    out = o.out or (ROOT / "results/rehearsal" if o.share == 1 else work)
    taken = []
    for name in o.only:
        step = rehearsal.kept(name) if not o.again else None
        print(f"{name:<12} {'kept' if step else STEPS[name]}", flush=True)
        taken.append(step or rehearsal.take(name))
        print(f"{'':<12} {taken[-1].line}", flush=True)
        publish([step for step in map(rehearsal.kept, STEPS) if step], rehearsal, out, new=taken)
    return int(any(step.failure for step in taken))


if __name__ == "__main__":
    raise SystemExit(main())
