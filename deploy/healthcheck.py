"""The container's health check: ask /readyz of the server that the ready file speaks of.

The file is there while the server answers, and says by which port and protocol. Exit status 0 is
healthy; 1 is not, and one line says why.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.request
from pathlib import Path

SECONDS_MAX = 4.0


def main() -> int:
    """Return the exit status."""
    file = Path(os.environ["GREENROOM_READY_FILE"])
    # The certificate is for the public name, and this is 127.0.0.1.
    anyone = ssl._create_unverified_context()  # noqa: S323, SLF001
    try:
        address = json.loads(file.read_bytes())["http"]
        with urllib.request.urlopen(  # noqa: S310
            f"{address}/readyz", timeout=SECONDS_MAX, context=anyone
        ) as answer:
            print(answer.status)
    except FileNotFoundError:
        print(f"no {file}: the server does not answer yet, or no longer")
        return 1
    except (OSError, ValueError, TypeError, KeyError) as error:
        print(repr(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
