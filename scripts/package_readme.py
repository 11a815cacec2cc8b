# SPDX-License-Identifier: Apache-2.0
"""The README as the package's description, where links to files of the repository lead nowhere.

Hatchling calls this when it builds the package. If ``[project.urls]`` names the repository, links
lead there. Otherwise the path of the file stands in for the link, and pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
_COMMENT = re.compile(r"<!--.*?-->\n", re.DOTALL)


def described(readme: str, repository: str | None) -> str:
    """Return a README whose links work anywhere.

    Args:
        readme: Markdown.
        repository: URL of the repository, as GitHub and GitLab lay it out; None if there is none.
    """

    def link(found: re.Match[str]) -> str:
        is_picture, text, target = found[1] == "!", found[2], found[3]
        path = target.partition("#")[0]
        if repository is not None:
            kind = "raw" if is_picture else "blob"
            return f"{found[1]}[{text}]({repository.rstrip('/')}/{kind}/main/{target})"
        if is_picture:
            return ""
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    return _LINK.sub(link, _COMMENT.sub("", readme))


class CustomMetadataHook(MetadataHookInterface):
    """Sets ``readme``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description; see `described`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": described(text, repository),
        }
