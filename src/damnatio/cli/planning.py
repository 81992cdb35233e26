"""The verb that computes nothing: `plan` says what a recipe will take."""

import argparse
import json
import sys

from damnatio.cli.arguments import RECIPE, Verbs, positive


def add(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    text = "say what a recipe will take: hours, memory, disk, and what more GPUs would make of it"
    verb = verbs.add_parser("plan", help=text, description=f"{text[0].upper()}{text[1:]}. Nothing is computed.")
    verb.add_argument("recipe", metavar="RECIPE", help=RECIPE)
    verb.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change one setting; may be repeated"
    )
    verb.add_argument("--gpus", type=positive, metavar="N", help="how many the total is for (those found, or 1)")
    verb.add_argument(
        "--device", default="here", metavar="NAME", help="here: measured in seconds; a100, h100, v100 ...: estimated"
    )
    verb.add_argument("--json", action="store_true", help="all numbers, as JSON")
    verb.set_defaults(act=_plan)


def _plan(options: argparse.Namespace) -> int:
    from damnatio.recipe.experiments import experiments
    from damnatio.recipe.files import load
    from damnatio.running.planning.hardware import HERE, device_named

    if options.device != HERE:
        device_named(options.device)  # a misspelt name is an error before anything is measured
    recipe = load(options.recipe, options.set)
    print(f"damnatio plan: recipe {options.recipe}", file=sys.stderr if options.json else sys.stdout, flush=True)
    import torch

    from damnatio.running.planning.plan import GPUS, plan
    from damnatio.running.planning.text import json_of, text_of

    gpus = options.gpus or max(torch.cuda.device_count() if options.device == HERE else 1, 1)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    found = plan(experiments(recipe), options.device, sorted({*GPUS, gpus}), say)
    print(json.dumps(json_of(found), indent=1) if options.json else f"\n{text_of(found, gpus)}")
    return 0
