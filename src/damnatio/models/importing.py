"""Models in: a network from its weight file.

The file is a state dict of a registered backbone (`.safetensors`, `.pth`, `.pt`) or an ONNX model. Two files beside it
are used if they exist: a card, `<file>.card.json` or `card.json`, says how the network is fed, and `head.safetensors`
holds the class vectors of the retain identities in the order of their labels.
"""

from pathlib import Path

from torch import nn

from damnatio.models.card import CARD, Card, card_beside, load_card, read_card, write_card
from damnatio.models.exporting import write_onnx
from damnatio.models.gate import Gated, ungated
from damnatio.models.limits import limits_of
from damnatio.models.maps import method_of
from damnatio.models.onnx.files import TOLERANCE, embedding_size, parity_of, read_graph, read_network
from damnatio.models.state_dicts import fill_counters, guess, input_size, read_state
from damnatio.models.statistics import Statistics
from damnatio.models.store import (
    GRAPH,
    HEAD,
    ONNX,
    filled,
    new_backbone,
    save_model,
    weights_in,
)
from damnatio.recipe.schema import ModelSettings
from damnatio.support.devices import device
from damnatio.support.errors import DamnatioError
from damnatio.support.files import digest_of, need_regular
from damnatio.support.manifests import checked

STATES = {".safetensors", ".pth", ".pt"}
GRAPHS = {".onnx"}
SIZE = 112
"""the side of the images if nothing states it"""


def import_model(settings: ModelSettings, size: int | None = None) -> tuple[nn.Module, Card]:
    """The network of `settings.weights`, in evaluation mode, and its card. `size` is the side of the faces at hand."""
    path = weights_file(settings)
    given, settings = _given_card(path), resolved(settings, size)
    origin = f"{path.name} {digest_of(path)[:16]}"
    backbone: nn.Module
    if path.suffix in GRAPHS:
        graph = read_graph(path)
        backbone = graph.model
        mean, deviation = (0.0, 1.0) if graph.network.preprocesses else (127.5, 127.5)
        fed = {"mean": mean, "deviation": deviation}
        card = Card(backbone=ONNX, dim=graph.dim, size=graph.size, parity=graph.parity, **fed)
    else:
        state, wanted = read_state(path), given.size if given else size or SIZE
        side = wanted if given else input_size(state, settings.backbone, dim=settings.dim, wanted=wanted) or wanted
        card = Card(backbone=settings.backbone, dim=settings.dim, size=side)
    if size not in (None, card.size):
        raise DamnatioError(
            f"{path} takes images of {card.size} pixels, and the faces have {size}: set faces.size={card.size}, and "
            "faces.resize=true if the images have another size."
        )
    if path.suffix in STATES:
        backbone = new_backbone(card.backbone, card.size, card.dim)
        state = fill_counters(state, backbone.state_dict())
        backbone = filled(backbone, state, given or card, path, name=card.backbone)
    if given is not None:
        scores = given.scores if given.sha256 else None  # without a hash they may be another model's
        own = {"backbone": card.backbone, "size": card.size, "parity": card.parity, "scores": scores}
        card = given.model_copy(update=own)
        origin = f"{origin}, {given.origin}" if given.origin else origin
    found = {"origin": origin, "sha256": "", "map": method_of(backbone, card.map), "limits": limits_of(backbone)}
    return backbone.to(device()).eval(), card.fed_as(settings).model_copy(update=found)


def resolved(settings: ModelSettings, size: int | None = None) -> ModelSettings:
    """The settings with the backbone and the dimension of the weights. A recipe that states others is an error."""
    path = weights_file(settings)
    given, stated = _given_card(path), settings.model_fields_set
    if path.suffix in GRAPHS:  # whatever a card says: the network is the graph
        found = ONNX, embedding_size(path)
    elif given is not None:
        found = given.backbone, given.dim
    elif "backbone" in stated:
        found = settings.backbone, settings.dim
    else:
        found = guess(read_state(path), size or SIZE, path)
    for key, value in zip(("backbone", "dim"), found, strict=True):
        if key in stated and getattr(settings, key) != value:
            raise DamnatioError(
                f"{path} holds the weights of {key} {value}, and the recipe says {getattr(settings, key)}: "
                f"set model.{key}={value}, or leave it out."
            )
    return settings.model_copy(update=dict(zip(("backbone", "dim"), found, strict=True)))


def _given_card(path: Path) -> Card | None:
    place = card_beside(path)
    if place is None:
        return None
    card = read_card(place)
    if card.sha256 and card.sha256 != digest_of(path):
        raise DamnatioError(f"{place} is the card of another file than {path.name}: their hashes differ.")
    return card


def write_scores(settings: ModelSettings, card: Card, scores: Statistics | None) -> Path:
    """Put the statistics of a model's scores into its card, and write one beside the weights if there is none."""
    path = weights_file(settings)
    if scores is None:
        raise DamnatioError(
            "Too few people to say how the model's scores lie: bring faces of at least fifty. The card was not changed."
        )
    place = card_beside(path) or path.with_name(f"{path.name}.{CARD}")
    given = _given_card(path) or card.model_copy(update={"sha256": digest_of(path)})
    sha256 = given.sha256 or digest_of(path)  # without it nobody can tell whose scores these are
    write_card(given.model_copy(update={"scores": scores, "sha256": sha256}), place)
    return place


def weights_file(settings: ModelSettings) -> Path:
    assert settings.weights is not None
    path = settings.weights.expanduser()
    path = weights_in(path) if path.is_dir() else path
    need_regular(path, "model.weights:")
    if not path.is_file():
        raise DamnatioError(f"model.weights: there is no file {path}.")
    if path.suffix not in STATES | GRAPHS:
        endings = ", ".join(sorted(STATES | GRAPHS))
        raise DamnatioError(f"model.weights: {path} ends in none of {endings}: convert it to one of these first.")
    return checked(path)


def content_of(settings: ModelSettings) -> dict[str, str]:
    """What an import depends on: the hashes of the weights and of the files beside them that are used."""
    path = weights_file(settings)
    beside = [path.parent / HEAD, card_beside(path)]
    return {"weights": digest_of(path)} | {file.name: digest_of(file) for file in beside if file and file.is_file()}


def adopt(module: nn.Module, card: Card, folder: Path) -> Card:
    """Write a network of your own as a model folder that every verb takes: `model.weights=FOLDER`.

    Weights without code are no network, so the folder holds the graph with them, as ONNX. Batch normalisations are
    kept. `card` states the size, the dimension and the feeding; its backbone is set here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own, behind = ungated(module)
    write_onnx(own, card.size, folder / GRAPH, fold=False)
    network, size, dim, _ = read_network(folder / GRAPH)
    if dim != card.dim:
        raise DamnatioError(
            f"The network makes {dim} values of an image, and its card says {card.dim}: correct the card."
        )
    parity = parity_of(own, folder / GRAPH, size)
    if parity > TOLERANCE:
        raise DamnatioError(f"The network and its ONNX graph differ by {parity:.1g} of the embedding's length.")
    model = network if behind is None else Gated(network, behind)
    save_model(model, None, card.model_copy(update={"backbone": ONNX}), folder)
    return load_card(folder)
