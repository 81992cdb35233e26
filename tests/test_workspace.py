"""A run's folder: nothing computed twice, nothing half written, each output made by one process."""

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damnatio.support.errors import DamnatioError
from damnatio.support.files import digest_of
from damnatio.support.manifests import CHECKPOINT
from damnatio.workspace import Output, Workspace


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def workspace(tmp_path: Path, said: list[str]) -> Iterator[Workspace]:
    with Workspace(tmp_path / "run", said.append) as held:
        yield held


class Build:
    """Writes a file and counts how often it was asked to."""

    def __init__(self, content: str = "made") -> None:
        self.calls, self.content = 0, content

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        (folder / "data.txt").write_text(self.content)


def test_same_settings_and_inputs_are_not_built_again(workspace: Workspace, said: list[str]) -> None:
    build = Build()
    first = workspace.stage("1-faces", "all", {"size": 32, "seed": 1}, {}, build)
    again = workspace.stage("1-faces", "all", {"seed": 1, "size": 32}, {}, build)
    assert build.calls == 1
    assert first == again
    assert (first.path / "data.txt").read_text() == "made"
    assert "reused" not in said[0]
    assert "reused" in said[1]


def test_output_is_found_again_by_a_later_process(workspace: Workspace) -> None:
    build = Build()
    first = workspace.stage("1-faces", "all", {"size": 32}, {}, build)
    workspace.__exit__()
    with Workspace(workspace.folder, lambda line: None) as later:
        assert later.stage("1-faces", "all", {"size": 32}, {}, build) == first
    assert build.calls == 1


class Known(Output):
    """An output of this content, wherever it lies."""

    content = property(lambda self: self.key)


def input_of(content: str) -> dict[str, Output]:
    return {"faces": Known(Path("anywhere"), content)}


@pytest.mark.parametrize(
    "changed",
    [
        {"settings": {"size": 64}},
        {"settings": {"size": 32, "seed": 1}},
        {"inputs": input_of("other")},
        {"inputs": {}},
        {"code": {"damnatio.captures": "2"}},
    ],
)
def test_changed_setting_input_or_code_is_built_beside_the_old(workspace: Workspace, changed: dict[str, Any]) -> None:
    given: dict[str, Any] = {"settings": {"size": 32}, "inputs": input_of("one"), "code": {"damnatio.captures": "1"}}
    old = workspace.stage("2-captures", "all", build=Build("old"), **given)
    new = workspace.stage("2-captures", "all", build=Build("new"), **{**given, **changed})
    assert old.key != new.key
    assert old.path != new.path
    assert (old.path / "data.txt").read_text() == "old"
    assert (new.path / "data.txt").read_text() == "new"


def test_equal_output_of_edited_code_stops_the_cascade(workspace: Workspace, said: list[str]) -> None:
    def chain(code: str, content: str) -> tuple[Output, Output, Build]:
        first = workspace.stage("2-captures", "all", {}, {}, Build(content), {"damnatio.captures": code})
        later = Build("drawn")
        return first, workspace.stage("3-partitions", "all", {}, {"captures": first}, later), later

    before, drawn, _ = chain("1", "same")
    edited, again, later = chain("2", "same")
    assert before.key != edited.key
    assert before.content == edited.content
    assert (again, later.calls) == (drawn, 0)
    assert any("unlike the last one: code damnatio.captures" in line for line in said)
    other, redrawn, later = chain("3", "other")
    assert other.content != before.content
    assert (redrawn.path != drawn.path, later.calls) == (True, 1)


def test_log_and_cache_are_no_part_of_the_content(workspace: Workspace) -> None:
    def build(seconds: str, cached: bool) -> Callable[[Path], None]:
        def work(folder: Path) -> None:
            (folder / "data.txt").write_text("same")
            (folder / "metrics.jsonl").write_text(seconds)
            if cached:
                (folder / "pixels.npy").write_text("pixels")

        return work

    outputs = [workspace.stage("1-faces", "all", {"n": n}, {}, build(str(n), n > 1)) for n in (1, 2)]
    assert outputs[0].content == outputs[1].content


def test_manifest_says_what_went_in(workspace: Workspace) -> None:
    output = workspace.stage(
        "2-captures", "all", {"threshold": 30.0}, input_of("abc"), Build(), {"damnatio.captures": "3"}
    )
    manifest = output.manifest
    assert manifest["key"] == output.key
    assert manifest["stage"] == "2-captures"
    assert manifest["settings"] == {"threshold": 30.0}
    assert manifest["inputs"] == {"faces": "abc"}
    assert manifest["code"] == {"damnatio.captures": "3"}
    assert manifest["made"]["seconds"] >= 0
    assert manifest["made"]["numpy"] == np.__version__
    assert manifest["made"].keys() >= {"damnatio", "python", "torch", "machine", "command"}


