"""Every command that writes, on a full disk: one error, exit code 2, and later the same command."""

import re
import shutil

import numpy as np
import polars as pl
import pytest
from full_disk import full_disk
from image_folders import image_dataset
from small_world import make_world

from nooch.base.engines.job_window import Logged
from nooch.base.errors import OutputError
from nooch.data import save_dataset
from nooch.suites import load_suite

COMMANDS = {
    "evaluate suite p.csv --out {out}.parquet": 700,
    "evaluate suite p.csv --out {out}.json": 700,
    "report suite --predictions p.csv --out {out}": 2000,
    "export suite {out} --to ids": 700,
    "export suite {out} --to table --split test --predictions p.csv": 700,
    "figure fig4 --suite suite --predictions p.csv --formats svg --out {out}": 1000,
    "sweep-thresholds dataset --alpha 0:0.2:3 --beta 0.1 --tasks car --split test --out {out}": 700,
    "audit suite --predictions p.csv --out {out}": 1000,
    "weights dataset --task car --alpha 0.5 --out {out}.csv": 1000,
    "pixels pictures --size 40 --out {out}": 1000,
    "bench dataset suite --embedding made --config bench.yaml --out {out}": 3000,
    "import table areas.parquet --id id --class class --area area --part-size 50 {out}": 2500,
    "add-attributes dataset names.csv {out}": 1000,
    "scenes {out} --images 3": 2000,
}
"""Commands, and the bytes that a file may have (what is printed is captured in files, too)."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = make_world(tmp_path_factory.mktemp("world"), epochs=1)
    images = pl.read_parquet(folder / "dataset" / "images.parquet")
    named = images.select("image_id", name=pl.format("{}.png", "image_id"))
    named.write_csv(folder / "names.csv")
    areas = pl.read_parquet(folder / "dataset" / "areas.parquet").rename({"image_id": "id"})
    areas.write_parquet(folder / "areas.parquet")
    save_dataset(image_dataset(folder, 6), folder / "pictures")
    suite = load_suite(folder / "suite")
    ids = suite.set("ce", "car", "test").image_ids
    draw = np.random.default_rng(0)
    wide = {task: draw.normal(size=len(ids)) for task in ("car", "bowl")}
    pl.DataFrame({"image_id": ids, **wide}).unpivot(
        index="image_id", variable_name="task", value_name="logit"
    ).write_csv(folder / "p.csv")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_one_error_nothing_half_and_later_the_same_command(command, world, run_cli, tmp_path):
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    typed = command.format(out="out")
    with full_disk(COMMANDS[command]):
        ran = run_cli(typed, cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("error:") == 1
    assert re.search("cannot (be written|write|be made).*: File too large", ran.err), ran.err
    # runs are resumed
    assert "bench" in command or not [p for p in tmp_path.glob("out*/**/*") if p.is_file()]
    run_cli(typed, cwd=tmp_path).ok()
    assert not list(tmp_path.glob(".out*partial*"))


def test_a_log_that_cannot_be_written_is_the_same_error(tmp_path):
    logged = Logged(print, tmp_path / "missing")
    with pytest.raises(OutputError, match=r"job-0000000\.log: cannot write: No such file"):
        logged((0, "text"))
    with full_disk(100), pytest.raises(OutputError, match=r"job-0000000\.log: cannot write"):
        Logged(print, tmp_path)((0, "text" * 100))
    Logged(print, tmp_path)((0, "text"))
    assert "done" in (tmp_path / "job-0000000.log").read_text(encoding="utf-8")
