"""What the documents show is what the code does."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from damnatio.cli.arguments import parser
from damnatio.cli.main import main
from damnatio.methods import METHODS
from damnatio.recipe.files import configs, load

ROOT = Path(__file__).resolve().parents[1]


def test_the_method_of_the_guide_runs_as_written(
    tmp_path: Path, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (ROOT / "docs/add-a-method.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    assert len(code.strip().splitlines()) <= 25
    (tmp_path / "antipode.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^damnatio (run .*)$", guide, flags=re.MULTILINE)
    small = [word for word in tiny if not word.startswith("forget.methods")]
    settings = [word for word in small if word != "--set"]
    assert main([*command.split(), *(word for setting in settings for word in ("--set", setting))]) == 0
    page = (tmp_path / "runs/demo/report/rates.md").read_text()
    assert " AP " in page.splitlines()[2]


def test_the_network_of_the_guide_is_adopted_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs/bring-your-own-model.md").read_text()
    code = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "guide", "exec"), {})
    assert (tmp_path / "mine/model.onnx").exists()
    assert (tmp_path / "mine/card.json").exists()
    for command in re.findall(r"^damnatio ([^\n#]+)", guide, flags=re.MULTILINE):
        parser().parse_args(command.split())


def test_every_method_stands_in_the_table_of_methods() -> None:
    table = (ROOT / "docs/methods.md").read_text()
    built_in = [name for name in METHODS.names() if METHODS.get(name).__module__.startswith("damnatio.methods.")]
    for name in built_in:
        assert re.search(rf"^\| {re.escape(name)}‡? \| ", table, flags=re.MULTILINE), name


def test_every_command_of_the_readme_is_one_that_there_is() -> None:
    text = (ROOT / "README.md").read_text()
    commands = re.findall(r"^damnatio ([^\n#]+)", text, flags=re.MULTILINE)
    assert commands
    for command in commands:
        words = command.replace("...", "").split()
        options = parser().parse_args(words)
        recipe = getattr(options, "recipe", "demo")
        assert recipe == "my.yaml" or (configs() / f"{recipe}.yaml").exists() or (ROOT / recipe).exists(), command


def test_the_recipe_of_the_readme_suits_as_many_people_as_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own words, on a folder of just these people; only the size of the images is another."""
    text = (ROOT / "README.md").read_text()
    recipe = tmp_path / "my.yaml"
    recipe.write_text(re.search(r"```yaml\n(# my.yaml\n.*?)```", text, re.DOTALL)[1])  # type: ignore[index]
    said = re.search(r"This one takes (\d+) people with four images or more: (\d+) to forget, (\d+) to test on", text)
    assert said
    people, forget, test = map(int, said.groups())
    assert people < 1000  # what a person may have at hand
    counts = load(recipe).partitions
    needed = counts.retain + counts.test + counts.development + counts.distractors + max(counts.scales.values())
    assert (people, forget, test) == (needed, max(counts.scales.values()), counts.test)
    rng = np.random.default_rng(0)
    for person in range(people):
        (tmp_path / f"faces/{person}").mkdir(parents=True)
        for number in range(4):
            pixels = rng.integers(0, 256, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"faces/{person}/{number}.bmp")
    words = ["--set", f"faces.root={tmp_path / 'faces'}", "--set", "faces.size=16", "--run", str(tmp_path / "run")]
    assert main(["partitions", str(recipe), *words]) == 0
    assert f'"F": {forget}' in capsys.readouterr().out


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_shows_the_tables_of_the_committed_run() -> None:
    """No number in the README is typed: its tables are those under results/, which a run made."""
    text = (ROOT / "README.md").read_text()
    shown = re.findall(r"<!-- from (\S+) -->\n(.*?)<!-- end -->", text, flags=re.DOTALL)
    assert shown
    for path, content in shown:
        assert content.strip() == (ROOT / path).read_text().strip(), path
