"""What every export promises. A new export is one row here; one without a row fails."""

import inspect
import re
from dataclasses import replace
from functools import partial

import pytest
from refusals import fails, refused

from nooch.base.errors import NoochError, OutputError
from nooch.report.exports import EXPORTS, exporter
from nooch.report.exports.export import export
from nooch.suites import Suite

# name -> the options that an export of the made suite needs
PLAIN = ("ids", "coco-slices", "csv", "hf", "fiftyone")
OPTIONS = {name: lambda _made: {} for name in PLAIN}
OPTIONS["coco"] = lambda made: {"annotations": made.annotations}
QUESTIONS = ("pope", "images", "lmms-eval", "vlmevalkit")
OPTIONS |= dict.fromkeys(QUESTIONS, lambda made: {"splits": made.suite.splits})
ALL_OPTIONS = "color annotations no_annotations subsets id_field predictions scale images images_as"
_TEXTS = "id_field", "images", "images_as"
NOT_ITS_OWN = [
    (name, option)
    for name in EXPORTS
    for option in ALL_OPTIONS.split()
    if option not in inspect.signature(exporter(name)).parameters
]


def test_every_export_has_a_row():
    assert set(OPTIONS) == set(EXPORTS)


class Case:
    """One format, what it writes to, and how to see what it wrote."""

    def __init__(self, name, made, folder, fiftyone):
        self.name, self.made, self.folder, self._fiftyone = name, made, folder, fiftyone
        self.in_database = name == "fiftyone"
        self.out = "photos" if self.in_database else folder / "out"

    def write(self, suite=None, out=None, **more):
        options = {"data": self.made.data, **OPTIONS[self.name](self.made), **more}
        return export(suite or self.made.suite, self.name, out or self.out, **options)

    def state(self, out=None):
        out = out or self.out
        if self.in_database:
            return self._fiftyone.datasets[out].state
        paths = [out, *sorted(out.rglob("*"))]
        return {p.relative_to(out).parts: p.read_bytes() for p in paths if p.is_file()}

    def everything(self):
        """All that lies in the folder, temporary files too, or the database."""
        return self.state() if self.in_database else sorted(self.folder.rglob("*"))


@pytest.fixture(params=EXPORTS)
def case(request, made, tmp_path, fiftyone):
    return Case(request.param, made, tmp_path, fiftyone)


def test_it_tells_what_it_wrote(case):
    done = case.write()
    assert (done.to, done.out, done.sets) == (case.name, str(case.out), len(case.made.suite.keys))
    if not case.in_database:
        names = ["/".join(parts) or case.out.name for parts in case.state()]
        assert sorted(done.files) == sorted(names)


def test_it_writes_the_same_bytes_every_time(case):
    case.write()
    first = case.state()
    case.write(overwrite=True)
    assert case.state() == first
    if not case.in_database:
        case.write(out=case.folder / "again")
        assert case.state(case.folder / "again") == first


def test_it_keeps_what_is_there_unless_it_may_overwrite(case):
    case.write()
    before = case.state()
    fails(lambda: case.write(licenses=["another"]), "`overwrite`", kind=OutputError)
    assert case.state() == before
    case.write(licenses=["another"], overwrite=True)
    assert case.state() != before


def test_it_replaces_nothing_that_no_export_wrote(case):
    if case.in_database:
        dataset = case._fiftyone.datasets["photos"]
        dataset.samples[0]["tags"] = {"mine"}
        case.write(overwrite=True)
        assert "mine" in dataset.samples[0]["tags"]
        return
    for made_by_hand in ("folder", "file"):
        out = case.folder / made_by_hand
        mine = out if made_by_hand == "file" else out / "mine.txt"
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("precious")
        fails(lambda out=out: case.write(out=out, overwrite=True), "not replaced", kind=OutputError)
        assert mine.read_text() == "precious"


def test_it_writes_whole_or_not_at_all(case):
    keys = list(case.made.suite.keys)

    def source(*key):
        if key == keys[-1]:
            raise NoochError("the disk is gone")
        return case.made.suite.set(*key)

    broken = Suite(case.made.suite.header, source)
    before = case.everything()
    fails(lambda: case.write(suite=broken), "the disk is gone", kind=NoochError, helps=False)
    assert case.everything() == before
    case.write()
    before = case.everything(), case.state()
    again = partial(case.write, suite=broken, overwrite=True)
    fails(again, "the disk is gone", kind=NoochError, helps=False)
    assert (case.everything(), case.state()) == before


def test_it_carries_the_licenses(case):
    done = case.write(licenses=["Terms of the archive"])
    assert done.licenses == [
        {"name": "CC BY", "url": "https://example.org/by", "source": "recorded"},
        {"name": "Terms of the archive", "source": "stated"},
    ]
    assert not any("license" in text for text in done.notes)
    written = str(case.state())
    assert "https://example.org/by" in written
    assert "Terms of the archive" in written


def test_it_claims_no_license_that_nobody_recorded(case, published):
    known = case.made.data.provenance
    bare = replace(case.made.data, provenance={**known, "licenses": []})
    options = {"annotations": [], "no_annotations": True} if case.name == "coco" else {}
    done = case.write(suite=published, data=bare, **options)
    assert done.licenses == []
    assert any("`licenses`" in text for text in done.notes)
    written = str(case.state())
    assert "not recorded" in written
    assert "CC BY" not in written


def test_sets_that_others_published_need_no_dataset_but_for_file_names(case, published):
    write = partial(case.write, suite=published, data=None)
    if case.name in {"csv", "fiftyone", "coco-slices"}:
        fails(write, "needs the dataset", "`data`", kind=NoochError)
    elif case.name == "vlmevalkit":
        fails(write, "needs the image files", "`images`")
    else:
        assert write().sets == 4
        if case.name in {"pope", "images"}:
            # the published sets are of COCO: its images are named by their ids
            assert re.search(r"0{8}[0-9]{4}\.jpg", str(case.state()))


@pytest.mark.parametrize(("case", "option"), NOT_ITS_OWN, indirect=["case"])
def test_an_option_that_it_does_not_have_is_refused(case, option):
    known = option in inspect.signature(export).parameters
    value = True if option == "no_annotations" else "x" if option in _TEXTS else ["easy"]
    problem = f"{option!r} is not a{'n option' if known else ' keyword'} of"
    text = refused(lambda: case.write(**{option: value}), problem)
    assert (f"the export {case.name}" if known else "export") in text
    assert not case.everything() or case.in_database


def test_a_selection_is_all_that_is_written(case):
    done = case.write(criteria=["ce"], tasks=["car"], splits=["test"])
    assert done.sets == 1
    if case.in_database:
        expected = {f"nooch:ce:car:hard_{side}" for side in ("positive", "negative")}
        assert {tag for tags in case.state()[0] for tag in tags} == expected
    assert not any(word in name for name in done.files for word in ("fire", "valid", "7Ece"))


def test_it_is_documented(case):
    function = exporter(case.name)
    assert inspect.getdoc(function)
    assert list(inspect.signature(function).parameters)[:3] == ["content", "out", "overwrite"]
