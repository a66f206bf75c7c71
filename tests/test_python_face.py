"""The Python face: what functions accept; errors that name parameters, never flags."""

import re
from functools import partial

import numpy as np
import polars as pl
import pytest
from scored import logits, small_data, small_suite

import nooch
from nooch.base.errors import NoochError
from nooch.data import save_dataset

DATA, SUITE = small_data(), small_suite()
FRAME = logits(SUITE)
CUES = {"car": ("road",)}

WRONG_TYPES = {
    "find": lambda value: nooch.find(value, nooch.CE()),
    "find criteria": lambda value: nooch.find(DATA, value),
    "find tasks": lambda value: nooch.find(DATA, "ce", tasks=value),
    "evaluate": lambda value: nooch.evaluate(value, FRAME),
    "evaluate predictions": lambda value: nooch.evaluate(SUITE, value),
    "evaluate reading": lambda value: nooch.evaluate(SUITE, FRAME, reading=value),
    "findings": lambda value: nooch.cue_findings(value, FRAME),
    "findings data": lambda value: nooch.cue_findings(SUITE, FRAME, data=value),
    "slices": lambda value: nooch.find_slices(value, FRAME),
    "explain": lambda value: nooch.explain(value, "car", 40),
    "summary": nooch.summary,
    "overlaps": nooch.paper.overlaps,
    "embed": lambda value: nooch.embed(value, "lexical"),
    "sweep": nooch.sweep_thresholds,
    "plot findings": nooch.plot.findings,
    "plot slices": nooch.plot.slices,
    "losses": lambda value: nooch.paper.sweep_losses(value, FRAME),
    "truth": lambda value: nooch.paper.find_score(value, pl.DataFrame()),
    "images": lambda value: nooch.io.find_images(value, ["car"]),
}
VALUES = [3, [1], {"a": 1}, np.zeros(3), object(), nooch.CE]


@pytest.mark.parametrize("call", WRONG_TYPES)
def test_wrong_types_are_refused_and_name_no_flag(call):
    for value in VALUES:
        with pytest.raises(NoochError) as caught:
            WRONG_TYPES[call](value)
        text = str(caught.value)
        assert "allowed:" in text or "remedy:" in text, text
        assert not re.search(r"(?<![\w-])--[a-z]", text), text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """``data`` and ``suite`` in a folder, and ``captioned``, with captions and two embeddings."""
    root = tmp_path_factory.mktemp("folders")
    save_dataset(DATA, root / "data")
    captions = DATA.images.select("image_id", caption=pl.lit("a car"))
    captioned = nooch.Dataset.build(DATA.images, DATA.classes, DATA.areas, captions)
    for name in ("e", "f"):
        captioned = captioned.with_embedding(name, np.eye(60, 2))
    save_dataset(captioned, root / "captioned")
    nooch.find(root / "data", nooch.CE(cues=CUES), tasks="car", out=root / "suite")
    return root


WRONG_VALUES = {
    "no dataset": lambda root: nooch.find(root, "ce"),
    "annotations": lambda root: nooch.find(root / "instances.json", "ce"),
    "no suite": lambda root: nooch.evaluate(root / "data", FRAME),
    "no predictions": lambda root: nooch.evaluate(SUITE, root / "missing.csv"),
    "out exists": lambda root: nooch.find(DATA, "ce", out=root / "suite"),
    "gist": lambda _: nooch.find(DATA, "gist"),
    "which gist": lambda root: nooch.find(root / "captioned", "gist"),
    "no match": lambda root: nooch.find(root / "captioned", nooch.Gist("e")),
    "match": lambda _: nooch.find(DATA, "ce", match="ce"),
    "phi": lambda _: nooch.find(DATA, nooch.Attribute("nothing = 1")),
    "tau": lambda _: nooch.Gist("e", tau=3),
    "task": lambda _: nooch.find(DATA, "ce", tasks="carr"),
    "option": lambda _: nooch.find(DATA, "ce", task="car"),
    "split": lambda _: nooch.find(DATA, "ce", splits=["tests"]),
    "set": lambda _: SUITE.set("ce", "cow", "test"),
    "value": lambda _: nooch.evaluate(SUITE, FRAME).value("auc", "hard"),
    "groups": lambda _: nooch.evaluate(SUITE, FRAME).by_group("auc"),
    "by": lambda _: nooch.evaluate(SUITE, FRAME, by=["place"]),
    "metric": lambda _: nooch.evaluate(SUITE, FRAME, metrics=["acc"]),
    "unscored": lambda _: nooch.evaluate(SUITE, FRAME, split="valid"),
    "wide": lambda _: nooch.evaluate(SUITE, FRAME.pivot(on="task", index="image_id")),
    "unknown image": lambda _: nooch.evaluate(
        SUITE, pl.DataFrame({"image_id": [-1], "task": "car", "logit": 0.5})
    ),
    "unknown task": lambda _: nooch.evaluate(SUITE, FRAME.with_columns(task=pl.lit("dog"))),
    "other dataset": lambda _: nooch.cue_findings(SUITE, FRAME, data=DATA.select("test")),
    "explained": lambda _: nooch.explain(SUITE, "car", -1),
    "report": lambda root: nooch.write_report(
        nooch.paper.Sources(suite=SUITE, data=DATA, images=root / "no"), root / "r"
    ),
    "checked": lambda root: nooch.check(DATA, FRAME, root / "checked"),
    "export": lambda root: nooch.export(SUITE, "xml", root / "exported"),
    "encoder": lambda _: nooch.embed(DATA, None),
}


