"""Models out: the file that users deploy, what it computes, and the card beside it."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from damnatio.cli.main import main
from damnatio.models.card import Card, read_card
from damnatio.models.exporting import export
from damnatio.models.gate import Gate, Gated
from damnatio.models.importing import adopt, import_model
from damnatio.models.store import load_backbone, save_model
from damnatio.recipe.schema import ModelSettings
from damnatio.support.errors import DamnatioError
from tests.models.gates import gate_around, member, record, scatter, units
from tests.models.onnx.world import exported, nudge, settled

CARD = Card(backbone="iresnet-tiny", dim=16, size=32, colour="BGR", deviation=128.0, licence="MIT", origin="a lab")


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("ending", ["safetensors", "pth", "pt"])
def test_state_dict_keeps_its_names_and_comes_back_with_its_card(ending: str, tmp_path: Path) -> None:
    network, path = settled("iresnet-tiny", 32, 16), tmp_path / f"f.{ending}"
    card = export(network, CARD, path)
    assert json.loads((tmp_path / f"f.{ending}.card.json").read_text())["sha256"] == sha(path) == card.sha256
    stored = load_file(path) if ending == "safetensors" else torch.load(path, weights_only=True)
    assert list(stored) == list(network.state_dict()) or ending == "safetensors"
    assert all(torch.equal(stored[name], tensor) for name, tensor in network.state_dict().items())
    again, read = import_model(ModelSettings(weights=path))
    assert (read.colour, read.deviation, read.licence, read.dim, read.size) == ("BGR", 128.0, "MIT", 16, 32)
    assert "a lab" in read.origin
    x = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(again(x), network(x), rtol=1e-3, atol=1e-3)


@pytest.mark.cli
def test_onnx_is_one_file_for_any_number_of_images_with_its_parity_recorded(tmp_path: Path) -> None:
    network, path = settled("iresnet-tiny", 32, 16), tmp_path / "f.onnx"
    card = export(network, CARD, path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["f.onnx", "f.onnx.card.json"]
    assert card.parity is not None
    assert card.parity < 1e-5
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [(i.name, i.shape[1:]) for i in session.get_inputs()] == [("input.1", [3, 32, 32])]
    assert len(session.get_outputs()) == 1
    for count in (1, 5):
        x = torch.rand(count, 3, 32, 32)
        (theirs,) = session.run(None, {"input.1": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(theirs), network(x).detach(), rtol=1e-3, atol=1e-3)
    assert not network.training


@pytest.mark.cli
def test_graph_goes_out_as_the_graph_it_was_and_as_nothing_else(tmp_path: Path) -> None:
    exported("mobilefacenet", 32, 16, tmp_path / "old.onnx", traced=True)
    network, card = import_model(ModelSettings(weights=tmp_path / "old.onnx"), 32)
    assert (card.backbone, card.dim, card.mean, card.deviation) == ("onnx", 16, 127.5, 127.5)
    assert card.parity is not None
    nudge(network, 32, steps=1)
    (tmp_path / "folder").mkdir()
    save_model(network, None, card, tmp_path / "folder")
    again, read = load_backbone(tmp_path / "folder")
    assert read.sha256 == sha(tmp_path / "folder/model.onnx")
    x = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(again(x), network(x))
    assert main(["export", str(tmp_path / "folder"), str(tmp_path / "new.onnx")]) == 0
    old, new = (onnx.load(tmp_path / name).graph for name in ("old.onnx", "new.onnx"))
    assert (old.input, old.output) == (new.input, new.output)
    assert sha(tmp_path / "new.onnx") == read.sha256
    with pytest.raises(DamnatioError, match=r"is an ONNX graph, which .pth cannot hold: export it to .onnx"):
        export(network, card, tmp_path / "new.pth")


def test_card_of_another_file_is_refused(tmp_path: Path) -> None:
    export(settled("iresnet-tiny", 32, 16), CARD, tmp_path / "f.pth")
    torch.save(
        dict(settled("iresnet-tiny", 32, 16).train().state_dict()) | {"bn1.bias": torch.ones(16)}, tmp_path / "f.pth"
    )
    with pytest.raises(DamnatioError, match=r"f.pth.card.json is the card of another file than f.pth"):
        import_model(ModelSettings(weights=tmp_path / "f.pth"))


def test_card_that_calls_the_deviation_scale_is_still_read(tmp_path: Path) -> None:
    export(settled("iresnet-tiny", 32, 16), CARD, tmp_path / "f.pth")
    place = tmp_path / "f.pth.card.json"
    content = json.loads(place.read_text())
    assert (content["deviation"], "scale" in content) == (128.0, False)
    old = {("scale" if key == "deviation" else key): value for key, value in content.items()}
    place.write_text(json.dumps(old))
    assert import_model(ModelSettings(weights=tmp_path / "f.pth"))[1].deviation == 128.0
    place.write_text(json.dumps({**old, "deviation": 127.5}))
    with pytest.raises(DamnatioError, match=r"f.pth.card.json is not a readable model card .*scale"):
        import_model(ModelSettings(weights=tmp_path / "f.pth"))


@pytest.mark.parametrize(
    "content", ["{", "[" * 20_000, '{"backbone": "x"}', '{"backbone": "x", "dim": 8, "size": 8, "colour": "rgb"}']
)
def test_card_that_is_none_is_reported(content: str, tmp_path: Path) -> None:
    export(settled("iresnet-tiny", 32, 16), CARD, tmp_path / "f.pth")
    (tmp_path / "f.pth.card.json").write_text(content)
    with pytest.raises(DamnatioError, match=r"f.pth.card.json is not a readable model card"):
        import_model(ModelSettings(weights=tmp_path / "f.pth"))


@pytest.mark.cli
def test_faults_of_the_verb_are_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(settled("iresnet-tiny", 32, 16), CARD, tmp_path / "f.pth")
    source = str(tmp_path / "f.pth")
    for words, said in (
        ([source, "f.tflite"], "f.tflite ends in none of .onnx, .safetensors, .pth, .pt, .pt2"),
        ([source, str(tmp_path / "no/f.onnx")], "There is no folder"),
        ([str(tmp_path / "absent.pth"), "f.onnx"], "there is no file"),
        ([source, "f.onnx", "--set", "seed=1"], "there is a model here and no recipe"),
        ([source, "f.onnx", "--set", "model.color=BGR"], "unknown key 'model.color'. Did you mean 'colour'?"),
    ):
        assert main(["export", *words]) == 2
        assert said in capsys.readouterr().err


def test_absent_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(DamnatioError, match=r"pip install 'damnatio\[onnx\]'"):
        export(settled("iresnet-tiny", 32, 16), CARD, tmp_path / "f.onnx")


@pytest.mark.cli
def test_a_network_of_ones_own_becomes_a_model_folder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    own = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 16)
    )
    own.train()(torch.rand(16, 3, 32, 32))
    card = adopt(own, Card(backbone="", dim=16, size=32, licence="MIT"), tmp_path / "mine")
    assert (card.backbone, card.licence) == ("onnx", "MIT")
    network, _ = import_model(ModelSettings(weights=tmp_path / "mine"))
    x = torch.rand(4, 3, 32, 32)
    torch.testing.assert_close(network(x), own.eval()(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network.train()(x), own.train()(x), rtol=1e-4, atol=1e-5)  # a batch norm is one
    assert sum(p.numel() for p in network.parameters()) == sum(p.numel() for p in own.parameters())
    with pytest.raises(DamnatioError, match=r"makes 16 values of an image, and its card says 512"):
        adopt(own, Card(backbone="", dim=512, size=32), tmp_path / "mine")


# --- models with a gate ----------------------------------------------------------------------------------------------

OUTSIDE = """
import importlib.util, sys
sys.modules["damnatio"] = None  # whoever imports it fails
spec = importlib.util.spec_from_file_location("rebuilt", sys.argv[1] + ".gate.py")
rebuilt = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rebuilt)
from safetensors.torch import load_file, save_file
weights, gate = rebuilt.load_gate(sys.argv[1])
raw = load_file(sys.argv[2])["raw"]
named = {"weights." + name: tensor.contiguous() for name, tensor in weights.items()}
save_file({**named, "out": gate(raw)}, sys.argv[3])
"""


def altered() -> tuple[Gated, torch.Tensor]:
    """A network with a gate that the first of the images is in, and the images."""
    network, x = settled("iresnet-tiny", 32, 16), torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        first = F.normalize(network(x)[:1], dim=1).clone()
    return Gated(network, gate_around(torch.cat([first, units(2, 16, 1)]))), x


@pytest.mark.parametrize("ending", ["safetensors", "pth"])
def test_a_script_without_damnatio_rebuilds_the_gate(ending: str, tmp_path: Path) -> None:
    model, x = altered()
    path = tmp_path / f"f.{ending}"
    export(model, CARD, path)
    with torch.inference_mode():
        raw = model.network(x)
    save_file({"raw": raw.contiguous()}, tmp_path / "raw.safetensors")
    files = [str(file) for file in (path, tmp_path / "raw.safetensors", tmp_path / "out.safetensors")]
    said = subprocess.run([sys.executable, "-c", OUTSIDE, *files], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    found = load_file(tmp_path / "out.safetensors")
    with torch.inference_mode():
        ours = model(x)
    torch.testing.assert_close(found["out"], ours, rtol=1e-4, atol=1e-4 * float(raw.norm(dim=1).max()))
    assert F.cosine_similarity(ours[:1], raw[:1]) < 0.9
    assert torch.equal(found["out"][-1], raw[-1])
    names = {name.removeprefix("weights.") for name in found if name.startswith("weights.")}
    assert names == set(model.network.state_dict())


def test_a_network_without_a_gate_has_no_script(tmp_path: Path) -> None:
    export(settled("iresnet-tiny", 32, 16), CARD, tmp_path / "f.pth")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["f.pth", "f.pth.card.json"]
    card = json.loads((tmp_path / "f.pth.card.json").read_text())
    assert not {"map", "limits"} & set(card)


PROGRAM = """
import sys, torch
sys.modules["damnatio"] = None
from safetensors.torch import load_file, save_file
program = torch.export.load(sys.argv[1]).module()
x = load_file(sys.argv[2])["x"]
save_file({str(n): program(x[:n]) for n in (1, 4)}, sys.argv[3])
"""


@pytest.mark.cli
def test_a_program_of_torch_runs_without_damnatio_for_any_number_of_images(tmp_path: Path) -> None:
    model, x = altered()
    export(model, CARD, tmp_path / "f.pth")
    assert main(["export", str(tmp_path / "f.pth"), str(tmp_path / "f.pt2")]) == 0
    assert (read_card(tmp_path / "f.pt2.card.json").map, read_card(tmp_path / "f.pt2.card.json").parity) == ("GS", None)
    save_file({"x": x}, tmp_path / "x.safetensors")
    files = [str(tmp_path / name) for name in ("f.pt2", "x.safetensors", "out.safetensors")]
    said = subprocess.run([sys.executable, "-c", PROGRAM, *files], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    found = load_file(tmp_path / "out.safetensors")
    with torch.inference_mode():
        ours = model(x)
    for count in (1, 4):
        torch.testing.assert_close(
            found[str(count)], ours[:count], rtol=1e-3, atol=1e-3 * float(ours.norm(dim=1).max())
        )


def test_a_network_that_torch_cannot_export_gets_one_sentence(tmp_path: Path) -> None:
    class Deciding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.fc(x) if bool(x.sum() > 0) else x
            return out

    with pytest.raises(DamnatioError, match=r"^torch.export cannot write the network \("):
        export(Deciding(), CARD, tmp_path / "f.pt2")
    assert not list(tmp_path.iterdir())


def test_the_card_of_a_gated_model_says_what_it_does_not_do(tmp_path: Path) -> None:
    model, _ = altered()
    card = export(model, CARD, tmp_path / "f.safetensors")
    text = " ".join(read_card(tmp_path / "f.safetensors.card.json").limits)
    assert text == " ".join(card.limits)
    assert "The file keeps a suppression template per person, 3 in all, by which it knows whom to hide." in text
    assert "its cosine to the person's own template, made of the same photographs, is 1." in text
    assert "Whoever holds the file can cut the gate off" in text
    assert "--burn-in" in text
    assert "Strangers touched: unknown" in text
    assert "0.0001" not in text
    two = Gate.of([member(units(2, 16, 5))], record(), 0.05, scatter(16))
    again = export(Gated(model.network, two), CARD, tmp_path / "f.safetensors")
    assert "1 in all in 2 vectors" in again.limits[0]
    assert export(model.network, again, tmp_path / "f.safetensors").limits == []
