"""Scores of captions: rates, ratios, absent mentions, CHAIR, and the table of real captions."""

import json

import numpy as np
import polars as pl
import pytest
from refusals import fails, refused
from scipy.sparse import csr_array

from nooch.criteria import CE
from nooch.data import Dataset
from nooch.evaluation.captions import score_captions
from nooch.evaluation.metrics.proportions import paired_interval
from nooch.report import save_scores
from nooch.suites import load_suite
from nooch.suites.find import find

WORDS = {
    "car": "car cars vehicle vehicles suv sedan taxi cab",
    "bowl": "bowl bowls",
    "boat": "boat boats ship ships sailboat sailboats kayak canoe ferry yacht",
    "fire_hydrant": "hydrant hydrants",
    "airplane": "airplane airplanes plane planes jet jets aircraft airliner",
    "cow": "cow cows cattle bull bulls calf",
    "backpack": "backpack backpacks",
    "cup": "cup cups mug mugs",
    "surfboard": "surfboard surfboards",
    "tie": "tie ties necktie",
    "sports_ball": "ball balls baseball soccer_ball football",
    "kite": "kite kites",
}

# run, criterion -> recall on hard and easy positives, mentions on hard and easy negatives, ratio,
# odds ratio; computed elsewhere
KNOWN = {
    ("Instruction1_instructblip", "ce"): (0.297, 0.349, 0.0044, 0.0010, 4.4, 5.3),
    ("Instruction1_llava", "ce"): (0.664, 0.825, 0.0668, 0.0180, 3.7, 4.9),
    ("Instruction1_minigpt-4", "ce"): (0.422, 0.627, 0.0281, 0.0052, 5.4, 11.0),
    ("Instruction2_instructblip", "ce"): (0.281, 0.355, 0.0062, 0.0008, 7.3, 8.1),
    ("Instruction2_llava", "ce"): (0.531, 0.717, 0.0308, 0.0062, 4.9, 5.3),
    ("Instruction2_minigpt-4", "ce"): (0.281, 0.434, 0.0114, 0.0010, 11.3, 15.3),
    ("Instruction1_instructblip", "gist"): (0.220, 0.398, 0.0060, 0.0007, 8.9, 34.7),
    ("Instruction1_llava", "gist"): (0.619, 0.847, 0.0835, 0.0145, 5.7, 12.3),
    ("Instruction1_minigpt-4", "gist"): (0.398, 0.631, 0.0301, 0.0047, 6.4, 22.5),
    ("Instruction2_instructblip", "gist"): (0.212, 0.398, 0.0078, 0.0005, 15.3, 60.1),
    ("Instruction2_llava", "gist"): (0.500, 0.727, 0.0388, 0.0046, 8.5, 12.0),
    ("Instruction2_minigpt-4", "gist"): (0.246, 0.449, 0.0129, 0.0007, 19.1, 82.1),
}
ORDER = [
    ("rate", "hard_positive", 3), ("rate", "easy_positive", 3), ("rate", "hard_negative", 4),
    ("rate", "easy_negative", 4), ("ratio", "negative", 1), ("odds_ratio", "negative", 1),
]  # fmt: skip


@pytest.fixture
def words(tmp_path):
    lines = [
        f"{task}: [{', '.join(text.replace('_', ' ') for text in some.split())}]"
        for task, some in WORDS.items()
    ]
    (tmp_path / "words.yaml").write_text("\n".join(lines))
    return tmp_path / "words.yaml"


def test_real_captions_of_three_models(shared_data, words):
    files = sorted((shared_data / "vlm" / "captions").glob("*.json"))
    suite = load_suite("nooch-coco")
    options = {"synonyms": words, "bootstrap": 0, "as_written": True}
    scores = score_captions(suite, files, split=["valid", "test"], **options).table
    pooled = {row[:4]: row[4] for row in scores.filter(task="pooled").select(
        "run", "criterion", "metric", "subset", "value").iter_rows()}  # fmt: skip
    for key, known in KNOWN.items():
        got = [round(pooled[(*key, measure, subset)], digits) for measure, subset, digits in ORDER]
        assert got == pytest.approx(known, abs=1e-9), key
    counts = scores.filter(task="pooled", metric="rate", criterion="ce", run="Instruction1_llava")
    assert counts["n"].to_list() == [128, 1137, 166, 5937]


@pytest.fixture(scope="module")
def suite():
    return load_suite("nooch-coco").only(["car", "boat"])


@pytest.fixture
def written(tmp_path):
    def write(records, name="model.json"):
        (tmp_path / name).write_text(json.dumps(records))
        return tmp_path / name

    return write


def _value(scores, metric, subset, task="pooled"):
    row = scores.table.filter(metric=metric, subset=subset, task=task, criterion="ce")
    return row["value"].item(), row["n"].item()


