"""Write the calls of the synchronous API, from the asynchronous one.

Run ``python scripts/generate_sync.py`` after a change of a signature, a docstring or a setting:
they exist once, in ``rank_data.py``, ``rank_groups.py``, ``rank_view.py``, ``session.py`` and
``options.py`` of ``frontend/api``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

API = Path(__file__).resolve().parent.parent / "frontend" / "api"
TARGET = API / "sync_generated.py"
WIDTH = 100

INNER = {
    "RankData": {"set"},
    "RankGroups": set(),
    "RankView": {"execute_plain"},
    "Session": {
        # For the user interfaces, which run in the session's thread.
        *("state", "job", "killed", "hushed", "log", "recorder", "asked"),
        *("transport", "set", "check_restart", "take_over", "notify_listeners"),
        *("all_worlds", "all_traces", "all_barriers"),
        *("script_log", "one_call"),
        # Not generated: see frontend/startup/sync.py.
        *("close", "subscribe", "ranks", "has_ended", "start_answer"),
    },
}
"""Names of the asynchronous classes that are not generated."""

HEAD = '''\
"""The calls of the synchronous API.

Generated from the asynchronous API by ``scripts/generate_sync.py``: change that, or
``rank_data.py``, ``rank_groups.py``, ``rank_view.py``, ``session.py`` and ``options.py``, and
run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Arrays
from pgdb.frontend.analysis.assertions import Check
from pgdb.frontend.analysis.call_paths import TreeBy
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.analysis.comparing import By, Comparison
from pgdb.frontend.analysis.progress import Progress
from pgdb.frontend.analysis.still_running import StillRunning
from pgdb.frontend.analysis.trace_tables import TraceData, TraceTable
from pgdb.frontend.analysis.why.explain import Explanation
from pgdb.frontend.api import session as aio
from pgdb.frontend.api.absentees import Barrier, BarrierThen
from pgdb.frontend.api.argument_types import checks_arguments
from pgdb.frontend.api.host_files import GatheredFile
from pgdb.frontend.api.lockstep import MOST_STEPS, Lockstep
from pgdb.frontend.api.loop_thread import LoopThread, OtherLoop
from pgdb.frontend.api.named_sets import NamedSets
from pgdb.frontend.api.options import SessionOptions, StopMode
from pgdb.frontend.api.rank_data import STAT_LIMIT_BYTES
from pgdb.frontend.api.rank_view import HasValues, RankView
from pgdb.frontend.api.traces import Trace
from pgdb.frontend.api.until_differ import MOST_HITS, Differ
from pgdb.frontend.api.watch_times import PROGRESS_EVERY_S, PROGRESS_SAMPLES, WHY_S
from pgdb.frontend.store.saving import Written
from pgdb.overlay.messages import BreakpointKind, Delivered, RunWord
from pgdb.overlay.query_options import QueryOptions
from pgdb.proctable import ProcTable, SessionMode, World
from pgdb.ranks import RankSet


class Options(TypedDict, total=False):
    """Keyword arguments that become fields of :class:`SessionOptions`, which describes them."""

'''

RANKS = '''

@checks_arguments
class Ranks:
    """Some ranks of a session, and the calls on them.

    Most calls return an :class:`Answer`; a command that fails on some ranks is an answer with
    errors in it, not an exception (see :meth:`Answer.check`). A ``KeyboardInterrupt`` ends the
    wait for an answer; the session goes on, and ranks that were set running still run.
    """

    def __init__(self, loop: LoopThread, view: RankView) -> None:
        self._loop = loop
        self._view = view

    @property
    def set(self) -> RankSet:
        """The ranks of this view."""
        return self._view.set

    def __repr__(self) -> str:
        return f"<pgdb.{type(self).__name__} of ranks [{self.set}]>"

    def _other(self, other: Ranks | Answer) -> HasValues | Answer:
        """Return the argument of a call in this session's loop for ranks of any session."""
        if isinstance(other, Answer):
            return other
        return other._view if other._loop is self._loop else _RanksElsewhere(other)
'''

BETWEEN = '''

class _RanksElsewhere:
    """Ranks of another session, which has a loop of its own."""

    def __init__(self, ranks: Ranks) -> None:
        self._view = ranks._view
        self._loop = OtherLoop(ranks._loop)

    async def evaluate_in_full(
        self, expression: str, *, format: str = "", timeout_s: float | None = None
    ) -> Answer:
        """Evaluate in the other loop."""
        return await self._loop.call(
            lambda: self._view.evaluate_in_full(expression, format=format, timeout_s=timeout_s)
        )


@checks_arguments
class SessionCalls(Ranks):
    """The calls on a session as a whole."""

    def __init__(self, loop: LoopThread, session: aio.Session) -> None:
        super().__init__(loop, session)
        self._session = session
