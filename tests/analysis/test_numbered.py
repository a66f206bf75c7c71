"""One numbering of findings: on the page, in Markdown, JSON and explain, and for export."""

import html
import json

import numpy as np
import polars as pl
import pytest
from planted import planted_data, planted_predictions
from refusals import fails
from sites import numbers, read_script

import nooch
from nooch.base.errors import FormatError, InputError, ParameterError
from nooch.base.words import unbroken
from nooch.data import save_dataset
from nooch.evaluation.numbered import CHECK_MARKER, NUMBERED, numbered_findings


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    """Folder -> the check, of one model; and of two, by ids that are text."""
    root = tmp_path_factory.mktemp("numbered")
    data = planted_data(2000)
    frame = planted_predictions(data, missed=0.3, seed=2)
    # south of the trees something else is wrong
    south = (data.images["place"] == "south").to_numpy() & data.labels("tree")
    frame = frame.with_columns(logit=pl.when(pl.Series(south)).then(-2.0).otherwise("logit"))
    frame.write_csv(root / "new.csv")
    planted_predictions(data, missed=0.9, claimed=0.1).write_csv(root / "old.csv")
    save_dataset(data, root / "data")
    given = {"bootstrap": 0, "stability": 0}
    one = nooch.check(root / "data", root / "new.csv", root / "one", **given)
    two = nooch.check(
        root / "data", root / "new.csv", root / "two", baseline=root / "old.csv", **given
    )
    return {root / "one": one, root / "two": two}


def test_every_place_has_the_same_numbers(checks, run_cli, tmp_path):
    data = nooch.load_dataset(next(iter(checks)).parent / "data").select("test")
    for folder, checked in checks.items():
        findings = checked.answer.numbered
        listed = pl.read_parquet(folder / NUMBERED)
        assert listed.equals(numbered_findings(nooch.load_suite(folder)))
        assert listed["number"].to_list() == [*range(1, len(findings) + 1)]
        assert listed.height >= 2
        by_number = dict(listed.select("number", "sentence").iter_rows())
        # the page, and the data of its buttons
        page = checked.page.read_text(encoding="utf-8")
        _, buttons = read_script(checked.page.parent / "data/findings.js")
        text, markdown = checked.answer.text(), (folder / "findings.md").read_text()
        assert {int(number) for number in buttons} == set(by_number)
        content = json.loads((folder / CHECK_MARKER).read_text())["numbered"]
        assert content == listed.drop("split", "wrong", "right").to_dicts()
        for row in listed.iter_rows(named=True):
            number, sentence = row["number"], row["sentence"]
            anchor = page.index(f'id="finding-{number}"')
            title = f"{number}. {html.escape(unbroken(sentence))}"
            assert title in page[anchor:] or f"Finding {number}<" in page[anchor:]
            assert f"finding={number}" in page[anchor:]
            one = buttons[str(number)]
            assert one["sentence"] == unbroken(sentence)
            ids = data.image_ids[numbers(one["rows"])].tolist()
            assert (ids[: one["wrong"]], ids[one["wrong"] :]) == (row["wrong"], row["right"])
            (shown,) = (f for f in findings if f.number == number)
            assert shown.item in markdown.splitlines()
            assert shown.item.startswith(f"{number}. ")
            assert f"  {shown.line}" in text.splitlines() or "more, on the page" in text
            # explain names the findings of an image
            for wrong in ("wrong", "right"):
                for image in row[wrong][:1]:
                    explained = nooch.explain(folder, "car", image)["findings"]
                    (own,) = (f for f in explained if f["number"] == number)
                    assert own["sentence"] == sentence
                    assert own["wrong"] == (wrong == "wrong")
            # and its images are exported
            out = tmp_path / f"{folder.name}-{number}.json"
            run_cli(f"export {folder} {out} --to ids --finding {number}").ok()
            (exported,) = json.loads(out.read_text())["sets"]
            side = "hard_positive" if row["side"] == "positive" else "hard_negative"
            assert exported[side] == sorted(row["wrong"] + row["right"])
            assert exported["criterion"] == f"finding-{number}"
            assert (data.labels("car") == (row["side"] == "positive"))[numbers(one["rows"])].all()
        assert f"Finding 1 of {len(findings)}" in checked._repr_html_()
        out = tmp_path / f"{folder.name}.json"
        shown = run_cli(f"explain {folder}/suite --task car --image {listed['wrong'][0][0]}").ok()
        assert f"in finding 1, an error: {by_number[1]}" in " ".join(shown.out.split())