def test_rates_and_absent_mentions_by_hand(suite, written, tmp_path):
    car = suite.set("ce", "car", "test")
    hard, easy = car.ids("hard_negative")[:2], car.ids("easy_negative")[:3]
    captions = [
        {"image_id": hard[0], "caption": "A car, a car and a tree."},
        {"image_id": hard[1], "caption": "a road"},
        {"image_id": hard[1], "caption": "a taxi on a road"},
        *({"image_id": image, "caption": "nothing"} for image in easy),
        {"image_id": 999_999_999, "caption": "a car"},
    ]
    scores = score_captions(suite, written(captions), criteria=["ce"], tasks=["car"], bootstrap=20)
    # one image mentions it, of another half of the captions do
    assert _value(scores, "rate", "hard_negative") == (0.75, 2)
    # as an answer, half of an image's captions are no yes
    assert _value(scores, "fpr", "hard_negative", "car") == (0.5, 2)
    assert _value(scores, "rate", "easy_negative") == (0.0, 3)
    assert _value(scores, "ratio", "negative") == (None, 5)
    # three of three mentions are of absent objects, in two of six captions
    assert _value(scores, "mentions_i", "all") == (1.0, 3)
    assert _value(scores, "mentions_s", "all") == (pytest.approx(2 / 6), 6)
    assert "model: 1 captions belong to images that are not in the suite" in scores.notes
    assert "mentions an absent object: 75.0%" in scores.headlines[0]
    assert "CaptionScores" in repr(scores)
    for ending, start in ((".csv", b"run,method"), (".json", b"{"), (".parquet", b"PAR1")):
        (file,) = save_scores(scores, tmp_path / f"s{ending}")
        assert file.read_bytes().startswith(start)


def test_denials_lengths_and_sentences_that_were_cut_off(suite, written):
    hard = suite.set("ce", "car", "test").ids("hard_negative")[:2]
    texts = ["A road with no cars. A car is", "A car on a road. A car and a truck."]
    short = ["A road.", "A road and a sky. A car."]
    files = [
        written([{"image_id": i, "caption": t} for i, t in zip(hard, some, strict=True)], name)
        for some, name in ((texts, "a.json"), (short, "b.json"))
    ]
    options = {"criteria": ["ce"], "tasks": ["car"], "bootstrap": 0}
    scores = score_captions(suite, files, **options)
    values = {
        (row["run"], row["metric"]): row["value"]
        for row in scores.table.filter(task="pooled", subset="all").iter_rows(named=True)
    }
    assert (values["a", "words"], values["b", "words"]) == (7.5, 4.5)
    assert (values["a", "denied"], values["b", "denied"]) == (pytest.approx(1 / 3), 0)
    assert (values["a", "mentions_s"], values["b", "mentions_s"]) == (0.5, 0.5)
    # of the second image's captions, 7 words each
    assert (values["a", "mentions_s_equal"], values["b", "mentions_s_equal"]) == (0.5, 0.5)
    alone = score_captions(suite, files[0], **options)
    assert _value(alone, "rate", "hard_negative") == (0.5, 2)
    written_so = score_captions(suite, files[0], **options, as_written=True)
    assert _value(written_so, "rate", "hard_negative") == (1.0, 2)


def test_reasoning_is_no_part_of_a_caption(suite, written):
    images = suite.set("ce", "car", "test").ids("hard_negative")[:4]
    texts = ["<think>Is that a car?</think>A road.", "A car? No.</think>\n\nA road with a car.",
             "<think>There may be a car", "A road."]  # fmt: skip
    file = written([{"image_id": i, "caption": t} for i, t in zip(images, texts, strict=True)])
    scores = score_captions(suite, file, criteria=["ce"], tasks=["car"], bootstrap=0)
    assert _value(scores, "rate", "hard_negative") == (None, 4)
    rate = scores.contexts["model", "ce"].estimates["rate", "hard_negative"]
    assert (rate.least, rate.most, rate.value) == (0.25, 0.5, 0.5)
    assert any("1 text without an answer (or only reasoning)" in note for note in scores.notes)


@pytest.mark.parametrize(
    "record",
    [
        lambda image, text: {"image_id": image, "caption": text},
        lambda image, text: {"question_id": 1, "image_id": image, "text": text},
        lambda image, text: {"id": image, "response": text},
        lambda image, text: {"image": f"val/COCO_val2014_{image:012d}.jpg", "text": text},
    ],
)
def test_formats(suite, written, record):
    image = suite.set("ce", "boat", "test").ids("hard_negative")[0]
    scores = score_captions(suite, written([record(image, "two ships")]), bootstrap=0)
    assert _value(scores, "fpr", "hard_negative", "boat") == (1.0, 1)


