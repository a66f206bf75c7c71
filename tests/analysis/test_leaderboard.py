"""Leaderboards: rates and comparisons by hand, refused files, pages, real captions and answers."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, strategies as st
from planted import planted_data
from refusals import fails
from sites import HOSTILE

import nooch
from nooch.analysis.leaderboard import leaderboard, paired_gap
from nooch.base.errors import OutputError, ParameterError
from nooch.evaluation.captions import read_captions, score_captions
from nooch.evaluation.metrics.proportions import exact_mcnemar, paired_interval
from nooch.report.exports.benchmark import CELL_TEXTS, eval_yaml
from nooch.report.exports.contract import safe_name
from nooch.suites.questions import Draw, draw_questions

ROOT = Path(__file__).parents[2]
DATA = planted_data()
SUITE = nooch.find(DATA, nooch.CE(), tasks=["car"], splits=["test"])
QUESTIONS = draw_questions(SUITE, SUITE.keys, Draw()).frame


def answers(hard, easy, recall, seed=0):
    """Answers that say yes this often to absent objects in and out of context, and to present."""
    draw = np.random.default_rng(seed).random(len(QUESTIONS))
    cell = QUESTIONS["ce"].to_numpy()
    rate = np.select([cell == "hard_negative", cell == "easy_negative"], [hard, easy], recall)
    yes = pl.Series("answer", np.where(draw < rate, "Yes.", "No."))
    return QUESTIONS.select("question_id", "image_id", "task", "text", "weight", "label", yes)


def put(folder, name, frame, about=""):
    """A model's folder."""
    (folder / name).mkdir(parents=True)
    (folder / name / "model.yaml").write_text(about or f"name: {name}\n")
    frame.write_parquet(folder / name / "answers.parquet")
    return folder / name


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models"
    for name, rates in {"worse": (0.6, 0.2, 0.9), "better": (0.1, 0.05, 0.8)}.items():
        put(folder, name, answers(*rates))
    (folder / ".git").mkdir()
    (folder / "README.md").write_text("how to add a model")
    return folder


def test_rates_and_order_by_hand(models, tmp_path, run_cli):
    board = leaderboard(models, suite=SUITE, out=tmp_path / "site")
    assert board.table["folder"].to_list() == ["better", "worse"]
    said = {name: answers(*rates) for name, rates in
            {"worse": (0.6, 0.2, 0.9), "better": (0.1, 0.05, 0.8)}.items()}  # fmt: skip
    for row in board.table.iter_rows(named=True):
        frame = said[row["folder"]].with_columns(QUESTIONS["ce"], yes=pl.col("answer") == "Yes.")
        for (cell,), part in frame.partition_by("ce", as_dict=True).items():
            rate = np.average(part["yes"], weights=part["weight"])
            assert row[cell] == pytest.approx(rate)
            assert row[f"{cell}_low"] < rate < row[f"{cell}_high"]
        of_tasks = [
            np.average(part["yes"], weights=part["weight"])
            for part in frame.filter(pl.col("ce").str.ends_with("positive")).partition_by("task")
        ]
        assert row["macro_recall"] == pytest.approx(np.mean(of_tasks))
        assert row["false_ratio"] == pytest.approx(row["hard_negative"] / row["easy_negative"])
        assert row["recall_ratio"] == pytest.approx(row["easy_positive"] / row["hard_positive"])
        assert (row["unknown"], row["coverage"]) == (0, 1)
    second = board.table.row(1, named=True)
    assert second["gap"] == pytest.approx(second["hard_negative"] - board.table["hard_negative"][0])
    assert second["p"] < 0.01
    page = (tmp_path / "site" / "index.html").read_text()
    assert page.index("better") < page.index("worse")
    content = json.loads((tmp_path / "site" / "leaderboard.json").read_text())
    assert content["models"] == board.table.to_dicts()
    assert pl.read_csv(tmp_path / "site" / "leaderboard.csv")["name"].to_list() == [
        "better",
        "worse",
    ]
    nooch.suites.save_suite(SUITE, tmp_path / "suite")
    fails(
        lambda: leaderboard(models, suite=SUITE, out=tmp_path / "site"), "exists", kind=OutputError
    )
    asked = f"leaderboard {models} --suite {tmp_path / 'suite'} --out {tmp_path / 'site'}"
    assert "Leaderboard(2 models, ce)" in run_cli(f"{asked} --overwrite").ok().out


