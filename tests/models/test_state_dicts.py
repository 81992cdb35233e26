"""Which network a file of tensors belongs to, whoever saved it and however wrapped."""

import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from damnatio.backbones import BACKBONES
from damnatio.models.importing import import_model
from damnatio.models.state_dicts import guess, read_state
from damnatio.models.store import new_backbone
from damnatio.recipe.schema import ModelSettings
from damnatio.support.errors import DamnatioError
from tests.assets import WEIGHTS, needs_weights


def state(name: str = "iresnet-tiny", size: int = 32, dim: int = 16) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return dict(BACKBONES.get(name)(size, dim).state_dict())


@pytest.mark.parametrize("name", BACKBONES.names())
def test_every_backbone_is_known_by_its_tensors(name: str) -> None:
    with torch.device("meta"):
        tensors = BACKBONES.get(name)(112, 96).state_dict()
    assert guess(tensors, 112, Path("f.pth")) == (name, 96)


@needs_weights
def test_published_weights_are_known_by_their_tensors() -> None:
    assert guess(read_state(WEIGHTS), 112, WEIGHTS) == ("mobilefacenet", 512)


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda s: s,
        lambda s: {"state_dict": s, "epoch": 3},
        lambda s: {  # arcface_torch's checkpoint_gpu_0.pt
            "epoch": 3,
            "global_step": 7,
            "state_dict_backbone": s,
            "state_dict_softmax_fc": {"weight": torch.ones(4, 16)},
            "state_optimizer": {"state": {}, "param_groups": [{"lr": 0.1, "params": [0]}]},
            "state_lr_scheduler": {"base_lrs": [0.1], "last_epoch": 7},
        },
        lambda s: {"model": {f"module.{name}": tensor for name, tensor in s.items()}},
        lambda s: {name: tensor for name, tensor in s.items() if not name.endswith("num_batches_tracked")},
    ],
)
def test_state_dicts_are_read_in_whatever_they_are_wrapped(wrapped: Any, tmp_path: Path) -> None:
    torch.save(wrapped(state()), tmp_path / "backbone.pth")
    network, card = import_model(ModelSettings(weights=tmp_path / "backbone.pth"), 32)
    assert (card.backbone, card.dim, card.size) == ("iresnet-tiny", 16, 32)
    assert all(torch.equal(tensor, state()[name]) for name, tensor in network.state_dict().items())


def test_code_in_a_file_is_never_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "sprung",)

    torch.save({"state_dict": Trap()}, tmp_path / "trap.pth")
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(Trap()))
    torch.save(new_backbone("iresnet-tiny", 32, 16), tmp_path / "whole.pth")
    for name in ("trap.pth", "raw.pt", "whole.pth"):
        with pytest.raises(DamnatioError, match=rf"{name} holds more than tensors, and code in a file is never run"):
            read_state(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("content", [[1, 2], {"epoch": 3}, {}, {"a": torch.ones(2), "b": "text"}, torch.ones(3)])
def test_what_is_no_state_dict_is_reported(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "f.pth")
    with pytest.raises(DamnatioError, match=r"f.pth holds no state dict"):
        read_state(tmp_path / "f.pth")


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 cut"])
def test_a_damaged_file_is_reported(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f.pth").write_bytes(content)
    with pytest.raises(DamnatioError, match=r"f.pth (is not a file that torch.save wrote|holds more than tensors)"):
        read_state(tmp_path / "f.pth")


def test_a_length_that_a_file_states_is_not_believed(tmp_path: Path) -> None:
    """torch's old format, cut inside a text of two gigabytes."""
    (tmp_path / "f.pth").write_bytes(b"\x80\x02X\xf0\xff\xff\x7f" + b"x" * 10)
    tracemalloc.start()
    try:
        with pytest.raises(DamnatioError, match=r"f.pth is not a file that torch.save wrote"):
            read_state(tmp_path / "f.pth")
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_the_old_format_of_torch_is_read(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "f.pth", _use_new_zipfile_serialization=False)
    assert all(torch.equal(tensor, state()[name]) for name, tensor in read_state(tmp_path / "f.pth").items())


def test_missing_and_foreign_tensors_are_listed(tmp_path: Path) -> None:
    tensors = state(dim=512)
    del tensors["conv1.weight"], tensors["bn1.weight"]
    torch.save({**tensors, "extra.weight": torch.ones(3)}, tmp_path / "f.pth")
    with pytest.raises(DamnatioError) as told:
        import_model(ModelSettings(weights=tmp_path / "f.pth"), 32)
    assert str(told.value).removeprefix(str(tmp_path)) == (
        "/f.pth does not fit the network iresnet-tiny: 2 tensors are missing: conv1.weight, bn1.weight; "
        "1 tensors are foreign: extra.weight. Check model.backbone and model.dim."
    )
    torch.save({"a.weight": torch.ones(3), "b.weight": torch.ones(3)}, tmp_path / "f.pth")
    with pytest.raises(DamnatioError, match=r"the tensors of no known backbone \(a.weight, b.weight, ...\)"):
        import_model(ModelSettings(weights=tmp_path / "f.pth"), 32)
