"""Pictures of numbers, drawn by Matplotlib into a file: lines, histograms, heat maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdb.errors import CommandError
from pgdb.frontend.show.text import plots
from pgdb.frontend.system.user_files import check_place, check_suffix, replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg", ".pdf")
"""Picture formats, by suffix of the file."""

_SIZE_INCHES = (9.0, 5.0)
_DPI = 120
_MOST_NAMED_LINES = 12


def check(path: Path) -> None:
    """Check that a picture can be written, before ranks are asked.

    :raises UsageError: if the suffix names no format.
    :raises CommandError: if the file cannot be written, or if Matplotlib is not installed.
    """
    check_suffix(path, FORMATS)
    check_place(path)
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise CommandError(
            f"{path}: pictures need the package matplotlib, which is not installed; install "
            "'pgdb-mpi[plots]', or leave -o out to draw in the terminal"
        ) from None


def save_lines(
    path: Path, lines: Mapping[str, Any], x: Sequence[int], *, title: str, axis: str
) -> None:
    """Draw numbers over *x*, with a line for each name; *axis* is the label of x.

    :raises CommandError: if the file cannot be written.
    """

    def draw(axes: Axes) -> None:
        for name, values in lines.items():
            heights = plots.numbers(values)
            mark = "o" if len(heights) <= 64 else ""
            axes.plot(list(x)[: len(heights)], heights, marker=mark, label=name, linewidth=1)
        if 1 < len(lines) <= _MOST_NAMED_LINES:
            axes.legend()
        axes.set_xlabel(axis)
        axes.grid(visible=True, alpha=0.3)

    _save(path, title, draw)


def save_histogram(path: Path, values: Any, *, title: str, bins: int) -> None:
    """Draw a histogram.

    :raises CommandError: if the file cannot be written.
    """
    import numpy

    flat = plots.numbers(values).ravel()
    usual = flat[numpy.isfinite(flat)]
    left_out = flat.size - usual.size

    def draw(axes: Axes) -> None:
        axes.hist(usual, bins=bins)
        axes.set_ylabel("count")

    _save(path, f"{title} ({left_out} not finite)" if left_out else title, draw)


def save_heat(
    path: Path,
    values: Any,
    *,
    title: str,
    axes_names: tuple[str, str],
    missing: Any = None,
    rows: Sequence[int] = (),
    first: tuple[int, int] = (0, 0),
) -> None:
    """Draw a matrix as a heat map; missing elements are white, NaN is red.

    :param rows: names of the rows, which then count from 0 in *first*.
    :param first: indices of the first row and of the first column.
    :raises CommandError: if the file cannot be written.
    """
    import numpy

    matrix = plots.numbers(values)
    absent = numpy.zeros(matrix.shape, bool) if missing is None else numpy.asarray(missing)
    top, left = first[0] - 0.5, first[1] - 0.5
    edges = (left, left + matrix.shape[1], top + matrix.shape[0], top)

    def draw(axes: Axes) -> None:
        shown = numpy.ma.masked_array(matrix, mask=absent | ~numpy.isfinite(matrix))
        image = axes.imshow(shown, aspect="auto", interpolation="nearest", extent=edges)
        strange = ~absent & ~numpy.isfinite(matrix)
        if strange.any():
            red = numpy.zeros((*matrix.shape, 4))
            red[strange] = (1, 0, 0, 1)
            axes.imshow(red, aspect="auto", interpolation="nearest", extent=edges)
        if axes.figure is not None:
            axes.figure.colorbar(image, ax=axes)
        axes.set_ylabel(axes_names[0])
        axes.set_xlabel(axes_names[1])
        if rows and len(rows) <= 32:
            axes.set_yticks(range(len(rows)), [str(row) for row in rows])

    _save(path, title, draw)


def _save(path: Path, title: str, draw: Callable[[Axes], None]) -> None:
    # Not pyplot, which keeps every figure and may look for a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="tight")
    axes = figure.add_subplot()
    axes.set_title(title, wrap=True)
    draw(axes)
    kind = path.suffix.removeprefix(".")
    replace_file(path, lambda file: figure.savefig(file, format=kind))
