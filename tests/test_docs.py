"""What the documents show is what the code does."""

import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from damnatio.backbones import BACKBONES
from damnatio.cli.main import main, parser
from damnatio.faces import SOURCES
from damnatio.methods import METHODS
from damnatio.recipe.files import configs, load
from tests.erasure import world

ROOT = Path(__file__).resolve().parents[1]
COMMAND = re.compile(r"^(?:\.venv/bin/)?damnatio ([^\n#]+)", flags=re.MULTILINE)
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def marked(page: str) -> list[str]:
    """The blocks of Python of a page that say that they are tested."""
    return re.findall(r"<!-- tested: [^\n]*-->\n```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten after it."""
    for registry in (METHODS, BACKBONES, SOURCES):
        registry.names()
        monkeypatch.setattr(registry, "_parts", dict(registry._parts))
    yield
    for name in [name for name in sys.modules if name.startswith("damnatio_plugin_")]:
        del sys.modules[name]


@pytest.mark.cli
@pytest.mark.usefixtures("parts")
def test_the_method_of_the_guide_runs_as_written(
    tmp_path: Path, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (ROOT / "docs/add-a-method.md").read_text()
    codes = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    assert len(codes[0].strip().splitlines()) <= 25
    for name, code in zip(("antipode.py", "nulled.py"), codes, strict=True):
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)
    small = [word for word in tiny if not word.startswith("forget.methods")]
    settings = [word for word in small if word != "--set"]
    commands = re.findall(r"^damnatio (run .*)$", guide, flags=re.MULTILINE)
    for command, name in zip(commands, ("AP", "NP"), strict=True):
        assert main([*command.split(), *(word for setting in settings for word in ("--set", setting))]) == 0
        page = (tmp_path / "runs/demo/report/rates.md").read_text()
        assert f" {name} " in page.splitlines()[2]


@pytest.mark.cli
def test_the_network_of_the_guide_is_adopted_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs/bring-your-own-model.md").read_text()
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL) if "import adopt" in code]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "guide", "exec"), {})
    assert (tmp_path / "mine/model.onnx").exists()
    assert (tmp_path / "mine/card.json").exists()
    for command in COMMAND.findall(guide):
        parser().parse_args(command.split())


def test_every_method_stands_in_the_table_of_methods() -> None:
    table = (ROOT / "docs/methods.md").read_text()
    built_in = [name for name in METHODS.names() if METHODS.get(name).__module__.startswith("damnatio.methods.")]
    for name in built_in:
        assert re.search(rf"^\| {re.escape(name)}‡? \| ", table, flags=re.MULTILINE), name


def test_every_command_of_the_readme_is_one_that_there_is() -> None:
    text = (ROOT / "README.md").read_text()
    commands = COMMAND.findall(text)
    assert commands
    for command in commands:
        words = command.replace("...", "").split()
        options = parser().parse_args(words)
        recipe = getattr(options, "recipe", None) or "demo"
        assert recipe == "my.yaml" or (configs() / f"{recipe}.yaml").exists() or (ROOT / recipe).exists(), command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_documents_is_understood(page: Path) -> None:
    for command in COMMAND.findall(page.read_text()):
        parser().parse_args(shlex.split(command.replace("...", "")))


def test_every_target_of_make_in_the_documents_is_one_that_there_is() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"(?:^|`)make ([a-z][\w-]*)", page.read_text(), flags=re.MULTILINE):
            assert target in targets, f"{page.name}: make {target}"


@pytest.mark.cli
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
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_heading_that_a_link_names_is_there() -> None:
    def anchor(heading: str) -> str:
        return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")

    for page in PAGES:
        for target, wanted in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
            there = (page.parent / target if target else page).read_text()
            assert wanted in map(anchor, re.findall(r"^#+ (.+)$", there, flags=re.MULTILINE)), f"{page.name}: #{wanted}"


