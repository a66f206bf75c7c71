"""The benchmark for a GPU runs whole on a CPU, with small models: no line of it fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

for package in ("torch", "transformers", "tokenizers"):
    pytest.importorskip(package, reason=f"{package} is not installed (nooch[all])")

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu.py"
WAYS = {"features": 4, "finetune": 3, "annotate": 3, "ask": 2, "heads": 2}


def test_every_item_is_measured(tmp_path):
    found = tmp_path / "found.json"
    command = [sys.executable, str(SCRIPT), "--tiny", "--device", "cpu", "--json", str(found)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("## GPU: CPU\n\n`python benchmarks/gpu.py --tiny")
    assert done.stdout.endswith(" s in all\n```\n")
    assert "failed" not in done.stdout
    measured = json.loads(found.read_text())
    for item, ways in WAYS.items():
        rates = measured[item]
        tables = rates.values() if item in {"features", "annotate"} else [rates]
        assert [len(table) for table in tables] == [ways] * len(tables), done.stdout
    assert "the same bytes in each run" in done.stdout
    assert "NOT the same" not in done.stdout


def test_an_item_that_takes_too_long_costs_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import gpu

    def endless(at, arguments):
        del at, arguments
        while True:
            try:
                pass
            except Exception:  # noqa: BLE001 - as the parts of an item do it
                continue

    monkeypatch.setitem(gpu.ITEMS, "heads", (endless, 1))
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--only", "heads", "--device", "cpu"])
    gpu.main()
    assert "heads: OutOfTime: stopped after 1 s\n" in capsys.readouterr().out
