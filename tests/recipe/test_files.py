"""The recipe: the paper's numbers by default, and a sentence for every mistake in it."""

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.methods import METHODS
from damnatio.methods.base import MethodSettings, method_settings
from damnatio.recipe.files import configs, find, load, model_settings
from damnatio.recipe.schema import (
    CaptureSettings,
    EvaluateSettings,
    ForgetSettings,
    ModelSettings,
    PartitionSettings,
    Recipe,
    TrainSettings,
)
from damnatio.support.errors import DamnatioError

RECIPES = sorted(path.stem for path in configs().glob("*.yaml"))


def written(folder: Path, content: dict[str, Any] | str, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    if isinstance(content, dict):
        content = yaml.safe_dump({"faces": {"source": "synthetic"}, **content})
    path.write_text(content)
    return path


def told(source: str | Path, *overrides: str) -> str:
    """The sentence that a person gets for this recipe."""
    with pytest.raises(DamnatioError) as error:
        load(source, overrides)
    return str(error.value)


# --- the paper's numbers ---------------------------------------------------------------------------------------------


def assert_values(section: object, **expected: object) -> None:
    assert {name: getattr(section, name) for name in expected} == expected


def test_defaults_are_the_numbers_of_the_paper(tmp_path: Path) -> None:
    """Sections IV-A to IV-D and Table II."""
    recipe = load(written(tmp_path, {}))
    assert_values(recipe.model, backbone="iresnet34", dim=512, head="cosface", logit_scale=64.0, margin=0.4)
    assert_values(recipe.train, epochs=40, batch=128, optimiser="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4)
    assert_values(recipe.forget, epochs=40, scales=["S1", "S2"])
    assert recipe.forget.identities_per_batch * recipe.forget.images_per_identity == 64
    assert_values(recipe.captures, threshold=30.0)
    assert_values(recipe.partitions, retain=100_000, control=1_000, test=1_000, development=35_850, distractors=50_000)
    assert_values(recipe.partitions, scales={"S1": 1_000, "S2": 5_000}, min_images=4, forget_train=0.8)
    assert recipe.evaluate.operating_points == [1e-4, 1e-2]
    assert recipe.faces.size == 112


@pytest.mark.parametrize(
    ("method", "lr", "ratio", "others"),
    [
        ("PD", 1e-3, 10, {"margin": 0.35}),
        ("HD", 1e-3, 10, {"margin": 0.35}),
        ("CP", 1e-3, 10, {}),
        ("EC", 5e-3, 1, {"margin": 0.65, "logit_scale": 64.0}),
        ("OF", 5e-3, 1, {"weight": 100.0}),
        ("NG+", 1e-3, None, {}),
        ("CURE", 1e-3, None, {}),
    ],
)
def test_defaults_of_the_methods_are_the_numbers_of_the_paper(
    tmp_path: Path, method: str, lr: float, ratio: float | None, others: dict[str, float]
) -> None:
    """Section IV-B: learning rate, lambda_f / lambda_r where it is given, margins and factors."""
    values = method_settings(load(written(tmp_path, {})), method)
    assert isinstance(values, MethodSettings)
    assert_values(values, lr=lr, **others)
    if ratio is not None:
        assert values.lambda_forget / values.lambda_retain == ratio


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_of_the_package_loads(name: str) -> None:
    recipe = load(name)
    assert recipe.name == name
    assert load(configs() / f"{name}.yaml") == recipe


def test_there_is_a_demo() -> None:
    assert "demo" in RECIPES


def test_name_is_that_of_the_file_unless_the_recipe_says_another(tmp_path: Path) -> None:
    assert load(written(tmp_path, {}, "mine")).name == "mine"
    assert load(written(tmp_path, {"name": "yours"}, "mine")).name == "yours"


def test_recipe_survives_its_own_dump(tmp_path: Path) -> None:
    recipe = load("demo")
    again = written(tmp_path, yaml.safe_dump(recipe.model_dump(mode="json")))
    assert load(again) == recipe


def test_recipe_cannot_be_changed_once_loaded() -> None:
    recipe = load("demo")
    for section, name in ((recipe, "seed"), (recipe.faces, "size"), (recipe.train, "lr")):
        with pytest.raises(ValueError, match="frozen"):
            setattr(section, name, 5)


# --- overrides -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("seed=7", "seed", 7),
        ("name=other", "name", "other"),
        ("train.lr=1e-3", "train.lr", 1e-3),  # YAML 1.1 reads 1e-3 as a text
        ("train.lr=0.5", "train.lr", 0.5),
        ("train.weight_decay=0", "train.weight_decay", 0.0),
        ("train.flip=false", "train.flip", False),
        ("faces.identities=30", "faces.identities", 30),
        ("partitions.scales={S1: 3, S2: 6}", "partitions.scales", {"S1": 3, "S2": 6}),
        ("partitions.scales.S1=3", "partitions.scales", {"S1": 3, "S2": 100}),
        ("forget.scales=[S1, S2]", "forget.scales", ["S1", "S2"]),
        ("forget.methods=[OF]", "forget.methods", ["OF"]),
        ("evaluate.operating_points=[1e-3, 1e-1, 1e-3]", "evaluate.operating_points", [1e-3, 1e-1]),
    ],
)
def test_override_of_any_value(override: str, path: str, value: object) -> None:
    found: Any = load("demo", [override])
    for part in path.split("."):
        found = getattr(found, part)
    assert found == value
    assert type(found) is type(value)


