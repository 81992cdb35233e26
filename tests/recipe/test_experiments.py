"""One recipe for several experiments: what it expands to, and the paper's own numbers in those that ship."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from damnatio.methods.base import method_settings
from damnatio.recipe.experiments import experiments, without_seed
from damnatio.recipe.files import load
from damnatio.recipe.protocols import other_protocol, other_settings
from damnatio.recipe.schema import Recipe
from damnatio.support.errors import DamnatioError


def expanded(folder: Path, content: dict[str, Any], *overrides: str) -> dict[str, Recipe]:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({"base": "demo", **content}))
    return experiments(load(path, overrides))


def told(folder: Path, content: dict[str, Any], *overrides: str) -> str:
    with pytest.raises(DamnatioError) as error:
        expanded(folder, content, *overrides)
    return str(error.value)


TWO = {
    "experiments": {
        "plain": None,
        "vit": {
            "model": {"backbone": "vit-tiny"},
            "train": {"lr": 0.002},
            "forget": {"methods": ["HD"], "settings": {"HD": {"margin": 0.5}}},
        },
    }
}


# --- what a recipe stands for ----------------------------------------------------------------------------------------


def test_recipe_without_experiments_stands_for_itself() -> None:
    recipe = load("demo")
    assert experiments(recipe) == {"": recipe}


def test_experiment_is_the_recipe_with_what_differs(tmp_path: Path) -> None:
    found, demo = expanded(tmp_path, TWO), load("demo")
    assert list(found) == ["plain", "vit"]
    assert found["plain"] == demo.model_copy(update={"name": "mine-plain"})
    vit = found["vit"]
    assert (vit.name, vit.model.backbone, vit.model.dim) == ("mine-vit", "vit-tiny", 128)
    assert (vit.train.lr, vit.train.epochs, vit.train.optimiser) == (0.002, 8, "adamw")
    assert vit.forget.methods == ["HD"]
    hd: Any = method_settings(vit, "HD")
    assert (hd.margin, hd.lr, hd.lambda_forget) == (0.5, 0.005, 10.0)
    assert (vit.partitions, vit.evaluate, vit.faces) == (demo.partitions, demo.evaluate, demo.faces)


def test_every_experiment_is_run_with_every_seed(tmp_path: Path) -> None:
    found = expanded(tmp_path, {**TWO, "seeds": [3, 1]})
    assert [(name, one.seed, one.model.backbone) for name, one in found.items()] == [
        ("plain-seed3", 3, "iresnet-quick"),
        ("plain-seed1", 1, "iresnet-quick"),
        ("vit-seed3", 3, "vit-tiny"),
        ("vit-seed1", 1, "vit-tiny"),
    ]
    assert all(one.experiments is None and one.seeds is None for one in found.values())
    assert [without_seed(name, one.seed) for name, one in found.items()] == ["plain", "plain", "vit", "vit"]


def test_seeds_alone_are_experiments_without_a_name(tmp_path: Path) -> None:
    found = expanded(tmp_path, {"seeds": [1, 2]})
    assert [(name, one.seed) for name, one in found.items()] == [("seed1", 1), ("seed2", 2)]
    assert without_seed("seed2", 2) == ""
    assert without_seed("vit-seed21", 1) == "vit-seed21", "the seed is 21, and the name is not that of seed 1"


def test_an_experiment_of_an_experiment_is_plain(tmp_path: Path) -> None:
    one = expanded(tmp_path, {**TWO, "seeds": [2]})["vit-seed2"]
    assert experiments(one) == {"": one}


def test_other_scales_of_an_experiment_are_its_forget_scales(tmp_path: Path) -> None:
    """`forget.scales` is left unset in the recipe: each experiment fills in its own."""
    path = tmp_path / "mine.yaml"
    path.write_text("{faces: {source: synthetic}, partitions: {scales: {S1: 3, S2: 6}}, experiments: {a: {}, b: {}}}")
    assert [one.forget.scales for one in experiments(load(path)).values()] == [["S1", "S2"], ["S1", "S2"]]
    path.write_text("{faces: {source: synthetic}, experiments: {a: {partitions: {scales: {S3: 3}}}}}")
    assert experiments(load(path))["a"].forget.scales == ["S3"]


# --- overrides -------------------------------------------------------------------------------------------------------


def test_override_holds_in_every_experiment_whatever_it_says_itself(tmp_path: Path) -> None:
    found = expanded(tmp_path, TWO, "train.lr=0.5", "forget.methods=[GS]", "train.epochs=3")
    for one in found.values():
        assert (one.train.lr, one.train.epochs, one.forget.methods) == (0.5, 3, ["GS"])
    assert found["vit"].model.backbone == "vit-tiny"


def test_override_of_one_experiment(tmp_path: Path) -> None:
    found = expanded(tmp_path, TWO, "experiments.vit.train.epochs=3", "experiments.plain.model.dim=64")
    assert [one.train.epochs for one in found.values()] == [8, 3]
    assert [one.model.dim for one in found.values()] == [64, 128]


def test_of_two_overrides_the_last_wins(tmp_path: Path) -> None:
    first, then = "train.epochs=4", "experiments.vit.train.epochs=3"
    assert [one.train.epochs for one in expanded(tmp_path, TWO, first, then).values()] == [4, 3]
    assert [one.train.epochs for one in expanded(tmp_path, TWO, then, first).values()] == [4, 4]


def test_seed_on_the_command_line_is_in_place_of_the_seeds(tmp_path: Path) -> None:
    found = expanded(tmp_path, {**TWO, "seeds": [1, 2]}, "seed=7")
    assert [(name, one.seed) for name, one in found.items()] == [("plain", 7), ("vit", 7)]
    assert list(expanded(tmp_path, {}, "seeds=[4, 5]")) == ["seed4", "seed5"]


def test_another_source_replaces_that_of_an_experiment(tmp_path: Path) -> None:
    content = {"experiments": {"a": {"faces": {"source": "synthetic", "size": 32, "identities": 9}}}}
    found: Any = expanded(tmp_path, content, "faces.source=folder", "faces.root=/data")["a"].faces
    assert (found.source, found.root) == ("folder", Path("/data"))


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"vit": {"trian": {"lr": 1}}}, "Recipe mine, experiment vit: unknown key 'trian'. Did you mean 'train'?"),
        ({"vit": {"train": {"epoch": 1}}}, "Recipe mine, experiment vit: unknown key 'train.epoch'. Did you mean"),
        (
            {"vit": {"faces": {"sise": 1}}},
            "Recipe mine, experiment vit: unknown key 'faces.sise'. Did you mean 'size'?",
        ),
        (
            {"vit": {"forget": {"settings": {"HD": {"margn": 1}}}}},
            "experiment vit: unknown key 'forget.settings.HD.margn",
        ),
        ({"vit": {"model": {"backbone": "vit-tiney"}}}, "There is no backbone 'vit-tiney'. Did you mean 'vit-tiny'?"),
        ({"vit": {"forget": {"methods": ["HDD"]}}}, "Did you mean 'HD'?"),
        ({"vit": {"name": "x"}}, "Recipe mine, experiment vit: leave 'name' out: it belongs to the recipe."),
        ({"vit": {"seeds": [1]}}, "leave 'seeds' out"),
        ({"vit": {"experiments": {"a": {}}}}, "leave 'experiments' out"),
        ({"vit": {"plugins": ["x.py"]}}, "leave 'plugins' out"),
        ({"vit": 3}, "experiments.vit: Input should be a valid dictionary"),
        ({"a/b": {}}, "experiments.a/b"),
        ({"a.b": {}}, "experiments.a.b"),
        ({}, "experiments: "),
    ],
)
def test_mistake_in_an_experiment_is_told(tmp_path: Path, content: dict[str, Any], words: str) -> None:
    assert words in told(tmp_path, {"experiments": content})


def test_seed_of_an_experiment_and_seeds_of_the_recipe_are_one_too_many(tmp_path: Path) -> None:
    assert expanded(tmp_path, {"experiments": {"a": {"seed": 5}}})["a"].seed == 5
    words = told(tmp_path, {"experiments": {"a": {"seed": 5}}, "seeds": [1, 2]})
    assert "experiment a: leave 'seed' out: an experiment is run with each of the recipe's seeds" in words
    assert "seeds names one of them twice" in told(tmp_path, {"seeds": [1, 1]})


def test_override_of_an_unknown_experiment_is_told(tmp_path: Path) -> None:
    words = told(tmp_path, TWO, "experiments.vti.train.epochs=1")
    assert words == "--set experiments.vti.train.epochs=1: there is no experiment 'vti'. Did you mean 'vit'?"
    assert "there is no experiment 'a'" in told(tmp_path, {}, "experiments.a.train.epochs=1")


def test_experiments_of_two_protocols_are_refused_before_anything_runs(tmp_path: Path) -> None:
    content = {"experiments": {"a": {}, "b": {"evaluate": {"operating_points": [0.1]}}}}
    assert told(tmp_path, content) == (
        "Recipe mine: the experiments a and b cannot stand in one table: evaluate.operating_points is [0.0001, 0.01] "
        "and [0.1]. Make them two recipes."
    )
    assert "partitions.retain is 1000 and 900" in told(
        tmp_path, {"experiments": {"a": {}, "b": {"partitions": {"retain": 900}}}}
    )


def test_what_a_protocol_is_and_what_it_is_not() -> None:
    demo = load("demo")
    other: Any = load("demo", ["model.backbone=vit-tiny", "train.lr=1", "forget.scales=[S2]", "seed=9", "threads=3"])
    assert other_protocol(demo, other) is None
    assert str(other_settings(demo, other)) == "model.backbone is iresnet-quick and vit-tiny"
    assert (
        other_settings(demo, load("demo", ["seed=4", "name=x", "faces.cache_gb=1", "evaluate.embed_batch=7"])) is None
    )
    for override, words in (
        ("captures.threshold=20", "captures.threshold is 30.0 and 20.0"),
        ("partitions.test_min_images=3", "partitions.test_min_images is not set and 3"),
        ("faces.identities=2251", "faces.identities is 2250 and 2251"),
        ("evaluate.nonmated_pairs=5", "evaluate.nonmated_pairs is 0 and 5"),
    ):
        assert str(other_protocol(demo, load("demo", [override]))) == words


# --- the paper's recipes ---------------------------------------------------------------------------------------------

OURS = ["BI", "GS"]


def assert_the_papers(recipe: Recipe) -> None:
    """Sections IV-A to IV-D and Table II."""
    counts = recipe.partitions
    assert (counts.retain, counts.control, counts.test) == (100_000, 1_000, 1_000)
    assert (counts.development, counts.distractors) == (35_850, 50_000)
    assert (counts.scales, counts.min_images, counts.forget_train) == ({"S1": 1_000, "S2": 5_000}, 4, 0.8)
    assert recipe.captures.threshold == 30
    assert recipe.faces.size == 112
    model = recipe.model
    assert (model.dim, model.head, model.logit_scale, model.margin) == (512, "cosface", 64, 0.4)
    assert (recipe.train.epochs, recipe.train.batch) == (40, 128)
    forget = recipe.forget
    assert (forget.epochs, forget.batch, forget.optimiser, forget.retain) == (40, 128, "sgd", "classify")
    assert (forget.momentum, forget.weight_decay, forget.freeze, forget.batch_norm) == (0.9, 5e-4, None, "train")
    assert (forget.identities_per_batch, forget.images_per_identity) == (8, 8)
    assert recipe.evaluate.operating_points == [1e-4, 1e-2]
    assert recipe.evaluate.nonmated_pairs == 1_000_000
    for name, lr, lambdas, own in (
        ("PD", 1e-3, (1, 10), {"margin": 0.35}),
        ("HD", 1e-3, (1, 10), {"margin": 0.35}),
        ("CP", 1e-3, (1, 10), {}),
        ("EC", 5e-3, (1, 1), {"margin": 0.65, "logit_scale": 64}),
        ("OF", 5e-3, (1, 1), {"weight": 100}),
        ("NG+", 1e-3, None, {}),
        ("CURE", 1e-3, None, {}),
    ):
        values: Any = method_settings(recipe, name)
        assert values.lr == lr
        assert lambdas is None or (values.lambda_retain, values.lambda_forget) == lambdas
        assert {key: getattr(values, key) for key in own} == own
        assert values.epochs is None, "all of them for forget.epochs"


def test_tables_3_and_4_are_one_run_at_both_scales() -> None:
    recipe = load("paper-tables-3-4")
    assert list(experiments(recipe)) == [""]
    assert_the_papers(recipe)
    assert recipe.model.backbone == "iresnet34"
    train = recipe.train
    assert (train.optimiser, train.lr, train.momentum, train.weight_decay, train.power) == ("sgd", 0.1, 0.9, 5e-4, 1)
    assert (train.warmup_epochs, recipe.forget.scales) == (0, ["S1", "S2"])
    assert recipe.forget.methods == ["CURE", "NG+", "PD", "HD", "CP", "EC", "OF", *OURS]


def test_table_5_is_three_backbones_on_s1() -> None:
    found = experiments(load("paper-table-5"))
    assert {name: one.model.backbone for name, one in found.items()} == {
        "iresnet34": "iresnet34",
        "vit-s": "vit-s",
        "vit-b": "vit-b",
    }
    for one in found.values():
        assert_the_papers(one)
        assert one.forget.scales == ["S1"]
        assert one.forget.methods == ["PD", "HD", "CP", "EC", "OF", *OURS]
    assert found["iresnet34"].train == load("paper-tables-3-4").train


def test_iresnet_of_table_5_is_that_of_tables_3_and_4() -> None:
    """So that in one folder f* and the models at S1 are made once."""
    one, other = load("paper-tables-3-4"), experiments(load("paper-table-5"))["iresnet34"]
    forget = {"scales": one.forget.scales, "methods": one.forget.methods}
    assert other.model_copy(update={"name": one.name, "forget": other.forget.model_copy(update=forget)}) == one


@pytest.mark.parametrize("name", ["paper-tables-3-4", "paper-table-5"])
def test_small_twin_has_the_same_experiments_and_methods(name: str) -> None:
    large, small = experiments(load(name)), experiments(load(f"small-{name}"))
    assert list(large) == list(small)
    for key, one in small.items():
        assert one.forget.scales == large[key].forget.scales
        assert set(large[key].forget.methods) <= set(one.forget.methods)
        assert one.faces.source == "synthetic"


@pytest.mark.parametrize("name", ["paper-tables-3-4", "paper-table-5"])
@pytest.mark.parametrize(
    ("source", "place"),
    [("recordio", "train.rec"), ("folder", "faces"), ("manifest", "faces.csv"), ("webdataset", "train-*.tar")],
)
def test_any_source_by_override(name: str, source: str, place: str) -> None:
    for one in experiments(load(name, [f"faces.source={source}", f"faces.root={place}"])).values():
        faces: Any = one.faces
        assert faces.source == source
        assert (faces.root if source == "folder" else faces.path) == Path(place)
