"""The action for pull requests: its steps are run by a shell, green and red."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from planted import planted_data, planted_predictions

from nooch.data import save_dataset

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/checking.md"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("action")
    data = planted_data()
    save_dataset(data, folder / "data")
    planted_predictions(data).write_csv(folder / "old model.csv")
    planted_predictions(data, missed=0.9, seed=2).write_csv(folder / "new.csv")
    return folder


def _run(here, out, **given):
    """Exit codes of the steps of ``action.yml`` that are shell, and what the summary has."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    defaults = {name: one.get("default", "") for name, one in action["inputs"].items()}
    inputs = {**defaults, "install": "", "out": out, **given}
    assert inputs.keys() == defaults.keys()

    def filled(text):
        return re.sub(r"\$\{\{ inputs\.(\S+) \}\}", lambda name: inputs[name[1]], text)

    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    summary = here / f"{out}.summary"
    codes = {}
    for step in action["runs"]["steps"]:
        if "run" not in step or (step["name"] == "Install" and not inputs["install"]):
            continue
        env = {name: filled(value) for name, value in step["env"].items()}
        env |= {"PATH": path, "GITHUB_STEP_SUMMARY": str(summary)}
        codes[step["name"]] = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step["run"]], cwd=here, check=False,
            env={**os.environ, **env}, capture_output=True,
        ).returncode  # fmt: skip
    return codes, summary.read_text() if summary.is_file() else ""


@pytest.mark.parametrize(
    ("predictions", "baseline", "fail_if", "code"),
    [
        ("new.csv", "old model.csv", "", 1),
        ("old model.csv\n", "new.csv", "", 0),
        ("new.csv", "", "new error@hard > 0.9\ncontext", 1),
    ],
)
def test_steps_are_run(here, predictions, baseline, fail_if, code, request):
    out = re.sub(r"\W+", "-", request.node.name)
    asked = {"predictions": predictions, "baseline": baseline, "fail-if": fail_if}
    options = "--bootstrap=0\n--no-slices\n--criterion=ce"
    codes, summary = _run(here, out, dataset="data", options=options, **asked)
    assert codes == {"Check": code, "Summary": 0}
    assert summary == (here / out / "findings.md").read_text()
    if baseline:
        titles = [line for line in summary.splitlines() if line.startswith("### ")][:3]
        old = Path(baseline).stem
        assert [title.partition(":")[0] for title in titles] == [
            f"### Worse than {old}", f"### Better than {old}",
            f"### No difference from {old} shown",
        ]  # fmt: skip
    root = ET.fromstring((here / f"{out}.xml").read_bytes())
    assert (int(root.get("failures")) > 0) == (code == 1)


def test_the_workflow_of_the_page_names_inputs_of_the_action():
    (workflow,) = re.findall(r"```yaml\n(on: pull_request.*?)```", PAGE.read_text(), re.DOTALL)
    steps = yaml.safe_load(workflow)["jobs"]["context"]["steps"]
    (use,) = [step for step in steps if "nooch" in step.get("uses", "")]
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    assert {*use["with"]} <= {*inputs}
    assert {name for name, one in inputs.items() if one.get("required")} <= {*use["with"]}
    assert len(workflow.splitlines()) <= 15