def test_override_of_a_hyper_parameter() -> None:
    recipe = load("demo", ["forget.settings.HD.margin=0.5", "forget.settings.HD.lr=1e-4"])
    values = method_settings(recipe, "HD")
    assert_values(values, margin=0.5, lr=1e-4, lambda_forget=10.0)


def test_same_method_under_another_label_is_a_row_of_its_own() -> None:
    recipe = load("demo", ["forget.methods=[OF, OF-light]", "forget.settings.OF-light={method: OF, weight: 10}"])
    assert_values(method_settings(recipe, "OF-light"), method="OF", weight=10.0)
    assert_values(method_settings(recipe, "OF"), weight=100.0)


def test_last_override_wins() -> None:
    assert load("demo", ["seed=7", "seed=8"]).seed == 8


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.lr", "write it as section.key=value"),
        ("=3", "write it as section.key=value"),
        ("train.lr=[1,", "not valid YAML"),
        ("train.lr.x=3", "'lr' is a value, not a section"),
        ("name.x=3", "'name' is a value, not a section"),
        ("train.lr=fast", "train.lr: Input should be a valid number"),
        ("train.lr=0", "train.lr: Input should be greater than 0"),
        ("train.optimiser=adam", "train.optimiser: Input should be 'sgd' or 'adamw'"),
        ("name=a/b", "name: "),
        ("name=2024-13-45", "2024-13-45"),
        ("seed=0b_", "0b_"),
    ],
)
def test_bad_override_is_told(override: str, words: str) -> None:
    assert words in told("demo", override)


@settings(deadline=None, max_examples=80)
@given(st.sampled_from(["seed", "name", "train.lr", "partitions.scales", "forget.methods"]), st.text(max_size=12))
def test_any_override_is_taken_or_told(key: str, text: str) -> None:
    """Never anything but a recipe or a sentence."""
    with suppress(DamnatioError):
        assert isinstance(load("demo", [f"{key}={text}"]), Recipe)


# --- recipes that differ from another --------------------------------------------------------------------------------


def family(folder: Path, **children: str) -> Path:
    """A recipe `parent` and others beside it; the path of the last."""
    parent = """
seed: 5
faces: {source: synthetic, size: 32, identities: 90}
partitions: {retain: 20, control: 5, scales: {S1: 2, S2: 4}}
train: {lr: 0.2, epochs: 3}
forget: {scales: [S1], methods: [HD, OF], settings: {HD: {margin: 0.1, lr: 0.01}}}
"""
    path = written(folder, parent, "parent")
    for name, content in children.items():
        path = written(folder, content, name)
    return path


def test_recipe_says_what_differs_from_its_base(tmp_path: Path) -> None:
    child = "{base: parent, train: {lr: 0.3}, faces: {size: 64}, forget: {methods: [OF], settings: {HD: {lr: 0.5}}}}"
    recipe: Any = load(family(tmp_path, child=child))
    assert recipe.name == "child"
    assert recipe.seed == 5
    assert (recipe.train.lr, recipe.train.epochs) == (0.3, 3)
    assert (recipe.faces.size, recipe.faces.identities) == (64, 90)
    assert recipe.forget.methods == ["OF"]
    assert_values(method_settings(recipe, "HD"), margin=0.1, lr=0.5)


