"""CUB-200-2011 and Places -> Waterbirds: sample a background for each bird, compose the images.

As by the benchmark's authors (Sagawa et al., 2020), a fifth of CUB's training images are the
validation split; in training the share of birds on their own kind of background is ``confounder``,
in validation and test a half; each background is used once.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import check_file_names, encode_header, read_table
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.files import atomic_folder, check_output, sha256_of
from nooch.readers.image_files import ImageIndex
from nooch.shared_types import Map, StepProgress, no_progress, options_from
from nooch.version import __version__
from nooch.waterbirds.bird_compositing import Montage, compose_all
from nooch.waterbirds.waterbirds_dataset import METADATA

__all__ = [
    "COLUMNS", "MARKER", "PLACES", "SPECIES", "Recipe", "WaterbirdsOptions", "draw_waterbirds",
    "is_water_bird", "make_waterbirds",
]  # fmt: skip

MARKER = "waterbirds.json"
COLUMNS = ("img_id", "img_filename", "y", "split", "place", "place_filename")
PLACES = (("bamboo_forest", "forest/broadleaf"), ("ocean", "lake/natural"))
"""Categories of Places: of land (0), of water (1)."""

# layouts in which Places is published; names in the table are relative to the first that exists
_LAYOUTS = ("data_large", "data_256", ".")
_WATER = (
    "albatross", "auklet", "cormorant", "frigatebird", "fulmar", "gadwall", "grebe", "guillemot",
    "gull", "jaeger", "kittiwake", "mallard", "merganser", "pacific_loon", "pelican", "puffin",
    "tern",
)  # fmt: skip
_TRAIN, _VALID, _TEST = range(3)

SPECIES: dict[str, Callable[[str, str], bool]] = {
    "released": lambda kind, name: kind in name,
    "corrected": lambda kind, name: f"_{kind}_" in f"_{name}_",
}
"""Whether a species' name has a kind of water bird in it.

