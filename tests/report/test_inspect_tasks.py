"""Questions as tasks of Inspect AI: its rates are those of evaluate, also from its log."""

import base64
import shutil

import polars as pl
import pytest
import yaml

import nooch
from nooch.analysis.leaderboard import leaderboard
from nooch.suites import CELLS, load_suite
from nooch.suites.questions import Draw, draw_questions

inspect_ai = pytest.importorskip(
    "inspect_ai",
    reason="Inspect AI pins packages, and has an environment with Datumaro (make test-datumaro)",
)
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402

WORDS = ["Yes", "No, there is not.", "Yes, I see it", "No", "I cannot tell"]


def _evaluated(folder, task="nooch/questions", epochs=1, **task_args):
    """The log of a model whose words go round, the only one that needs no network."""
    asked = []

    def reply(messages, *_):
        asked.append(messages[-1].content)
        output = ModelOutput.from_content("mockllm/model", WORDS[len(asked) % len(WORDS)])
        # without it, tokens are counted by a vocabulary that is downloaded
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    model = get_model("mockllm/model", custom_outputs=reply)
    (log,) = inspect_ai.eval(
        task, model=model, task_args=task_args, epochs=epochs, log_dir=str(folder),
        log_format="json", display="none", max_connections=1,
    )  # fmt: skip
    return log, asked


@pytest.mark.parametrize("criterion", ["ce", "~ce"])
def test_its_rates_are_those_of_evaluate(made, tmp_path, criterion):
    suite = load_suite(f"{made.folder}/suite")
    log, asked = _evaluated(
        tmp_path, suite=f"{made.folder}/suite", criterion=criterion, per_set=2, splits="test"
    )
    assert log.status == "success", log.error
    keys = [key for key in suite.keys if key[2] == "test"]
    drawn = draw_questions(suite, keys, Draw(per_set=2)).frame
    assert sorted(text.text for text, _ in asked) == sorted(drawn["text"])
    assert all(image.image.startswith("data:image/jpeg;base64,") for _, image in asked)

    (own,) = log.results.scores
    values = {name: metric.value for name, metric in own.metrics.items()}
    said = [(s.scores["yes_or_no"].answer, s.target, s.metadata) for s in log.samples]
    assert {answer for answer, *_ in said} == {"yes", "no", None}
    assert values["accuracy"] == sum(answer == target for answer, target, _ in said) / len(said)
    cells = drawn.select("image_id", "task", criterion).rows()
    assert sorted((m["image_id"], m["task"], m[criterion]) for *_, m in said) == sorted(cells)
    # unknown answers are yes to what is absent
    rows = pl.DataFrame([m | {"yes": answer != "no"} for answer, _, m in said])
    hard = rows.filter(pl.col(criterion) == "hard_negative")
    mean = (hard["yes"] * hard["weight"]).sum() / hard["weight"].sum()
    assert values["false_yes_hard"] == pytest.approx(mean)

    scores = nooch.evaluate(suite, log.location)
    (rates,) = (rates for (_, name), rates in scores.contexts.items() if name == criterion)
    for name, place in {
        "false_yes_hard": ("rate", "hard_negative"),
        "false_yes_easy": ("rate", "easy_negative"),
        "false_yes_ratio": ("ratio", "negative"),
        "recall_hard": ("rate", "hard_positive"),
        "recall_easy": ("rate", "easy_positive"),
        "macro_recall": ("macro_recall", "positive"),
    }.items():
        assert values[name] == pytest.approx(rates.estimates[place].value), name
    assert values["unknown"] == pytest.approx(max(rates.unknown.values()))


def test_what_it_cannot_ask_is_refused(made, tmp_path):
    log, _ = _evaluated(tmp_path, suite=f"{made.folder}/suite", per_set=1, epochs=2)
    assert log.status == "error"
    assert "each question is asked once" in log.error.message
    with pytest.raises(nooch.NoochError, match="'gist' is not a criterion"):
        _evaluated(tmp_path, suite=f"{made.folder}/suite", criterion="gist")
    with pytest.raises(nooch.NoochError, match="images"):
        _evaluated(tmp_path, task="nooch/words", images=str(tmp_path))


