"""`python -m greenroom` and the console script `greenroom`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; return the exit status."""
    from greenroom.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
