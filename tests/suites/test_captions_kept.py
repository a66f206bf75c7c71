"""Interrupted embedding resumes and ends with the same numbers."""

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from nooch.base.work_folder import Steps
from nooch.data import Dataset, load_dataset, open_dataset, save_dataset
from nooch.models.encoders import caption_vectors as captions, embed_captions
from nooch.suites import embed as embedding


class Counting:
    """Encodes by length and first letter; fails after a number of sentences."""

    identity = "counting"
    in_parts = True

    def __init__(self, fail_after=None):
        self.seen, self.fail_after = [], fail_after

    def encode(self, sentences, progress=None):
        if self.fail_after is not None and len(self.seen) >= self.fail_after:
            raise KeyboardInterrupt
        self.seen += sentences
        progress(len(sentences), len(sentences))
        return np.array([[len(s), ord(s[0])] for s in sentences], dtype=np.float32)

    def describe(self):
        return {}


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setattr(captions, "_PART", 3)
    images = pl.DataFrame({"image_id": range(10)})
    lines = [chr(97 + i) * (i + 1) for i in range(10)]
    texts = pl.DataFrame({"image_id": range(10), "caption": lines})
    return Dataset.build(images, ["Y"], csr_array((10, 1)), texts)


def test_interrupted_work_resumes(data, tmp_path):
    broken = Counting(fail_after=6)
    with pytest.raises(KeyboardInterrupt):
        embed_captions(data, broken, keep=Steps(tmp_path))
    assert len(broken.seen) == 6
    again, progress = Counting(), []
    result = embed_captions(data, again, lambda *n: progress.append(n), keep=Steps(tmp_path))
    assert len(again.seen) == 4
    assert progress[-1] == (10, 10)
    assert np.array_equal(result, embed_captions(data, Counting()))


def test_parts_are_removed_when_the_embedding_is_kept(data, tmp_path, monkeypatch):
    folder = save_dataset(data, tmp_path / "dataset")
    monkeypatch.setattr(embedding.encoders, "encoder", lambda _name: Counting(fail_after=3))
    with pytest.raises(KeyboardInterrupt):
        embedding.embed(open_dataset(folder), "counting")
    assert len(list((folder / ".embedding-counting" / "blocks-0000000").iterdir())) == 1
    monkeypatch.setattr(embedding.encoders, "encoder", lambda _name: Counting())
    embedding.embed(open_dataset(folder), "counting")
    assert not (folder / ".embedding-counting").exists()
    assert load_dataset(folder).embeddings["counting"].shape == (10, 2)
