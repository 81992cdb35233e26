"""Worker processes that go through a list of items, each with one core. What they make is on the disk.

They are forked, so that the work may be any function. Only Linux forks safely beside the threads of torch: elsewhere
the work is done here. A worker ends with the process that forked it, even with one that is killed.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import TypeVar

from damnatio.support.errors import DamnatioError

T = TypeVar("T")
_DEATH_SIGNAL = 1
"""parameter of Linux's `prctl`: the signal that a process gets when its parent ends"""


def cores() -> int:
    """The processor cores that this process should use: one for a worker, and for one of several processes of torchrun
    its share."""
    if multiprocessing.parent_process() is not None:
        return 1
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, found // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def die_with_parent() -> None:
    """Let the system kill this process when the one ends that started it. Only Linux can do that."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # other C libraries lack it
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


def go_through(items: Sequence[T], work: Callable[[T], None], done: Callable[[T], object], workers: int) -> None:
    """Call `work` with each item, in any order, in so many workers; with fewer than two it is called here. `done` is
    called here after each. An error in a worker ends the others, and is raised here."""
    if min(workers, len(items)) < 2 or sys.platform != "linux":
        for item in items:
            work(item)
            done(item)
        return
    context = multiprocessing.get_context("fork")
    started, busy, given = [], [], 0
    try:
        for _ in range(min(workers, len(items))):
            here, there = context.Pipe()
            worker = context.Process(target=_serve, args=(there, items, work, os.getpid()), daemon=True)
            worker.start()
            there.close()
            started.append(worker)
            busy.append(here)
            here.send(given)
            given += 1
        while busy:
            for connection in wait(busy):
                assert isinstance(connection, Connection)
                done(items[_answer(connection)])
                if given < len(items):
                    connection.send(given)
                    given += 1
                else:
                    busy.remove(connection)
    finally:
        for worker in started:
            worker.kill()  # it waits for work, or what it does is no longer wanted
            worker.join()


def _answer(connection: Connection) -> int:
    """The number of the item that a worker has finished."""
    try:
        answer = connection.recv()
    except (EOFError, ConnectionError):
        raise DamnatioError(
            "A worker process ended before its work was done: the system may have stopped it for lack of memory. Run "
            "the same command again, with fewer workers: what is finished is kept."
        ) from None
    if isinstance(answer, BaseException):
        raise answer
    return int(answer)


def _serve(connection: Connection, items: Sequence[T], work: Callable[[T], None], parent: int) -> None:
    """What a worker does: it takes numbers of items, and sends each back when the item is done."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends its workers
    die_with_parent()
    torch.set_num_threads(1)  # torch's own threads did not survive the fork
    while os.getppid() == parent:
        number = connection.recv()
        try:
            work(items[number])
        except BaseException as error:
            connection.send(error)
            return
        connection.send(number)
