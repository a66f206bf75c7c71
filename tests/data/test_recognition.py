"""Recognition: what a path holds, and an import of it without naming the format."""

import json

import messy_files
import numpy as np
import pytest
from coco_files import document, image, write
from PIL import Image
from refusals import fails

import nooch
from nooch.base.errors import ParameterError
from nooch.data.importing.recognition import recognize
from nooch.data.readers.image_folder import FolderReading

BOX = (
    "<annotation><filename>1.jpg</filename><size><width>4</width><height>4</height></size><object>"
)
BOX += "<name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>"
BOX += "</object></annotation>"


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)


def coco(folder):
    picture(folder / "images" / "1.jpg")
    content = document([image(1, file_name="1.jpg")], [])
    write(folder / "annotations" / "instances_mine.json", content)
    return folder


def coco_file(folder):
    return coco(folder) / "annotations" / "instances_mine.json"


def yolo(folder):
    picture(folder / "images" / "1.jpg")
    write(folder / "labels" / "1.txt", "0 .5 .5 1 1")
    write(folder / "classes.txt", "cat\n")
    return folder


def yolo_yaml(folder):
    picture(folder / "images" / "train" / "1.jpg")
    write(folder / "labels" / "train" / "1.txt", "0 .5 .5 1 1")
    write(folder / "data.yaml", "names: [cat]\npath: .\ntrain: images/train\n")
    return folder


def voc(folder):
    picture(folder / "JPEGImages" / "1.jpg")
    write(folder / "Annotations" / "1.xml", BOX)
    return folder


def openimages(folder):
    text = "ImageID,LabelName,XMin,XMax,YMin,YMax\n1,cat,0,0.5,0,0.5\n"
    return write(folder / "boxes.csv", text)


def maps(folder):
    (folder / "labels").mkdir(parents=True)
    Image.fromarray(np.array([[0, 1]], np.uint8)).save(folder / "labels" / "1.png")
    write(folder / "classes.txt", "0 cat\n1 road\n")
    return folder


def table(folder):
    return write(folder / "t.csv", "image,bird,place,split\na.jpg,1,sea,train\nb.jpg,0,land,test\n")


def long_table(folder):
    return write(folder / "t.csv", "image_id,class,area\n1,cat,0.5\n2,road,0.25\n")


def image_folder(folder):
    picture(folder / "cat" / "1.jpg")
    picture(folder / "dog" / "2.jpg")
    return folder


KINDS = {
    coco: "coco", coco_file: "coco", yolo: "boxes", yolo_yaml: "boxes", voc: "boxes",
    openimages: "boxes", maps: "label-maps", table: "table", long_table: "table",
    image_folder: "image-folder",
}  # fmt: skip


@pytest.mark.parametrize("made", KINDS, ids=lambda made: made.__name__)
def test_what_is_recognized_can_be_imported(made, tmp_path, run_cli):
    path = made(tmp_path / "in")
    found = recognize(path)
    assert found.kind == KINDS[made]
    done = run_cli(f"import auto {path} {tmp_path / 'out'}")
    assert done.code == 0, done.err
    assert f"recognized {found.kind}: {found.why.split(':')[0]}" in " ".join(done.err.split())
    data = nooch.load_dataset(tmp_path / "out")
    assert len(data) == (2 if made in (table, long_table, image_folder) else 1)


def test_roles_of_coco_files_are_those_of_their_names(tmp_path):
    for name in ("instances_a.json", "stuff_a.json", "captions_a.json"):
        write(tmp_path / name, document([], []))
    reading = recognize(tmp_path).reading
    files = {role: path.name for role, path in reading.files()}
    assert files == {
        "things": "instances_a.json", "stuff": "stuff_a.json", "captions": "captions_a.json",
    }  # fmt: skip


def test_splits_of_coco_files_are_those_of_their_names(tmp_path, run_cli):
    messy_files.coco(tmp_path / "annotations")
    done = run_cli(f"import auto {tmp_path} {tmp_path / 'out'}")
    assert "splits train, valid from the names" in " ".join(done.err.split())
    data = nooch.load_dataset(tmp_path / "out")
    assert dict(data.images.select("image_id", "split").iter_rows()) == {1: "train", 2: "valid"}
    assert data.captions.height == 2
    run_cli(f"import auto {tmp_path} {tmp_path / 'shares'} --split 0/0/100 --seed 1")
    assert set(nooch.load_dataset(tmp_path / "shares").images["split"]) == {"test"}


def test_files_of_stuff_alone_have_splits_and_others_no_annotations(tmp_path):
    for split in ("train", "val"):
        write(tmp_path / f"stuff_{split}.json", document([], []))
    assert recognize(tmp_path).reading.splits == ["train", "valid"]
    for split in ("train", "val"):
        (tmp_path / f"stuff_{split}.json").rename(tmp_path / f"image_info_{split}.json")
    fails(lambda: recognize(tmp_path), "image information without annotations")


