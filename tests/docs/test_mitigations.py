"""docs/mitigations.md: its tables and figure are what the example gives; a small made world."""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import nooch

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mitigations.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def mitigations():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "examples")
        import mitigations
    return mitigations


@pytest.fixture(scope="module")
def report(mitigations, shared_data):
    """File name -> content."""
    if not (shared_data / "answers").is_dir():
        pytest.skip("there are no files of answers")
    return mitigations.report(shared_data)


def test_the_tables_of_the_page(report):
    tables = report["tables.md"].decode().strip().split("\n\n")
    assert len(tables) == PAGE.count("|---|\n") == 5
    assert len(tables[0].splitlines()) == 2 + 16
    for table in tables:
        assert f"\n\n{table}\n" in PAGE


def test_the_figure_of_the_page(report):
    kept = (ROOT / "docs" / "mitigations.svg").read_text(encoding="utf-8")
    for pattern in (r"<text[^>]*>([^<]*)", r"<(use|path)\b"):
        found = re.findall(pattern, report["mitigations.svg"].decode())
        assert found == re.findall(pattern, kept)
        assert len(found) > 20


def test_the_figures_known(report):
    """An independent run has ratios within the intervals here."""
    rows = [line.strip("| ").split(" | ") for line in report["tables.md"].decode().splitlines()]
    known = [13.7, 12.0, 13.4, 14.0, None, 13.4, 10.0, None, 10.1]
    known += [3.5, 3.0, 3.4, 3.4, 2.5, 1.8, 1.8]
    for row, ratio in zip(rows[2:18], known, strict=True):
        low, high = map(float, re.search(r"\[([\d.]+), ([\d.]+)\]", row[5]).group(1, 2))
        assert ratio is None or low <= ratio <= high


def _lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def test_a_made_world(mitigations, tmp_path):
    """All sixteen files, made: captions that name a thing or none, answers by chance."""
    random, n = np.random.default_rng(2), 600
    place = random.random(n) < 0.5
    labels = np.zeros((n, 80), np.uint8)
    labels[:, 0], labels[:, 1] = place, random.random(n) < np.where(place, 0.6, 0.05)
    labels[:, 2] = ~place
    names = ["car", "bus", "cat", *(f"thing {number}" for number in range(77))]
    stats = tmp_path / "coco-stats"
    stats.mkdir()
    np.savez(stats / "derived_coco_thing_labels_123287x80.npz", image_ids=np.arange(n),
             labels=labels, category_names=names)  # fmt: skip
    (tmp_path / "captions").mkdir()
    (tmp_path / "captions" / "coco_30k.csv").write_text(
        "\n".join(["image_id", *map(str, range(0, n, 2))]), encoding="utf-8"
    )
    images = {"images": [{"id": number} for number in range(1, n, 2)]}
    (tmp_path / "captions" / "captions_val2017.json").write_text(json.dumps(images))
    files, tuned = (tmp_path / "answers" / k for k in ("opera-captions", "mitigation-answers"))
    words = {}
    for model in mitigations.MODELS:
        for decoding, much in zip(mitigations.DECODINGS, (0.5, 0.45, 0.1), strict=True):
            said = random.random(n) < np.where(place, much, much / 10)
            words[decoding] = 1 + 3 * said.mean()
            _lines(files / f"{model}.{decoding}.jsonl", [
                {"image_id": number, "caption": "A bus is there." if said[number] else "Nothing."}
                for number in range(n)
            ])  # fmt: skip
    pope, amber = (nooch.load_suite(f"nooch-{name}") for name in ("pope", "amber"))
    asked = pope.question_lists["adversarial"]
    for run in mitigations.TUNED:
        yes = random.random(len(asked)) < 0.3
        _lines(tuned / f"{run}.pope_adv.jsonl", [
            {"image": f"COCO_val2014_{row['image_id']:012d}.jpg", "text": "Yes" if said else "No",
             "question": f"Is there a {row['task'].replace('_', ' ')} in the image?"}
            for row, said in zip(asked.iter_rows(named=True), yes, strict=True)
        ])  # fmt: skip
        _lines(tuned / f"{run}.amber.jsonl", [
            {"id": str(image), "text": "A tree, a man and a sky." if image % 3 else "A car."}
            for image in amber.image_ids(amber.keys)
        ])  # fmt: skip
    listed = tmp_path / "answers" / "pope-labels" / "pope_yes_without_coco_annotation.csv"
    listed.parent.mkdir()
    pl.DataFrame({"image": ["COCO_val2014_000000000007.jpg"] * 2, "object": ["cup", "car"],
                  "repope_label": ["no", "yes"]}).write_csv(listed)  # fmt: skip
    content = mitigations.report(tmp_path)
    tables = content["tables.md"].decode().strip().split("\n\n")
    assert [len(table.splitlines()) - 2 for table in tables] == [16, 6 + 6 + 4, 6 + 4, 1, 2]
    shikra = next(line for line in tables[1].splitlines() if "Shikra, OPERA" in line)
    assert f"| {words['greedy']:.1f} to {words['ours']:.1f} [" in shikra
    assert "| 2 | 1 | 0 | 1 |" in tables[3]
    assert content["mitigations.svg"].startswith(b"<?xml")
