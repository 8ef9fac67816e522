"""Links that leave docs/: they work in a checkout as they are, and lead to the contract's pages on the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

LINK = re.compile(
    r"^```.*?^```$"  # a fenced block is left as it is, and so is code outside of a link's words
    r"|(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\((?!\w+:|#|<)([^)\s]+)\)"
    r"|`[^`\n]+`",
    re.MULTILINE | re.DOTALL,
)


def rewritten(
    text: str, home: str, page_uri: str, site_uri: Callable[[str], str | None], repository: str | None
) -> str:
    """The Markdown of a page with its links as the site needs them.

    Args:
        text: the page.
        home: its path in the repository, as `docs/rfc.md`.
        page_uri: its path in the site's sources, as `rfc.md`.
        site_uri: gives the path in the site's sources for a path in the repository, None where the site has it not.
        repository: address that shows files of the repository, if there is one.
    """

    def link(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if target is None:
            return found[0]
        path, sharp, anchor = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(home), path))
        on_site = site_uri(there)
        if on_site is not None:
            return (
                f"{picture}[{words}]({posixpath.relpath(on_site, posixpath.dirname(page_uri) or '.')}{sharp}{anchor})"
            )
        if there.startswith("docs/") and home.startswith("docs/"):
            return found[0]  # a mistake, which the build reports
        return f"[{words}]({repository}/{there}{sharp}{anchor})" if repository else words

    return LINK.sub(link, text)