def test_files_next_to_a_folder_of_annotations_are_of_something_else(tmp_path):
    write(tmp_path / "annotations" / "instances_a.json", document([], []))
    write(tmp_path / "scenes.json", '{"images": 3}')
    assert [path.name for _, path in recognize(tmp_path).reading.files()] == ["instances_a.json"]


def test_attributes_are_no_labels(tmp_path):
    found = recognize(table(tmp_path))
    assert "labels: bird" in found.why
    assert found.reading.layout.labels == ["bird"]
    assert found.reading.columns.split == "split"


def test_a_named_reader_reads_what_would_be_recognized_as_something_else(tmp_path, run_cli):
    picture(tmp_path / "in" / "cat" / "1.jpg")
    write(tmp_path / "in" / "settings.json", document([], []))
    assert recognize(tmp_path / "in").kind == "coco"
    kept = recognize(tmp_path / "in", nooch.io.Hints(reader="image-folder"))
    assert kept.reading == FolderReading(tmp_path / "in")
    own = "nooch.data.readers.image_folder:FolderReading"
    done = run_cli(f"import auto {tmp_path}/in {tmp_path}/out --reader {own}").ok()
    assert f"recognized {own}" in done.err
    assert nooch.load_dataset(tmp_path / "out").classes == ("cat",)
    typo = run_cli(f"import auto {tmp_path}/in x --reader image-foldr")
    typo.refused("did you mean image-folder")


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        ("nowhere:Reader", "cannot be imported"),
        ("pathlib:Path", "PosixPath without files, check, dependencies, scan"),
        ("boxes", "nooch import boxes"),
        ("coco", "nooch import coco"),
    ],
)
def test_what_is_not_a_reader_is_refused(reader, said, tmp_path):
    hints = nooch.io.Hints(reader=reader)
    fails(lambda: recognize(tmp_path, hints), "reader", said, kind=ParameterError)


def test_what_is_not_known_is_refused(tmp_path):
    write(tmp_path / "notes.md", "nothing")
    strange = write(tmp_path / "in" / "t.csv", "a,b\nx,y\n")
    fails(lambda: recognize(strange), "no column contains image ids", "a (x), b (y)", "id=...")
    fails(lambda: recognize(tmp_path / "notes.md"), ".md is not a known format")
    (tmp_path / "in" / "t.csv").unlink()
    fails(lambda: recognize(tmp_path), "contains 1 file .md, the folders in; no annotations were")
    fails(lambda: recognize(tmp_path / "in"), "contains no files")
    fails(lambda: recognize(tmp_path / "nowhere"), "no such file or folder", helps=False)
    write(tmp_path / "done" / "dataset.json", json.dumps({"format": "nooch-dataset"}))
    fails(lambda: recognize(tmp_path / "done"), "is already a dataset folder", kind=ParameterError)


def test_columns_of_different_image_files_are_asked_about(tmp_path):
    """Unless they name the same files in every row."""
    two = write(tmp_path / "two.csv", "clinic,derm,kind\na.jpg,b.jpg,nevus\nc.jpg,d.jpg,other\n")
    words = "clinic, derm name different image files", "id='clinic'", "id='derm'"
    fails(lambda: recognize(two, nooch.io.Hints(class_column="kind")), *words)
    rows = "path,short,kind\nin/a.jpg,a.jpg,nevus\nin/c.jpg,c.jpg,other\n"
    same = write(tmp_path / "same.csv", rows)
    assert "path" in recognize(same, nooch.io.Hints(class_column="kind")).why


