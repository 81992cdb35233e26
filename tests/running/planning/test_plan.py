"""Hours, memory and layouts of a plan, by hand and by a second implementation."""

import itertools
import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from damnatio.cli.main import main
from damnatio.recipe.files import load
from damnatio.running.planning import probing
from damnatio.running.planning.counts import paper_counts
from damnatio.running.planning.hardware import DEVICES, EFFICIENCY, Speed, speed_up
from damnatio.running.planning.plan import Plan, packed, plan, seconds_of
from damnatio.running.planning.work import Piece, Work
from tests.conftest import TINY


def of_paper(*words: str) -> Work:
    recipe = load("paper-tables-3-4", words)
    return Work(recipe, paper_counts(recipe.partitions, ""))


def piece_of(work: Work, stage: str, name: str) -> Piece:
    return next(piece for piece in work.pieces if (piece.stage, piece.name) == (stage, name))


@pytest.fixture
def no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed of this machine is not what is tested."""
    monkeypatch.setattr(probing, "decoding_speed", lambda recipe, found: 1000.0)
    monkeypatch.setattr(probing, "comparing_speed", lambda recipe: 1e7)


def test_seconds_by_hand() -> None:
    speed = Speed(gradients=100, forwards=400, decoded=1000, compared=1e6, words="")
    assert seconds_of(Piece("x", "", "", gradients=200, forwards=400), speed) == 2 + 1
    assert seconds_of(Piece("x", "", "", gradients=200, forwards=400, share=0.5), speed) == 1.5
    faster = Speed(gradients=100, forwards=400, decoded=1000, compared=1e6, words="", relative={"bf16": 2.0})
    assert seconds_of(Piece("x", "", "", gradients=200, precision="bf16"), faster) == 1
    assert seconds_of(Piece("x", "", "", decoded=5000, compared=3_000_000), speed) == 5 + 3
    assert seconds_of(Piece("evaluate", "", "", compared=3_000_000), speed) == 5 + 3  # five whatever its size


def test_the_memory_of_the_papers_head_by_hand() -> None:
    work = of_paper()
    train = piece_of(work, "train", "f*")
    one, four = work.memory(train, 1), work.memory(train, 4)
    assert one.weights == one.gradients == one.optimiser == 4 * work.network.parameters  # SGD with momentum
    assert one.matrix == 3 * 4 * 100_000 * 512
    assert four.matrix == one.matrix // 4
    assert four.activations == pytest.approx(one.activations / 4)
    assert four.logits == pytest.approx(one.logits / 4, rel=0.01)
    assert four.gradients == 2 * one.gradients  # a copy is sent
    extended = work.memory(piece_of(work, "forget", "S1 EC"), 1)
    assert extended.matrix == 3 * 4 * (100_000 + 25_156) * 512
    assert extended.weights == 2 * one.weights  # f* beside f
    assert extended.activations == pytest.approx(one.activations * 192 / 128)
    frame = work.memory(piece_of(work, "forget", "S1 OF"), 1)
    assert frame.method == pytest.approx(4 * 25_156 * 512, rel=1e-4)  # a target per image


def test_rows_that_do_not_divide_are_counted_up() -> None:
    work = of_paper()
    assert work.memory(piece_of(work, "train", "f*"), 3).matrix == 3 * 4 * 33_334 * 512


def test_adam_keeps_two_values_and_a_cut_network_less() -> None:
    work = of_paper("train.optimiser=adamw", "forget.freeze=layer3")
    train, tuned = (work.memory(piece_of(work, *names), 1) for names in (("train", "f*"), ("forget", "S1 HD")))
    assert train.optimiser == 2 * train.weights
    assert tuned.activations < train.activations
    trunk = piece_of(work, "trunk", "layer3")
    assert trunk.disk == (2_038_934 + 123_736) * 2 * 2 * 256 * 14 * 14  # half precision, the image and its mirror image


def slowest(seconds: Mapping[str, float], needs: Mapping[str, Sequence[str]], slots: int) -> float:
    """The best end over all orders: each piece begins as early as a slot and its needs allow."""
    best = float("inf")
    for order in itertools.permutations(seconds):
        free: list[float] = [0.0] * slots
        end: dict[str, float] = {}
        for key in order:
            if any(need not in end for need in needs[key]):
                break
            slot = int(np.argmin(free))
            begin = max([free[slot], *(end[need] for need in needs[key])])
            end[key] = free[slot] = begin + seconds[key]
        else:
            best = min(best, max(end.values()))
    return best


def test_packing_by_hand_and_against_every_order() -> None:
    chain = {"f*": 4.0, "a": 3.0, "b": 3.0, "c": 2.0, "d": 2.0, "e": 2.0}
    needs: dict[str, tuple[str, ...]] = {"f*": (), **dict.fromkeys("abcde", ("f*",))}
    assert packed(chain, needs, 1) == 16
    assert packed(chain, needs, 2) == 4 + 7  # 3 + 2 + 2 beside 3 + 2, one slot idles at the end
    assert packed(chain, needs, 8) == 7
    rng = np.random.default_rng(0)
    for _ in range(20):
        keys = list("pqrstu")
        seconds = {key: float(rng.integers(1, 9)) for key in keys}
        needs = {key: tuple(k for k in keys[:i] if rng.random() < 0.3) for i, key in enumerate(keys)}
        for slots in (1, 2, 3):
            found, best = packed(seconds, needs, slots), slowest(seconds, needs, slots)
            assert best <= found <= best * (2 - 1 / slots)  # Graham's bound for a list


def test_more_devices_are_faster_by_the_assumption() -> None:
    assert speed_up(1, 128) == speed_up(1, 16) == speed_up(1, 1024) == 1
    assert speed_up(2, 128) == 2 * EFFICIENCY
    assert speed_up(8, 128) == pytest.approx((2 * EFFICIENCY) ** 3)
    assert speed_up(8, 1024) == 8  # 128 images each, as on one
    assert speed_up(8, 512) == pytest.approx(4 * 2 * EFFICIENCY)
    assert speed_up(2, 128) < speed_up(3, 128) < speed_up(4, 128)


@pytest.mark.usefixtures("no_probe")
def test_experiments_share_what_is_the_same() -> None:
    both = plan({"": load("paper-tables-3-4")}, "a100")
    apart = {scale: load("paper-tables-3-4", [f"forget.scales=[{scale}]"]) for scale in ("S1", "S2")}
    joined = plan(apart, "a100")
    stages = [planned.piece.stage for planned in joined.pieces]
    assert stages.count("train") == stages.count("faces") == 1
    assert joined.hours == pytest.approx(both.hours)
    alone = [plan({"": recipe}, "a100").hours for recipe in apart.values()]
    assert joined.hours < sum(alone)


@pytest.mark.usefixtures("no_probe")
def test_layouts_agree_on_one_device_and_gain_from_more() -> None:
    found: Plan = plan({"": load("paper-tables-3-4")}, "a100", (1, 2, 4, 8))
    one = found.layouts[0]
    assert one.apart == pytest.approx(one.first_together)
    assert one.apart == pytest.approx(one.together)
    assert one.apart == pytest.approx(found.hours)
    for fewer, more in itertools.pairwise(found.layouts):
        assert more.apart < fewer.apart
        assert more.together < fewer.together
        assert more.memory.total < fewer.memory.total
    train = next(planned for planned in found.pieces if planned.piece.stage == "train")
    rate = DEVICES["a100"].rates["bf16"] * 1e12
    flops = 3 * (2 * 4.46e9 + 2 * 512 * 100_000) * 637_160 * 128
    assert train.seconds == pytest.approx(flops / rate, rel=0.01)


@pytest.mark.usefixtures("no_probe")
def test_the_page_is_short_and_ends_with_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "paper-tables-3-4", "--device", "a100", "--gpus", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 41  # the first says what was asked
    assert lines[-1].startswith("Total: ")
    assert " on 3 (" in lines[-1]
    for stage in ("faces", "captures", "partitions", "train", "forget", "embed", "evaluate", "report", "checkpoints"):
        assert any(line.startswith(stage) for line in lines), stage


@pytest.mark.usefixtures("no_probe")
def test_the_json_holds_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "paper-tables-3-4", "--device", "h100", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["hours"] == pytest.approx(sum(piece["seconds"] for piece in content["pieces"]) / 3600)
    assert content["memory_total"] == sum(content["memory"].values())
    assert [layout["devices"] for layout in content["layouts"]] == [1, 2, 4, 8]


def test_an_unknown_device_is_named_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "demo", "--device", "a1000"]) == 2
    said = capsys.readouterr().err
    assert "There is no device 'a1000'" in said
    assert "Did you mean 'a100'?" in said
    assert "rtx4090" in said


@pytest.mark.cli
def test_this_machine_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for setting in TINY for word in ("--set", setting)]
    assert main(["plan", "demo", "--json", *words]) == 0
    content = json.loads(capsys.readouterr().out)
    (speed,) = content["speeds"].values()
    assert "measured in a few steps of 32 images" in speed["words"]
    assert all(speed[name] > 0 for name in ("gradients", "forwards", "decoded", "compared"))
    assert content["hours"] > 0


def test_a_machine_too_slow_for_the_batch_is_measured_by_two_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 3 s and 0.5 s an image: the recipe's 128 images take 67 s."""
    asked = []

    def seconds(recipe: object, classes: int, batch: int, steps: int) -> float:
        asked.append(batch)
        return 3 + 0.5 * batch

    monkeypatch.setattr(probing, "_seconds", seconds)
    found = probing.training_speed(load("paper-tables-3-4"), 100_000)
    assert asked == [2, 8]
    assert found.batch == 8
    assert found.images_per_second == pytest.approx(128 / 67)


def test_a_batch_that_only_seemed_too_much_is_measured_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes 0.1 s for any step, and 0.002 s for an image: 64 times the step of two images is no step of
    128."""
    asked = []

    def seconds(recipe: object, classes: int, batch: int, steps: int) -> float:
        asked.append((batch, steps))
        return 0.1 + 0.002 * batch

    monkeypatch.setattr(probing, "_seconds", seconds)
    found = probing.training_speed(load("demo"), 1000)
    assert asked == [(2, 2), (76, 2), (128, 11)]
    assert found.batch == 128
    assert found.images_per_second == pytest.approx(128 / 0.356)
