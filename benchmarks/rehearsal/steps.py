"""The steps of a rehearsal: their commands, and what is read from what they leave."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from rehearsal.recipe import IMAGES, RECIPE, SIDE, Size, words
from rehearsal.watching import watch

if TYPE_CHECKING:
    from damnatio.partitions import Partitions

HERE = Path(__file__).resolve().parent
FEW = 6
"""steps after which a training is ended, once it has written a checkpoint"""
CANDIDATES = 8
"""of each target of OF. The recipe has 256, with which two cores take half a day; these take a thirtieth of it, for as
many targets and through the same code."""
SHOWN = ("F", "R", "T", "Distr.", "D", "R trained")
"""counts of the partitions that the table has"""
ANEW = "starts anew"
"""what the training loop says of a checkpoint that does not fit"""

STEPS = {
    "records": "write the records of tiny images",
    "faces": "index the records and read every image",
    "captures": "find the capture instances",
    "partitions": "draw the partitions",
    "train": "train f* for a few steps, with one class vector per retain identity",
    "resume": "go on with it from its checkpoint",
    "weights": "write a network of random weights",
    "import": "take it as f*: embed every retain image",
    "OF": "a target for each forget-train image of S2, and a few steps",
    "EC": "a class vector for each forget-train image of S2, and a few steps",
    "CURE": "the clusters of the forget-train images of S2, and a few steps",
    "embed": "embed every image that is compared",
    "evaluate": "the protocol on random embeddings, at a tenth",
}


@dataclass(frozen=True)
class Step:
    name: str
    command: list[str]
    seconds: float
    core_seconds: float
    peak: int
    processes: int
    counts: str
    note: str
    failure: str = ""

    @property
    def line(self) -> str:
        words = self.failure and f"FAILED: {self.failure}"
        return f"{self.seconds:8.1f} s {self.peak / 1e9:6.2f} GB  {words or self.note or self.counts}"


class Rehearsal:
    def __init__(self, size: Size, work: Path, processes: int, overrides: Sequence[str]) -> None:
        self.size, self.work, self.processes = size, work, processes
        self.run, self.records, self.weights = work / "run", work / "train.rec", work / "weights.safetensors"
        self._words = [*words(size, self.records), *overrides]
        commands: dict[str, Callable[[], list[str]]] = {
            "records": self._write_records,
            "faces": lambda: self._damnatio("faces"),
            "captures": lambda: self._damnatio("captures"),
            "partitions": lambda: self._damnatio("partitions"),
            "train": lambda: self._together("train"),
            "resume": lambda: self._together("train"),
            "weights": self._write_weights,
            "import": lambda: self._damnatio("train", *self._imported),
            "OF": lambda: self._forget("OF"),
            "EC": lambda: self._forget("EC"),
            "CURE": lambda: self._forget("CURE"),
            "embed": lambda: self._damnatio("embed", *self._imported, "forget.methods=[]"),
            "evaluate": self._evaluate,
        }
        self._commands = commands

    # --- commands ---------------------------------------------------------------------------------------------------

    @property
    def _imported(self) -> list[str]:
        return [f"model.weights={self.weights}"]

    def _write_records(self) -> list[str]:
        counts = ["--identities", str(self.size.identities), "--images", str(self.size.of(IMAGES)), "--side", str(SIDE)]
        return [sys.executable, str(HERE / "records.py"), str(self.records), *counts]

    def _write_weights(self) -> list[str]:
        code = (
            "import sys, torch; from pathlib import Path; from damnatio.models.store import new_backbone;"
            "from damnatio.support.arrays import save_tensors; torch.manual_seed(1);"
            f"save_tensors(new_backbone('iresnet-tiny', {SIDE}, 512).state_dict(), Path(sys.argv[1]))"
        )
        return [sys.executable, "-c", code, str(self.weights)]

    def _damnatio(self, verb: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "damnatio", *self._arguments(verb, *more)]

    def _together(self, verb: str, *more: str) -> list[str]:
        """The same in several processes, which share the head's rows."""
        if self.processes == 1:
            return self._damnatio(verb, *more)
        return [*self._damnatio(verb, *more), "--processes", str(self.processes)]

    def _forget(self, method: str) -> list[str]:
        more = [*self._imported, "forget.scales=[S2]", f"forget.methods=[{method}]"]
        return self._together("forget", *more, f"forget.settings.OF.candidates={CANDIDATES}")

    def _evaluate(self) -> list[str]:
        share = self.size.share / 10
        return [sys.executable, str(HERE.parent / "paper_evaluation.py"), "--share", f"{share:g}", "--no-history"]

    def _arguments(self, verb: str, *more: str) -> list[str]:
        settings = [word for setting in (*self._words, *more) for word in ("--set", setting)]
        return [verb, RECIPE, *settings, "--run", str(self.run)]

    # --- taking them ------------------------------------------------------------------------------------------------

    def kept(self, name: str) -> Step | None:
        """The step as it was taken before with this command, if it came to its end."""
        file = self._file(name)
        if not file.exists():
            return None
        step = Step(**json.loads(file.read_text()))
        return step if step.command == self._commands[name]() and not step.failure else None

    def take(self, name: str) -> Step:
        command, log = self._commands[name](), self.work / f"logs/{name}.log"
        self.work.mkdir(parents=True, exist_ok=True)
        training = self._training(name)
        if training and name != "resume" and self._file(name).exists():
            training.forget()  # it is taken anew; one that was interrupted goes on
        before = training.checkpoint() if training else 0
        found = watch(command, log, (lambda: training.has_taken(FEW, before)) if training else None)
        failure = "" if found.code == 0 or found.ended else last_line(log)
        if name == "resume" and (not before or ANEW in log.read_text(errors="replace")):
            failure = "there was no checkpoint to go on from"
        counts, note = self._found(name, log)
        if training and not failure:
            note = training.note(before)
        images = {"faces": self.size.of(IMAGES), **self._embedded()}.get(name)
        if images and not failure:
            note = f"{images / found.seconds:,.0f} images/s in all"
        step = Step(
            name, command, found.seconds, found.core_seconds, found.peak, found.processes, counts, note, failure
        )
        self._file(name).parent.mkdir(parents=True, exist_ok=True)
        self._file(name).write_text(json.dumps(asdict(step), indent=1) + "\n")
        return step

    def _file(self, name: str) -> Path:
        return self.work / f"steps/{name}.json"

    def _training(self, name: str) -> "Training | None":
        if name in ("train", "resume"):
            return Training(self.run / "4-train")
        return Training(self.run / "5-forget", name) if name in ("OF", "EC", "CURE") else None

    def _found(self, name: str, log: Path) -> tuple[str, str]:
        """What the step was about, in numbers that it left, and what it printed last."""
        if name == "records":
            return last_line(log), f"{self.records.stat().st_size / 1e9:.2f} GB" if self.records.exists() else ""
        if name in ("faces", "captures"):
            return self._summary({"faces": "1-faces", "captures": "2-captures"}[name]), ""
        counts = self._counts()
        if name == "partitions":
            return ", ".join(f"{name} {counts.get(name, 0):,}" for name in SHOWN), ""
        if name in ("train", "resume"):
            return f"{counts.get('R trained', 0):,} class vectors in {self.processes} processes", ""
        if name in ("OF", "EC", "CURE"):
            return f"{self._targets():,} forget-train images", ""
        if name in self._embedded():
            return f"{self._embedded()[name]:,} images", ""
        if name == "evaluate":
            return f"share {self.size.share / 10:g}", last_line(log)
        return "", ""

    def _summary(self, stage: str) -> str:
        files = sorted(self.run.glob(f"{stage}/*/summary.json"))
        content = json.loads(files[-1].read_text()) if files else {}
        return ", ".join(f"{value:,} {key.replace('_', ' ')}" for key, value in content.items() if type(value) is int)

    def _counts(self) -> dict[str, int]:
        """Of the larger scale."""
        files = sorted(self.run.glob("3-partitions/*/counts.json"))
        rows = json.loads(files[-1].read_text()) if files else [{}]
        return {key: value for key, value in rows[-1].items() if type(value) is int}

    def _embedded(self) -> dict[str, int]:
        """Images that the steps embed."""
        partitions = self._partitions()
        return {"import": len(partitions.retain()[0]), "embed": len(partitions.evaluated())} if partitions else {}

    def _targets(self) -> int:
        partitions = self._partitions()
        return len(partitions.forget("S2")[0]) if partitions else 0

    def _partitions(self) -> "Partitions | None":
        from damnatio.partitions import FILE, Partitions

        files = sorted(self.run.glob(f"3-partitions/*/{FILE}"))
        return Partitions.read(files[-1]) if files else None