def test_errors_are_wrong_answers_and_phi_gives_the_images(checks):
    """Against a loop over the predictions; and find with ``phi`` finds the same images."""
    for folder, checked in checks.items():
        frame = pl.read_csv(folder.parent / "new.csv")
        said = dict(zip(frame["image_id"], frame["logit"] > 0, strict=True))
        kinds = set()
        for row in checked.numbered.iter_rows(named=True):
            kinds.add(row["kind"])
            car = row["side"] == "positive"
            assert all(said[image] != car for image in row["wrong"])
            assert all(said[image] == car for image in row["right"])
            assert (row["n"], row["n_wrong"]) == (
                len(row["wrong"] + row["right"]),
                len(row["wrong"]),
            )
            assert len(set(row["wrong"] + row["right"])) == row["n"]
            if row["phi"] is not None:
                phi = nooch.Attribute(row["phi"])
                suite = nooch.find(
                    folder.parent / "data", {"a": phi}, tasks=["car"], splits=["test"]
                )
                ids = suite.set("a", "car", "test").ids("hard")
                assert ids == sorted(row["wrong"] + row["right"])
        assert "context" in kinds
        assert len([row for row in checked.numbered["phi"] if row]) > 1
    assert {"better", "worse"} & kinds


def test_ids_that_are_text_are_found(tmp_path):
    data = planted_data()
    frame = planted_predictions(data).with_columns(pl.format("a{}", "image_id").alias("image_id"))
    labels = {name: data.labels(name).astype(np.int8) for name in data.classes}
    table = data.images.select(pl.format("a{}", "image_id").alias("image_id"), "split")
    checked = nooch.check(table.with_columns(**labels), frame, tmp_path / "c", bootstrap=0)
    image = checked.numbered["wrong"][0][0]
    assert image.startswith("a")
    assert nooch.explain(tmp_path / "c", "car", image)["findings"][0]["number"] == 1


def test_a_number_that_is_not_there_and_checks_without_a_list(checks, run_cli, tmp_path):
    folder = next(iter(checks))
    n = pl.read_parquet(folder / NUMBERED).height
    out = tmp_path / "x.json"
    run_cli(f"export {folder} {out} --to ids --finding {n + 1}").refused(
        f"--finding: the check has no finding {n + 1}", f"allowed: 1 to {n}"
    )
    run_cli(f"export {folder} {out} --to ids --finding 0").refused("--finding")
    # a suite by itself, and one whose folder has that name
    suite = nooch.find(folder.parent / "data", "ce", tasks=["car"], out=tmp_path / "suite")
    for given in (suite, tmp_path / "suite"):
        fails(lambda given=given: nooch.export(given, "ids", out, finding=1),
              "the suite is not of a check", kind=InputError)  # fmt: skip
    assert "findings" not in nooch.explain(tmp_path / "suite", "car", suite.image_ids()[0])
    assert not out.exists()


def test_a_missing_or_damaged_list_has_a_remedy(tmp_path):
    data = planted_data()
    checked = nooch.check(data, planted_predictions(data), tmp_path / "c", bootstrap=0)
    image, path = checked.numbered["wrong"][0][0], tmp_path / "c" / NUMBERED
    out, whole = tmp_path / "x.json", path.read_bytes()
    frame = pl.read_parquet(path)
    frame.clear().write_parquet(path)
    fails(lambda: nooch.export(tmp_path / "c", "ids", out, finding=1), "the check has no finding",
          "`finding`", kind=ParameterError)  # fmt: skip
    assert nooch.explain(tmp_path / "c", "car", image)["findings"] == []
    for damaged in (whole[:50], b"", b"text"):
        path.write_bytes(damaged)
        fails(lambda: nooch.export(tmp_path / "c", "ids", out, finding=1), "check the predictions",
              kind=FormatError)  # fmt: skip
    frame.drop("wrong").write_parquet(path)
    fails(lambda: nooch.explain(tmp_path / "c", "car", image), "no column wrong", kind=FormatError)
    path.unlink()
    for of_findings in (lambda: nooch.export(tmp_path / "c", "ids", out, finding=1),
                        lambda: nooch.explain(tmp_path / "c", "car", image)):  # fmt: skip
        fails(of_findings, "check the predictions", kind=FormatError)
    assert not out.exists()


def test_a_check_is_a_suite_for_commands_that_also_take_a_dataset(checks, run_cli):
    folder, _ = checks
    typed = [
        f"slices {f} {folder.parent / 'new.csv'} --format json" for f in (folder, folder / "suite")
    ]
    of_check, of_suite = (run_cli(words).ok().json["slices"] for words in typed)
    assert of_check == of_suite != []
