"""The command line: one verb a stage, in the order of the pipeline. Heavy imports happen inside the verbs."""

import argparse
import errno
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damnatio.cli.arguments import parser
from damnatio.cli.streams import harden
from damnatio.support.errors import DamnatioError

if TYPE_CHECKING:
    from damnatio.pipeline import Pipeline
    from damnatio.workspace import Output

OUT_OF_MEMORY = (
    "Out of memory. Lower the batch, model.dim or the counts, or set evaluate.nonmated_pairs; finished stages are kept."
)


def main(arguments: Sequence[str] | None = None) -> int:
    harden()
    top = parser()
    options = top.parse_args(arguments)
    try:
        code = _act(top, options)
        sys.stdout.flush()  # what cannot be written is told here, and not by the interpreter as it ends
        return code
    except DamnatioError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        kept = " What was computed is kept: the same command goes on from there."
        return _fail(f"Interrupted.{'' if options.verb in ('benchmark', 'check', 'export') else kept}", 130)
    except MemoryError:
        return _fail(OUT_OF_MEMORY)
    except RuntimeError as error:  # torch has no class for it on a processor
        if any(words in str(error) for words in ("DefaultCPUAllocator", "not enough memory", "out of memory")):
            return _fail(OUT_OF_MEMORY)
        raise
    except OSError as error:
        if error.errno == errno.ENOSPC or "No space left" in str(error):
            return _fail(
                "No space left on the disk. Finished stages are kept: free some space and run the same command again."
            )
        where = error.filename2 or error.filename or "The operating system"  # the second is the file that was meant
        if isinstance(error, FileExistsError):
            return _fail(f"{where} is a file where a folder is expected.")
        return _fail(f"{where}: {error.strerror or error}.")


