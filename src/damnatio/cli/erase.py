"""The verb `erase`: an erasure request, which needs only paths."""

import argparse
from pathlib import Path

from damnatio.cli.arguments import Verbs, folder
from damnatio.cli.stages import say, show_report

DESCRIPTION = (
    "Make a model in service forget people, and measure it before and after. Each source of faces is a folder of "
    "people, a manifest, a .rec, or .tar shards. The altered model is written in the format it came in, with its card; "
    "the report on both models lies in OUT/run/report."
)


def add(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    verb = verbs.add_parser("erase", help="erase people from a model of your own", description=DESCRIPTION)
    verb.add_argument("model", type=Path, metavar="MODEL", help="an .onnx, .pth or .safetensors, or a model folder")
    verb.add_argument("people", type=Path, metavar="PEOPLE", help="faces of the people to forget")
    verb.add_argument("retain", type=Path, metavar="RETAIN", help="faces of people who must stay recognised")
    out = Path("erasure")
    verb.add_argument("--out", type=folder, default=out, metavar="OUT", help="where everything is written (erasure)")
    verb.add_argument("--method", default="HD", help="one of `damnatio ls methods` (HD)")
    verb.add_argument("--development", type=Path, metavar="SOURCE", help="strangers to calibrate on (split off RETAIN)")
    verb.add_argument("--test", type=Path, metavar="SOURCE", help="strangers to measure on (split off RETAIN)")
    freeze = "train only what follows this cut point; none: train all (on a GPU all, else the end of the network)"
    verb.add_argument("--freeze", metavar="POINT", default="", help=freeze)
    verb.add_argument("--resize", action="store_true", help="bring square faces of another size to the model's")
    verb.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change one setting; may be repeated"
    )
    verb.set_defaults(act=_erase, resumes=True)


def _erase(options: argparse.Namespace) -> int:
    print(f"damnatio erase: {options.people} from {options.model}", flush=True)  # torch takes seconds to import
    from damnatio.erasure.erase import erase

    done = erase(
        options.model,
        options.people,
        options.retain,
        out=options.out,
        method=options.method,
        development=options.development,
        test=options.test,
        freeze=options.freeze,
        resize=options.resize,
        overrides=options.set,
        say=say,
    )
    show_report(done.recipe, done.report)
    for file in done.files:
        print(f"Altered model: {file}")
    return 0
