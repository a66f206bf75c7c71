"""Engines: results in order, errors at once, nothing left behind. A new engine is one row here."""

import multiprocessing
import os
import time

import pytest
from work import die, refuse, square, who

from nooch.engines import LocalEngine
from nooch.errors import InputError, MissingExtraError, NoochError, ParameterError

ENGINES = {"one process": LocalEngine(1), "two processes": LocalEngine(2)}


@pytest.fixture(params=ENGINES, ids=str)
def engine(request):
    return ENGINES[request.param]


def none_left(seconds=10.0):
    """Whether every worker ends by itself soon."""
    deadline = time.monotonic() + seconds
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.05)
    return multiprocessing.active_children() == []


def test_results_come_in_the_order_of_items(engine):
    assert list(engine.map(square, range(7))) == [x * x for x in range(7)]
    assert list(engine.map(square, [])) == []


def test_an_error_arrives_whole(engine):
    with pytest.raises(InputError) as caught:
        list(engine.map(refuse, [0, 1]))
    assert str(caught.value) == "record 1: is broken\n  allowed: others\n  remedy: mend it"
    assert (caught.value.where, caught.value.remedy) == ("record 1", "mend it")
    with pytest.raises(MissingExtraError, match=r"pip install 'nooch\[train\]'"):
        list(engine.map(refuse, [0, 2]))


def test_processes_are_several_and_gone_afterwards():
    pids = set(LocalEngine(2).map(who, range(4)))
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert none_left()


def test_abandoned_work_is_ended():
    results = LocalEngine(2).map(who, range(8))
    next(iter(results))
    results.close()
    assert none_left()


def test_a_worker_that_is_killed_gives_an_error_to_mend():
    with pytest.raises(NoochError, match=r"killed[\s\S]*--processes"):
        list(LocalEngine(2).map(die, range(2)))


def test_no_process_is_refused():
    with pytest.raises(ParameterError, match="0 processes"):
        LocalEngine(0)
    assert issubclass(ParameterError, NoochError)