'''


def main() -> None:
    """Write the file."""
    TARGET.write_text(generate(), encoding="utf-8")


def generate() -> str:
    """Return the text of the generated module."""
    parts = (("rank_data", "RankData"), ("rank_groups", "RankGroups"), ("rank_view", "RankView"))
    calls = "".join(text for file, name in parts for text in _members(*_class(f"{file}.py", name)))
    text = (
        HEAD
        + _options()
        + RANKS
        + calls
        + BETWEEN
        + "".join(_members(*_class("session.py", "Session")))
    )
    return text.rstrip() + "\n"


def _options() -> str:
    """Return the keyword arguments of sessions, of the types that ``SessionOptions`` declares."""
    _, owner = _class("options.py", "SessionOptions")
    # attach() and open_cores() have `ranks` by themselves, since they take text too.
    return "".join(
        f"    {node.target.id}: {_quoted(ast.unparse(node.annotation))}\n"
        for node in owner.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if node.target.id != "ranks"
    )


def _class(file: str, name: str) -> tuple[str, ast.ClassDef]:
    source = (API / file).read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return source, node
    raise AssertionError(f"{file} has no class {name}")


def _members(source: str, owner: ast.ClassDef) -> Iterator[str]:
    """Yield the text of each public member of a class."""
    target = "self._session" if owner.name == "Session" else "self._view"
    for node, after in zip(owner.body, [*owner.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, words = node.target.id, after
            if name not in INNER[owner.name] and not name.startswith("_"):
                assert isinstance(words, ast.Expr), f"{name} has no docstring"
                kind = ast.unparse(node.annotation)
                yield _property(name, kind, _shifted(_text(source, words)), target)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_accessor = any(ast.unparse(each).endswith(".setter") for each in node.decorator_list)
            if node.name in INNER[owner.name] or node.name.startswith("_") or is_accessor:
                continue
            words = node.body[0]
            if node.decorator_list:
                assert node.returns is not None
                kind = ast.unparse(node.returns)
                yield _property(node.name, kind, _text(source, words), target)
            else:
                yield _call(node, _text(source, words), target)


def _text(source: str, docstring: ast.stmt) -> str:
    return ast.get_source_segment(source, docstring) or ""


def _property(name: str, kind: str, docstring: str, target: str) -> str:
    return (
        f"\n    @property\n    def {name}(self) -> {_type(kind)}:\n"
        f"        {docstring}\n        return {target}.{name}\n"
    )


def _call(node: ast.FunctionDef | ast.AsyncFunctionDef, docstring: str, target: str) -> str:
    arguments = node.args
    described, passed = ["self"], []
    # Defaults belong to the last positional parameters.
    positional = arguments.args[1:]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for each, default in zip(positional, defaults, strict=True):
        described.append(_parameter(each, default))
        passed.append(_passed(each))
    if arguments.vararg is not None:
        described.append("*" + _parameter(arguments.vararg, None))
        passed.append(f"*{arguments.vararg.arg}")
    if arguments.kwonlyargs and arguments.vararg is None:
        described.append("*")
    for each, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        described.append(_parameter(each, keyword_default))
        passed.append(f"{each.arg}={_passed(each)}")
    assert node.returns is not None
    returned = _type(ast.unparse(node.returns))
    how = "call" if isinstance(node, ast.AsyncFunctionDef) else "do"
    head = _wrapped(f"    def {node.name}(", described, f") -> {returned}:")
    work = f"lambda: {target}.{node.name}("
    body = f"        return self._loop.{how}({work}{', '.join(passed)}))"
    if len(body) > WIDTH:
        inner = _wrapped(f"            {work}", passed, ")")
        body = f"        return self._loop.{how}(\n{inner}\n        )"
    return f"\n{head}\n        {docstring}\n{body}\n"


def _parameter(parameter: ast.arg, default: ast.expr | None) -> str:
    assert parameter.annotation is not None
    kind = _type(ast.unparse(parameter.annotation))
    text = f"{parameter.arg}: {kind}"
    return text if default is None else f"{text} = {_quoted(ast.unparse(default))}"


def _passed(parameter: ast.arg) -> str:
    assert parameter.annotation is not None
    if "HasValues" in ast.unparse(parameter.annotation):
        return f"self._other({parameter.arg})"
    return parameter.arg


def _type(kind: str) -> str:
    return _quoted(re.sub(r"\b(?:RankView|HasValues)\b", "Ranks", kind))


def _quoted(text: str) -> str:
    return text.replace("'", '"')


def _wrapped(start: str, parts: list[str], end: str) -> str:
    """Return *parts* in one line, in a line of their own, or in a line each, as ruff does."""
    whole = start + ", ".join(parts) + end
    if len(whole) <= WIDTH:
        return whole
    indent = " " * (len(start) - len(start.lstrip()))
    line = f"{indent}    {', '.join(parts)}"
    if len(line) <= WIDTH:
        return f"{start}\n{line}\n{indent}{end}"
    lines = "".join(f"{indent}    {part},\n" for part in parts)
    return f"{start}\n{lines}{indent}{end}"


def _shifted(docstring: str) -> str:
    """Return the docstring of an attribute as that of a property, one level further right."""
    first, *rest = docstring.splitlines()
    return "\n".join([first, *(f"    {line}" if line.strip() else "" for line in rest)])


if __name__ == "__main__":
    sys.exit(main())
