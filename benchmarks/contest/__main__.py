"""Hold the contest of all methods, or go on with it where it stopped; `rules.py` declares it.

usage: python benchmarks/contest rendered
       python benchmarks/contest lfw --faces lfw-aligned-112 --weights mobilefacenet-facexzoo.safetensors

A call that is killed goes on when it is made again. The tables go to results/contest.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this folder is the package `contest`
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

ROOT = Path(__file__).resolve().parents[2]
ASSETS = Path(os.environ.get("DAMNATIO_ASSETS") or ROOT.parent / "shared").expanduser()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("world", choices=("rendered", "lfw"))
    parser.add_argument("--faces", type=Path, default=ASSETS / "data/lfw-aligned-112", help="aligned LFW, unpacked")
    parser.add_argument("--weights", type=Path, default=ASSETS / "models/mobilefacenet-facexzoo.safetensors")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/contest", help="everything that is computed")
    parser.add_argument("--out", type=Path, default=ROOT / "results/contest", help="the tables and the figure")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="override of the recipe, for a trial")
    options = parser.parse_args()

    from contest.holding import hold
    from contest.rules import CONTESTANTS, WORLDS
    from contest.tables import publish
    from contest.worlds import Place, say
    from damnatio.support.devices import set_threads
    from damnatio.support.errors import DamnatioError

    overrides = [f"threads={options.threads}", *options.set]
    if options.world == "lfw":
        overrides = [f"faces.root={options.faces}", f"model.weights={options.weights}", *overrides]
    set_threads(options.threads)
    try:
        with Place(WORLDS[options.world], options.work / options.world, overrides) as place:
            publish(hold(place, CONTESTANTS), options.world, options.out)
    except DamnatioError as error:
        say(f"contest: {error}")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
