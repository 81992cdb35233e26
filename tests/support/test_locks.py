"""Locks: one holder at a time, taken from the dead and only from them, by one of those who want them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from damnatio.support import locks
from damnatio.support.locks import Holder, Lock, holder_of, look_anew, machine, silent_for

HOLD = """
import sys, time
from pathlib import Path
from damnatio.support.locks import Lock
lock = Lock(Path(sys.argv[1]), beat=0.05)
lock.take()
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def held_elsewhere(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def other_machine(path: Path, **changed: Any) -> Path:
    """A lock that a process of another machine holds."""
    path.mkdir(parents=True)
    holder = {"token": "abc", "host": "node7", "machine": "another", "pid": 7, "since": "yesterday", "flock": True}
    (path / "holder.json").write_text(json.dumps({**holder, **changed}))
    return path


def test_a_lock_has_one_holder_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / ".locks" / "a"
    first, second = Lock(path), Lock(path)
    assert first.try_to_take() is None
    holder = second.try_to_take()
    assert holder is not None
    assert (holder.pid, holder.machine, holder.flock) == (os.getpid(), machine(), True)
    assert (first.held, second.held) == (True, False)
    second.release()  # it has none
    assert first.held
    first.release()
    assert (first.held, holder_of(path)) == (False, None)
    assert second.try_to_take() is None
    second.release()
    assert list(path.parent.iterdir()) == []


def test_a_killed_holder_of_this_machine_is_followed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with held_elsewhere(path) as other:
        lock = Lock(path)
        holder = lock.try_to_take()
        assert holder is not None
        assert holder.pid == other.pid
        other.kill()
        other.wait()
        assert lock.try_to_take() is None
    lock.release()


def test_a_stopped_process_of_this_machine_keeps_its_lock(tmp_path: Path) -> None:
    """It will go on, however long it was silent."""
    path = tmp_path / "a"
    with held_elsewhere(path) as other:
        other.send_signal(signal.SIGSTOP)
        lock = Lock(path, silence=0.0)
        for _ in range(3):
            assert lock.try_to_take() is not None
            time.sleep(0.02)
        other.send_signal(signal.SIGCONT)


def test_a_holder_of_another_machine_is_followed_after_its_silence(tmp_path: Path) -> None:
    path = other_machine(tmp_path / "a")
    os.utime(path / "holder.json", (1.0, 1.0))  # no clocks are compared: the oldest sign of life is not yet a silence
    lock = Lock(path, silence=600.0)
    assert str(lock.try_to_take()) == "process 7 on node7 since yesterday"
    assert lock.try_to_take() is not None
    lock._seen_at -= 601.0  # the watcher's own clock
    assert lock.try_to_take() is None
    assert lock.held
    lock.release()


def test_a_slow_heart_is_a_heart(tmp_path: Path) -> None:
    path = other_machine(tmp_path / "a")
    lock = Lock(path, silence=600.0)
    for beat in range(1, 8):  # all together longer than the silence
        os.utime(path / "holder.json", (beat, beat))
        assert lock.try_to_take() is not None
        lock._seen_at -= 500.0


def test_the_holder_gives_signs_of_life(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "a", beat=0.02)
    lock.take()
    os.utime(tmp_path / "a" / "holder.json", (1.0, 1.0))
    until = time.monotonic() + 300
    while silent_for(tmp_path / "a") > 1e6 and time.monotonic() < until:
        time.sleep(0.01)
    assert silent_for(tmp_path / "a") < 1e6
    lock.release()


def test_of_many_that_see_one_dead_holder_one_gets_the_lock(tmp_path: Path) -> None:
    for attempt in range(10):
        path = other_machine(tmp_path / "a", token=f"dead-{attempt}")
        rivals = [Lock(path, silence=0.0) for _ in range(8)]
        start = threading.Barrier(len(rivals))
        got: list[Lock] = []

        def race(lock: Lock, start: threading.Barrier = start, got: list[Lock] = got) -> None:
            start.wait()
            if lock.try_to_take() is None:
                got.append(lock)

        threads = [threading.Thread(target=race, args=(lock,)) for lock in rivals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [lock.held for lock in got] == [True]
        got[0].release()


RACE = """
import sys, time
from pathlib import Path
from damnatio.support.locks import Lock
path, count = Path(sys.argv[1]), Path(sys.argv[2])
for _ in range(40):
    lock = Lock(path, silence=0.05)
    lock.take()
    number = int(count.read_text())   # a number that several write at once loses counts
    time.sleep(0.0005)
    count.write_text(str(number + 1))
    lock.release()
"""


def test_processes_that_race_never_hold_it_together(tmp_path: Path) -> None:
    path, count = other_machine(tmp_path / ".locks" / "a"), tmp_path / "count"
    count.write_text("0")
    racers = [subprocess.Popen([sys.executable, "-c", RACE, str(path), str(count)]) for _ in range(3)]
    assert [racer.wait() for racer in racers] == [0, 0, 0]
    assert count.read_text() == "120"


def test_a_late_rival_takes_nothing_from_the_next_holder(tmp_path: Path) -> None:
    """It saw the dead holder, slept, and acts when another has followed already."""
    path = other_machine(tmp_path / "a")
    dead = holder_of(path)
    assert dead is not None
    quick, late = Lock(path, silence=0.0), Lock(path, silence=0.0)
    assert quick.try_to_take() is None
    late._take_away(dead)
    assert quick.held
    quick.release()


def test_a_holder_that_lost_its_lock_notices_and_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = threading.Event()
    monkeypatch.setattr("_thread.interrupt_main", interrupted.set)
    path = tmp_path / "a"
    slept, other = Lock(path, beat=0.02), Lock(path)
    slept.take()
    me = holder_of(path)
    assert me is not None
    other._take_away(me)  # as after a long silence
    assert other.try_to_take() is None
    assert interrupted.wait(300)
    assert (slept.lost, slept.held) == (True, False)
    slept.release()
    assert other.held
    other.release()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"pid": 3}', "\x00" * 64])
def test_a_lock_that_cannot_be_read_is_somebodys_until_its_silence(tmp_path: Path, content: str) -> None:
    path = other_machine(tmp_path / "a")
    (path / "holder.json").write_text(content)
    lock = Lock(path, silence=600.0)
    assert lock.try_to_take() is not None
    lock._seen_at -= 601.0
    assert lock.try_to_take() is None
    lock.release()


def test_a_lock_that_lost_its_file_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    lock = Lock(tmp_path / "a")
    assert lock.try_to_take() is None
    lock.release()


def test_what_the_dead_left_is_swept_after_a_day(tmp_path: Path) -> None:
    for name, age in ((".gone-old", 2 * locks.FORGOTTEN), (".new-old", 2 * locks.FORGOTTEN), (".gone-young", 60.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "holder.json").touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    lock = Lock(tmp_path / "a")
    lock.take()
    lock.release()
    assert [path.name for path in tmp_path.iterdir()] == [".gone-young"]


def test_a_full_disk_is_reported_and_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            Lock(tmp_path / "a").take()
    assert list(tmp_path.iterdir()) == []


def test_waiting_is_announced_once_per_holder(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "a"), Lock(tmp_path / "a")
    first.take()
    announced: list[Holder] = []

    def waiting(holder: Holder) -> None:
        announced.append(holder)
        threading.Timer(0.3, first.release).start()

    second.take(waiting)
    assert [holder.pid for holder in announced] == [os.getpid()]
    second.release()


def test_a_look_leaves_nothing(tmp_path: Path) -> None:
    look_anew(tmp_path)
    look_anew(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