def test_models_that_differ_by_chance_are_tied(models, tmp_path):
    put(models, "again", answers(0.1, 0.05, 0.8, seed=1))
    table = leaderboard(models, suite=SUITE).table
    texts = [row[-1] for row in leaderboard(models, suite=SUITE).display.rows]
    assert texts[0] == ""
    assert texts[1].endswith("tied")
    assert not texts[2].endswith("tied")
    # of two models that cannot be told apart the rank is the same; n is in the first column
    assert table["rank"].to_list() == [1, 1, 3]
    n = len(QUESTIONS)
    assert [row[0] for row in leaderboard(models, suite=SUITE).display.rows] == [
        f"{rank}. {name}, n {n:,}" for rank, name in zip(table["rank"], table["name"], strict=True)
    ]
    assert (
        table.select(pl.sum_horizontal(f"{cell}_n" for cell in nooch.suites.CELLS))[:, 0].to_list()
        == table["n"].to_list()
        == [n] * 3
    )
    # of the three pairs the smallest p counts three times, the next twice (Holm)
    cells = {name: QUESTIONS.select("image_id", "task", "weight", cell="ce").hstack([
        (pl.read_parquet(models / name / "answers.parquet")["answer"] == "Yes.")
        .cast(pl.Float64).alias("yes")]) for name in table["folder"]}  # fmt: skip
    first, second, third = table["folder"]
    p = {(a, b): paired_gap(cells[b], cells[a])["p"]
         for a, b in ((first, second), (first, third), (second, third))}  # fmt: skip
    least, middle, most = sorted(p.values())
    corrected = {least: 3 * least, middle: max(3 * least, 2 * middle)}
    corrected[most] = max(corrected[middle], most)
    for place, pair in ((1, (first, second)), (2, (second, third))):
        assert table["p"][place] == pytest.approx(min(1, corrected[p[pair]]))


def test_a_baseline_is_a_model(models, tmp_path, run_cli):
    """Its folder, name or file; the page and the JSON have what changes."""
    (models / "worse" / "model.yaml").write_text("name: the old one\n")
    site = tmp_path / "site"
    board = leaderboard(models, suite=SUITE, baseline="worse", out=site)
    (change,) = board.changes
    rows = {row["folder"]: row for row in board.table.iter_rows(named=True)}
    assert (change.run, change.baseline) == ("better", "worse")
    for name, of in (("hard_negative", "rate_with"), ("easy_negative", "rate_without"),
                     ("false_ratio", "ratio"), ("dprime", "dprime")):  # fmt: skip
        value = change.changes[of]
        pair = value.before, value.after
        assert pair == pytest.approx((rows["worse"][name], rows["better"][name])), name
    assert change.sentence in (site / "index.html").read_text()
    content = json.loads((site / "leaderboard.json").read_text())
    assert content["changes"][0]["verdict"] == change.verdict
    assert content["settings"]["baseline"] == "worse"
    for given_as in ("the old one", models / "worse", models / "worse" / "answers.parquet"):
        assert leaderboard(models, suite=SUITE, baseline=given_as).changes == board.changes

    def kind(baseline, *words):
        fails(lambda: leaderboard(models, suite=SUITE, baseline=baseline), *words,
              kind=ParameterError)  # fmt: skip

    kind("worse2", "did you mean worse?")
    kind(models / "README.md", "is not the file of a model")
    (models / "better" / "model.yaml").write_text("name: the old one\nrevision: 2\n")
    kind("the old one", "'the old one' is better, worse")
    nooch.suites.save_suite(SUITE, tmp_path / "suite")
    asked = f"leaderboard {models} --suite {tmp_path / 'suite'} --out {tmp_path / 's'}"
    shown = " ".join(run_cli(f"{asked} --baseline worse").ok().out.split())
    assert change.sentence in shown
    assert "Changes from worse on ce" in shown


