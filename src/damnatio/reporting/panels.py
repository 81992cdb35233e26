"""The models of one run side by side: those whose network was changed, and the maps behind a network that stays."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from damnatio.reporting.lookup import Results

MAPS = (
    "map: placed behind the network, which stays as it is: whoever cuts the map off has everybody back. The others "
    "change the network; best values are theirs."
)
CONTROL = "FT is the control: it trains on without forgetting anybody."
REBUILT = "‡ Rebuilt from the paper's description: we could not read all of the original."


@dataclass(frozen=True)
class Panel:
    """A group of columns of a table: the models of one run at one scale, f* first and maps behind the network last."""

    title: str
    results: Results
    scale: str
    variants: Sequence[str]

    @property
    def titles(self) -> list[str]:
        return [self.results.titles[variant] for variant in self.variants]

    @property
    def maps(self) -> list[str]:
        return [variant for variant in self.variants if variant in self.results.maps]

    @property
    def split(self) -> int:
        """The place after f* and the methods that change the network."""
        return len(self.variants) - len(self.maps)

    def around(self, each: Sequence[str], *between: str) -> list[str]:
        """What belongs to each model, with columns of their own before those of the maps."""
        return [*each[: self.split], *between, *each[self.split :]]

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The headings, with the count of columns: the networks with chance and n, then the maps."""
        networks = (self.title, self.split + 2)
        return [networks, (f"{self.title} map".strip(), len(self.maps))] if self.maps else [networks]


def panels_of(results: Results, scales: Sequence[str], variants: Sequence[str]) -> list[Panel]:
    """One panel per scale, of the same variants."""
    return [Panel(scale, results, scale, variants) for scale in scales]


def kinds_of(variants: Sequence[str], maps: Collection[str]) -> dict[int, str]:
    """The titles of the two kinds of rows by the number of the first, in a table that has both."""
    first = next((place for place, variant in enumerate(variants) if variant in maps), 0)
    return (
        {0: "The original, and methods that change the network", first: "Maps behind a network that stays as it is"}
        if first
        else {}
    )


def footnotes(panels: Sequence[Panel]) -> list[str]:
    titles = [title for panel in panels for title in panel.titles]
    notes = [MAPS] if any(panel.maps for panel in panels) else []
    notes += [CONTROL] if "FT" in titles else []
    return [*notes, REBUILT] if any(title.endswith("‡") for title in titles) else notes
