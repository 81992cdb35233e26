"""The graph of a recipe: its stages at every scale, method, experiment and seed, and which needs which.

The graph is found by walking through the pipeline without making anything. It is written into the run's folder, so that
`damnatio status` and the machines that share the work need neither the recipe nor the faces to know what is done.

    1-faces ── 2-captures ── 3-partitions ── 4-train ──┬── 5-forget/S1-OF ── 6-embed/S1-OF ── 7-evaluate/S1-OF ── report
                                                       └── 5-forget/S1-HD ── ...

A task is what one process makes at a time: a node, together with those before it that only this one needs.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from damnatio.pipeline import Pipeline
from damnatio.running.joint import report_name
from damnatio.running.publishing import REPORT, needed
from damnatio.running.walking import GRAPH, Node, Walk, node_of
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically
from damnatio.support.manifests import manifest_of, section_of
from damnatio.workspace import Output, Wanted


@dataclass(frozen=True)
class Task:
    """Nodes that one process makes, in this order. The last one gives the task its id and name."""

    id: str
    name: str
    nodes: tuple[str, ...]
    needs: frozenset[str]
    """nodes of other tasks that must be finished first"""

    @property
    def mark(self) -> str:
        """The name for a command, which refuses it if the recipe was changed meanwhile."""
        return f"{self.name}@{self.id[:8]}"

    @property
    def publishes(self) -> bool:
        return self.name.split(":")[-1].startswith(REPORT)


@dataclass(frozen=True)
class Graph:
    """The nodes of a recipe, each after those that it needs, and the experiments that each belongs to."""

    nodes: Mapping[str, Node]
    experiments: Mapping[str, list[str]]
    recipe: str = ""
    """how the command named the recipe"""

    @cached_property
    def names(self) -> dict[str, str]:
        """The name of each node, as people see it: `5-forget/S1-OF`, or `vit-s:5-forget/S1-OF` if several experiments
        have one and it is not the same."""
        every = {experiment for found in self.experiments.values() for experiment in found}
        return {
            key: node.title if set(self.experiments[key]) >= every else f"{self.experiments[key][0]}:{node.title}"
            for key, node in self.nodes.items()
        }

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """All tasks by id, each after those that it needs."""
        users: dict[str, list[str]] = {key: [] for key in self.nodes}
        for key, node in self.nodes.items():
            for need in set(node.needs.values()):
                users[need].append(key)
        leads = {key: self._lead(key, users) for key in self.nodes}
        members: dict[str, list[str]] = {}
        for key, lead in leads.items():
            members.setdefault(lead, []).append(key)
        order = [key for key in self.nodes if key in members]  # a lead comes after all its members
        return {key: self._task(key, members[key]) for key in order}

    @cached_property
    def made_by(self) -> dict[str, Task]:
        """The task that makes each node."""
        return {node: task for task in self.tasks.values() for node in task.nodes}

    def _lead(self, key: str, users: Mapping[str, list[str]]) -> str:
        """The node with which a node is made: the only one that needs it, or itself. Reports are made alone."""
        while len(users[key]) == 1 and not self.nodes[users[key][0]].stage.startswith(REPORT):
            key = users[key][0]
        return key

    def _task(self, lead: str, members: list[str]) -> Task:
        needs = {need for key in members for need in self.nodes[key].needs.values()} - set(members)
        return Task(lead, self.names[lead], tuple(members), frozenset(needs))

    def task(self, name: str) -> Task:
        """The task of this name, which may end with `@` and the beginning of its id."""
        wanted, _, mark = name.partition("@")
        for task in self.tasks.values():
            if wanted == task.name:
                if not task.id.startswith(mark):
                    raise DamnatioError(f"The recipe or the code has changed since {wanted} was planned: run it again.")
                return task
        known = ", ".join(task.name for task in self.tasks.values())
        raise DamnatioError(f"There is no task '{wanted}' in this recipe. Known: {known}.")

    def done(self, folder: Path, known: Mapping[str, Output] | None = None) -> dict[str, Output]:
        """The nodes whose outputs are in the run's folder. Those that are `known` to be there are not looked for."""
        found: dict[str, Output] = dict(known or {})
        for key, node in self.nodes.items():
            if key in found:
                continue
            if node.stage.startswith(REPORT):
                output = self._report(folder, node, found)
            else:
                wanted = wanted_of(node, found)
                output = wanted.find(folder) if wanted else None
            if output is not None:
                found[key] = output
        return found

    def _report(self, folder: Path, node: Node, found: Mapping[str, Output]) -> Output | None:
        """The report of a node, if it was made from all that the node needs."""
        manifest = manifest_of(folder / node.stage)
        made_from = section_of(manifest, "inputs")
        if not manifest or not all(
            need in found and made_from.get(name) == found[need].content for name, need in node.needs.items()
        ):
            return None
        return Output(folder / node.stage, manifest["key"])

    def save(self, folder: Path) -> None:
        """Leave the graph in the run's folder."""
        content = {
            "recipe": self.recipe,
            "nodes": [{**asdict(node), "experiments": self.experiments[key]} for key, node in self.nodes.items()],
        }
        text = json.dumps(content, default=str) + "\n"
        with suppress(OSError):
            if (folder / GRAPH).read_text(encoding="utf-8") == text:
                return
        write_atomically(folder / GRAPH, text)


