"""The suites nooch-pope and nooch-amber of the package."""

import importlib.util
import json
import sys
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

import nooch
from nooch.evaluation.captions import score_captions
from nooch.suites.questions import Draw, draw_questions, match_tasks

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "nooch" / "suites" / "shipped"
CATEGORIES = "adversarial", "popular", "random"


@pytest.fixture(scope="module")
def pope():
    return nooch.load_suite("nooch-pope")


@pytest.fixture(scope="module")
def amber():
    return nooch.load_suite("nooch-amber")


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("nooch-pope", 120_000),
        ("nooch-amber", 100_000),
        ("nooch-opera", 40_000),
    ],
)
def test_files_are_small_and_have_notices(name, most):
    assert (FOLDER / f"{name}.parquet").stat().st_size < most
    notice = (FOLDER / f"{name}.NOTICE.txt").read_text(encoding="utf-8")
    of = {"nooch-pope": ("MIT License", "Attribution 4.0"), "nooch-amber": ("Apache License",),
          "nooch-opera": ("Attribution 4.0",)}  # fmt: skip
    assert all(words in " ".join(notice.split()) for words in of[name])
    assert nooch.load_suite(name).header.dataset.licenses


def test_the_script_makes_them(shared_data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    script = ROOT / "scripts" / "make_nooch_pope.py"
    spec = importlib.util.spec_from_file_location("make_nooch_pope", script)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    monkeypatch.setattr(sys, "argv", [script.name, str(shared_data), "--out", str(tmp_path)])
    made.main()
    for name in ("nooch-pope", "nooch-amber", "nooch-opera"):
        new, old = (pq.ParquetFile(folder / f"{name}.parquet") for folder in (tmp_path, FOLDER))
        assert new.read().equals(old.read()), name
        assert new.metadata.metadata == old.metadata.metadata
        notice = f"{name}.NOTICE.txt"
        assert (tmp_path / notice).read_bytes() == (FOLDER / notice).read_bytes()


def test_pope_s_questions_and_labels(pope, shared_data):
    lists = pope.question_lists
    sizes = {name: len(asked) for name, asked in lists.items()}
    assert sizes == dict.fromkeys(CATEGORIES, 3000) | {"first_random": 2910, "vlmevalkit": 5127}
    for name in CATEGORIES:
        file = shared_data / "vlm" / "pope" / f"coco_pope_{name}.json"
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        asked = [(int(row["image"][-16:-4]), row["label"] == "yes") for row in rows]
        assert list(lists[name].select("image_id", "label").iter_rows()) == asked
        texts = pl.Series([row["text"] for row in rows])
        assert match_tasks(texts, pope).to_list() == lists[name]["task"].to_list()
    # and the 149 labels that COCO's annotations do not have
    file = shared_data / "answers" / "pope-labels" / "pope_yes_without_coco_annotation.csv"
    listed = pl.read_csv(file).select(
        pl.col("image").str.slice(-16, 12).cast(pl.Int64), pl.col("object").str.replace(" ", "_")
    )
    assert set(listed.iter_rows()) == set(pope.suspects.iter_rows())
    assert pope.pairs.filter("suspect")["label"].all()


def test_hard_is_what_the_context_suggests(pope):
    rows = pope.pairs.filter(task="dining_table")
    cells = rows.filter(~pl.col("label"), pl.col("support/context") > 1.0986)["image_id"]
    assert pope.set("context", "dining_table", "all").ids("hard_negative") == cells.to_list()
    cells = rows.filter("label", pl.col("support/context") < 0)["image_id"]
    assert pope.set("context", "dining_table", "all").ids("hard_positive") == cells.to_list()


def test_pope_s_pairs_are_asked_about(pope):
    asked = draw_questions(pope, pope.select_keys(), Draw()).frame
    assert asked["weight"].eq(1).all()
    pairs = ["image_id", "task", "label"]
    every = pope.question_lists["vlmevalkit"].with_columns(pl.col("label").cast(pl.Int8))
    assert asked.select(pairs).sort(pairs).equals(every.select(pairs).sort(pairs))


def test_captions_of_amber_in_one_command(run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = {"id": "1", "question": "Describe this image.", "image": "/there/AMBER_1.jpg"}
    text = "Three persons on the grass under a cloud, next to trees and two dogs."
    Path("model.jsonl").write_text(json.dumps({**row, "text": text}), encoding="utf-8")
    said = run_cli("captions nooch-amber model.jsonl --format json").ok()
    assert said.json["settings"]["synonyms"] == "names"
    assert [line.split(":")[0] for line in said.json["headlines"][::2]] == [
        "model, context", "model, without suspects, context",
        "model, expected", "model, without suspects, expected",
    ]  # fmt: skip
    # annotators expect a cloud, a sun, a bird, a dog and a flower; trees are a true forest's
    rates = {
        (row["run"], row["subset"]): (row["value"], row["n"])
        for row in said.json["scores"]
        if (row["criterion"], row["task"], row["metric"]) == ("expected", "pooled", "rate")
    }
    assert rates["model", "hard_negative"] == (0.4, 5)
    assert rates["model", "easy_negative"][0] == 1 / rates["model", "easy_negative"][1]
    assert "20.0%" not in said.json["headlines"][6]
    assert ", 0.0% [" in said.json["headlines"][6]


def test_captions_of_amber_are_as_known(amber, shared_data):
    """An independent run: LLaVA 1.5 7B 3.2 : 1.2 = 2.5 [2.1, 3.1], DPO 1.8 [1.4, 2.3]."""
    folder = shared_data / "answers" / "mitigation-answers"
    files = [
        folder / f"{name}.amber.jsonl" for name in ("llava15_base_7b", "direct_paper_hsa_b32_e1")
    ]
    scores = score_captions(amber, files, criteria=["context"], bootstrap=0)
    for run, (low, known, high) in zip(
        ("llava15_base_7b", "direct_paper_hsa_b32_e1"),
        ((2.1, 2.5, 3.1), (1.4, 1.8, 2.3)),
        strict=True,
    ):
        ratio = scores.contexts[f"{run}.amber", "context"].estimates["ratio", "negative"]
        assert low < ratio.value < high
        assert ratio.low < known < ratio.high