def test_the_first_screen_of_the_readme_has_one_small_table() -> None:
    """A stranger reads it at once: what it is, two doors, two commands, one table of five columns of numbers."""
    screen, _ = (ROOT / "README.md").read_text().split("\n---\n", 1)
    lines = [line for line in screen.splitlines() if line.startswith("|")]
    assert len(lines) <= 2 + 7
    assert all(line.count("|") <= 2 + 5 for line in lines)
    assert len(screen.splitlines()) <= 50


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/erasure.md",
        "docs/fidelity.md",
        "docs/gate-and-scatter.md",
        "docs/report-page.md",
        "docs/reproduction.md",
        "docs/scale.md",
    ],
)
def test_a_document_shows_the_tables_of_committed_runs(page: str) -> None:
    """No number in them is typed: their tables are those under results/, which a run made."""
    text = (ROOT / page).read_text()
    shown = re.findall(r"<!-- from (\S+) -->\n(.*?)<!-- end -->", text, flags=re.DOTALL)
    assert shown
    for path, content in shown:
        assert content.strip() == (ROOT / path).read_text().strip(), path


def test_the_summaries_are_made_from_the_results() -> None:
    for results in (ROOT / "results").rglob("results.csv"):
        if results.read_text().startswith("experiment,"):  # joined: each experiment has a summary of its own
            continue
        code = f"import collect; print(collect.summary(collect.Path({str(results)!r})), end='')"
        made = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "results", capture_output=True, check=True)
        assert made.stdout.decode() == results.with_name("summary.md").read_text(), results


@pytest.mark.cli
@pytest.mark.usefixtures("parts")
def test_the_parts_of_the_architecture_run_as_written(
    tmp_path: Path, tiny: list[str], face_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (ROOT / "docs/architecture.md").read_text()
    backbone, source, metric = marked("docs/architecture.md")
    (recipe,) = re.findall(r"```yaml\n(.*?)```", guide, flags=re.DOTALL)
    train, faces = COMMAND.findall(guide)
    (tmp_path / "quartet.py").write_text(backbone)
    (tmp_path / "zipped.py").write_text(source)
    (tmp_path / "zipped.yaml").write_text(recipe)
    with zipfile.ZipFile(tmp_path / "faces.zip", "w") as archive:
        for file in sorted(face_folder.glob("*/*.png")):
            archive.write(file, file.relative_to(face_folder))
    monkeypatch.chdir(tmp_path)
    assert main([*train.split(), *tiny]) == 0
    assert main([*faces.split(), "--set", "faces.size=32"]) == 0
    assert '"images": 280' in next((tmp_path / "runs/zipped").glob("1-faces/*/summary.json")).read_text()
    names: dict[str, Any] = {}
    exec(compile(metric, "metric", "exec"), names)
    separation = names["separation"]
    assert separation([1.0, 3.0], [-1.0, 1.0]) == pytest.approx(2.0)  # means 2 and 0, variances 1 and 1
    assert separation([], [1.0]) != separation([], [1.0])


@pytest.mark.cli
@pytest.mark.usefixtures("parts")
def test_the_python_of_the_guide_runs_as_written(
    tmp_path: Path, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [word for word in tiny if word != "--set"]
    small = ["evaluate.operating_points=[0.1]", "evaluate.replicates=20"]
    fewer = {
        'overrides=["forget.methods=[HD, OF]"]': f"overrides={settings!r}",
        'out="erasure"': f'out="erasure", overrides={small!r}',
    }
    monkeypatch.chdir(tmp_path)
    BACKBONES.register(world.NAME)(world.blocks)
    world.write_model(tmp_path / "model")
    world.write_people(tmp_path / "people", range(3))
    world.write_people(tmp_path / "retain", range(100, 160), photographs=4)
    names: dict[str, Any] = {}
    for code in marked("docs/python.md"):
        small_code = code
        for written, smaller in fewer.items():
            small_code = small_code.replace(written, smaller)
        exec(compile(small_code, "guide", "exec"), names)
    assert (tmp_path / "runs/two-methods/report/index.html").exists()
    assert {result.metric for result in names["results"]} >= {"TMR", "threshold", "W1", "footprint"}
    assert names["embeddings"].shape == (4, 32)
    assert (tmp_path / "altered.safetensors.card.json").exists()
    assert all(file.exists() for file in names["erased"].files)
    assert names["erased"].record.unmeasured == ["person000", "person001", "person002"]
