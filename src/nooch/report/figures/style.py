"""One style for all figures: quiet axes, color-blind safe colors, reproducible bytes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import polars as pl
from msgspec import Meta

from nooch.base.errors import ParameterError, check_one_of
from nooch.base.words import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# of Okabe and Ito's palette
BLUE, ORANGE, PURPLE = "#0072B2", "#D55E00", "#AA4499"
GRAY = "0.55"
SIDE_COLORS = {"positive": BLUE, "negative": ORANGE}
"""Side -> color."""

FORMATS = ("svg", "pdf", "png")
"""Endings that figures can be written with."""

SHEET_FORMATS = (*FORMATS, "jpg", "jpeg")
"""Endings that image sheets can be written with."""

Dpi = Annotated[int, Meta(ge=10, le=2400)]

# the keys are literals to type checkers
_STYLE: Any = {
    "font.size": 9,
    "figure.titlesize": 10,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.linewidth": 0.8,
    "axes.edgecolor": "0.3",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.92",
    "grid.linewidth": 0.8,
    **{f"{axis}tick.color": "0.3" for axis in "xy"},
    **{f"{axis}tick.labelcolor": "black" for axis in "xy"},
}
_SAVING: Any = {
    # without a date and with named ids nothing in a file depends on when it was made
    "svg.hashsalt": "nooch",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
_LONGEST = 40

P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """The drawing function in nooch's style; what is set elsewhere stays as it is."""

    @wraps(draw)
    def in_style(*args: P.args, **kwargs: P.kwargs) -> R:
        import matplotlib as mpl

        with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
            return draw(*args, **kwargs)

    return in_style


def canvas(
    n: int, width: float = 4.2, height: float = 3.4, *, share: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with n axes side by side, each of that size in inches; no global state is used.

    With ``share`` all have the same limits, and only the first has labels on its vertical axis.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n, height), layout="constrained")
    grid = figure.subplots(1, n, squeeze=False, sharex=share, sharey=share)
    return figure, list(grid[0])


def new_axes(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """The given axes, or the axes of a new figure of a size in inches, which notebooks show."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(layout="constrained", figsize=size)[1]


def one_of(kind: str, name: str | None, column: pl.Series) -> str:
    """The name that was given, or the only one in the column."""
    values = column.unique(maintain_order=True).to_list()
    if name is None and len(values) > 1:
        raise ParameterError(f"which {kind}?", give=[{kind: value} for value in values])
    return str(values[0]) if name is None else check_one_of(kind, name, values)


def worded(*parts: str) -> str:
    """Names for a figure: on one line, cut if they are long, never read as a formula."""
    texts = map(printable, parts)
    shown = [text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…" for text in texts]
    return ", ".join(shown).replace("$", r"\$")


def encoded(figure: Figure, format: str, *, dpi: int = 200) -> bytes:
    """The figure as a file's contents; the same bytes for the same content."""
    import matplotlib as mpl

    check_one_of("figure format", format, SHEET_FORMATS)
    buffer = io.BytesIO()
    with mpl.rc_context(_SAVING), warnings.catch_warnings(), _drawn_once(figure):
        # missing glyphs in matplotlib's font must not abort drawing
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format=format, dpi=dpi, metadata=_METADATA.get(format))
    return buffer.getvalue()


@contextmanager
def _drawn_once(figure: Figure) -> Iterator[None]:
    """While it is saved: matplotlib draws a figure that has a layout twice, at first only for the
    layout; here the first time lays it out and draws nothing.
    """
    own = vars(figure)
    if (engine := figure.get_layout_engine()) is not None:

        def lay_out(_renderer: object) -> None:
            del own["draw"]
            engine.execute(figure)

        own["draw"] = lay_out
    try:
        yield
    finally:
        own.pop("draw", None)


def svg(figure: Figure) -> bytes:
    """The figure as SVG; the same bytes for the same content."""
    return encoded(figure, "svg")
