"""What commands refuse before they write anything: a row for each mistake, and what the error says.

Rows are ``what is typed -> what the error says``; ``{}`` stands for it in the command above them.
"""

import contextlib
import json
import re
import runpy
import shlex
import shutil
import warnings
from pathlib import Path

import pytest
from refusals import ONLY_TYPED, calls_of, same_error, typed_in, with_given

from nooch.base.errors import Command, NoochError
from nooch.cli.main import app
from nooch.cli.terminal import as_typed

COMMANDS = dict(app.every())

REFUSED = {
    "scored: evaluate suite a.parquet --out out.parquet {}": """
--fail-if auc -> 'auc' is not a condition
--fail-if 'auc@hard<x' -> 'x' is neither a number nor a run
--fail-if 'auk@hard<1' -> 'auk' is not a metric
--fail-if 'auc@hrad<1' -> did you mean hard
--fail-if 'auc@hard[gist]<1' -> 'gist' is not a criterion of the suite
--fail-if 'auc@hard[ce,cra]<1' -> did you mean car
--fail-if 'auc@hard[ce,cow]<1' -> task cow has no ce set: no class has A(C, cow) > 0.05
--bootstrap -1 -> --bootstrap
--bootstrap many -> --bootstrap
--seed -1 -> --seed
--format xml -> --format
--split tset -> did you mean test
--split train -> 'train' is not a split of the suite
--split valid -> 16 of 16 images of split valid have no prediction
--criterion gist -> 'gist' is not a criterion of the suite
--tasks cra -> did you mean car
--tasks cow -> there are no predictions for cow
--metrics acu -> did you mean auc
--threshold vlaid -> --threshold: the threshold is vlaid
--threshold 5 -> --threshold: the threshold is 5
--rule pope -> --rule has no effect on tables and arrays
--language de -> --language has no effect on tables
--first-class 1 -> --first-class has no effect on tables
--iou 0.3 -> --iou has no effect: the predictions have no boxes
--threshold valid -> chosen on valid: 16 of 16 images of split valid have no prediction
--average unifrom -> did you mean uniform
--average x:hard_positive=0.5 -> shares add up to 0.5
--average x:hard=1 -> 'hard' is not a cell
--baseline b -> 'b' is not a run of the predictions
--by plaec -> did you mean place
--scale logits -> 'logits' is not a value of --scale
--out out.txt -> '.txt' is not an ending of a scores file
--out suite -> is a folder
--out a.parquet -> exists already
--out a.parquet/out.csv -> cannot make the folder
--out a.parquet --overwrite -> a.parquet: is a file of predictions
""",
    "every: evaluate suite answers.jsonl {}": """
--scale logit -> --scale has no effect on answers in words
--classes names.txt -> --classes has no effect on answers in words
--threshold 0.3 -> --threshold has no effect: every answer is yes or no
""",
    "every: captions suite answers.jsonl {}": """
--synonyms words.yaml -> contains answers yes and no, not captions
""",
    "scored: sweep dataset --out out {}": """
-> nothing to sweep
--alpha 0.05 -> alpha together with beta
--beta 0.05 -> alpha together with beta
--alpha '' --beta 0.1 -> nothing to sweep
--alpha 0:0.2 --beta 0.1 -> --alpha: '0:0.2' is not a grid
--alpha 0:0.2:5:6 --beta 0.1 -> is not a grid
--alpha 0:0.2:many --beta 0.1 -> is not a grid
--alpha 0:0.2:2.5 --beta 0.1 -> is not a grid
--alpha 0.1 --beta a -> --beta: 'a' is not a grid
--alpha -0.1:0.2:4 --beta 0.1 -> alpha is -0.1
--alpha 0.1 --beta -0.1 -> beta is -0.1
--alpha 1:20:20 --beta 0.1 -> did you mean 0.2?
--alpha nan --beta 0.1 -> alpha is nan
--alpha 0:inf:3 --beta 0.1 -> alpha is inf
--alpha 0.1 --beta 0.1 --encoder lexical -> --encoder: an encoder is for the gist
--tau 0.5 -> give --encoder
--tau 0:3:4 --encoder e.npz -> tau ranges from 0 to 3
--tau 0.5 --encoder no-such-model -> no-such-model
--alpha 0.1 --beta 0.1 --tasks cra -> did you mean car
--alpha 0.1 --beta 0.1 --split tset -> did you mean test
""",
    "scored: paper figures --formats svg {} --out out": """
fig4 -> give --runs RUNS and --suite SUITE
fig3 --suite suite -> give --predictions PREDICTIONS, or give --runs RUNS
fig12 -> then give --sweep SWEEP; or give --dataset DATASET
fig11 --sweep sweep -> counts over tau
fig13 --dataset dataset -> give --predictions PREDICTIONS
fig27 -> 'fig27' is not a figure
all -> no figure can be drawn
fig10 --dataset dataset --formats gif -> 'gif' is not a figure format
fig10 --dataset dataset --alpha x -> --alpha: 'x' is not a grid
fig10 --dataset dataset --split tset -> did you mean test
fig10 --dataset dataset --tasks cra -> did you mean car
fig10 --sweep dataset -> is not a sweep
fig4 --runs runs -> give --suite SUITE
fig4 --paper --criteria ce -> is not a pair
""",
    "scored: paper tables few --suite suite --like 16 {}": """
--like table8 -> 'table8' is not a table of results
--compare resnet -> 'resnet' is not a comparison
--rule best -> 'best' is not a rule
--tasks car,zebra -> 'zebra' is not a task
--methods gdor -> did you mean gdro
--paired vrex --bootstrap 2 -> 'vrex' is not a method
--criteria gist -> 'gist' is not a pair
--criteria gist=mine -> 'mine' is not a criterion
--out table.docx -> '.docx' is not an ending
""",
    "scored: paper tables few {}": """
--like 16 -> which suite was trained for?
--suite suite --like table4 -> no table can be made: table4: no results under gist
""",
    "every: find ds --tasks car --out out {}": """
--criterion gist --encoder lexical -> gist has no thresholds
--criterion gist --encoder lexical --match ce -> 'ce' is not a criterion of --match
--criterion gist --encoder lexical --tau 3 -> tau is 3
""",
    "scored: find dataset --tasks car --out out {}": """
--tasks cra -> 'cra' is not a class of the dataset
--tasks car,car -> named twice
--alpha -1 -> alpha is -1
--beta nan -> beta is nan
--alpha 5 -> did you mean 0.05?
--beta 30 -> did you mean 0.3?
--criterion cee -> 'cee' is not a criterion
--criterion ce --criterion ce -> two criteria are named ce
--criterion 'ce and gist' -> 'ce and gist' is not a criterion
--criterion gist -> needs an encoder
--criterion gist --encoder no-such-model -> no-such-model
--criterion attribute -> give --phi PHI, or give --preset
--criterion attribute --phi 'y = 1' --preset waterbirds -> leave out --phi, or leave out --preset
--criterion attribute --phi 'y = (SELECT 1)' -> phi
--criterion attribute --phi 'random() < 1' -> phi
--criterion attribute --phi 'place != y' -> place
--criterion nowhere:Thing -> cannot be imported
--cues car -> 'car' is not a pair
--cues car=raod -> did you mean road
--cues car=car -> other classes
--split validation -> 'validation' is not a split
--fitted nowhere -> is not a suite
--engine clowd -> clowd
--lift 2 -> has no effect without the context criterion
--exclude cow -> has no effect without the context criterion
--phi y=1 -> has no effect without the attribute criterion
--fitted nooch-coco -> ce of the suite was not fitted
""",
    "scored: export suite out {}": """
--to xml -> 'xml' is not an export format
--to ids --annotations x.json -> 'annotations' is not an option of the export ids
--to csv --no-annotations -> 'no_annotations' is not an option
--to ids --subsets easy -> 'subsets' is not an option
--to hf --id-field x -> 'id_field' is not an option
--to ids --tasks cat -> 'cat' is not a task
--to ids --split train -> 'train' is not a split
--to ids --criterion gist -> 'gist' is not a criterion
--to coco --annotations nowhere.json -> nowhere.json
--to coco --no-annotations --subsets hard -> 'hard' is not a subset
--to ids --license '' -> license is empty
--to ids --dataset nowhere -> nowhere
""",
    "every: train bench ds suite --embedding made --config bench.yaml --out out {}": """
--set 'methods={gdro: {k: 5}}' -> 'k' is not a hyperparameter of gdro
--set 'methods=[gdor]' -> did you mean gdro
--set learning_rate=1 -> is not a name of the configuration
--set 'tasks=[car, carr]' -> 'carr' is not a task of the suite
--set lr=-1 -> `lr`: is -1
--set lr=fast -> `lr`: is 'fast'
--set 'seeds=[]' -> `seeds`: are
--set 'seeds=[1, 1]' -> `seeds`: are
--set epochs=0.5 -> `epochs`: is 0.5
--set lr -> name=value
--set 'lr=[1' -> cannot be read
--set environment=place -> 'place'
--device gpu -> gpu
--engine condor -> 'condor' is not an engine
""",
    "every: import {} new/data": """
coco --things bad/cut.json -> bad/cut.json: is not valid JSON
coco --things bad/types.json -> $.images[0].id
coco --things train.json --stuff bad/unknown.json -> image ids of annotations are not listed: 9
coco --things no.json -> no.json: cannot be read: No such file
coco --things train.json --things train.json -> more than one of the things files
coco -> no annotation file was given
coco --stuff stuff.json --stuff-maps maps -> exclude each other
coco --things bad/unsafe.json -> column file_name contains ../1.jpg
label-maps labels --classes names.txt -> contains no label maps
label-maps maps --classes bad/one.txt -> which is not a class
label-maps maps --classes cocostuf -> cannot be read
boxes labels --boxes yollo -> did you mean yolo
boxes labels --boxes yolo -> give --classes
table table.csv --id id --area fold -> --area needs a column of classes
table table.csv --id id --label bird --class place -> exclude each other
table table.csv --id ID --label bird -> 'ID' is not a column
table table.csv --id id --class fold --area place -> column place contains String
table table.csv --id id --label bird --split-column fold --split 70/10/20 -> exclude each other
table table.csv --id id --label bird --split-column fold -> --split-values
table table.csv --id id --label bird --split-column fold --split-values 0:a -> '0:a' is not a pair
coco --things train.json --split 70/20/20 -> adds up to 110
coco --things train.json --split no.npz -> neither a file nor percentages
coco --things train.json --split '' -> neither a file nor percentages
coco --stuff stuff.json --split bad/split.csv -> leaves out 9 of 10 images
coco --things train.json --split 90/5/5 -> leaves valid and test empty
coco --things train.json --split 70/10/20 --seed -1 -> --seed
coco --things train.json --split-values 0=train -> --split-values needs --split
coco --things train.json --group 'x{9}' -> matches no part of
coco --things train.json --split 60/20/20 --group 'x{9}' -> matches no part of
coco --things train.json --images nowhere -> no such folder of images
""",
    "every: explain suite {}": """
--task bus --image 1 -> 'bus' is not a task
--task car --image 99999 -> 99999
--task car --image x -> image
--task car --image ² -> no image with id '²'
""",
    "every: {}": """
show photos -> is not a suite
explain photos --task car --image 1 -> is not a suite
info photos -> is not a dataset
sweep photos --alpha 0.05 --beta 0.1 --out out -> is not a dataset
import coco ds --things missing.json -> exists already
import coco ds --things no.json --overwrite -> no.json
import coco photos --things train.json --overwrite -> contains no dataset.json
import coco names.txt --things train.json --overwrite -> contains no dataset.json
import coco -> Missing argument 'DATASET'
import table t.csv out --label y -> no such file
import boxes b out -> Missing option '--boxes'
import coco out --thing x -> No such option
import coco out --processes 0 -> --processes
import coco out --seed x -> --seed
import coco out --format xml -> --format
import coc out -> coc
""",
    "every:  {}": """
info nowhere://x -> not a kind of address
info memory://nothing -> is not a dataset
show s3://bucket/suite -> only datasets are read from one
find ds --out s3://bucket/suite -> only datasets are read from one
find ds --fitted s3://bucket/suite --out s -> only datasets are read from one
find ds --engine local:1 --out s3://bucket/suite -> only datasets are read from one
explain s3://b/s --task Y --image 1 -> only datasets are read from one
export s3://b/s out --to ids -> only datasets are read from one
""",
    "every: import coco --things train.json --split 60/20/20 {} new/data": """
--processes 2 --engine local:2 -> --engine local:2, or another engine
--engine clowd -> 'clowd' is not an engine
--part-size 0 -> --part-size
--part-size 9 --group x -> matches no part of
""",
}


