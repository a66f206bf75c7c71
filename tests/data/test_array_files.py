"""Arrays as files: a full disk is noticed to the last byte; unreadable files are one error."""

import contextlib
import io

import numpy as np
import pytest
from full_disk import full_disk
from refusals import fails

from nooch.base.errors import InputError, OutputError
from nooch.base.files import write_array
from nooch.base.work_folder import Steps
from nooch.data.arrays import read_array


@pytest.mark.parametrize(
    "values", [np.arange(7.0), np.zeros((0, 3), np.float32), np.asfortranarray(np.eye(3, 4))]
)
def test_what_is_written_is_read(tmp_path, values):
    write_array(tmp_path / "a.npy", values)
    about = values.dtype, values.shape, values.tolist()
    for array in (read_array(tmp_path / "a.npy"), np.load(tmp_path / "a.npy")):
        assert (array.dtype, array.shape, array.tolist()) == about
    assert isinstance(read_array(tmp_path / "a.npy", mapped=True), np.memmap) or not values.size


@pytest.mark.parametrize("missing", [4, 100, 3000, 40960])
def test_a_full_disk_is_noticed_to_the_last_byte(tmp_path, missing):
    # numpy by itself uses C's stdio, which loses the error of the last bytes
    values = np.zeros((40960 + missing - 128) // 4, np.float32)
    with full_disk(40960), pytest.raises(OutputError, match="File too large"):
        Steps(tmp_path).put("a.npy", values)
    assert list(tmp_path.iterdir()) == []


def _content(values, save=np.save):
    buffer = io.BytesIO()
    save(buffer, values)
    return buffer.getvalue()


GOOD = _content(np.arange(6, dtype=np.float32).reshape(3, 2))
NONE = [b"", b"\x93NUMPY", GOOD[:100], GOOD[:-1], b"PK\x03\x04", b"x" * 300]
# objects, and an archive
OTHER = [_content(np.array([{}])), _content(np.ones(1), np.savez)]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("content", [*NONE, *OTHER])
def test_what_is_no_array(tmp_path, content, mapped):
    (tmp_path / "a.npy").write_bytes(content)
    words = str(tmp_path / "a.npy"), "cannot be read as an array"
    fails(lambda: read_array(tmp_path / "a.npy", mapped=mapped), *words)
    fails(lambda: read_array(tmp_path / "missing.npy"), "missing.npy")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_every_damaged_header_is_one_error_or_an_array(tmp_path):
    end = GOOD.index(b"\n") + 1
    for at in range(end):
        for mask in (0x01, 0x08, 0x20, 0x40, 0xFF):
            content = bytearray(GOOD)
            content[at] ^= mask
            (tmp_path / "a.npy").write_bytes(content)
            for source, mapped in ((tmp_path / "a.npy", True), (io.BytesIO(bytes(content)), False)):
                # any other exception fails the test
                with contextlib.suppress(InputError):
                    assert isinstance(read_array(source, mapped=mapped), np.ndarray)