def test_images_of_question_ids_come_from_another_file(suite, written):
    ids = suite.set("ce", "boat", "test").ids("hard_negative")[:2]
    known = [{"question_id": n, "image_id": i, "text": "water"} for n, i in enumerate(ids)]
    other = [{"question_id": n, "text": "a ferry"} for n in range(2)]
    files = [written(known, "known.json"), written(other, "other.json")]
    table = score_captions(suite, files, bootstrap=0).table.filter(task="boat", criterion="ce")
    rates = table.filter(metric="fpr", subset="hard_negative").select("run", "value").rows()
    assert rates == [("known", 0.0), ("other", 1.0)]
    fails(lambda: score_captions(suite, files[1]), "images of 2 questions are not known: 0, 1")
    more = written([*other, {"question_id": 7, "text": "a"}], "more.json")
    fails(lambda: score_captions(suite, [files[0], more]), "images of 1 questions", "7")
    conflict = written([{**known[0], "image_id": ids[1]}], "conflict.json")
    fails(lambda: score_captions(suite, [files[0], conflict]), "question 0 is about image")


def _captions(ids, mentioned):
    return [{"image_id": i, "caption": "a car" if i in mentioned else "a road"} for i in ids]


def test_differences_are_paired_on_the_same_images(suite, written, tmp_path):
    car = suite.set("ce", "car", "test")
    hard, easy = car.ids("hard_negative")[:40], car.ids("easy_negative")[:40]
    some, more = {*hard[:10], *easy[:3]}, {*hard[:16], *easy[:3]}
    files = [written(_captions(hard + easy, m), f"{n}.json") for n, m in (("a", some), ("b", more))]
    options = {"criteria": ["ce"], "tasks": ["car"], "bootstrap": 60, "seed": 3}
    scores = score_captions(suite, files, **options)
    rows = scores.differences.filter(task="car", metric="fpr", subset="hard_negative")
    row = rows.row(0, named=True)
    assert (row["run"], row["baseline"], row["n"]) == ("b", "a", 40)
    assert row["difference"] == pytest.approx(6 / 40)
    # six of 40 captions say more, none less
    low, high = paired_interval(np.array(6 / 40), np.array(0.0), 40)
    assert [row["low"], row["high"]] == pytest.approx([float(low), float(high)])
    assert low > 0
    recall = scores.differences.filter(task="car", metric="recall", subset="hard")
    assert recall.select("difference", "low").row(0) == (None, None)
    assert recall["reason"][0] is not None
    titles = ["Mentions by context", "Absent mentions", "Changes from a on ce"]
    titles += ["Changes from a on ce, captions cut to the shorter of the pair"]
    assert [table.title for table in scores.tables] == titles
    assert "40.0 [" in scores.tables[0].text()
    names = [file.name for file in save_scores(scores, tmp_path / "s.csv")]
    assert names == ["s.csv", "s-differences.csv"]
    other = score_captions(suite, files, **options, baseline="b").differences
    assert set(other["run"]) == {"a"}
    files[1] = written(_captions(hard, more), "fewer.json")
    scores = score_captions(suite, files, **options)
    assert "fewer: 40 of 80 images and tasks that were asked about have no answer" in scores.notes
    (line,) = (line for line in scores.headlines if line.startswith("fewer, ce"))
    assert "0.0 to 100.0% [" in line
    assert scores.differences["difference"].null_count() == scores.differences.height
    refused(lambda: score_captions(suite, files, baseline="c"), "'c' is not a run of the captions")
    fails(lambda: score_captions(suite, [files[0], files[0]]), "given twice")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.json").write_bytes(files[0].read_bytes())
    runs = score_captions(suite, [files[0], tmp_path / "deep" / "a.json"], **options).table["run"]
    assert set(runs) == {str(files[0]), str(tmp_path / "deep" / "a.json")}


def test_captions_of_no_scored_image_are_refused(suite, written):
    image = suite.set("ce", "car", "valid").ids("hard_negative")[0]
    file = written([{"image_id": image, "caption": "a car"}])
    fails(lambda: score_captions(suite, file), "sets that are scored", "`split`")


@pytest.mark.parametrize(
    ("records", "part"),
    [
        ([], "contains no record"),
        ([{"image_id": 9}], "record 1 has image_id"),
        ([{"caption": "x"}], "record 1 has caption"),
        ([{"image_id": 9, "caption": 4}], "record 1 has no text in caption"),
        ([{"image_id": 9, "caption": "x"}, {"image_id": 10}], "record 2 has no text"),
        ([{"image_id": "nowhere", "caption": "x"}], "such as 9, 25, 49"),
    ],
)
def test_files_that_are_refused(suite, written, records, part):
    fails(lambda: score_captions(suite, written(records)), part, "model.json", helps=False)