SAID = {
    "better": (0.1, 0.05, 0.8), "honest": (0.3, 0.1, 0.8), "worse": (0.6, 0.2, 0.8),
}  # fmt: skip


def wrong_in(frame, cell):
    """The answers about a cell that are wrong."""
    yes = pl.Series(frame["answer"] == "Yes.")
    return (QUESTIONS["ce"] == cell) & (yes != (QUESTIONS["label"] == 1))


@pytest.mark.parametrize("cell", nooch.suites.CELLS)
@pytest.mark.parametrize("how", ["left out", "unreadable"])
def test_leaving_out_wrong_answers_does_not_help(tmp_path, cell, how):
    """The rank, rates, ratios, d' and difference are those of the twin that answers."""
    tables = []
    for cheats in (False, True):
        folder = tmp_path / f"models-{cheats}"
        for name, rates in SAID.items():
            frame = answers(*rates)
            if cheats and name == "honest":
                wrong = wrong_in(frame, cell)
                assert wrong.sum() > 3
                said = pl.when(wrong).then(pl.lit("I cannot tell.")).otherwise("answer")
                said = said.alias("answer")
                frame = frame.filter(~wrong) if how == "left out" else frame.with_columns(said)
            put(folder, name, frame)
        tables.append(leaderboard(folder, suite=SUITE, least_coverage=0).table)
    twin, cheat = tables
    assert cheat["folder"].to_list() == twin["folder"].to_list() == [*SAID]
    same = [*nooch.suites.CELLS, "dprime", "gap", "p", "n_both"]
    assert cheat.select(same).equals(twin.select(same))
    for name, sign in (("false_ratio", 1), ("recall_ratio", 1), ("unknown", 1), ("coverage", -1)):
        assert (sign * (cheat[name] - twin[name]) >= -1e-9).all(), name
    unknown = QUESTIONS["weight"].filter(wrong_in(answers(*SAID["honest"]), cell)).sum()
    share = unknown / QUESTIONS["weight"].filter(QUESTIONS["ce"] == cell).sum()
    row = cheat.row(1, named=True)
    assert row["unknown"] == row[f"{cell}_unknown"] == pytest.approx(share)
    left = share if how == "left out" else 0
    assert row["coverage"] == row[f"{cell}_coverage"] == pytest.approx(1 - left)
    if how == "left out":
        # coverage of all questions together would be higher
        bound = 1 - share + 0.001
        fails(lambda: leaderboard(folder, suite=SUITE, least_coverage=bound), f"{cell[:4]} ")


