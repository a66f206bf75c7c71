"""Files as people have them, and what an import should make of each; written for a test."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from coco_files import image, write
from PIL import Image

TRUTH = {"a": {"sky"}, "b": {"sky", "road"}, "c": {"road"}, "d": {"sky", "road"}}
ROWS = [(f"{stem}.jpg", "sky" in found, "road" in found) for stem, found in TRUTH.items()]


@dataclass(frozen=True)
class Messy:
    """A form: how it is written, the outcome of ``import auto``, flags, and words of the answer."""

    make: Callable[[Path], Path]
    outcome: str = "right"
    flags: str = ""
    words: tuple[str, ...] = ()
    truth: object = None
    has_files: bool = False


def photos(folder: Path, names: tuple[str, ...] = tuple(TRUTH)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        Image.new("RGB", (4, 4)).save(folder / f"{name}.jpg")
    return folder


def text(folder: Path, content: str, name: str = "t.csv", encoding: str = "utf-8") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode(encoding))
    return folder / name


def wide(sign=",", yes="1", no="0", key="filename", quote="", form="{}", names=("sky", "road")):
    rows = [[key, *names]]
    rows += [[form.format(file), *(yes if on else no for on in (sky, road))]
             for file, sky, road in ROWS]  # fmt: skip
    return "".join(sign.join(f"{quote}{c}{quote}" for c in row) + "\n" for row in rows)


def csv(name="t.csv", encoding="utf-8", **options):
    return lambda folder: text(folder, wide(**options), name, encoding)


def beside(**options):
    def make(folder):
        photos(folder / "images")
        return text(folder, wide(**options))

    return make


def tags(form, column="tags", quote='"'):
    def make(folder):
        cells = [form(sorted(found)) for found in TRUTH.values()]
        rows = [f"{stem}.jpg,{quote}{cell}{quote}" for stem, cell in zip(TRUTH, cells, strict=True)]
        return text(folder, f"filename,{column}\n" + "\n".join(rows))

    return make


def per_label(header, row, name="t.csv"):
    def make(folder):
        rows = [row(stem, c) for stem, found in TRUTH.items() for c in sorted(found)]
        return text(folder, header + "\n" + "\n".join(rows) + "\n", name)

    return make


def frame():
    columns = {"filename": pl.String, "sky": pl.Int64, "road": pl.Int64}
    return pl.DataFrame([(f, int(s), int(r)) for f, s, r in ROWS], schema=columns, orient="row")


def parquet(folder):
    folder.mkdir(parents=True)
    frame().write_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def write_excel(path, table):
    import openpyxl

    book = openpyxl.Workbook()
    for row in [table.columns, *table.rows()]:
        book.active.append(row)
    book.save(path)
    return path


def excel(folder):
    folder.mkdir(parents=True)
    return write_excel(folder / "t.xlsx", frame())


def lists(folder):
    folder.mkdir(parents=True)
    data = {"filename": [f"{stem}.jpg" for stem in TRUTH], "labels": map(sorted, TRUTH.values())}
    pl.DataFrame({**data, "labels": [*data["labels"]]}).write_parquet(folder / "t.parquet")
    return folder / "t.parquet"


RECORDS = [{"file": f"{stem}.jpg", "labels": sorted(found)} for stem, found in TRUTH.items()]
BY_FILE = {record["file"]: record["labels"] for record in RECORDS}


def document(content, name="t.json", **options):
    return lambda folder: text(folder, json.dumps(content, **options), name)


def lines(records, name="t.jsonl"):
    return lambda folder: text(folder, "\n".join(map(json.dumps, records)), name)


def splits(folder):
    lines = wide().splitlines()
    names = ["split", " Train ", "TEST", "Val", "train"]
    return text(folder, "\n".join(f"{a},{b}" for a, b in zip(lines, names, strict=True)))


def numbered(folder):
    lines = wide().splitlines()
    names = ["split", "0", "1", "0", "1"]
    return text(folder, "\n".join(f"{a},{b}" for a, b in zip(lines, names, strict=True)))


def more(*columns, yes="1", no="0", **options):
    """The table with more columns: a name and a cell for each row."""

    def make(folder):
        rows = wide(yes=yes, no=no, **options).splitlines()
        cells = [",".join(row) for row in zip(*columns, strict=True)]
        return text(folder, "\n".join(f"{a},{b}" for a, b in zip(rows, cells, strict=True)))

    return make


def indexed(name):
    """The table with row numbers in front."""
    head, *rows = wide().splitlines()
    return "\n".join([f"{name},{head}", *(f"{n},{row}" for n, row in enumerate(rows))])


def marked(mark, name="car"):
    """The table with a class of a mark, or blank; and what that is with blanks as absent."""
    return more([name, mark, "", mark, ""])


def elsewhere(folder):
    """Images that are now in other folders than when the table was written."""
    photos(folder / "images" / "new")
    return text(folder, wide(form="D:\\2019\\old\\{}"))


BOX = {"category_id": 1, "bbox": [0, 0, 2, 2], "area": 4, "iscrowd": 0}


def coco(folder, names=("instances_train2017", "instances_val2017"), images="ab"):
    """COCO's own annotations folder: files of instances for train and val, and others."""
    categories = [{"id": 1, "name": "cat"}]
    for place, (name, stem) in enumerate(zip(names, images, strict=True), 1):
        listed = [image(place, file_name=f"{stem}.jpg")]
        boxes = [{"id": place, "image_id": place, **BOX}]
        content = {"images": listed, "annotations": boxes, "categories": categories}
        write(folder / f"{name}.json", json.dumps(content))
        if name.startswith("instances"):
            points = [{**boxes[0], "keypoints": [0, 0, 0], "num_keypoints": 0}]
            other = name.replace("instances", "person_keypoints")
            write(folder / f"{other}.json", json.dumps(content | {"annotations": points}))
            said = [{"id": place, "image_id": place, "caption": "a cat"}]
            captions = {"images": listed, "annotations": said}
            write(folder / f"captions_{name[10:]}.json", json.dumps(captions))
    return folder


