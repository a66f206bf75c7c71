"""A split file gives every image the split that it names, or is refused."""

import numpy as np
import polars as pl
import pytest
from coco_files import write
from hypothesis import HealthCheck, given, settings, strategies as st

from nooch.base.errors import InputError
from nooch.base.split_plan import SplitPlan
from nooch.data.splits import split_codes
from nooch.data.table_schema import SPLITS

IDS = st.integers(-3, 12) | st.integers(2**60, 2**60 + 3)
MEANS = {"train": "train", "val": "valid", "TEST": "test"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(IDS, min_size=1), st.lists(st.tuples(IDS, st.sampled_from([*MEANS]))), st.booleans())
def test_it_is_what_the_table_says(tmp_path, ids, listed, whole):
    # most are one split for each id, and name every image
    rows = [*listed, *((i, "train") for i in ids)] if whole else listed
    rows = list(dict(rows).items()) * 2 if whole else rows
    text = "image_id,split\n" + "".join(f"{i},{name}\n" for i, name in rows)
    path = write(tmp_path / "split.csv", text)
    plan, ordered = SplitPlan(str(path)), sorted(ids)
    named = {i: {MEANS[name] for j, name in rows if i == j} for i in {i for i, _ in rows}}
    if any(len(names) > 1 for names in named.values()) or not ids <= named.keys():
        assert not whole
        with pytest.raises(InputError, match="split"):
            split_codes(pl.Series("image_id", ordered), plan)
        return
    codes = split_codes(pl.Series("image_id", ordered), plan)
    assert [{SPLITS[code]} for code in codes] == [named[i] for i in ordered]


@pytest.mark.parametrize("text", [False, True])
def test_archives_too(tmp_path, text):
    ids = {"train_ids": [5, 1], "test_ids": [3], "valid_ids": [9]}
    kind = str if text else np.int64
    np.savez(tmp_path / "s.npz", **{name: np.array(some, kind) for name, some in ids.items()})
    plan = SplitPlan(str(tmp_path / "s.npz"))
    assert split_codes(pl.Series("image_id", [1, 3, 5, 9]), plan).tolist() == [0, 2, 0, 1]
    with pytest.raises(InputError, match="leaves out 1 of 2 images: 4"):
        split_codes(pl.Series("image_id", [4, 5]), plan)