def interrupted(build: Callable[[Path], None]) -> Callable[[Path], None]:
    def stop(folder: Path) -> None:
        build(folder)
        raise KeyboardInterrupt

    return stop


def test_interrupted_build_leaves_no_output_but_its_work_for_the_next_try(workspace: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt):
        workspace.stage("4-train", "original", {"lr": 0.1}, {}, interrupted(Build("half")))
    stage = workspace.folder / "4-train"
    assert [path.name for path in stage.iterdir() if not path.name.startswith(".")] == []
    found = []

    def resume(folder: Path) -> None:
        found.append((folder / "data.txt").read_text())
        (folder / "data.txt").write_text("whole")

    output = workspace.stage("4-train", "original", {"lr": 0.1}, {}, resume)
    assert found == ["half"]
    assert (output.path / "data.txt").read_text() == "whole"
    assert list(stage.iterdir()) == [output.path]


def test_interrupted_build_of_other_settings_is_not_resumed_from(workspace: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt):
        workspace.stage("4-train", "original", {"lr": 0.1}, {}, interrupted(Build("half")))
    workspace.stage("4-train", "original", {"lr": 0.2}, {}, assert_empty)


def assert_empty(folder: Path) -> None:
    assert list(folder.iterdir()) == []


def test_folder_without_a_manifest_is_nobodys_output(workspace: Workspace) -> None:
    output = workspace.stage("1-faces", "all", {"size": 32}, {}, Build("first"))
    (output.path / "stage.json").unlink()
    again = workspace.stage("1-faces", "all", {"size": 32}, {}, Build("second"))
    assert again == output
    assert (again.path / "data.txt").read_text() == "second"


def test_output_whose_manifest_is_nested_beyond_all_bounds_is_built_again(workspace: Workspace) -> None:
    output = workspace.stage("1-faces", "all", {"size": 32}, {}, Build("first"))
    (output.path / "stage.json").write_text("[" * 20_000)
    again = workspace.stage("1-faces", "all", {"size": 32}, {}, Build("second"))
    assert (again.path / "data.txt").read_text() == "second"


def test_manifest_of_an_output_that_is_used_can_be_read(workspace: Workspace) -> None:
    """Half a character in the command, as a shell may hand it over."""
    output = workspace.stage("1-faces", "all", {"size": 32}, {}, Build("first"))
    manifest = (output.path / "stage.json").read_bytes()
    (output.path / "stage.json").write_bytes(manifest.replace(b'"command": "', b'"command": "\xed\xa0\x80'))
    again = workspace.stage("1-faces", "all", {"size": 32}, {}, Build("second"))
    assert (again.path / "data.txt").read_text() == "first"
    assert again.manifest["key"] == again.key


def test_output_that_lacked_the_renaming_alone_is_not_built_again(workspace: Workspace) -> None:
    build = Build()
    output = workspace.stage("4-train", "original", {"lr": 0.1}, {}, build)
    partial = output.path.rename(output.path.with_name(f".partial-{output.path.name}"))
    (partial / CHECKPOINT).write_text("not yet removed")
    assert workspace.stage("4-train", "original", {"lr": 0.1}, {}, build) == output
    assert build.calls == 1
    assert sorted(path.name for path in output.path.iterdir()) == ["data.txt", "stage.json"]