def coco_root(folder):
    coco(folder / "annotations")
    return folder


def class_folders(folder):
    for stem, name in (("a", "cat"), ("b", "dog")):
        photos(folder / name, (stem,))
    return folder


def junk(folder):
    class_folders(folder)
    (folder / "cat" / "._a.jpg").write_bytes(b"\0\5\26\7")
    for place in (folder, folder / "cat"):
        (place / ".DS_Store").write_bytes(b"junk")
        (place / "Thumbs.db").write_bytes(b"junk")
    (folder / "__MACOSX" / "cat").mkdir(parents=True)
    (folder / "__MACOSX" / "cat" / "._a.jpg").write_bytes(b"\0\5\26\7")
    return folder


def maps(folder, void=255, classes="0 cat\n1 road\n", value=1):
    photos(folder / "images", ("a", "b"))
    (folder / "labels").mkdir()
    for stem, row in (("a", [0, void]), ("b", [value, void])):
        Image.fromarray(np.array([row] * 2, np.uint8)).save(folder / "labels" / f"{stem}.png")
    write(folder / "classes.txt", classes)
    return folder


def stuff_maps(folder):
    real = Path(__file__).parents[1] / ".." / "shared" / "data" / "cocostuff-maps"
    if not real.is_dir():
        return None
    shutil.copytree(real, folder)
    return folder


def no_classes(folder):
    maps(folder)
    (folder / "classes.txt").unlink()
    return folder


def files(*images, **written):
    """A folder with images of these paths, and texts or JSON by path (``__`` for ``/``)."""

    def make(folder):
        for path in images:
            photos((folder / path).parent, (Path(path).stem,))
        for path, content in written.items():
            write(folder / path.replace("__", "/").replace("_dot_", "."), content)
        folder.mkdir(exist_ok=True)
        return folder

    return make


def only(name, content):
    return lambda folder: write(folder / name, content)


def broken(folder):
    """Class folders with images that are empty, of HTML, and cut off."""
    class_folders(folder)
    whole = (folder / "cat" / "a.jpg").read_bytes()
    for name, content in (("x", b""), ("y", b"<html>404</html>"), ("z", whole[:-40])):
        (folder / "dog" / f"{name}.jpg").write_bytes(content)
    return folder