def test_a_phrasing_that_is_left_out_does_not_help(tmp_path):
    """Of three phrasings two are answered yes; without these, one no is not the answer."""
    hard = SUITE.set("ce", "car", "test").ids("hard_negative")
    texts = ["Is there a car in the image?", "Can you see a car in this image?",
             "Does this image contain a car?"]  # fmt: skip
    asked = pl.DataFrame([
        {"image": str(i), "text": text, "question_id": 3 * n + k}
        for n, i in enumerate(QUESTIONS["image_id"]) for k, text in enumerate(texts)
    ])  # fmt: skip
    asked.write_ndjson(tmp_path / "asked.json")
    ids = asked["image"].cast(pl.Int64)
    yes = ids.is_in(hard[::2]) & (asked["question_id"] % 3 > 0)
    frame = asked.select("question_id", question="text", answer=pl.when(yes).then(pl.lit("Yes."))
                         .otherwise(pl.lit("No.")))  # fmt: skip
    rates = {}
    for name, said in {
        "honest": frame, "left out": frame.filter(~yes),
        "unreadable": frame.with_columns(pl.when(yes).then(pl.lit("?")).otherwise("answer")
                                         .alias("answer")),
    }.items():  # fmt: skip
        put(tmp_path / name, "model", said)
        board = leaderboard(tmp_path / name, suite=SUITE, questions=tmp_path / "asked.json",
                            least_coverage=0)  # fmt: skip
        rates[name] = board.table["hard_negative"][0]
    assert rates["honest"] > 0.3
    assert rates["left out"] == rates["unreadable"] == rates["honest"]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_one_question_an_image_is_mcnemars_test(said):
    n = len(said)
    frames = [
        pl.DataFrame({"image_id": range(n), "task": "car", "weight": 1.0, "cell": "hard_negative",
                      "yes": [float(pair[side]) for pair in said]}) for side in (0, 1)
    ]  # fmt: skip
    found = paired_gap(*frames)
    up, down = sum(a and not b for a, b in said), sum(b and not a for a, b in said)
    assert found["gap"] == pytest.approx((up - down) / n)
    assert found["n_both"] == n
    assert found["p"] == pytest.approx(float(exact_mcnemar(np.array(up), np.array(down))))
    ends = paired_interval(np.array(up / n), np.array(down / n), np.array(n))
    assert [found["gap_low"], found["gap_high"]] == pytest.approx([*map(float, ends)], abs=1e-9)


def test_answers_about_one_image_count_less():
    image = np.repeat(np.arange(50), 4)
    rows = {"image_id": image, "task": [f"t{i % 4}" for i in range(200)], "weight": 1.0,
            "cell": "hard_negative"}  # fmt: skip
    together = np.repeat(np.arange(50) % 5 == 0, 4)
    apart = np.arange(200) % 5 == 0
    width = {}
    for name, yes in {"together": together, "apart": apart}.items():
        frames = [pl.DataFrame(rows | {"yes": of.astype(float)}) for of in (yes, yes & False)]
        found = paired_gap(*frames)
        width[name] = found["gap_high"] - found["gap_low"]
    assert width["together"] > 1.8 * width["apart"]


def change(frame, column, value):
    return frame.with_columns(pl.Series(column, [value, *frame[column][1:]], frame[column].dtype))