@pytest.mark.parametrize("call", WRONG_VALUES)
def test_errors_from_python_name_no_flag(call, folder):
    with pytest.raises(NoochError) as caught:
        WRONG_VALUES[call](folder)
    text = str(caught.value)
    assert not re.search(r"(?<![\w-])--[a-z]", text), text


def test_folders_serve_as_datasets_and_suites(folder):
    suite = nooch.find(str(folder / "data"), nooch.CE(cues=CUES), tasks="car")
    assert suite.header.dataset.path == str((folder / "data").resolve())
    stored = nooch.load_suite(folder / "suite")
    assert stored.header.dataset.path == "../data"
    assert stored.source_dataset().fingerprint == DATA.fingerprint
    scores = nooch.evaluate(folder / "suite", FRAME.filter(task="car"))
    assert scores.table.equals(nooch.evaluate(suite, FRAME.filter(task="car")).table)
    assert nooch.summary(str(folder / "suite"), with_overlap=False)["tasks"] == ["car"]
    by_path = nooch.cue_findings(folder / "suite", FRAME, data=folder / "data")
    assert by_path.table.equals(nooch.cue_findings(stored, FRAME, data=DATA).table)
    slices = nooch.find_slices(folder / "data", FRAME, min_support=2)
    assert slices.table.equals(nooch.find_slices(DATA, FRAME, min_support=2).table)


def test_gist_matches_the_only_other_criterion(folder):
    data = nooch.load_dataset(folder / "captioned")
    vectors = {"e": np.eye(60, 2)}
    alone = nooch.Dataset.build(data.images, data.classes, data.areas, embeddings=vectors)
    assert nooch.find(alone, ["ce", "gist"]).header == (
        nooch.find(alone, {"ce": nooch.CE(), "gist": nooch.Gist("e")}, match="ce").header
    )
    several = {"a": nooch.CE(), "b": nooch.CE(beta=0.2), "gist": nooch.Gist("e")}
    with pytest.raises(NoochError, match="gist has no thresholds"):
        nooch.find(alone, several)


def test_predictions_may_be_frames_of_other_libraries():
    expected = nooch.evaluate(SUITE, FRAME).table
    assert nooch.evaluate(SUITE, FRAME.to_arrow()).table.equals(expected)
    assert nooch.evaluate(SUITE, FRAME.to_arrow().to_reader()).table.equals(expected)
    pytest.importorskip("pandas", reason="pandas is not installed: pip install 'nooch[pandas]'")
    frame = FRAME.to_pandas()
    assert nooch.evaluate(SUITE, frame).table.equals(expected)
    assert nooch.evaluate(SUITE, {"predictions": frame}).table.equals(expected)
    found = nooch.cue_findings(SUITE, frame, data=DATA).table
    assert found.equals(nooch.cue_findings(SUITE, FRAME, data=DATA).table)


VERBS = {
    "evaluate": lambda given: partial(nooch.evaluate, SUITE, given),
    "findings": lambda given: partial(nooch.cue_findings, SUITE, given, data=DATA),
    "slices": lambda given: partial(nooch.find_slices, DATA, given),
    "validity": lambda given: partial(nooch.validity, SUITE, {"a": given, "b": FRAME}),
}


@pytest.mark.parametrize("verb", VERBS)
def test_how_predictions_are_read_is_given_alike(verb):
    """What an error recommends for reading is a keyword of the verb, and then helps."""
    more = pl.DataFrame({"image_id": [-1], "task": "car", "logit": 0.5}, schema=FRAME.schema)
    call = VERBS[verb](pl.concat([FRAME, more]))
    with pytest.raises(NoochError) as caught:
        call()
    assert caught.value.give == ({"reading": {"ignore_unknown": True}},)
    assert call(**caught.value.give[0])