def wanted_of(node: Node, done: Mapping[str, Output]) -> Wanted | None:
    """The output of a node, and so its place; None as long as something that it needs is not done."""
    if not all(need in done for need in node.needs.values()):
        return None
    inputs = {name: done[need] for name, need in node.needs.items()}
    return Wanted(node.stage, node.name, node.settings, inputs, node.code)


def read_graph(folder: Path) -> Graph:
    """The graph of the last command in a run's folder."""
    try:
        content = json.loads((folder / GRAPH).read_bytes())
        nodes = {node["id"]: Node(**{key: node[key] for key in Node.__dataclass_fields__}) for node in content["nodes"]}
        return Graph(nodes, {node["id"]: list(node["experiments"]) for node in content["nodes"]}, content["recipe"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise DamnatioError(f"{folder} is no folder of a run, or of one before `status` was there: run it.") from None


def graph_of(pipelines: Mapping[str, Pipeline], recipe: str = "") -> Graph:
    """The graph of a recipe: of each of its experiments by name, or of the one pipeline without a name."""
    nodes: dict[str, Node] = {}
    belongs: dict[str, list[str]] = {}
    reports: dict[str, str] = {}
    for name, pipeline in pipelines.items():
        walk = Walk(pipeline.workspace.folder, _silent, chosen=())
        evaluations, inputs = needed(pipeline.again(walk))
        outputs = {**inputs, **{f"{scale}-{variant}": output for (scale, variant), output in evaluations.items()}}
        needs = {key: walk.node_behind(output) for key, output in outputs.items()}
        report = node_of(report_name(name), "", {}, {}, needs)
        reports[name] = report.id
        for key, node in {**walk.nodes, report.id: report}.items():
            nodes[key] = node
            belongs.setdefault(key, []).append(name)
    if list(pipelines) != [""]:
        joint = node_of(REPORT, "", {}, {}, reports)
        nodes[joint.id], belongs[joint.id] = joint, list(pipelines)
    return Graph(nodes, belongs, recipe)


def levels(tasks: Mapping[str, Task], graph: Graph) -> Iterator[list[Task]]:
    """The tasks in groups: none of a group needs another of it, and all that it needs is in the groups before."""
    depth: dict[str, int] = {}
    for task in tasks.values():
        before = [depth[maker] for need in task.needs if (maker := graph.made_by[need].id) in depth]
        depth[task.id] = 1 + max(before, default=-1)
    for level in sorted(set(depth.values())):
        yield [task for task in tasks.values() if depth[task.id] == level]


def _silent(line: Any) -> None:
    pass
