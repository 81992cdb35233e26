"""The graph of a recipe: found from the pipeline, cut into tasks, and compared with what is on disk."""

from pathlib import Path

import pytest

from damnatio.pipeline import Pipeline
from damnatio.recipe.experiments import experiments
from damnatio.recipe.files import load
from damnatio.running.graph import Graph, graph_of, levels, read_graph
from damnatio.running.walking import Walk
from damnatio.support.errors import DamnatioError
from tests.conftest import TINY
from tests.running.worlds import ask, fail_with, small_graph


def graph_for(folder: Path, *settings: str) -> Graph:
    recipe = load("demo", [*TINY, "forget.methods=[HD, GS]", "forget.scales=[S1]", *settings])
    walk = Walk(folder, lambda line: None)
    return graph_of({name: Pipeline(one, walk) for name, one in experiments(recipe).items()}, "demo")


def edges(graph: Graph) -> dict[str, set[str]]:
    return {graph.names[key]: {graph.names[need] for need in node.needs.values()} for key, node in graph.nodes.items()}


def test_the_graph_of_a_recipe(tmp_path: Path) -> None:
    trunk = {"1-faces/synthetic", "3-partitions/all"}
    assert edges(graph_for(tmp_path)) == {
        "1-faces/synthetic": set(),
        "2-captures/all": {"1-faces/synthetic"},
        "3-partitions/all": {"2-captures/all"},
        "4-train/original": trunk,
        "6-embed/original": {*trunk, "4-train/original"},
        "7-evaluate/S1-original": {"3-partitions/all", "6-embed/original"},
        "5-forget/S1-HD": {*trunk, "4-train/original"},
        "6-embed/S1-HD": {*trunk, "5-forget/S1-HD"},
        "7-evaluate/S1-HD": {"3-partitions/all", "6-embed/S1-HD", "7-evaluate/S1-original", "6-embed/original"},
        "6-embed/strangers": {*trunk, "4-train/original"},
        "5-forget/S1-GS": {"3-partitions/all", "4-train/original", "6-embed/original", "6-embed/strangers"},
        "6-embed/S1-GS": {"5-forget/S1-GS", "6-embed/original"},
        "7-evaluate/S1-GS": {"3-partitions/all", "6-embed/S1-GS", "7-evaluate/S1-original", "6-embed/original"},
        "6-embed/examples": {*trunk, "2-captures/all", "4-train/original"},
        "report": {
            *("3-partitions/all", "6-embed/examples"),
            *("7-evaluate/S1-original", "7-evaluate/S1-HD", "7-evaluate/S1-GS"),
        },
    }


def test_a_frozen_trunk_is_a_node(tmp_path: Path) -> None:
    found = edges(graph_for(tmp_path, "forget.freeze=layer2"))
    assert "4-trunk/layer2" in found["5-forget/S1-HD"]
    assert "4-train/original" in found["4-trunk/layer2"]


def test_a_branch_is_one_task(tmp_path: Path) -> None:
    graph = graph_for(tmp_path)
    tasks = {task.name: [graph.names[node] for node in task.nodes] for task in graph.tasks.values()}
    assert tasks.pop("7-evaluate/S1-HD") == ["5-forget/S1-HD", "6-embed/S1-HD", "7-evaluate/S1-HD"]
    assert tasks.pop("7-evaluate/S1-GS") == [
        *("6-embed/strangers", "5-forget/S1-GS", "6-embed/S1-GS", "7-evaluate/S1-GS")
    ]
    assert all(nodes == [name] for name, nodes in tasks.items())
    place = {task: number for number, level in enumerate(levels(graph.tasks, graph)) for task in level}
    made_by = {node: task for task in graph.tasks.values() for node in task.nodes}
    for task in graph.tasks.values():
        assert all(place[made_by[need]] < place[task] for need in task.needs)
    widest = max(levels(graph.tasks, graph), key=len)
    assert {task.name for task in widest} == {"7-evaluate/S1-HD", "7-evaluate/S1-GS"} or len(widest) >= 2


def test_experiments_share_what_they_have_in_common(tmp_path: Path) -> None:
    graph = graph_for(tmp_path, "experiments={wide: {model: {dim: 48}}, narrow: {model: {dim: 32}}}")
    found = edges(graph)
    assert [name for name in found if "faces" in name or "partitions" in name] == [
        "1-faces/synthetic",
        "3-partitions/all",
    ]
    assert found["wide:4-train/original"] == {"1-faces/synthetic", "3-partitions/all"}
    assert "narrow:4-train/original" in found
    assert found["report"] == {"wide:report-wide", "narrow:report-narrow"}
    assert len(set(graph.names.values())) == len(graph.nodes)


def test_a_task_is_found_by_its_name_and_refused_if_the_recipe_changed(tmp_path: Path) -> None:
    graph = graph_for(tmp_path)
    task = graph.task("7-evaluate/S1-HD")
    assert graph.task(task.mark) == task
    with pytest.raises(DamnatioError, match=r"no task 'nothing'.+7-evaluate/S1-GS"):
        graph.task("nothing")
    with pytest.raises(DamnatioError, match="has changed since"):
        graph_for(tmp_path, "forget.epochs=7").task(task.mark)


def test_done_is_what_is_on_disk_and_the_file_says_the_same(tmp_path: Path) -> None:
    graph = small_graph(tmp_path)
    with Walk(tmp_path, lambda line: None) as walk:
        outputs = ask(walk, {"left": fail_with(RuntimeError("no"))})
        graph.save(tmp_path)
    found = read_graph(tmp_path)
    assert found.names == graph.names
    for one in (graph, found):
        assert {graph.nodes[key].name: output for key, output in one.done(tmp_path).items()} == {
            name: outputs[name] for name in ("a", "b", "right")
        }
    (outputs["a"].path / "stage.json").unlink()
    assert found.done(tmp_path) == {}  # what needs it cannot be known


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"nodes": [{"id": 1}], "recipe": ""}'])
def test_a_folder_without_a_graph_gets_a_sentence(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / ".graph.json").write_text(text)
    with pytest.raises(DamnatioError, match="is no folder of a run"):
        read_graph(tmp_path)
