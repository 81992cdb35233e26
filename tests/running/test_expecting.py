"""What the parts of a run are expected to take: by the plan, by earlier outputs, and by what was kept."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from damnatio.pipeline import Pipeline
from damnatio.recipe.experiments import experiments
from damnatio.recipe.files import load
from damnatio.running import expecting
from damnatio.running.expecting import Expected, expect, place_of, read, save
from damnatio.running.graph import Graph, graph_of
from damnatio.running.planning.counts import AtHand, at_hand, counts_of
from damnatio.running.planning.hardware import Speed
from damnatio.running.planning.plan import FIXED
from damnatio.running.status import Look, status
from damnatio.running.walking import ESTIMATE, Walk
from damnatio.workspace import made_here
from tests.conftest import TINY
from tests.running.worlds import ask, small_graph

HERE = place_of({**made_here(), "processes": 1})


CORES = 4


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of four cores and no GPU, with nothing else to do: 100 gradients, 400 embeddings, 50 images decoded and
    a million comparisons in a second, on two threads."""
    monkeypatch.setattr(expecting, "_rough", lambda work: Speed(100, 400, 50, 1e6, ""))
    monkeypatch.setattr(expecting, "_busy", lambda: 1.0)
    monkeypatch.setattr(expecting, "cores", lambda: CORES)
    monkeypatch.setattr(expecting, "device", lambda: torch.device("cpu"))
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)


def world(folder: Path, *overrides: str) -> tuple[dict[str, Pipeline], Graph]:
    walk = Walk(folder, lambda line: None)
    recipes = experiments(load("demo", [*TINY, *overrides]))
    pipelines = {name: Pipeline(recipe, walk) for name, recipe in recipes.items()}
    return pipelines, graph_of(pipelines)


def by_name(graph: Graph, found: Expected) -> dict[str, float]:
    return {graph.names[key]: seconds for key, seconds in found.seconds.items()}


def test_the_plan_is_told_by_part(tmp_path: Path) -> None:
    pipelines, graph = world(tmp_path, "forget.methods=[HD, GS]")
    found = expect(pipelines, graph, tmp_path, lambda line: None)
    seconds = by_name(graph, found)
    assert seconds.keys() == set(graph.names.values())
    retain, forget = 6 * 32, 6 * 3 * 4  # six steps an epoch: 24 people of about eight images; three people, four images
    assert seconds["4-train/original"] == pytest.approx(FIXED["train"] + 2 * retain / 100)
    recipe = pipelines[""].recipe
    found_faces = at_hand(recipe)
    assert isinstance(found_faces, AtHand)
    seen = counts_of(recipe, found_faces).forget_train["S1"]  # f* embeds the forget-train images once
    assert seconds["5-forget/S1-HD"] == pytest.approx(FIXED["forget"] + (retain + forget) / 100 + seen / 400)
    assert seconds["5-forget/S1-GS"] == FIXED["forget"]  # a closed form trains nothing
    assert seconds["6-embed/S1-GS"] == FIXED["embed"]
    assert seconds["6-embed/S1-HD"] == seconds["6-embed/original"] > FIXED["embed"]
    assert seconds["report"] == FIXED["report"]
    assert seconds["6-embed/examples"] == expecting.OTHER
    assert (found.place, found.slots, found.sure) == (HERE, 1, True)
    assert read(tmp_path) == found


