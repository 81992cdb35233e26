"""A recipe on several GPUs of one machine: `damnatio run RECIPE --on gpus`.

A slot is a GPU, or several with `--processes`. Each slot takes the next task whose needs are finished and runs it in a
process of its own, `damnatio run RECIPE --task NAME`. What fails is noted; the other branches go on.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from damnatio.running.failures import clear, failures, record
from damnatio.running.graph import Graph, Task
from damnatio.running.launching import own_child, threads_of
from damnatio.support.errors import DamnatioError
from damnatio.support.locks import look_anew
from damnatio.support.workers import cores

LOGS = ".logs"


@dataclass(frozen=True)
class Slot:
    """A place for one task at a time, and the environment of its process."""

    name: str
    environment: Mapping[str, str]


def slots_of(wanted: int | None, processes: int, say: Callable[[str], None]) -> list[Slot]:
    """The slots of this machine: one per so many GPUs, or as many as are wanted. Without a GPU they share the cores."""
    import torch

    count = torch.cuda.device_count()
    if count == 0:
        wanted = wanted or 1
        say(f"no GPU was found: {wanted} slots share the {cores()} cores")
        return [Slot(f"slot {number}", threads_of(wanted * processes)) for number in range(wanted)]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    gpus = visible.split(",") if visible else [str(number) for number in range(count)]
    if processes > count:
        raise DamnatioError(f"--processes {processes}: this machine has {count} GPUs, and each process takes one.")
    groups = [gpus[start : start + processes] for start in range(0, count - processes + 1, processes)]
    wanted = wanted or len(groups)
    chosen = [groups[number % len(groups)] for number in range(wanted)]
    return [Slot(f"GPU {','.join(group)}", {"CUDA_VISIBLE_DEVICES": ",".join(group)}) for group in chosen]


@dataclass
class _Running:
    task: Task
    process: "subprocess.Popen[str]"
    reader: threading.Thread
    said: list[str] = field(default_factory=list)


class Pool:
    """The slots at work on a graph."""

    def __init__(
        self, graph: Graph, folder: Path, command: Sequence[str], slots: Sequence[Slot], say: Callable[[str], None]
    ) -> None:
        self.graph, self.folder, self.command, self.slots, self.say = graph, folder, list(command), slots, say
        self.failed: dict[str, str] = {}
        """the error of each task that failed, by its name"""
        self._done = set(graph.done(folder))
        for node in self._done:  # whoever made it may have been killed before it could say so
            clear(folder, node)
        self._running: dict[int, _Running] = {}
        """by the number of the slot"""
        self._tried: set[str] = set()

    def run(self) -> None:
        """Run everything that is missing. Whatever ends this call ends the processes too."""
        try:
            while True:
                for number in range(len(self.slots)):
                    task = None if number in self._running else self._next()
                    if task is not None:
                        self._start(number, task)
                if not self._running:
                    return
                time.sleep(0.05)
                for number, running in list(self._running.items()):
                    if running.process.poll() is not None:
                        del self._running[number]
                        self._end(running)
        finally:
            for running in self._running.values():
                running.process.terminate()
            for running in self._running.values():
                running.process.wait()

    def _next(self) -> Task | None:
        """The next task that can be run. A report waits until all that it is on is made or given up."""
        open_ = [task for task in self.graph.tasks.values() if task.id not in self._done | self._tried]
        coming = {node for task in open_ if not self._blocked(task) for node in task.nodes}
        coming |= {node for running in self._running.values() for node in running.task.nodes}
        for task in open_:
            if task.needs <= self._done or (task.publishes and task.needs & self._done and not task.needs & coming):
                return task
        return None

    def _blocked(self, task: Task) -> bool:
        """Whether something that the task needs was given up."""
        if task.publishes:
            return False
        missing = [self.graph.made_by[need] for need in task.needs if need not in self._done]
        working = {running.task.id for running in self._running.values()}
        return any((one.id in self._tried and one.id not in working) or self._blocked(one) for one in missing)

    def _start(self, number: int, task: Task) -> None:
        slot = self.slots[number]
        self._tried.add(task.id)
        log = self.folder / LOGS / f"{task.name.replace('/', '.').replace(':', '.')}.log"
        log.parent.mkdir(exist_ok=True)
        self.say(f"{slot.name}: {task.name}")
        process = subprocess.Popen(
            [*self.command, "--task", task.mark],
            env={**os.environ, **own_child(), **slot.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        said: list[str] = []
        reader = threading.Thread(target=self._read, args=(process, log, said), daemon=True)
        reader.start()
        self._running[number] = _Running(task, process, reader, said)

    def _read(self, process: "subprocess.Popen[str]", log: Path, said: list[str]) -> None:
        assert process.stdout is not None
        with log.open("a", encoding="utf-8") as file:
            for line in process.stdout:
                file.write(line)
                file.flush()
                said[:] = [line.rstrip("\n")]
                self.say(line.rstrip("\n"))

    def _end(self, running: _Running) -> None:
        running.reader.join()
        for node in running.task.nodes:
            look_anew(self.folder / self.graph.nodes[node].stage)
        self._done = set(self.graph.done(self.folder))
        failed = running.process.returncode != 0 if running.task.publishes else running.task.id not in self._done
        if failed:
            self.failed[running.task.name] = self._why(running)
        else:
            self._done.add(running.task.id)  # a report may be on what there was
            for node in running.task.nodes:
                clear(self.folder, node)

    def _why(self, running: _Running) -> str:
        """Why a task failed: what its process noted, else how it ended, which is noted now."""
        known, code = failures(self.folder), running.process.returncode
        errors = [known[node].error for node in running.task.nodes if node in known]
        if errors:
            return errors[-1]
        last = f"its process was ended by signal {-code}" if code < 0 else "".join(running.said)
        error = DamnatioError(last.removeprefix("damnatio: ") or f"its process ended with code {code}")
        return record(self.folder, running.task.id, running.task.name, error).error
