"""What limits f* on rendered faces: the renderer, the network or the schedule? Each line of the table is f* of one
small recipe, trained and evaluated as any other. `make limits` takes about 25 minutes of one core, and goes on where it
was stopped. It writes results/limits, which docs/reproduction.md shows.
"""

import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import damnatio
from damnatio.reporting.report import read_report

ROOT = Path(__file__).resolve().parents[1]
RENDERED = ROOT / "benchmarks" / "rendered.yaml"
SMALL = [
    "forget.methods=[]",
    "faces.identities=2400",
    "faces.instances=10",
    "partitions.retain=1200",
    "partitions.test=400",
    "partitions.development=300",
    "partitions.distractors=200",
    "partitions.scales={S1: 10}",
    "train.epochs=4",
    "train.warmup_epochs=1",
    "evaluate.replicates=0",
    "threads=1",
]
"""what all have in common, beside benchmarks/rendered.yaml"""
FACES = ["faces.unlikeness=1.5", "faces.variation=0.6"]
SGD = ["train.optimiser=sgd", "train.lr=0.1", "train.weight_decay=0.0005"]
PAPER_HEAD = ["model.logit_scale=64", "model.margin=0.4"]
QUICK, VIT = "model.backbone=iresnet-quick", "model.backbone=vit-quick"


@dataclass(frozen=True)
class Trial:
    name: str
    title: str
    overrides: list[str]


TRIALS = [
    Trial("usual", "the renderer's usual faces, `iresnet-tiny`", []),
    Trial("unlike", "`unlikeness: 1.5`, people less alike", FACES[:1]),
    Trial("steady", "`variation: 0.6`, photographs of a person more alike", FACES[1:]),
    Trial("both", "both", FACES),
    Trial("quick", "both, `iresnet-quick`, AdamW", [*FACES, QUICK]),
    Trial("quick-sgd", "both, `iresnet-quick`, SGD with the paper's learning rate", [*FACES, QUICK, *SGD]),
    Trial("quick-64", "both, `iresnet-quick`, the paper's logit scale 64 and margin 0.4", [*FACES, QUICK, *PAPER_HEAD]),
    Trial("quick-64-sgd", "the same with the paper's SGD", [*FACES, QUICK, *PAPER_HEAD, *SGD]),
    Trial("vit", "both, `vit-quick`, AdamW", [*FACES, VIT, "train.lr=0.002", "train.weight_decay=0.1"]),
]
GROUPS = {"T": "T at 1e-4", "T single": "T single at 1e-4"}


def main() -> None:
    runs = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runs" / "limits"
    target = ROOT / "results" / "limits"
    target.mkdir(parents=True, exist_ok=True)
    rows = []
    for trial in TRIALS:
        report = damnatio.run(RENDERED, overrides=[*SMALL, *trial.overrides], folder=runs / trial.name, say=print)
        found = {row["group"]: row["value"] for row in read_report(report)[0].rows() if _wanted(row)}
        rows.append([trial.title, *(f"{found[group]:.3f}" for group in GROUPS)])
        print(*rows[-1], sep="  ", flush=True)
    with (target / "limits.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["what", *GROUPS.values()], *rows])
    lines = [["what", *GROUPS.values()], ["---"] * 3, *rows]
    (target / "limits.md").write_text("".join(f"| {' | '.join(line)} |\n" for line in lines))


def _wanted(row: dict[str, object]) -> bool:
    return row["metric"] == "TMR" and row["operating_point"] == 1e-4 and row["group"] in GROUPS


if __name__ == "__main__":
    main()