CARS = {"a": {"sky", "car"}, "b": {"sky", "road"}, "c": {"road", "car"}, "d": {"sky", "road"}}
TARGET = only("t.csv", "image,y,place\na,1,0\nb,0,0\nc,1,1\nd,0,1\n")
Y = {"a": {"y"}, "b": set(), "c": {"y"}, "d": set()}
Y_PLACE = {"a": {"y"}, "b": set(), "c": {"y", "place"}, "d": {"place"}}
TRAIN = more(["is_train", "1", "0", "1", "0"])
FLASH = more(["flash", "1", "0", "0", "1"], yes="yes", no="no")
TRAINS = {stem: {*found, "train"} if stem in "ac" else found for stem, found in TRUTH.items()}
VERIFIED = """ImageID,Source,LabelName,Confidence
a,verification,sky,1
a,verification,road,0
b,verification,sky,1
b,verification,road,1
c,verification,sky,0
c,verification,road,1
d,verification,sky,1
d,crowd,road,1
"""
STATED = VERIFIED.replace("ImageID", "image").replace("LabelName,Confidence", "label,present")
EVERY = {stem: {"sky", "road"} for stem in TRUTH}
CHOICES = """image,id,choice,annotator,created_at
a.jpg,1,sky,1,2024-01-02
b.jpg,2,"{""choices"":[""sky"",""road""]}",1,2024-01-02
c.jpg,3,road,1,2024-01-02
d.jpg,4,"{""choices"": [""sky"", ""road""]}",1,2024-01-02
"""
ANSWERS = """image,finding,Follow-up #,reviewer
a.jpg,x,1,1
b.jpg,y,1,1
c.jpg,x,1,1
d.jpg,y,1,1
"""
NUMBERS = {"a": {"3"}, "b": {"5"}, "c": {"3"}, "d": {"7"}}
KINDS = {"a": {"light,_red"}, "b": {"car"}, "c": {"car"}, "d": {"bus"}}


def one_each(column, *cells):
    """A table with a class for each image."""
    rows = [*zip(TRUTH, cells, strict=True)]
    return lambda f: text(f, f"image,{column}\n" + "".join(f"{s}.jpg,{c}\n" for s, c in rows))


def replaced(old, new, **options):
    """The table with a cell, or all of such, that are neither yes nor no."""
    return lambda f: text(f, wide(**options).replace(old, new))


FOUR = tuple(f"images/{stem}.jpg" for stem in TRUTH)
BOX_LINE = "0 0.5 0.5 0.2 0.2\n"
LABELME = {"version": "5", "flags": {}, "shapes": [{"label": "cat"}], "imagePath": "a.jpg"}
STUDIO = [{"data": {"image": "a"}, "annotations": [{"result": [{"from_name": "c"}]}]}]
DATUMARO = {"info": {}, "categories": {"label": {"labels": [{"name": "cat"}]}}, "items": []}
CVAT = '<?xml version="1.0"?>\n<annotations><version>1.1</version><image name="a"/></annotations>'
VIA = {"a.jpg1": {"filename": "a.jpg", "regions": [{"region_attributes": {"class": "cat"}}]}}
CREATEML = [{"image": "a.jpg", "annotations": [{"label": "cat", "coordinates": {"x": 4}}]}]
SUPERVISELY = {"size": {}, "objects": [{"classTitle": "cat"}]}
FIFTYONE = {"samples": [{"filepath": "data/a.jpg", "ground_truth": {"label": "cat"}}]}
PANOPTIC = {"images": [], "annotations": [{"segments_info": []}], "categories": []}
OPEN_IMAGES = "ImageID,LabelName,XMin,XMax,YMin,YMax\na,/m/1,0.1,0.5,0.1,0.5\nb,/m/2,0,1,0,1\n"
HIERARCHY = {"LabelName": "/m/0", "Subcategory": [{"LabelName": "/m/1"}]}
HALVES = ("train/1.jpg", "train/2.jpg", "val/3.jpg")

CATS = {"a": {"cat"}, "b": {"cat"}}
TWO = {"a": {"cat"}, "b": {"dog"}}
MAPS = {"a": {"cat"}, "b": {"road"}}
PIPE = "|".join
BOXED = "filename,width,height,class,xmin,ymin,xmax,ymax"

