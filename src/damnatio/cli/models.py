"""The verbs that work on one model: `benchmark`, `check` and `export`."""

import argparse
from pathlib import Path

from damnatio.cli.arguments import Verbs, add_model, positive


def add(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    _add_benchmark(verbs.add_parser("benchmark", help="measure a model on pairs of images or a folder of faces"))
    check = verbs.add_parser("check", help="verify faces with the channels as declared, and swapped")
    add_model(check)
    check.add_argument("faces", metavar="FACES", help="labelled faces: a folder of people, another source, or a recipe")
    check.add_argument(
        "--card",
        action="store_true",
        help="write into the model's card how its scores lie, for the widths of a gate",
    )
    check.set_defaults(act=_check)
    export = verbs.add_parser("export", help="write a model as its users deploy it, with its card")
    add_model(export)
    export.add_argument(
        "out", type=Path, metavar="OUT", help="a file that ends in .onnx, .safetensors, .pth, .pt or .pt2"
    )
    export.set_defaults(act=_export)


def _add_benchmark(verb: argparse.ArgumentParser) -> None:
    add_model(verb)
    verb.add_argument("source", type=Path, metavar="SOURCE", help="a folder of faces, or an InsightFace .bin of pairs")
    verb.add_argument("--pairs", type=Path, metavar="FILE", help="pairs of the folder: a .csv, or LFW's pairs.txt")
    verb.add_argument(
        "--draw-pairs", type=positive, default=6000, metavar="N", help="pairs to draw where there is no list (6000)"
    )
    verb.add_argument("--seed", type=positive, default=1, help="of the pairs drawn (1)")
    verb.add_argument("--no-flip", action="store_true", help="embed f(x) only, not f(x) + f(x mirrored)")
    verb.add_argument("--batch", type=positive, default=32, help="images embedded at once (32)")
    verb.add_argument(
        "--scores", type=Path, metavar="FILE", help="write the scores of the pairs: .csv, or bob's four columns"
    )
    verb.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    verb.set_defaults(act=_benchmark)


def _benchmark(options: argparse.Namespace) -> int:
    print(f"damnatio benchmark: {options.model} on {options.source}", flush=True)  # torch takes seconds to import
    from damnatio.evaluation.benchmarking import Options, as_json, benchmark, lines
    from damnatio.recipe.files import model_settings
    from damnatio.support.files import write_atomically

    chosen = Options(
        pairs=options.pairs,
        draw=options.draw_pairs,
        seed=options.seed,
        flip=not options.no_flip,
        batch=options.batch,
        scores=options.scores,
    )
    result = benchmark(model_settings(options.model, options.set), options.source, chosen)
    for line in lines(result):
        print(line)
    if options.scores:
        print(f"scores        {options.scores}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(options.json, as_json(result))
        print(f"numbers       {options.json}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from damnatio.evaluation.checking import check, text
    from damnatio.faces import SOURCES
    from damnatio.models.gate import ungated
    from damnatio.models.importing import import_model, write_scores
    from damnatio.recipe.files import face_settings, model_settings

    model = model_settings(options.model, options.set)
    backbone, card = import_model(model)
    settings = face_settings(options.faces, card.size)
    declared, swapped = check(ungated(backbone)[0], card, SOURCES.get(settings.source)(settings))
    print(text(declared, swapped))
    if options.card:
        print(f"card          {write_scores(model, card, declared.statistics)}")
    return 0


def _export(options: argparse.Namespace) -> int:
    from damnatio.models.exporting import export, script_of
    from damnatio.models.importing import import_model
    from damnatio.recipe.files import model_settings

    backbone, card = import_model(model_settings(options.model, options.set))
    written = export(backbone, card, options.out)
    print(f"{options.out}: {card.backbone}, {card.dim} values, {written.sha256[:16]}; its card lies beside it")
    if script_of(options.out).exists() and written.map:
        print(f"{script_of(options.out)} rebuilds the gate with torch alone")
    for sentence in written.limits:
        print(sentence)
    if written.parity is not None:
        print(f"torch and onnxruntime differ by {written.parity:.1e} of the embedding's length")
        if (card.colour, card.mean, card.deviation) not in (("RGB", 127.5, 127.5), ("RGB", 0.0, 1.0)):
            fed = f"{card.colour}, (x - {card.mean:g}) / {card.deviation:g}"
            print(f"The model is fed {fed}; InsightFace's client feeds RGB, (x - 127.5) / 127.5.")
    return 0
