"""Pictures of numbers by Matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.show.export import pictures


@pytest.mark.slow
@pytest.mark.parametrize("suffix", pictures.FORMATS)
def test_pictures(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    magic = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    path = tmp_path / f"u{suffix}"
    pictures.check(path)
    matrix = numpy.arange(12.0).reshape(3, 4)
    matrix[1, 1] = numpy.nan
    missing = numpy.zeros((3, 4), bool)
    missing[0, 0] = True
    draw: list[Callable[[], None]] = [
        lambda: pictures.save_lines(
            path, {"a": [1, numpy.nan, 3], "b": [1]}, range(3), title="t", axis="rank"
        ),
        lambda: pictures.save_histogram(path, matrix, title="t", bins=10),
        lambda: pictures.save_heat(
            path, matrix, title="t", axes_names=("a", "b"), missing=missing, rows=[0, 1, 5]
        ),
    ]
    for each in draw:
        path.unlink(missing_ok=True)
        each()
        assert path.read_bytes().startswith(magic)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "across", "down"),
    [((0, 0), (-0.5, 3.5), (2.5, -0.5)), ((5, -2), (-2.5, 1.5), (7.5, 4.5))],
)
def test_a_heat_map_counts_from_the_first_indices(
    monkeypatch: pytest.MonkeyPatch,
    first: tuple[int, int],
    across: tuple[float, float],
    down: tuple[float, float],
) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.add_subplot()
    monkeypatch.setattr(pictures, "_save", lambda path, title, draw: draw(axes))
    matrix = numpy.arange(12.0).reshape(3, 4)
    matrix[1, 1] = numpy.nan
    pictures.save_heat(Path("u.png"), matrix, title="t", axes_names=("a", "b"), first=first)
    assert (axes.get_xlim(), axes.get_ylim()) == (across, down)
    assert all(each.get_extent() == [*across, *down] for each in axes.images)


def test_pictures_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"must end in \.png, \.svg or \.pdf"):
        pictures.check(tmp_path / "u.gif")
    with pytest.raises(CommandError, match="there is no directory"):
        pictures.check(tmp_path / "none" / "u.png")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(CommandError, match=r"install 'pgdb-mpi\[plots\]'"):
        pictures.check(tmp_path / "u.png")
