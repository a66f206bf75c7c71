"""Formats of other programs that are not read: each is named, with a way to convert it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nooch.base.errors import InputError, some_of
from nooch.base.words import counted
from nooch.data.image_names import is_junk

_HEAD = 1 << 16
"""Bytes of a file that are searched for what a format writes."""
_MOST_ALIKE = 10
_MOST_ENTRIES = 1000
_COCO_KEY = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[')
_COCO_RECORD = re.compile(
    rb'"(?:images"\s*:\s*\[\s*\{[^{}]*"(?:file_name|coco_url|width)"'
    rb'|annotations"\s*:\s*\[\s*\{[^{}]*"image_id")\s*:'
)
_YOLO_LINE = re.compile(rb"\s*\d+(\s+[-+.\deE]+){4,}\s*")


@dataclass(frozen=True)
class _Format:
    """A format by endings of its files, or by texts that all are near the start of its files."""

    name: str
    remedy: str = ""
    marks: tuple[bytes, ...] = ()
    endings: tuple[str, ...] = ()
    importer: str = ""


_TABLE = "write a table with columns filename and label (.csv or .parquet), and import that"
_FORMATS = (
    _Format("LabelMe's JSON, a file per image",
            "convert it to COCO JSON, for example with the package labelme2coco",
            (b'"shapes"', b'"flags"')),
    _Format("LabelMe's JSON, a file per image",
            "convert it to COCO JSON, for example with the package labelme2coco",
            (b'"imageData"',)),
    _Format("Label Studio's JSON",
            "export from Label Studio as COCO, YOLO, or CSV of choices",
            (b'"data"', b'"result"', b'"from_name"')),
    _Format("Datumaro's JSON", marks=(b'"items"', b'"categories"', b'"label"'),
            importer="datumaro"),
    _Format("a file of VGG Image Annotator (VIA)",
            "export from VIA with Annotation, Export Annotations (COCO format)",
            (b"region_attributes",)),
    _Format("CreateML's JSON", "export COCO JSON from the program that wrote it, or ",
            (b'"coordinates"', b'"label"', b'"image'), importer="roboflow_create_ml"),
    _Format("Supervisely's JSON",
            "export from Supervisely with the app Export to COCO",
            (b'"objects"', b'"classTitle"')),
    _Format("FiftyOne's samples",
            "export in Python: dataset.export(DIR, dataset_type="
            "fiftyone.types.COCODetectionDataset)",
            (b'"samples"', b'"filepath"')),
    _Format("COCO's panoptic JSON", "import its instances and stuff files, or ",
            (b'"segments_info"',), importer="coco_panoptic"),
    _Format("VoTT's JSON", "export from VoTT as CSV, and import that table; or ",
            (b'"assets"', b'"regions"'), importer="vott_json"),
    _Format("CVAT's XML", "export from CVAT as COCO 1.0, or ", (b"<annotations>", b"<image "),
            importer="cvat"),
    _Format("an archive", "unpack it, and import the folder",
            endings=(".zip", ".tar", ".gz", ".tgz", ".7z", ".rar", ".bz2", ".xz")),
    _Format("a pickle (it can run code when it is loaded)", _TABLE,
            endings=(".pkl", ".pickle", ".pt", ".pth", ".joblib")),
    _Format("an array file", _TABLE, endings=(".mat", ".npy", ".npz", ".h5", ".hdf5")),
    _Format("a TFRecord file", _TABLE, endings=(".tfrecord", ".tfrecords")),
    _Format("an Arrow file of datasets (Hugging Face)",
            "write it in Python: datasets.load_from_disk(DIR).to_parquet('labels.parquet')",
            endings=(".arrow",)),
    _Format("an LMDB", _TABLE, endings=(".mdb",)),
)  # fmt: skip


def head_of(file: Path) -> bytes:
    """The first bytes of a file; none if it cannot be read."""
    return _bytes_of(file, 0)


def _bytes_of(file: Path, start: int) -> bytes:
    """Bytes from a start on, or counted from the end; none of a file that cannot be read."""
    try:
        with file.open("rb") as opened:
            opened.seek(start if start >= 0 else max(0, opened.seek(0, 2) + start))
            return opened.read(_HEAD)
    except OSError:
        return b""


def looks_like_coco(file: Path) -> bool:
    """True if a JSON file is an object of two lists that COCO has, or of one with its records, by
    its first and last bytes; and of no other known format.
    """
    head = head_of(file)
    if file.suffix.lower() != ".json" or not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    lists = {*_COCO_KEY.findall(head), *_COCO_KEY.findall(_bytes_of(file, -_HEAD))}
    is_coco = len(lists) > 1 or bool(_COCO_RECORD.search(head))
    return is_coco and _format_of(file) is None


def is_known(file: Path) -> bool:
    """True for a file that is called or written as one of a format that is known and not read."""
    return _format_of(file) is not None


def is_voc(file: Path) -> bool:
    """True if an XML file is an annotation of VOC: its element, and one that it has."""
    head = head_of(file)
    is_annotation = re.search(rb"<annotation[\s>]", head) is not None
    return is_annotation and re.search(rb"<(object|size|filename|segmented)\b", head) is not None


def is_yolo_label(file: Path) -> bool:
    """True if the first line of a text file is a box or segment of YOLO."""
    return bool(_YOLO_LINE.fullmatch(head_of(file).split(b"\n", 1)[0]))


def _format_of(file: Path) -> _Format | None:
    ending, head = file.suffix.lower(), None
    for kind in _FORMATS:
        if ending in kind.endings:
            return kind
        if kind.marks and ending in (".json", ".xml", ".csv"):
            head = head_of(file) if head is None else head
            if all(mark in head for mark in kind.marks):
                return kind
    return None


INSTALLED = (
    "pip install 'nooch[datumaro]' in an environment of its own, since it pins packages, and there"
)


def refuse_other(file: Path, folder: Path | None = None) -> None:
    """Raise InputError for a file of a format that is known and not read; ``folder``: the one that
    was given.
    """
    if (kind := _format_of(file)) is not None:
        remedy, where = kind.remedy, folder or file.parent
        if kind.importer:
            remedy += f"{INSTALLED} nooch import auto {where} `reader` datumaro/{kind.importer}"
        raise InputError(f"is {kind.name}, which is not read", where=file, remedy=remedy)


def refuse_other_among(folder: Path, files: Iterable[Path], *, by_ending: bool) -> None:
    """Raise InputError for such files of a folder, of which the first of each ending are looked at;
    ``by_ending``: also where only the ending tells.
    """
    count = Counter[str]()
    for file in files:
        count[file.suffix.lower()] += 1
        kind = _format_of(file) if count[file.suffix.lower()] <= _MOST_ALIKE else None
        if kind is not None and (kind.marks or by_ending):
            refuse_other(file, folder)


_LAYOUTS = (
    ("Cityscapes", "cityscapes", "leftImg8bit gtFine"),
    ("KITTI with boxes", "kitti_detection", "image_2 label_2"),
    ("KITTI with maps", "kitti_segmentation", "image_2 instance"),
    ("DOTA", "dota", "images labelTxt"),
    ("MVTec AD", "mvtec_classification", "ground_truth test train"),
    ("CamVid", "camvid", "train trainannot"),
    ("WIDER FACE", "wider_face", "wider_face_split"),
    ("CelebA", "align_celeba", "Anno Img/img_align_celeba"),
    ("CelebA", "celeba", "Anno Img"),
    ("MOT", "mot_seq", "gt/gt.txt"),
    ("Mapillary Vistas", "mapillary_vistas_instances", "images v1.2"),
    ("Mapillary Vistas", "mapillary_vistas_instances", "images instances labels"),
    ("ADE20K", "ade20k2020", "*_seg.png *.json"),
    ("ADE20K", "ade20k2017", "*_seg.png *_parts_*.png"),
)
"""A layout, Datumaro's name for it, and the folders and files that lie next to each other in it."""
_DEPTH = 3


def layout_of(folder: Path) -> tuple[str, str] | None:
    """Name of the layout that a folder has, at most three levels deep, and Datumaro's name for it;
    None of one that is not known.
    """
    places = [folder]
    for _ in range(_DEPTH + 1):
        for place in places:
            for name, importer, signs in _LAYOUTS:
                if all(any(place.glob(sign)) for sign in signs.split()):
                    return name, importer
        below = (entry for place in places for entry in islice(place.iterdir(), _MOST_ENTRIES))
        places = sorted(entry for entry in below if entry.is_dir() and not entry.is_symlink())
        places = places[:_MOST_ALIKE]
    return None


def files_seen(folder: Path) -> str:
    """The folders and the files of a folder by ending, in words."""
    entries = [entry for entry in sorted(folder.iterdir()) if not is_junk(entry.name)]
    folders = [entry.name for entry in entries if entry.is_dir()]
    endings = Counter(entry.suffix.lower() or "(no ending)" for entry in entries if entry.is_file())
    parts = [f"{counted(count, 'file')} {ending}" for ending, count in sorted(endings.items())]
    parts += [f"the folders {some_of(folders)}"] if folders else []
    return ", ".join(parts) or "no files"
