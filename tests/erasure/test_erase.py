"""An erasure from paths alone: who is forgotten, what is claimed, and what comes back."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.numpy import load_file

from damnatio.cli.main import main
from damnatio.models.card import Card
from damnatio.models.gate import Gate, Gated, ungated
from damnatio.models.importing import import_model
from damnatio.models.store import load_backbone
from damnatio.recipe.files import model_settings
from damnatio.support.errors import DamnatioError
from tests.erasure.world import SIZE, pattern, photograph, write_model, write_people, write_person

pytestmark = pytest.mark.cli

QUICK = ["--set", "threads=1", "--set", "evaluate.replicates=20"]
UNMEASURED = "hidden, not measured"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path / "people", range(3))


@pytest.fixture
def retain(tmp_path: Path) -> Path:
    return write_people(tmp_path / "retain", range(100, 210), photographs=4)


def erased(*words: object) -> int:
    """Few photographs and no strangers are the rule here, so that little is measured (`test_measured.py`)."""
    return main(["erase", *map(str, words), *QUICK, "--accept-unmeasured"])


def record_of(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / "erasure.json").read_text()))


def lines_of(out: Path) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in record_of(out)["people"]}


def identities(out: Path) -> dict[str, int]:
    """How many people each partition of the report has."""
    rows = [line.split(",") for line in (out / "report/protocol.csv").read_text().splitlines()]
    return {row[1]: int(row[2]) for row in rows if row[0] == "Identities" and row[1] in ("F", "R trained", "T", "D")}


def gate_of(file: Path) -> Gate:
    gate = ungated(import_model(model_settings(file))[0])[1]
    assert isinstance(gate, Gate)
    return gate


def embedded(file: Path, images: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
    network, card = import_model(model_settings(file))
    with torch.inference_mode():
        return np.asarray(network(card.prepare(np.stack(images), torch.device("cpu"))).numpy())


def test_people_are_hidden_without_a_retain_set(tmp_path: Path, model: Path, people: Path) -> None:
    out = tmp_path / "out"
    assert erased(model, people, "--out", out) == 0
    names = {path.name for path in out.iterdir()}
    assert names == {
        "model-GS.safetensors",
        "model-GS.safetensors.card.json",
        "model-GS.safetensors.gate.py",
        "erasure.json",
        "erasure.html",
    }
    lines = lines_of(out)
    assert set(lines) == {"person000", "person001", "person002"}
    for line in lines.values():
        assert (line["verdict"], line["used"], line["given"]) == (UNMEASURED, 8, 8)
        assert line["linked"][0]["pairs"] == 28
        assert line["linked"][0]["before"] == 28
        assert line["linked"][0]["after"] == 0
    new = [photograph(pattern(1), 5_000 + i) for i in range(20)]
    before, after = embedded(model, new), embedded(out / "model-GS.safetensors", new)
    units = after / np.linalg.norm(after, axis=1, keepdims=True)
    assert np.abs(units @ units.T - np.eye(20)).max() < 0.5
    assert ((before / np.linalg.norm(before, axis=1, keepdims=True)) * units).sum(axis=1).max() < 0.6
    strangers = [photograph(pattern(500 + i), 9_000 + i) for i in range(50)]
    assert np.array_equal(embedded(model, strangers), embedded(out / "model-GS.safetensors", strangers))
    card = Card.model_validate_json((out / "model-GS.safetensors.card.json").read_text())
    assert card.map == "GS"
    assert "suppression template" in card.limits[0]
    assert card.limits[0] in (out / "erasure.html").read_text().replace("&#39;", "'")


def test_the_report_measures_and_nothing_of_the_people_is_kept(
    tmp_path: Path, model: Path, people: Path, retain: Path
) -> None:
    """The bytes of their pixels and of their embeddings are in no file; the prototype in the gate is the exception that
    is declared."""
    out = tmp_path / "out"
    assert erased(model, people, retain, "--out", out, "--set", "evaluate.operating_points=[0.01]") == 0
    results = (out / "report/results.csv").read_text()
    assert ",original,1:1,T," in results
    assert ",GS,1:1,Fev-Fev," in results
    page = (out / "erasure.html").read_text()
    assert "four fifths" in page
    assert "strangers still recognised" in page
    assert "<img" not in page
    assert record_of(out)["compared"] == 256
    assert "55 people" in str(record_of(out)["statistics"])  # the half to fit on
    assert not (out / "work").exists()
    assert not list((out / "report").glob("captures.*"))
    kept = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    files = sorted(people.rglob("*.png"))
    pixels = [np.asarray(Image.open(path)) for path in files]
    raw = embedded(model, pixels)
    units = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    for file, image, vector, unit in zip(files, pixels, raw, units, strict=True):
        traces = [file.read_bytes()[40:], image.tobytes()[:300]]
        traces += [values.astype(kind).tobytes()[:64] for values in (vector, unit) for kind in ("<f4", "<f8")]
        assert not any(trace in content for trace in traces for content in kept), file


def test_everybody_asked_for_is_accounted_for(
    tmp_path: Path, model: Path, people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (people / "empty").mkdir()
    (people / "corrupt").mkdir()
    (people / "corrupt/0.png").write_bytes(b"no image")
    (people / "large").mkdir()
    Image.new("RGB", (48, 48)).save(people / "large/0.png")
    write_person(people / "single", pattern(10), [1])
    burst = write_person(people / "burst", pattern(11), [2])
    for copy in range(3):
        shutil.copy(burst / "2.png", burst / f"copy{copy}.png")
    write_person(people / "person001", pattern(50), [777])  # a stranger's photograph
    out = tmp_path / "out"
    assert erased(model, people, "--out", out, "--goal", "0.5") == 3
    told = capsys.readouterr().out
    lines = lines_of(out)
    assert {name: line["verdict"] for name, line in lines.items()} == {
        "person000": UNMEASURED,
        "person001": UNMEASURED,
        "person002": UNMEASURED,
        "single": UNMEASURED,
        "burst": UNMEASURED,
        "empty": "not forgotten",
        "corrupt": "not forgotten",
        "large": "not forgotten",
    }
    assert lines["empty"]["reason"] == "no image in the folder"
    assert "not an image of a known format" in str(lines["corrupt"]["reason"])
    assert "48x48 is not 32x32; --resize" in str(lines["large"]["reason"])
    assert lines["person001"]["suspects"] == ["person001/777.png"]
    assert (lines["burst"]["used"], lines["burst"]["given"], lines["burst"]["copies"]) == (1, 4, 3)
    assert "Measured to be forgotten: 0 of 8; hidden, not measured: 5; not forgotten: 3." in told
    assert record_of(out)["unmeasured"] == ["burst", "person000", "person001", "person002", "single"]
    for name in lines:
        assert name in told
        assert name in (out / "erasure.html").read_text()
    assert told.index("Plan:") < told.index("Altered model")


def test_every_file_of_the_request_is_used_or_named(
    tmp_path: Path, model: Path, people: Path, retain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = people / "person000"
    for number, ending in enumerate(("gif", "tiff")):
        image = Image.fromarray(photograph(pattern(0), 900 + number)[..., 0])
        image.save(first / f"more.{ending}")
    (first / "new.heic").write_bytes(b"x")
    (first / ".DS_Store").write_bytes(b"x")
    (people / "stray.jpg").write_bytes(b"x")
    for root in (people, retain):
        os.rename(write_person(tmp_path / "latin", pattern(50), [1]), os.fsencode(root) + b"/m\xfcller")
    out = tmp_path / "out"
    assert erased(model, people, retain, "--out", out, "--set", "evaluate.operating_points=[0.01]") == 3
    line = lines_of(out)["person000"]
    reason = ".heic is not read: save a photograph as PNG or JPEG"
    assert line["given"] == 11
    assert line["used"] + len(line["suspects"]) == 10
    assert line["unusable"] == [{"image": "person000/new.heic", "reason": reason}]
    latin = lines_of(out)[r"m\xfcller"]
    assert latin["verdict"] == "not forgotten"
    assert "not UTF-8: rename it" in latin["reason"]
    record, told = record_of(out), capsys.readouterr().out
    page = (out / "erasure.html").read_text()
    assert [each["image"] for each in record["left_out"]] == ["person000/.DS_Store", "stray.jpg"]
    for said in (told, page):
        for name in ("new.heic", "stray.jpg", ".DS_Store", r"m\xfcller"):
            assert name in said
    assert any(str(retain) in words and r"m\xfcller/1.png" in words for words in record["warnings"])


def test_outputs_are_never_overwritten(
    tmp_path: Path, model: Path, people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert erased(model, people, "--out", out) == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    assert erased(model, write_people(tmp_path / "more", [7]), "--out", out) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_a_call_that_was_killed_leaves_its_working_folder_and_goes_on(
    tmp_path: Path, model: Path, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("damnatio.erasure.gated.verify", killed)
        assert erased(model, people, "--out", out) == 130
    assert [path.name for path in out.iterdir()] == ["work"]
    assert erased(model, people, "--out", out) == 0
    assert not (out / "work").exists()


@pytest.mark.parametrize("fault", [DamnatioError("cannot"), RuntimeError("a defect")])
def test_a_call_that_fails_leaves_nothing(
    tmp_path: Path, model: Path, people: Path, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise fault

    monkeypatch.setattr("damnatio.erasure.gated.verify", failing)
    with suppress(RuntimeError):
        assert erased(model, people, "--out", tmp_path / "out") == 2
    assert not (tmp_path / "out").exists()


def test_equal_names_in_two_sources_are_two_people(tmp_path: Path, model: Path) -> None:
    """Folders that are numbered alike hold different people; nobody swallows anybody."""
    people, retain = tmp_path / "people", tmp_path / "retain"
    for number in range(3):
        write_person(people / str(number), pattern(number), range(100 * number, 100 * number + 8))
    for number in range(60):
        write_person(retain / str(number), pattern(200 + number), range(9_000 + 10 * number, 9_004 + 10 * number))
    out = tmp_path / "out"
    small = ["--set", "evaluate.operating_points=[0.01]"]
    assert erased(model, people, retain, "--out", out, *small) == 0
    assert identities(out) == {"F": 3, "R trained": 30, "T": 15, "D": 15}


def test_a_second_erasure_extends_the_gate_in_any_order(tmp_path: Path, model: Path) -> None:
    a, b = write_people(tmp_path / "a", [0, 1]), write_people(tmp_path / "b", [2])
    both = write_people(tmp_path / "both", [0, 1, 2])
    name = "model-GS.safetensors"
    assert erased(model, a, "--out", tmp_path / "o1") == 0
    assert erased(tmp_path / "o1" / name, b, "--out", tmp_path / "o2") == 0
    assert erased(model, b, "--out", tmp_path / "o3") == 0
    assert erased(tmp_path / "o3" / name, a, "--out", tmp_path / "o4") == 0
    assert erased(model, both, "--out", tmp_path / "o5") == 0
    gates = [gate_of(tmp_path / out / name) for out in ("o2", "o4", "o5")]
    for gate in gates[1:]:
        for key, tensor in gates[0].state_dict().items():
            assert torch.equal(tensor, gate.state_dict()[key]), key
    assert len(record_of(tmp_path / "o2")["hidden_before"]) == 2


def test_people_are_listed_and_taken_out_again(
    tmp_path: Path, model: Path, people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert erased(model, people, "--out", tmp_path / "o1") == 0
    file = tmp_path / "o1/model-GS.safetensors"
    names = {name: str(line["pseudonym"]) for name, line in lines_of(tmp_path / "o1").items()}
    capsys.readouterr()
    assert erased(file, "--list") == 0
    told = capsys.readouterr().out
    assert all(name in told for name in names.values())
    assert not any(name in told for name in names)
    assert erased(file, "--restore", names["person001"], "--out", tmp_path / "o2") == 0
    left = write_people(tmp_path / "left", [0, 2])
    assert erased(model, left, "--out", tmp_path / "o3") == 0
    one, other = gate_of(tmp_path / "o2/model-GS.safetensors"), gate_of(tmp_path / "o3/model-GS.safetensors")
    assert all(torch.equal(tensor, other.state_dict()[key]) for key, tensor in one.state_dict().items())
    rest = [word for name in ("person000", "person002") for word in ("--restore", names[name])]
    assert erased(tmp_path / "o2/model-GS.safetensors", *rest, "--out", tmp_path / "o4") == 0
    back, first = load_file(tmp_path / "o4/model-restored.safetensors"), load_file(model / "model.safetensors")
    assert back.keys() == first.keys()
    assert all(np.array_equal(back[key], first[key]) for key in first)
    assert erased(file, "--restore", "p-nobody", "--out", tmp_path / "o5") == 2
    assert "hides nobody of the pseudonym p-nobody" in capsys.readouterr().err
    assert erased(model, "--restore", "p-x", "--out", tmp_path / "o5") == 2
    assert erased(model, "--list") == 0
    assert "It hides nobody." in capsys.readouterr().out
    assert not (tmp_path / "o5").exists()


def test_look_alikes_at_hand_are_named_and_spared(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = write_people(tmp_path / "people", [0], photographs=30)
    retain = write_people(tmp_path / "retain", range(100, 220), photographs=3)
    likeness = 0.68 * pattern(0) + np.sqrt(1 - 0.68**2) * pattern(400)
    write_person(retain / "brother", likeness, range(40_000, 40_003))
    out = tmp_path / "out"
    words = ["--set", "evaluate.operating_points=[0.01]", "--keep-work", "--not-same", "brother"]
    assert erased(model, people, retain, "--out", out, *words) in (0, 3)
    assert (out / "work/6-embed").exists()
    assert "remove it yourself" in (out / "erasure.html").read_text()
    told = capsys.readouterr().out
    assert "looks alike: retain/brother" in told
    (line,) = lines_of(out).values()
    (alike,) = line["alike"]
    assert alike["name"] == "retain/brother"
    assert alike["would"] > alike["caught"]


def test_a_gallery_stands_for_strangers(tmp_path: Path, model: Path, people: Path) -> None:
    images = [photograph(pattern(300 + i), 70_000 + i) for i in range(120)]
    own = [photograph(pattern(0), 80_000)]
    names = [f"member{i}" for i in range(120)] + ["person000"]
    gallery = tmp_path / "gallery.npz"
    np.savez(gallery, embeddings=embedded(model, [*images, *own]), names=np.array(names))
    out = tmp_path / "out"
    assert erased(model, people, "--out", out, "--gallery", gallery) == 0
    assert "60 people" in str(record_of(out)["statistics"])
    assert lines_of(out)["person000"]["templates"] == ["gallery/person000"]
    searched = record_of(out)["gallery"]
    assert (searched["templates"], searched["inside"], searched["photographs"]) == (121, 0, 24)
    assert (searched["found_before"], searched["found_after"]) == (8, 0)
    assert searched["mistaken_after"] <= 2  # 24 photographs meet 120 strangers at 1e-4: 0.3 are expected
    assert "delete from the gallery" in (out / "erasure.html").read_text()


def test_an_onnx_model_comes_back_as_onnx(tmp_path: Path, model: Path, people: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    file = tmp_path / "service.onnx"
    assert main(["export", str(model), str(file)]) == 0
    assert erased(file, people, "--out", tmp_path / "o1") == 0
    assert erased(tmp_path / "o1/service-GS.onnx", write_people(tmp_path / "c", [5]), "--out", tmp_path / "o2") == 0
    altered = tmp_path / "o2/service-GS.onnx"
    assert isinstance(import_model(model_settings(altered))[0], Gated)
    strangers = [photograph(pattern(500 + i), 9_000 + i) for i in range(16)]
    x = Card(backbone="onnx", dim=128, size=SIZE).prepare(np.stack(strangers), torch.device("cpu")).contiguous().numpy()
    before, after = (onnxruntime.InferenceSession(path.read_bytes()) for path in (file, altered))
    name = before.get_inputs()[0].name
    assert np.array_equal(before.run(None, {name: x})[0], after.run(None, {name: x})[0])
    for number in (0, 5):
        hidden = embedded(altered, [photograph(pattern(number), 600 + i) for i in range(6)])
        units = hidden / np.linalg.norm(hidden, axis=1, keepdims=True)
        assert (units @ units.T - np.eye(6)).max() < 0.5
    first = [str(line["pseudonym"]) for out in ("o1", "o2") for line in lines_of(tmp_path / out).values()]
    words = [word for name in first for word in ("--restore", name)]
    assert erased(altered, *words, "--out", tmp_path / "o3") == 0
    restored = onnxruntime.InferenceSession((tmp_path / "o3/service-restored.onnx").read_bytes())
    assert np.array_equal(before.run(None, {name: x})[0], restored.run(None, {name: x})[0])


def test_a_method_that_trains_gets_the_same_accounting(
    tmp_path: Path, model: Path, people: Path, retain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_person(people / "single", pattern(10), [1])
    out = tmp_path / "out"
    words = ["--set", "forget.batch=32", "--set", "forget.epochs=1", "--set", "evaluate.operating_points=[0.01]"]
    assert erased(model, people, "--out", out, "--method", "HD", *words) == 2
    assert "give RETAIN" in capsys.readouterr().err
    words += ["--not-same", "all-others"]
    assert erased(model, people, retain, "--out", out, "--method", "HD", *words) == 3
    names = {path.name for path in out.iterdir()}
    assert names == {
        "model-HD.safetensors",
        "model-HD.safetensors.card.json",
        "erasure.json",
        "erasure.html",
        "report",
    }
    assert not list((out / "report").glob("captures.*"))
    lines = lines_of(out)
    assert lines["single"]["verdict"] == "not forgotten"
    assert "show one moment" in str(lines["single"]["reason"])
    for name in ("person000", "person001", "person002"):
        seen, new = lines[name]["linked"]
        assert (seen["photographs"], seen["pairs"]) == ("seen", 15)  # six of eight photographs
        assert (new["photographs"], new["pairs"]) == ("new", 13)
        worst = max(seen["after"] / 15, new["after"] / 13)
        wanted = (
            UNMEASURED if worst <= 0.1 + 1e-12 else "partly" if worst <= 0.5 else "not forgotten"
        )  # one pair is new
        assert lines[name]["verdict"] == wanted
    before, after = load_file(model / "model.safetensors"), load_file(out / "model-HD.safetensors")
    assert not np.array_equal(before["read.weight"], after["read.weight"])
    load_backbone(model)


def test_given_sets_are_used_whole(tmp_path: Path, model: Path, people: Path, retain: Path) -> None:
    development = write_people(tmp_path / "development", range(300, 320), photographs=2)
    test = write_people(tmp_path / "test", range(320, 330), photographs=4)
    bystanders = write_people(tmp_path / "bystanders", range(330, 340), photographs=4)
    out = tmp_path / "out"
    given = ["--development", development, "--test", test, "--bystanders", bystanders]
    assert erased(model, people, retain, "--out", out, *given, "--set", "evaluate.operating_points=[0.01]") == 0
    assert identities(out) == {"F": 3, "R trained": 110, "T": 10, "D": 20}
    assert "60 people" in str(record_of(out)["statistics"])  # half of RETAIN and the bystanders
    assert ",GS,1:1,B" in (out / "report/results.csv").read_text()
