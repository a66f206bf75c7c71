"""``nooch download ...``: real data, checked and carried on where it stopped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import typer

from nooch.cli.terminal_output import Format, FormatOption, console, note, print_json, progress

__all__ = ["app"]

app = typer.Typer(
    help="Download real data; run again, it carries on where it stopped.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Root: Any = typer.Argument(
    ..., metavar="ROOT", help="Folder of downloads; made where it is missing."
)
From: Any = typer.Option(
    None,
    "--from",
    metavar="FOLDER",
    help="Folder that has some of the files, anywhere below it; it is only read.",
)


@app.command("coco-stuff")
def coco_stuff(
    root: Path = Root,
    images: bool = typer.Option(
        False, "--images", help="The images too: 20 GB, and as much again unpacked."
    ),
    source: Path = From,
    keep_zips: bool = typer.Option(
        True, "--keep-zips/--no-keep-zips", help="Keep zips when they are unpacked."
    ),
    format: Format = FormatOption,
) -> None:
    """COCO 2017 annotations, captions and COCO-Stuff, with --images the images."""
    _download("coco-stuff", root, format, images=images, source=source, keep_zips=keep_zips)


@app.command("nooch-published")
def nooch_published(root: Path = Root, source: Path = From, format: Format = FormatOption) -> None:
    """The 96 challenge sets that the paper's authors published, and their split."""
    _download("nooch-published", root, format, source=source)


def _download(name: str, root: Path, format: Format, **options: Any) -> None:
    import msgspec

    from nooch.download import download

    with progress() as update:

        def in_megabytes(what: str, done: int, total: int) -> None:
            if what == "files":
                update(what, done, total)
            else:
                update(f"{what} (MB)", done // 10**6, max(total, done) // 10**6)

        result = download(name, root, progress=in_megabytes, **options)
    for text in result.notes:
        note(text)
    if format is Format.json:
        print_json(msgspec.to_builtins(result))
        return
    ways = ", ".join(
        f"{count:,} {how}" for how, count in Counter(file.how for file in result.files).items()
    )
    console().print(f"{root}: {len(result.files):,} files ({ways})", markup=False)
    for licence in result.licences:
        console().print(f"licence: {licence}", markup=False)
    console().print(f"next: {result.next}", style="dim", markup=False)
