"""The command line of the campaign; `python -m fuzz --help`."""

import argparse
import sys
from pathlib import Path

from fuzz import campaign
from fuzz.readers import READERS
from fuzz.worker import FINDINGS


def main() -> int:
    options = _options()
    if options.replay:
        outcome = campaign.replay(options.replay)
        print(f"{outcome.kind}{': ' if outcome.place else ''}{outcome.place}\n{outcome.text}".rstrip())
        return int(outcome.kind in FINDINGS)
    names = options.readers.split(",") if options.readers else list(READERS)
    if unknown := [name for name in names if name not in READERS]:
        raise SystemExit(f"There is no reader '{unknown[0]}': {', '.join(READERS)}.")
    terminal = sys.stderr.isatty()
    say = (lambda line: print(f"\r{line:<90}", end="", file=sys.stderr)) if terminal else (lambda line: None)
    tallies = campaign.run(names, options.out, options.seconds, options.inputs, options.seed, say)
    print("\n" * terminal + campaign.report(tallies))
    return int(any(tally.found for tally in tallies.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m fuzz", description="Feeds damaged files to every reader.")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the campaign (default: %(default)s)")
    parser.add_argument("--inputs", type=int, help="the largest number of inputs per reader")
    parser.add_argument("--readers", help=f"some of {', '.join(READERS)}, with commas between them")
    parser.add_argument("--seed", type=int, default=0, help="the first seed: other seeds make other inputs")
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"), help="the folder of the findings")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="read a saved input again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
