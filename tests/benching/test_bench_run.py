"""The tests can be run as contributors and their servers run them."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from conftest import SLOW

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", SLOW)
def test_what_is_called_slow_is_there(name):
    file, _, test = name.partition("::")
    assert (ROOT / "tests" / file).exists()
    assert not test or f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")


def test_results_can_be_written_as_junit_xml(tmp_path):
    (tmp_path / "test_one.py").write_text(
        "def test_one(record_property):\n    record_property('auc', 0.75)\n"
    )
    words = [
        "-c",
        ROOT / "pyproject.toml",
        "--rootdir",
        tmp_path,
        f"--junitxml={tmp_path / 'out.xml'}",
        tmp_path,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    (found,) = ET.parse(tmp_path / "out.xml").getroot().iter("property")
    assert found.attrib == {"name": "auc", "value": "0.75"}
