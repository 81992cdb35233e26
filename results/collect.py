"""Copy the tables and figures of a finished run here, with the recipe and the command that made them, and into the
README where it shows them. Photographs are never copied: of a run on real faces, figures that show faces stay where
they are.

usage: python results/collect.py runs/demo results/demo
"""

import json
import re
import shutil
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
KEPT = ("results.csv", "warnings.csv", "*.md", "distributions-*.png", "det.png", "mechanism.png")
SHOW_FACES = ("captures.png",)


def main(run: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    made = json.loads((run / "report" / "stage.json").read_text())
    recipe, how = made["settings"]["recipe"], made["made"]
    rendered = recipe["faces"]["source"] == "synthetic"
    for pattern in (*KEPT, *(SHOW_FACES if rendered else ())):
        for file in sorted((run / "report").glob(pattern)):
            shutil.copy(file, target / file.name)
    header = f"# {how['command']}\n# damnatio {how['damnatio']}, {how['machine']}, {how['finished']}\n"
    (target / "recipe.yaml").write_text(header + yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True))
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
