"""The answer of a page for a terminal: the sentences of one method, and the marks of all."""

import textwrap
from collections.abc import Iterator

from damnatio.reporting.answers import HEADINGS, HEADS, MARKS, QUESTIONS, SIGNS
from damnatio.reporting.page.content import Json

KINDS = ("the network changed", "a map behind it")


def told(content: Json, width: int) -> list[str]:
    """All lines, at the rate of false matches that the page shows first."""
    return [line for panel in content["panels"] for line in _panel(content, panel, width)]


def _panel(content: Json, panel: Json, width: int) -> Iterator[str]:
    place = panel["first"]
    target = panel["targets"][place]
    yield f"{content['title']}, {panel['title']}: at a false match rate of {target:g}, 1 in {1 / target:,.0f}"
    chosen = panel["recommended"][place]
    if chosen is None:
        yield "  No method was evaluated: there is nothing to say but of the original model."
        return
    variant, why = chosen
    models = panel["models"]
    others = [name for name, model in models.items() if "answers" in model and name != variant]
    yield from _wrapped(why, width, "  ")
    for other, point in enumerate(panel["targets"]):
        if point in panel["points"] and other != place:
            yield from _wrapped(f"At {point:g}: {models[variant]['answers'][other][0][1]}", width, "  ")
    yield f"  {_named(content, variant)}:"
    answers = dict(zip(QUESTIONS, panel["models"][variant]["answers"][place], strict=True))
    for heading, keys in HEADINGS.items():
        yield f"  {heading}"
        for key in keys:
            mark, text = answers[key]
            yield from _wrapped(f"{SIGNS[MARKS[mark]]} {MARKS[mark]}: {text}", width, "    ")
    for behind, kind in enumerate(KINDS):
        rest = [name for name in others if models[name]["behind"] == behind]
        if rest:
            heads = " ".join(f"{title:<7}" for title in HEADS.values())
            yield f"  {f'others: {kind}':<28} {heads}".rstrip()
        for name in rest:
            marks = [SIGNS[MARKS[mark]] for mark, _ in panel["models"][name]["answers"][place]]
            yield f"  {_named(content, name)[:28]:<28} {' '.join(f'{mark:<7}' for mark in marks)}".rstrip()


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, max(40, width), initial_indent=indent, subsequent_indent=f"{indent}  ")


def _named(content: Json, variant: str) -> str:
    known = content["variants"][variant]
    return str(known["title"]) if known["words"] == variant else f"{known['title']}, {known['words']}"
