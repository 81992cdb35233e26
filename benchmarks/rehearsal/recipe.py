"""The size of a rehearsal, and the recipe that it takes: the paper's, on tiny images and with a tiny network."""

from dataclasses import dataclass
from pathlib import Path

IMAGES, IDENTITIES = 4_200_000, 205_990
"""of WebFace4M (the paper, IV-A)"""
SIDE = 16
"""pixels of an image: the least that the recipe allows"""
RECIPE = "paper-tables-3-4"


@dataclass(frozen=True)
class Size:
    """A share of the paper's numbers of identities."""

    share: float

    def of(self, count: int, least: int = 2) -> int:
        return max(round(count * self.share), least)

    @property
    def identities(self) -> int:
        return self.of(IDENTITIES)

    @property
    def partitions(self) -> dict[str, object]:
        """As in Table II. The paper's forget identities have 31 capture instances in the mean, more than others: with
        our distribution of images that is the mean of those who have twelve or more."""
        return {
            "retain": self.of(100_000),
            "control": self.of(1_000),
            "test": self.of(1_000),
            "development": self.of(35_850),
            "distractors": self.of(50_000),
            "scales": f"{{S1: {self.of(1_000)}, S2: {self.of(5_000, 3)}}}",
            "forget_min_images": 12,
            "forget_counts": "instances",
        }


def words(size: Size, records: Path) -> list[str]:
    """The overrides of the paper's recipe. Pixels are not kept, since those of WebFace4M would not be: every stage
    decodes what it reads."""
    settings = {
        "faces.source": "recordio",
        "faces.path": records,
        "faces.size": SIDE,
        "faces.cache_gb": 0,
        "model.backbone": "iresnet-tiny",
        **{f"partitions.{name}": value for name, value in size.partitions.items()},
        "forget.scales": "[S1, S2]",
        "train.log_every": 1,
        "forget.log_every": 1,
        "train.precision": "fp32",  # processors that emulate bf16 would take minutes for a step
        "forget.precision": "fp32",
        "train.checkpoint_seconds": 1,
        "forget.checkpoint_seconds": 1,
        "train.workers": 0,
        "forget.workers": 0,
        "threads": 0,
        "train.checkpoint_share": 1,
        "forget.checkpoint_share": 1,
    }
    return [f"{name}={value}" for name, value in settings.items()]
