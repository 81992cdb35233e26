"""The verbs that print what there is: `ls`, and `completion` for the shell."""

import argparse
from pathlib import Path
from typing import Any

from damnatio.cli.arguments import Verbs, folder

KINDS = ("methods", "backbones", "heads", "sources", "recipes")
RECIPES = {
    "bash": """
_damnatio_recipes() {{
  compgen -W "{names}" -- "$1"
  compgen -f -- "$1"
}}
""",
    "zsh": """
_damnatio_recipes() {{
  compadd -- {names}
  _files
}}
""",
}
"""shell functions that complete a recipe: the names of the package, and files"""


def add(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    listing = verbs.add_parser("ls", help="list methods, backbones, heads, sources or recipes")
    listing.add_argument("kind", choices=KINDS)
    listing.set_defaults(act=_list)
    text = "print a completion script for the shell"
    use = 'In this shell: eval "$(damnatio completion bash)". In every shell: the same line in ~/.bashrc or ~/.zshrc.'
    completion = verbs.add_parser("completion", help=text, description=f"{text.capitalize()}.", epilog=use)
    completion.add_argument("shell", choices=tuple(RECIPES))
    completion.set_defaults(act=_completion)


def _list(options: argparse.Namespace) -> int:
    if options.kind == "recipes":
        from damnatio.recipe.files import configs

        for path in sorted(configs().glob("*.yaml")):
            print(f"{path.stem:<24} {_first_comment(path)}")
    elif options.kind == "methods":
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
        registry = registries[options.kind]
        for name in registry.names():
            text = (registry.get(name).__doc__ or "").strip().split("\n")[0]
            print(f"{name:<16} {text}")
    return 0


def _first_comment(path: Path) -> str:
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""


def _completion(options: argparse.Namespace) -> int:
    import shtab

    from damnatio.cli.main import parser
    from damnatio.recipe.files import configs

    top = parser()
    (verbs,) = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    for short in verbs._choices_actions:
        verbs.choices[short.dest].description = short.help  # one line, as in `damnatio --help`
    names = " ".join(path.stem for path in sorted(configs().glob("*.yaml")))
    recipe = dict.fromkeys(RECIPES, "_damnatio_recipes")
    for verb in verbs.choices.values():
        for action in verb._actions:
            if action.dest == "recipe":
                action.complete = recipe
            elif action.type in (Path, folder) or action.dest == "faces":
                action.complete = shtab.FILE
    print(shtab.complete(top, options.shell, preamble=RECIPES[options.shell].format(names=names)))
    return 0