# the columns of public data sets
CHEXPERT = """Path,Sex,Age,No Finding,Edema,Fracture
p/a.jpg,Female,68,1.0,,
p/b.jpg,Male,48,,-1.0,1.0
p/c.jpg,Male,50,,1.0,0.0
p/d.jpg,Female,20,,0.0,-1.0
"""
NIH = """Image Index,Finding Labels,Patient Age,Patient Gender
a.jpg,Cardiomegaly|Emphysema,58,M
b.jpg,No Finding,58,F
c.jpg,Emphysema,58,M
d.jpg,No Finding,81,M
"""
NIH_TRUTH = {
    "a": {"Cardiomegaly", "Emphysema"}, "b": {"No_Finding"}, "c": {"Emphysema"},
    "d": {"No_Finding"},
}  # fmt: skip
CUB = """img_id,filepath,species,is_training_image
1,x/a.jpg,Albatross,0
2,x/b.jpg,Jay,1
3,x/c.jpg,Jay,1
4,x/d.jpg,Crow,0
"""
HAM = """lesion_id,image_id,dx,age,sex
H1,a,bkl,80.0,male
H1,b,bkl,80.0,male
H2,c,nv,75.0,female
H3,d,mel,75.0,female
"""
CAMERAS = "image_id,category_id,location,split\na,1,5,train\nb,2,5,val\nc,1,6,test\nd,3,5,train\n"
CAMERAS_TRUTH = {"a": {"1"}, "b": {"2"}, "c": {"1"}, "d": {"3"}}
BIRDS = (
    "img_id,img_filename,y,split,place\n"
    "1,a.jpg,0,0,1\n2,b.jpg,1,1,0\n3,c.jpg,1,2,1\n4,d.jpg,0,2,0\n"
)
VIA_CSV = (
    "filename,region_count,region_id,region_shape_attributes,region_attributes\n"
    'a.jpg,1,0,"{""name"":""rect""}","{""class"":""cat""}"\n'
)

