"""The command ``decompose``: a global array from the blocks that ranks hold."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis import layouts
from pgdb.frontend.analysis.arrays import Arrays
from pgdb.frontend.analysis.decompose import GlobalArray
from pgdb.frontend.analysis.layouts import Layout
from pgdb.frontend.analysis.wording import counted
from pgdb.frontend.commands.data import read_path, shown
from pgdb.frontend.commands.options import Option, Rest, integers
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome
from pgdb.frontend.show.export import pictures
from pgdb.frontend.show.text import plots
from pgdb.frontend.store import array_files
from pgdb.frontend.system.typed_names import typed_path
from pgdb.frontend.system.user_files import check_place, check_suffix
from pgdb.frontend.system.workers import beside, with_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

_T = TypeVar("_T")

Slice = tuple[int | None, ...]
"""An index for each dimension, None for those that are drawn."""
_GLOBAL_FORMATS = (".npz", ".npy", *pictures.FORMATS)
_MOST_CONFLICTS = 4
_MOST_DIGITS = 18


def read_slice(title: str, text: str) -> Slice:
    """Read a slice such as ``:,3,:``.

    :raises UsageError: if a part is neither ``:`` nor an index.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part == ":" or (part.isdecimal() and len(part) < _MOST_DIGITS) for part in parts):
        raise UsageError(f"{title} takes indices and ':', as in 3,:,:, not {text!r}")
    return tuple(None if part == ":" else int(part) for part in parts)


@COMMANDS.command(
    "decompose",
    group=Group.DATA,
    usage="decompose EXPR",
    summary="assemble a global array from the ranks' blocks",
    rest=Rest.OPERAND,
    needs="an expression",
    options=(
        Option(
            name="--dims",
            value="N[,M…]",
            help="the elements along each dimension",
            read=integers,
            is_required=True,
        ),
        Option(
            name="--grid",
            value="P[,Q…]",
            help="the ranks along each dimension; needed without --map",
            read=integers,
            default=(),
        ),
        Option(
            name="--layout",
            value="KIND",
            help="block, cyclic, or block-cyclic",
            choices=("block", "cyclic", "block-cyclic"),
            default="block",
        ),
        Option(
            name="--block",
            value="B[,C…]",
            help="block-cyclic: the elements of a block along each dimension",
            read=integers,
        ),
        Option(
            name="--halo",
            value="H[,I…]",
            help="copies of neighbours' elements at both ends of each dimension",
            read=integers,
            default=(0,),
        ),
        Option(
            name="--order",
            value="C|F",
            help="the order of a rank's elements where EXPR is a flat row such as u[0]@1000",
            choices=("C", "F"),
            default="C",
        ),
        Option(
            name="--rank-order",
            value="ORDER",
            help="row (as of MPI_Cart_create): the last dimension of the grid varies fastest with "
            "the rank; column: the first one",
            choices=("row", "column"),
            default="row",
        ),
        Option(
            name="--map",
            value="FILE.py:NAME",
            help="in place of grid and layout, a Python function that gets a rank and its array "
            "and returns a slice or an array of indices for each dimension; Ctrl-C gives up one "
            "that does not return",
            argument="function",
        ),
        Option(
            name="--slice",
            value="I,:,:",
            help="the part to draw, an index or : for each dimension, as in 3,:,: for a plane and "
            ":,2,5 for a line; otherwise the plane in the middle of three or more dimensions",
            argument="cut",
            read=read_slice,
            default=(),
        ),
        Option(
            name="-o",
            value="FILE",
            help="write .npz (values, owner), .npy, or a picture: .png, .svg, .pdf",
            argument="path",
            read=read_path,
        ),
    ),
)
async def _decompose(
    call: Call,
    expression: str,
    *,
    dims: tuple[int, ...],
    grid: tuple[int, ...],
    layout: layouts.Kind,
    block: tuple[int, ...] | None,
    halo: tuple[int, ...],
    order: Literal["C", "F"],
    rank_order: Literal["row", "column"],
    function: str | None,
    cut: Slice,
    path: Path | None,
) -> Outcome:
    """Assemble a global array from the blocks that ranks hold, and show it or save it.

    Uneven blocks may be those of HPF and MPI_Type_create_darray (the last ones are smaller) or
    balanced (sizes differ by 1): the sizes of the arrays decide. Elements that no rank gives are
    counted and stay blank; elements on which ranks disagree are reported.
    """
    if not grid and function is None:
        raise UsageError("decompose: --grid is missing: the ranks along each dimension")
    if layout == "block-cyclic" and block is None:
        raise UsageError("decompose: block-cyclic needs --block, the elements of a block")
    _check_slice(cut, dims, path)
    user = _UserCode(call, expression, function)
    arrangement = Layout(
        dims=dims,
        grid=grid,
        kind=layout,
        block=block or (1,),
        halo=halo,
        order=order,
        rank_order=rank_order,
        function=await user.run(lambda: None if function is None else _load_map(function)),
    )
    if path is not None:
        check_suffix(path, _GLOBAL_FORMATS)
        check = pictures.check if path.suffix in pictures.FORMATS else check_place
        await with_file(path, functools.partial(check, path))
    arrays = await call.view.array(expression)
    if not arrays.by_rank:
        return arrays.failures
    whole = await user.run(lambda: arrays.assemble(arrangement))
    width = call.dispatcher.width or plots.WIDTH
    lines = [_global_title(whole, arrays), *_about_conflicts(whole)]
    if path is None:
        lines.append(_global_text(whole, cut, width))
    else:
        save = functools.partial(_save_global, whole, cut, path)
        await with_file(path, save, size_bytes=whole.values.nbytes)
        lines.append(f"{path}: written")
    return shown(call, arrays, "\n".join(lines), file=path, whole=whole)