def _rows():
    for key, lines in REFUSED.items():
        world, _, command = key.partition(": ")
        for line in lines.strip("\n").splitlines():
            typed, message = line.split("-> ")
            yield world, command.format(typed.strip()), message


WORDS = {
    "criterion": "ce", "images": ".", "split": "test", "splits": "test", "class_column": "bird",
    "tau": 0.5, "out": "again", "phi": "y = 1", "phi_preset": "attribute", "rule": "worst-hard",
}  # fmt: skip
FILES = {
    "annotations": "train.json", "captions": "captions.json", "dataset": "ds|dataset",
    "data": "ds|dataset", "ids": "ids.txt", "stuff": "stuff.json", "questions": "q.jsonl",
    "things": "train.json", "classes": "names.txt", "suite": "suite", "suites": "suite",
    "runs": "runs", "predictions": "p.csv|predictions.csv", "sweep": "sweep", "path": "train.json",
    "encoder": "e.npz",
}  # fmt: skip
"""What a user gives where an error cannot know the value; the files of all worlds."""


def _completed(give, folder):
    """A way out with the values that only the user has; None where the world lacks one."""
    needed = [name for name, value in give.items() if value is ...]
    if isinstance(give, Command):
        needed += [p.name for p in COMMANDS[give.path].params if p.required and p.name not in give]
    there = {name: [word for word in words.split("|") if (folder / word).exists()]
             for name, words in FILES.items()}  # fmt: skip
    known = {name: words[0] for name, words in there.items() if words} | WORDS
    if {*needed} - known.keys():
        return None
    values = {**give, **{name: known[name] for name in needed}}
    return Command(give.path, **values) if isinstance(give, Command) else values