def test_scales_and_another_source_replace_those_of_the_base(tmp_path: Path) -> None:
    child = "{base: parent, faces: {source: folder, root: here}, partitions: {scales: {S1: 3}}}"
    recipe = load(family(tmp_path, child=child))
    assert recipe.partitions.scales == {"S1": 3}
    assert recipe.partitions.retain == 20
    assert (recipe.faces.source, recipe.faces.size) == ("folder", 112)


def test_base_of_a_base_and_a_base_by_name(tmp_path: Path) -> None:
    recipe = load(family(tmp_path, child="{base: parent, seed: 6}", grandchild="{base: child, threads: 1}"))
    assert (recipe.seed, recipe.threads, recipe.train.lr) == (6, 1, 0.2)
    assert load(written(tmp_path, "{base: demo, seed: 9}", "other")).partitions == load("demo").partitions


def test_override_stands_above_recipe_and_base(tmp_path: Path) -> None:
    assert load(family(tmp_path, child="{base: parent, seed: 6}"), ["seed=7"]).seed == 7


@pytest.mark.parametrize(
    ("children", "words"),
    [
        ({"child": "base: child"}, "is its own base"),
        ({"one": "base: two", "two": "base: one"}, "is its own base"),
        ({"child": "base: dem"}, "Did you mean 'demo'?"),
        ({"child": "base: 3"}, "3"),
        ({"child": "base: [parent]"}, "parent"),
    ],
)
def test_bad_base_is_told(tmp_path: Path, children: dict[str, str], words: str) -> None:
    assert words in told(family(tmp_path, **children))


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "unknown", "meant"),
    [
        ("evalute.operating_points=[0.1]", "evalute", "evaluate"),
        ("sed=3", "sed", "seed"),
        ("train.epoch=3", "train.epoch", "epochs"),
        ("partitions.forget_trian=0.5", "partitions.forget_trian", "forget_train"),
        ("faces.identites=3", "faces.identites", "identities"),
        ("faces.sise=32", "faces.sise", "size"),
        ("forget.settings.HD.margn=0.2", "forget.settings.HD.margn", "margin"),
        ("forget.settings.OF.lamda_forget=2", "forget.settings.OF.lamda_forget", "lambda_forget"),
    ],
)
def test_unknown_key_suggests_the_nearest(override: str, unknown: str, meant: str) -> None:
    sentence = told("demo", override)
    assert f"unknown key '{unknown}'" in sentence
    assert f"Did you mean '{meant}'?" in sentence


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("faces.source=sinthetic", "Did you mean 'synthetic'?"),
        ("forget.methods=[HDD]", "Did you mean 'HD'?"),
        ("forget.settings.mine.method=EF", "There is no method 'EF'"),
        ("forget.settings.mine.lr=3", "There is no method 'mine'"),
        ("model.backbone=iresnet43", "Did you mean 'iresnet34'?"),
        ("model.head=cosfase", "Did you mean 'cosface'?"),
    ],
)
def test_unknown_part_suggests_the_nearest(override: str, words: str) -> None:
    assert words in told("demo", override)


def test_misspelt_source_key_is_told_with_the_right_one(tmp_path: Path) -> None:
    sentence = told(written(tmp_path, "faces: {sorce: synthetic}"))
    assert "'faces.source' is missing" in sentence
    assert "Did you mean 'source'?" in sentence


def test_unknown_recipe_suggests_the_nearest(tmp_path: Path) -> None:
    assert "Did you mean 'demo'?" in told("dem")
    assert "is a folder, and only regular files are read" in told(str(tmp_path))
    assert find("demo") == configs() / "demo.yaml"


@pytest.mark.parametrize("points", ["[0]", "[1]", "[-0.1]", "[1e-4, 1.5]", "[.nan]", "[]", "[low]", "0.1"])
def test_operating_point_outside_the_open_interval_is_told(points: str) -> None:
    assert "evaluate.operating_points" in told("demo", f"evaluate.operating_points={points}")


def test_operating_points_are_ascending_and_distinct() -> None:
    assert load("demo", ["evaluate.operating_points=[0.1, 1e-4, 0.1]"]).evaluate.operating_points == [1e-4, 0.1]


def test_unknown_scale_is_told() -> None:
    sentence = told("demo", "forget.scales=[S1, S3]")
    assert "forget.scales: there is no scale 'S3'" in sentence
    assert "S1" in sentence
    assert re.search(r"[.?]\.$", sentence) is None, "one full stop ends a sentence"


