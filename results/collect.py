"""Copy the tables and figures of a finished run here, and into the README where it shows them.

usage: python results/collect.py runs/demo results/demo
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ("results.csv", "warnings.csv", "*.md", "distributions-*.png", "det.png", "mechanism.png", "captures.png")


def main(run: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for pattern in KEPT:
        for file in sorted((run / "report").glob(pattern)):
            shutil.copy(file, target / file.name)
    readme = ROOT / "README.md"
    text = re.sub(
        r"(<!-- from (\S+) -->\n).*?(<!-- end -->)",
        lambda match: match[1] + (ROOT / match[2]).read_text().strip() + "\n" + match[3],
        readme.read_text(),
        flags=re.DOTALL,
    )
    readme.write_text(text)
    print(f"{len(list(target.iterdir()))} files in {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
