"""Commands that read numbers from memory: ``dump`` and ``plot``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Arrays, form_text
from pgdb.frontend.analysis.decompose import GlobalArray
from pgdb.frontend.commands import written
from pgdb.frontend.commands.options import Option, Rest, split_words, unquoted
from pgdb.frontend.commands.table import (
    COMMANDS,
    Call,
    Group,
    Outcome,
    Shown,
    need_argument,
)
from pgdb.frontend.show.export import pictures
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.show.text import plots, render
from pgdb.frontend.system.typed_names import typed_path
from pgdb.frontend.system.workers import with_file
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, Text
from pgdb.sizes import size_text
from pgdb.written_files import file_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GDB_DUMPS = frozenset({"binary", "ihex", "memory", "srec", "tekhex", "value", "verilog"})
_MOST_MAPS = 4
_MAP_ROWS = 20
_BINS = 10
_PICTURE_BINS = 50


def read_path(title: str, text: str) -> Path:
    """Read the path of a file that an option names."""
    return typed_path(text)


# -- dump ----------------------------------------------------------------------------------------


@COMMANDS.command(
    "dump",
    group=Group.DATA,
    usage="dump EXPR FILE",
    summary="write the numbers of each rank to a file",
)
async def _dump(call: Call) -> Outcome:
    """Write EXPR, a number or an array of numbers such as u or p[0]@1000, from the memory of each
    rank. The suffix of FILE selects the format:

    .npz, .h5   'ranks', and 'values' with the ranks along the first index; where shapes differ
                'rank_0', 'rank_1' …
    .npy        the values alone, where all shapes are equal
    .csv        a line rank,i0,i1,…,value for each number, indices from 0; of a trace a line
                rank,row,value, rows from 1

    Ranks without EXPR are named and left out. 'set array-limit' limits the size. GDB's own 'dump
    binary memory' and the like go to GDB.
    """
    words = split_words(need_argument(call, "an expression and a file"))
    if words[0] in _GDB_DUMPS or file_of(call.line) is not None:
        return await written.write(call)
    if len(words) < 2:
        raise UsageError("'dump' needs an expression and a file, as in 'dump u u.npz'")
    path = typed_path(unquoted(words[-1]))
    arrays = await call.view.dump(" ".join(words[:-1]), path)
    if not arrays.by_rank:
        return arrays.failures
    text = f"{path}: {_forms_text(arrays)}, {size_text(arrays.size_bytes)}"
    return shown(call, arrays, text, file=path)


# -- plot ----------------------------------------------------------------------------------------


@COMMANDS.command(
    "plot",
    group=Group.DATA,
    usage="plot EXPR",
    summary="draw numbers by rank, here or into a file",
    rest=Rest.OPERAND,
    needs="an expression",
    options=(
        Option(
            name="--hist",
            help="draw how many numbers lie in each of ten intervals",
            argument="kind",
            constant="hist",
            default="",
        ),
        Option(
            name="--line",
            help="draw bars by index, over all ranks: solid up to the least number, shaded up to "
            "the greatest",
            argument="kind",
            constant="line",
            default="",
        ),
        Option(
            name="--heat",
            help="draw a heat map of rank by index",
            argument="kind",
            constant="heat",
            default="",
        ),
        Option(
            name="-o",
            value="FILE",
            help="write a picture by Matplotlib: .png, .svg or .pdf",
            argument="path",
            read=read_path,
        ),
    ),
)
async def _plot(call: Call, expression: str, *, kind: str, path: Path | None) -> Outcome:
    """Draw EXPR, a number or an array of numbers, from the memory of the ranks.

    A number on each rank is drawn as bars by rank, an array on each rank as a heat map of rank by
    index, a matrix as a heat map for each rank.

    NaN is drawn as N, infinities as ^ and v; complex numbers are drawn by their absolute values.
    """
    if path is not None:
        await with_file(path, functools.partial(pictures.check, path))
    arrays = await call.view.array(expression)
    filled = {rank: values for rank, values in arrays.by_rank.items() if values.size}
    if not filled:
        if arrays.by_rank:
            raise CommandError(f"{expression}: the arrays of [{arrays.given}] are empty")
        return arrays.failures
    title = f"{expression} on {plots.few(arrays.given)}: {_forms_text(arrays, brief=True)}"
    width = call.dispatcher.width or plots.WIDTH
    # The rows of a trace count from 1, as 'traces' shows them.
    axis, lower = ("row", (1,)) if arrays.is_of_trace else ("index", arrays.lower)
    drawing = _Drawing(filled, kind, title, width, lower, axis)
    lines = [title, *_strange(filled)]
    if path is None:
        lines.append(drawing.text())
    else:
        await with_file(path, functools.partial(drawing.save, path), size_bytes=arrays.size_bytes)
        lines.append(f"{path}: written")
    return replace(
        shown(call, arrays, "\n".join(lines), file=path), answer=_drawn(expression, arrays)
    )


def _drawn(expression: str, arrays: Arrays) -> Answer:
    """Return the answer that ``expand`` shows for drawn numbers, which are not kept."""
    hint = f"has been drawn; 'print {expression}' and 'dump {expression} FILE' give the numbers"
    drawn: EquivalenceClass[Record] = EquivalenceClass(arrays.given, Text(text=hint))
    failures = arrays.failures
    classes = sorted((drawn, *failures.classes), key=lambda each: each.ranks.first)
    return replace(failures, command=f"plot {expression}", classes=tuple(classes))


class _Drawing:
    """The drawing of ``plot``, in the terminal or in a file."""

    def __init__(
        self,
        by_rank: Mapping[int, NDArray[Any]],
        kind: str,
        title: str,
        width: int,
        lower: tuple[int, ...] = (),
        axis: str = "index",
    ) -> None:
        self._axis = axis
        # The elements of arrays with several indices are counted where one axis is for all.
        self._first = lower[0] if len(lower) == 1 else 0
        self._lower = (lower[0], lower[1]) if len(lower) == 2 else (0, 0)
        self._by_rank = by_rank
        self._ranks = list(by_rank)
        self._title = title
        self._width = width
        self._is_scalar = all(values.ndim == 0 for values in by_rank.values())
        self._is_matrix = all(values.ndim == 2 for values in by_rank.values())
        self._wanted = kind

    def text(self) -> str:
        """Return the drawing in characters."""
        import numpy

        if self._wanted == "hist":
            ranks = self._ranks if self._is_scalar else ()
            return plots.histogram(self._flat(), ranks, bins=_BINS, width=self._width)
        if self._is_scalar and self._wanted != "heat":
            return plots.bars(self._flat(), self._ranks, width=self._width)
        if self._wanted == "line":
            matrix, absent = self._matrix()
            masked = numpy.ma.masked_array(matrix, absent)
            lows, highs = masked.min(axis=0).filled(), masked.max(axis=0).filled()
            strange = numpy.isnan(numpy.where(absent, 0.0, matrix)).any(axis=0)
            lows = numpy.where(strange, numpy.nan, lows)
            indices = range(self._first, self._first + matrix.shape[1])
            return plots.bars(lows, indices, highs=highs, axis=self._axis, width=self._width)
        if self._is_matrix and self._wanted != "heat" and len(self._ranks) <= _MOST_MAPS:
            scale = plots.finite_range(self._flat())
            return "\n\n".join(
                f"[{rank}]\n"
                + plots.heat(
                    values,
                    rows=range(self._lower[0], self._lower[0] + values.shape[0]),
                    first_column=self._lower[1],
                    scale=scale,
                    width=self._width,
                    most_rows=_MAP_ROWS,
                )
                for rank, values in self._by_rank.items()
            )
        matrix, absent = self._matrix()
        return plots.heat(
            matrix,
            missing=absent,
            rows=self._ranks,
            first_column=self._first,
            axes=("rank", self._axis),
            width=self._width,
        )

    def save(self, path: Path) -> None:
        """Draw it into a file."""
        if self._wanted == "hist":
            pictures.save_histogram(path, self._flat(), title=self._title, bins=_PICTURE_BINS)
        elif self._is_scalar and self._wanted != "heat":
            pictures.save_lines(
                path, {"": self._flat()}, self._ranks, title=self._title, axis="rank"
            )
        elif self._wanted == "line":
            lines = {f"rank {rank}": values.ravel() for rank, values in self._by_rank.items()}
            most = max(values.size for values in self._by_rank.values())
            longest = range(self._first, self._first + most)
            pictures.save_lines(path, lines, longest, title=self._title, axis=self._axis)
        elif self._is_matrix and self._wanted != "heat" and len(self._ranks) == 1:
            names = ("first index", "second index")
            matrix = self._by_rank[self._ranks[0]]
            pictures.save_heat(path, matrix, title=self._title, axes_names=names, first=self._lower)
        else:
            matrix, absent = self._matrix()
            pictures.save_heat(
                path,
                matrix,
                title=self._title,
                axes_names=("rank", self._axis),
                missing=absent,
                rows=self._ranks,
                first=(0, self._first),
            )

    def _flat(self) -> NDArray[Any]:
        import numpy

        return numpy.concatenate([plots.numbers(each).ravel() for each in self._by_rank.values()])

    def _matrix(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the matrix of rank by index, and the mask of places that shorter arrays lack."""
        import numpy

        rows = [plots.numbers(values).ravel() for values in self._by_rank.values()]
        length = max(map(len, rows))
        matrix = numpy.zeros((len(rows), length))
        absent = numpy.ones((len(rows), length), dtype=bool)
        for number, row in enumerate(rows):
            matrix[number, : len(row)] = row
            absent[number, : len(row)] = False
        return matrix, absent


