"""A split file applied to nothing but ids gives what it gives applied to a table of images, errors included."""

import numpy as np
import polars as pl
import pytest
from coco_files import write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nooch.data.checks import SPLITS
from nooch.data.splits import apply_split, file_split
from nooch.errors import InputError
from nooch.plans import SplitPlan

IDS = st.integers(-3, 12) | st.integers(2**60, 2**60 + 3)


def _told(act):
    try:
        return act().tolist()
    except InputError as error:
        return str(error)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(IDS, min_size=1), st.lists(st.tuples(IDS, st.sampled_from(["train", "val", "TEST"]))), st.booleans())
def test_it_is_the_split_of_a_table(tmp_path, ids, listed, whole):
    # most are one split for each id, and name every image
    rows = [*listed, *((i, "train") for i in ids)] if whole else listed
    rows = list(dict(rows).items()) * 2 if whole else rows
    path = write(tmp_path / "split.csv", "image_id,split\n" + "".join(f"{i},{name}\n" for i, name in rows))
    plan, ordered = SplitPlan(str(path)), np.array(sorted(ids))
    images = pl.DataFrame({"image_id": ordered})
    expected = _told(lambda: np.array(apply_split(images, plan)["split"]))
    found = _told(lambda: np.array(SPLITS)[file_split(ordered, plan)])
    assert found == expected
    assert isinstance(found, list) or not whole


@pytest.mark.parametrize("text", [False, True])
def test_archives_too(tmp_path, text):
    kind = str if text else np.int64
    np.savez(
        tmp_path / "s.npz",
        train_ids=np.array([5, 1], kind),
        test_ids=np.array([3], kind),
        valid_ids=np.array([9], kind),
    )
    plan = SplitPlan(str(tmp_path / "s.npz"))
    assert file_split(np.array([1, 3, 5, 9]), plan).tolist() == [0, 2, 0, 1]
    with pytest.raises(InputError, match="leaves out 1 of 2 images: 4"):
        file_split(np.array([4, 5]), plan)
