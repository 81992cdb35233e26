"""The process that watches: it gives each reader its turn, ends a worker that hangs, counts, and saves the findings."""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from fuzz.readers import READERS, Reader
from fuzz.worker import ACCEPTED, CRASH, CURRENT, FINDINGS, HANG, LOG, REFUSED, Outcome, work

HANG_SECONDS = 10.0
"""seconds of processor time for one small file; on the clock, six times as many"""
TURN = 1.0
"""seconds until the next reader"""
FRESH = 5000
"""inputs until a worker is replaced, because libraries keep some memory of each input, which is no blow-up"""

_fork = multiprocessing.get_context("fork")


@dataclass
class Tally:
    """The counts of one reader, and one finding for each place that findings came from."""

    counts: Counter[str] = field(default_factory=Counter)
    found: dict[tuple[str, str], str] = field(default_factory=dict)
    seconds: float = 0.0
    """the time of all its turns"""

    @property
    def tried(self) -> int:
        return self.counts.total()


class Worker:
    """A process that reads one file at a time. It is replaced when it hangs or ends."""

    def __init__(self, readers: dict[str, Reader], seeds: dict[str, list[bytes]], folder: Path) -> None:
        self._readers, self._seeds, self._folder = readers, seeds, folder
        self._start()

    def _start(self) -> None:
        (self._folder / LOG).write_bytes(b"")
        self._channel, theirs = _fork.Pipe()
        self._process = _fork.Process(
            target=_work_alone, args=(self._channel, theirs, self._readers, self._seeds, self._folder)
        )
        self._process.start()
        theirs.close()
        self._read = 0

    def outcome(self, reader: str, what: int | bytes) -> Outcome:
        """The outcome of reading the input of this seed, or of this content."""
        if self._read >= FRESH:
            self.close()
            self._start()
        self._read += 1
        begun, spent = time.monotonic(), self._processor_seconds()
        try:
            self._channel.send((reader, what))
            while not self._channel.poll(0.5):
                busy, waited = self._processor_seconds() - spent, time.monotonic() - begun
                if busy > HANG_SECONDS or waited > 6 * HANG_SECONDS:
                    return self._replaced(HANG)
            outcome: Outcome = self._channel.recv()
            return outcome
        except (EOFError, ConnectionError):
            return self._replaced(CRASH)

    @property
    def content(self) -> bytes:
        """The last input."""
        return (self._folder / CURRENT).read_bytes()

    def close(self) -> None:
        self._channel.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _processor_seconds(self) -> float:
        """The worker's processor time: on a busy machine, the clock does not show a hang."""
        try:
            return time.clock_gettime((~(self._process.pid or 0) << 3) | 2)  # the kernel's number for its clock
        except OSError:
            return 0.0

    def _replaced(self, kind: str) -> Outcome:
        if kind == HANG and self._process.pid:
            os.kill(self._process.pid, signal.SIGUSR1)  # the worker writes down where it is
            time.sleep(0.3)
            self._process.kill()
        self._process.join()
        self._channel.close()
        text = (self._folder / LOG).read_bytes().decode(errors="replace")[-4000:]
        ours = [line.strip() for line in text.splitlines() if f"{os.sep}damnatio{os.sep}" in line]
        code = self._process.exitcode or 0
        place = ours[0] if ours else f"exit code {code}"
        self._start()
        return Outcome(kind, place, text)


def _work_alone(theirs: Connection, channel: Connection, *rest: object) -> None:
    theirs.close()  # otherwise the worker holds its own other end open, and never sees the end of the campaign
    work(channel, *rest)  # type: ignore[arg-type]


def seeds_of(readers: dict[str, Reader]) -> dict[str, list[bytes]]:
    """Valid files of each reader. A process of its own makes them: their libraries start threads, and a process with
    threads should not be forked."""
    ours, theirs = _fork.Pipe()
    maker = _fork.Process(target=_make_seeds, args=(readers, theirs))
    maker.start()
    theirs.close()
    found: dict[str, list[bytes]] = ours.recv()
    maker.join()
    return found


def _make_seeds(readers: dict[str, Reader], channel: Connection) -> None:
    found = {}
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # exporters print messages
        for name, reader in readers.items():
            with tempfile.TemporaryDirectory() as folder:
                found[name] = reader.seeds(Path(folder))
    channel.send(found)


