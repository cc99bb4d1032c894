"""The program ``crossgcn``, also run by ``python -m crossgcn``."""

import os
import signal
import sys
import threading


def main() -> int:
    """Run ``crossgcn`` and return its exit code."""
    if threading.current_thread() is threading.main_thread():
        # End at once on Ctrl-C until a command runs: an interrupted import can raise any error.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from crossgcn.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
