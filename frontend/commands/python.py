"""Commands on Python frames: ``py-bt``, ``py-locals`` and others, without GDB's own helpers."""

from __future__ import annotations

from pgdb.errors import UsageError
from pgdb.frontend.commands.options import Rest
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome
from pgdb.patterns import pattern

_COUNT = pattern(r"-?[0-9]{1,9}\Z")


@COMMANDS.command(
    "py-bt",
    group=Group.STACK,
    usage="py-bt [N]",
    summary="show the Python frames of the call stacks alone",
    rest=Rest.GDB,
)
async def _py_bt(call: Call) -> Outcome:
    """Show the Python frames of the selected thread, innermost first; with N, the N innermost
    (-N: outermost) ones.

    'bt' shows them between the C frames. py-spy reads them from the memory of the ranks, without
    symbols; "pip install 'pgdb-mpi[python]'" on the hosts of the ranks brings it.
    """
    return await call.view.backtrace(_count(call), only_python=True)


@COMMANDS.command(
    "py-up",
    group=Group.STACK,
    usage="py-up [N]",
    summary="select the Python frame that called this one",
    rest=Rest.GDB,
)
async def _py_up(call: Call) -> Outcome:
    """Select the Python frame N levels further out, and show it. 'up' and 'frame N' go through the
    C frames as well, with the numbers of 'bt'."""
    return await _move(call, "py-up")


@COMMANDS.command(
    "py-down",
    group=Group.STACK,
    usage="py-down [N]",
    summary="select the Python frame called by this one",
    rest=Rest.GDB,
)
async def _py_down(call: Call) -> Outcome:
    """Select the Python frame N levels further in, and show it."""
    return await _move(call, "py-down")


async def _move(call: Call, word: str) -> Outcome:
    if call.argument.strip():
        _count(call)
    return await call.view.select_frame(f"{word} {call.argument}".rstrip())


def _count(call: Call) -> int:
    text = call.argument.strip()
    if text and not (_COUNT.match(text) and int(text)):
        raise UsageError(f"{call.word} takes a number of frames, not {text!r}")
    return int(text or 0)


@COMMANDS.command(
    "py-locals",
    group=Group.DATA,
    summary="show the local variables of the selected Python frame",
    rest=Rest.NOTHING,
)
async def _py_locals(call: Call) -> Outcome:
    """Show the local variables of the selected Python frame, merged by variable.

    Simple objects have their values, others their type and address: those of one type are equal.
    The variables of a module are its globals, which are not listed.
    """
    return await call.view.python_locals()


@COMMANDS.command(
    "py-list",
    group=Group.STACK,
    usage="py-list [FIRST[,LAST]]",
    summary="show the source of the selected Python frame",
    rest=Rest.GDB,
)
async def _py_list(call: Call) -> Outcome:
    """Show the source lines around the place of the selected Python frame, or lines of its file by
    their numbers. The file is read on the rank's host."""
    return await call.view.python_source(call.argument)
