"""Pin the base image of deploy/Dockerfile: ask its registry what the tag is now, and write that.

`scripts/lock --docker` runs it; a tag behind it is taken in place of the present one. It needs a
network that reaches Docker's registry. With `--check` (`scripts/lock --check`) it asks nobody, and
says whether the base is pinned: that of a release is.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parent.parent / "deploy" / "Dockerfile"
REGISTRY = "https://registry-1.docker.io"
TOKENS = "https://auth.docker.io/token?service=registry.docker.io"
INDEXES = (
    "application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json"
)
"""An index names the image of every processor: one digest serves them all."""
SECONDS_MAX = 30
FROM = re.compile(r"^FROM ([a-z0-9/]+):([\w.-]+)(?:@sha256:[0-9a-f]{64})?$", re.MULTILINE)


def main(arguments: Sequence[str] = ()) -> int:
    """Write the digest into the Dockerfile, or check that it is there; return the exit status."""
    text = DOCKERFILE.read_text()
    if "--check" in arguments:
        return check(text)
    try:
        pinned = pin(text, *arguments[:1])
    except OSError as error:
        print(f"The registry says nothing ({error}); {DOCKERFILE.name} is as it was.")
        return 1
    DOCKERFILE.write_text(pinned)
    print(f"The base of {DOCKERFILE.name} is pinned.")
    return 0


def is_pinned(dockerfile: str) -> bool:
    """Return whether a Dockerfile's base is named by a digest."""
    found = FROM.search(dockerfile)
    return found is not None and "@" in found[0]


def check(dockerfile: str) -> int:
    """Say whether a Dockerfile's base is pinned; return the exit status."""
    if is_pinned(dockerfile):
        print(f"The base of {DOCKERFILE.name} is pinned.")
        return 0
    print(f"The base of {DOCKERFILE.name} is a tag: run scripts/lock --docker before a release.")
    return 1


def pin(
    dockerfile: str, tag: str | None = None, *, registry: str = REGISTRY, tokens: str = TOKENS
) -> str:
    """Return a Dockerfile's text with its base pinned to what its tag is now.

    Args:
        dockerfile: its text.
        tag: another tag to take in place of the one that it has.
        registry: the URL of the registry.
        tokens: the URL that gives a token to ask it with.

    Raises:
        OSError: the registry cannot be asked, or does not know.
    """
    found = FROM.search(dockerfile)
    if found is None:
        raise OSError("there is no FROM with a tag")
    name, present = found.groups()
    tag = str(tag or present)
    repository = name if "/" in name else f"library/{name}"
    digest = ask(f"{tokens}&scope=repository:{repository}:pull", registry, repository, tag)
    return FROM.sub(f"FROM {name}:{tag}@{digest}", dockerfile, count=1)


def ask(token_url: str, registry: str, repository: str, tag: str) -> str:
    """Return the digest of a tag, as `sha256:…`."""
    with urllib.request.urlopen(token_url, timeout=SECONDS_MAX) as answer:  # noqa: S310 (ours)
        token = json.load(answer)["token"]
    headers = {"Authorization": f"Bearer {token}", "Accept": INDEXES}
    url = f"{registry}/v2/{repository}/manifests/{tag}"
    request = urllib.request.Request(url, headers=headers, method="HEAD")  # noqa: S310 (ours)
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:  # noqa: S310 (ours)
        digest: str = answer.headers.get("Docker-Content-Digest", "")
    if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
        raise OSError("no digest in its answer")
    return digest


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
