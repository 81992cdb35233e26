"""The rates of a record, measured again on the altered model."""

from pathlib import Path
from typing import Literal

import numpy as np

from damnatio.erasure.embedder import Embedder
from damnatio.erasure.people import FacesOf, read_people
from damnatio.erasure.proving.statement import Model
from damnatio.metrics.intervals import wilson
from damnatio.recipe.schema import CaptureSettings
from damnatio.support.errors import DamnatioError


def remeasured(model: Model, file: Path, faces: Path) -> tuple[Literal["passed", "failed"], str]:
    """Pairs of different moments of each person that are linked under the altered model. The share must not lie above
    the interval of the record's: photographs may be others than those of the request."""
    embedder = Embedder.of_file(file)
    people = read_people(FacesOf(faces, embedder.card.size, resize=True), embedder, CaptureSettings())
    pairs = linked = 0
    for person in people:
        units = person.units.astype(np.float64)
        scores = (units @ units.T)[np.triu_indices(len(units), 1)]
        pairs, linked = pairs + len(scores), linked + int((scores >= model.level).sum())
    if not pairs:
        raise DamnatioError(f"{faces} has no two moments of one person to compare: give more photographs.")
    low, high = wilson(linked, pairs)
    bounds = [rate.after.high for rate in model.rates if rate.name.startswith("pairs")]
    words = f"{linked} of {pairs} pairs of photographs are linked at {model.level:.3f} (95 %: {low:.4f} to {high:.4f})"
    if bounds and low > max(bounds):
        return "failed", f"{words}, more than the record says"
    return "passed", words
