"""All figures of a run's report, from the folders of its evaluations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors.numpy import load_file

from damnatio.embedding import load_examples
from damnatio.evaluation.calibrating import MARKED
from damnatio.methods.base import method_settings
from damnatio.recipe.schema import Recipe
from damnatio.reporting import figures, trade_off
from damnatio.reporting.illustrations import Illustration
from damnatio.reporting.looks import in_order, looks_of
from damnatio.reporting.lookup import Quantity, Results
from damnatio.reporting.mechanism import ON_THE_SPHERE, mechanisms
from damnatio.reporting.panels import Panel
from damnatio.reporting.weak_strong import choose, weak_and_strong
from damnatio.support.manifests import checked
from damnatio.support.tables import Table


@dataclass(frozen=True)
class Evaluated:
    """The folder of an evaluation: of f* (`original`) or of a variant, at a scale."""

    scale: str
    variant: str
    path: Path
    training: Path | None = None
    """the folder of the model, which says how long its training took; None if it is not at hand"""


def draw(
    recipe: Recipe,
    results: Results,
    panels: Sequence[Panel],
    evaluated: Sequence[Evaluated],
    examples: Path | None,
    folder: Path,
) -> list[Illustration]:
    """Draw every figure into the report's folder. Without example pairs no figure shows a photograph."""
    drawn = [_read(each, results) for each in evaluated]
    order = in_order(list(results.titles))
    drawn.sort(key=lambda model: (recipe.forget.scales.index(model.scale), order.index(model.variant)))
    return [
        *_distributions(recipe.forget.scales, drawn, results, folder),
        *_rates(recipe.forget.scales, drawn, results, folder),
        *_costs(panels, folder),
        *_pairs(recipe, examples, folder),
        *_mechanisms(recipe, folder),
    ]


def _read(each: Evaluated, results: Results) -> figures.Drawn:
    return figures.Drawn(
        each.scale,
        each.variant,
        results.titles[each.variant],
        load_file(checked(each.path / "sketches.safetensors")),
        Table.read(each.path / "curves.parquet"),
        results[Quantity(each.scale, each.variant, "1:1", "D", f"threshold_{MARKED:g}")].value,
    )


def _distributions(
    scales: Sequence[str], drawn: Sequence[figures.Drawn], results: Results, folder: Path
) -> Iterator[Illustration]:
    for scale in scales:
        mine = [model for model in drawn if model.scale == scale]
        chosen = choose(results, scale, [model.variant for model in mine])
        if chosen:
            name = f"weak-strong-{scale}"
            weak_and_strong(mine, chosen, folder, name)
            caption = (
                "Weak forgetting moves the mated forget scores of seen photographs below the threshold τ (FMR "
                f"{MARKED:g}); strong forgetting brings them onto the non-mated scores. The methods that show it best "
                "here are drawn (the paper's Fig. 3)."
            )
            yield Illustration(name, f"Weak and strong forgetting at {scale}", caption, small=True)
        name = f"distributions-{scale}"
        figures.distributions(mine, folder, name)
        caption = (
            "Under f* the mated forget scores lie with the mated retain scores; forgetting moves them to the left "
            "(the paper's Fig. 5)."
        )
        yield Illustration(name, f"Score distributions at {scale}", caption, small=True)


def _rates(
    scales: Sequence[str], drawn: Sequence[figures.Drawn], results: Results, folder: Path
) -> Iterator[Illustration]:
    looks = looks_of(list(results.titles))
    for scale in scales:
        name = f"det-{scale}"
        figures.det([model for model in drawn if model.scale == scale], looks, folder, name)
        caption = "As far down as the development set resolves (the paper's Fig. 6)."
        yield Illustration(name, f"Rates over the operating range at {scale}", caption, small=True)


def _costs(panels: Sequence[Panel], folder: Path) -> Iterator[Illustration]:
    if len(panels[0].variants) > 1:
        trade_off.trade_off(panels, folder)
        title, caption = "What forgetting costs", f"{trade_off.CAPTION} (The paper's Fig. 7.)"
        yield Illustration(trade_off.NAME, title, caption, small=True)


def _pairs(recipe: Recipe, examples: Path | None, folder: Path) -> Iterator[Illustration]:
    if pairs := load_examples(examples) if examples else []:
        figures.capture_pairs(pairs, recipe.captures.threshold, folder)
        caption = (
            "Pairs of images of one identity, with their pixel distance δ and their similarity s under f* (the paper's "
            "Fig. 2)."
        )
        yield Illustration("captures", "Capture instances", caption, small=True)


def _mechanisms(recipe: Recipe, folder: Path) -> Iterator[Illustration]:
    kinds = dict.fromkeys(method_settings(recipe, variant).method for variant in in_order(recipe.forget.methods))
    if moving := [kind for kind in kinds if kind in ON_THE_SPHERE]:
        mechanisms(moving, folder)
        caption = (
            "One identity's images begin in the middle, where f* puts them, and follow each forget loss downhill (GS: "
            "its scatter, as the gate opens). Other identities lie a right angle away, on the dotted circle; the outer "
            "circle is the antipode (the paper's Fig. 4)."
        )
        yield Illustration("mechanism", "Mechanism of each method, on the unit sphere", caption, small=True)