class Training:
    """The log of a training that runs, or of one that was ended."""

    def __init__(self, stage: Path, method: str = "") -> None:
        self._stage, self._method, self._since = stage, method, time.time()

    def forget(self) -> None:
        """Delete what trainings before have left."""
        for folder in self._stage.glob(".partial-*"):
            if self._method in folder.name:
                shutil.rmtree(folder)

    def _logs(self) -> list[Path]:
        return [log for log in self._stage.glob(".partial-*/metrics.jsonl") if self._method in log.parent.name]

    def lines(self) -> list[dict[str, float]]:
        logs = self._logs()
        if not logs:
            return []
        newest = max(logs, key=lambda log: log.stat().st_mtime)
        found = []
        for line in newest.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # it is being written
                break
        return found

    def last(self) -> int:
        """The last step in the log."""
        lines = self.lines()
        return int(lines[-1]["step"]) if lines else 0

    def checkpoint(self) -> int:
        """The step of the last checkpoint; 0 without one."""
        steps = [0]
        for file in self._stage.glob(".partial-*/*checkpoint*.safetensors"):
            if self._method in file.parent.name:
                try:
                    with safe_open(file, framework="np") as content:
                        steps.append(int((content.metadata() or {}).get("step", 0)))
                except (OSError, SafetensorError):  # it is being written
                    continue
        return max(steps)

    def has_taken(self, steps: int, before: int) -> bool:
        logs = [log for log in self._logs() if log.stat().st_mtime > self._since]  # written by this call
        return bool(logs) and self.last() >= before + steps and self.checkpoint() > before

    def note(self, before: int) -> str:
        speeds = sorted(line["images_per_second"] for line in self.lines() if line["step"] > before + 1)
        middle = speeds[len(speeds) // 2] if speeds else 0.0
        began = f"after the checkpoint of step {before}" if before else "from the beginning"
        return f"{self.last() - before} steps {began}, {middle:,.0f} images/s in a step"


def last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
