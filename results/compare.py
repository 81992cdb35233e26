"""How far two runs of one recipe differ: for each metric at each operating point, the row that moved most.

usage: python results/compare.py results/demo/results.csv runs/demo/report/results.csv [--method HD ...]

`in the interval` counts the rows whose value in the second run lies in the 95 % interval that the first one states. A
run on another machine is another training run, and most rates should lie there.
"""

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

KEYS = ("scale", "method", "task", "group", "operating_point", "metric")
Row = dict[str, str]


def read(path: Path) -> dict[tuple[str, ...], Row]:
    with path.open(newline="") as file:
        return {tuple(row[key] for key in KEYS): row for row in csv.DictReader(file)}


def number(text: str) -> float:
    return float(text) if text else math.nan


def lines(first_file: Path, second_file: Path, methods: Sequence[str] = ()) -> Iterator[str]:
    """A table of text: one line per metric and operating point."""
    first, second = (
        {key: row for key, row in read(path).items() if not methods or key[1] in methods}
        for path in (first_file, second_file)
    )
    both = [key for key in first if key in second]
    found: dict[tuple[str, str, str], list[tuple[str, ...]]] = defaultdict(list)
    for key in both:
        if not math.isnan(number(first[key]["value"])) and not math.isnan(number(second[key]["value"])):
            found[key[2], key[5], key[4]].append(key)

    def moved(key: tuple[str, ...]) -> float:
        return abs(number(second[key]["value"]) - number(first[key]["value"]))

    yield (
        f"{'task':<4} {'metric':<18} {'at':<7} {'rows':>4} {'mean':>7} {'most':>7}  in the interval  "
        "the row that moved most"
    )
    for (task, metric, point), keys in found.items():
        far = max(keys, key=moved)
        known = [key for key in keys if first[key]["low"]]
        held = sum(number(first[k]["low"]) <= number(second[k]["value"]) <= number(first[k]["high"]) for k in known)
        inside = f"{held} of {len(known)}" if known else ""
        values = (
            f"{number(first[far]['value']):.4f} -> {number(second[far]['value']):.4f}, n = {int(first[far]['count']):,}"
        )
        mean = sum(map(moved, keys)) / len(keys)
        yield (
            f"{task:<4} {metric:<18} {point:<7} {len(keys):>4} {mean:>7.4f} {moved(far):>7.4f}  {inside:<15}  "
            f"{far[1]} {far[3]}: {values}"
        )
    alone = len(first.keys() ^ second.keys())
    yield f"{len(both)} rows compared; {alone} are in one of the two only"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--method", nargs="*", default=[], help="only these rows; f* is `original`")
    options = parser.parse_args()
    for line in lines(options.first, options.second, options.method):
        print(line)


if __name__ == "__main__":
    main()
