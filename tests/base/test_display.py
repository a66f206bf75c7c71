"""Small tables as text and in notebooks: text from files is escaped; results as pandas frames."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
from made_runs import made_runs
from refusals import fails
from scored import logits, small_data, small_suite

import nooch
from nooch.analysis.check import Checked
from nooch.base.display import MOST_ROWS, DisplayTable, parameters_text
from nooch.base.errors import MissingExtraError
from nooch.data import Dataset
from nooch.paper.numbers import paper_cells
from nooch.report.answer import Answer
from nooch.report.results.run_results import read_results
from nooch.suites import Suite

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'&<img/src=x/onerror=alert(1)>",
    "\u202egnp.exe\u202c",
    "x" * 10_000,
    "a\x00b</td>",
]
_TAGS = {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "bdi"}


class _Read(HTMLParser):
    """Tags, attributes and texts of cells; every tag must be closed in its order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.rows, self.open = set(), set(), [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.rows and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def read(text):
    parsed = _Read(text)
    assert parsed.tags <= _TAGS
    assert parsed.attributes <= {"style"}
    return parsed.rows


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_a_cell_holds_is_text(name):
    rows = read(DisplayTable(name, [name, "n"], [[name, 1]], notes=[name]).html())
    shown = name if len(name) <= 200 else name[:200] + "…"
    assert rows == [[shown, "n"], [shown, "1"]]


def test_numbers_dashes_and_what_is_cut():
    (_, shown) = read(DisplayTable("t", ["a", "b", "c"], [[None, 1234567, 0.123456]]).html())
    assert shown == ["–", "1,234,567", "0.123"]
    rows = [[i] for i in range(MOST_ROWS + 3)]
    text = DisplayTable("t", ["a"], rows).html()
    assert len(read(text)) == 1 + MOST_ROWS
    assert "and 3 more rows" in text
    assert "more rows" not in DisplayTable("t", ["a"], rows[:MOST_ROWS]).html()


def test_parameters_in_words():
    parameters = {"alpha": 0.05, "cues": {}, "tau": None, "encoder": "e"}
    assert parameters_text(parameters) == "alpha 0.05, encoder e"


def test_a_suite_shows_counts_criteria_and_thresholds():
    suite = small_suite()
    rows = read(suite._repr_html_())
    expected = []
    for record in suite.header.sets:
        numbers = [record.hard_positives, record.positives, record.hard_negatives, record.negatives]
        limits = [
            "–" if v is None else f"{v:.3g}"
            for v in (record.threshold_positive, record.threshold_negative)
        ]
        excluded = record.excluded_positives + record.excluded_negatives
        keys = [record.task, record.criterion, record.split]
        expected.append([*keys, *map(str, numbers), *limits, str(excluded)])
    assert rows[1:] == expected
    assert "beta 0.1" in suite._repr_html_()


def test_a_dataset_shows_its_splits():
    rows = read(small_data()._repr_html_())
    assert rows == [["split", "images"], ["train", "20"], ["valid", "16"], ["test", "24"]]


def test_hostile_names_of_classes_tasks_and_criteria():
    data = small_data()
    strange = Dataset.build(data.images, [*HOSTILE[:2], *data.classes[2:]], data.areas)
    read(strange._repr_html_())
    criterion = nooch.CE(cues=dict.fromkeys(HOSTILE[:2], ("road",)))
    suite = nooch.find(strange, {HOSTILE[0]: criterion}, tasks=HOSTILE[:2])
    rows = read(suite._repr_html_())
    assert {row[0] for row in rows[1:]} == set(HOSTILE[:2])
    assert {row[1] for row in rows[1:]} == {HOSTILE[0]}
    frames = []
    for key in suite.keys:
        if key[2] == "test":
            sets = suite.set(*key)
            values = {"image_id": sets.image_ids, "task": key[1], "logit": sets.labels * 2.0 - 1}
            frames.append(pl.DataFrame({**values, "run": HOSTILE[1]}))
    rows = read(nooch.evaluate(suite, pl.concat(frames))._repr_html_())
    assert {row[3] for row in rows[1:]} == {HOSTILE[1]}


def test_scores_show_each_run_and_task_averages_first():
    suite = small_suite()
    scores = nooch.evaluate(suite, {"a": logits(suite), "b": logits(suite, seed=1)})
    head, *rows = read(scores._repr_html_())
    assert head[:5] == ["criterion", "split", "task", "run", "auc hard"]
    assert [row[2] for row in rows[:4]] == ["average"] * 4
    assert len(rows) == 2 * 2 * 3
    for row in rows:
        where = dict(zip(head[:4], row[:4], strict=True))
        for name, shown in zip(head[4:], row[4:], strict=True):
            value = scores.value(*name.split(" "), **where)
            assert shown == ("–" if value is None else f"{value:.3g}")


def test_scores_without_the_usual_metrics_are_shown():
    suite = small_suite()
    head = read(nooch.evaluate(suite, logits(suite), metrics=["ece"])._repr_html_())[0]
    assert head == ["criterion", "split", "task", "run"]


def test_results_show_auc_of_each_method(tmp_path):
    suite = small_suite()
    found = read_results(made_runs(tmp_path / "runs", suite).path, [suite])
    head, *rows = read(found._repr_html_())
    assert head == ["criterion", "task", "erm", "label-reweight", "gdro"]
    assert rows[0][1] == "average"
    cells = found.cells.filter(metric="auc", subset="hard")
    for row in rows:
        for method, shown in zip(head[2:], row[2:], strict=True):
            cell = cells.filter(criterion=row[0], task=row[1], method=method).row(0, named=True)
            assert shown == f"{cell['mean']:.3f} ({cell['std']:.3f})"
    of_paper = read(paper_cells()._repr_html_())
    # Table 5 has no deviation
    assert "0.691" in of_paper[1]
    nothing = replace(found, cells=found.cells.with_columns(mean=pl.lit(None, pl.Float64)))
    assert read(nothing._repr_html_())[1][2] == "–"


def test_an_empty_suite_is_shown():
    suite = small_suite()
    empty = Suite.from_sets(
        {}, dataset=suite.header.dataset, criteria={}, skipped=[], tasks=[], splits=[]
    )
    assert len(read(empty._repr_html_())) == 1


def shown(table, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    return table.text().splitlines()


def test_text_is_aligned_and_as_wide_as_the_terminal(monkeypatch):
    table = DisplayTable(
        "title", ["task", "hard_positives", "of", "error rate"],
        [["car", 1234, 5, 0.25], ["boat", None, 12, 1.0]], notes=["a note"],
    )  # fmt: skip
    assert shown(table, monkeypatch, 80) == [
        "title",
        "           hard      error",
        "task  positives  of   rate",
        "car       1,234   5   0.25",
        "boat          –  12      1",
        "a note",
    ]
    assert shown(table, monkeypatch, 20)[1:] == [
        "           hard",
        "task  positives  of",
        "car       1,234   5",
        "boat          –  12",
        "and 1 more column",
        "a note",
    ]
    assert shown(table, monkeypatch, 1)[1:4] == ["", "task", "car"]
    assert shown(DisplayTable("nothing", ["a"], []), monkeypatch, 80) == ["nothing"]
    many = DisplayTable("t", ["a"], [[i] for i in range(MOST_ROWS + 3)])
    assert len(shown(many, monkeypatch, 80)) == 2 + MOST_ROWS + 1
    assert shown(many, monkeypatch, 80)[-1] == "and 3 more rows"


@pytest.mark.parametrize("name", HOSTILE)
def test_text_has_no_control_characters(name, monkeypatch):
    lines = shown(DisplayTable(name, [name, "n"], [[name, 1]], notes=[name]), monkeypatch, 100)
    assert all(character.isprintable() for line in lines for character in line)


RESULTS = ["Dataset(", "Suite(", "ChallengeSet(", "Scores(", "Findings(", "Slices("]


def results():
    """One of each class that is displayed, of the same suite."""
    data, suite = small_data(), small_suite()
    frame = logits(suite)
    found = nooch.cue_findings(suite, frame, data=data)
    scores, slices = nooch.evaluate(suite, frame), nooch.find_slices(data, frame, min_support=2)
    return data, suite, suite.set("ce", "car", "test"), scores, found, slices


def test_results_print_the_numbers_that_notebooks_show(monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    for result, start in zip(results(), RESULTS, strict=True):
        lines = repr(result).splitlines()
        assert lines[0].startswith(start)
        head, *rows = read(result._repr_html_())
        assert rows
        first = next(at for at, line in enumerate(lines) if line.split()[:1] == [rows[0][0]])
        for row, line in zip(rows, lines[first:], strict=False):
            assert line.split() == " ".join(row).split()
        words = " ".join(head).replace("_", " ").split()
        assert sorted(" ".join(lines[1:first]).split()) == sorted(words)


def test_a_checked_model_shows_its_findings_and_its_page(tmp_path):
    _, suite, _, scores, found, slices = results()
    answer = Answer("<b>bold</b> is missed", "test", [])
    checked = Checked(suite, scores, found, None, slices, answer, tmp_path / "<b>")
    assert repr(checked).startswith("<b>bold</b> is missed\n")
    assert "page: " in repr(checked)
    html = checked._repr_html_()
    assert "&lt;b&gt;/report/index.html" in html
    assert "&lt;b&gt;bold&lt;/b&gt; is missed" in html
    # tables are shown on request
    assert "<table" not in html
    assert "<table" in checked.slices._repr_html_()


def test_tables_of_sets_have_a_row_for_each_image():
    challenge = results()[2]
    table = challenge.table
    assert table["image_id"].equals(challenge.image_ids)
    for subset in ("hard_positive", "hard_negative", "easy"):
        assert table.filter(subset=subset)["image_id"].to_list() == challenge.ids(subset)
    bare = replace(challenge, support=None, by_cue=None).table
    assert bare.schema == table.schema
    assert bare["support"].null_count() == len(challenge)
    nothing = np.zeros(0, dtype=bool)
    empty = replace(
        challenge, image_ids=challenge.image_ids.clear(), labels=nothing,
        subset=nothing.astype(np.uint8), support=None, by_cue=None,
    )  # fmt: skip
    assert empty.table.schema == table.schema


def test_pandas_frames_have_the_values_of_the_tables():
    pytest.importorskip("pandas", reason="pandas is not installed: pip install 'nooch[pandas]'")
    for result in results()[2:]:
        frame = result.to_pandas()
        again = pl.from_pandas(frame, nan_to_null=True)
        assert again.columns == result.table.columns
        for name, kind in result.table.schema.items():
            assert again[name].cast(kind).equals(result.table[name]), name


def test_without_pandas_the_install_line_is_given(monkeypatch):
    monkeypatch.setattr(
        pl.DataFrame, "to_pandas", lambda self: (_ for _ in ()).throw(ModuleNotFoundError("pandas"))
    )
    fails(
        results()[2].to_pandas,
        "to_pandas needs the package pandas",
        "pip install 'nooch[pandas]'",
        kind=MissingExtraError,
    )


def test_ids_have_no_commas_and_counts_do():
    shown = DisplayTable("T", ["image", "n"], [[4286, 4286]])
    assert shown.text().splitlines()[-1].split() == ["4286", "4,286"]
    assert ">4286<" in shown.html()