def _retyped(command, give):
    """The words of a command with what its error recommends, on the command line."""
    words = shlex.split(command)
    added, left_out = typed_in(words, give)
    for flag in [*left_out, *(text.split()[0] for text in added)]:
        if flag in words and flag.startswith("--"):
            at = words.index(flag)
            is_switch = at + 1 == len(words) or words[at + 1].startswith("-")
            del words[at : at + 2 - is_switch]
    return " ".join([shlex.join(words), *added])


def _with_what_was_made(command, error, folder):
    """The command that reads ``again`` in place of what was wrong with it; None: it reads none."""
    words = shlex.split(command)
    wrong = [n for n, word in enumerate(words) if Path(str(error.where)).name == word]
    read = wrong + [n for n, word in enumerate(words) if (folder / word).exists()]
    return shlex.join([*words[: read[0]], "again", *words[read[0] + 1 :]]) if read else None


def _helps(given, command, done, run_cli, folder, copy):
    """What an error recommends is done in a copy, and leads to success or to another error."""
    shutil.copytree(folder, copy)
    if isinstance(given, Command):
        made = run_cli(as_typed(given).removeprefix("nooch "), cwd=copy)
        if made.code:
            return False
        typed = _with_what_was_made(command, done.error, folder)
        if typed is None or command.startswith(given.path.partition(" ")[0]):
            return True
    else:
        typed = _retyped(command, given)
    again = run_cli(typed, cwd=copy)
    is_error = isinstance(again.error, NoochError) and not same_error(again.error, done.error)
    return again.code == 0 or is_error


