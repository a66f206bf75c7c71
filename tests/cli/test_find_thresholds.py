"""find --tau: a number, a table per task and side, or the thresholds of another suite; whole and in
parts.
"""

import json

import pytest
from small_world import small_dataset

from nooch.data import divide, save_dataset
from nooch.suites import load_suite

TABLE = "task,positive,negative\ncar,0.3,0.1\nbowl,0.05,-0.2\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """``dataset``, the same in ``parts``, and ``tau.csv``."""
    folder = tmp_path_factory.mktemp("world")
    data = small_dataset()
    save_dataset(data, folder / "dataset")
    save_dataset(divide(data, 3), folder / "parts")
    (folder / "tau.csv").write_text(TABLE)
    return folder


def find(world, out, tau, more="", data="dataset", tasks="car,bowl"):
    gist = f"--criterion gist --encoder made --tau {tau}"
    return f"find {world / data} {gist} --tasks {tasks} --out {out} {more}"


def test_a_table_of_thresholds_whole_and_in_parts(world, run_cli, tmp_path):
    done = run_cli(find(world, "suite", world / "tau.csv", "--format json")).ok()
    limits = {
        (s["task"], s["split"]): (s["threshold_positive"], s["threshold_negative"])
        for s in done.json["sets"]
    }
    of_task = {"car": (0.3, 0.1), "bowl": (0.05, -0.2)}
    assert limits == {(t, s): v for t, v in of_task.items() for s in ("valid", "test")}
    run_cli(find(world, "parts", world / "tau.csv", "--engine local:1", data="parts")).ok()
    whole, parts = (tmp_path / name / "challenge_sets.parquet" for name in ("suite", "parts"))
    assert whole.read_bytes() == parts.read_bytes()
    # pages say that there are several, and none for all tasks
    run_cli(f"report suite --dataset {world / 'dataset'} --out site").ok()
    assert "τ by task" in (tmp_path / "site" / "index.html").read_text()
    # fitted elsewhere, with other thresholds
    again = f"find {world / 'dataset'} --criterion gist --fitted suite --tasks car"
    run_cli(f"{again} --tau 0.2 --out b").ok()
    assert load_suite(tmp_path / "b").record("gist", "car", "test").threshold_negative == 0.2


def test_thresholds_of_another_suite(world, run_cli, tmp_path):
    words = f"find {world / 'dataset'} --criterion ce --alpha 0.001 --criterion gist"
    run_cli(f"{words} --encoder made --match ce --out matched").ok()
    source = load_suite(tmp_path / "matched")
    for tau, split in (("from:matched", "valid"), ("from:matched:test", "test")):
        out = tmp_path / f"carried-{split}"
        done = run_cli(find(world, out, tau, tasks="all")).ok()
        assert f"no threshold on {split}" in " ".join(done.err.split())
        carried = load_suite(out)
        assert {s.task for s in carried.header.skipped} == {"road", "table"}
        for task in ("car", "bowl"):
            wanted = source.record("gist", task, split).threshold_positive
            assert carried.record("gist", task, "valid").threshold_positive == wanted
            assert carried.record("gist", task, "test").threshold_positive == wanted
            sets = (suite.set("gist", task, split) for suite in (carried, source))
            assert len({tuple(one.ids("hard")) for one in sets}) == 1
    content = json.loads((tmp_path / "carried-valid" / "suite.json").read_text())
    assert content["header"]["criteria"]["gist"]["fitted"]["tau"]["road"] is None


HEAD = "task,positive,negative\n"
REFUSED = [
    ({"table": f"{HEAD}acr,0,0\n"}, "'acr' is not a class of the dataset"),
    ({"tasks": "car,bowl,road,table"}, "has no threshold for road, table"),
    ({"table": f"{HEAD}car,2,0\nbowl,0,0\n"}, "positives of car is 2"),
    ({"tau": "nan"}, "tau is nan"),
    ({"tau": "tau.xlsx"}, "no such file"),
    ({"tau": "from:nowhere"}, "is not a suite"),
    ({"tau": "from:ce"}, "has no criteria of kind gist"),
    ({"tau": "from:ce:train"}, "has no criteria of kind gist"),
    ({"tau": "from:other"}, "are for embedding other, but this run uses embedding made"),
]


def test_what_cannot_be_used_is_refused(world, run_cli, tmp_path):
    data = small_dataset()
    save_dataset(data.with_embedding("other", data.embeddings["made"]), tmp_path / "two")
    run_cli("find two --criterion gist --encoder other --tau 0.1 --out other").ok()
    run_cli(f"find {world / 'dataset'} --alpha 0.001 --out ce").ok()
    for options, message in REFUSED:
        tau = options.get("tau", world / "tau.csv")
        if "table" in options:
            tau = tmp_path / "t.csv"
            tau.write_text(options["table"])
        command = find(world, "out", tau, tasks=options.get("tasks", "car,bowl"))
        run_cli(command).refused(message)
        assert not (tmp_path / "out").exists()


def test_a_threshold_that_no_criterion_takes_is_refused(world, run_cli, tmp_path):
    run_cli(f"find {world / 'dataset'} --tau 0.5 --out out").refused("no criterion has a tau: ce")
    words = f"--criterion gist --criterion scores --scores x --tau {world / 'tau.csv'}"
    run_cli(f"find {world / 'dataset'} {words} --out out").refused(
        "fits several criteria: gist and scores"
    )
