"""The table of a rehearsal, and its line in the history of benchmarks."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import history
from rehearsal.steps import STEPS, Rehearsal, Step


def publish(steps: Sequence[Step], rehearsal: Rehearsal, out: Path, new: Sequence[Step]) -> None:
    """Write the table of all finished steps, and what failed now. A whole rehearsal at full size goes into the
    history."""
    out.mkdir(parents=True, exist_ok=True)
    failed = [step for step in new if step.failure]
    (out / "rehearsal.md").write_text(table([*steps, *failed], rehearsal))
    if rehearsal.size.share == 1 and len(steps) == len(STEPS) and new and new[-1].name == list(STEPS)[-1]:
        values = {f"s: {step.name}": step.seconds for step in steps}
        values |= {f"core s: {step.name}": step.core_seconds for step in steps}
        values |= {f"GB: {step.name}": step.peak / 1e9 for step in steps}
        history.append("rehearsal", values, share=rehearsal.size.share, processes=rehearsal.processes)


def table(steps: Sequence[Step], rehearsal: Rehearsal) -> str:
    share = rehearsal.size.share
    size = "the paper's numbers of identities" if share == 1 else f"{share:g} of the paper's numbers of identities"
    lines = [
        f"**The paper's recipe at {size}, on {os.cpu_count()} cores ({platform.machine()}); trainings end early**",
        "",
        "| step | what it does | counts | minutes | core-minutes | GB per process | found |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for step in steps:
        found = f"**failed:** {step.failure}" if step.failure else step.note
        times = [f"{step.seconds / 60:.1f}", f"{step.core_seconds / 60:.1f}" if step.core_seconds else "?"]
        cells = [step.name, STEPS[step.name], step.counts, *times, f"{step.peak / 1e9:.2f}", found]
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    lines += [
        "",
        "Core-minutes: the time on a core of all processes of the step, whatever else the machine did meanwhile.",
    ]
    lines += ["GB: the largest resident size of any process of the step."]
    return "\n".join(lines) + "\n"
