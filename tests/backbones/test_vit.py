import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.backbones import BACKBONES
from damnatio.backbones.vit import Attention, DropPath, VisionTransformer


def small(**options: float | bool) -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(16, 8, patch=4, width=12, depth=3, heads=2, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "expected"), [("vit-s", 76_023_296), ("vit-b", 113_833_472)])
def test_parameter_counts_are_insightfaces(name: str, expected: int) -> None:
    with torch.device("meta"):
        model = BACKBONES.get(name)(112, 512)
    assert sum(p.numel() for p in model.parameters()) == expected


def test_tensor_names_and_shapes_are_insightfaces() -> None:
    with torch.device("meta"):
        state = BACKBONES.get("vit-s")(112, 512).state_dict()
    shapes = {
        "patch_embed.proj.weight": (512, 3, 9, 9),
        "patch_embed.proj.bias": (512,),
        "pos_embed": (1, 144, 512),
        "mask_token": (1, 1, 512),
        "blocks.0.norm1.weight": (512,),
        "blocks.0.attn.qkv.weight": (1536, 512),
        "blocks.0.attn.proj.bias": (512,),
        "blocks.11.norm2.bias": (512,),
        "blocks.11.mlp.fc1.weight": (2048, 512),
        "blocks.11.mlp.fc2.bias": (512,),
        "norm.weight": (512,),
        "feature.0.weight": (512, 73_728),
        "feature.1.running_mean": (512,),
        "feature.2.weight": (512, 512),
        "feature.3.weight": (512,),
    }
    assert {name: tuple(state[name].shape) for name in shapes} == shapes
    assert "blocks.0.attn.qkv.bias" not in state


def test_attention_is_its_equation() -> None:
    torch.manual_seed(0)
    attention, x = Attention(12, heads=3), torch.randn(2, 5, 12)
    q, k, v = attention.qkv(x).chunk(3, dim=2)
    mixed = torch.empty(2, 5, 12)
    for n in range(2):
        for head in (slice(0, 4), slice(4, 8), slice(8, 12)):
            for i in range(5):
                weights = torch.stack([(q[n, i, head] * k[n, j, head]).sum() / 2 for j in range(5)]).softmax(0)
                mixed[n, i, head] = sum(weights[j] * v[n, j, head] for j in range(5))
    torch.testing.assert_close(attention(x), attention.proj(mixed))


def test_pixels_that_fill_no_patch_are_ignored() -> None:
    torch.manual_seed(0)
    model = VisionTransformer(22, 8, patch=9, width=12, depth=1, heads=2).eval()
    x = torch.randn(2, 3, 22, 22)
    beyond = x.clone()
    beyond[:, :, 18:], beyond[:, :, :, 18:] = 9.0, 9.0
    assert torch.equal(model(x), model(beyond))


def test_drop_path_drops_whole_images_and_keeps_the_expectation() -> None:
    torch.manual_seed(0)
    out = DropPath(0.25).train()(torch.ones(4000, 3, 2))
    assert out.unique().tolist() == pytest.approx([0, 4 / 3])
    assert torch.equal(out.amin((1, 2)), out.amax((1, 2)))
    assert float(out.mean()) == pytest.approx(1, abs=0.05)
    rates = [block.get_submodule("drop_path").rate for block in small(drop_path=0.1).blocks]
    assert rates == pytest.approx([0, 0.05, 0.1])


def test_masking_hides_the_share_of_tokens_and_puts_the_others_back_in_place() -> None:
    model = small(drop_path=0.0, mask_ratio=0.3).train()
    seen: list[Tensor] = []
    model.feature.register_forward_pre_hook(lambda _, args: seen.append(args[0].view(-1, 16, 12)))
    model.blocks = nn.ModuleList()  # a kept token is then its own patch and position, whatever is hidden
    x = torch.randn(3, 3, 16, 16)
    model(x)
    masked = (seen[0] == model.mask_token).all(2)
    assert masked.sum(1).tolist() == [16 - 11] * 3  # int(16 * 0.7) = 11 remain
    assert not torch.equal(masked[0], masked[1])
    whole = F.layer_norm(model.patch_embed(x) + model.pos_embed, (12,))
    torch.testing.assert_close(seen[0][~masked], whole[~masked])
    model.eval()(x)
    torch.testing.assert_close(seen[1], whole)


def test_checkpointing_changes_no_gradient() -> None:
    x, gradients = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1)), []
    for checkpointing in (False, True):
        model = small(drop_path=0.5, checkpointing=checkpointing).train()
        torch.manual_seed(3)  # one source of chance, torch's: a resumed run drops and hides the same
        model(x).square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for plain, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, recomputed)
    with torch.device("meta"):
        deep = BACKBONES.get("vit-b")(32, 8)
    assert isinstance(deep, VisionTransformer)
    assert deep.checkpointing
