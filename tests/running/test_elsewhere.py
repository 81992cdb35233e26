"""A report of a run that was made on another machine: from its evaluations, without faces, pixels or checkpoints."""

import shutil
from pathlib import Path

import pytest

from damnatio.cli.main import main
from damnatio.faces.detection import at_hand
from damnatio.recipe.files import load

pytestmark = pytest.mark.cli

RECIPE = """
faces: {{source: folder, root: {root}, size: 32, cache_gb: {cache}}}
partitions: {{retain: 16, control: 4, test: 6, development: 8, distractors: 4, scales: {{S1: 3}}, forget_min_images: 6}}
model: {{backbone: iresnet-tiny, dim: 32, logit_scale: 32}}
train: {{epochs: 1, batch: 32, optimiser: adamw, lr: 0.004}}
forget: {{methods: [GS]}}
evaluate: {{operating_points: [0.01, 0.1], replicates: 0}}
threads: 1
"""
KEPT = ("3-partitions", "7-evaluate")


@pytest.fixture
def there(face_folder: Path, tmp_path: Path) -> Path:
    """A finished run, on faces that are then taken away."""
    (tmp_path / "mine.yaml").write_text(RECIPE.format(root=face_folder, cache=0))
    run = tmp_path / "there"
    assert main(["run", str(tmp_path / "mine.yaml"), "--run", str(run)]) == 0
    face_folder.rename(tmp_path / "gone")
    return run


def carried(there: Path, here: Path, *whole: str) -> Path:
    """What must be brought: the manifests, and these folders whole."""
    for file in there.rglob("*"):
        inside = file.relative_to(there)
        wanted = file.name in ("stage.json", "metrics.jsonl") or any(str(inside).startswith(name) for name in whole)
        if wanted and file.is_file() and inside.parts[0] != "report":
            (here / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, here / inside)
    return here


def test_whole_report_from_evaluations_alone(there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = str(tmp_path / "mine.yaml")
    here = carried(there, tmp_path / "here", *KEPT, "6-embed/examples-")
    names = {file.name for file in here.rglob("*") if file.is_file()}
    assert not names & {"faces.parquet", "pixels.npy", "backbone.safetensors", "embeddings.safetensors"}
    assert main(["report", recipe, "--run", str(here)]) == 0
    assert "the faces are not at hand" in capsys.readouterr().out
    files = sorted(file.name for file in (there / "report").iterdir() if file.name != "stage.json")
    assert files == sorted(file.name for file in (here / "report").iterdir() if file.name != "stage.json")
    for file in files:
        assert (here / "report" / file).read_bytes() == (there / "report" / file).read_bytes(), file

    bare = carried(there, tmp_path / "bare", *KEPT)
    shutil.rmtree(next((bare / "6-embed").glob("examples-*")))
    assert main(["report", recipe, "--run", str(bare)]) == 0
    assert "without the figure of faces" in capsys.readouterr().out
    assert not (bare / "report/captures.png").exists()
    assert (bare / "report/results.csv").read_bytes() == (there / "report/results.csv").read_bytes()

    for words, missing in (
        (["--set", "forget.methods=[GS, HD]"], "has no 5-forget S1-HD for this recipe and this version of damnatio"),
        (["--set", "model.dim=16"], "has no 4-train original for this recipe"),
        (["--set", "faces.size=48"], "has no 1-faces of this recipe"),
    ):
        assert main(["report", recipe, "--run", str(bare), *words]) == 2
        said = capsys.readouterr().err
        assert missing in said
        assert "not at hand" in said
        assert len(said.strip().splitlines()) == 1


def test_without_a_record_of_the_faces_the_source_says_what_is_wrong(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path / "mine.yaml"), "--run", str(tmp_path / "empty")]) == 2
    assert "cannot be read: No such file or directory" in capsys.readouterr().err


def test_evaluation_needs_embeddings_and_no_faces(there: Path, tmp_path: Path) -> None:
    """What the stages that are here suffice for is made."""
    here = carried(there, tmp_path / "here", *KEPT, "6-embed")
    words = ["--set", "evaluate.operating_points=[0.05]"]
    assert main(["report", str(tmp_path / "mine.yaml"), "--run", str(here), *words]) == 0
    assert "0.05" in (here / "report/results.csv").read_text()


def test_where_faces_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "a-1.tar").touch()
    (tmp_path / "f.csv").touch()
    for settings, there in (
        ("{source: synthetic}", True),
        (f"{{source: folder, root: {tmp_path}}}", True),
        (f"{{source: folder, root: {tmp_path}/no}}", False),
        (f"{{source: webdataset, path: '{tmp_path}/a-*.tar'}}", True),
        (f"{{source: webdataset, path: '{tmp_path}/b-*.tar'}}", False),
        (f"{{source: manifest, path: {tmp_path}/f.csv}}", True),
        (f"{{source: manifest, path: {tmp_path}/g.csv, root: {tmp_path}}}", False),
        (f"{{source: collection, pools: {{a: {tmp_path}, b: {tmp_path}/no}}}}", False),
    ):
        assert at_hand(load("demo", [f"faces={settings}"]).faces) is there, settings
