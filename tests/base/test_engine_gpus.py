"""A GPU for each job, with fake GPUs: what a job sees, who inherits it, what is refused."""

import os
import sys

import pytest
from refusals import fails
from work import die_with_a_gpu, gpu_for_a_while

from nooch.base.engines import LocalEngine, engine, job_window as base
from nooch.base.engines.local import visible_gpus
from nooch.base.errors import NoochError, ParameterError


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(base, "WAIT", 0.01)


def program(folder, name, text, code=0):
    """A program of that name which prints a text."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n")
    (folder / name).chmod(0o755)


NAMED = [
    ("0,3", ["0", "3"]), ("GPU-5c1, MIG-7b", ["GPU-5c1", "MIG-7b"]), ("", []), ("-1", []),
    ("2,-1,1", ["2"]), ("NoDevFiles", []), ("1,1", ["1"]),
]  # fmt: skip


@pytest.mark.parametrize(("named", "expected"), NAMED)
def test_gpus_that_the_user_named(monkeypatch, named, expected):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert visible_gpus() == expected
    assert LocalEngine(1).gpu_count() == len(expected)


def test_gpus_of_the_machine(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert visible_gpus() == ["0", "1"]
    monkeypatch.setitem(sys.modules, "torch", None)
    assert visible_gpus() == []


def test_each_local_job_has_its_gpu_and_a_killed_ones_goes_to_the_next(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    # the killed job leaves its GPU, which is no more in use, to its successor
    made = engine("local", gpus=1)
    assert made.processes == 2
    seen = list(made.map(die_with_a_gpu, [(number, tmp_path) for number in range(8)]))
    assert set(seen) == {"0", "3"}
    lines = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    assert len(lines) == 9
    assert {gpu for _, gpu in lines} == {"0", "3"}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,3"


def test_several_gpus_a_job(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-5c1,6,7,8")
    assert set(engine("local", gpus=2).map(gpu_for_a_while, [tmp_path] * 4)) == {"4,GPU-5c1", "6,7"}
    # one job alone, too
    assert list(engine("local:1", gpus=2).map(gpu_for_a_while, [tmp_path])) == ["4,GPU-5c1"]


def test_gpus_that_are_not_there(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    # the remedy is a parameter of what trains on an engine
    with pytest.raises(ParameterError, match=r"3 GPUs a job, but .* may use 2 \(0, 3\)"):
        engine("local", gpus=3)
    with pytest.raises(ParameterError, match=r"(?s)for 2 jobs at a time.*at most 1 jobs"):
        engine("local:2", gpus=2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ParameterError, match="may use 0"):
        engine("local", gpus=1)
    for name in ("local", "ray"):
        if name == "ray":
            pytest.importorskip("ray", reason="ray is not installed")
        fails(lambda name=name: engine(name, gpus=-1), "-1 GPUs a job", kind=ParameterError)


SCONTROL = "Configuration data\nMaxArraySize            = {most}\nMaxJobCount = 10000"


@pytest.fixture
def site(monkeypatch, tmp_path):
    """Programs that answer as Slurm's do, on the PATH."""
    pytest.importorskip("submitit", reason="submitit is not installed")
    answers = {"srun": "", "squeue": "", "scancel": "", "sbatch": "Submitted batch job 17"}
    answers["scontrol"] = SCONTROL.format(most=4)
    answers["sinfo"] = "gpu:a100:4(S:0-1),lustre:1\n(null)\ngpu:2"
    for name, text in answers.items():
        program(tmp_path / "bin", name, text)
    (tmp_path / "bin" / "scancel").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/canceled\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_the_script_for_slurm_asks_for_gpus_and_keeps_to_the_sites_limit(site):
    made = engine("slurm:big", site / "logs", gpus=2)
    assert (made.gpu_count(), made.array) == (4, 3)
    results = made.map(gpu_for_a_while, range(3))
    results.close()
    assert (site / "canceled").read_text().split() == ["17_0", "17_1", "17_2"]
    (script,) = {file.read_text() for file in (site / "logs" / "submitit").glob("*_submission.sh")}
    asked = ("gres=gpu:2", "partition=big", "array=0-2%3")
    assert {f"#SBATCH --{option}" for option in asked} <= set(script.splitlines())
    engine("slurm", site / "none").map(gpu_for_a_while, range(3)).close()
    scripts = (site / "none" / "submitit").glob("*_submission.sh")
    assert all("gres" not in file.read_text() for file in scripts)


def test_a_site_without_arrays_or_without_answers(site):
    program(site / "bin", "scontrol", SCONTROL.format(most=0))
    assert engine("slurm").array == 1
    program(site / "bin", "scontrol", "slurm_load_ctl_conf error", code=1)
    program(site / "bin", "sinfo", "", code=1)
    assert (engine("slurm").array, engine("slurm").gpu_count()) == (200, 0)
    program(site / "bin", "sbatch", "", code=1)
    refused = "Slurm rejects the jobs"
    fails(lambda: engine("slurm", site / "logs").map(abs, range(3)), refused, kind=NoochError)
