"""Commands on Python frames: ``py-bt``, ``py-locals`` and others, without GDB's own helpers."""

from __future__ import annotations

import ast
import warnings

from pgdb.errors import UsageError
from pgdb.frontend.api import verdicts
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome
from pgdb.patterns import pattern

_MOST_SHOWN = 60
_WITHOUT_VARIABLE = (ast.Constant, ast.JoinedStr, ast.Lambda, ast.UnaryOp, ast.Await)
_COUNT = pattern(r"-?[0-9]{1,9}\Z")


def check_expression(text: str) -> None:
    """Check that a text is an expression of Python that begins with a variable.

    :raises UsageError: if it is none; the error says what can be typed.
    """
    shown = f"{text[:_MOST_SHOWN]}…" if len(text) > _MOST_SHOWN else text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"py-print: {shown!r} is no expression of Python") from None
    if isinstance(body, ast.Tuple):
        raise UsageError("py-print takes one expression: each one needs a command of its own")
    if isinstance(body, _WITHOUT_VARIABLE) or not text[:1].isidentifier():
        raise UsageError(
            f"py-print: {shown!r} begins with no variable; PGDB executes no code of Python, and "
            "takes a variable with '.attribute', '[index]' or \"['key']\" behind it"
        )


@COMMANDS.command(
    "py-bt",
    group=Group.STACK,
    usage="py-bt [N]",
    summary="show the Python frames of the call stacks alone",
)
async def _py_bt(call: Call) -> Outcome:
    """Show the Python frames of the selected thread, innermost first; with N, the N innermost
    (-N: outermost) ones.

    'bt' shows them between the C frames. py-spy reads them from the memory of the ranks, without
    symbols; "pip install 'pgdb-mpi[python]'" on the hosts of the ranks brings it.
    """
    return await call.view.backtrace(_count(call), only_python=True)


@COMMANDS.command(
    "py-tasks",
    group=Group.STACK,
    usage="py-tasks [N]",
    summary="show the stacks of the asyncio tasks",
)
async def _py_tasks(call: Call) -> Outcome:
    """Show the stacks of all tasks of asyncio, innermost frame first, each stack once, with its
    ranks; with N, the N innermost (-N: outermost) frames.

    A stack has the name of its task, and what the task awaits: another task, a gather, or a future
    that the innermost frame names. A task without a name of the program's has that of its
    coroutine. 'tree --tasks' shows the same stacks as a tree. PGDB reads the tasks from the memory
    of the ranks.
    """
    return await call.view.backtrace(_count(call), tasks=True)


@COMMANDS.command(
    "py-up",
    group=Group.STACK,
    usage="py-up [N]",
    summary="select the Python frame that called this one",
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
)
async def _py_locals(call: Call) -> Outcome:
    """Show the local variables of the selected Python frame, merged by variable.

    Numbers, texts, containers, NumPy arrays and tensors of PyTorch have their values, objects of
    classes that are written in Python their attributes, other objects their type and address: those
    of one type are shown as equal. The variables of a module are its globals, which are not listed;
    'py-print NAME' shows one of them.
    """
    if call.argument.strip():
        raise UsageError("py-locals takes no argument; 'py-print NAME' shows one variable")
    return await call.view.python_locals()


@COMMANDS.command(
    "py-list",
    group=Group.STACK,
    usage="py-list [FIRST[,LAST]]",
    summary="show the source of the selected Python frame",
)
async def _py_list(call: Call) -> Outcome:
    """Show the source lines around the place of the selected Python frame, or lines of its file by
    their numbers. The file is read on the rank's host."""
    return await call.view.python_source(call.argument)


@COMMANDS.command(
    "py-print",
    group=Group.DATA,
    usage="py-print EXPR",
    summary="show the value of a Python expression on each rank",
    completes=Completes.NOTHING,
)
async def _py_print(call: Call) -> Outcome:
    """Show the value of EXPR in the selected Python frame: a variable of the frame or of its
    module, with '.attribute', '[index]' and "['key']" behind it.

    PGDB reads the rank's memory; no code of the program is executed. So properties and calls have
    no value. NumPy arrays, and tensors of PyTorch in the memory of the host, show their type, their
    shape and their values. 'py:EXPR' is such an expression for 'print', 'stat', 'plot', 'dump',
    'assert' and 'compare': 'stat py:loss', 'assert py:model.bias same'. Numbers can be parts of
    other expressions: 'print py:step * 2'.
    """
    if not call.argument.strip():
        raise UsageError("py-print needs an expression; 'py-locals' shows all local variables")
    check_expression(call.argument.strip())
    answer = await call.view.evaluate(f"py:{call.argument}")
    return await verdicts.look_to_print(call.session, answer)
