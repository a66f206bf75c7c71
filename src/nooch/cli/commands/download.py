"""``nooch download ...``: real data, checked and resumable."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from nooch.base.words import counted
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, say, show_progress

if TYPE_CHECKING:
    from nooch.base.download import Collection

Root: Any = Argument(..., metavar="ROOT", help="Folder of downloads; created if it is missing.")


def coco_stuff(
    root: Path = Root,
    images: bool = Option(
        False, "--images", help="Also download the images: 20 GB, and another 20 GB unpacked."
    ),
    keep_zips: bool = Option(
        True, "--keep-zips/--no-keep-zips", help="Keep zip files after unpacking."
    ),
) -> Output:
    """COCO 2017: annotations, captions and COCO-Stuff. Add --images for the images."""
    yield from _download("coco-stuff", root, images=images, keep_zips=keep_zips)


def nooch_published(root: Path = Root) -> Output:
    """The paper's 96 published challenge sets and split."""
    yield from _download("nooch-published", root)


def nooch_coco_images(
    root: Path = Root,
    listed: Path = Option(
        None,
        "--list",
        metavar="FILE",
        help="File names, as nooch export --to images writes them; by default for"
        " the questions that nooch-coco draws by default.",
    ),
) -> Output:
    """COCO images that the questions need, one by one: by default 4,330, about 0.7 GB."""
    from nooch.base.download import coco_images
    from nooch.base.text_encoding import text_lines
    from nooch.suites import load_suite
    from nooch.suites.questions import Draw, draw_questions, image_names

    if listed is None:
        suite = load_suite("nooch-coco")
        keys = suite.select_keys(splits=suite.splits_to_score())
        ids = draw_questions(suite, keys, Draw()).frame["image_id"].unique().sort()
        names = list(image_names(ids.to_list(), None, of_coco=True).values())
    else:
        lines = map(str.strip, text_lines(listed))
        names = [line for line in lines if line and not line.startswith("#")]
    yield from _download(coco_images(names, listed), root)


def _download(name: str | Collection, root: Path, **options: Any) -> Output:
    import msgspec

    from nooch.base.download import download

    def in_megabytes(what: str, done: int, total: int) -> None:
        if what == "files":
            show_progress(what, done, total)
        else:
            show_progress(f"{what} (MB)", done // 10**6, max(total, done) // 10**6)

    result = download(name, root, progress=in_megabytes, **options)
    note(*result.notes)
    yield msgspec.to_builtins(result)
    ways = Counter(file.how for file in result.files)
    counts = ", ".join(f"{count:,} {how}" for how, count in ways.items())
    say(f"{root}: {counted(len(result.files), 'file')} ({counts})")
    for license_text in result.licenses:
        say(f"license: {license_text}")
    hint(f"next: {result.next}")