``released`` finds it anywhere, as the benchmark's authors did: "tern" is in Eastern Towhee, Western
Meadowlark and Western Wood Pewee, three land birds that are water birds in the published data.
``corrected`` matches whole words and leaves the three out.
"""


@dataclass(frozen=True)
class Recipe:
    """How backgrounds are sampled.

    Attributes:
        confounder: share of training birds on their own kind of background, 0 to 1.
        valid: share of CUB's training images that become the validation split, 0 to below 1.
        seed: of all draws, 0 and more.
        species: one of ``SPECIES``.
    """

    confounder: float = 0.95
    valid: float = 0.2
    seed: int = 0
    species: str = "released"

    def __post_init__(self) -> None:
        check_one_of("species", self.species, SPECIES)
        if not 0 <= self.confounder <= 1:
            raise ParameterError(f"confounder is {self.confounder}", allowed="a share, 0 to 1")
        if not 0 <= self.valid < 1:
            raise ParameterError(f"valid is {self.valid}", allowed="a share, 0 to below 1")
        if self.seed < 0:
            raise ParameterError(f"seed {self.seed} is negative", allowed="0 and more")


def is_water_bird(file_name: str, species: str = "released") -> bool:
    """Whether a CUB image, such as ``059.California_Gull/x.jpg``, shows a water bird."""
    name = file_name.split("/", maxsplit=1)[0].partition(".")[2].lower()
    return any(SPECIES[species](kind, name) for kind in _WATER)


@dataclass(frozen=True)
class WaterbirdsOptions:
    """Inputs and output of ``make_waterbirds`` that have defaults.

    Attributes:
        segmentations: folder of masks, ``CUB/segmentations`` by default.
        metadata: a table with ``COLUMNS`` that replaces the sampling, such as the published one.
        quality: of the JPEG files, 1 to 95.
    """

    segmentations: str | Path | None = None
    metadata: str | Path | None = None
    quality: int = 95

    def __post_init__(self) -> None:
        if not 1 <= self.quality <= 95:
            raise ParameterError(f"quality {self.quality}", allowed="1 to 95")


def draw_waterbirds(
    birds: pl.DataFrame, backgrounds: Mapping[int, Sequence[str]], recipe: Recipe
) -> pl.DataFrame:
    """A background for each bird (``img_id, img_filename, training``: CUB's own split, bool) out of
    files of land (0) and water (1), as a frame with ``COLUMNS``, by ``img_id``.

    The same arguments give the same frame; the order of files has no effect. Raises InputError for
    fewer backgrounds of a kind than birds that need one.
    """
    # a stream for each draw, so that none depends on how many numbers another one takes
    of_split, of_place, of_file = (
        np.random.default_rng([recipe.seed, stream]) for stream in range(3)
    )
    birds = birds.sort("img_id")
    y = np.array([is_water_bird(name, recipe.species) for name in birds["img_filename"].to_list()])
    split = np.where(birds["training"].to_numpy(), _TRAIN, _TEST)
    split[_some(np.flatnonzero(split == _TRAIN), recipe.valid, of_split)] = _VALID
    place = np.zeros(len(y), dtype=np.int64)
    for part, bird in product((_TRAIN, _VALID, _TEST), (False, True)):
        own = recipe.confounder if part == _TRAIN else 0.5
        rows = np.flatnonzero((split == part) & (y == bird))
        place[_some(rows, own if bird else 1 - own, of_place)] = 1
    files = np.empty(len(y), dtype=object)
    for kind, names in sorted(backgrounds.items()):
        rows = np.flatnonzero(place == kind)
        if len(rows) > len(names):
            needed = f"{len(rows)} birds need a background of {' or '.join(PLACES[kind])}"
            raise InputError(
                f"{needed}, and there are {len(names)}",
                allowed="a background for each bird",
                remedy="unpack all of Places' training images of these categories",
            )
        files[rows] = of_file.permutation(np.array(sorted(names), dtype=object))[: len(rows)]
    drawn = {"y": y.astype(np.int64), "split": split.astype(np.int64), "place": place}
    place_filename = pl.Series(files.tolist(), dtype=pl.String)
    return birds.with_columns(**drawn, place_filename=place_filename).select(COLUMNS)


def make_waterbirds(
    cub: str | Path,
    places: str | Path,
    out: str | Path,
    recipe: Recipe | None = None,
    *,
    options: WaterbirdsOptions | None = None,
    map: Map = builtins.map,
    overwrite: bool = False,
    progress: StepProgress = no_progress,
    **named: Any,
) -> pl.DataFrame:
    """Compose Waterbirds as a standard folder: ``metadata.csv``, images, and ``waterbirds.json``.

    The latter records the recipe. The folder is written atomically, after all files were found. The
    same files and recipe give the same bytes, whatever the number of processes.

    Args:
        cub: CUB-200-2011, with ``images.txt``, ``train_test_split.txt`` and ``images/``.
        places: Places, with ``data_large/o/ocean`` and so on (``data_256``, or the letters alone).
        out: folder to write.
        recipe: how to sample; the benchmark's values by default.
        options: ``segmentations``, ``metadata`` and ``quality``, which can also be given by name.
        map: composes the images, such as an engine's.
        overwrite: replace a folder of previous output.
        progress: called with (images done, images).
        named: fields of ``WaterbirdsOptions``.

    Returns:
        The content of ``metadata.csv``.

    Raises:
        InputError: files that are missing, lead out of the given folders, cannot be read or
            contradict each other.
        OutputError: the folder exists, or cannot be written.
        ParameterError: a quality that is not allowed.
    """
    check_output(out, overwrite=overwrite, marker=MARKER)
    options = options_from(WaterbirdsOptions, options, named)
    masks = None if options.segmentations is None else Path(options.segmentations)
    sources = _SourceFolders(Path(cub), Path(places), masks)
    if options.metadata is None:
        recipe = recipe or Recipe()
        backgrounds = {kind: sources.files(names) for kind, names in enumerate(PLACES)}
        table = draw_waterbirds(sources.birds(), backgrounds, recipe)
        origin: dict[str, Any] = {"recipe": asdict(recipe)}
    else:
        table = _read_metadata(Path(options.metadata))
        origin = {"metadata": sha256_of(Path(options.metadata))}
    files = sources.find(table)
    with atomic_folder(out, overwrite=overwrite, marker=MARKER) as partial:
        outputs = [partial / name for name in table["img_filename"]]
        for folder in {output.parent for output in outputs}:
            folder.mkdir(parents=True, exist_ok=True)
        montages = [Montage(*paths, output) for paths, output in zip(files, outputs, strict=True)]
        compose_all(montages, quality=options.quality, map=map, progress=progress)
        table.write_csv(partial / METADATA)
        header = {"format": "nooch-waterbirds", "version": 1, "nooch": __version__, **origin}
        hashes = {"quality": options.quality, METADATA: sha256_of(partial / METADATA)}
        (partial / MARKER).write_bytes(encode_header({**header, **hashes}))
    return table


@dataclass(frozen=True)
class _SourceFolders:
    """The folders of the input files, and nothing outside them."""

    cub: Path
    places: Path
    segmentations: Path | None
    _index: dict[str, set[str]] = field(default_factory=dict)

    def birds(self) -> pl.DataFrame:
        """``img_id, img_filename, training`` of CUB."""
        names, training = _pairs(self.cub / "images.txt"), _pairs(self.cub / "train_test_split.txt")
        if stray := sorted(names.keys() ^ training.keys()):
            files = "images.txt and train_test_split.txt"
            raise InputError(f"{files} list different images: {some_of(stray)}", where=self.cub)
        if wrong := sorted(set(training.values()) - {"0", "1"}):
            problem = f"train_test_split.txt has the values {some_of(wrong)}"
            raise InputError(problem, where=self.cub, allowed="0 (test), 1 (training)")
        rows = [(number, name, training[number] == "1") for number, name in names.items()]
        return pl.DataFrame(rows, schema=["img_id", "img_filename", "training"], orient="row")

    @property
    def root(self) -> Path:
        """The folder that names of backgrounds are relative to."""
        if not self.places.is_dir():
            raise InputError("no such folder of Places", where=self.places)
        return next(self.places / layout for layout in _LAYOUTS if (self.places / layout).is_dir())

    def files(self, categories: Sequence[str]) -> list[str]:
        """All images of some categories, as ``/o/ocean/00000001.jpg``."""
        files = []
        for folder in (f"{name[0]}/{name}" for name in categories):
            names = sorted(self._below(folder))
            files += [f"/{folder}/{name}" for name in names if "/" not in name]
        return files

    def find(self, table: pl.DataFrame) -> list[tuple[Path, Path, Path]]:
        """Bird, mask and background of each row. Raises InputError that names missing files."""
        ids, names = table["img_id"].to_list(), table["img_filename"]
        check_file_names(names, METADATA)
        masks = [str(Path(name).with_suffix(".png")) for name in names.to_list()]
        segmentations = self.segmentations or _inside(self.cub, "segmentations")
        birds = ImageIndex(_inside(self.cub, "images")).all_of(ids, names.to_list(), "`cub`")
        cutouts = ImageIndex(segmentations).all_of(ids, masks, "`segmentations`")
        return list(zip(birds, cutouts, self._backgrounds(table["place_filename"]), strict=True))

    def _backgrounds(self, column: pl.Series) -> list[Path]:
        relative = column.str.strip_prefix("/")
        check_file_names(relative, "place_filename")
        parts = [name.rpartition("/") for name in relative.to_list()]
        missing = ["".join(path) for path in parts if path[2] not in self._below(path[0])]
        if missing:
            unpack = "unpack Places' training images of these categories"
            raise InputError(
                f"{len(missing)} of {len(parts)} backgrounds are not there: {some_of(missing)}",
                where=self.root,
                allowed="image files below this folder; no links that lead out of it",
                remedy=f"{unpack}, and give their folder as `places`",
            )
        return [self.root / folder / name for folder, _, name in parts]

    def _below(self, folder: str) -> set[str]:
        """Names of images in a folder of Places: the others, millions of files, are not listed."""
        if folder not in self._index:
            self._index[folder] = ImageIndex(_inside(self.root, folder)).paths
        return self._index[folder]


def _inside(root: Path, folder: str) -> Path:
    """A folder below ``root``. Raises InputError if it is missing or a link that leads out."""
    path = root / folder
    if not path.is_dir():
        remedy = f"give the folder that holds {folder}"
        raise InputError("no such folder", where=path, remedy=remedy)
    if not path.resolve().is_relative_to(root.resolve()):
        problem = "is a link that leads out of the given folder"
        raise InputError(problem, where=path, remedy="copy or move it there")
    return path


def _pairs(file: Path) -> dict[int, str]:
    """A list of CUB: number -> text, from lines such as ``1 text``."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        allowed = "the lists of CUB-200-2011"
        raise InputError(f"cannot be read: {error}", where=file, allowed=allowed) from error
    pairs: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        key, _, value = line.strip().partition(" ")
        if not key.isdecimal() or not value or int(key) in pairs:
            allowed = "an image's number, each once, a space, and a value"
            raise InputError(f"line {number} is {line!r}", where=file, allowed=allowed)
        pairs[int(key)] = value
    if not pairs:
        raise InputError("lists no image", where=file)
    return pairs


def _some(rows: NDArray[np.intp], share: float, random: np.random.Generator) -> NDArray[np.intp]:
    """This share of rows, rounded to the nearest number of them."""
    return random.choice(rows, size=round(share * len(rows)), replace=False)


def _read_metadata(path: Path) -> pl.DataFrame:
    table = read_table(path)
    for name in COLUMNS:
        check_one_of("column", name, table.columns, owner=str(path))
    names = pl.col("img_filename", "place_filename").cast(pl.String)
    table = table.select(COLUMNS).with_columns(names)
    if not table.height or sum(table.null_count().row(0)):
        problem = f"has {table.height} rows, some without a value"
        raise InputError(problem, where=path, allowed="a value in every column")
    if table["img_filename"].n_unique() != table.height:
        raise InputError("names an image twice", where=path, allowed="each img_filename once")
    return table