FORMS: dict[str, Messy] = {
    "wide 0/1": Messy(csv()),
    "wide true/false": Messy(csv(yes="true", no="false")),
    "wide TRUE/FALSE": Messy(csv(yes="TRUE", no="FALSE")),
    "wide yes/no": Messy(csv(yes="yes", no="no")),
    "wide Y/N": Messy(csv(yes="Y", no="N")),
    "wide 1/-1": Messy(csv(yes="1", no="-1")),
    "wide 1.0/0.0": Messy(csv(yes="1.0", no="0.0")),
    "wide Y/blank": Messy(csv(yes="Y", no=""), "asked", words=("--blank-is-no", "blank")),
    "wide 1/blank": Messy(csv(yes="1", no=""), "asked", words=("--blank-is-no", "blank")),
    "wide Y/blank, said": Messy(csv(yes="Y", no=""), flags="--blank-is-no"),
    "wide x/blank, said": Messy(csv(yes="x", no=""), flags="--blank-is-no"),
    "wide in/out": Messy(csv(yes="in", no="out"), "asked", words=("--positive", "sky=in", "sky=*")),
    "wide in/out, said": Messy(csv(yes="in", no="out"), flags="--positive sky=in,road=in"),
    "1/blank next to 0/1": Messy(
        marked("1"), "asked", words=("--blank-is-no for 3", "--label sky,road for 2")
    ),
    "1/blank next to 0/1, absent": Messy(marked("1"), flags="--blank-is-no", truth=CARS),
    "1/blank next to 0/1, no label": Messy(marked("1"), flags="--label sky,road"),
    "x/blank next to 0/1": Messy(marked("x"), "asked", words=("--blank-is-no for 3",)),
    "its name/blank next to 0/1": Messy(marked("car"), "asked", words=("--blank-is-no for 3",)),
    "remarks next to 0/1": Messy(marked("blurry", "remark")),
    "a column y": Messy(TARGET, "asked", words=("--label y for 1", "--label y,place")),
    "a column y, one class": Messy(TARGET, flags="--label y", truth=Y),
    "a column y, two classes": Messy(TARGET, flags="--label y,place", truth=Y_PLACE),
    "a column is_train": Messy(TRAIN, "asked", words=("--split-column is_train", "1=train,0=test")),
    "a class called train": Messy(more(["train", "1", "0", "1", "0"]), truth=TRAINS),
    "a class train next to test": Messy(
        more(["train", "1", "0", "1", "0"], ["test", "0", "1", "0", "1"]),
        "asked",
        words=("train, test, named like facts",),
    ),
    "words next to 0/1": Messy(
        more(["place", "sea", "land", "sea", "land"]),
        "asked",
        words=("--label sky,road for 2", "--class place for 2"),
    ),
    "words next to 0/1, attributes": Messy(
        more(["place", "sea", "land", "sea", "land"]), flags="--label sky,road"
    ),
    "words next to constants": Messy(only("t.csv", ANSWERS), "asked", words=("finding=x",)),
    "Open Images' verified labels": Messy(only("t.csv", VERIFIED)),
    "present and absent": Messy(
        only("t.csv", STATED),
        "refused",
        words=("present is 0", "--present present", "--present none"),
    ),
    "present and absent, said": Messy(only("t.csv", STATED), flags="--present present"),
    "present and absent, all": Messy(only("t.csv", STATED), flags="--present none", truth=EVERY),
    "choices of Label Studio": Messy(only("t.csv", CHOICES), truth=TRUTH),
    "0/1 next to yes/no": Messy(
        FLASH, "asked", words=("for 2 classes, and flash as an attribute",)
    ),
    "0/1 next to yes/no, an attribute": Messy(FLASH, flags="--attributes flash"),
    "true/false next to a year": Messy(more(["year", *"1234"], yes="true", no="false")),
    "1/-1 with a class in all images": Messy(
        more(["car", *"1111"], yes="1", no="-1"),
        truth={stem: {*found, "car"} for stem, found in TRUTH.items()},
    ),
    "1/0/NA": Messy(more(["car", "1", "NA", "1", "0"]), "asked", words=("--positive car=1 for 3",)),
    "1/0/NA, absent": Messy(
        more(["car", "1", "NA", "1", "0"]), flags="--positive car=1", truth=CARS
    ),
    "yes/no/unknown": Messy(
        more(["car", "yes", "unknown", "yes", "no"]), "asked", words=("unknown", "an attribute")
    ),
    "1/0/-1": Messy(
        more(["car", "1", "-1", "1", "0"]), "asked", words=("-1", "--positive car=1 for 3")
    ),
    "a blank in quotes": Messy(
        more(["car", "1", '" "', "1", "0"]), "asked", words=("' '", "--positive car=1 for 3")
    ),
    "1/0/? in all columns": Messy(
        replaced("a.jpg,1,0", "a.jpg,1,?"), "asked", words=("--positive road=1 for 2",)
    ),
    "x/blank in quotes": Messy(
        more(["car", "x", '""', "x", '""']), "asked", words=("--positive car=x for 3",)
    ),
    "all x/blank in quotes": Messy(
        csv(yes='"x"', no='""'), "asked", words=("--positive sky=x,road=x for 2",)
    ),
    "an index without a name": Messy(lambda f: text(f, indexed(""))),
    "an index of pandas": Messy(lambda f: text(f, indexed("Unnamed: 0"))),
    "no header": Messy(
        lambda f: text(f, wide().split("\n", 1)[1]), "refused", words=("a.jpg", "filename,label")
    ),
    "a line above the header": Messy(
        lambda f: text(f, "# labels\n" + wide()), "refused", words=("names of columns",)
    ),
    "fractions": Messy(csv(yes="0.9", no="0.2"), "refused", words=("fractions", "predictions")),
    "numbers of classes": Messy(one_each("label", *"3537"), truth=NUMBERS),
    "numbers of classes as COCO's": Messy(one_each("category_id", *"3537"), truth=NUMBERS),
    "a class of 0 and 1": Messy(
        one_each("class", *"0110"), "asked", words=("--class class for 2", "--label class for")
    ),
    "a label of 0 and 1": Messy(
        one_each("label", *"0110"), truth={"a": set(), "b": {"label"}, "c": {"label"}, "d": set()}
    ),
    "a class with a comma": Messy(
        one_each("class", '"light, red"', "car", "car", "bus"),
        "asked",
        words=("--label-separator none for 3", "--label-separator comma for 4"),
    ),
    "a class with a comma, said": Messy(
        one_each("class", '"light, red"', "car", "car", "bus"),
        flags="--label-separator none",
        truth=KINDS,
    ),
    "splits with blanks": Messy(
        more(["split", "train", "", "test", "test"]), "refused", words=("split is blank",)
    ),
    "areas with commas": Messy(
        per_label("image_id;class;area", lambda f, c: f"{f};{c};0,25"), truth=TRUTH
    ),
    "areas in percent": Messy(per_label("image_id,class,area", lambda f, c: f"{f},{c},25 %")),
    "chest X-rays": Messy(
        only("t.csv", CHEXPERT),
        "asked",
        words=("--positive Edema=1,Fracture=1 and --blank-is-no for 3",),
    ),
    "chest X-rays, findings": Messy(
        only("t.csv", NIH), "asked", words=("--class 'Finding Labels' for 3",)
    ),
    "chest X-rays, findings, said": Messy(
        only("t.csv", NIH), flags="--class 'Finding Labels'", truth=NIH_TRUTH
    ),
    "birds with species": Messy(
        only("t.csv", CUB), "asked", words=("is_training_image", "--class species for 3")
    ),
    "skin lesions": Messy(only("t.csv", HAM), "asked", words=("--class dx for 3",)),
    "camera traps": Messy(only("t.csv", CAMERAS), truth=CAMERAS_TRUTH),
    "birds on land": Messy(
        only("t.csv", BIRDS),
        "asked",
        flags="--split-values 0=train,1=valid,2=test",
        words=("place, next to y",),
    ),
    "a column twice": Messy(
        csv(names=("sky", "sky")), "refused", words=("same name: sky", "rename")
    ),
    "VIA's table": Messy(only("t.csv", VIA_CSV), "refused", words=("VIA", "COCO")),
    "objects in cells": Messy(
        one_each("label", *['"{""x"": 1}"'] * 4), "refused", words=("objects", "a row for each")
    ),
    "semicolons": Messy(csv(sign=";")),
    "semicolons and commas": Messy(
        csv(sign=";", names=("sky, blue", "road")),
        truth={s: {n.replace("sky", "sky,_blue") for n in found} for s, found in TRUTH.items()},
    ),
    "tabs in .csv": Messy(csv(sign="\t")),
    "tabs in .tsv": Messy(csv("t.tsv", sign="\t")),
    "commas in .tsv": Messy(csv("t.tsv")),
    "bars": Messy(csv(sign="|")),
    "spaces after commas": Messy(csv(sign=", ")),
    "spaces around commas": Messy(csv(sign=" , ", yes="yes", no="no")),
    "spaces before quotes": Messy(csv(sign=", ", quote='"')),
    "all quoted": Messy(csv(quote='"')),
    "UTF-16": Messy(csv(encoding="utf-16")),
    "UTF-16 with tabs": Messy(csv(encoding="utf-16", sign="\t")),
    "UTF-8 with a mark": Messy(csv(encoding="utf-8-sig")),
    "cp1252": Messy(csv(names=("sky", "röad"), encoding="cp1252"), "refused", words=("cp1252",)),
    "Windows lines": Messy(lambda f: text(f, wide().replace("\n", "\r\n"))),
    "column image": Messy(csv(key="image")),
    "column Image Path": Messy(csv(key="Image Path")),
    "column img_path": Messy(csv(key="img_path")),
    "column of another name": Messy(csv(key="photo")),
    "absolute paths": Messy(beside(form="/home/me/photos/{}"), has_files=True),
    "Windows paths": Messy(beside(form="C:\\photos\\{}"), has_files=True),
    "paths of another folder": Messy(beside(form="old/2019/{}"), has_files=True),
    "tags by bars": Messy(tags(PIPE)),
    "tags by commas": Messy(tags(",".join)),
    "tags by comma and space": Messy(tags(", ".join)),
    "tags by semicolons": Messy(tags(";".join, quote="")),
    "tags as JSON": Messy(tags(lambda t: json.dumps(t).replace('"', '""'), "labels")),
    "tags as Python prints them": Messy(tags(str)),
    "tags by blanks": Messy(tags(" ".join), "asked", words=("--label-separator",)),
    "tags by blanks, said": Messy(tags(" ".join), flags="--label-separator space"),
    "a row per label": Messy(per_label("filename,label", lambda f, c: f"{f}.jpg,{c}")),
    "a row per label and area": Messy(
        per_label("image_id,class,area", lambda f, c: f"{f},{c},0.25")
    ),
    "a row per box": Messy(per_label(BOXED, lambda f, c: f"{f}.jpg,10,10,{c},0,0,5,5")),
    "boxes with decimal commas": Messy(
        per_label(BOXED.replace(",", ";"), lambda f, c: f"{f}.jpg;10;10;{c};0,5;0;5;5")
    ),
    "splits of any spelling": Messy(splits),
    "splits as numbers": Messy(numbered, "refused", words=("--split-values", "0=train")),
    "splits as numbers, said": Messy(numbered, flags="--split-values 0=train,1=test"),
    "absolute paths, other folders": Messy(elsewhere, has_files=True),
    "Parquet": Messy(parquet),
    "Parquet with lists": Messy(lists),
    "Excel": Messy(excel),
    "JSON records": Messy(document(RECORDS)),
    "JSON records, indented": Messy(document(RECORDS, indent=2)),
    "JSON records, an object each": Messy(
        document([{"file": f, "labels": {"sky": s, "road": r}} for f, s, r in ROWS])
    ),
    "JSON records, a row per box": Messy(
        document(
            [
                {"image": f"{stem}.jpg", "label": name, "x1": 0, "y1": 0, "x2": 1, "y2": 1}
                for stem, found in TRUTH.items()
                for name in found
            ]
        )
    ),
    "JSON lines": Messy(lines(RECORDS)),
    "JSON lines called .json": Messy(lines(RECORDS, "t.json")),
    "JSON lines, an object each": Messy(
        lines([{"file": f, "found": {"sky": s, "road": r}} for f, s, r in ROWS])
    ),
    "JSON lines that start without labels": Messy(
        lines([*({"file": f"{n}.jpg", "labels": []} for n in range(150)), *RECORDS]),
        truth={**{str(n): set() for n in range(150)}, **TRUTH},
    ),
    "JSON of labels by file name": Messy(document(BY_FILE)),
    "JSON of 0/1 by file name": Messy(
        document({f: {"sky": int(s), "road": int(r)} for f, s, r in ROWS})
    ),
    "JSON of file names by class": Messy(
        document({"sky": ["a.jpg"], "road": ["b.jpg"]}),
        "refused",
        words=("sky (list of 1 text)", '{"a.jpg": ["sky", "road"]}'),
    ),
    "JSON of numbers by file name": Messy(
        document({"a.jpg": 3, "b.jpg": 4}), "refused", words=("a.jpg (number)",)
    ),
    "JSON with records inside": Messy(
        document({"version": 1, "data": RECORDS}),
        "refused",
        words=("version (number)", "data (list of 4 objects)", "list in field `data`"),
    ),
    "JSON of lists and text": Messy(
        document([RECORDS[0], {"file": "b.jpg", "labels": "sky"}]), "refused", words=("labels",)
    ),
    "JSON of objects in lists": Messy(
        document([{"image": "a.jpg", "labels": [{"name": "sky"}]}]), "refused", words=("labels",)
    ),
    "JSON with a key twice": Messy(
        lambda f: text(f, '{"a.jpg": ["sky"], "a.jpg": ["road"]}', "t.json"),
        "refused",
        words=("a.jpg",),
    ),
    "COCO's results": Messy(
        document([{"image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2], "score": 0.5}]),
        "refused",
        words=("detections", "predictions"),
    ),
    "a number as JSON": Messy(document(3), "refused", words=("a number", "a list of objects")),
    "a header without rows": Messy(lambda f: text(f, "filename,sky\n"), "refused"),
    "no file names": Messy(
        lambda f: text(f, "x,y\n1,3\n2,4\n"), "refused", words=("x", "y", "--id")
    ),
    "COCO's annotations folder": Messy(coco, truth=CATS),
    "COCO 2017": Messy(coco_root, truth=CATS),
    "a folder per class": Messy(class_folders, truth=TWO),
    "a folder per class with junk": Messy(junk, truth=TWO),
    "label maps": Messy(lambda f: maps(f, void=0), truth={"a": {"cat"}, "b": {"cat", "road"}}),
    "label maps with void": Messy(maps, "asked", words=("--void", "255")),
    "label maps with void, said": Messy(maps, flags="--void 255", truth=MAPS),
    "label maps without names": Messy(no_classes, "refused", words=("classes.txt",)),
    "COCO-Stuff's maps": Messy(stuff_maps, truth=13),
    "only images": Messy(photos, "refused", words=("nooch annotate",)),
    "broken images": Messy(broken, truth=TWO, words=("3 of 5 images", "broken_images.csv")),
    "broken images, refused": Messy(
        broken, "refused", flags="--broken refuse", words=("x.jpg (is empty)", "leave-out")
    ),
    "splits without classes": Messy(
        files(*HALVES), "refused", words=("the folders train, val", "nooch annotate")
    ),
    "splits of classes": Messy(files("train/cat/a.jpg", "val/dog/b.jpg"), truth=TWO),
    "a table in another folder": Messy(files(*FOUR, annotations__t_dot_csv=wide())),
    "a table next to the folder of images": Messy(files(*FOUR, t_dot_csv=wide())),
    "a table among the images": Messy(
        files(*(f"{stem}.jpg" for stem in TRUTH), t_dot_csv=wide()), has_files=False
    ),
    "a table for each split": Messy(
        files(*HALVES, train__t_dot_csv=wide(), val__t_dot_csv=wide()),
        "refused",
        words=("2 tables", "train/t.csv"),
    ),
    "images and texts that are not boxes": Messy(
        files("a.jpg", a_dot_txt="a photo of a cat\n"), "refused", words=("a.txt has the name",)
    ),
    "boxes of YOLO without names": Messy(
        files("images/a.jpg", labels__a_dot_txt=BOX_LINE), "refused", words=("data.yaml", "a.txt")
    ),
    "Pascal VOC without XML": Messy(
        files("JPEGImages/a.jpg"), "refused", words=("the folders JPEGImages",)
    ),
    "an archive": Messy(only("data.zip", b"PK"), "refused", words=("archive", "unpack")),
    "a folder with an archive": Messy(files(a_dot_zip=b"PK"), "refused", words=("unpack",)),
    "an empty folder": Messy(files(), "refused", words=("no files",)),
    "only a README": Messy(files(README_dot_md="hello"), "refused", words=("1 file .md",)),
    "LabelMe": Messy(files("a.jpg", a_dot_json=LABELME), "refused", words=("LabelMe", "COCO")),
    "Label Studio": Messy(only("p.json", STUDIO), "refused", words=("Label Studio", "export")),
    "Datumaro": Messy(
        files(annotations__train_dot_json=DATUMARO), "refused", words=("datumaro/datumaro",)
    ),
    "CVAT": Messy(files(annotations_dot_xml=CVAT), "refused", words=("CVAT", "COCO 1.0")),
    "CVAT's file": Messy(only("a.xml", CVAT), "refused", words=("CVAT", "COCO 1.0")),
    "VIA": Messy(files("a.jpg", via_dot_json=VIA), "refused", words=("VIA", "COCO format")),
    "CreateML": Messy(only("a.json", CREATEML), "refused", words=("CreateML", "COCO")),
    "Supervisely": Messy(
        files("ds/img/a.jpg", meta_dot_json={"classes": []}, ds__ann__a_dot_json=SUPERVISELY),
        "refused",
        words=("Supervisely", "COCO"),
    ),
    "FiftyOne": Messy(
        files("data/a.jpg", metadata_dot_json={}, samples_dot_json=FIFTYONE),
        "refused",
        words=("FiftyOne", "dataset.export"),
    ),
    "panoptic COCO": Messy(only("panoptic.json", PANOPTIC), "refused", words=("panoptic",)),
    "Cityscapes": Messy(
        files("leftImg8bit/val/a.jpg", "gtFine/val/a.jpg"), "refused", words=("nooch[datumaro]",)
    ),
    "Open Images with names": Messy(
        files(
            boxes_dot_csv=OPEN_IMAGES,
            hierarchy_dot_json=HIERARCHY,
            **{"class-descriptions_dot_csv": "/m/1,cat\n/m/2,dog\n"},
        ),
        truth=TWO,
    ),
    "an image": Messy(only("a.jpg", b""), "refused", words=("is an image",)),
    "a pickle": Messy(only("a.pkl", b""), "refused", words=("run code", "write a table")),
    "an array": Messy(only("a.mat", b""), "refused", words=("write a table",)),
    "a file and a number per line": Messy(
        only("train.txt", "a.jpg 0\nb.jpg 1\n"), "refused", words=("a.jpg 0", ".csv")
    ),
    "only captions": Messy(
        only("captions.json", {"images": [], "annotations": []}), "refused", words=("--things",)
    ),
}
