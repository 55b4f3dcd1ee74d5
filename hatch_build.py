"""The README of a wheel and of an sdist: README.md without relative links, because a package index has no other file of it.

`Source` of `[project.urls]` in pyproject.toml names the public repository. The links then lead to the files of the release.
Without `Source`, a link is its text alone, and a picture is left out. Must not import mqflow.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"(?P<picture>!?)\[(?P<text>[^]]*)\]\((?P<path>(?![a-z]+:|#)[^)]+)\)")


def absolute(readme: str, source: str, version: str) -> str:
    """Return the README with absolute links to the repository `source`, or without relative links if `source` is empty."""

    def link(found: re.Match[str]) -> str:
        picture, text, path = found["picture"], found["text"], found["path"]
        if source:
            return f"{picture}[{text}]({source}/{'raw' if picture else 'blob'}/v{version}/{path})"
        return "" if picture else text

    return _RELATIVE.sub(link, readme)


class ReadmeHook(MetadataHookInterface):
    """Gives the metadata the README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field `readme`."""
        source = metadata.get("urls", {}).get("Source", "").rstrip("/")
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, source, metadata["version"])}
