"""``nooch ask``: from a suite and a vision-language model to answers for ``nooch evaluate``."""

import polars as pl
import pytest
from commands import completed, kill_three_times
from image_folders import street_images
from tiny_vlm import save_llava

from nooch.data import save_dataset

pytest.importorskip("torch", reason="torch is not installed (nooch[vlm])")
pytest.importorskip("transformers", reason="transformers is not installed (nooch[vlm])")


@pytest.fixture
def model(tmp_path):
    """A model, next to a suite of cars and water birds in 24 images."""
    save_dataset(street_images(tmp_path), tmp_path / "data")
    completed("find data --cues car=street,water_bird=street --tasks car,water_bird --out suite")
    return save_llava(tmp_path / "llava")


def test_answers_captions_and_counts(model, run_cli, tmp_path):
    counts = run_cli(f"ask suite --model {model} --out a.parquet --dry-run").ok().out
    size = sum(path.stat().st_size for path in (tmp_path / "images").iterdir())
    facts = "48 questions, 24 images, 48 requests; the image files have"
    assert f"{facts} {size / 1000:.1f} kB" in counts
    assert not (tmp_path / "a.parquet").exists()
    done = run_cli(f"ask suite --model {model} --out a.parquet").ok()
    assert "a.parquet: 48 answers by llava" in done.out
    assert "next: nooch evaluate suite a.parquet" in done.out
    assert run_cli("evaluate suite a.parquet").ok().out.startswith("a, ce: yes to an absent object")
    (tmp_path / "p.yaml").write_text("- Is there {a} {task} ?\n- Can you see {a} {task} ?\n")
    command = f"ask suite --model {model} --out b.parquet --prompts p.yaml --per-set 1 --seed 2"
    made = run_cli(f"{command} --tasks car --format json").ok()
    assert made.json["rows"] == 8
    assert made.json["prompts"] == ["Is there {a} {task} ?", "Can you see {a} {task} ?"]
    assert "phrasings disagree on" in made.json["notes"][-1]
    (tmp_path / "words.yaml").write_text("mentions: {car: [car], water_bird: [water bird]}\n")
    described = f"ask suite --model {model} --describe --max-tokens 4 --out c.parquet"
    assert "24 captions by llava" in run_cli(described).ok().out
    run_cli("captions suite c.parquet --synonyms words.yaml").ok()
    for words, images in (("", 3), ("--describe --max-tokens 4", 5)):
        tried = f"ask suite --model {model} --limit {images} --out {images}.parquet {words}"
        run_cli(tried).ok()
        frame = pl.read_parquet(tmp_path / f"{images}.parquet")
        assert len(frame) == images
        whole = pl.read_parquet(tmp_path / ("c.parquet" if words else "a.parquet"))
        assert frame["image_id"].is_in(whole["image_id"].implode()).all()
        same = frame.columns[:1] if words else ["question_id"]
        assert frame[same].rows() == [
            whole[same].rows()[i * len(whole) // images] for i in range(images)
        ]


def test_an_engine_gives_the_same(model, run_cli, tmp_path):
    for out, places in (("a", ""), ("b", "--engine local:2")):
        run_cli(f"ask suite --model {model} --out {out}.parquet --batch 2 {places}").ok()
    a, b = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in "ab")
    assert a.drop("probability", "mass").equals(b.drop("probability", "mass"))
    assert a["probability"].to_list() == pytest.approx(b["probability"].to_list(), abs=1e-6)


def test_killed_and_resumed(model, tmp_path):
    completed(f"ask suite --model {model} --out a.parquet --batch 1 --device cpu")
    command = f"ask suite --model {model} --out b.parquet --batch 1 --device cpu --overwrite"

    def ready():
        return list(tmp_path.glob(".b.parquet.asking-*/0000000.msgpack"))

    kill_three_times(command, ready, 0.1)
    a, b = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in "ab")
    assert a.equals(b)
    assert not list(tmp_path.glob(".b.parquet*"))


def test_what_is_refused(model, run_cli, tmp_path):
    command = f"ask suite --model {model} --out"
    (tmp_path / "p.yaml").write_text("Is there {a} {task} ?\n")
    (tmp_path / "q.yaml").write_text("- What is this?\n")
    for words, message in (
        ("a.csv", "ending of a file of answers"),
        ("a.parquet --prompts p.yaml", "is not a list of texts"),
        ("a.parquet --prompts q.yaml", "--prompts: 'What is this?' is not a template"),
        ("a.parquet --per-set none", "--per-set: is 'none'"),
        ("a.parquet --questions p.yaml --tasks car", "--tasks has no effect"),
        ("a.parquet --images none", "no such folder of images"),
        ("a.parquet --device tpu", "no device 'tpu'"),
        ("a.parquet --engine slurms", "slurms"),
    ):
        run_cli(f"{command} {words}").refused(message)
    assert not list(tmp_path.glob("*a.parquet*"))
