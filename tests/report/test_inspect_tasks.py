"""Questions as tasks of Inspect AI: its rates are those of evaluate, also from its log."""

import polars as pl
import pytest

import nooch
from nooch.suites import load_suite
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