def test_a_busy_machine_takes_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guess is of an idle machine, so all of it takes longer. A measured speed knows it; then only the rest does."""
    pipelines, graph = world(tmp_path, "forget.methods=[HD]")
    idle = by_name(graph, expect(pipelines, graph, tmp_path / "idle", lambda line: None))
    monkeypatch.setattr(expecting, "_busy", lambda: 3.0)
    guessed = by_name(graph, expect(pipelines, graph, tmp_path / "guessed", lambda line: None))
    assert guessed == pytest.approx({name: 3 * seconds for name, seconds in idle.items()})
    monkeypatch.setattr(expecting, "SMALL", 0.0)
    monkeypatch.setattr(expecting, "speed_of", lambda *_: Speed(100, 400, 50, 1e6, ""))
    measured = by_name(graph, expect(pipelines, graph, tmp_path / "measured", lambda line: None))
    for name, fixed in (("4-train/original", "train"), ("7-evaluate/S1-HD", "evaluate"), ("report", "report")):
        assert measured[name] == pytest.approx(idle[name] + 2 * FIXED[fixed])
    elsewhere = by_name(graph, expect(pipelines, graph, tmp_path / "else", lambda line: None, elsewhere=True))
    assert elsewhere == idle, "how busy this machine is says nothing of another"


@pytest.mark.parametrize(("seconds", "busy"), [(0.05, 1.0), (0.15, 3.0), (0.01, 1.0)])
def test_a_machine_is_busy_if_computing_takes_longer_by_the_clock(
    monkeypatch: pytest.MonkeyPatch, seconds: float, busy: float
) -> None:
    """`seconds` by the clock for each twentieth of a second of computing."""
    monkeypatch.undo()
    computed = [0.0]

    def compute() -> float:
        computed[0] += 0.05
        return computed[0]

    monkeypatch.setattr("time.thread_time", compute)
    monkeypatch.setattr("time.perf_counter", lambda: computed[0] / 0.05 * seconds)
    monkeypatch.setattr(expecting, "MOMENT", 0.2)
    assert expecting._busy() == pytest.approx(busy, rel=0.3)


def test_slots_share_the_cores_and_processes_the_work(tmp_path: Path) -> None:
    pipelines, graph = world(tmp_path)
    one = by_name(graph, expect(pipelines, graph, tmp_path, lambda line: None))
    many = by_name(graph, expect(pipelines, graph, tmp_path, lambda line: None, slots=8))
    assert many == pytest.approx({name: 8 * 2 / CORES * seconds for name, seconds in one.items()})
    both = by_name(graph, expect(pipelines, graph, tmp_path, lambda line: None, together=2, processes=2))
    assert both["6-embed/original"] == one["6-embed/original"] / 2
    assert one["4-train/original"] / 2 < both["4-train/original"] < one["4-train/original"]


def test_experiments_are_told_apart(tmp_path: Path) -> None:
    change = "experiments={long: {train: {epochs: 4}}, short: {}}"
    pipelines, graph = world(tmp_path, change, "forget.methods=[]")
    seconds = by_name(graph, expect(pipelines, graph, tmp_path, lambda line: None))
    assert seconds["long:4-train/original"] - 1 == pytest.approx(2 * (seconds["short:4-train/original"] - 1))


def test_what_was_expected_is_kept_for_the_next_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines, graph = world(tmp_path)
    first = expect(pipelines, graph, tmp_path, lambda line: None)

    def planned(*what: Any) -> dict[str, float]:
        return dict.fromkeys(graph.nodes, 1000.0)

    monkeypatch.setattr(expecting, "_planned", planned)
    assert expect(pipelines, graph, tmp_path, lambda line: None) == first
    again = expect(pipelines, graph, tmp_path, lambda line: None, slots=3, processes=3)  # another way to run it
    assert set(again.seconds.values()) == {1000.0 * 3 * 2 / CORES}


def test_a_run_that_cannot_be_planned_runs_all_the_same(tmp_path: Path) -> None:
    said: list[str] = []
    pipelines, graph = world(tmp_path, "partitions.retain=900")  # there are not so many people
    found = expect(pipelines, graph, tmp_path, said.append)
    assert found.seconds == {}
    assert len(said) == 1
    assert "cannot be estimated" in said[0]


def test_an_earlier_output_of_the_same_settings_says_how_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Walk(tmp_path, lambda line: None) as walk:
        outputs = ask(walk)
    for name, seconds in (("b", 300.0), ("left", 20.0)):
        manifest = outputs[name].manifest
        manifest["made"]["seconds"] = seconds
        (outputs[name].path / "stage.json").write_text(json.dumps(manifest))
    again = Walk(tmp_path, lambda line: None, chosen=())
    a = again.stage("1-faces", "a", {"size": 2}, {}, lambda folder: None)  # other faces, so all of it is new
    b = again.stage("4-train", "b", {"train": {"epochs": 4, "batch": 10}}, {"faces": a}, lambda folder: None)
    again.stage("5-forget", "left", {"scale": "S9"}, {"original": b}, lambda folder: None)  # other settings
    graph = Graph(again.nodes, {key: [""] for key in again.nodes})
    monkeypatch.setattr(expecting, "_planned", lambda *what: dict.fromkeys(graph.nodes, 7.0))
    found = by_name(graph, expect({}, graph, tmp_path, lambda line: None))
    assert found == {"1-faces/a": 7.0, "4-train/b": 300.0, "5-forget/left": 7.0}


def test_of_a_finished_run_nothing_is_expected(tmp_path: Path) -> None:
    graph = small_graph(tmp_path)
    with Walk(tmp_path, lambda line: None) as walk:
        ask(walk)
    assert expect({}, graph, tmp_path, lambda line: None).seconds == {}
    assert not (tmp_path / ESTIMATE).exists()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"seconds": 3}', '{"seconds": {"a": "x"}}', '{"other": 1}'])
def test_a_damaged_estimate_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / ESTIMATE).write_text(content)
    assert read(tmp_path) == Expected()


def test_the_status_reads_what_was_expected(tmp_path: Path) -> None:
    graph = small_graph(tmp_path)
    graph.save(tmp_path)
    named = {graph.names[key]: key for key in graph.nodes}
    expected = {"1-faces/a": 5, "4-train/b": 60, "5-forget/left": 20, "5-forget/right": 30, "7-evaluate/join": 4}
    save(Expected({named[name]: float(value) for name, value in expected.items()}, HERE, 2, True), tmp_path)
    found = status(tmp_path)
    assert (found.left, found.unknown) == (5 + 60 + 30 + 4, 1)  # left beside right; nothing is known of the check
    guess = Look(tmp_path, graph, Expected({named["4-train/b"]: 9.0}, HERE, 1, False))()
    assert (guess.left, guess.unknown) == (None, 6)


def test_what_failed_in_this_call_is_not_waited_for(tmp_path: Path) -> None:
    from damnatio.running.failures import record

    graph = small_graph(tmp_path)
    seconds = Expected(dict.fromkeys(graph.nodes, 10.0), HERE, 1, True)
    b = next(key for key, node in graph.nodes.items() if node.name == "left")
    record(tmp_path, b, "5-forget/left", RuntimeError("no left"))
    assert Look(tmp_path, graph, seconds)().left == 60  # the next call tries it again
    assert Look(tmp_path, graph, seconds, since="2000-01-01 00:00:00")().left == 30  # a, b and right