class _UserCode:
    """Runner of work that may call the user's map, which may fail in any way or never return."""

    def __init__(self, call: Call, expression: str, function: str | None) -> None:
        self._call = call
        self._expression = expression
        self._function = function

    async def run(self, work: Callable[[], _T]) -> _T:
        """Return the result of *work*, done in a thread.

        :raises CommandError: if the map ends otherwise than by an ordinary exception.
        """

        def guarded() -> _T:
            try:
                return work()
            except BaseException as error:  # would end the session where it is waited for
                if isinstance(error, Exception):
                    raise
                text = f"{self._expression}: the map raised {type(error).__name__}"
                raise CommandError(text) from None

        try:
            return await beside(guarded, name="decompose")
        except asyncio.CancelledError:
            if self._function is not None:
                self._call.dispatcher.say(
                    f"(PGDB gave up {self._function}; a call that does not return runs on until "
                    "'quit')"
                )
            raise


def _load_map(text: str) -> layouts.MapFunction:
    """Return the function that ``FILE.py:NAME`` names."""
    file, _, name = text.rpartition(":")
    path = typed_path(file)
    if not file or not name.isidentifier():
        raise UsageError(f"decompose: --map takes FILE.py:FUNCTION, not {text!r}")
    spec = importlib.util.spec_from_file_location("pgdb_user_map", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"decompose: {path} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the user's own code
        raise CommandError(f"{path}: {type(error).__name__}: {error}") from None
    function: Callable[[int, Any], Any] | None = getattr(module, name, None)
    if not callable(function):
        raise CommandError(f"{path} has no function {name!r}")
    return function


def _global_title(whole: GlobalArray, arrays: Arrays) -> str:
    shape = " x ".join(map(str, whole.values.shape))
    text = f"{whole.name}: {whole.values.dtype.name}, {shape}, from {plots.few(arrays.given)}"
    if whole.missing_count:
        filled = "NaN" if whole.values.dtype.kind in "fc" else "0"
        text += (
            f"\n{whole.missing_count} of {whole.values.size} elements are missing, no rank gave "
            f"them ({filled} in a file)"
        )
    return text


def _about_conflicts(whole: GlobalArray) -> list[str]:
    if not whole.conflict_count:
        return []
    lines = [f"ranks disagree on {counted(whole.conflict_count, 'element')}:"]
    for each in whole.conflicts[:_MOST_CONFLICTS]:
        index = ",".join(map(str, each.index))
        halo = " in its halo" if each.in_halo else ""
        lines.append(
            f"  [{index}] is {each.values[0]:g} on rank {each.ranks[0]}, "
            f"{each.values[1]:g}{halo} on rank {each.ranks[1]}"
        )
    if whole.conflict_count > _MOST_CONFLICTS:
        lines.append(f"  … {whole.conflict_count - _MOST_CONFLICTS} more")
    return lines


def _check_slice(cut: Slice, dims: tuple[int, ...], path: Path | None) -> None:
    """Check that a slice fits an array, and that it is drawn.

    :raises UsageError: if not.
    """
    if not cut:
        return
    if len(cut) != len(dims):
        raise UsageError(f"--slice: {len(cut)} parts for an array of {len(dims)} dimensions")
    if not 1 <= cut.count(None) <= 2:
        raise UsageError("--slice: one or two parts must be ':', which are drawn")
    for index, extent in zip(cut, dims, strict=True):
        if index is not None and index >= extent:
            raise UsageError(f"--slice: index {index} is outside of a dimension of {extent}")
    if path is not None and path.suffix not in pictures.FORMATS:
        raise UsageError(f"--slice is for drawings; {path.suffix} gets all elements")


def _part(whole: GlobalArray, cut: Slice) -> tuple[NDArray[Any], NDArray[Any], str]:
    """Return the part of an array that is drawn, its missing elements, and its name.

    Without a slice it is all, or the plane in the middle of three or more dimensions.
    """
    shape = whole.values.shape
    cut = cut or (None, None, *(extent // 2 for extent in shape[2:]))[: len(shape)]
    where = tuple(slice(None) if index is None else index for index in cut)
    if cut.count(None) == len(cut):
        return whole.values, whole.missing, ""
    indices = ",".join(":" if index is None else str(index) for index in cut)
    kind = "plane" if cut.count(None) == 2 else "line"
    return whole.values[where], whole.missing[where], f"{kind} [{indices}]"


def _global_text(whole: GlobalArray, cut: Slice, width: int) -> str:
    values, missing, note = _part(whole, cut)
    drawn = plots.table(values, missing, width=width)
    if drawn is None and values.ndim == 1:
        numbers = plots.numbers(values)
        drawn = plots.bars(numbers, range(len(numbers)), axis="index", width=width)
    if drawn is None:
        drawn = plots.heat(values, missing=missing, width=width)
    if note.startswith("plane") and not cut:
        note += " (--slice draws another one)"
    return f"{note}\n{drawn}" if note else drawn


def _save_global(whole: GlobalArray, cut: Slice, path: Path) -> None:
    if path.suffix == ".npz":
        array_files.write_named({"values": whole.values, "owner": whole.owner}, path)
        return
    if path.suffix == ".npy":
        array_files.write_array(whole.values, path)
        return
    values, missing, note = _part(whole, cut)
    title = f"{whole.name} {note}".rstrip()
    if values.ndim == 1:
        lines = {whole.name: values}
        pictures.save_lines(path, lines, range(values.size), title=title, axis="index")
        return
    free = cut or (None, None)
    names = [f"index {at + 1}" for at, index in enumerate(free) if index is None]
    if not cut:
        names = ["first index", "second index"]
    pictures.save_heat(path, values, title=title, axes_names=(names[0], names[1]), missing=missing)
