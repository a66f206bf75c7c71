"""The poster of a check: its sentence, two rates and six pictures in one image, to be shared."""

from __future__ import annotations

import contextlib
import io
import unicodedata
from collections.abc import Callable, Sequence, Set as AbstractSet
from functools import cache, partial
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

from nooch.base.words import printable, unbroken
from nooch.data.readers.image_files import rgb_image
from nooch.report.answer import IMAGES, Answer, ErrorFinding, ShownImage

POSTER = "poster.png"
SIZE = 1200, 630
"""Pixels, as services that show a link expect it."""

_EDGE, _GAP, _LINE = 40, 12, 1.25
_INK, _SOFT, _TRACK = "#1b1f24", "#59636e", "#e6e9ec"
_COLORS = "#d55e00", "#8c959f"
_BOLD, _PLAIN = "DejaVuSans-Bold.ttf", "DejaVuSans.ttf"
_SIZES = (44, 38, 33, 29, 26)
"""Sizes of the sentence, the first that fits."""

_LONGEST = 600
"""Characters of a text that are looked at."""

Draw = ImageDraw.ImageDraw
Font = ImageFont.FreeTypeFont


def draw_poster(
    answer: Answer, pictures: Sequence[tuple[ShownImage, Path]]
) -> tuple[bytes | None, str]:
    """A PNG of the first finding, and a note: without a font for its characters, or without a
    finding, there is none. ``pictures``: images of the finding, and files that can be read.
    """
    first = next(iter(answer.numbered), None)
    if first is None:
        return None, ""
    texts = [printable(answer.verdict), *(part for image, _ in pictures for part in _below(image))]
    texts += [printable(text) for rate in first.rates for text in (rate.where, rate.numbers)]
    texts += [] if answer.is_verdict(first) else [printable(first.sentence)]
    files = _fonts(frozenset("".join(texts)))
    if files is None:
        return None, f"no {POSTER}: no font has all characters of its names"
    sheet = Image.new("RGB", SIZE, "white")
    _fill(ImageDraw.Draw(sheet), sheet, answer, first, pictures[:IMAGES], files)
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue(), ""


def _fill(
    draw: Draw,
    sheet: Image.Image,
    answer: Answer,
    first: ErrorFinding,
    pictures: Sequence[tuple[ShownImage, Path]],
    files: tuple[Path, Path],
) -> None:
    bold, plain = (partial(_font, file) for file in files)
    wide, bottom = SIZE[0] - 2 * _EDGE, SIZE[1] - _EDGE
    small, middle = plain(17), plain(23)
    y = _write(draw, answer.verdict, bold, wide, 170 if pictures else 280)
    if not answer.is_verdict(first):
        draw.text((_EDGE, y), _cut(first.sentence, plain(21), wide), _SOFT, plain(21))
        y += 34
    y += 2 * _GAP
    left, length, step = _EDGE + 400, 400, 42 if pictures else 84
    for rate, color in zip(first.rates, _COLORS, strict=False):
        across = y + (step - 14) // 2
        draw.text((_EDGE, across), _cut(rate.where, middle, 380), _INK, middle, anchor="lm")
        draw.rectangle((left, y, left + length, y + step - 14), _TRACK)
        reach = min(max(rate.value, 0.0), 1.0) * length
        draw.rectangle((left, y, left + round(reach), y + step - 14), color)
        numbers = _cut(rate.numbers, middle, 300)
        draw.text((left + length + 20, across), numbers, _INK, middle, anchor="lm")
        y += step
    y += _GAP
    about = f"Finding {first.number} of {len(answer.numbered)}, {answer.split} images"
    draw.text((_EDGE, bottom), about, _SOFT, small, anchor="ls")
    draw.text((SIZE[0] - _EDGE, bottom), "nooch", _SOFT, bold(17), anchor="rs")
    if not pictures:
        return
    cell = (wide - _GAP * (len(pictures) - 1)) // len(pictures)
    room, every = (cell, bottom - 84 - y), list[Image.Image]()
    for _, file in pictures:
        every.append(ImageOps.contain(rgb_image(file), room, Image.Resampling.LANCZOS))
    below = y + max(shown.height for shown in every) + 6
    for place, ((image, _), shown) in enumerate(zip(pictures, every, strict=True)):
        left = _EDGE + place * (cell + _GAP)
        top = below - 6 - shown.height
        sheet.paste(shown, (left, top))
        if image.boxes:
            image.boxes.draw(draw, left, top, shown.width / image.boxes.width)
        if image.wrong:
            box = (left, top, left + shown.width - 1, top + shown.height - 1)
            draw.rectangle(box, outline=_COLORS[0], width=4)
        for line, text in enumerate(_below(image)):
            draw.text(
                (left, below + 22 * line), _cut(text, small, cell), (_INK, _SOFT)[line], small
            )


