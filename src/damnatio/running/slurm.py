"""A recipe on a Slurm cluster: `damnatio run RECIPE --on slurm` submits its tasks by submitit and returns.

The tasks that can run at one time are one array of jobs. An array starts when those that it needs have ended, well or
not: a task whose needs failed ends at once, and the other branches go on. Jobs are submitted with what the recipe's
section `slurm` asks for. Before Slurm takes a job's machines away it sends a signal; the training then saves a
checkpoint, and the job queues again and goes on from there.

    RUN/.slurm/jobs.json          the id of each task's job
    RUN/.slurm/12_3_0_log.out     what job 12_3 printed
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from damnatio.recipe.schema import SlurmSettings
from damnatio.running.graph import Graph, Task, levels
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically
from damnatio.training.stopping import Stopped, install

FOLDER, JOBS = ".slurm", "jobs.json"
LIGHT = ("1-faces", "2-captures", "3-partitions", "report")
"""stages that need no GPU"""


def submit(
    graph: Graph,
    folder: Path,
    settings: SlurmSettings,
    job: Callable[[Task], Callable[[], None]],
    say: Callable[[str], None],
) -> dict[str, str]:
    """Submit every task that is neither done nor queued; the ids of their jobs, by the name of the task."""
    try:
        import submitit
    except ModuleNotFoundError:
        raise DamnatioError("--on slurm needs submitit: pip install 'damnatio[slurm]'.") from None
    if shutil.which("sbatch") is None:
        raise DamnatioError("--on slurm: there is no command sbatch here. Run it where jobs are submitted.")
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    known = {task: number for task, number in jobs_of(folder).items() if number in _queued()}
    done = graph.done(folder)
    wanted = {key: task for key, task in graph.tasks.items() if key not in done and task.name not in known}
    for level in levels(wanted, graph):
        for light in (True, False):
            tasks = [task for task in level if _is_light(task, graph) == light]
            if not tasks:
                continue
            makers = {graph.made_by[need].name for task in tasks for need in task.needs}
            before = {known[maker] for maker in makers if maker in known}
            executor = submitit.SlurmExecutor(folder=place, max_num_timeout=1_000_000)
            executor.update_parameters(**_parameters(settings, light, before))
            with executor.batch():
                jobs = [executor.submit(job(task)) for task in tasks]
            known |= {task.name: made.job_id for task, made in zip(tasks, jobs, strict=True)}
            for task in tasks:
                say(f"job {known[task.name]:<10} {task.name}")
            write_atomically(place / JOBS, json.dumps(known, indent=1) + "\n")
    return known


def jobs_of(folder: Path) -> dict[str, str]:
    """The id of the job of each task that was submitted, by the name of the task."""
    with suppress(OSError, ValueError):
        return {str(name): str(number) for name, number in json.loads((folder / FOLDER / JOBS).read_bytes()).items()}
    return {}


def _queued() -> set[str]:
    """The ids of our jobs that Slurm has not ended."""
    found = subprocess.run(["squeue", "--me", "-r", "-h", "-o", "%i"], capture_output=True, text=True, check=False)
    return set(found.stdout.split())


def _is_light(task: Task, graph: Graph) -> bool:
    return all(graph.nodes[node].stage.startswith(LIGHT) for node in task.nodes)


def _parameters(settings: SlurmSettings, light: bool, before: Sequence[str] | set[str]) -> dict[str, Any]:
    """What sbatch is asked for."""
    nodes, gpus = (1, 0) if light else (settings.nodes, settings.gpus)
    wanted: Mapping[str, Any] = {
        "job_name": "damnatio",
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "constraint": None if light else settings.constraint,
        "nodes": nodes,
        "ntasks_per_node": 1 if light else settings.processes or max(1, gpus),
        "gpus_per_node": gpus or None,
        "cpus_per_task": settings.cpus,
        "mem": None if settings.memory_gb is None else f"{round(settings.memory_gb * 1024)}M",
        "time": max(1, round(settings.hours * 60)),
        "signal_delay_s": settings.warning_seconds,
        "array_parallelism": settings.parallel,
        "dependency": f"afterany:{':'.join(sorted(before))}" if before else None,
        "setup": settings.setup or None,
        # a group cannot go on without one of its processes; a job that starts anew keeps its log
        "srun_args": ["--kill-on-bad-exit=1", "--open-mode=append"],
        "additional_parameters": {"requeue": True},
    }
    return {name: value for name, value in wanted.items() if value is not None}


def in_job(act: Callable[[], int]) -> None:
    """Run a command in a job of Slurm. Several processes of the job are one group. If Slurm asks to stop, the job
    queues again. The job ends with the command's exit code."""
    import submitit

    environment = submitit.JobEnvironment()
    if environment.num_tasks > 1:
        submitit.helpers.TorchDistributedEnvironment().export(set_cuda_visible_devices=False)
    install((signal.SIGTERM, signal.SIGUSR2))
    signal.signal(signal.SIGCONT, signal.SIG_DFL)  # Slurm sends it with SIGTERM
    code = act()
    if code == Stopped.code and environment.global_rank == 0:
        subprocess.run(["scontrol", "requeue", environment.job_id], check=False)  # Slurm may have done it already
    if code:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # no result is to be kept, and other threads must not hold the process up
