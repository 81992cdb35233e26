"""The logs of trainings, read back by TensorBoard's own reader."""

import json
import sys
from pathlib import Path

import pytest

from damnatio.running.scalars import FOLDER, Scalars, tags_of
from damnatio.running.walking import Walk
from damnatio.support.errors import DamnatioError
from damnatio.training.loop import METRICS
from damnatio.training.similarity import FILE as SIMILARITY
from tests.running.worlds import ask, small_graph

LINES = [
    {"step": step, "epoch": step / 10, "lr": 0.1 / step, "loss": 9 - step / 10, "images_per_second": 100.0 + step}
    for step in (20, 40, 60)
]
LOOKS = [{"step": 0, "retain": 0.25}, {"step": 40, "retain": 0.5}]


def text(lines: list[dict[str, float]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_the_names_of_scalars() -> None:
    line = {"step": 20, "epoch": 0.2, "lr": 0.01, "loss": 3.0, "retain": 2.0, "forget": 1.0, "images_per_second": 50}
    assert tags_of(METRICS, line) == {
        "loss/loss": 3.0,
        "loss/retain": 2.0,
        "loss/forget": 1.0,
        "training/lr": 0.01,
        "training/images_per_second": 50.0,
    }
    assert tags_of(SIMILARITY, {"step": 3, "retain": 0.5, "forget": 0.25}) == {
        "similarity/retain": 0.5,
        "similarity/forget": 0.25,
    }


def test_without_tensorboard_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(DamnatioError, match=r"pip install 'damnatio\[tensorboard\]'"):
        Scalars(tmp_path, small_graph(tmp_path))


def read_back(folder: Path, tag: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return [(event.step, round(event.value, 4)) for event in events.Scalars(tag)]


def test_a_training_is_followed_and_read_back(tmp_path: Path) -> None:
    """Half of its log while it runs, the rest when it is finished; and a second call writes no step twice."""
    pytest.importorskip("tensorboard")
    graph = small_graph(tmp_path)
    key = next(key for key, node in graph.nodes.items() if node.name == "b")

    def build(folder: Path) -> None:
        (folder / METRICS).write_text(text(LINES[:2]) + '{"step": 6')  # the last line is not whole yet
        (folder / SIMILARITY).write_text(text(LOOKS[:1]))
        scalars.write()
        (folder / METRICS).write_text(text(LINES))
        (folder / SIMILARITY).write_text(text(LOOKS))

    with Walk(tmp_path, lambda line: None) as walk, Scalars(tmp_path, graph) as scalars:
        output = ask(walk, {"b": build})["b"]
    assert output.path.name.startswith("b-")
    for _ in range(2):
        (found,) = (tmp_path / FOLDER).iterdir()  # of the nodes, only b is a training
        assert found.name == f"4-train.{output.path.name}"
        assert read_back(found, "loss/loss") == [(20, 7.0), (40, 5.0), (60, 3.0)]
        assert read_back(found, "training/images_per_second") == [(20, 120.0), (40, 140.0), (60, 160.0)]
        assert read_back(found, "similarity/retain") == [(0, 0.25), (40, 0.5)]
        with Scalars(tmp_path, graph, [key]):
            pass
    with Scalars(tmp_path / "elsewhere", graph, []):
        pass
    assert not (tmp_path / "elsewhere").exists()
