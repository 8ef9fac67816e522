"""What `mkdocs.yml` runs: adds the pages that are made, and those of the contract, to the pages of docs/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from scripts.reference import cli, configuration, errors, pictures
from scripts.reference.links import rewritten

ROOT = Path(__file__).resolve().parents[2]
MADE = {
    "reference/cli.md": cli.page,
    "reference/configuration.md": configuration.page,
    "reference/errors.md": errors.page,
    "reference/python/errors.md": errors.classes_page,
}
CONTRACT = "registry_spec/"
NO_RUN = re.compile(r"^( *```\w+) no-run$", re.MULTILINE)
"""For the tests of docs/; the site's Markdown knows no such word."""
IN_A_CHECKOUT = re.compile(r"^<!-- in a checkout -->$.*?^<!-- end -->\n*", re.MULTILINE | re.DOTALL)
"""Says where to look for what only the site has."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages that are made, in the place of what a checkout has there, and the contract as it is."""
    for uri, page in MADE.items():
        stub = files.get_file_from_path(uri)
        if stub is not None:
            files.remove(stub)
        files.append(File.generated(config, uri, content=page()))
    for pattern in ("*.md", "*.json", "proto/*", "decisions/*.md"):
        for path in sorted((ROOT / CONTRACT).glob(pattern)):
            uri = f"contract/{path.relative_to(ROOT / CONTRACT)}"
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to what is not below docs/."""
    uri = page.file.src_uri

    markdown = pictures.inlined(NO_RUN.sub(r"\1", IN_A_CHECKOUT.sub("", markdown)))

    def site_uri(path: str) -> str | None:
        there = _uri(path)
        return there if there is not None and files.get_file_from_path(there) else None

    return rewritten(markdown, _home(uri), uri, site_uri, config.repo_url and f"{config.repo_url}/blob/main")


def on_post_build(config: Any) -> None:
    """One line about what was built."""
    pages = sum(1 for _ in Path(config.site_dir).rglob("*.html"))
    place = Path(config.site_dir)
    print(f"docs: {pages} pages in {place.relative_to(ROOT) if place.is_relative_to(ROOT) else place}")


def _home(uri: str) -> str:
    """Where a page of the site is in the repository."""
    return CONTRACT + uri.removeprefix("contract/") if uri.startswith("contract/") else f"docs/{uri}"


def _uri(path: str) -> str | None:
    """Where a file of the repository is in the site's sources."""
    if path == "registry_spec":
        return "contract/README.md"
    if path.startswith(CONTRACT):
        return f"contract/{path.removeprefix(CONTRACT)}"
    return path.removeprefix("docs/") if path.startswith("docs/") else None