def test_checkpoint_outlives_the_build_and_is_no_part_of_the_output(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while the files of a finished training are hashed, it must not train from its beginning again."""

    def train(folder: Path) -> None:
        (folder / CHECKPOINT).write_text("step 7")
        (folder / ".model.safetensors.99.tmp").write_text("of a write that was killed")
        Build()(folder)

    def kill(path: Path) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("damnatio.workspace.digest_of", kill)
        with pytest.raises(KeyboardInterrupt):
            workspace.stage("4-train", "original", {}, {}, train)
    (partial,) = (workspace.folder / "4-train").iterdir()
    assert (partial / CHECKPOINT).read_text() == "step 7"
    output = workspace.stage("4-train", "original", {}, {}, train)
    assert sorted(path.name for path in output.path.iterdir()) == ["data.txt", "stage.json"]
    assert list(output.manifest["files"]) == ["data.txt"]


# --- what a finished output holds ------------------------------------------------------------------------------------


def test_manifest_has_the_size_and_hash_of_each_file(workspace: Workspace) -> None:
    output = workspace.stage("1-faces", "all", {}, {}, Build("made"))
    digest = hashlib.sha256(b"made").hexdigest()
    assert output.manifest["files"] == {"data.txt": {"bytes": 4, "sha256": digest}}
    assert digest_of(output.path / "data.txt") == digest


def test_content_is_that_of_the_files_and_not_of_the_way_to_them(workspace: Workspace) -> None:
    def logged(content: str, log: str) -> Callable[[Path], None]:
        def build(folder: Path) -> None:
            Build(content)(folder)
            (folder / "metrics.jsonl").write_text(log)

        return build

    builds = [logged("a", "fast"), logged("a", "slow"), logged("b", "fast")]
    first, same, other = (workspace.stage("4-train", "x", {"n": n}, {}, b).content for n, b in enumerate(builds))
    assert first == same
    assert first != other


def test_output_of_an_older_format_is_neither_used_nor_lost(workspace: Workspace) -> None:
    output = workspace.stage("1-faces", "all", {"size": 32}, {}, Build("old"))
    manifest = {k: v for k, v in output.manifest.items() if k not in ("files", "format")}
    older = output.path.rename(output.path.with_name("all-0ldf0rma"))
    (older / "stage.json").write_text(json.dumps(manifest))
    assert (workspace.stage("1-faces", "all", {"size": 32}, {}, Build("new")).path / "data.txt").read_text() == "new"
    assert (older / "data.txt").read_text() == "old"


# --- what is published for people ------------------------------------------------------------------------------------


def test_publish_builds_once_for_the_same_content(workspace: Workspace) -> None:
    build = Build()
    for _ in range(2):
        folder = workspace.publish("report", {"recipe": "demo"}, input_of("one"), build)
    assert folder == workspace.folder / "report"
    assert build.calls == 1


def test_publish_swaps_the_whole_folder(workspace: Workspace) -> None:
    workspace.publish("report", {}, input_of("one"), Build("old"))
    (workspace.folder / "report" / "left-over.txt").write_text("old")
    folder = workspace.publish("report", {}, input_of("two"), Build("new"))
    assert sorted(path.name for path in folder.iterdir()) == ["data.txt", "stage.json"]
    assert (folder / "data.txt").read_text() == "new"
    assert sorted(path.name for path in workspace.folder.iterdir()) == ["report"]


def test_publish_keeps_the_old_folder_while_building_and_if_the_build_fails(workspace: Workspace) -> None:
    report = workspace.publish("report", {}, input_of("one"), Build("old"))

    def fail(folder: Path) -> None:
        assert (report / "data.txt").read_text() == "old"
        (folder / "data.txt").write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        workspace.publish("report", {}, input_of("two"), fail)
    assert (report / "data.txt").read_text() == "old"
    workspace.publish("report", {}, input_of("two"), assert_empty)
    assert not (report / "data.txt").exists()


def test_publish_survives_what_an_interrupted_swap_left(workspace: Workspace) -> None:
    report = workspace.publish("report", {}, input_of("one"), Build("old"))
    report.rename(workspace.folder / ".old-report")
    shutil.copytree(workspace.folder / ".old-report", workspace.folder / ".partial-report")
    workspace.publish("report", {}, input_of("one"), Build("new"))
    assert (report / "data.txt").read_text() == "new"
    assert sorted(path.name for path in workspace.folder.iterdir()) == ["report"]


# --- several processes in one folder ---------------------------------------------------------------------------------

SLOW = """
import sys, time
from pathlib import Path
from damnatio.workspace import Workspace
def build(folder):
    print("building", flush=True)
    while not Path(sys.argv[2]).exists():
        time.sleep(0.02)
    (folder / "data.txt").write_text("by another")
with Workspace(Path(sys.argv[1])) as workspace:
    workspace.stage("4-train", "original", {}, {}, build)
"""


@contextmanager
def building_elsewhere(folder: Path, may_end: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that builds an output, until the file is there."""
    command = [sys.executable, "-c", SLOW, str(folder), str(may_end)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "building\n"
        yield process
        process.kill()


def test_who_needs_what_another_builds_waits_for_it_and_reuses_it(tmp_path: Path, said: list[str]) -> None:
    def say(line: str) -> None:
        said.append(line)
        (tmp_path / "end").touch()

    with building_elsewhere(tmp_path / "run", tmp_path / "end") as other, Workspace(tmp_path / "run", say) as workspace:
        build = Build("by us")
        output = workspace.stage("4-train", "original", {}, {}, build)
        assert (output.path / "data.txt").read_text() == "by another"
        assert build.calls == 0
        assert f"is being made by process {other.pid} on {platform.node()} since" in said[0]
        assert "reused" in said[1]
    assert len(said) == 2


def test_other_outputs_can_be_built_meanwhile(workspace: Workspace, tmp_path: Path) -> None:
    with building_elsewhere(workspace.folder, tmp_path / "never") as other:
        output = workspace.stage("4-train", "original", {"seed": 2}, {}, Build("by us"))
        assert (output.path / "data.txt").read_text() == "by us"
        assert other.poll() is None


def test_build_of_a_process_that_was_killed_goes_on_at_once(workspace: Workspace, tmp_path: Path) -> None:
    with building_elsewhere(workspace.folder, tmp_path / "never") as other:
        (partial,) = (workspace.folder / "4-train").iterdir()
        (partial / "half.txt").write_text("of the one that was killed")
        other.kill()
        other.wait()
        found = []

        def resume(folder: Path) -> None:
            found.append((folder / "half.txt").read_text())

        workspace.stage("4-train", "original", {}, {}, resume)
    assert found == ["of the one that was killed"]


def test_who_was_taken_for_dead_does_not_replace_what_its_successor_made(workspace: Workspace) -> None:
    def robbed(folder: Path) -> None:
        (folder / "data.txt").write_text("old")
        (lock,) = (workspace.folder / ".locks").iterdir()
        shutil.rmtree(lock)  # what a process on another machine does, after minutes without a sign of life
        holder = {"token": "other", "host": "elsewhere", "machine": "elsewhere", "pid": 7, "since": "today"}
        lock.mkdir()
        (lock / "holder.json").write_text(json.dumps(holder))

    with pytest.raises(DamnatioError, match=r"took 4-train|took original-\w+ over"):
        workspace.stage("4-train", "original", {}, {}, robbed)
    assert not [path for path in (workspace.folder / "4-train").iterdir() if not path.name.startswith(".")]
    assert len(list((workspace.folder / ".locks").iterdir())) == 1  # it is the other's


def test_whole_folder_is_held_by_one_process_that_asks_for_it_alone(tmp_path: Path) -> None:
    with Workspace(tmp_path / "run", alone=True):
        with pytest.raises(DamnatioError, match=r"Another process is working in .+run: process \d+ on .+ Wait for it"):
            Workspace(tmp_path / "run", alone=True)
        Workspace(tmp_path / "run")
    with Workspace(tmp_path / "run", alone=True):
        pass


def test_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DamnatioError, match=r"cannot be used: .+ Name another"):
            Workspace(folder)


GROUP = """
import sys
from pathlib import Path
from damnatio.support import processes
from damnatio.support.errors import DamnatioError
from damnatio.workspace import Workspace
processes.join()
rank, folder = processes.rank(), Path(sys.argv[1])
def shared(partial):
    everyone = processes.from_all(rank)
    if processes.is_main():
        (partial / "data.txt").write_text(f"made by {everyone}")
def alone(partial):
    (partial / "data.txt").write_text(f"made by {rank}")
def fails(partial):
    raise DamnatioError(f"It failed in {rank}.")
with Workspace(folder) as workspace:
    one = workspace.stage("4-train", "original", {}, {}, shared, shared=True)
    two = workspace.stage("3-partitions", "all", {}, {"original": one}, alone)
    try:
        workspace.stage("5-forget", "S1-HD", {}, {"original": one}, fails)
        error = ""
    except DamnatioError as failure:
        error = f"{type(failure).__name__}: {failure}"
    again = workspace.stage("4-train", "original", {}, {}, fails)
texts = [(output.path / "data.txt").read_text() for output in (one, two, again)]
(folder / f"rank-{rank}.txt").write_text(" | ".join([*texts, error]))
processes.leave()
"""


@pytest.mark.cli
def test_processes_of_a_group_build_together_what_is_shared_and_wait_for_the_rest(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    done = subprocess.run(
        [*command, sys.executable, "-c", GROUP, str(tmp_path)], capture_output=True, text=True, check=True, timeout=500
    )
    said = [(tmp_path / f"rank-{rank}.txt").read_text() for rank in (0, 1)]
    made = "made by [0, 1] | made by 0 | made by [0, 1]"
    assert said == [f"{made} | DamnatioError: It failed in 0.", f"{made} | MainFailedError: It failed in 0."]
    assert len(done.stdout.splitlines()) == 3  # one line per output, from the main process
    assert not (tmp_path / ".locks").exists()


# --- what a call leaves that computed nothing -----------------------------------------------------------------------


def refuse(folder: Path) -> None:
    raise DamnatioError("No.")


def test_call_that_computed_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DamnatioError), Workspace(tmp_path / "runs" / "mine") as workspace:
        workspace.stage("1-faces", "all", {}, {}, refuse)
    assert list(tmp_path.iterdir()) == []


def test_call_that_fails_takes_nothing_away(tmp_path: Path) -> None:
    (tmp_path / "runs" / "empty").mkdir(parents=True)
    with Workspace(tmp_path / "runs" / "other", lambda line: None) as workspace:
        workspace.stage("1-faces", "all", {}, {}, Build())
    before = sorted(tmp_path.rglob("*"))
    for name in ("empty", "other"):
        with pytest.raises(DamnatioError), Workspace(tmp_path / "runs" / name, lambda line: None) as workspace:
            workspace.stage("2-captures", "all", {}, {}, refuse)
    assert sorted(tmp_path.rglob("*")) == before
