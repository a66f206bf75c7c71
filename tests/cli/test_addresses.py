"""Addresses and datasets in parts on the command line: where they are taken, where refused, and
embedding in workers.
"""

import importlib
import inspect
import pkgutil

import numpy as np
import polars as pl
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from oracles import dataset_of

from nooch import cli
from nooch.challenge import load_suite
from nooch.cli.option_parsing import dataset_place
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset

FIND = ("--cues", "Y=A", "--tasks", "Y", "--format", "json")


@pytest.fixture
def folder(tmp_path):
    """A dataset in one piece and in parts."""
    random = np.random.default_rng(3)
    images = [
        {"Y": 0.2, "A": float(a)} if a > 0.5 else {"A": float(a)} if a < 0.3 else {"Y": 0.1}
        for a in random.random(90)
    ]
    data = dataset_of(images, ["Y", "A"], [("train", "valid", "test")[n % 3] for n in range(90)])
    words = ["road", "tree", "dog", "grass", "sea"]
    texts = [f"a {words[n % 5]} by the {words[n * 7 % 4]} and {n % 6} birds" for n in range(90)]
    captions = pl.DataFrame({"image_id": data.images["image_id"], "caption": texts})
    data = Dataset.build(data.images, data.classes, data.areas, captions)
    save_dataset(data, tmp_path / "whole")
    save_dataset(divide(data, 3), tmp_path / "parts")
    return tmp_path


@pytest.fixture
def memory(folder):
    """The same in memory."""
    system = MemoryFileSystem()
    for kind in ("whole", "parts"):
        system.put(f"{folder / kind}/", f"/served/{kind}/", recursive=True)
    yield "memory://served"
    system.rm("/served", recursive=True)


def _arguments():
    """Every parameter of a command that names a dataset."""
    for module in pkgutil.iter_modules(cli.__path__):
        found = vars(importlib.import_module(f"nooch.cli.{module.name}"))
        for name, value in found.items():
            if inspect.isfunction(value) and value.__module__ == f"nooch.cli.{module.name}":
                for parameter in inspect.signature(value).parameters.values():
                    if parameter.name == "dataset" and hasattr(parameter.default, "metavar"):
                        yield f"{module.name}.{name}", parameter


ARGUMENTS = dict(_arguments())


@pytest.mark.parametrize("where", ARGUMENTS)
def test_every_dataset_that_is_read_may_be_an_address(where):
    # typer makes s3:/bucket of s3://bucket where an argument is a Path
    assert ARGUMENTS[where].annotation == "Place"
    assert ARGUMENTS[where].default.parser is dataset_place


def test_the_commands_that_read_a_dataset_are_known():
    assert {"finding.find_command", "finding.embed_command", "showing.info_command"} < set(
        ARGUMENTS
    )
    assert len(ARGUMENTS) >= 12


@pytest.mark.parametrize("kind", ["whole", "parts"])
def test_info_find_and_explain_read_an_address(folder, memory, run_cli, kind):
    facts = run_cli(f"info {memory}/{kind} --format json").json
    assert facts["dataset"] == f"{memory}/{kind}"
    assert facts["fingerprint"] == load_dataset(folder / kind).fingerprint
    local = run_cli(f"find {folder / kind}", *FIND, "--out", folder / "one")
    assert local.code == 0, local.err
    for name, more in (("two", []), ("three", ["--engine", "local:1"])):
        done = run_cli(f"find {memory}/{kind}", *FIND, *more, "--out", folder / name)
        assert done.code == 0, done.err
        assert done.json["sets"] == local.json["sets"]
        # an address is recorded as it is, a folder as the way there
        assert load_suite(folder / name).header.dataset.path == f"{memory}/{kind}"
    assert load_suite(folder / "one").header.dataset.path == f"../{kind}"
    asked = [
        "--task",
        "Y",
        "--image",
        load_suite(folder / "two").set("ce", "Y", "test").ids("easy")[0],
    ]
    told = run_cli(f"explain {folder / 'two'}", *asked)
    assert "give --dataset" in told.err, "an address is never opened because a file names it"
    told = run_cli(f"explain {folder / 'two'}", *asked, "--dataset", f"{memory}/{kind}")
    assert "A covers" in told.out, told.err


