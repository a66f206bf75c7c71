"""Engines: results in order, errors at once, nothing left behind. A new engine is one row here."""

import multiprocessing
import os
import time

import pytest
from work import refuse, square, who

from nooch.engines import LocalEngine
from nooch.errors import InputError, MissingExtraError, NoochError, ParameterError

ENGINES = {"one process": LocalEngine(1), "two processes": LocalEngine(2)}


@pytest.fixture(params=ENGINES, ids=str)
def engine(request):
    return ENGINES[request.param]


def test_results_come_in_the_order_of_items(engine):
    assert list(engine.map(square, range(7))) == [x * x for x in range(7)]
    assert list(engine.map(square, [])) == []


def test_an_error_arriveswhole(engine):
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
    assert not {child.pid for child in multiprocessing.active_children()} & pids


def test_abandoned_work_is_ended():
    results = LocalEngine(2).map(who, range(8))
    next(iter(results))
    results.close()
    deadline = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert multiprocessing.active_children() == []


def test_no_process_isrefused():
    with pytest.raises(ParameterError, match="0 processes"):
        LocalEngine(0)
    assert issubclass(ParameterError, NoochError)
