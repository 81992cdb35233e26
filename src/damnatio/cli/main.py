"""The parser, put together from the families of verbs, and what happens when a verb fails.

A verb imports what it works with when it runs: `damnatio --help` must not import torch.
"""

import argparse
import errno
import sys
from collections.abc import Sequence
from typing import Any

from damnatio.cli import audit, cases, erase, listing, models, planning, runs, stages
from damnatio.cli.showing import speaks
from damnatio.cli.streams import harden
from damnatio.support.errors import DamnatioError, printable
from damnatio.support.waiting import choose_waiting

EPILOG = """\
examples:
  damnatio demo                                       the whole experiment on rendered faces
  damnatio run configs/demo.yaml --set seed=2         a recipe, with one setting changed
  damnatio run my.yaml --set faces.source=folder --set faces.root=~/faces
  damnatio plan paper-table-5 --device a100 --gpus 4  what it will take, before anything runs
  damnatio run my.yaml --on gpus                      a task on each GPU; --help says more
  damnatio status runs/my                             done, running, failed, waiting, time left
  damnatio train demo                                 one stage, on what the earlier ones left
  damnatio faces --sheet sheet.png                    look at the faces
  damnatio faces /data/train.rec --sheet sheet.png    and at your own
  damnatio erase model.onnx ~/people                  erase people from a model in service
  damnatio erase model.onnx ~/people --gallery faces.npz --case 2026-0817 --out case
  damnatio purge case/plan.json --confirm 12          delete what the plan lists, scan, sign the record
  damnatio verify case/record.json                    check the record of an erasure
  damnatio recheck runs/demo                          every number again, from the stored embeddings
  damnatio findings runs/demo                         the paper's findings, judged on a run
  damnatio join runs/a runs/b --out both              several finished runs in one report
  damnatio benchmark MODEL ~/lfw                      ten-fold accuracy, retrieval and CMC of one model
  damnatio check backbone.pth ~/faces                 is the model fed RGB or BGR?
  damnatio export runs/my/5-forget/S1-OF-1a2b3c4d f.onnx
  damnatio ls methods                                 what there is to choose from
  eval "$(damnatio completion bash)"                  completion in this shell

A finished stage is never computed again; a missing one is computed first.
"""
OUT_OF_MEMORY = (
    "Out of memory. Lower the batch, model.dim or the counts, or set evaluate.nonmated_pairs; finished stages are kept."
)


class _Help(argparse.RawDescriptionHelpFormatter):
    """The texts of all verbs in one column: argparse forgets that verbs are indented further than options."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **options)
        self._action_max_length = 14


def parser() -> argparse.ArgumentParser:
    """Every verb sets `act`, the function that carries it out, and `resumes` if the same command can go on later."""
    top = argparse.ArgumentParser(
        prog="damnatio",
        description="Make a face recognition model forget chosen people, and measure it.",
        epilog=EPILOG,
        formatter_class=_Help,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    top.set_defaults(act=None, resumes=False)
    verbs = top.add_subparsers(dest="verb", metavar="VERB")
    for family in (runs, planning, stages, erase, cases, audit, models, listing):
        family.add(verbs)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    harden()
    if "torch" not in sys.modules:
        choose_waiting()
    top = parser()
    options = top.parse_args(arguments)
    options.words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _act(top, options)
        sys.stdout.flush()  # a failure to write is reported here, and not by the interpreter as it ends
        return code
    except DamnatioError as error:
        return _fail(str(error), error.code) if error.is_news else error.code
    except KeyboardInterrupt:
        if not speaks():
            return 130
        kept = " What was computed is kept: the same command goes on from there."
        return _fail(f"Interrupted.{kept if options.resumes else ''}", 130)
    except MemoryError:
        return _fail(OUT_OF_MEMORY)
    except RuntimeError as error:  # torch has no class for it on a processor
        if str(error).startswith("Symlink loop"):
            return _fail(f"{error}: a link leads back to itself.")
        if any(words in str(error) for words in ("DefaultCPUAllocator", "not enough memory", "out of memory")):
            return _fail(OUT_OF_MEMORY)
        from damnatio.support.processes import lost_another  # imports numpy, which takes a moment

        if lost_another(error):
            return _fail("Another process of this command ended, and so does this one. The same command goes on.")
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
    if options.act is None:
        top.print_help()
        return 0
    code: int = options.act(options)
    return code


def _fail(sentence: str, code: int = 2) -> int:
    print(f"damnatio: {printable(sentence, lines=True)}", file=sys.stderr)
    return code
