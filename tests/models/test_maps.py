"""The altered model in a file: the network and its gate come back together, under the names that each has."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.backbones.cutting import cut
from damnatio.embedding import embed_batch
from damnatio.methods import METHODS
from damnatio.models.card import Card, load_card
from damnatio.models.exporting import export
from damnatio.models.gate import Gate, Gated, ungated
from damnatio.models.importing import import_model
from damnatio.models.state_dicts import guess, read_state
from damnatio.models.store import load_backbone, new_backbone, save_model
from damnatio.recipe.schema import ModelSettings
from damnatio.support.errors import DamnatioError
from tests.models.gates import gate_around, units
from tests.models.onnx.world import settled

CARD = Card(backbone="iresnet-tiny", dim=16, size=32)


def images(count: int = 4) -> Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(5)) * 2 - 1


def gated() -> Gated:
    """A network with a gate that is open for the first of the images, and for a person who is not among them."""
    network = new_backbone("iresnet-tiny", 32, 16).eval()
    network.load_state_dict(settled("iresnet-tiny", 32, 16).state_dict())
    with torch.inference_mode():
        first = F.normalize(network(images())[:1], dim=1).clone()
    return Gated(network, gate_around(torch.cat([first, -first]))).eval()


def same(model: nn.Module, other: nn.Module) -> bool:
    with torch.inference_mode():
        return torch.equal(model(images()), other(images()))


def test_a_folder_holds_the_network_and_its_gate_in_one_file(tmp_path: Path) -> None:
    model = gated()
    save_model(model, None, CARD, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["card.json", "model.safetensors"]
    stored = load_file(tmp_path / "model.safetensors")
    assert {name for name in stored if not name.startswith("gate.")} == set(model.network.state_dict())
    again, card = load_backbone(tmp_path)
    assert isinstance(again, Gated)
    assert isinstance(again.gate, Gate)
    assert isinstance(model.gate, Gate)
    assert again.gate.record == model.gate.record
    assert card.map == "GS"
    assert same(again, model)
    with torch.inference_mode():
        was, now = model.network(images()), again(images())
    changed = (was != now).any(dim=1)
    assert changed[0]
    assert torch.equal(was[~changed], now[~changed])


def test_a_model_that_lost_its_gate_has_no_map_in_its_card(tmp_path: Path) -> None:
    save_model(ungated(gated())[0], None, CARD.model_copy(update={"map": "GS"}), tmp_path)
    assert load_card(tmp_path).map == ""


@pytest.mark.parametrize("ending", ["safetensors", "pth", "pt"])
@pytest.mark.parametrize("carded", [True, False])
def test_a_single_file_is_imported_with_its_gate_with_and_without_a_card(
    ending: str, carded: bool, tmp_path: Path
) -> None:
    model, path = gated(), tmp_path / f"f.{ending}"
    export(model, CARD, path)
    if not carded:
        (tmp_path / f"f.{ending}.card.json").unlink()
    again, card = import_model(ModelSettings(weights=path), 32)
    assert (card.map, card.backbone, card.dim) == ("GS", "iresnet-tiny", 16)
    assert isinstance(again, Gated)
    assert same(again, model)
    assert guess(read_state(path), 32, path) == ("iresnet-tiny", 16)


def test_prefixes_of_trainers_are_removed_beside_a_gate(tmp_path: Path) -> None:
    model = gated()
    tensors = {f"module.{name}": t.contiguous() for name, t in model.network.state_dict().items()}
    save_file({**tensors, **model.gate.tensors()}, tmp_path / "f.safetensors")
    assert same(import_model(ModelSettings(weights=tmp_path / "f.safetensors"), 32)[0], model)


def test_a_gated_model_embeds_like_any_other(tmp_path: Path) -> None:
    pixels = torch.randint(0, 256, (3, 32, 32, 3), dtype=torch.uint8).numpy()
    found = embed_batch(gated(), CARD, pixels)
    assert found.shape == (3, 16)
    torch.testing.assert_close(torch.from_numpy(found).norm(dim=1), torch.ones(3))


def test_a_card_that_promises_a_gate_and_a_file_without_one_are_refused(tmp_path: Path) -> None:
    save_model(gated(), None, CARD, tmp_path)
    path = tmp_path / "model.safetensors"
    left = {name: tensor for name, tensor in load_file(path).items() if not name.startswith("gate.")}
    save_file(left, path)
    with pytest.raises(DamnatioError, match=r"model.safetensors holds a gate that .* changed since: the tensor gate"):
        load_backbone(tmp_path)


def test_the_map_of_another_method_is_read_by_that_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = gated()
    save_model(model, None, CARD, tmp_path)
    card = tmp_path / "card.json"
    card.write_text(card.read_text().replace('"GS"', '"HD"'))
    with pytest.raises(DamnatioError, match=r"says that HD altered the model, and HD has no map"):
        load_backbone(tmp_path)
    monkeypatch.setattr(METHODS.get("HD"), "Map", Gate, raising=False)
    assert same(load_backbone(tmp_path)[0], model)


def test_a_network_with_a_layer_called_gate_keeps_it_and_takes_no_gate(tmp_path: Path) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(4, 16)

    with pytest.raises(DamnatioError, match=r"The network has a tensor gate.weight, and names that begin with gate."):
        save_model(Gated(Own(), gate_around(units(1, 16, 0))), None, CARD, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_gated_model_is_neither_cut_nor_fine_tuned() -> None:
    with pytest.raises(DamnatioError, match=r"has a gate behind its network already, and training its tail"):
        cut(gated(), "layer3")
