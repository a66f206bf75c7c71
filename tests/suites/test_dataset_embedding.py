"""Embedding: vectors independent of parts, finished work reused, the dataset always consistent."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from oracles import dataset_of
from refusals import fails
from same_datasets import same_suite
from waiting import HANGS, until

from nooch.base.engines import LocalEngine
from nooch.base.errors import InputError, OutputError, ParameterError, UndefinedError
from nooch.base.files import link
from nooch.base.limits import limited_threads
from nooch.criteria import CE, Gist
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.models.encoders import embed_captions, encoder
from nooch.suites import embed as embedding
from nooch.suites.embed import embed
from nooch.suites.find import find

SENTENCE = """a red car stands on the wet road beside an old tree
and two dogs sleep under green grass"""


def _data(n=60, captioned=lambda _: True):
    random = np.random.default_rng(2)
    images = [{"Y": 0.2, "A": float(a)} if a > 0.4 else {"A": float(a)} for a in random.random(n)]
    data = dataset_of(images, ["Y", "A"], random.choice(["train", "valid", "test"], n).tolist())
    rows = [
        (image, " ".join(random.choice(SENTENCE.split(), size)))
        for image in data.images["image_id"]
        for size in random.integers(2, 9, image % 3)
        if captioned(image)
    ]
    captions = pl.DataFrame(rows, schema=["image_id", "caption"], orient="row")
    return Dataset.build(data.images, data.classes, data.areas, captions)


def _parts(tmp_path, parts=4, data=None):
    return save_dataset(divide(_data() if data is None else data, parts), tmp_path / "parts")


def _equal(values, expected):
    return np.array_equal(values, expected, equal_nan=True)


def _clean(*folders):
    """Nothing is left of unfinished work."""
    return not any(list(folder.glob(".*")) for folder in folders)


def _refused(folder, encoder, *words, kind=InputError):
    fails(lambda: embed(open_dataset(folder), encoder), *words, kind=kind)


def _loaded(folder):
    opened = open_dataset(folder)
    return [opened.part(number) for number in range(opened.n_parts)]


@pytest.mark.parametrize(
    ("parts", "make_map"), [(1, None), (3, None), (3, lambda: LocalEngine(2).map)]
)
def test_lexical_vectors_do_not_depend_on_parts(tmp_path, parts, make_map):
    folder = _parts(tmp_path, parts)
    progress = []
    more = {} if make_map is None else {"map": make_map(), "threads": 1}
    more |= {"progress": lambda *counts: progress.append(counts)}
    opened, name = embed(open_dataset(folder), "lexical", **more)
    expected = embed_captions(_data(), encoder("lexical"))
    assert name == "lexical-256"
    assert opened.embedding_names == (name,)
    assert _equal(load_dataset(folder).embeddings[name], expected)
    assert _equal(np.concatenate([p.embeddings[name] for p in _loaded(folder)]), expected)
    # parts, or sentences where there is one part
    total = parts if parts > 1 else _data().captions["caption"].n_unique()
    assert progress[-1] == (total, total)
    of_parts = [Path(name, f"part-{k:07d}.npy") for k in range(parts)]
    files = sorted(file.relative_to(folder / "embeddings") for file in folder.rglob("*.npy"))
    assert files == (of_parts if parts > 1 else [Path(f"{name}.npy")])
    # nothing else is left, and nothing is done again
    assert _clean(folder)
    before = (folder / "dataset.json").stat().st_mtime_ns
    assert embed(open_dataset(folder), "lexical")[1] == embed(open_dataset(folder), None)[1] == name
    assert (folder / "dataset.json").stat().st_mtime_ns == before
    assert open_dataset(folder).fingerprint == _data().fingerprint


def test_a_dataset_in_memory_is_embedded_there(tmp_path):
    folder = _parts(tmp_path, 2)
    before = (folder / "dataset.json").read_bytes()
    data, name = embed(load_dataset(folder), "lexical")
    assert _equal(data.embeddings[name], embed_captions(_data(), encoder("lexical")))
    np.savez(tmp_path / "clip.npz", image_ids=data.image_ids, embeddings=np.eye(60)[:, :5])
    data, other = embed(data, str(tmp_path / "clip.npz"))
    assert set(data.embedding_names) == {name, other} == {"lexical-256", "file-clip"}
    assert np.array_equal(data.embeddings[other], np.eye(60)[:, :5])
    assert (folder / "dataset.json").read_bytes() == before


@pytest.mark.parametrize("parts", [1, 2])
def test_a_folder_that_cannot_be_written_gives_a_note(tmp_path, parts, monkeypatch):
    folder, notes = _parts(tmp_path, parts), []
    monkeypatch.setattr(os, "access", lambda *_: False)
    _refused(folder, "lexical", "not writable", kind=OutputError)
    data, name = embed(open_dataset(folder), "lexical", note=notes.append)
    assert _equal(data.embeddings[name], embed_captions(_data(), encoder("lexical")))
    assert len(notes) == 1
    assert notes[0].startswith("the embedding is not stored: ")
    assert open_dataset(folder).embedding_names == ()


def test_sentence_vectors_differ_in_their_last_bits_alone(tmp_path):
    pytest.importorskip("sentence_transformers")
    folder = _parts(tmp_path)
    _, name = embed(open_dataset(folder), "all-MiniLM-L6-v2")
    vectors = load_dataset(folder).embeddings[name]
    expected = embed_captions(_data(), encoder("all-MiniLM-L6-v2"))
    known = ~np.isnan(expected).any(axis=1)
    assert np.array_equal(known, ~np.isnan(vectors).any(axis=1))
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
    assert ((vectors * expected).sum(axis=1) / lengths)[known].min() > 1 - 1e-6


def test_parts_without_captions_have_rows_of_nan(tmp_path):
    data = _data(captioned=lambda image: image > 30)
    folder = _parts(tmp_path, 4, data)
    _, name = embed(open_dataset(folder), "lexical")
    expected = embed_captions(data, encoder("lexical"))
    assert _equal(load_dataset(folder).embeddings[name], expected)
    assert np.isnan(open_dataset(folder).part(0).embeddings[name]).all()


def test_a_file_of_embeddings_is_divided_like_the_images(tmp_path):
    folder, ids = _parts(tmp_path), _data().image_ids
    values = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
    np.savez(tmp_path / "clip.npz", image_ids=ids[:0:-1], embeddings=values[:0:-1])
    _, name = embed(open_dataset(folder), str(tmp_path / "clip.npz"))
    vectors = load_dataset(folder).embeddings[name]
    assert np.array_equal(vectors[1:], values[1:])
    assert np.isnan(vectors[0]).all()
    # a file of that name again, with other vectors of another length
    np.savez(tmp_path / "clip.npz", image_ids=ids, embeddings=values[:, :2])
    assert embed(open_dataset(folder), str(tmp_path / "clip.npz"))[1] == name == "file-clip"
    assert np.array_equal(load_dataset(folder).embeddings[name], values[:, :2])
    other = str(tmp_path / "other.npz")
    np.savez(other, image_ids=ids + 1000, embeddings=values)
    _refused(folder, other, "names no image of the dataset")
    assert _clean(folder)
    values[7, 1] = np.inf
    np.savez(other, image_ids=ids, embeddings=values)
    _refused(folder, other, "not finite")
    assert _clean(folder)


def test_gist_is_found_in_parts_as_in_one_piece(tmp_path):
    folder = _parts(tmp_path)
    _, name = embed(open_dataset(folder), "lexical")
    whole = save_dataset(load_dataset(folder), tmp_path / "whole")
    criteria = {"ce": CE(0.01), "gist": Gist(name)}
    for data, out in ((folder, "suite"), (whole, "other")):
        find(open_dataset(data), criteria, match="ce", out=tmp_path / out)
    same_suite(tmp_path / "suite", tmp_path / "other")


OWN = """
import os, time
import numpy as np

