"""Options that travel together: defaults, single fields by name, and names that are no fields."""

from dataclasses import dataclass

from refusals import fails

from nooch.errors import ParameterError
from nooch.options import options_from


@dataclass(frozen=True)
class DrawOptions:
    draws: int = 1000
    seed: int = 0


def test_named_fields_replace_those_of_the_given_options():
    assert options_from(DrawOptions, None, {}) == DrawOptions()
    assert options_from(DrawOptions, DrawOptions(seed=3), {"draws": 5}) == DrawOptions(
        draws=5, seed=3
    )


def test_a_name_that_is_no_field_is_refused():
    fails(
        lambda: options_from(DrawOptions, None, {"drawz": 5}),
        "'drawz' is no option of DrawOptions",
        "did you mean draws?",
        kind=ParameterError,
    )
