"""A method fine-tunes f*. The training loop runs the job that is made here."""

from pathlib import Path
from typing import cast

import torch

from damnatio.backbones.cutting import cut
from damnatio.faces.base import Faces
from damnatio.methods.base import ForgetSet, MethodSettings, fine_tuning, method_settings, schedule_of
from damnatio.models.card import altered_card
from damnatio.models.inputs import Inputs, Pixels
from damnatio.models.maps import need_no_map
from damnatio.models.store import load_backbone, load_head
from damnatio.partitions import Partitions
from damnatio.recipe.schema import Recipe
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import groups_of
from damnatio.training.loop import Forgetting, Job
from damnatio.training.trunks import Activations


def forgetting_job(
    recipe: Recipe,
    faces: Faces,
    partitions: Partitions,
    original: Path,
    scale: str,
    variant: str,
    trunk: Path | None = None,
) -> Job:
    """The fine-tuning of f* by a variant of the recipe at a scale. `original` is the folder of f*. If `trunk` is the
    folder of its trunk's activations, only the tail is trained."""
    settings, schedule = method_settings(recipe, variant), schedule_of(recipe, variant)
    assert isinstance(settings, MethodSettings)
    images = ForgetSet(*partitions.forget(scale))
    kind = fine_tuning(settings.method)
    single = [group for group in groups_of(images.identities) if len(group) == 1]
    if kind.pairs and single:
        name = partitions.table["identity"][images.images[single[0][0]]]
        raise DamnatioError(
            f"{variant} works on pairs of images, and {len(single)} forget identities have one forget-train image, "
            f"{name} among them: raise partitions.forget_min_images or partitions.forget_train."
        )
    torch.manual_seed(recipe.seed)
    whole, card = load_backbone(original)
    need_no_map(whole, f"fine-tuning it by {variant}")
    frozen, _ = load_backbone(original)
    frozen.requires_grad_(False)
    backbone, inputs = whole, cast(Inputs, Pixels(faces, card))
    if trunk is not None:
        assert recipe.forget.freeze is not None
        backbone, frozen = (cut(network, recipe.forget.freeze)[1] for network in (whole, frozen))
        inputs = Activations(trunk)
    head = load_head(recipe.model, original)
    method = kind(settings, images, head)
    rows, labels = partitions.retain()
    return Job(
        title=f"{scale} {variant}",
        backbone=backbone,
        head=head,
        card=altered_card(card, variant, scale).model_copy(update={"scores": None}),  # they were the old network's
        inputs=inputs,
        rows=rows,
        labels=labels,
        settings=schedule,
        lr=settings.lr,
        seed=recipe.seed,
        forgetting=Forgetting(
            method=method,
            images=images,
            original=frozen,
            identities_per_batch=schedule.identities_per_batch,
            images_per_identity=schedule.images_per_identity,
            freeze_batch_norm=schedule.batch_norm == "frozen",
        ),
        whole=whole,
    )