FULL = {"least_coverage": 1.0}
FORGED = {
    "partial": (lambda f: f.head(30), "% of the questions on hard negatives"),
    "other weights": (lambda f: change(f, "weight", 1000.0), "other weights than the questions"),
    "other questions": (
        lambda f: change(f, "image_id", int(DATA.images.filter(split="train")["image_id"][0])),
        "% of the questions on ",
    ),
    "answered twice": (
        lambda f: pl.concat([f, f.head(1)]), "answers a question several times"
    ),
    "only answers": (
        lambda f: f.select("answer", question=pl.lit(None, pl.String)),
        "names neither questions nor images, so answers cannot be matched",
    ),
    "no answers": (
        lambda f: f.select("image_id", "label"), "contains no known field of answers"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_files_are_refused_with_the_reason(name, models, tmp_path):
    make, reason = FORGED[name]
    put(models, "forged", make(answers(0.1, 0.1, 0.9, seed=5)))
    fails(lambda: leaderboard(models, suite=SUITE, out=tmp_path / "site", **FULL), reason)
    assert not (tmp_path / "site").exists()


def test_shuffled_answers_are_refused(models):
    frame = answers(0.1, 0.1, 0.9, seed=5)
    turned = frame.select("question_id", question="text").hstack(frame.select("answer").reverse())
    other = turned.with_columns(question=pl.lit("Is there a cow in the image?"))
    put(models, "forged", other)
    fails(lambda: leaderboard(models, suite=SUITE), "answers belong to other questions")


def test_folders_that_are_no_models(models, tmp_path):
    def refused(name, text, about="", **files):
        folder = put(models, name, answers(0.1, 0.1, 0.9, seed=6), about)
        for file, content in files.items():
            (folder / file).write_text(content)
        fails(lambda: leaderboard(models, suite=SUITE), text)
        shutil.rmtree(folder)

    refused("z", "model.yaml", more="x")
    refused("z", "has no name", about="revision: 1\nname: ''\n")
    refused("z", "size", about="name: z\nsize: 7\n")
    refused("z", "'pictures'", about="name: z\nkind: pictures\n")
    refused("z", "is too large", about=f"name: {'z' * 70000}\n")
    refused("z", "and model.yaml says 1234", about="name: z\nsha256: '1234'\n")
    refused("z", "same name and revision as worse", about="name: worse\n")
    shutil.copytree(models / "better", models / "copy")
    (models / "copy" / "model.yaml").write_text("name: another\n")
    fails(lambda: leaderboard(models, suite=SUITE), "has the same file as better")
    shutil.rmtree(models / "copy")
    (models / "link").mkdir()
    (models / "link" / "model.yaml").write_text("name: link\n")
    (models / "link" / "answers.parquet").symlink_to(models / "better" / "answers.parquet")
    fails(lambda: leaderboard(models, suite=SUITE), "no folders, no links")
    (tmp_path / "empty").mkdir()
    fails(lambda: leaderboard(tmp_path / "empty", suite=SUITE), "contains no model")
    fails(lambda: leaderboard(tmp_path / "none", suite=SUITE), "no such folder")
    shutil.rmtree(models / "link")
    fails(lambda: leaderboard(models, suite=SUITE, criterion="gist"), "'gist'", kind=ParameterError)


def test_names_are_escaped(models, tmp_path):
    put(
        models,
        "hostile",
        answers(0.1, 0.1, 0.9, seed=7),
        json.dumps({"name": HOSTILE, "who": HOSTILE}),
    )
    leaderboard(models, suite=SUITE, out=tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert "<script>window" not in page
    assert "http" not in page.replace("http-equiv", "")


NAMES = ["a b", "ä", "x..", "con", "CON!", "-x", "a@b", "#", "z" * 90]


def test_results_for_the_repositories_of_models(tmp_path, run_cli):
    """An entry for each rate, in the order of the ranks; files with safe names; valid."""
    hub = pytest.importorskip("huggingface_hub")
    parse = getattr(hub, "parse_eval_result_entries", None) or pytest.skip("an older hub")
    about = {"date": "2026-11-20", "prompt": "Is it\nthere? #1: *", "who": "Ada & Bob"}
    about |= {"source": "https://example.org/a", "revision": "v1"}
    for seed, name in enumerate(NAMES):
        frame = answers(0.1 + seed / 20, 0.05, 0.8, seed=seed)
        if seed == 3:  # unknown is wrong
            frame = frame.with_columns(answer=pl.lit("I cannot tell."))
        put(tmp_path / "models", name, frame, json.dumps({"name": name} | (about if seed else {})))
    put(tmp_path / "models", "few", QUESTIONS.select("image_id").unique().with_columns(
        caption=pl.lit("A tree.")), "name: few\nkind: captions\n")  # fmt: skip
    nooch.suites.save_suite(SUITE, tmp_path / "suite")
    site, ask = tmp_path / "site", f"leaderboard {tmp_path}/models --suite {tmp_path}/suite --out"
    run_cli(f"{ask} {site} --benchmark o/n.x@abc").ok()
    files = {file.name: file for file in (site / ".eval_results").iterdir()}
    board = json.loads((site / "leaderboard.json").read_text())["models"]
    board = [row for row in board if row["kind"] == "answers"]
    assert len(files) == len(NAMES) == len(board)
    assert all(re.fullmatch(r"[A-Za-z0-9_=+-][A-Za-z0-9_.=+-]*[.]yaml", name) for name in files)
    values = []
    for row in board:
        (file,) = (f for f in files.values() if f.name == f"{safe_name(row['folder'])}.yaml")
        entries = parse(yaml.safe_load(file.read_text()))
        assert [one.task_id for one in entries] == [f"ce-test-{cell}" for cell in CELL_TEXTS]
        assert {(one.dataset_id, one.dataset_revision) for one in entries} == {("o/n.x", "abc")}
        for one, cell in zip(entries, CELL_TEXTS, strict=True):
            right = 1 - row[cell] if "negative" in cell else row[cell]
            assert one.value == pytest.approx(right)
            ends = [row[f"{cell}_low"], row[f"{cell}_high"]]
            ends = [1 - end for end in ends[::-1]] if "negative" in cell else ends
            assert f"{100 * right:.1f}% [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]" in one.notes
        first = row["folder"] == NAMES[0]
        facts = (one.date, one.source_url, one.source_name)
        assert facts == ((None,) * 3 if first else ("2026-11-20", about["source"], "Ada & Bob"))
        assert first or one.notes.endswith("; revision: v1; prompt: Is it there? #1: *")
        values.append(entries[0].value)
    assert values == sorted(values, reverse=True)
    # what does not answer its questions, or cannot be written
    for bad in ("name", "a/b/c", "../x", "o/n@", "o/n\n", ""):
        fails(lambda bad=bad: leaderboard(tmp_path / "models", suite=SUITE, benchmark=bad,
              out=tmp_path / "no"), "allowed: OWNER/NAME", kind=ParameterError)  # fmt: skip
    fails(lambda: leaderboard(tmp_path / "models", suite=SUITE, benchmark="o/n"), "pass out=",
          kind=ParameterError)  # fmt: skip
    (tmp_path / "captions").mkdir()
    shutil.move(tmp_path / "models" / "few", tmp_path / "captions")
    run_cli(f"leaderboard {tmp_path}/captions --suite {tmp_path}/suite --out {tmp_path}/no"
            " --benchmark o/n").refused("leave out --benchmark")  # fmt: skip
    export = tmp_path / "export"
    export.mkdir()
    QUESTIONS.write_parquet(export / "questions.parquet")
    asked = f"{ask} {tmp_path}/no --benchmark o/n --questions {export}"
    tasks = eval_yaml("name", "gist", ["test"], CELL_TEXTS)
    for text in (tasks, "tasks: 3", "tasks: [3]", "tasks: [{}]", "name: n", "[", ""):
        (export / "eval.yaml").write_text(text)
        run_cli(asked).refused("no task is ce-test-hard_negative" if text == tasks else "eval.yaml")
    listed = "leaderboard leaderboard/nooch-pope --suite nooch-pope --questions adversarial"
    listed += f" --benchmark o/n --out {tmp_path}/no"
    run_cli(listed, cwd=ROOT).refused("asks more than adversarial")
    assert not (tmp_path / "no").exists()


def test_a_date_is_a_date(models):
    (models / "better" / "model.yaml").write_text("name: better\ndate: last week\n")
    fails(lambda: leaderboard(models, suite=SUITE), "last week", "YYYY-MM-DD")


def test_real_answers(shared_data, tmp_path):
    """The rates known of LLaVA's answers."""
    vlm = shared_data / "vlm"
    folder = put(tmp_path / "models", "answers", pl.DataFrame())
    (folder / "answers.parquet").unlink()
    shutil.copy(vlm / "answers" / "llava-1.5-7b.jsonl", folder)
    board = leaderboard(
        tmp_path / "models", suite="nooch-coco", criterion="ce", split=["valid", "test"],
        questions=vlm / "pope" / "llava_pope_test.jsonl",
    )  # fmt: skip
    row = board.table.row(0, named=True)
    cells = ("hard_negative", "easy_negative", "hard_positive", "easy_positive")
    assert [round(row[cell], 3) for cell in cells] == [0.167, 0.052, 0.636, 0.8]
    # labels of nooch-coco were audited: what is contradicted most is also left out
    assert 0.1 < row["hard_negative_without_suspects"] < 0.3


def test_real_captions(shared_data, tmp_path):
    """The order of the models, on the images that all have captions of, and on twice as many."""
    files = {f.stem: f for f in sorted((shared_data / "vlm" / "captions").iterdir())}
    for name, file in files.items():
        (tmp_path / "models" / name).mkdir(parents=True)
        shutil.copy(file, tmp_path / "models" / name)
        (tmp_path / "models" / name / "model.yaml").write_text(f"name: {name}\nkind: captions\n")
    suite = nooch.suites.load_suite("nooch-coco")
    images = read_captions([*files.values()], suite)[0].captions["image_id"].unique()
    asked = tmp_path / "questions.jsonl"
    options = {"suite": suite, "criterion": "ce", "split": ["valid", "test"], "questions": asked}
    other = suite.set("ce", "car", "test").image_ids
    other = other.filter(~other.is_in(images.implode())).head(len(images))
    tables = []
    for listed in (images, pl.concat([images, other])):
        pl.DataFrame({
            "image": listed.cast(pl.String), "text": "Is there a car in the image?"
        }).write_ndjson(asked)  # fmt: skip
        table = leaderboard(tmp_path / "models", **options, least_coverage=0.1).table
        tables.append(table)
        assert table["name"][-1] == "Instruction1_llava"
    first, second = tables
    assert (first["false_ratio"] > 2).all()
    assert (first["coverage"] == 1).all()
    sure = first.select(first="hard_negative_without_suspects", all="hard_negative")
    assert (sure["first"] < sure["all"]).sum() >= 4
    # what has no caption counts as a mention of what is absent
    assert (second["coverage"] < 0.7).all()
    assert (second["hard_negative"] > 0.3).all()
    shutil.copytree(tmp_path / "models" / min(files), tmp_path / "one" / "model")
    fails(lambda: leaderboard(tmp_path / "one", **options), "% of the questions on ")


def test_captions_of_amber_mention_its_words_by_their_names(tmp_path):
    """By default, as `nooch captions` reads them; also in validity."""
    amber = nooch.load_suite("nooch-amber")
    files = []
    for name, text in {
        "sky": "A blue sky over a tree.",
        "beach": "A beach, a sky and a car.",
    }.items():
        frame = pl.DataFrame({"image_id": amber.image_ids(amber.keys), "caption": text})
        folder = tmp_path / "models" / name
        folder.mkdir(parents=True)
        files.append(folder / f"{name}.jsonl")
        frame.write_ndjson(files[-1])
        (folder / "model.yaml").write_text(f"name: {name}\nkind: captions\n")
    board = leaderboard(tmp_path / "models", suite="nooch-amber", baseline="sky")
    scores = score_captions(amber, files, baseline="sky", criteria=["context"], bootstrap=0)
    assert [one.sentence for one in board.changes] == [one.sentence for one in scores.changes]
    assert len(scores.changes) == 4
    for row in board.table.iter_rows(named=True):
        rates = scores.contexts[row["name"], "context"].estimates
        assert row["easy_negative"] == pytest.approx(rates["rate", "easy_negative"].value)
    validity = nooch.validity("nooch-amber", captions=files)
    assert "captions mention a task by the words of names (`synonyms`)" in validity.notes


def test_conditions_judge_models_by_their_folders(models, tmp_path, run_cli):
    put(models, "again", answers(0.1, 0.05, 0.8, seed=1))
    suite, page = tmp_path / "suite", tmp_path / "site"
    nooch.suites.save_suite(SUITE, suite)
    ask = f"leaderboard {models} --suite {suite} --out {page} --overwrite --junit {page}.xml"
    run_cli(f"leaderboard {models} --suite {suite} --out {page} --junit {page}.xml").refused(
        "--fail-if"
    )
    done = run_cli(f"{ask} --fail-if worse --baseline better")
    assert done.code == 1
    assert "failed: worse: worse, car, test: worse claims cars" in done.out
    assert "failed: worse: again" not in done.out
    assert (page / "index.html").is_file()
    assert 'failures="1"' in page.with_suffix(".xml").read_text()
    texts = ["worse", "worse error@hard_negative > better + 0.2", "again error@hard_negative>0.5"]
    board = leaderboard(models, suite=SUITE, baseline=models / "better", fail_if=texts)
    assert [(v.condition.text, v.run, v.fired) for v in board.verdicts] == [
        (texts[1], "worse", True), (texts[2], "again", False),
        (texts[0], "worse", True), (texts[0], "again", False),
    ]  # fmt: skip
    asked = QUESTIONS.with_columns(answers(0.6, 0.2, 0.9)["answer"] == "Yes.")
    hard = asked.filter(ce="hard_negative")
    rate = np.average(hard["answer"], weights=hard["weight"])
    value = leaderboard(models, suite=SUITE, fail_if=["worse error@hard_negative > 0"]).verdicts
    assert [v.value for v in value] == [pytest.approx(rate)]
    shown = run_cli(f"{ask} --fail-if 'again error@hard_negative<0' --format json").ok().json
    assert (shown["conditions"], shown["failed"]) == (1, [])
    bad = run_cli(f"{ask} --fail-if 'again error@hard_negative<1' --format json")
    assert (bad.code, bad.json["failed"][0]["run"]) == (1, "again")
    fails(lambda: leaderboard(models, suite=SUITE, fail_if=["none error@hard<1"]), "none",
          kind=ParameterError)  # fmt: skip


@pytest.mark.parametrize("condition", ["worse", "context"])
def test_a_gate_of_a_leaderboard_that_judges_nothing_fails(tmp_path, condition):
    few = (DATA.images["split"] == "train") | (pl.int_range(len(DATA), eager=True) < 60)
    suite = nooch.find(DATA.select(rows=few.to_numpy()), nooch.CE(), tasks=["car"], splits=["test"])
    asked = draw_questions(suite, suite.keys, Draw()).frame.with_columns(answer=pl.lit("Yes."))
    for name in ("old", "new"):
        put(tmp_path, name, asked.with_columns(note=pl.lit(name)))
    (one,) = leaderboard(tmp_path, suite=suite, baseline="old", fail_if=[condition]).verdicts
    assert (one.run, one.task, one.value, one.fired) == ("new", "", None, True)


def test_conditions_judge_answers_and_captions_each_among_themselves(models):
    """They are about other images: the value of a condition is the rate that is ranked."""
    ids = QUESTIONS["image_id"].unique(maintain_order=True)
    for name, often in {"few": 9, "many": 2}.items():
        texts = ["A car on a road." if i % often == 0 else "A tree." for i in range(len(ids))]
        (models / name).mkdir()
        pl.DataFrame({"image_id": ids, "caption": texts}).write_ndjson(models / name / "c.jsonl")
        (models / name / "model.yaml").write_text(f"name: {name}\nkind: captions\n")
    board = leaderboard(models, suite=SUITE, fail_if=["error@hard_negative>0.4"])
    rates = dict(board.table.select("folder", "hard_negative").rows())
    assert {v.run: v.value for v in board.verdicts} == pytest.approx(rates)
    assert {v.run for v in board.verdicts if v.fired} == {n for n, r in rates.items() if r > 0.4}
    texts = ["many error@hard_negative > few", "error@hard_negative > baseline"]
    board = leaderboard(models, suite=SUITE, fail_if=texts, baseline=models / "better")
    assert [(v.condition.text, v.run, v.fired) for v in board.verdicts] == [
        (texts[1], "worse", True), (texts[0], "many", True),
    ]  # fmt: skip
    assert f"{texts[1]}: not judged, as of another kind: few, many" in board.notes
    fails(lambda: leaderboard(models, suite=SUITE, fail_if=["many error@hard > worse"]),
          "compares answers with captions", "one kind", kind=ParameterError)  # fmt: skip