TWICE = ("cat/1.jpg", "dog/1.jpg")
DOUBTFUL = {
    "a file with an image's name": ((*TWICE, "cat/1.txt"), "cat/1.txt has the name of"),
    "COCO further down": ((*TWICE, "cat/labels.json"), "cat/labels.json may contain annotations"),
    "a table of images": ((*TWICE, "t.csv"), "t.csv may contain annotations"),
    "a list of images": ((*TWICE, "train.txt"), "train.txt may contain annotations"),
    "maps by suffix": (("cat/1.jpg", "dog/2.jpg", "dog/2_mask.png"), "dog/2_mask.png looks like a"),
    "maps of all images": (("rgb/1.jpg", "class/1.png"), "as .png and .jpg"),
    "maps in other colors": (("one/1.png", "two/1.png"), "in other colors"),
    "maps by folder": (("cam/1.png", "camannot/1.png"), "as images and maps"),
    "names that are not counted": (
        tuple(f"{side}/IMG_{n}.jpg" for side in ("left", "right") for n in (7, 90, 204, 815)),
        "left and right have the same names, not just numbers",
    ),
    "one class": (("cat/1.jpg", "cat/2.jpg"), "one class only, cat"),
    "one class in splits": (("train/cat/1.jpg", "val/cat/2.jpg"), "one class only, cat"),
    "some splits": (("train/cat/1.jpg", "truth/cat/2.jpg"), "train names a split"),
    "splits in classes": (("a/train/1.jpg", "b/val/2.jpg"), "subfolders: train, val"),
    "images in classes": (("a/images/1.jpg", "b/images/2.jpg"), "subfolders: images"),
    "views in classes": (("old/x/A/1.jpg", "new/y/B/2.jpg", "new/notes.md"), "subfolders: x, y"),
    "words of splits": (
        ("boxes_train/1.jpg", "boxes_test/2.jpg", "query/3.jpg"),
        "boxes_test, boxes_train are named after splits",
    ),
    "a suffix on all": (
        tuple(f"{p}.jpg" for n in (7, 90, 204, 815) for p in (f"whole/{n}", f"small/{n}_thumb")),
        "small and whole have the same names",
    ),
    "a list of other classes": (("v_1/1.jpg", "v_2/2.jpg", "classes.txt"), "names none of them"),
    "a file called after an image": ((*TWICE, "truth/gt_1.txt"), "truth/gt_1.txt has the name of"),
}


def written(folder, names):
    """Images, and texts about images, of these names."""
    for name in names:
        if name.endswith((".jpg", ".png")):
            picture(folder / name)
        else:
            coco_text = document([image(1, file_name="1.jpg")], [])
            texts = {"cat/labels.json": coco_text, "t.csv": "image_id,class\n1,cat\n"}
            write(folder / name, texts.get(name, "images/1.jpg 0\n"))
    for gray in (folder / "two").glob("*.png"):
        Image.new("L", (4, 4)).save(gray)
    return folder


@pytest.mark.parametrize("name", DOUBTFUL)
def test_folders_are_classes_only_if_nothing_speaks_against_it(name, tmp_path, run_cli):
    names, seen = DOUBTFUL[name]
    source = written(tmp_path / "in", names)
    done = run_cli(f"import auto {source} {tmp_path}/out")
    words = done.refused(seen, "--reader image-folder")
    # a list of commands is spelled out, not printed
    assert not {"[", "{"} & {*words.split("remedy: ")[1]}
    run_cli(f"import auto {source} {tmp_path}/out --reader image-folder").ok()
    if name in ("COCO further down", "a table of images"):
        run_cli(f"import auto {words.split('nooch import auto ')[1]} {tmp_path}/named").ok()


CLASSES = {
    "counted alike": [f"{name}/{n}.jpg" for name in ("cat", "dog") for n in range(9)],
    "counted alike in splits": ["train/a/1.jpg", "train/b/1.jpg", "val/a/1.jpg", "val/b/1.jpg"],
    "a list of names": [*TWICE, "names.md"],
    "a word of a map": ["with_mask/1.jpg", "without_mask/1.jpg"],
}


@pytest.mark.parametrize("name", CLASSES)
def test_folders_of_classes_are_recognized(name, tmp_path):
    assert recognize(written(tmp_path, CLASSES[name])).kind == "image-folder"


def test_the_only_folder_of_a_folder_may_have_the_classes(tmp_path, run_cli):
    for number, stray in enumerate(("", "list.txt")):
        source = written(tmp_path / str(number), ["Photos/cat/1.jpg", "Photos/dog/9.jpg"])
        if stray:
            write(source / stray, "cat/1.jpg 0\n")
        words = run_cli(f"import auto {source} {tmp_path}/out").refused("Photos DATASET")
        command = words.split("nooch ")[1].split("; or")[0]
        run_cli(command.replace("DATASET", f"{tmp_path}/out{number}")).ok()
        assert nooch.load_dataset(tmp_path / f"out{number}").classes == ("cat", "dog")


def test_maps_called_after_their_images_are_read_as_it_is_said(tmp_path, run_cli):
    source = written(tmp_path / "in", ["images/a.png"])
    (source / "labels").mkdir()
    Image.new("L", (4, 4)).save(source / "labels" / "a_P.png")
    write(source / "codes.txt", "sky\nroad\n")
    words = run_cli(f"import auto {source} {tmp_path}/out").refused(
        "a_P.png looks like a label map of"
    )
    command = words.split("remedy: nooch ")[1].split("; or")[0]
    run_cli(command.replace("DATASET", f"{tmp_path}/out")).ok()
    assert nooch.load_dataset(tmp_path / "out").area("sky").tolist() == [1]


