"""The program ``crossgcn``, also run by ``python -m crossgcn``."""

import io
import os
import signal
import sys
import warnings
from typing import Any


class _Output(io.FileIO):
    """The file behind stdout or stderr.

    A closed pipe, as in ``crossgcn ... | head``, does not stop the work. A full disk raises an
    error once; later output is dropped.
    """

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError) or self.fileno() == 2:
                return len(content)
            raise


def _wrap(stream: Any) -> Any:
    """Return a stream on :class:`_Output` that writes ? for characters it cannot encode."""
    if stream is None:  # closed by the shell
        return None
    file = io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(file, stream.encoding, errors="replace", line_buffering=True)


def main() -> int:
    """Run ``crossgcn`` and return its exit code."""
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):  # batch systems send SIGTERM
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    # One thread unless a command takes --threads: several are slower on a busy machine.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if sys.warnoptions:  # with -W error, a warning of any import would end the program
        sys.warnoptions.clear()
        warnings.simplefilter("default")
    sys.stdout, sys.stderr = _wrap(sys.stdout), _wrap(sys.stderr)
    try:
        from crossgcn.cli import main as run

        return run()
    except BaseException:
        if stopped:  # an interrupted import can raise any error
            return 130
        raise


if __name__ == "__main__":
    sys.exit(main())
