"""Real photographs and annotations through the command line; numbers are counted elsewhere."""

from itertools import product

import pytest
from in_memory import read_label_maps

import nooch
from nooch.criteria import CE
from nooch.paper.published_sets import read_published
from nooch.suites import load_suite
from nooch.suites.find import find

CUES = "car=road,cow=grass,boat=water,aeroplane=sky,bicycle=road,bird=water"
# task: positives, hard positives, hard negatives at area 0.1
MSRC = {"car": (46, 2, 98), "cow": (45, 0, 174), "boat": (33, 1, 44), "aeroplane": (30, 1, 115)}
MSRC |= {"bicycle": (32, 4, 114), "bird": (38, 24, 62)}
FITTED = {
    "cow": {"grass": 0.380}, "sheep": {"grass": 0.438}, "boat": {"water": 0.315, "sky": 0.080},
    "aeroplane": {"sky": 0.140, "grass": 0.127}, "bird": {"water": 0.165, "grass": 0.152},
    "car": {}, "bicycle": {}, "dog": {},
}  # fmt: skip


@pytest.fixture
def msrc(shared_data, run_cli, tmp_path):
    folder = shared_data / "msrc-v2"
    done = run_cli(
        f"import label-maps {folder / 'labels'} --classes {folder / 'classes.txt'} --void 0"
        f" --images {folder / 'images'} {tmp_path / 'msrc'}"
    )
    assert done.code == 0, done.err
    return tmp_path / "msrc"


def test_sets_with_cues_by_hand(msrc, run_cli, tmp_path):
    options = f"--cues {CUES} --tasks {','.join(MSRC)} --out {tmp_path / 'suite'} --format json"
    done = run_cli(f"find {msrc} --criterion ce {options}")
    assert done.code == 0, done.err
    sizes = ("positives", "hard_positives", "hard_negatives")
    assert {s["task"]: tuple(s[name] for name in sizes) for s in done.json["sets"]} == MSRC


def test_cues_fitted_on_all_images(msrc, run_cli, tmp_path):
    options = f"--alpha 0.05 --tasks {','.join(FITTED)} --out {tmp_path / 'suite'}"
    done = run_cli(f"find {msrc} --criterion ce {options}")
    assert done.code == 0, done.err
    shown = run_cli(f"show {tmp_path / 'suite'} --format json").json
    fitted = shown["criteria"]["ce"]["cues"]
    found = {task: {c["cue"]: c["A"] for c in cues} for task, cues in fitted.items()}
    assert {t: set(c) for t, c in found.items()} == {t: set(c) for t, c in FITTED.items()}
    for task, cues in FITTED.items():
        assert found[task] == pytest.approx(cues, abs=5e-4)
    assert [s["task"] for s in shown["skipped"]] == ["car", "bicycle", "dog"]


def test_every_hard_image_is_there_and_is_explained(msrc, shared_data, run_cli, tmp_path):
    run_cli(f"find {msrc} --criterion ce --cues {CUES} --tasks car,bird --out {tmp_path / 'suite'}")
    suite = load_suite(tmp_path / "suite")
    for image_id in suite.set("ce", "car", "all").ids("hard"):
        assert (shared_data / "msrc-v2" / "images" / f"{image_id}.jpg").is_file()
    first, _ = suite.set("ce", "car", "all").ids("hard_positive")
    explained = run_cli(f"explain {tmp_path / 'suite'} --task car --image {first}")
    assert "hard positive: context support" in explained.out
    assert "road covers" in explained.out


# what the published sets follow, checked where areas are exact: these cues, and 0.1 of the image
RULE = {"tie": ["person"], "backpack": ["person"], "bowl": ["dining_table"]}
RULE |= {"cup": ["person", "dining_table"]}


def test_the_rule_gives_the_published_verdict_without_exception(shared_data):
    data = read_label_maps(shared_data / "cocostuff-maps" / "label", "cocostuff")
    suite = find(data, {"ce": CE(cues=RULE)}, tasks=list(RULE))
    published = read_published(shared_data / "nooch-published")
    sets = {(p.criterion, p.task, p.split, p.side): p.ids.tolist() for p in published.sets}
    assert len(data) == 13
    checked, hard = [], 0
    for task in RULE:
        challenge = suite.set("ce", task, "all")
        for split in ("valid", "test"):
            here = set(challenge.image_ids) & set(published.splits[split].tolist())
            for side in ("positive", "negative"):
                ours = set(challenge.ids(f"hard_{side}")) & here
                assert ours == set(sets["ce", task, split, side]) & here, (task, split, side)
                hard += len(ours)
            checked.append(len(here))
    # the other 8 maps are of published training images, for which nothing was published
    assert checked == [1, 4] * len(RULE)
    assert hard == 9