def test_control_beyond_retain_is_told() -> None:
    assert "partitions.control (9999) is drawn from partitions.retain (1000)" in told("demo", "partitions.control=9999")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "must be a mapping"),
        ("- faces", "must be a mapping"),
        ("faces: [", "cannot be read"),
        ("faces: {source: synthetic", "cannot be read"),
        ("\x00", "cannot be read"),
        ("seed: 2024-13-45\nfaces: {source: synthetic}", "cannot be read"),
        ("seed: 3", "'faces' is missing"),
        ("faces: synthetic", "faces: Input should be a valid dictionary"),
        ("faces: {source: folder}", "'faces.root' is missing"),
        ("faces: {source: synthetic}\ntrain: 3", "train: Input should be a valid dictionary"),
        ("faces: {source: synthetic}\nforget: {settings: {HD: 3}}", "forget.settings.HD"),
        ("faces: {source: synthetic}\n1: 2", "Keys should be strings"),
        ("faces: {source: synthetic}\nplugins: 3", "plugins"),
        ("faces: {source: synthetic}\nplugins: [3]", "plugins"),
        ("faces: {source: synthetic}\nplugins: mine.py", "plugins: Input should be a valid list"),
    ],
)
def test_bad_recipe_file_is_told(tmp_path: Path, content: str, words: str) -> None:
    assert words in told(written(tmp_path, content))


def test_recipe_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xff\xfe\xfa")
    assert "cannot be read" in told(path)


def test_all_mistakes_are_told_at_once() -> None:
    sentence = told("demo", "sed=3", "train.lr=-1", "partitions.tset=4")
    for words in ("unknown key 'sed'", "train.lr: ", "unknown key 'partitions.tset'"):
        assert words in sentence


def test_sections_refuse_what_they_do_not_know() -> None:
    sections: list[type[Any]] = [
        CaptureSettings,
        PartitionSettings,
        ModelSettings,
        TrainSettings,
        ForgetSettings,
        EvaluateSettings,
    ]
    for section in sections:
        with pytest.raises(ValueError, match="Extra inputs"):
            section(no_such_key=1)


# --- plugins ---------------------------------------------------------------------------------------------------------

