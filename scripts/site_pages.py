"""Hook of mkdocs: pages from files outside docs/, and the reference of the command line.

Links between documentation pages and these files are rewritten, so that they work both in the
repository and on the site. The build fails if a page would load anything from another host.
"""

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.cli import get_docs_for_click

from nooch.cli.main import app

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "src/nooch/scenes/world.yaml": "world.yaml",
}
"""Files of the repository that become pages or downloads of the site."""
COMMANDS = "<!-- commands -->"
"""Placeholder in a page for the reference of all commands."""
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
"""Attributes whose targets a browser loads with a page, by element."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    # a text, not a page: its links are rewritten here
    text = (ROOT / "llms.txt").read_text("utf-8")
    text = re.sub(r"\]\(docs/(\S+?)\.md\)", r"](\1.html)", text)
    files.append(File.generated(config, "llms.txt", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links that lead out of docs/, or from a file outside docs/ to a page."""
    uri = page.file.src_uri
    source = next((source for source, target in PAGES.items() if target == uri), f"docs/{uri}")

    def rewrite(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        target = PAGES.get(target, target.removeprefix("docs/"))
        return posixpath.relpath(target, posixpath.dirname(uri) or ".")

    markdown = LINK.sub(rewrite, markdown)
    return markdown.replace(COMMANDS, command_line()) if COMMANDS in markdown else markdown


def on_post_page(output: str, **_: Any) -> str:
    """Name the search dialog."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def on_post_build(config: MkDocsConfig) -> None:
    """Fail if a page loads anything from another host."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        loader = _Loaded()
        loader.feed(path.read_text("utf-8"))
        if loader.outside:
            raise PluginError(f"{path} loads from another host: {', '.join(loader.outside)}")


def command_line() -> str:
    """Return the reference of all commands as Markdown."""
    root: Any = app
    context = typer.Context(root, info_name="nooch")
    index, sections = [], []
    for path, command in app.every():
        name = f"nooch {path}"
        anchor = name.replace(" ", "-")
        index.append(f"| [`{name}`](#{anchor}) | {_first_paragraph(command.help)} |")
        prefix = name.rpartition(" ")[0]
        sections.append(get_docs_for_click(obj=command, ctx=context, indent=1, call_prefix=prefix))
    return "\n".join(["| command | description |", "|---|---|", *index, "", *sections])


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


class _Loaded(HTMLParser):
    """The addresses on other hosts that a page loads from."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(LOADED.get(tag, "")) or ""
        if re.match(r"(\w+:)?//", address):
            self.outside.append(address)