@pytest.mark.parametrize("photos", ["images/a.png", "images/a.tif", "photos/a.jpg"])
def test_maps_without_a_list_of_classes_are_seen(photos, tmp_path):
    written(tmp_path, [photos.replace(".tif", ".png")])
    (tmp_path / photos.replace(".tif", ".png")).rename(tmp_path / photos)
    (tmp_path / "masks").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "masks" / "a.png")
    fails(lambda: recognize(tmp_path), "masks/ has a label map for each image", "`classes`")
    write(tmp_path / "panoptic.json", '{"annotations": [{"segments_info": []}]}')
    fails(lambda: recognize(tmp_path), "is COCO's panoptic JSON")


def test_maps_may_lie_next_to_arrays(tmp_path, run_cli):
    source = written(tmp_path / "in", ["JPEGImages/a.jpg"])
    for name in ("SegmentationClass/a.npy", "class_names.txt"):
        write(source / name, "sky\n")
    (source / "SegmentationClassPNG").mkdir()
    Image.new("L", (4, 4)).save(source / "SegmentationClassPNG" / "a.png")
    run_cli(f"import auto {source} {tmp_path}/out").ok()
    data = nooch.load_dataset(tmp_path / "out")
    assert data.images["file_name"].to_list() == ["a.jpg"]


def test_an_image_next_to_folders_of_classes_is_named(tmp_path, run_cli):
    source = image_folder(tmp_path / "in")
    picture(source / "sample.jpg")
    words = run_cli(f"import auto {source} {tmp_path}/out").refused("such as sample.jpg")
    assert "cat, dog would be classes" in words
    run_cli(f"import auto {source} {tmp_path}/out --reader image-folder").ok()
    assert len(nooch.load_dataset(tmp_path / "out")) == 2


def test_one_sign_is_not_enough_for_a_format(tmp_path, run_cli):
    """Files with a key or an ending of another format leave the annotations next to them."""
    stray = {
        yolo: ("notes.json", '{"categories": [{"id": 0, "name": "cat"}], "info": {}}'),
        table: ("label_config.xml", "<View><Label value='cat'/></View>"),
        image_folder: ("settings.json", '{"images": []}'),
    }
    for made, (name, content) in stray.items():
        folder = tmp_path / made.__name__
        made(folder)
        write(folder / name, content)
        assert recognize(folder).kind == KINDS[made]
    assert (
        recognize(write(tmp_path / "cut.json", '{"images": [{"id": 1, "width": 3,')).kind == "coco"
    )


def test_coco_called_as_a_dataset_of_nooch_is_coco(tmp_path, run_cli):
    (coco_file(tmp_path / "in")).rename(tmp_path / "in" / "dataset.json")
    words = run_cli(f"info {tmp_path}/in").refused("nooch did not write its dataset.json")
    assert "nooch import" in words
    run_cli(f"import auto {tmp_path}/in {tmp_path}/out").ok()
    assert len(nooch.load_dataset(tmp_path / "out")) == 1


@pytest.mark.parametrize(
    ("own", "other", "root"),
    [
        ("mine/photos/1.jpg", "images/1.jpg", "mine"),
        ("mine/images/1.jpg", "mine/1.jpg", "mine"),
        ("mine/images/1.jpg", "images/1.jpg", "mine/images"),
        ("images/1.jpg", "labels/other.md", None),
    ],
)
def test_images_are_below_the_folder_of_their_annotations(own, other, root, tmp_path):
    """Where both are below it, the names in the annotations decide."""
    written(tmp_path, [own, other])
    write(tmp_path / "mine" / "coco.json", document([image(1, file_name="1.jpg")], []))
    for path in (tmp_path / "mine", tmp_path / "mine" / "coco.json"):
        assert recognize(path).images == (root and tmp_path / root)


def test_images_next_to_a_folder_of_annotations_are_its(tmp_path, run_cli):
    file = coco_file(tmp_path / "in")
    for number, path in enumerate((file, file.parent, file.parent.parent)):
        assert recognize(path).images == tmp_path / "in" / "images"
        done = run_cli(f"import auto {path} {tmp_path}/{number}").ok()
        assert f"all 1 files are below {tmp_path}/in/images" in " ".join(done.err.split())


def test_key_points_are_instances_where_no_file_has_these(tmp_path):
    def things():
        return [file.name for role, file in recognize(tmp_path).reading.files()]

    for split in ("train", "val"):
        write(tmp_path / f"person_keypoints_{split}.json", document([], []))
    assert things() == ["person_keypoints_train.json", "person_keypoints_val.json"]
    write(tmp_path / "instances_val.json", document([], []))
    assert things() == ["instances_val.json", "person_keypoints_train.json"]
    assert "left out: person_keypoints_val.json" in recognize(tmp_path).why
