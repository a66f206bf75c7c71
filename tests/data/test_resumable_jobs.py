"""Jobs that are done once: progress, and which map runs them."""

import builtins
from dataclasses import dataclass
from typing import ClassVar

import pytest
from coco_files import write

from nooch.base.engines import LocalEngine
from nooch.data.readers.jobs import NumberedJob, map_for, results_of


@dataclass(frozen=True)
class SquareJob(NumberedJob):
    """The square of a number."""

    name: ClassVar[str] = "square"
    result_type: ClassVar[type] = int

    def make(self):
        return self.number**2


@pytest.mark.parametrize("map_", [map, LocalEngine(1).map])
def test_progress_counts_jobs_that_were_done_before(tmp_path, map_):
    SquareJob(tmp_path, 1).result()
    jobs, shown = [SquareJob(tmp_path, n) for n in range(8)], []
    assert results_of(jobs, map_, lambda *step: shown.append(step)) == [n**2 for n in range(8)]
    assert shown == [(n, 8) for n in range(1, 9)]


@pytest.mark.parametrize(("most", "expected"), [(6, builtins.map), (5, None)])
def test_small_files_are_read_in_this_process(tmp_path, most, expected):
    files = [write(tmp_path / name, "abc") for name in "ab"]
    assert map_for(files, most, None) is expected
