"""``python -m crossgcn`` is ``crossgcn``."""

import sys

from crossgcn.cli import main

if __name__ == "__main__":
    sys.exit(main())