def _act(top: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.version:
        from damnatio import __version__

        print(f"damnatio {__version__}")
        return 0
    if options.verb is None:
        top.print_help()
        return 0
    return _OTHERS.get(options.verb, _work)(options)


def _fail(sentence: str, code: int = 2) -> int:
    print(f"damnatio: {sentence}", file=sys.stderr)
    return code


def _forget(options: argparse.Namespace) -> int:
    if len(options.what) < 2:
        _refuse(options, "development", "test", "method", "freeze", "resize", "out", of="an erasure (three paths)")
        options.recipe = options.what[0] if options.what else "demo"
        return _work(options)
    if len(options.what) != 3:
        raise DamnatioError(
            "forget takes a recipe, or three paths: a model, the people to forget, and faces to retain."
        )
    print(f"damnatio forget: {options.what[1]} from {options.what[0]}", flush=True)  # before torch is there
    from damnatio.erasure.erasing import Request, erase

    model, people, retain = map(Path, options.what)
    how = (options.method or "HD", options.freeze or "", options.resize, options.set)
    request = Request(model, people, retain, options.development, options.test, *how)
    done = erase(request, options.run or options.out or Path("erasure"), say=lambda line: print(line, flush=True))
    _show(done.pipeline)
    for file in done.files:
        print(f"Altered model: {file}")
    return 0


def _refuse(options: argparse.Namespace, *names: str, of: str) -> None:
    """An option that would be without effect is told, not ignored."""
    for name in names:
        if getattr(options, name):
            raise DamnatioError(f"--{name} belongs to {of}, not to a recipe: leave it out.")


def _work(options: argparse.Namespace) -> int:
    if options.verb == "evaluate":
        if options.embeddings or options.protocol:
            return _recheck(options)
        _refuse(options, "original", "scale", "out", "scores", of="a recheck (--embeddings, --protocol)")
    source = getattr(options, "recipe", "demo")
    data = False
    if options.verb == "faces":
        from damnatio.recipe.files import names_faces

        data = names_faces(source)
    print(f"damnatio {options.verb}: {'' if data else 'recipe '}{source}", flush=True)  # before torch is there
    from damnatio.pipeline import Pipeline
    from damnatio.recipe.files import load, of_faces
    from damnatio.workspace import Workspace

    recipe = of_faces(source, options.set) if data else load(source, options.set)
    with Workspace(options.run or Path("runs") / recipe.name, say=lambda line: print(line, flush=True)) as workspace:
        _VERBS[options.verb](Pipeline(recipe, workspace), options)
    return 0


def _text(output: "Output", name: str) -> str:
    from damnatio.support.manifests import checked

    return checked(output.path / name).read_text(encoding="utf-8").strip()


def _faces(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    from damnatio.reporting.report import draw_sheet

    output = pipeline.faces()
    print(_text(output, "summary.json"))
    if options.sheet:
        draw_sheet(pipeline.images(output), options.sheet, options.rows, options.columns)
        print(f"sheet         {options.sheet}")


def _every_model(stage: str) -> Callable[["Pipeline", argparse.Namespace], None]:
    def work(pipeline: "Pipeline", options: argparse.Namespace) -> None:
        from damnatio.evaluation.measuring import ORIGINAL

        forget = pipeline.recipe.forget
        first = [] if stage == "altered" else [ORIGINAL]
        for scale in forget.scales:
            for label in [*first, *forget.methods]:
                getattr(pipeline, stage)(scale, label)

    return work


def _recheck(options: argparse.Namespace) -> int:
    if not (options.embeddings and options.protocol):
        raise DamnatioError("A recheck needs both --embeddings and --protocol.")
    from rich.console import Console
    from rich.table import Table as Shown

    from damnatio.evaluation.rechecking import recheck
    from damnatio.recipe.files import load

    recipe = load(options.recipe, options.set)
    sources = (options.embeddings, options.protocol, options.scale, options.original)
    found = recheck(recipe, *sources, options.out or Path("recheck"), options.scores)
    console = Console(width=None if sys.stdout.isatty() else 160, markup=False)
    shown = Shown(box=None, header_style="bold", pad_edge=False)
    names = ["task", "group", "at", "metric", "value", "n", "95 % (subjects)", "95 % (Wilson)"]
    names = names if console.width >= 110 else names[:-1]  # results.csv has them all
    for name in names:
        shown.add_column(name, justify="right" if name in ("at", "value", "n") else "left")
    for r in found.results:
        ends = (r.low, r.high), (r.wilson_low, r.wilson_high)
        spans = ["" if low != low else f"[{low:.4f}, {high:.4f}]" for low, high in ends]
        at = "" if r.operating_point != r.operating_point else f"{r.operating_point:g}"
        shown.add_row(*[r.task, r.group, at, r.metric, f"{r.value:.6f}", f"{r.count:,}", *spans][: len(names)])
    console.print(shown)
    for warning in found.warnings:
        print(f"{warning['task']} {warning['group']}: {warning['warning']}")
    print(f"results       {(options.out or Path('recheck')) / 'results.csv'}")
    return 0


def _report(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    pipeline.report()
    _show(pipeline)


def _show(pipeline: "Pipeline") -> None:
    """The tables of a finished report."""
    from rich.console import Console

    from damnatio.reporting.report import terminal_tables

    folder = pipeline.workspace.folder / "report"
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print()
    for table in terminal_tables(pipeline.reported, folder, console.width):
        console.print(table)
        console.print()
    console.print(f"Page: {folder / 'index.html'}", soft_wrap=True)


_VERBS: dict[str, Callable[["Pipeline", argparse.Namespace], None]] = {
    "demo": _report,
    "run": _report,
    "faces": _faces,
    "captures": lambda pipeline, options: print(_text(pipeline.captures(), "summary.json")),
    "partitions": lambda pipeline, options: print(_text(pipeline.partitions(), "counts.json")),
    "train": lambda pipeline, options: print(pipeline.original().path),
    "forget": _every_model("altered"),
    "embed": _every_model("embeddings"),
    "evaluate": _every_model("evaluation"),
    "report": _report,
}


def _list(options: argparse.Namespace) -> int:
    kind = options.kind
    if kind == "recipes":
        from damnatio.recipe.files import configs

        for path in sorted(configs().glob("*.yaml")):
            print(f"{path.stem:<24} {_first_comment(path)}")
    elif kind == "methods":
        from damnatio.methods import METHODS

        for name in METHODS.names():
            method = METHODS.get(name)
            print(f"{name:<6} {method.title:<28} {method.kind:<10} {method.reference}")
    else:
        from damnatio.backbones import BACKBONES
        from damnatio.faces import SOURCES
        from damnatio.heads import HEADS
        from damnatio.support.registry import Registry

        registries: dict[str, Registry[Any]] = {"backbones": BACKBONES, "heads": HEADS, "sources": SOURCES}
        registry = registries[kind]
        for name in registry.names():
            text = (registry.get(name).__doc__ or "").strip().split("\n")[0]
            print(f"{name:<16} {text}")
    return 0


def _findings(options: argparse.Namespace) -> int:
    from damnatio.reporting.findings import judge, markdown
    from damnatio.reporting.report import read_report

    print(markdown(judge([read_report(run / "report") for run in options.runs])), end="")
    return 0


def _export(options: argparse.Namespace) -> int:
    from damnatio.models.exporting import export
    from damnatio.models.importing import import_model
    from damnatio.recipe.files import model_settings

    backbone, card = import_model(model_settings(options.model, options.set))
    written = export(backbone, card, options.out)
    print(f"{options.out}: {card.backbone}, {card.dim} values, {written.sha256[:16]}; its card lies beside it")
    if written.parity is not None:
        print(f"torch and onnxruntime differ by {written.parity:.1e} of the embedding's length")
        if (card.colour, card.mean, card.scale) not in (("RGB", 127.5, 127.5), ("RGB", 0.0, 1.0)):
            fed = f"{card.colour}, (x - {card.mean:g}) / {card.scale:g}"
            print(f"The model is fed {fed}; InsightFace's client feeds RGB, (x - 127.5) / 127.5.")
    return 0


def _check(options: argparse.Namespace) -> int:
    from damnatio.evaluation.checking import check, text
    from damnatio.faces import SOURCES
    from damnatio.models.importing import import_model
    from damnatio.recipe.files import face_settings, model_settings

    backbone, card = import_model(model_settings(options.model, options.set))
    settings = face_settings(options.faces, card.size)
    print(text(*check(backbone, card, SOURCES.get(settings.source)(settings))))
    return 0


def _benchmark(options: argparse.Namespace) -> int:
    print(f"damnatio benchmark: {options.model} on {options.source}", flush=True)  # before torch is there
    from damnatio.evaluation.benchmarking import Options, as_json, benchmark, lines
    from damnatio.support.files import write_atomically

    chosen = Options(
        options.pairs, options.draw_pairs, options.seed, not options.no_flip, options.batch, options.scores, options.set
    )
    result = benchmark(options.model, options.source, chosen)
    for line in lines(result):
        print(line)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(options.json, as_json(result))
    return 0


def _first_comment(path: Path) -> str:
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""


_OTHERS: dict[str, Callable[[argparse.Namespace], int]] = {
    "findings": _findings,
    "benchmark": _benchmark,
    "export": _export,
    "check": _check,
    "forget": _forget,
    "ls": _list,
}
"""verbs that need no recipe"""