def _below(image: ShownImage) -> list[str]:
    """The lines below an image: its context, or else its label, and the answer."""
    where = image.where.partition(" (")[0]
    said = (image.boxes and image.boxes.words) or f"answered {image.answered}"
    texts = where or f"labeled {image.labeled}", said
    return [printable(text) for text in texts]


def _write(draw: Draw, text: str, font_of: Callable[[int], Font], wide: int, high: int) -> int:
    """Write a text at the top, as large as it fits and cut where it does not; where it ends."""
    text = unbroken(printable(text))[:_LONGEST]
    for size in _SIZES:
        font, most = font_of(size), int(high / (_LINE * size))
        lines = _wrapped(text, font, wide)
        if len(lines) <= most:
            break
    if len(lines) > most:
        lines = [*lines[: most - 1], _cut(f"{lines[most - 1]}…", font, wide)]
    for number, line in enumerate(lines):
        draw.text((_EDGE, _EDGE + int(_LINE * size * number)), line, _INK, font)
    return _EDGE + int(_LINE * size * len(lines))


def _wrapped(text: str, font: Font, wide: int) -> list[str]:
    """Lines of a text; words that are wider than a line, as of text without spaces, are broken."""
    lines = [""]
    for word in text.split(" "):
        if font.getlength(longer := f"{lines[-1]} {word}".strip()) <= wide:
            lines[-1] = longer
            continue
        lines += [""] if lines[-1] else []
        for character in word:
            lines += [""] if font.getlength(lines[-1] + character) > wide else []
            lines[-1] += character
    return lines


def _cut(text: str, font: Font, wide: int) -> str:
    """The start of a text that is not wider, with dots where it was cut."""
    text = unbroken(printable(text))[:_LONGEST]
    if font.getlength(text) <= wide:
        return text
    while text and font.getlength(f"{text}…") > wide:
        text = text[:-1]
    return f"{text.rstrip()}…"


@cache
def _font(file: Path, size: int) -> Font:
    return ImageFont.truetype(file, size)


def _fonts(characters: frozenset[str]) -> tuple[Path, Path] | None:
    """Files of a bold and of a plain font with all characters: matplotlib's, else one of the
    computer's, else None.
    """
    import matplotlib as mpl

    own = Path(mpl.get_data_path()) / "fonts/ttf"
    codes = {ord(one) for one in characters if unicodedata.category(one) != "Cf"} | {
        ord(one) for one in "…→\u00a0"
    }
    if all(codes <= _codes(own / name) for name in (_BOLD, _PLAIN)):
        return own / _BOLD, own / _PLAIN
    from matplotlib.font_manager import fontManager

    files = sorted({Path(entry.fname) for entry in fontManager.ttflist})
    # a font of last resort has a box for every character
    able = (one for one in files if "LastResort" not in one.stem and codes <= _codes(one))
    file = next(able, None)
    return None if file is None else (file, file)


@cache
def _codes(file: Path) -> AbstractSet[int]:
    """The characters of a font file."""
    from matplotlib.ft2font import FT2Font

    with contextlib.suppress(OSError, RuntimeError):
        return FT2Font(str(file)).get_charmap().keys()
    return frozenset()
