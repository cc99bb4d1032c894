"""The command line. Each command's file parses and prints; the work is done elsewhere."""

from __future__ import annotations

import json
import sys

from crossgcn.errors import CrossGCNError

__all__ = ["main"]


def main() -> int:
    """Run ``crossgcn`` and return its exit code: 0 done, 1 failed, 2 bad input or usage."""
    from crossgcn.cli.app import app

    try:
        app(prog_name="crossgcn")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except CrossGCNError as error:
        if "--json" in sys.argv:
            print(json.dumps({"error": str(error), "exit_code": error.exit_code}))
        print(f"crossgcn: {error}", file=sys.stderr)
        return error.exit_code
    return 0
