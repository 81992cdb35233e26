"""ViT: InsightFace's vision transformer for faces. Its last layers read every token instead of a class token.

    t_0     = patches(x) + positions
    t       <- t + drop(attention(LN(t)));  t <- t + drop(mlp(LN(t)))      for each block
    f(x)    = BN(Linear(BN(Linear(flatten(LN(t))))))

In training a share of the tokens is hidden from the blocks, and a learned mask token takes their places after the
blocks. The modules have InsightFace's names (recognition/arcface_torch/backbones/vit.py), so that its weights load.
"""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from damnatio.backbones import BACKBONES
from damnatio.backbones.cutting import Cuttable, place_of
from damnatio.support.errors import DamnatioError


class PatchEmbed(nn.Module):
    """Squares of `patch` pixels -> tokens; rows and columns that fill no patch are ignored."""

    def __init__(self, patch: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        tokens: Tensor = self.proj(x)
        return tokens.flatten(2).transpose(1, 2)


class Attention(nn.Module):
    """softmax(q kᵀ / sqrt(d)) v for each head, in the precision of the weights even under autocast."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        qkv: Tensor = self.qkv(x)
        with torch.autocast(x.device.type, enabled=False):
            # N x tokens x (3 heads d) -> three of N x heads x tokens x d
            split = qkv.to(self.qkv.weight.dtype).view(*x.shape[:2], 3, self.heads, -1)
            q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
            weights = (q @ k.transpose(2, 3) * q.shape[3] ** -0.5).softmax(3)
            mixed = (weights @ v).transpose(1, 2).flatten(2)
        out: Tensor = self.proj(mixed)
        return out


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.act = nn.ReLU6()
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(self.act(self.fc1(x)))
        return out


class DropPath(nn.Module):
    """Leaves the branch out for a random share of the images in training, and keeps the expectation."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        keep = 1 - self.rate
        return x * x.new_empty(len(x), 1, 1).bernoulli_(keep) / keep


class Block(nn.Module):
    def __init__(self, width: int, heads: int, drop_path: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Mlp(width)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.attn(self.norm1(x)))
        x = x + self.drop_path(self.mlp(self.norm2(x)))
        return x


class VisionTransformer(nn.Module, Cuttable):
    """N x 3 x size x size -> N x dim, by `depth` blocks over (size // patch)² tokens of `width`.

    drop_path       rate of the last block; the rates rise linearly from 0 at the first
    mask_ratio      share of tokens hidden in training; InsightFace's code uses 0.1, whatever its config says
    checkpointing   compute the blocks again in the backward pass instead of keeping their activations
    """

    def __init__(
        self,
        size: int,
        dim: int,
        *,
        patch: int = 9,
        width: int = 512,
        depth: int = 12,
        heads: int = 8,
        drop_path: float = 0.1,
        mask_ratio: float = 0.1,
        checkpointing: bool = False,
    ) -> None:
        if size < patch:
            raise DamnatioError(
                f"This ViT cuts patches of {patch} pixels: give images of at least {patch}, not {size}."
            )
        super().__init__()
        tokens = (size // patch) ** 2
        self.mask_ratio = mask_ratio
        self.checkpointing = checkpointing
        self.patch_embed = PatchEmbed(patch, width)
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, width))
        self.mask_token = nn.Parameter(torch.zeros(1, 1, width))
        self.blocks = nn.ModuleList(Block(width, heads, drop_path * i / max(1, depth - 1)) for i in range(depth))
        self.norm = nn.LayerNorm(width)
        self.feature = nn.Sequential(
            nn.Linear(width * tokens, width, bias=False),
            nn.BatchNorm1d(width, eps=2e-5),
            nn.Linear(width, dim, bias=False),
            nn.BatchNorm1d(dim, eps=2e-5),
        )
        # As in InsightFace: spread 0.02 for positions, mask token and every linear layer, biases at zero.
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.normal_(self.mask_token, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        t: Tensor = self.patch_embed(x) + self.pos_embed
        tokens = t.shape[1]
        kept = max(1, int(tokens * (1 - self.mask_ratio))) if self.training else tokens
        if kept == tokens:
            t = self.norm(self._through_blocks(t))
        else:
            # Attention does not see the order of tokens: shuffle them, use the first `kept`, and restore the order.
            order = torch.rand(len(t), tokens, device=t.device).argsort(1)
            t = self.norm(self._through_blocks(_pick(t, order[:, :kept])))
            masks = self.mask_token.to(t.dtype).expand(len(t), tokens - kept, -1)
            t = _pick(torch.cat([t, masks], 1), order.argsort(1))
        with torch.autocast(x.device.type, enabled=False):  # as in InsightFace, never in half precision
            out: Tensor = self.feature(t.flatten(1).to(self.pos_embed.dtype))
        return out

    def cut_points(self) -> list[str]:
        return ["patch_embed", *(f"blocks.{i}" for i in range(len(self.blocks)))]

    def usual_cut(self) -> str:
        return f"blocks.{len(self.blocks) * 3 // 4}"

    def cut(self, point: str) -> tuple[nn.Module, nn.Module]:
        blocks = place_of(point, self.cut_points())
        return _Trunk(self, blocks), _Tail(self, blocks)

    def _through_blocks(self, t: Tensor) -> Tensor:
        for block in self.blocks:
            if self.checkpointing and self.training and torch.is_grad_enabled():
                t = checkpoint(block, t, use_reentrant=False)  # replays the RNG, so that drop-path drops the same
            else:
                t = block(t)
        return t


class _Trunk(nn.Module):
    """The first blocks of a ViT: images -> tokens."""

    def __init__(self, whole: VisionTransformer, blocks: int) -> None:
        super().__init__()
        self.patch_embed, self.pos_embed, self.blocks = whole.patch_embed, whole.pos_embed, whole.blocks[:blocks]

    def forward(self, x: Tensor) -> Tensor:
        t: Tensor = self.patch_embed(x) + self.pos_embed
        for block in self.blocks:
            t = block(t)
        return t


class _Tail(VisionTransformer):
    """The other blocks and the last layers of a ViT, for tokens to which the positions were added. In training, tokens
    are hidden from these blocks only: the trunk has seen all of them."""

    def __init__(self, whole: VisionTransformer, blocks: int) -> None:
        nn.Module.__init__(self)
        self.mask_ratio, self.checkpointing = whole.mask_ratio, whole.checkpointing
        self.patch_embed = nn.Identity()  # type: ignore[assignment]
        self.register_buffer("pos_embed", torch.zeros_like(whole.pos_embed[:, :1, :1]), persistent=False)
        self.mask_token = whole.mask_token
        self.blocks = nn.ModuleList()
        for name, block in list(whole.blocks.named_children())[blocks:]:
            self.blocks.add_module(name, block)
        self.norm, self.feature = whole.norm, whole.feature


def _pick(tokens: Tensor, index: Tensor) -> Tensor:
    """N x T x C tokens, N x K index -> N x K x C."""
    return tokens.gather(1, index.unsqueeze(2).expand(-1, -1, tokens.shape[2]))


@BACKBONES.register("vit-s")
def vit_s(size: int, dim: int) -> nn.Module:
    """InsightFace's small face transformer: 12 blocks of 512, 76.0 M parameters at size 112, dim 512."""
    return VisionTransformer(size, dim)


@BACKBONES.register("vit-b")
def vit_b(size: int, dim: int) -> nn.Module:
    """Twice as deep as vit-s, not wider: InsightFace's, not ImageNet's."""
    return VisionTransformer(size, dim, depth=24, checkpointing=True)


@BACKBONES.register("vit-tiny")
def vit_tiny(size: int, dim: int) -> nn.Module:
    """64 tokens of 96 at 32 pixels, for demonstrations and tests on a CPU."""
    return VisionTransformer(size, dim, patch=4, width=96, depth=4, heads=4)


@BACKBONES.register("vit-tiny-b")
def vit_tiny_b(size: int, dim: int) -> nn.Module:
    """Twice as deep as vit-tiny, as vit-b is to vit-s."""
    return VisionTransformer(size, dim, patch=4, width=96, depth=8, heads=4)


@BACKBONES.register("vit-quick")
def vit_quick(size: int, dim: int) -> nn.Module:
    """6 blocks of 128 over 16 tokens at 32 pixels: few tokens make it three times as quick as vit-tiny."""
    return VisionTransformer(size, dim, patch=8, width=128, depth=6, heads=4)
