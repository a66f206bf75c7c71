"""Questions as VLMEvalKit's TSV."""

import base64
from dataclasses import replace
from functools import partial

import polars as pl
from refusals import fails, refused

from nooch.evaluation.answers import read_answers
from nooch.report.exports.export import export
from nooch.suites.questions import load_questions

COLUMNS = ["index", "question", "A", "B", "answer", "category", "l2-category"]


def _written(out):
    """The table, and the questions."""
    table = pl.read_csv(out / "nooch_questions.tsv", separator="\t")
    return table, load_questions(out / "questions.parquet").frame


def test_each_row_is_a_question_of_two_options(made, run_cli, tmp_path):
    run_cli(f"export {made.folder}/suite {tmp_path}/q --to vlmevalkit --per-set 2").ok()
    table, asked = _written(tmp_path / "q")
    assert table.columns == [*COLUMNS, "image_path"]
    assert table["index"].to_list() == asked["question_id"].to_list()
    assert table["question"].to_list() == asked["text"].to_list()
    assert (set(table["A"]), set(table["B"])) == ({"Yes"}, {"No"})
    assert [a == "A" for a in table["answer"]] == (asked["label"] == 1).to_list()
    assert table["l2-category"].to_list() == asked["task"].to_list()
    assert table["category"].to_list() == [f"ce:{subset}" for subset in asked["ce"]]
    root = (made.folder / "images").resolve()
    assert table["image_path"].to_list() == [str(root / name) for name in asked["image"]]


def test_an_image_in_base64_is_written_once(made, tmp_path):
    out = tmp_path / "q"
    export(made.suite, "vlmevalkit", out, data=made.data, images_as="bytes", splits=["test"])
    table, asked = _written(out)
    assert table.columns == [*COLUMNS, "image"]
    # as the loader finds it: up to 64 characters are the index of another question
    image_of = dict(zip(table["index"].cast(pl.String), table["image"], strict=True))
    short = [text for text in image_of.values() if len(text) <= 64]
    assert len(short) == asked.height - asked["image"].n_unique() > 0
    for text, name in zip(image_of.values(), asked["image"], strict=True):
        content = image_of[text] if len(text) <= 64 else text
        assert base64.b64decode(content) == (made.folder / "images" / name).read_bytes()


def test_the_first_criterion_with_a_verdict_is_the_category(make_suite, tmp_path):
    suite = make_suite({"ce": ["car"], "gist": ["car", "dog"]}, list(range(1, 9)))
    images = tmp_path / "images"
    images.mkdir()
    for number in range(1, 9):
        (images / f"{number}.png").touch()
    export(suite, "vlmevalkit", tmp_path / "q", images=images)
    table, _ = _written(tmp_path / "q")
    rows = table.select("l2-category", pl.col("category").str.split(":").list.first()).iter_rows()
    assert set(rows) == {("car", "ce"), ("dog", "gist")}


def test_tabs_quotes_and_new_lines_stay_in_their_cell(made, tmp_path):
    template = 'Say "yes"\tor "no":\nis there {a} {task}?'
    options = {"data": made.data, "per_set": 1, "template": template}
    export(made.suite, "vlmevalkit", tmp_path / "q", **options)
    table, asked = _written(tmp_path / "q")
    assert table["question"].to_list() == asked["text"].to_list()
    assert "\t" in table["question"][0]


def test_its_predictions_lead_back_to_the_questions(made, tmp_path):
    export(made.suite, "vlmevalkit", tmp_path / "q", data=made.data, per_set=2)
    table, asked = _written(tmp_path / "q")
    file = tmp_path / "q" / "model_nooch_questions.tsv"
    predictions = table.with_columns(prediction=pl.col("answer"))
    predictions.write_csv(file, separator="\t", quote_style="always")
    answers = read_answers(file, made.suite)
    assert answers.rule == "tolerant"
    keys = ["image_id", "task"]
    assert answers.frame.sort(keys)["yes"].to_list() == asked.sort(keys)["label"].to_list()


def test_it_needs_image_files(made, tmp_path):
    bare = replace(made.data, image_root=str(tmp_path / "gone"))
    write = partial(export, made.suite, "vlmevalkit", tmp_path / "q", data=made.data)
    fails(lambda: write(data=bare), "needs the image files", "`images`")
    refused(lambda: write(images_as="base64"), "'base64' is no images_as", "bytes, paths")
    images = tmp_path / "images"
    images.mkdir()
    for name in made.data.images["file_name"]:
        (images / name).write_bytes(b"no image")
    text = fails(lambda: write(data=bare, images=images, images_as="bytes"), "8 bytes", helps=False)
    assert "is no image" in text
    assert not (tmp_path / "q").exists()


def test_a_file_that_leads_out_of_the_folder_is_not_read(made, published, tmp_path):
    outside = made.data.images.with_columns(file_name=pl.lit("../secret.png"))
    (tmp_path / "images").mkdir()
    (tmp_path / "secret.png").write_bytes(bytes(100))
    data = replace(made.data, images=outside, image_root=str(tmp_path / "images"))
    act = partial(export, published, "vlmevalkit", tmp_path / "q", data=data, images_as="bytes")
    fails(act, "images are not there")
