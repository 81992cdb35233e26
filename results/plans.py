"""Write the plans that docs/scale.md shows to results/plans, and put them there. No number in them is typed.

usage: python results/plans.py

The GPUs are estimated. Decoding and comparing are measured on the machine that runs this: let it be idle.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from collect import show_in_documents

ROOT = Path(__file__).resolve().parents[1]
PLANS = {
    "paper-tables-3-4": ["paper-tables-3-4", "--device", "a100", "--gpus", "4"],
    "paper-table-5": ["paper-table-5", "--device", "a100", "--gpus", "4"],
    "webface42m": [
        *["paper-tables-3-4", "--device", "a100", "--gpus", "8"],
        *["--set", "model.backbone=iresnet100", "--set", "partitions.retain=2000000"],
        *["--set", "train.batch=1024", "--set", "train.epochs=20"],
        *["--set", "forget.scales=[S1]", "--set", "forget.methods=[BI, GS]"],
    ],
}


def main() -> None:
    folder = ROOT / "results" / "plans"
    folder.mkdir(exist_ok=True)
    paths = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))))
    for name, words in PLANS.items():
        command = [sys.executable, "-m", "damnatio", "plan", *words]
        made = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True
        )
        page = made.stdout.split("\n", 1)[1].strip()
        (folder / f"{name}.md").write_text(f"```\n$ damnatio plan {shlex.join(words)}\n\n{page}\n```\n")
    show_in_documents()


if __name__ == "__main__":
    main()