METHOD = """
from damnatio.methods import METHODS
from damnatio.methods.base import Method, MethodSettings

@METHODS.register("{name}")
class Mine(Method):
    class Settings(MethodSettings):
        strength: float = 2.0

    title = "Mine"
    reference = "nowhere"

    def forget_loss(self, batch, head):
        return batch.raw.sum() * 0
"""


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten after it."""
    METHODS.names()
    monkeypatch.setattr(METHODS, "_parts", dict(METHODS._parts))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("damnatio_plugin_"):
            del sys.modules[name]


@pytest.mark.usefixtures("registry")
def test_plugin_registers_a_method(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(METHOD.format(name="MINE"))
    forget = {"methods": ["MINE"], "settings": {"MINE": {"strength": 3}}}
    path = written(tmp_path, {"plugins": [str(plugin)], "forget": forget})
    for _ in range(2):  # the second time it is known already
        assert_values(method_settings(load(path), "MINE"), strength=3.0, method="MINE")
    assert "Did you mean 'strength'?" in told(path, "forget.settings.MINE.strenght=4")
    assert "mine.py" in METHODS.code("MINE")


@pytest.mark.usefixtures("registry")
def test_plugins_of_one_file_name_in_two_folders_are_both_imported(tmp_path: Path) -> None:
    plugins = []
    for name in ("ONE", "TWO"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "method.py").write_text(METHOD.format(name=name))
        plugins.append(str(folder / "method.py"))
    recipe = load(written(tmp_path, {"plugins": plugins, "forget": {"methods": ["ONE", "TWO"]}}))
    assert recipe.forget.methods == ["ONE", "TWO"]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_module_anywhere", "failed to import: ModuleNotFoundError"),
        ("1 +", "failed to import: SyntaxError"),
        ("raise RuntimeError('oh no')", "failed to import: RuntimeError: oh no"),
        (METHOD.format(name="HD"), "'HD' is registered twice"),
    ],
)
def test_broken_plugin_is_told_each_time(tmp_path: Path, code: str, words: str) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text(code)
    path = written(tmp_path, {"plugins": [str(plugin)]})
    for _ in range(2):
        sentence = told(path)
        assert words in sentence
        assert str(plugin) in sentence


def test_missing_plugin_is_told(tmp_path: Path) -> None:
    gone = tmp_path / "gone.py"
    assert f"there is no file {gone}" in told(written(tmp_path, {"plugins": [str(gone)]}))


def test_plugin_that_is_no_python_file_is_told(tmp_path: Path) -> None:
    other = tmp_path / "mine.txt"
    other.write_text("not Python")
    assert "is not a Python file" in told(written(tmp_path, {"plugins": [str(other)]}))


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("threads=100000", "threads"),
        ("model.dim=100000000", "model.dim"),
        ("model.logit_scale=1e+300", "model.logit_scale"),
        ("model.margin=1e+300", "model.margin"),
        ("train.batch=10000000000", "train.batch"),
        ("train.epochs=10000000000", "train.epochs"),
        ("train.workers=100000", "train.workers"),
        ("forget.identities_per_batch=10000000000", "forget.identities_per_batch"),
        ("forget.images_per_identity=10000000000", "forget.images_per_identity"),
        ("forget.settings.OF.candidates=100000000000", "forget.settings.OF.candidates"),
        ("evaluate.embed_batch=10000000000", "evaluate.embed_batch"),
        ("evaluate.replicates=100000000000", "evaluate.replicates"),
        ("evaluate.nonmated_pairs=100000000000000", "evaluate.nonmated_pairs"),
        (f"evaluate.operating_points={[n / 1000 for n in range(1, 200)]}", "evaluate.operating_points"),
        ("faces.identities=10000000000", "faces.identities"),
        ("faces.min_instances=10000000000", "faces.min_instances"),
        ("faces.max_instances=10000000000", "faces.max_instances"),
        ("faces.burst_shots=10000000000", "faces.burst_shots"),
        ("faces.seed=100000000000000000000000000", "faces.seed"),
        ("name=..", "name"),
    ],
)
def test_number_beyond_any_machine_is_told(override: str, where: str) -> None:
    assert f"{where}: " in told("demo", override)


MERGED = "a0: &a0 {k: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 11)}]}}\n" for i in range(1, 5))
"""merges of merges, eleven times as many keys in each line"""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (MERGED, "'<<' on line 4 merges more than 1000 keys"),
        ("seed: 1\nfaces: {source: synthetic}\nseed: 2", "the key 'seed' stands twice, on line 1 and on line 3"),
        ("faces: {source: synthetic, size: 32, size: 64}", "the key 'size' stands twice, on line 1 and on line 1"),
        ("faces: " + "[" * 5000 + "]" * 5000, "cannot be read: it is nested too deeply."),
        ("faces: " + "{a: " * 5000 + "1" + "}" * 5000, "cannot be read: it is nested too deeply."),
    ],
)
def test_yaml_that_no_reader_could_follow_is_told(tmp_path: Path, content: str, words: str) -> None:
    assert words in told(written(tmp_path, content))


def test_overrides_are_read_by_the_same_rules() -> None:
    assert "the key 'S1' stands twice" in told("demo", "partitions.scales={S1: 1, S1: 2}")
    assert "not valid YAML" in told("demo", "forget.methods=" + "[" * 5000 + "]" * 5000)


def test_merged_keys_of_yaml_are_no_repetition(tmp_path: Path) -> None:
    content = "base: demo\nforget:\n  settings:\n    HD: &own {lr: 1}\n    PD: {<<: *own, lr: 2}\n    OF: {<<: *own}"
    settings = load(written(tmp_path, content)).forget.settings
    assert [settings[name]["lr"] for name in ("HD", "PD", "OF")] == [1, 2, 1]


def test_forget_scales_are_those_of_the_partitions_unless_the_recipe_says_which(tmp_path: Path) -> None:
    content = "faces: {source: synthetic}\npartitions: {scales: {S1: 10}}"
    assert load(written(tmp_path, content)).forget.scales == ["S1"]
    assert load(written(tmp_path, "faces: {source: synthetic}")).forget.scales == ["S1", "S2"]
    assert "there is no scale 'S2'" in told(written(tmp_path, f"{content}\nforget: {{scales: [S1, S2]}}"))


@pytest.mark.parametrize(
    ("override", "place", "key"),
    [
        ("model.scale=32", "model.scale", "logit_scale"),
        ("forget.settings.EC.scale=32", "forget.settings.EC.scale", "logit_scale"),
        ("forget.settings.NG+.scale=32", "forget.settings.NG+.scale", "logit_scale"),
        ("forget.settings.NG+.train_rows=false", "forget.settings.NG+.train_rows", "train_vectors"),
        ("forget.settings.GA.rows_in_retain=false", "forget.settings.GA.rows_in_retain", "vectors_in_retain"),
    ],
)
def test_key_of_an_older_recipe_is_told_with_its_new_name(override: str, place: str, key: str) -> None:
    assert f"unknown key '{place}'. Did you mean '{key}'?" in told("demo", override)


@pytest.mark.parametrize("text", [r'"\0"', r'"a\ud800b"', r'{"\0": 1}'])
def test_character_that_no_name_can_have_is_told(tmp_path: Path, text: str) -> None:
    assert "not valid YAML" in told("demo", f"faces.root={text}")
    assert "line 2 has a character that no name can have" in told(written(tmp_path, f"faces:\n  root: {text}"))


def test_a_model_that_is_no_section_is_told() -> None:
    with pytest.raises(DamnatioError, match=r"--set model=3: set one of its keys"):
        model_settings(Path("f.pth"), ["model=3"])


def test_pool_of_a_collection_with_a_slash_is_refused(tmp_path: Path) -> None:
    """The name of an image begins with its pool, up to the first slash."""
    assert "faces.pools.a/b" in told("demo", "faces={source: collection, pools: {a/b: x}}")


# --- another source ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [path.stem for path in sorted(configs().glob("*.yaml"))])
def test_the_source_of_any_recipe_can_be_changed(name: str) -> None:
    common = {"cache_gb"} & load(name).faces.model_fields_set
    of_records = load(name, ["faces.source=recordio", "faces.path=/data/train.rec"]).faces
    assert of_records.model_dump(exclude_unset=True, exclude=common) == {
        "source": "recordio",
        "path": Path("/data/train.rec"),
        "size": load(name).faces.size,
    }
    of_folder = load(name, ["faces.root=/data/faces", "faces.source=folder", "faces.size=64"]).faces
    wanted = {"source": "folder", "root": Path("/data/faces"), "size": 64}
    assert of_folder.model_dump(exclude_unset=True, exclude=common) == wanted


@pytest.mark.parametrize(
    ("source", "place", "key"),
    [
        ("recordio", "train.rec", "path"),
        ("manifest", "faces.csv", "path"),
        ("webdataset", "shards/train-*.tar", "path"),
        ("pairs_bin", "lfw.bin", "path"),
        ("folder", "faces", "root"),
    ],
)
def test_root_and_path_are_one_word_for_the_place_of_a_source(source: str, place: str, key: str) -> None:
    """Whoever puts a train.rec in place of a folder need not know that its key has another name."""
    for said in ("root", "path"):
        faces = load("demo", [f"faces.source={source}", f"faces.{said}={place}"]).faces
        assert getattr(faces, key) == Path(place)


def test_root_and_path_of_a_manifest_stay_two_things() -> None:
    faces: Any = load("demo", ["faces.source=manifest", "faces.path=faces.csv", "faces.root=/data"]).faces
    assert (faces.path, faces.root) == (Path("faces.csv"), Path("/data"))


def test_faces_are_named_by_their_path_alone(tmp_path: Path) -> None:
    """The source is the one that `damnatio faces PATH` finds; what holds for every source stays."""
    (tmp_path / "train.rec").touch()
    (tmp_path / "people").mkdir()
    of_records: Any = load("demo", [f"faces={tmp_path / 'train.rec'}", "faces.resize=true"]).faces
    assert (of_records.source, of_records.path) == ("recordio", tmp_path / "train.rec")
    assert (of_records.size, of_records.resize) == (32, True)
    of_folder: Any = load("paper-tables-3-4", [f"faces={tmp_path / 'people'}"]).faces
    assert (of_folder.source, of_folder.root, of_folder.cache_gb) == ("folder", tmp_path / "people", 0)
    assert told("demo", "faces=/nowhere/train.rec") == "There is nothing at /nowhere/train.rec."


def test_a_key_that_means_another_thing_in_the_new_source_is_left_behind() -> None:
    faces = load("lfw-mobilefacenet", ["faces.source=manifest", "faces.path=list.csv"]).faces
    assert "root" not in faces.model_fields_set


def test_a_key_that_is_set_and_that_the_new_source_does_not_have_is_an_error() -> None:
    words = told("demo", "faces.source=recordio", "faces.path=train.rec", "faces.identities=9")
    assert "unknown key 'faces.identities'" in words
    assert "'faces.root' is missing" in told("demo", "faces.source=folder")
    assert "There is no face source 'foldr'. Did you mean 'folder'?" in told("demo", "faces.source=foldr")


def test_keys_stay_where_the_source_is_named_again() -> None:
    assert load("demo", ["faces.source=synthetic"]) == load("demo")