def test_an_embedding_of_an_address_is_not_kept(folder, memory, run_cli):
    gist = ["--criterion", "gist", "--encoder", "lexical", "--tau", "0.5", *FIND]
    done = run_cli(f"find {memory}/whole", *gist, "--out", folder / "one")
    assert done.code == 0, done.err
    assert "the embedding is not kept" in done.err
    refused = run_cli(f"find {memory}/parts", *gist, "--engine", "local:1", "--out", folder / "two")
    assert refused.code == 2
    assert "nothing can be written there" in refused.err
    assert "embed a copy" in refused.err
    assert not (folder / "two").exists()


def test_find_in_parts_embeds_first(folder, run_cli):
    gist = ["--criterion", "gist", "--encoder", "lexical", "--tau", "0.5", *FIND]
    whole = run_cli(f"find {folder / 'whole'}", *gist, "--out", folder / "one")
    done = run_cli(
        f"find {folder / 'parts'}", *gist, "--engine", "local:2", "--out", folder / "two"
    )
    assert done.code == 0, done.err
    assert done.json["sets"] == whole.json["sets"]
    for file in ("challenge_sets.parquet",):
        assert (folder / "one" / file).read_bytes() == (folder / "two" / file).read_bytes()
    assert open_dataset(folder / "parts").embedding_names == ("lexical-256",)
    # a file is divided; it is there for the next time
    values = np.random.default_rng(0).normal(size=(90, 3))
    np.savez(
        folder / "clip.npz", image_ids=load_dataset(folder / "parts").image_ids, embeddings=values
    )
    gist[gist.index("lexical")] = folder / "clip.npz"
    one = run_cli(f"find {folder / 'whole'}", *gist, "--out", folder / "three")
    two = run_cli(
        f"find {folder / 'parts'}", *gist, "--engine", "local:2", "--out", folder / "four"
    )
    assert two.code == 0, two.err
    assert two.json["sets"] == one.json["sets"]
    assert set(open_dataset(folder / "parts").embeddings) == {"lexical-256", "file-clip"}


def test_embed_in_workers_and_without(folder, run_cli):
    done = run_cli(f"embed {folder / 'parts'} --encoder lexical --engine local:2")
    assert done.code == 0, done.err
    assert "embedding lexical-256" in done.out
    assert len(list((folder / "parts-logs").glob("job-*.log"))) == 3
    assert run_cli(f"embed {folder / 'whole'} --encoder lexical --engine local:2").code == 0
    found, expected = (
        load_dataset(folder / kind).embeddings["lexical-256"] for kind in ("parts", "whole")
    )
    assert np.array_equal(found, expected)
    # a dataset in parts that is read in one piece keeps its parts
    save_dataset(
        divide(load_dataset(folder / "whole").select(rows=np.arange(80)), 2), folder / "fewer"
    )
    gist = ["--criterion", "gist", "--encoder", "lexical", "--tau", "0.5", *FIND]
    assert run_cli(f"find {folder / 'fewer'}", *gist, "--out", folder / "suite").code == 0
    assert open_dataset(folder / "fewer").part(1).embeddings["lexical-256"].shape[0] == 40


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["info", "nowhere://x"], "no kind of address"),
        (["info", "memory://nothing"], "is no dataset"),
        (["show", "s3://bucket/suite"], "only datasets are read from one"),
        (
            ["find", "{folder}/whole", "--out", "s3://bucket/suite"],
            "only datasets are read from one",
        ),
        (
            ["find", "{folder}/whole", "--fitted", "s3://bucket/suite", "--out", "{folder}/s"],
            "only datasets are read",
        ),
        (
            ["find", "{folder}/whole", "--engine", "local:1", "--out", "s3://bucket/suite"],
            "only datasets are read",
        ),
        (["explain", "s3://b/s", "--task", "Y", "--image", "1"], "only datasets are read from one"),
        (["export", "s3://b/s", "out", "--to", "ids"], "only datasets are read from one"),
    ],
)
def test_other_arguments_are_no_addresses(folder, run_cli, monkeypatch, words, said):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    done = run_cli(*(word.format(folder=folder) for word in words))
    assert done.code == 2
    # typer breaks lines
    assert said in " ".join(done.err.split()), done.err
    assert sorted(folder.iterdir()) == before
