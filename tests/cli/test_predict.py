"""``nooch predict``: from a suite and a model to predictions for ``nooch evaluate``."""

import polars as pl
import pytest
from answering import save_classifier, save_clip
from image_folders import street_images

from nooch.data import save_dataset

pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")

LABELS = ("sport car, racer", "car", "water bird", "street")


@pytest.fixture
def suite(run_cli, tmp_path):
    save_dataset(street_images(tmp_path), tmp_path / "data")
    run_cli("find data --cues car=street,water_bird=street --tasks car,water_bird --out suite").ok()
    return tmp_path / "suite"


def test_a_classifier_by_names_and_by_a_map(suite, run_cli, tmp_path):
    model = save_classifier(tmp_path / "model", LABELS)
    done = run_cli(f"predict suite --model {model} --out p.parquet --batch 5 --format json").ok()
    assert done.json["tasks"] == {"car": ["car"], "water_bird": ["water bird"]}
    assert (done.json["images"], done.json["run"]) == (24, "model")
    assert done.json["model"]["kind"] == "classifier"
    (tmp_path / "map.yaml").write_text(
        "car: [racer, car]\nwater bird: [water bird]\nstreet: [street]\n"
    )
    mapped = run_cli(f"predict suite --model {model} --map map.yaml --out q.csv --run mapped").ok()
    assert "2 tasks x 24 images by model (classifier) at 32 x 32" in mapped.out
    scored = run_cli("evaluate suite p.parquet q.csv --format json").ok()
    value = {
        (r["run"], r["task"]): r["value"]
        for r in scored.json["scores"]
        if (r["metric"], r["subset"], r["cue"]) == ("nll", "all", None)
    }
    assert value["model", "water_bird"] == pytest.approx(value["mapped", "water_bird"], abs=1e-6)
    assert value["model", "car"] != value["mapped", "car"]


@pytest.mark.parametrize("words", ["", "--map map.yaml", "--tasks car,water_bird --skip-unmapped"])
def test_tasks_without_a_label_are_left_out_and_named(suite, run_cli, tmp_path, words):
    model = save_classifier(tmp_path / "model", ("car", "street"))
    (tmp_path / "map.yaml").write_text("car: [car]\n")
    done = run_cli(f"predict suite --model {model} --out p.csv {words}").ok()
    assert "1 task that the model or the map has no label for left out: water_bird" in done.err
    assert "1 task x 24 images" in done.out
    assert pl.read_csv(tmp_path / "p.csv")["task"].unique().to_list() == ["car"]
    # the tiny model's logits may all lie between 0 and 1
    run_cli("evaluate suite p.csv --scale logit").ok()
    none = save_classifier(tmp_path / "none", ("dog", "cat"))
    run_cli(f"predict suite --model {none} --out q.csv").refused("several) called car, water_bird")
    named = f"predict suite --model {model} --tasks car,water_bird --out q.csv"
    run_cli(named).refused("several) called water_bird")


def test_annotations_are_imported_first(suite, run_cli, tmp_path):
    for place in ("images", "data/dataset.json"):
        assert (tmp_path / place).exists()
        done = run_cli(f"predict {place} --model model --out p.csv")
        done.refused("is neither a suite nor a dataset", "nooch import auto PATH DATASET")
    run_cli("predict missing --model model --out p.csv").refused("is not a suite folder")


def test_synonyms_are_shown_before_they_are_used(suite, run_cli, tmp_path):
    model = save_classifier(tmp_path / "model", ("automobile", "street", "sedan"))
    run_cli(f"predict suite --model {model} --out p.csv").refused("several) called car, water_bird")
    command = f"predict suite --model {model} --map synonyms --out p.csv"
    shown = run_cli(f"{command} --dry-run").ok()
    assert "car: automobile, sedan" in shown.err
    assert "1 task x 24 images would be predicted by model" in shown.out
    assert not (tmp_path / "p.csv").exists()
    done = run_cli(f"{command} --format json").ok()
    assert done.json["tasks"] == {"car": ["automobile", "sedan"]}
    assert pl.read_csv(tmp_path / "p.csv")["task"].unique().to_list() == ["car"]


