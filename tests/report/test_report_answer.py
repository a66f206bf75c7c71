"""What a report says first: errors by the suite's contexts, as the page of a check shows them."""

import html
import re

import numpy as np
from made_runs import made_runs
from oracles import dataset_of
from sites import page_text, read_script, site_data, site_suite

from nooch.analysis.answer import suite_answer
from nooch.criteria import CE
from nooch.evaluation import Predictions
from nooch.report.answer import Answer, ErrorFinding
from nooch.report.images.sources import Sources
from nooch.report.site.site import write_report
from nooch.suites.find import find


def test_a_report_opens_with_the_errors_of_its_model(tmp_path):
    # of 120 cars a split, 40 without a road
    images = [{"car": 0.1} | ({"road": 0.5} if i % 3 else {}) for i in range(240)]
    images += [{"road": 0.5} if i % 3 == 0 else {"tree": 0.4} for i in range(240)]
    data = dataset_of(images, ["car", "road", "tree"], ["train", "test"] * 240)
    suite, part = find(data, {"ce": CE()}, tasks=["car"]), data.select("test")
    logits = np.where(part.labels("road"), 3.0, -3.0)
    run = Predictions.from_arrays(logits, part.image_ids, "car", scale="logit", run="mine")
    sources = Sources(suite=suite, data=data, predictions=[run], bootstrap=0)
    answer = suite_answer(sources)
    (first,) = answer.findings
    assert answer.verdict == first.sentence
    bare = part.labels("car") & ~part.labels("road")
    assert [(rate.where, rate.value, rate.n) for rate in first.rates] == [
        ("without a road", 1.0, bare.sum()),
        ("with a road", 0.0, (part.labels("car") & part.labels("road")).sum()),
    ]
    # each condition once, over its images
    wrong, right = first.groups
    assert wrong[:2] == ("without a road, wrong (4)", "labeled car, answered no car")
    assert right[:2] == ("with a road, right (2)", "labeled car, answered car")
    assert len(wrong[2]) == 4
    assert all(bare[image.row] for image in wrong[2])
    assert not any(bare[image.row] for image in right[2])
    text = page_text(write_report(sources, tmp_path / "site", answer=answer))
    # the button copies what findings.md has
    _, by_number = read_script(tmp_path / "site/data/findings.js")
    (data_of_first,) = by_number.values()
    assert data_of_first["markdown"] in answer.markdown("x")
    assert data_of_first["markdown"].count("answered no car") == 4
    assert f"<h1>{html.escape(answer.verdict)}</h1>" in text
    assert text.count("labeled car, answered no car") == 1
    assert text.index("without a road, wrong (4)") < text.index("Hard images of test")
    assert suite_answer(Sources(suite=suite, data=data)) is None
    assert suite_answer(Sources(suite=suite, predictions=[run])) is None


def test_runs_are_judged_by_the_mean_logits_of_their_baseline(tmp_path):
    data = site_data(tmp_path, pictures=False)
    suite = site_suite(data)
    trained = made_runs(tmp_path / "runs", suite, tasks=["car"])
    sources = Sources(suite=suite, data=data, runs=[trained.path], bootstrap=0)
    outputs = sources.image_losses.outputs_of("erm", ["car", "cow"]).sort("image_id")
    assert set(outputs.select("task", "run").rows()) == {("car", "erm")}
    names = [name for name, job in trained.header.jobs.items() if job.method == "erm"]
    settings = {trained.header.jobs[name].setting for name in names}
    means = []
    for setting in settings:
        seeds = [trained.predictions(n) for n in names if trained.header.jobs[n].setting == setting]
        logits = [seed.sort("image_id")["logit"].to_numpy() for seed in seeds]
        means.append(np.mean(logits, axis=0, dtype=np.float64))
    assert any(np.allclose(outputs["logit"], mean, atol=1e-6) for mean in means)
    answer = suite_answer(sources)
    assert answer.split == "test"
    assert "erm" in answer.verdict


def _changes(n, kind, name="[n](x)_{}", **more):
    words = {"errors": "new misses x", "sentence": "new misses x more often " * 6, "detail": ""}
    return [
        ErrorFinding(kind, name.format(i), "new", "positive", low=0.1, **words, **more)
        for i in range(n)
    ]


def test_markdown_fits_a_comment_on_github():
    """Of 171 tasks and two sides; what is unchanged is one line, with the classes behind it."""
    unchanged = _changes(342, "unchanged")
    few = Answer("v", "test", [*_changes(2, "worse"), *unchanged], baseline="old").markdown("x")
    assert few.count("new misses x more often") == 12
    assert "### No difference from old shown: 342 comparisons\n\n<details>" in few
    assert few.count("\\[n\\](x) ") == 342
    assert len(few.splitlines()) < 30
    for n in (171, 342, 4000):
        every = [*_changes(n, "worse"), *_changes(n, "better"), *unchanged]
        text = Answer("v", "test", every, baseline="old").markdown("x")
        assert len(text) <= 65_536
        listed = text.count("\n- new misses") + text.count("\n0. new misses")
        more = sum(int(k.replace(",", "")) for k in re.findall(r"- and ([\d,]+) more, on", text))
        assert listed + more == 2 * n