def test_options_that_are_refused(suite, written, tmp_path):
    file = written([{"image_id": 9, "caption": "x"}])
    (tmp_path / "few.yaml").write_text("car: [car]")
    few = {"synonyms": tmp_path / "few.yaml"}
    refused(lambda: score_captions(suite, file, **few, tasks=["boat"]), "no synonyms for boat")
    refused(lambda: score_captions(suite, file, tasks=["bot"]), "did you mean boat")
    refused(lambda: score_captions(suite, file, criteria=["cc"]), "'cc' is not a criterion")
    refused(lambda: score_captions(suite, file, split="train"), "train")
    image = suite.set("ce", "car", "test").ids("hard_negative")[0]
    known = written([{"image_id": image, "caption": "x"}])
    scores = score_captions(suite, known, **few, bootstrap=0)
    assert "1 task without synonyms left out: boat" in scores.notes
    assert set(scores.table["task"]) == {"pooled", "car"}
    assert not scores.table["value"].is_nan().any()


SYNONYMS = """person, people, woman,  worker, baby
bird, goose, gull
train, locomotive
car, automobile
chair, seat
toilet
"""
SAID = {
    1: ["A baby bird next to two geese.", "A woman."],
    2: ["No cars, but a train on a train track.", "a toilet seat and an adult"],
    3: ["a worker on a seat. A gull", "passenger trains and"],
    4: ["a car and a car", "grass"],
}
LABELS = {1: {"bird"}, 2: {"train", "car"}, 3: {"chair"}, 4: set()}
REFERENCES = {1: ["a lady, i.e. a woman"], 2: ["no toilet"], 3: ["people"], 4: []}
# of the classes of the file, mentions in each caption, negated and cut off or not
MENTIONS = {
    1: [["bird", "bird"], ["person"]], 2: [["car", "train"], ["toilet"]],
    3: [["person", "chair", "bird"], ["train"]], 4: [["car", "car"], []],
}  # fmt: skip


@pytest.fixture
def with_references():
    """Images whose labels and captions are above; in the fourth one, cars are not known."""
    classes = ["bird", "car", "chair", "person", "toilet", "train", "road"]
    areas = np.array([[float(name in LABELS[i]) / 8 for name in classes] for i in LABELS])
    areas[:, 6] = 0.2
    captions = [(i, text) for i, some in REFERENCES.items() for text in some]
    return Dataset.build(
        pl.DataFrame({"image_id": [*LABELS]}), classes, csr_array(areas),
        pl.DataFrame(captions, ["image_id", "caption"], orient="row"),
        unknown=csr_array(([1], ([3], [1])), shape=areas.shape),
    )  # fmt: skip


def test_chair_is_the_definition(with_references, written, tmp_path):
    """An object is there if a label or a reference caption has it; every word counts."""
    data, words = with_references, tmp_path / "synonyms.txt"
    words.write_text(SYNONYMS)
    suite = find(data, CE(cues={"bird": ("road",), "train": ("road",)}), tasks=["bird", "train"])
    file = written([{"image_id": i, "caption": t} for i, some in SAID.items() for t in some])
    options = {"synonyms": words, "bootstrap": 0}
    scores = score_captions(suite, file, data=data, **options)
    wrong = total = captions = 0
    for image, some in MENTIONS.items():
        there = LABELS[image] | {1: {"person"}, 2: {"toilet"}, 3: {"person"}}.get(image, set())
        for names in some:
            known = [name for name in names if (image, name) != (4, "car")]
            absent = [name for name in known if name not in there]
            wrong, total = wrong + len(absent), total + len(known)
            captions += bool(absent)
    assert (wrong, total, captions) == (2, 10, 2)
    assert _value(scores, "chair_i", "all") == (pytest.approx(wrong / total), total)
    assert _value(scores, "chair_s", "all") == (pytest.approx(captions / 8), 8)
    assert "CHAIR_i" in scores.tables[1].columns
    # the suite's own dataset, or none that has captions
    own = score_captions(suite, file, **options)
    assert _value(own, "chair_i", "all") == _value(scores, "chair_i", "all")
    bare = data.build(data.images, data.classes, data.areas)
    without = score_captions(suite, file, data=bare, **options)
    assert any("CHAIR is not computed: it needs `data`" in note for note in without.notes)
    assert "chair_i" not in without.table["metric"].to_list()
    other = data.select(rows=np.zeros(4, bool))
    fails(lambda: score_captions(suite, file, data=other, **options), "none of the images")
    for content in ("car: [car]\n", " , \n"):
        words.write_text(content)
        fails(lambda: score_captions(suite, file, **options), "not a list of synonyms", ".yaml")
