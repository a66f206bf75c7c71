"""Stuff files that list some of the images: import, info, find, show, explain, sweep."""

import json

import pytest

from nooch.data import load_dataset
from nooch.suites import load_suite


def _import(run_cli, annotations, tmp_path, share, name="dataset"):
    """The dataset with stuff for this share of the images."""
    stuff = json.loads((annotations / "stuff.json").read_bytes())
    kept = {image["id"] for image in stuff["images"] if image["id"] % 10 < 10 * share}
    stuff["images"] = [image for image in stuff["images"] if image["id"] in kept]
    stuff["annotations"] = [one for one in stuff["annotations"] if one["image_id"] in kept]
    (tmp_path / f"{name}.json").write_text(json.dumps(stuff))
    things = annotations / "instances.json"
    run_cli(f"import coco --things {things} --stuff {name}.json --split 60/20/20 {name}").ok()
    return tmp_path / name, len(kept)


FIND = "find {} --tasks car,boat,cow,bowl --out {}".format


def test_most_of_the_stuff_is_there(annotations, run_cli, tmp_path):
    full, _ = _import(run_cli, annotations, tmp_path, 1.0, "full")
    most, n = _import(run_cli, annotations, tmp_path, 0.7)
    told = run_cli(f"info {most}")
    assert f"things in 600 of 600 images; stuff in {n} of 600 images" in " ".join(told.out.split())
    facts = json.loads(run_cli(f"info {most} --format json").out)["annotated"]
    assert facts == {"images": {"things": 600, "stuff": n}, "unknown_pairs": 0, "verified_pairs": 0}
    for dataset, name in ((full, "full-suite"), (most, "suite")):
        run_cli(FIND(dataset, name)).ok()
    of_full, of_most = load_suite(tmp_path / "full-suite"), load_suite(tmp_path / "suite")
    assert "excluded_unknown" not in (tmp_path / "full-suite" / "suite.json").read_text()
    # A is that of the annotated images alone, taken from the dataset in which all were
    whole = load_dataset(full).select("train")
    seen = whole.select(rows=(whole.image_ids % 10 < 7) & whole.labels("car"))
    for cue, strength in of_most.header.criteria["ce"].cues["car"]:
        assert strength == pytest.approx((seen.area(cue) - seen.area("car")).mean())
    record = of_most.record("ce", "car", "test")
    left = record.excluded_positives + record.excluded_negatives
    assert 0 < left < 60
    assert record.positives + record.negatives + left == 120
    shown = " ".join(run_cli("show suite").out.split())
    assert "Images without a verdict (test)" in shown
    assert "Not annotated, left out of the fit (ce)" in shown
    data = json.loads(run_cli("show suite --format json").out)
    assert data["criteria"]["ce"]["left_out"]["car"]["positives"] > 0
    run_cli(FIND(most, "parts --engine local:1")).ok()
    assert load_suite(tmp_path / "parts").header.sets == of_most.header.sets
    # an image that is left out says why
    listed = set(of_most.set("ce", "car", "test").image_ids)
    out = next(i for i in of_full.set("ce", "car", "test").image_ids if i not in listed)
    why = run_cli(f"explain suite --task car --image {out} --dataset {most}")
    assert "no verdict: the area of" in why.out, why.out + why.err


def test_little_of_the_stuff_is_there(annotations, run_cli, tmp_path):
    few, _ = _import(run_cli, annotations, tmp_path, 0.2)
    for engine in ("", "--engine local:1"):
        run_cli(FIND(few, f"suite {engine}")).refused(
            "training positives without annotated things or stuff would be left out",
            "--allow-unannotated",
        )
        assert not (tmp_path / "suite").exists()
    run_cli(FIND(few, "suite --allow-unannotated")).ok()
    record = load_suite(tmp_path / "suite").record("ce", "car", "test")
    assert record.excluded_positives + record.excluded_negatives > 60
    grid = "--alpha 0.05 --beta 0.1 --tasks car"
    run_cli(f"sweep {few} {grid} --out sweep").refused("would be left out")
    run_cli(f"sweep {few} {grid} --allow-unannotated --out sweep").ok()
