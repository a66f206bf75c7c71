"""The tests can be run as contributors and their servers run them."""

import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from conftest import SLOW

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", sorted(SLOW))
def test_what_is_called_slow_is_there(name):
    file, _, test = name.partition("::")
    assert (ROOT / "tests" / file).exists()
    assert not test or f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")


def test_results_can_be_written_as_junit_xml(tmp_path):
    code = "def test_one(record_property):\n    record_property('auc', 0.75)\n"
    (tmp_path / "test_one.py").write_text(code)
    options = f"-c {ROOT}/pyproject.toml --rootdir {tmp_path} --junitxml={tmp_path}/out.xml"
    command = f"-m pytest -p no:cacheprovider {options} {tmp_path}"
    words = [sys.executable, *shlex.split(command)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    (found,) = ET.parse(tmp_path / "out.xml").getroot().iter("property")
    assert found.attrib == {"name": "auc", "value": "0.75"}