def test_an_onnx_file_with_options_and_a_limit_for_a_first_try(suite, run_cli, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (nooch[onnx])")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (nooch[onnx])")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)], "mean",
        [helper.make_tensor_value_info("x", kind, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", kind, ["n", 3])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "own.onnx")
    (tmp_path / "names.txt").write_text("car\nwater bird\nstreet\n")
    command = "predict suite --model own.onnx --out {} --classes names.txt --std 0.2,0.2,0.2"
    run_cli(command.format("p.csv")).refused(
        "its input is unknown", "--mean 0.485,0.456,0.406 and --std"
    )
    command += " --mean 0.5,0.5,0.5"
    both = "give --outputs independent if", "give --outputs exclusive if"
    run_cli(command.format("p.csv")).refused("nor do the dataset's labels", *both)
    command += " --outputs independent"
    tried = run_cli(f"{command.format('t.csv')} --limit 5").ok()
    assert "5 images for a first try" in tried.err
    assert "next:" not in tried.out
    assert "2 tasks x 5 images by own (onnx) at 8 x 8" in tried.out
    done = run_cli(f"{command.format('p.csv')} --format json").ok()
    assert done.json["model"]["outputs"] == "independent"
    (said,) = done.json["notes"]
    assert said.startswith("outputs are read as independent: as --outputs says; yes (labeled")
    assert said in done.err
    whole = pl.read_csv(tmp_path / "p.csv").rows_by_key(["image_id", "task"], unique=True)
    few = pl.read_csv(tmp_path / "t.csv").rows_by_key(["image_id", "task"], unique=True)
    assert few == {key: pytest.approx(whole[key], abs=1e-5) for key in few}
    run_cli(f"{command.format('q.csv')} --std 0.5,x").refused("--std")


def test_a_model_of_texts_and_images(suite, run_cli, tmp_path):
    model = save_clip(tmp_path / "clip")
    (tmp_path / "map.yaml").write_text(
        "car: {positive: [a photo of a car], negative: [a photo of an empty street]}\n"
    )
    run_cli(f"predict suite --model {model} --map map.yaml --tasks car --out p.parquet").ok()
    assert pl.read_parquet(tmp_path / "p.parquet").columns == ["image_id", "task", "logit", "run"]
    # a tiny model's logits may all be from 0 to 1
    run_cli("evaluate suite p.parquet --scale logit").ok()


def test_images_elsewhere(suite, run_cli, tmp_path):
    model = save_classifier(tmp_path / "model", LABELS)
    (tmp_path / "images").rename(tmp_path / "moved")
    run_cli(f"predict suite --model {model} --out p.parquet").refused("no such folder of images")
    run_cli(f"predict suite --model {model} --images moved --out p.parquet").ok()
    (tmp_path / "data").rename(tmp_path / "data2")
    run_cli(f"predict suite --model {model} --images moved --out q.parquet").ok()
    assert (tmp_path / "p.parquet").read_bytes() == (tmp_path / "q.parquet").read_bytes()
    moved = "--dataset data2 --images moved --out q.parquet --overwrite"
    run_cli(f"predict suite --model {model} {moved}").ok()
    assert (tmp_path / "p.parquet").read_bytes() == (tmp_path / "q.parquet").read_bytes()


def test_what_is_refused_before_anything_is_read(suite, run_cli, tmp_path):
    model = save_classifier(tmp_path / "model", LABELS)
    command = f"predict suite --model {model} --out"
    for words, message in (
        ("p.txt", "ending"),
        ("p.csv --map none.yaml", "cannot be read"),
        ("p.csv --tasks cow", "'cow' is not a task"),
        ("p.csv --split tset", "tset"),
        ("p.csv --codec slow", "codec"),
        ("p.csv --device tpu", "no device 'tpu'"),
        ("p.csv --map imagenet --tasks car,water_bird", "the map has no water_bird"),
    ):
        run_cli(f"{command} {words}").refused(message)
    (tmp_path / "images" / "007.jpg").unlink()
    run_cli(f"{command} p.csv").refused("1 of 24 images were not found: 7 (007.jpg)")
    assert not list(tmp_path.glob("p.*"))
    (tmp_path / "p.csv").write_text("kept")
    run_cli(f"{command} p.csv").refused("exists already")
    assert (tmp_path / "p.csv").read_text() == "kept"
