"""Standard output and error that never end the work: its results are on disk, whoever reads the lines it prints.

Output is discarded if its reader went away (`damnatio run my.yaml | head -2`) or the stream was closed from the start
(`>&-`). A character that the encoding of a stream does not have is written as `?`.
"""

import errno
import io
import os
import sys
from typing import Any


def harden() -> None:
    """Replace the interpreter's own streams; streams that a caller put there (a test, for example) stay."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # else the next file opened would be the standard output
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _hardened(sys.stdout, 1)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _hardened(sys.stderr, 2)


def _hardened(stream: Any, number: int) -> io.TextIOWrapper:
    """`stream` is None where it was closed when the interpreter began."""
    return io.TextIOWrapper(
        io.BufferedWriter(_Sink(number, "wb", closefd=False)),
        encoding=getattr(stream, "encoding", "utf-8"),
        errors="replace",
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )


class _Sink(io.FileIO):
    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except OSError as error:  # a full disk is reported once; what the interpreter flushes as it ends is discarded
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if error.errno not in (errno.EPIPE, errno.EBADF):
                raise
            return super().write(content)