def test_labels_and_areas_of_the_rule_from_official_json(shared_data, run_cli, tmp_path):
    """The same verdicts from instances JSON: the cues are things, so no stuff file is needed."""
    real = shared_data / "coco-real"
    parts = (("coco128", "train"), ("coco-tiny", "train"), ("coco-tiny", "val"))
    files = [real / name / "annotations" / f"instances_{s}2017.json" for name, s in parts]
    published = shared_data / "nooch-published"
    things = " ".join(f"--things {file}" for file in files)
    captions = shared_data / "captions" / "captions_val2017.json"
    split = published / "cocostuff_split_image_ids.npz"
    options = f"--captions {captions} --images {real} --split {split} --format json"
    done = run_cli(f"import coco {things} {options} {tmp_path / 'real'}")
    assert done.code == 0, done.err
    assert done.json["images"] == 288
    assert "captions of images that no annotation file lists" in done.err
    cues = ",".join(f"{task}={'+'.join(names)}" for task, names in RULE.items())
    options = f"--cues {cues} --tasks {','.join(RULE)} --out {tmp_path / 'suite'}"
    found = run_cli(f"find {tmp_path / 'real'} --criterion ce {options}")
    assert found.code == 0, found.err
    suite, theirs = nooch.load_suite(tmp_path / "suite"), nooch.load_suite("nooch-coco")
    images, n_hard = dict.fromkeys(RULE, 0), 0
    for task, split in product(RULE, ("valid", "test")):
        ours = suite.set("ce", task, split)
        images[task] += len(ours)
        for side in ("hard_positive", "hard_negative"):
            published_ids = set(theirs.set("ce", task, split).ids(side)) & set(ours.image_ids)
            assert set(ours.ids(side)) == published_ids, (task, split, side)
            n_hard += len(published_ids)
    # the other 193 images are of the published training split: 95 of 288 can be compared
    assert images == dict.fromkeys(RULE, 95)
    assert n_hard == 82


def test_gist_needs_captions_and_says_so(msrc, run_cli, tmp_path):
    done = run_cli(
        f"find {msrc} --criterion gist --encoder lexical --tau 0.5 --out {tmp_path / 'suite'}"
    )
    assert done.code == 2
    assert "no captions" in done.err
    assert not (tmp_path / "suite").exists()


def test_waterbirds_by_the_exact_commands(shared_data, run_cli, tmp_path):
    done = run_cli(
        f"import table {shared_data / 'waterbirds' / 'metadata.csv'} --id img_id --label y"
        f" --split-column split --split-values 0=train,1=valid,2=test {tmp_path / 'birds'} --format"
        " json"
    )
    assert done.code == 0, done.err
    assert done.json["splits"] == {"train": 4795, "valid": 1199, "test": 5794}
    found = run_cli(
        f"find {tmp_path / 'birds'} --criterion attribute --phi 'place != y' --out"
        f" {tmp_path / 'suite'} --split train,test --format json"
    )
    assert found.code == 0, found.err
    train, test = found.json["sets"]
    # train groups (y, place): 3498 / 184 / 56 / 1057
    assert (train["hard_negatives"], train["hard_positives"]) == (184, 56)
    assert (train["negatives"], train["positives"]) == (3498 + 184, 56 + 1057)
    suite = load_suite(tmp_path / "suite")
    assert len(suite.in_context("attribute", "y")) == 3498 + 1057
    hard = suite.set("attribute", "y", "test").ids("hard")
    assert test["hard_negatives"] + test["hard_positives"] == len(hard)
    refused = run_cli(f"find {tmp_path / 'birds'} --criterion ce --out {tmp_path / 'ce'}")
    assert refused.code == 2
    assert "areas are unknown" in refused.err
    assert not (tmp_path / "ce").exists()
