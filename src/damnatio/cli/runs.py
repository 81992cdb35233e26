"""The verbs that run a recipe, all stages: `demo` and `run`; `plan`, which lists the stages; `status` of a run."""

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damnatio.cli.arguments import RECIPE, Verbs, add_recipe_options, folder, positive
from damnatio.cli.showing import add_tables, say, show_joined, show_report, speaks

if TYPE_CHECKING:
    from damnatio.pipeline import Pipeline
    from damnatio.running.graph import Graph
    from damnatio.running.walking import Walk

PLACES = """\
where it runs:
  --on local   in this process, one stage after the other
  --on gpus    a task on each GPU of this machine; without GPUs, in slots that share the cores
  --on slurm   submits the tasks to Slurm, with the resources of the recipe's section `slurm`, and returns
  --processes  with local: this machine's processes train together; with gpus: the GPUs of one slot
  torchrun --nproc-per-node 4 -m damnatio -- run RECIPE    does the same as --processes 4, and knows several nodes

A failed part stops only what needs it. The same command tries again what is missing. Several commands, on one machine
or on several that share the folder, can work on one run: none makes what another is making.
"""


def add(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    layout = argparse.RawDescriptionHelpFormatter
    for verb, text in (("demo", "run the recipe `demo`, all stages"), ("run", "run a recipe, all stages")):
        run = verbs.add_parser(verb, help=text, epilog=PLACES, formatter_class=layout)
        if verb == "run":
            run.add_argument("recipe", metavar="RECIPE", help=RECIPE)
        add_recipe_options(run)
        add_tables(run)
        run.add_argument("--on", choices=("local", "gpus", "slurm"), default="local", help="where it runs (local)")
        run.add_argument("--slots", type=positive, metavar="N", help="with --on gpus: tasks at one time (one per GPU)")
        add_processes(run)
        one = "one task alone, as `damnatio status` names it; what it needs must be finished"
        run.add_argument("--task", metavar="NAME", help=one)
        scalars = "write losses and similarities for TensorBoard too, into RUN/tensorboard"
        run.add_argument("--tensorboard", action="store_true", help=scalars)
        run.set_defaults(act=as_group(_run), resumes=True)
    text = "list the stages of a recipe: images, steps, and what is there"
    plan = verbs.add_parser("plan", help=text, description=f"{text[0].upper()}{text[1:]}. Nothing is computed.")
    plan.add_argument("recipe", metavar="RECIPE", help=RECIPE)
    add_recipe_options(plan)
    plan.set_defaults(act=_plan)
    text = "say what of a run is done, running, failed and waiting"
    status = verbs.add_parser("status", help=text, description=f"{text[0].upper()}{text[1:]}.")
    status.add_argument("run", type=folder, metavar="RUN", help="the folder of a run")
    status.add_argument("--watch", action="store_true", help="go on showing it until all is done")
    status.set_defaults(act=_status)


def add_processes(verb: argparse.ArgumentParser) -> None:
    text = "work in N processes together, each on a GPU of its own or a share of the cores"
    verb.add_argument("--processes", type=positive, default=1, metavar="N", help=text)


def as_group(act: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """A verb in as many processes as were asked for. Those that torchrun or we started become one group."""

    def start(options: argparse.Namespace) -> int:
        from damnatio.running.launching import end_with_parent, launch

        end_with_parent()
        in_group = int(os.environ.get("WORLD_SIZE", "1")) > 1
        if options.processes > 1 and not in_group and getattr(options, "on", "local") == "local":
            return launch(options.processes, _without_processes(options.words), say)
        if not in_group:
            return act(options)
        from damnatio.support import processes

        processes.join()
        code = act(options)
        processes.wait()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(
            code
        )  # the threads of a group, taken apart one process after the other, may end one of them in a crash

    return start


def _without_processes(words: list[str]) -> list[str]:
    """The words of a command without `--processes N`."""
    kept, skip = [], False
    for word in words:
        if not skip and not word.startswith("--processes"):
            kept.append(word)
        skip = word == "--processes"
    return kept


@contextmanager
def in_run(options: argparse.Namespace) -> "Iterator[tuple[dict[str, Pipeline], Walk]]":
    """The pipelines of a command's recipe, by experiment, and the walk through them in the run's folder."""
    source, data = getattr(options, "recipe", "demo"), False
    if options.verb == "faces":
        from damnatio.recipe.files import names_faces

        data = names_faces(source)
    if not getattr(options, "task", None):
        say(f"damnatio {options.verb}: {'' if data else 'recipe '}{source}")  # torch takes seconds to import
    from damnatio.recipe.experiments import experiments
    from damnatio.recipe.files import load, of_faces
    from damnatio.running.elsewhere import pipeline_of
    from damnatio.running.walking import Walk

    recipe = of_faces(source, options.set) if data else load(source, options.set)
    with Walk(options.run or Path("runs") / recipe.name, say=say) as walk:
        yield {name: pipeline_of(one, walk) for name, one in experiments(recipe).items()}, walk


def _run(options: argparse.Namespace) -> int:
    if options.task or options.on == "local":
        return run_here(options)
    with in_run(options) as (pipelines, walk):
        graph = _planned(options, pipelines, walk)
        return (
            _in_slots(options, pipelines, graph, walk)
            if options.on == "gpus"
            else _by_slurm(options, pipelines, graph, walk)
        )


def _plan(options: argparse.Namespace) -> int:
    with in_run(options) as (pipelines, _):
        from damnatio.running.plan import plan

        for line in plan(pipelines):
            say(line)
    return 0


def _status(options: argparse.Namespace) -> int:
    from damnatio.running.status import status, text_of, watch

    if options.watch:
        with suppress(KeyboardInterrupt):  # the run goes on
            watch(options.run, say)
    say(text_of(status(options.run)))
    return 0


def _in_slots(options: argparse.Namespace, pipelines: "dict[str, Pipeline]", graph: "Graph", walk: "Walk") -> int:
    from damnatio.running.failures import all_of
    from damnatio.running.slots import Pool, slots_of

    several = ["--processes", str(options.processes)] if options.processes > 1 else []
    command = [sys.executable, "-m", "damnatio", *_task_words(options, walk.folder), *several]
    with _scalars(_wants_scalars(options, pipelines), graph, walk):
        pool = Pool(graph, walk.folder, command, slots_of(options.slots, options.processes, say), say)
        pool.run()
    _show(options, walk.folder)
    if pool.failed:
        raise all_of(pool.failed)
    return 0


def _wants_scalars(options: argparse.Namespace, pipelines: "dict[str, Pipeline]") -> bool:
    return getattr(options, "tensorboard", False) or any(each.recipe.tensorboard for each in pipelines.values())


def _scalars(
    wanted: bool, graph: "Graph", walk: "Walk", nodes: Collection[str] | None = None
) -> AbstractContextManager[Any]:
    """Write TensorBoard's files in the block: the main process does."""
    if not (wanted and speaks()):
        return nullcontext()
    from damnatio.running.scalars import Scalars

    return Scalars(walk.folder, graph, nodes)


def _by_slurm(options: argparse.Namespace, pipelines: "dict[str, Pipeline]", graph: "Graph", walk: "Walk") -> int:
    from damnatio.cli.jobs import Job
    from damnatio.recipe.schema import SlurmSettings
    from damnatio.running.graph import Task
    from damnatio.running.slurm import submit

    scalars = ["--tensorboard"] if _wants_scalars(options, pipelines) else []

    def job(task: Task) -> Job:
        return Job((*_task_words(options, walk.folder), *scalars, "--task", task.mark), os.getcwd())

    first = next(iter(pipelines.values()))
    jobs = submit(graph, walk.folder, first.recipe.slurm or SlurmSettings(), job, say)
    say(f"{len(jobs)} jobs are with Slurm: damnatio status {walk.folder} --watch shows how far they are")
    return 0


def _task_words(options: argparse.Namespace, run: Path) -> list[str]:
    """The words of the command that runs one task, before its name."""
    words = [word for override in options.set for word in ("--set", override)]
    return ["run", getattr(options, "recipe", "demo"), *words, "--run", str(run)]


def run_here(options: argparse.Namespace) -> int:
    """A recipe, or one task of it, in this process or this group."""
    with in_run(options) as (pipelines, walk):
        graph = _planned(options, pipelines, walk)
        from damnatio.running.local import run_all, run_task

        if getattr(options, "task", None):
            task = graph.task(options.task)
            with _scalars(options.tensorboard, graph, walk, task.nodes):  # else the parent of the slots writes them
                run_task(task, pipelines, graph, walk)
        else:
            with _scalars(_wants_scalars(options, pipelines), graph, walk):
                made = run_all(pipelines, graph, walk)
            if made and speaks():
                _show(options, walk.folder)
        walk.conclude()
    return 0


def _planned(options: argparse.Namespace, pipelines: "dict[str, Pipeline]", walk: "Walk") -> "Graph":
    """The graph of the recipe, which is left in the run's folder for `status`."""
    from damnatio.running.graph import graph_of

    walk.graph = graph = graph_of(pipelines, getattr(options, "recipe", "demo"))
    if speaks():
        graph.save(walk.folder)
    return graph


def _show(options: argparse.Namespace, run: Path) -> None:
    """The answer of the report that was made."""
    from damnatio.recipe.building import built
    from damnatio.running.joint import runs_in
    from damnatio.running.publishing import REPORT
    from damnatio.support.manifests import manifest_of, section_of

    settings = section_of(manifest_of(run / REPORT), "settings")
    if "recipe" in settings:
        show_report(built(settings["recipe"], run / REPORT), run / REPORT, options.tables)
    elif settings:
        show_joined(runs_in(run), run / REPORT, options.tables)
