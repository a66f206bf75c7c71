"""Image files are opened only in allowed formats, and never where they are too large to decode."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import EpsImagePlugin, Image
from refusals import fails

import nooch
from nooch.base.calls import no_progress
from nooch.base.errors import InputError
from nooch.data.image_names import IMAGE_ENDINGS, MAP_ENDINGS
from nooch.data.readers.image_files import LABEL_MAPS, PHOTOGRAPHS, UNREADABLE, opened_image
from nooch.data.readers.map_pixels import count_maps
from nooch.report.images.sheets import SheetLayout, SheetPanel, Tile, draw_sheet
from nooch.report.images.thumbnails import Wanted, draw_pictures

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
showpage
%%EOF
"""


@pytest.fixture
def started(monkeypatch):
    """Programs that Pillow would have started for an EPS file."""
    calls = []
    program = lambda *args, **_: calls.append(args) or Image.new("RGB", (8, 8)).im  # noqa: E731
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", program)
    return calls


def _plain(path):
    with opened_image(path) as image:
        image.load()


def _counted(path):
    rows = pl.DataFrame({"image_id": [1], "stem": ["image"], "file": [str(path)]})
    folder = Path(tempfile.mkdtemp(dir=path.parent))
    counted = count_maps(rows, {0: "dark"}, set(), folder, map, no_progress)
    return counted.read(None, None)


def _drawn(path):
    (drawn,) = draw_pictures([Wanted("test", 0, path)], path.parent)
    assert drawn.sizes == 0
    raise InputError(drawn.problem)


def _decoded(codec):
    def decode(path):
        decoding = pytest.importorskip("nooch.models.images")
        if codec == "fast":
            pytest.importorskip("simplejpeg")
        _, broken = decoding.decode_images([path], (4, 4), codec)
        decoding.refuse_broken(broken)

    return decode


READS = {
    "the function": _plain,
    "a label map": _counted,
    "a sheet of images": lambda p: draw_sheet([SheetPanel("t", [Tile(p)])], SheetLayout(1, 1)),
    "a picture of the report": _drawn,
    "pixels": _decoded("pil"),
    "pixels, fast": _decoded("fast"),
}


@pytest.mark.parametrize("read", READS)
def test_an_eps_called_jpg_starts_nothing(read, tmp_path, started):
    (tmp_path / "image.jpg").write_bytes(EPS)
    with Image.open(tmp_path / "image.jpg") as image:
        # what Pillow does by itself
        image.load()
    assert started.pop()
    with pytest.raises((InputError, *UNREADABLE), match="cannot identify image file as "):
        READS[read](tmp_path / "image.jpg")
    assert started == []


@pytest.fixture(scope="module", params=[12_000, 15_000])
def bomb(request, tmp_path_factory):
    """144 and 225 million pixels; up to 179 million Pillow decodes with a warning."""
    path = tmp_path_factory.mktemp("bomb") / "image.png"
    Image.new("1", (request.param, request.param)).save(path)
    assert path.stat().st_size < 100_000
    return path


@pytest.mark.parametrize("read", READS)
def test_a_bomb_is_refused_where_pillow_would_only_warn(read, bomb):
    with pytest.raises((InputError, *UNREADABLE), match="pixels"):
        READS[read](bomb)


def test_a_limit_that_the_user_sets_is_the_limit(tmp_path, monkeypatch):
    Image.new("L", (40, 40)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1599)
    bomb = Image.DecompressionBombError
    with pytest.raises(bomb, match="has 40 x 40 pixels, more than the limit of 1,599"):
        _plain(tmp_path / "a.png")
    for enough in (1600, None):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", enough)
        _plain(tmp_path / "a.png")


@pytest.mark.parametrize("ending", IMAGE_ENDINGS)
def test_every_ending_is_of_a_format_that_is_opened(tmp_path, ending):
    Image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(tmp_path / f"a{ending}")
    shutil.copyfile(tmp_path / f"a{ending}", tmp_path / "no ending")
    with opened_image(tmp_path / "no ending") as image:
        assert image.size == (8, 6)
        assert image.format in PHOTOGRAPHS


@pytest.mark.parametrize("ending", MAP_ENDINGS)
def test_every_ending_of_a_map_is_of_a_format_that_is_opened(tmp_path, ending):
    Image.fromarray(np.zeros((6, 8), np.uint8)).save(tmp_path / f"a{ending}")
    assert _counted(tmp_path / f"a{ending}").select("width", "height").row(0) == (8, 6)
    Image.new("L", (8, 8)).save(tmp_path / "map.jpg")
    problem = f"cannot identify image file as {', '.join(LABEL_MAPS)}"
    fails(lambda: _counted(tmp_path / "map.jpg"), problem, helps=False)


def test_nothing_else_opens_images():
    source = Path(nooch.__file__).parent
    files = [p for p in source.rglob("*.py") if "Image.open(" in p.read_text(encoding="utf-8")]
    found = [str(p.relative_to(source)) for p in files]
    # the second is written next to a task of lmms-eval, and runs there without nooch
    assert sorted(found) == ["data/readers/image_files.py", "report/exports/lmms_eval_functions.py"]