def _is_said_as_json(ran, done):
    """Standard error is JSON, a line each; the last one is the error, in the words of the text."""
    assert (ran.code, ran.out) == (2, "")
    error = [json.loads(line) for line in ran.err.splitlines()][-1]["error"]
    assert [*error] == ["code", "what", "where", "allowed", "remedy", "flag"]
    assert error["code"] == 2
    is_typers = done.error is None
    text = " ".join(done.err.split())
    for name in ("what",) if is_typers else ("what", "where", "allowed", "remedy"):
        assert " ".join((error[name] or "").split()) in text
    assert is_typers or len(error["flag"]) <= len(done.error.give)
    for way in error["flag"]:
        assert [*way] == ["command", "give", "leave_out"]
        assert all(words in error["remedy"] for words in [*way["give"], *way["leave_out"]])


@pytest.mark.parametrize(("world", "command", "message"), [*_rows()])
def test_it_ends_with_code_2_says_why_and_leaves_nothing(
    world, command, message, request, run_cli, tmp_path
):
    folder = request.getfixturevalue(world.strip())
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = run_cli(command, cwd=folder)
    done.refused(message)
    # --format is refused itself in some rows
    if "--format" not in command:
        _is_said_as_json(run_cli(f"{command} --format json", cwd=folder), done)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    for number, give in enumerate(getattr(done.error, "give", ())):
        given = _completed(give, folder)
        if given is None and isinstance(give, Command):
            continue
        assert given is not None, f"this world has no {[*give]}"
        assert _helps(given, command, done, run_cli, folder, tmp_path / f"{number}")
        called = [*calls_of(done.error)]
        if called and not give.keys() & ONLY_TYPED and not isinstance(give, Command):
            copy = shutil.copytree(folder, tmp_path / f"{number} in Python")
            with contextlib.chdir(copy):
                calls = [call for call in (with_given(call, given) for call in called) if call]
                assert calls, f"no function takes {give}"
                assert not same_error(_error_of(calls[0]), done.error)


