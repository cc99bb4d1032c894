"""The program ``crossgcn``, also run by ``python -m crossgcn``."""

import os
import signal
import sys
import threading
import warnings


def main() -> int:
    """Run ``crossgcn`` and return its exit code."""
    if threading.current_thread() is threading.main_thread():
        # End at once on Ctrl-C until a command runs: an interrupted import can raise any error.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    # One thread unless a command takes --threads: several are slower on a busy machine.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if sys.warnoptions:  # with -W error, a warning of any import would end the program
        sys.warnoptions.clear()
        warnings.simplefilter("default")
    from crossgcn.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