def _on_the_hub(exported, monkeypatch, tmp_path):
    """The export as the dataset ``owner/name``, in the place of what would be downloaded."""
    datasets, hub = pytest.importorskip("datasets"), pytest.importorskip("huggingface_hub")
    shutil.copytree(exported, tmp_path / "owner" / "name")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        hub, "hf_hub_download", lambda repo_id, filename, **_: f"{tmp_path}/{repo_id}/{filename}"
    )
    return datasets


def test_the_export_is_a_benchmark_of_the_hub(made, tmp_path, monkeypatch):
    """Its tasks are valid, load, and give the rates of evaluate and of the model's results."""
    from inspect_ai._eval.task.hf import HFTask

    out, suite = tmp_path / "out", load_suite(f"{made.folder}/suite")
    options = {"images": made.folder / "images", "per_set": None}
    done = nooch.export(suite, "hf", out, data=made.data, **options)
    datasets = _on_the_hub(out, monkeypatch, tmp_path)
    tasks = yaml.safe_load((out / "eval.yaml").read_text())["tasks"]
    assert [HFTask.model_validate(task).split for task in tasks] == [
        "hard_negative", "easy_negative", "easy_positive", "hard_positive",
    ]  # fmt: skip
    assert not any("weights" in note or "eval.yaml" in note for note in done.notes)
    table = pl.read_parquet(out / "questions.parquet")
    values, logs = {}, []
    for task in tasks:
        rows = datasets.load_dataset("owner/name", task["config"], split=task["split"])
        assert rows["question_id"][:] == table.filter(ce=task["split"])["question_id"].to_list()
        for row in rows:
            kind, _, content = row["image"].partition(";base64,")
            file = made.folder / "images" / row["file_name"]
            assert (kind, base64.b64decode(content)) == ("data:image/jpeg", file.read_bytes())
        log, asked = _evaluated(tmp_path / "logs", f"hf/owner/name/{task['id']}")
        assert log.status == "success", log.error
        assert [text.text for text, _ in asked] == rows["question"][:]
        assert {image.image for _, image in asked} == {*rows["image"]}
        values[task["split"]] = log.results.scores[0].metrics["accuracy"].value
        logs.append(log)
    assert len({*values.values()}) > 1
    # each question is answered in one of the logs, and one file has the answers of all
    answers = [
        {"image_id": s.metadata["image_id"], "task": s.metadata["task"],
         "weight": s.metadata["weight"], "answer": s.output.completion}
        for log in logs for s in log.samples
    ]  # fmt: skip
    model = tmp_path / "models" / "mock"
    model.mkdir(parents=True)
    (model / "model.yaml").write_text("name: mock\n")
    pl.DataFrame(answers).write_parquet(model / "answers.parquet")
    (rates,) = (
        found.estimates
        for (_, name), found in nooch.evaluate(suite, model / "answers.parquet").contexts.items()
        if name == "ce"
    )
    board = leaderboard(
        tmp_path / "models", suite=suite, questions=out, out=tmp_path / "site", criterion="ce",
        benchmark="owner/name",
    )  # fmt: skip
    results = yaml.safe_load((tmp_path / "site" / ".eval_results" / "mock.yaml").read_text())
    assert {one["dataset"]["task_id"] for one in results} == {task["id"] for task in tasks}
    of_task = {one["dataset"]["task_id"]: one["value"] for one in results}
    for task in tasks:
        cell, value = task["split"], values[task["split"]]
        rate = rates["rate", cell].value
        right = 1 - rate if cell.endswith("negative") else rate
        assert value == pytest.approx(right), cell
        assert of_task[task["id"]] == pytest.approx(value), cell
    assert of_task[tasks[0]["id"]] == pytest.approx(1 - board.table["hard_negative"][0])
    assert {*values} == {*CELLS}
    # the log of a task is a file of answers
    (alone,) = (
        found.estimates
        for (_, name), found in nooch.evaluate(suite, logs[0].location).contexts.items()
        if name == "ce"
    )
    assert alone["rate", "hard_negative"].value == pytest.approx(1 - values["hard_negative"])