def _error_of(call):
    try:
        call()
    except NoochError as error:
        return error
    return None


def _typed(case):
    """The folder and words of each command of a case that needs no server."""
    script = case / "cmd.sh"
    text = (script if script.exists() else case / "expect.txt").read_text("utf-8")
    for line in text.splitlines():
        place = "."
        for part in re.split(r"&&|\|\||;", line):
            kind, _, typed = part.strip().partition(" ")
            place = typed if kind == "cd" else place
            # "nooch info then: ..." tells of a command
            if kind == "nooch" and "--endpoint" not in typed and " then" not in typed:
                yield place, typed.removesuffix("2>/dev/null")


def test_refusals_of_shared_cases_have_a_remedy_that_helps(
    shared_data, run_cli, tmp_path, monkeypatch
):
    cases = shared_data.parent / "cases"
    if not cases.is_dir():
        pytest.skip("no shared cases here")
    wrong, tried = [], 0
    for case in sorted([*cases.glob("files/*/"), *cases.glob("evaluation/*/")]):
        folder = tmp_path / case.name / "made"
        folder.mkdir(parents=True)
        with contextlib.chdir(folder), monkeypatch.context() as patch, warnings.catch_warnings():
            # theirs leave files open
            warnings.simplefilter("ignore", ResourceWarning)
            patch.setattr("sys.argv", ["make.py"])
            runpy.run_path(str(case / "make.py"), run_name="__main__")
        for number, (place, command) in enumerate(_typed(case)):
            done = run_cli(command, cwd=folder / place)
            if done.code == 0:
                continue
            tried += 1
            if "remedy: " not in done.err:
                wrong.append(f"{case.name}: {command}: {done.err}")
            for way, give in enumerate(getattr(done.error, "give", ())):
                copy = folder.with_name(f"{number} {way}")
                given = _completed(give, folder / place)
                if given and not _helps(given, command, done, run_cli, folder / place, copy):
                    wrong.append(f"{case.name}: {command}: {give} does not help: {done.err}")
    assert tried
    assert not wrong, "\n".join(wrong)
