"""What an altered model does not do, in sentences for its card: whoever is given the file must be able to read it."""

from torch import nn

from damnatio.models.gate import Gate, ungated
from damnatio.models.statistics import Touched


def limits_of(model: nn.Module) -> list[str]:
    """The limits of a model with a gate; none for any other."""
    gate = ungated(model)[1]
    if not isinstance(gate, Gate):
        return []
    record = gate.record
    people, cones = len(record.people), len(record.cones)
    several = f" in {cones:,} vectors" if cones > people else ""
    parts = " Of a person with several vectors, each is that of a part of the photographs." if cones > people else ""
    return [
        f"The file keeps a suppression template per person, {people:,} in all{several}, by which it knows whom to hide."
        " A template is the mean direction of the photographs used: its cosine to the person's own template, made of "
        "the same photographs, is 1." + parts,
        "Whoever holds the file can cut the gate off, and has the network as it was before. Where that must not be, "
        "`damnatio erase --burn-in` changes the network's own weights instead; what is left in them is not known.",
        (record.touched or Touched(how="unknown", aim=record.strangers)).sentence,
    ]
