"""How errors of other packages are passed on."""

import pytest

from nooch.base.errors import InputError, as_input_error


@pytest.mark.parametrize(
    ("text", "line"),
    [("\n  \nneeds it\nmore", "needs it"), ("", "ImportError"), ("one\ntwo", "one")],
)
def test_an_error_is_quoted_by_its_first_line_of_text(text, line):
    with pytest.raises(InputError) as error, as_input_error("fails", where="a"):
        raise ImportError(text)
    assert str(error.value) == f"a: fails: ImportError: {line}"
