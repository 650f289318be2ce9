"""The time for which a job of PyTorch survives that its ranks are held.

A process group gives up when a rank does not answer within its time-out. The program sets it in
init_process_group and new_group; the script shows it where it is a literal.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from pgdb.jobs import procfs
from pgdb.jobs.processes import Processes
from pgdb.jobs.wrapped_program import interpreted_script, path_of
from pgdb.regular_files import open_regular

NCCL_S, GLOO_S = 600.0, 1800.0
"""Default time-outs of PyTorch 2.x, in seconds (torch/distributed/constants.py)."""
_MOST_SCRIPT_BYTES = 1 << 20
_GROUPS = ("init_process_group", "new_group", "new_subgroups", "monitored_barrier")
_UNITS_S = {
    "weeks": 604800.0,
    "days": 86400.0,
    "hours": 3600.0,
    "minutes": 60.0,
    "seconds": 1.0,
    "milliseconds": 1e-3,
    "microseconds": 1e-6,
}
_POSITIONS = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")


def hold_limit(pid: int, processes: Processes) -> tuple[float, str]:
    """Return the least time-out of the process groups of rank *pid*, and a note for the user."""
    path = _script(pid, processes)
    name = os.path.basename(path)
    text = _text(path)
    found, is_complete, backend = script_limits(text)
    if found:
        limit_s, line = min(found)
        where = f"{_in_words(limit_s)} ({name}:{line})"
        if not is_complete:
            where += ", and another one that is no literal"
    elif not is_complete:
        limit_s, where = 0.0, f"which {name} computes"
    elif backend in ("gloo", "nccl"):
        limit_s = GLOO_S if backend == "gloo" else NCCL_S
        where = f"{_in_words(limit_s)}, the default of {backend}"
    else:
        limit_s = NCCL_S
        where = f"by default {_in_words(NCCL_S)} with nccl and {_in_words(GLOO_S)} with gloo"
    return limit_s, (
        "a job of PyTorch ends if its ranks are held for longer than the time-out of a process "
        f"group: {where}; --max-hold TIME detaches before"
    )


def script_limits(text: str) -> tuple[list[tuple[float, int]], bool, str]:
    """Return the time-outs in a script, each with its line; whether all are literals; the backend.

    >>> script_limits("dist.init_process_group('gloo', timeout=timedelta(seconds=10))")
    ([(10.0, 1)], True, 'gloo')
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [], True, ""
    found: list[tuple[float, int]] = []
    is_complete, backend = True, ""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _name(node.func) not in _GROUPS:
            continue
        given = {each.arg: each.value for each in node.keywords}
        if _name(node.func) == "init_process_group":
            word = given.get("backend", node.args[0] if node.args else None)
            if isinstance(word, ast.Constant) and isinstance(word.value, str):
                backend = word.value
        timeout = given.get("timeout")
        if timeout is None or (isinstance(timeout, ast.Constant) and timeout.value is None):
            continue
        seconds = _seconds(timeout)
        if seconds is None:
            is_complete = False
        else:
            found.append((seconds, node.lineno))
    return found, is_complete, backend


def _seconds(node: ast.expr) -> float | None:
    """Return the value of a timedelta of literals, in seconds; None for another expression."""
    if not isinstance(node, ast.Call) or _name(node.func) != "timedelta":
        return None
    if len(node.args) > len(_POSITIONS):
        return None
    parts = list(zip(_POSITIONS, node.args, strict=False))
    parts += [(each.arg or "", each.value) for each in node.keywords]
    total = 0.0
    for unit, value in parts:
        number = _number(value)
        if unit not in _UNITS_S or number is None:
            return None
        total += number * _UNITS_S[unit]
    return total


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return None if left is None or right is None else left * right
    return None


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _script(pid: int, processes: Processes) -> str:
    """Return our path of the script of a rank, or of the program that has started it."""
    for each in _with_parent(pid, processes):
        script = interpreted_script(each)
        if script and not script.startswith("-m "):
            return path_of(each, script)
    return ""


def _with_parent(pid: int, processes: Processes) -> Iterator[int]:
    yield pid
    if "--multiprocessing-fork" in (procfs.command_line(pid) or []):
        yield processes.parent_of.get(pid, 0)


def _text(path: str) -> str:
    if not path:
        return ""
    try:
        with open_regular(path) as stream:
            return stream.read(_MOST_SCRIPT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _in_words(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 120 and not seconds % 60 else f"{seconds:g} s"