def run(
    names: Sequence[str],
    out: Path,
    seconds: float | None = None,
    inputs: int | None = None,
    first: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Tally]:
    """Feed each reader in turn until the time is over or each has read `inputs` files; the first seed is `first`."""
    readers = {name: READERS[name] for name in names}
    tallies = {name: Tally() for name in names}
    seeds = seeds_of(readers)
    begun = time.monotonic()
    ends = begun + seconds if seconds is not None else float("inf")
    with tempfile.TemporaryDirectory(prefix="fuzz-log-") as place:
        worker = Worker(readers, seeds, Path(place))
        try:
            _need_valid(worker, seeds)
            left = list(names)
            while left and time.monotonic() < ends:
                for name in list(left):
                    tally, turn = tallies[name], time.monotonic()
                    while time.monotonic() < min(turn + TURN, ends) and (inputs is None or tally.tried < inputs):
                        seed = first + tally.tried
                        outcome = worker.outcome(name, seed)
                        tally.counts[outcome.kind] += 1
                        if outcome.kind in FINDINGS and (outcome.kind, outcome.place) not in tally.found:
                            kept = keep(out, readers[name], worker.content, seed, outcome)
                            tally.found[outcome.kind, outcome.place] = str(kept)
                    tally.seconds += time.monotonic() - turn
                    if inputs is not None and tally.tried >= inputs:
                        left.remove(name)
                    tried = sum(tally.tried for tally in tallies.values())
                    bad = sum(len(tally.found) for tally in tallies.values())
                    spent = time.monotonic() - begun
                    say(f"{spent:6.0f} s  {tried:,} inputs, {tried / spent:,.0f}/s, {bad} findings  {name}")
        except KeyboardInterrupt:
            print("Interrupted. The findings so far:", file=sys.stderr)
        finally:
            worker.close()
    return tallies


def _need_valid(worker: Worker, seeds: dict[str, list[bytes]]) -> None:
    """Stop if a reader refuses a valid file: damage to such a file would find nothing."""
    for name, contents in seeds.items():
        for content in contents:
            outcome = worker.outcome(name, content)
            if outcome.kind == REFUSED:
                raise SystemExit(f"{name}: a valid file is refused: {outcome.text}")


def keep(out: Path, reader: Reader, content: bytes, seed: int, outcome: Outcome) -> Path:
    """Save the input under its reader, kind and seed, and the outcome beside it."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{reader.name}-{outcome.kind}-{seed}{reader.ending}"
    path.write_bytes(content)
    path.with_name(f"{path.name}.txt").write_text(f"{outcome.place}\n\n{outcome.text}\n", errors="replace")
    return path


def replay(path: Path) -> Outcome:
    """Read a saved input again."""
    named = [name for name in READERS if path.name.startswith(f"{name}-")]
    if not named:
        raise SystemExit(f"{path.name} does not begin with the name of a reader: {', '.join(READERS)}.")
    reader = READERS[max(named, key=len)]
    with tempfile.TemporaryDirectory(prefix="fuzz-log-") as place:
        worker = Worker({reader.name: reader}, {}, Path(place))
        try:
            return worker.outcome(reader.name, path.read_bytes())
        finally:
            worker.close()


def report(tallies: dict[str, Tally]) -> str:
    """One line per reader, and one line per finding."""
    kinds = (REFUSED, ACCEPTED, *FINDINGS)
    lines = [f"{'reader':<18}{'inputs':>10}{'/s':>7}" + "".join(f"{kind:>11}" for kind in kinds)]
    total: Counter[str] = Counter()
    for name, tally in tallies.items():
        total += tally.counts
        speed = tally.tried / tally.seconds if tally.seconds else 0
        lines.append(f"{name:<18}{tally.tried:>10,}{speed:>7,.0f}" + "".join(f"{tally.counts[k]:>11,}" for k in kinds))
    lines.append(f"{'all':<18}{total.total():>10,}{'':>7}" + "".join(f"{total[kind]:>11,}" for kind in kinds))
    for name, tally in tallies.items():
        for (kind, place), path in tally.found.items():
            lines.append(f"{name}: {kind}, {place}: {path}")
    return "\n".join(lines)
