"""What the studies try.

The settings that are compared (counts, shares, bounds, bandwidths, waves) were chosen before any result. The sizes
`draws`, `at_hand`, `again` and `bystanders` were set after first trials, to save time.
"""

from dataclasses import dataclass

POINTS = (1e-4, 1e-2)
"""the false match rates at which everything is judged"""
SEED = 1
"""draws people and photographs; the recipes have their own seed for f*"""


@dataclass(frozen=True)
class Choices:
    people: int = 40
    """people to forget in every study but that of shares"""
    used: int = 16
    """photographs of each that a gate may be made of"""
    new: int = 16
    """at most so many further photographs of each, which no gate has seen"""
    counts: tuple[int, ...] = (1, 2, 4, 8, 16)
    """photographs: the numbers that a gate is made of"""
    bounds: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    """widths: the shares of strangers that all cones may catch together"""
    draws: int = 10
    """widths: sets of people that the bound is tested on"""
    at_hand: int = 320
    """widths: people of each draw who are known to the rule as strangers"""
    bandwidths: tuple[float, ...] = (1, 2, 4, 8, 16, 32)
    waves: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    again: int = 5
    """degraded inputs and near copies: at most so many new photographs of each person are embedded again"""
    bystanders: int = 100
    """degraded inputs: test people whose photographs are embedded again, one of each"""
    averages: tuple[int, ...] = (1, 2, 4, 8, 16)
    """attacks: photographs in an average"""
    relatives: tuple[tuple[str, str], ...] = (
        ("George_W_Bush", "George_HW_Bush"),
        ("George_HW_Bush", "George_W_Bush"),
        ("George_W_Bush", "Jeb_Bush"),
        ("Jeb_Bush", "George_W_Bush"),
        ("Serena_Williams", "Venus_Williams"),
        ("Venus_Williams", "Serena_Williams"),
    )
    """look-alikes: whom to forget, and a relative who must stay; those who are not in the collection are left out"""
    nearest: int = 6
    """look-alikes: so many further pairs, the nearest people of the collection"""


RENDERED_SHARES = {"P1": 10, "P5": 50, "P20": 200, "P50": 500}
"""rendered faces: 1, 5, 20 and 50 % of 1,000 retain identities"""
RENDERED = (
    f"partitions.scales={{{', '.join(f'{name}: {count}' for name, count in RENDERED_SHARES.items())}}}",
    "partitions.forget_min_images=10",
    "partitions.distractors=150",
    "forget.methods=[HD]",
    "forget.scales=[P1, P5, P20, P50]",
)
"""the recipe of rendered faces with forget sets of these sizes; f* is trained once for all"""

LFW_SHARES = {"P1": 17, "P5": 84, "P20": 336, "P50": 840}
"""LFW: 1, 5, 20 and 50 % of the 1,680 people who have two photographs or more"""
LFW_SHARES_DRAW = {
    "retain": 340,
    "control": 340,
    "test": 500,
    "forget_min_images": 2,
    "forget_train": 0.5,
    "min_images": 2,
}
"""the other half is who must stay; of each forgotten person one half of the photographs is used, often a single one"""
LFW_DRAW = {"retain": 320, "control": 320, "test": 500}
"""all other studies; the people to forget have `used` + 4 photographs or more"""