class Slow:
    identity, in_parts = "slow", True
    def encode(self, sentences, progress=None):
        with open(os.environ["SEEN"], "a") as seen:
            seen.write(f"{len(sentences)} {os.environ.get('OMP_NUM_THREADS')}\\n")
        time.sleep(float(os.environ.get("PAUSE", "0")))
        return np.array([[len(s), ord(s[0])] for s in sentences], np.float32)
    def describe(self):
        return {}

class Uneven(Slow):
    identity = "uneven"
    def encode(self, sentences, progress=None):
        return np.ones((len(sentences), 1 + len(sentences) % 2), np.float32)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module with custom encoders, and the file that records their calls."""
    (tmp_path / "own_encoders.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    embedding._loaded_encoder.cache_clear()
    return tmp_path / "seen"


def test_finished_parts_are_not_repeated_after_a_kill(tmp_path, own):
    folder = _parts(tmp_path, 10)
    command = f"tools embed {folder} --encoder own_encoders:Slow --engine local:2"
    words = [sys.executable, "-m", "nooch", *command.split()]
    killed = 0
    for pause in ("0.4", "0.4", "0"):
        options = {"stderr": subprocess.PIPE, "start_new_session": True, "text": True}
        process = subprocess.Popen(words, env={**os.environ, "PAUSE": pause}, **options)
        if pause != "0":
            wanted = len(list(_done(folder))) + 2
            until(
                lambda wanted=wanted: len(list(_done(folder))) >= wanted,
                while_=lambda p=process: p.poll() is None,
            )
            assert process.poll() is None, process.stderr.read()
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
            assert "slow" not in open_dataset(folder).embedding_names
        process.communicate(timeout=HANGS)
    assert process.returncode == 0
    lines = own.read_text().splitlines()
    # a part that was killed in progress is restarted: two workers, two kills
    assert 10 <= len(lines) <= 10 + 2 * killed * 2
    finished = {line.split()[0] for line in lines}
    assert finished == {str(part.captions["caption"].n_unique()) for part in _loaded(folder)}
    assert {line.split()[1] for line in lines} <= {"1", "2"}, "concurrent jobs share the CPUs"
    expected = np.concatenate([embed_captions(p, _slow()) for p in _loaded(folder)])
    assert _equal(load_dataset(folder).embeddings["slow"], expected)
    assert _clean(folder)


def _done(folder: Path):
    return folder.glob(".embedding-slow/*.npy")


def _slow():
    from own_encoders import Slow

    return Slow()


@pytest.mark.parametrize("parts", [1, 5])
def test_each_finished_part_is_embedded_once(tmp_path, own, monkeypatch, parts):
    folder = _parts(tmp_path, parts)

    def broken(*_):
        raise KeyboardInterrupt

    # between the parts and their listing
    with monkeypatch.context() as patch:
        patch.setattr(embedding, "add_embedding_files", broken)
        with pytest.raises(KeyboardInterrupt):
            embed(open_dataset(folder), "own_encoders:Slow")
    assert len(list((folder / "embeddings").rglob("*.npy"))) == parts
    # ... and before the last of them is put in its place
    last = list((folder / "embeddings").rglob("*.npy"))[-1]
    with monkeypatch.context() as patch:
        patch.setattr(embedding, "link", lambda f, to: broken() if to == last else link(f, to))
        with pytest.raises(KeyboardInterrupt):
            embed(open_dataset(folder), "own_encoders:Slow")
    assert open_dataset(folder).embedding_names == ()
    embed(open_dataset(folder), "own_encoders:Slow")
    assert len(own.read_text().splitlines()) == parts
    assert _clean(folder)
    assert len(load_dataset(folder).embeddings["slow"]) == 60


def test_memory_holds_one_part(tmp_path, own, monkeypatch):
    folder, sizes = _parts(tmp_path, 6), []
    part_of = Dataset.part

    def watched(self, number, reads=None):
        part = part_of(self, number, reads)
        sizes.append((len(part), reads))
        return part

    monkeypatch.setattr(Dataset, "part", watched)
    embed(open_dataset(folder), "own_encoders:Slow")
    assert sizes == [(10, ("captions",))] * 6


def test_what_cannot_be_embedded_is_refused(tmp_path, own):
    folder = _parts(tmp_path, 3)
    _refused(folder, None, "needs an encoder", kind=ParameterError)
    _refused(folder, "own_encoders:Uneven", "of embedding uneven has shape")
    assert open_dataset(folder).embedding_names == ()
    empty = _parts(tmp_path / "empty", 2, _data(captioned=lambda _: False))
    for name in ("own_encoders:Slow", "lexical"):
        _refused(empty, name, "has no captions", kind=UndefinedError)
    bare = _parts(tmp_path / "bare", 2, dataset_of([{"Y": 0.1}, {"A": 0.2}], ["Y", "A"]))
    _refused(bare, "lexical", "has no captions")
    assert _clean(folder, empty, bare)


def test_a_full_disk_is_reported_and_finished_parts_are_kept(tmp_path, own, monkeypatch):
    folder, saved = _parts(tmp_path, 5), []

    def save(file, values, **more):
        saved.append(len(values))
        if len(saved) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, values, **more)

    write = np.save
    with monkeypatch.context() as patch:
        patch.setattr(np, "save", save)
        words = ("cannot write: No space left on device", "finished work is kept")
        _refused(folder, "lexical", *words, kind=OutputError)
    # the vectors of all captions, then parts
    assert len(list(folder.glob(".embedding-*/part-*.npy"))) == 2
    _, name = embed(open_dataset(folder), "lexical")
    assert len(load_dataset(folder).embeddings[name]) == 60
    assert _clean(folder)


def test_a_worker_with_another_model_is_refused(tmp_path, own, monkeypatch):
    folder = _parts(tmp_path)
    import own_encoders

    def mapping(function, items):
        monkeypatch.setattr(own_encoders.Slow, "identity", "other")
        return map(function, items)

    fails(
        lambda: embed(open_dataset(folder), "own_encoders:Slow", map=mapping),
        "is other here, but slow where the work started",
    )
    assert open_dataset(folder).embedding_names == ()


def test_workers_have_the_device_and_precision_of_the_driver(monkeypatch):
    torch = pytest.importorskip("torch")
    sbert = pytest.importorskip("sentence_transformers") and encoder("minilm", precision="bf16")
    assert sbert.chosen == {"device": "cpu", "precision": "bf16"} or sbert.on_gpu
    # a worker on a machine with a GPU
    options = tuple(sbert.chosen.items())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: not sbert.on_gpu)
    made = embedding._loaded_encoder("minilm", options)
    assert (made.identity, made.chosen) == (sbert.identity, sbert.chosen)
    assert encoder("minilm").identity != sbert.identity


def test_two_processes_do_not_embed_the_same_captions(tmp_path, own):
    folder = _parts(tmp_path)

    def mapping(function, items):
        _refused(folder, "own_encoders:Slow", "another process is embedding", kind=OutputError)
        return map(function, items)

    embed(open_dataset(folder), "own_encoders:Slow", map=mapping)


def test_threads_are_limited_and_given_back():
    code = """
    import os, sys
    import threadpoolctl, numpy
    from nooch.base.limits import limited_threads
    def most():
        return max([pool["num_threads"] for pool in threadpoolctl.threadpool_info()], default=0)
    numpy.ones((300, 300)) @ numpy.ones((300, 300))
    before = most(), dict(os.environ)
    with limited_threads(1):
        assert most() <= 1 and os.environ["OMP_NUM_THREADS"] == "1"
    with limited_threads(None):
        assert dict(os.environ) == before[1]
    assert (most(), dict(os.environ)) == before
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_torch_takes_the_threads_that_are_left_to_it():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with limited_threads(2):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
