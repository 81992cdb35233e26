"""The verb `erase`: an erasure request, which needs only paths."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from damnatio.cli.arguments import Verbs, day, folder
from damnatio.cli.showing import add_tables, say, show_report

if TYPE_CHECKING:
    from damnatio.erasure.questions import Question
    from damnatio.erasure.request import Case

DESCRIPTION = (
    "Make a model in service forget people. Each source of faces is a folder of people, a manifest, a .rec, or .tar "
    "shards. OUT gets the altered model in the format it came in, with its card; erasure.html and erasure.json, which "
    "say for each person what happened; and with RETAIN a report on the model before and after. Exit code 0: everyone "
    "asked for was measured to be forgotten, and the share of strangers touched is known; 3: not so; 2: nothing was "
    "done."
)


def add(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    verb = verbs.add_parser("erase", help="erase people from a model of your own", description=DESCRIPTION)
    verb.add_argument("model", type=Path, metavar="MODEL", help="an .onnx, .pth or .safetensors, or a model folder")
    verb.add_argument("people", type=Path, nargs="?", metavar="PEOPLE", help="faces of the people to forget")
    retain = "faces of people who must stay recognised; GS needs none, and measures with them"
    verb.add_argument("retain", type=Path, nargs="?", metavar="RETAIN", help=retain)
    out = Path("erasure")
    verb.add_argument("--out", type=folder, default=out, metavar="OUT", help="a new folder for everything (erasure)")
    verb.add_argument("--method", default="", help="one of `damnatio ls methods` (GS)")
    burn_in = "train the network to forget, which adds no template to the file (--method BI)"
    verb.add_argument("--burn-in", action="store_true", help=burn_in)
    gallery = "a gallery in service, as a file or an address; its people are spared; may be repeated"
    verb.add_argument("--gallery", action="append", default=[], metavar="URI", help=gallery)
    same = "somebody in a gallery who is the person: their templates hide the person too; @FILE: a name per line"
    verb.add_argument("--same", action="append", default=[], metavar="NAME", help=same)
    other = "somebody in RETAIN or a gallery who is not the person, and is spared; @FILE; all-others: the rest"
    verb.add_argument("--not-same", action="append", default=[], metavar="NAME", help=other)
    bystanders = "people like the forgotten who must stay recognised: spared, and measured apart"
    verb.add_argument("--bystanders", type=Path, metavar="SOURCE", help=bystanders)
    verb.add_argument("--development", type=Path, metavar="SOURCE", help="strangers to calibrate on (split off RETAIN)")
    verb.add_argument("--test", type=Path, metavar="SOURCE", help="strangers to measure on (split off RETAIN)")
    strangers = "GS: the share of strangers that the widths of all gates aim at (0.0001)"
    verb.add_argument("--strangers", type=float, default=1e-4, metavar="SHARE", help=strangers)
    accept = "exit with 0 also if people are hidden and not measured, or the share of strangers touched is unknown"
    verb.add_argument("--accept-unmeasured", action="store_true", help=accept)
    goal = "the share of a person's new photographs that must be lost, where it is measured (0.9)"
    verb.add_argument("--goal", type=float, default=0.9, metavar="SHARE", help=goal)
    verb.add_argument("--list", action="store_true", help="list the people whom MODEL hides, by pseudonym")
    restore = "write MODEL without this person; may be repeated"
    verb.add_argument("--restore", action="append", default=[], metavar="PSEUDONYM", help=restore)
    keep = "keep the working folder OUT/work, with pixels and embeddings of the people, for research"
    verb.add_argument("--keep-work", action="store_true", help=keep)
    freeze = "train only what follows this cut point; none: train all (on a GPU all, else the end of the network)"
    verb.add_argument("--freeze", metavar="POINT", default="", help=freeze)
    verb.add_argument("--resize", action="store_true", help="bring square faces of another size to the model's")
    verb.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change one setting; may be repeated"
    )
    _add_case(verb)
    add_tables(verb)
    verb.set_defaults(act=_erase, resumes=True)


def _add_case(verb: argparse.ArgumentParser) -> None:
    case = verb.add_argument_group(
        "a case: galleries and photographs as well",
        "With --case, every --gallery and --photos is searched for the people, by name and by their faces under MODEL. "
        "OUT gets plan.json and plan.html: what was found, what `damnatio purge` will do, what it cannot reach. "
        "OUT/person.npz keeps the request's templates until the record is signed. Nothing is deleted before "
        "`damnatio purge OUT/plan.json --confirm N`.",
    )
    case.add_argument("--case", metavar="ID", help="the number in your register, never a name")
    photos = "a folder of photographs to search; may be repeated"
    case.add_argument("--photos", type=folder, action="append", default=[], metavar="FOLDER", help=photos)
    alias = "another name under which the person may be stored; may be repeated"
    case.add_argument("--alias", action="append", default=[], metavar="NAME", help=alias)
    likeness = "the lowest cosine at which a row under another name is a candidate (where the model hides photographs)"
    case.add_argument("--likeness", type=float, metavar="COSINE", help=likeness)
    case.add_argument("--received", type=day, metavar="DATE", help="when the request came in, as 2026-08-17 (today)")
    case.add_argument("--deadline", type=day, metavar="DATE", help="when it must be answered (30 days later)")
    remains = 'what stays out of reach, as in "nightly backup, until 2026-09-30"; may be repeated'
    case.add_argument("--remains", action="append", default=[], metavar="TEXT", help=remains)
    recipient = "whom the data were passed on to, and who must be notified; may be repeated"
    case.add_argument("--recipient", action="append", default=[], metavar="TEXT", help=recipient)
    runs = "a folder with runs of damnatio, to list those that hold the people; may be repeated (runs)"
    case.add_argument("--runs", type=folder, action="append", metavar="FOLDER", help=runs)
    case.add_argument("--key", type=Path, metavar="FILE", help="the key that seals the plan (`damnatio keys` makes it)")


def _case(options: argparse.Namespace) -> "Case | None":
    from damnatio.erasure.request import Case
    from damnatio.support.errors import DamnatioError

    if options.case is None:
        words = ("photos", "alias", "likeness", "received", "deadline", "remains", "recipient", "runs", "key")
        if given := next((word for word in words if getattr(options, word)), None):
            raise DamnatioError(f"--{given} is for a plan of what to delete: name the case as well, with --case ID.")
        return None
    usual = [Path("runs")] if Path("runs").is_dir() else []
    return Case(
        id=options.case,
        photos=options.photos,
        aliases=options.alias,
        likeness=options.likeness,
        received=options.received,
        deadline=options.deadline,
        remains=options.remains,
        recipients=options.recipient,
        runs=usual if options.runs is None else options.runs,
        key=options.key,
    )


def _erase(options: argparse.Namespace) -> int:
    what = "people hidden in" if options.list else f"{options.people or ', '.join(options.restore) or 'nobody'} from"
    say(f"damnatio erase: {what} {options.model}")  # torch takes seconds to import
    if options.list:
        return _list(options)
    from damnatio.erasure.erase import erase
    from damnatio.erasure.request import Request

    request = Request(
        model=options.model,
        out=options.out,
        people=options.people,
        retain=options.retain,
        method=_method(options),
        galleries=options.gallery,
        same=options.same,
        not_same=options.not_same,
        case=_case(options),
        bystanders=options.bystanders,
        development=options.development,
        test=options.test,
        strangers=options.strangers,
        goal=options.goal,
        restore=options.restore,
        keep_work=options.keep_work,
        freeze=options.freeze,
        resize=options.resize,
        accept_unmeasured=options.accept_unmeasured,
        overrides=options.set,
    )
    done = erase(request, say, _ask if sys.stdin.isatty() and sys.stdout.isatty() else None)
    if done.recipe is not None and done.report is not None:
        show_report(done.recipe, done.report, options.tables)
    for file in done.files:
        say(f"Altered model: {file}")
    say(f"Record: {done.page}")
    if options.case:
        from damnatio.erasure.planning.plan import PAGE

        say(f"Plan: {options.out / PAGE}")
    if done.record.unmeasured:
        say(f"Hidden, not measured: {', '.join(done.record.unmeasured)}")
    say(done.record.verdict)
    return done.record.exit_code


def _ask(question: "Question") -> bool:
    from damnatio.support.errors import DamnatioError

    say(str(question))
    while True:
        try:
            answer = input(f"  Is {question.name} the same person as {question.person}? (y/n) ").strip().lower()
        except EOFError:
            raise DamnatioError(
                f"Nobody said whether {question.name} is {question.person}, so nothing was written."
            ) from None
        if answer in ("y", "yes", "n", "no"):
            return answer.startswith("y")


def _method(options: argparse.Namespace) -> str:
    from damnatio.erasure.request import BURN_IN, GATE_AND_SCATTER
    from damnatio.support.errors import DamnatioError

    if options.burn_in and options.method not in ("", BURN_IN):
        raise DamnatioError(f"--burn-in is the method {BURN_IN}, and --method says {options.method}: leave one out.")
    return BURN_IN if options.burn_in else str(options.method or GATE_AND_SCATTER)


def _list(options: argparse.Namespace) -> int:
    from damnatio.erasure.erase import listed

    settings = [override for override in options.set if override.startswith(("model.", "plugins="))]
    found = listed(options.model, settings)
    if found.verdict is None:
        print("It hides nobody.")
        return 0
    print(f"{'pseudonym':<16}{'photographs':>12}{'cones':>7}{'begin at':>10}  verdict")
    for person in found.people:
        begins = ", ".join(f"{offset:.3f}" for offset in person.begins)
        judged = ": ".join(filter(None, (person.judged.verdict, person.judged.reason)))
        print(f"{person.pseudonym:<16}{person.photographs:>12}{person.cones:>7}{begins:>10}  {judged}")
    print(found.strangers)
    print(found.holds)
    print(found.verdict.sentence)
    return 0
