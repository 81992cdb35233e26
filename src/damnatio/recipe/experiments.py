"""The experiments of a recipe: one recipe that stands for several runs of one folder.

    experiments:                       by name, what differs from the recipe
      iresnet34: {}
      vit-s: {model: {backbone: vit-s}, train: {optimiser: adamw, lr: 0.001}}
    seeds: [1, 2]                      each experiment once with each seed

`experiments` gives the plain recipes that this stands for: `iresnet34-seed1`, `iresnet34-seed2`, `vit-s-seed1` and
`vit-s-seed2`. Without `seeds` they are `iresnet34` and `vit-s`; without `experiments`, `seed1` and `seed2`. They share
one run folder: a stage's output is keyed by what went into it, so what experiments have in common is made once.
"""

import re
from collections.abc import Mapping

from damnatio.recipe.building import built, merged
from damnatio.recipe.protocols import other_protocol
from damnatio.recipe.schema import Recipe
from damnatio.support.errors import DamnatioError

OF_ALL = {"name", "seeds", "experiments", "plugins"}
"""keys that belong to the recipe and to no experiment of it"""


def experiments(recipe: Recipe) -> dict[str, Recipe]:
    """The plain recipe of each experiment and seed, by name; {"": recipe} if the recipe has neither."""
    if not recipe.experiments and not recipe.seeds:
        return {"": recipe}
    plain: dict[str, Recipe] = {}
    seeds: list[int | None] = list(recipe.seeds) if recipe.seeds else [None]
    for name in recipe.experiments or [""]:
        one = _experiment(recipe, name) if name else _settled(recipe, recipe.name)
        for seed in seeds:
            title = "-".join(part for part in (name, "" if seed is None else f"seed{seed}") if part)
            alone = {"name": f"{recipe.name}-{title}", "seed": one.seed if seed is None else seed}
            plain[title] = one.model_copy(update={**alone, "experiments": None, "seeds": None})
    _one_protocol(recipe, plain)
    return plain


def without_seed(name: str, seed: int) -> str:
    """The experiment of which this is the run with this seed."""
    return re.sub(rf"(^|-)seed{seed}$", "", name)


def _one_protocol(recipe: Recipe, plain: Mapping[str, Recipe]) -> None:
    """What a report puts side by side must be measured alike: better said now than after weeks of training."""
    (first, one), *others = plain.items()
    for name, other in others:
        if difference := other_protocol(one, other):
            raise DamnatioError(
                f"Recipe {recipe.name}: the experiments {first} and {name} cannot stand in one table: {difference}. "
                "Make them two recipes."
            )


def _experiment(recipe: Recipe, name: str) -> Recipe:
    """The recipe with what differs in this experiment."""
    source = f"{recipe.name}, experiment {name}"
    above = (recipe.experiments or {})[name] or {}
    for key in above:
        if key in OF_ALL or (key == "seed" and recipe.seeds):
            why = (
                "an experiment is run with each of the recipe's seeds" if key == "seed" else "it belongs to the recipe"
            )
            raise DamnatioError(f"Recipe {source}: leave '{key}' out: {why}.")
    below = recipe.model_dump(exclude_unset=True, exclude={"experiments", "seeds"})
    return _settled(built(merged(below, above), source), source)


def _settled(recipe: Recipe, source: str) -> Recipe:
    from damnatio.recipe.checks import settled  # needs torch

    return settled(recipe, source)
