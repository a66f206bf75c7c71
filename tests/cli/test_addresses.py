"""Addresses and datasets with several parts on the command line: where they are taken, where
refused, and embedding in workers.
"""

import numpy as np
import polars as pl
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from oracles import dataset_of
from typer import BadParameter

from nooch.cli.main import app
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.suites import load_suite

FIND = "--cues Y=A --tasks Y --format json"
GIST = f"--criterion gist --encoder lexical --tau 0.5 {FIND}"


@pytest.fixture
def folder(tmp_path):
    """A dataset with one part, and with several."""
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


DATASETS = {
    path: (command, parameter)
    for path, command in app.every()
    for parameter in command.params
    if parameter.name == "dataset"
}


@pytest.mark.parametrize("path", DATASETS)
def test_every_dataset_that_is_read_may_be_an_address(path):
    command, parameter = DATASETS[path]
    context = command.make_context(path, [], resilient_parsing=True)
    # typer makes s3:/bucket of s3://bucket where an argument is a Path
    assert parameter.process_value(context, "memory://served/data") == "memory://served/data"
    with pytest.raises(BadParameter, match="is not a kind of address"):
        parameter.process_value(context, "nothing://data")


def test_the_commands_that_read_a_dataset_are_known():
    assert {"find", "tools embed", "info", "audit", "ask", "repair"} < set(DATASETS)
    assert len(DATASETS) > 25


@pytest.mark.parametrize("kind", ["whole", "parts"])
def test_info_find_and_explain_read_an_address(folder, memory, run_cli, kind):
    facts = run_cli(f"info {memory}/{kind} --format json").json
    assert facts["dataset"] == f"{memory}/{kind}"
    assert facts["fingerprint"] == load_dataset(folder / kind).fingerprint
    local = run_cli(f"find {folder / kind} {FIND} --out one").ok()
    for name, more in (("two", ""), ("three", "--engine local:1")):
        done = run_cli(f"find {memory}/{kind} {FIND} {more} --out {name}").ok()
        assert done.json["sets"] == local.json["sets"]
        # an address is recorded as it is, a folder as the way there
        assert load_suite(folder / name).header.dataset.path == f"{memory}/{kind}"
    assert load_suite(folder / "one").header.dataset.path == f"../{kind}"
    asked = f"--task Y --image {load_suite(folder / 'two').set('ce', 'Y', 'test').ids('easy')[0]}"
    told = run_cli(f"explain two {asked}")
    assert "give --dataset" in told.err, "an address is never opened because a file names it"
    told = run_cli(f"explain two {asked} --dataset {memory}/{kind}")
    assert "A covers" in told.out, told.err


def test_an_embedding_of_an_address_is_not_kept(folder, memory, run_cli):
    done = run_cli(f"find {memory}/whole {GIST} --out one").ok()
    assert "the embedding is not stored" in done.err
    refused = run_cli(f"find {memory}/parts {GIST} --engine local:1 --out two")
    assert refused.code == 2
    assert "not writable" in refused.err
    assert "embed a copy" in refused.err
    assert not (folder / "two").exists()


def test_find_in_parts_embeds_first(folder, run_cli):
    whole = run_cli(f"find whole {GIST} --out one")
    done = run_cli(f"find parts {GIST} --engine local:2 --out two").ok()
    assert done.json["sets"] == whole.json["sets"]
    for file in ("challenge_sets.parquet",):
        assert (folder / "one" / file).read_bytes() == (folder / "two" / file).read_bytes()
    assert open_dataset(folder / "parts").embedding_names == ("lexical-256",)
    # a file is divided; it is there for the next time
    values = np.random.default_rng(0).normal(size=(90, 3))
    np.savez(
        folder / "clip.npz", image_ids=load_dataset(folder / "parts").image_ids, embeddings=values
    )
    from_file = GIST.replace("lexical", "clip.npz")
    one = run_cli(f"find whole {from_file} --out three")
    two = run_cli(f"find parts {from_file} --out four").ok()
    assert two.json["sets"] == one.json["sets"]
    assert set(open_dataset(folder / "parts").embeddings) == {"lexical-256", "file-clip"}


def test_embed_in_workers_and_without(folder, run_cli):
    done = run_cli("tools embed parts --encoder lexical --engine local:2").ok()
    assert "embedding lexical-256" in done.out
    assert len(list((folder / "parts-logs").glob("job-*.log"))) == 3
    run_cli("tools embed whole --encoder lexical --engine local:2").ok()
    found, expected = (
        load_dataset(folder / kind).embeddings["lexical-256"] for kind in ("parts", "whole")
    )
    assert np.array_equal(found, expected)
    # a dataset with several parts that is read as one keeps its parts
    save_dataset(
        divide(load_dataset(folder / "whole").select(rows=np.arange(80)), 2), folder / "fewer"
    )
    run_cli(f"find fewer {GIST} --out suite").ok()
    assert open_dataset(folder / "fewer").part(1).embeddings["lexical-256"].shape[0] == 40
