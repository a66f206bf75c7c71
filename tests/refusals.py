"""How a test says that something is refused, and with which words."""

from __future__ import annotations

import pickle
from functools import partial

import pytest

from nooch.errors import InputError, ParameterError


def fails(act, *parts, kind=InputError, helps=True):
    """``act()`` raises ``kind`` with all ``parts`` in its message, which tells what is allowed or
    how to mend it.

    The error also survives the way from a worker process. Returns the message.
    """
    with pytest.raises(kind) as caught:
        act()
    text = str(caught.value)
    for part in parts:
        assert part in text, text
    assert not helps or "allowed:" in text or "remedy:" in text, text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text
    return text


refused = partial(fails, kind=ParameterError)