def _strange(by_rank: Mapping[int, NDArray[Any]]) -> list[str]:
    """Return a line that says which ranks have NaN or infinities."""
    import numpy

    parts = []
    for name, test in (("NaN", numpy.isnan), ("infinity", numpy.isinf)):
        ranks = [
            rank
            for rank, values in by_rank.items()
            if values.dtype.kind in "fc" and test(values).any()
        ]
        if ranks:
            parts.append(f"{name} on {plots.few(RankSet(ranks))}")
    return ["; ".join(parts)] if parts else []


# -- what all of them say --------------------------------------------------------------------------


def _forms_text(arrays: Arrays, *, brief: bool = False) -> str:
    """Return types and shapes in words, with their ranks where they differ or *brief* is not."""
    forms = arrays.forms
    if brief and len(forms) == 1:
        return form_text(*next(iter(forms)))
    texts = [f"{form_text(*form)} on {plots.few(ranks)}" for form, ranks in forms.items()]
    more = [f"{len(texts) - 3} more"] if len(texts) > 3 else []
    return ", ".join([*texts[:3], *more])


def shown(
    call: Call,
    arrays: Arrays,
    text: str,
    *,
    file: Path | None = None,
    whole: GlobalArray | None = None,
) -> Shown:
    """Return the outcome of a command that has read *arrays*: their failures below *text*."""
    failures = arrays.failures
    if not arrays.ok:
        text = f"{text}\n{render.answer(failures)}"
    line = json_lines.arrays(arrays, call.line, 0.0, text=text, file=str(file or ""), whole=whole)
    return Shown(text=text, answer=None if arrays.ok else failures, line=line)
