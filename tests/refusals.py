"""Assert that something is refused, and with which message."""

from __future__ import annotations

import pickle
from functools import partial

import pytest

from nooch.base.errors import InputError, ParameterError


def fails(act, *parts, kind=InputError, helps=True):
    """``act()`` raises ``kind`` with all ``parts``, and what is allowed or a remedy, as message.

    The error can be pickled, as worker processes do. Returns the message.
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
