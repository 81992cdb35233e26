"""The plan for people: lines for a terminal, and plan.html."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from damnatio.erasure.planning.plan import JSON, EnrolledAgain, Plan, PlannedItem, Share, Standing
from damnatio.erasure.wording import FLAGS, HOW, megabytes, templates, unreached_by
from damnatio.support.errors import printable
from damnatio.support.files import write_atomically

LISTED = 40
"""items, and notes, that a terminal shows; the page and plan.json have all"""


def lines_of(plan: Plan, path: Path) -> list[str]:
    """The plan for a terminal, and the command that carries it out."""
    kinds: list[tuple[Standing, str]] = [
        ("sure", "found by name"), ("candidate", "to confirm"), ("follows", "that follow these"),
    ]  # fmt: skip
    counts = [(len(plan.of_standing(kind)), words) for kind, words in kinds]
    counted = ", ".join(f"{count} {words}" for count, words in counts if count) or "nothing"
    found = [f"Plan of case {plan.case}: {counted}. Answer until {plan.deadline}. Nothing was deleted."]
    for store in plan.stores:
        mine = [item for item in plan.items if item.store == store.number]
        found.append(
            f"  store {store.number}  {store.address}  {len(mine)} of {sum(store.census.rows.values()):,} rows"
        )
        found += [f"    {line}" for line in _table(mine[:LISTED])]
        if len(mine) > LISTED:
            found.append(f"    and {len(mine) - LISTED} more: see the page")
        for step in store.steps:
            needs = f"; needs {megabytes(step.needs)}" if step.needs else ""
            found.append(
                f"    will run: {indented(step.command)}{f'; locks {step.locks}' if step.locks else ''}{needs}"
            )
        found += [f"    sets off: {one.what}. Refused without --allow {shlex.quote(one.name)}" for one in store.effects]
        found += [f"    names stand as text in {one.rows} rows of {one.place}, which stay" for one in store.mentions]
        found += [f"    cannot reach: {words}" for words in store.unreached]
        found += [f"    will remain: {one.words}" for one in store.remains]
        found += [f"    note: {words}" for words in store.notes[:LISTED]]
        if len(store.notes) > LISTED:
            found.append(f"    and {len(store.notes) - LISTED} more notes: see the page")
    found += [f"  remains: {left.path}: {left.what}" for left in plan.leftovers]
    found.append(f"  searched with: {searched(plan)}")
    found += [f"  enrolled again: {line}" for line in map(enrolled_line, plan.enrolled)]
    found.append(f"To carry it out: {command(plan, path)}")
    return found


def command(plan: Plan, path: Path) -> str:
    """The words of the purge, with a blank for what a person has to decide."""
    allow = "".join(f" --allow {shlex.quote(one.name)}" for store in plan.stores for one in store.effects)
    sure, candidates = len(plan.of_standing("sure")), len(plan.of_standing("candidate"))
    if not candidates:
        return f"damnatio purge {path} --confirm {sure}{allow}"
    return f"damnatio purge {path} --accept ... --reject ... --confirm N{allow}   ({sure} and the accepted ones)"


def enrolled_line(row: EnrolledAgain) -> str:
    where = f"in store {row.store} ({row.kind}), among {row.among:,} others" if row.store else "alone"
    words = f"{where}: {shown(row.before)} photographs found before, {shown(row.after)} after"
    return f"{words}; with an old template that survived: {shown(row.survivor)}"


def searched(plan: Plan) -> str:
    """What the stores were searched with."""
    bars = sorted(template.bar for template in plan.templates)
    if not bars:
        return "names alone"
    which = f"{bars[0]:.3f}" if bars[0] == bars[-1] else f"{bars[0]:.3f} to {bars[-1]:.3f}"
    how = f"measured on {plan.measured:,} strangers" if plan.measured else "not measured, for want of strangers"
    return f"{len(bars)} photographs, prototypes and means, each with its own lowest cosine ({which}, {how})"


def shown(share: Share) -> str:
    return f"{share.count} of {share.of}"


def indented(command: str) -> str:
    """A command of several lines below the first: a comment in it ends with its line."""
    return command.replace("\n", "\n              ")


def _table(items: Sequence[PlannedItem]) -> list[str]:
    return [
        f"{one.number:>4}  {one.standing:<9}  {one.item.kind:<10}  {_found(one)}  "
        f"{printable(f'{one.item.place}/{one.item.id}')}"
        f"{f'  as {printable(one.item.name)}' if one.item.name else ''}{printable(_like(one))}{_remarks(one)}"
        for one in items
    ]


def _found(one: PlannedItem) -> str:
    score = "     " if one.item.score is None else f"{one.item.score:.3f}"
    return f"{HOW[one.item.how]:<20} {score}"


def _like(one: PlannedItem) -> str:
    return f"  like {one.item.like}" if one.item.like else ""


def _remarks(one: PlannedItem) -> str:
    words = [FLAGS.get(flag, flag) for flag in one.item.flags]
    words += [f"goes with {', '.join(map(str, one.follows))}"] if one.follows else []
    words += [f"{one.item.copies} equal rows"] if one.item.copies > 1 else []
    return f"  ({'; '.join(words)})" if words else ""


def write_page(plan: Plan, path: Path) -> None:
    page = templates()
    page.filters.update(shown=shown)
    shared = {"command": command(plan, Path(JSON)), "searched": searched(plan), "unreached": unreached_by(plan.stores)}
    write_atomically(path, page.get_template("planning/plan.html").render(plan=plan, **shared))
