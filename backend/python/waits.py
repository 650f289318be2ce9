"""The wait of a Python thread: the function of a library that blocks, and the thread that it needs.

A re-entrant lock has the number of the thread that holds it, and an object of a thread has its
own. A plain lock has neither. The source says which lock a line wants, and which locks the lines of
other threads hold: a thread inside of ``with lock:``, or inside of a ``try`` that releases the lock
at its end, holds it. The expressions must lead to one object in memory. All else is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import msgspec

from pgdb.backend.python import values
from pgdb.backend.python.objects import UnknownError
from pgdb.backend.python.reader import PythonFrame, PythonThread
from pgdb.backend.python.statements import Source, spans, statements_around
from pgdb.backend.python.values import Interpreter
from pgdb.errors import PgdbError
from pgdb.mpi_calls import Activity
from pgdb.patterns import pattern
from pgdb.source_paths import is_of_python_library

_PACKAGES = pattern(
    r".*(?:/(?:site|dist)-packages/|/lib(?:64)?/python\d[\d.t]*/)(?P<path>.+)\.py\Z"
)
_SELF = pattern(r"<([\w.]+) at 0x")
_BLOCKING = ("lock", "thread", "io")
_MODULES: tuple[tuple[Activity, str], ...] = (
    ("thread", "threading."),
    ("thread", "queue."),
    ("thread", "concurrent.futures."),
    ("io", "subprocess."),
    ("io", "multiprocessing."),
    ("io", "asyncio."),
)
"""The work of a thread that blocks in a function of these modules, by its name."""
_PLAIN_LOCK, _OWNED_LOCK = "_thread.lock", "_thread.RLock"
_OWNER_AT = 24
"""Offset of the holder in a re-entrant lock, in Python 3.8 to 3.15."""
_THREADING = "/threading.py"
_NEAR = 4
_MOST_FRAMES = 200


class Wait(msgspec.Struct, frozen=True):
    """The wait of one thread."""

    function: str = ""
    """Function of a library in which it blocks, such as ``queue.Queue.get``; empty for none."""
    activity: Activity = ""
    """The work of the thread, where the function says it; else empty."""


def wait_of(frames: Sequence[PythonFrame], activity: Activity) -> Wait:
    """Return the wait of a thread whose frames of C say *activity*."""
    if activity not in _BLOCKING or not frames:
        return Wait()
    own = (at for at, each in enumerate(frames) if not is_of_python_library(each.filename))
    users = next(own, 0)
    called = frames[users - 1] if users else frames[0]
    if not is_of_python_library(called.filename) or _is_begin(called):
        return Wait()
    function = dotted_name(called)
    known = (each for each, module in _MODULES if function.startswith(module))
    return Wait(function, next(known, ""))


def _is_begin(frame: PythonFrame) -> bool:
    """Return whether a frame is the beginning of a thread, which calls a function of C."""
    return frame.filename.endswith(_THREADING) and frame.name.rpartition(".")[2] == "run"


def dotted_name(frame: PythonFrame) -> str:
    """Return the name of a function of a library with its module; empty for one without a file.

    >>> dotted_name(PythonFrame("Queue.get", "/usr/lib/python3.12/queue.py", 171))
    'queue.Queue.get'
    >>> dotted_name(PythonFrame("Future.result", "/lib/python3.12/concurrent/futures/_base.py", 9))
    'concurrent.futures.Future.result'
    """
    match = _PACKAGES.match(frame.filename)
    if match is None:
        return ""
    parts = match["path"].split("/")
    if len(parts) > 1 and parts[-1].startswith("_"):
        del parts[-1]
    name = frame.name
    first = next(iter(frame.locals or ()), None)
    if "." not in name and first is not None and first.name == "self":
        # Before Python 3.11 a function does not know its class.
        if (kind := _SELF.match(first.repr or "")) is not None:
            name = f"{kind[1].rpartition('.')[2]}.{name}"
    return ".".join((*parts, name))


def awaited_thread(
    interpreter: Interpreter, threads: Sequence[PythonThread], thread: PythonThread, source: Source
) -> PythonThread | None:
    """Return the thread that a blocked thread needs, which may be itself; None if it is unknown."""
    finder = _Finder(interpreter, threads, source)
    try:
        number = finder.awaited(thread)
    except (PgdbError, ValueError, RecursionError):
        return None
    return next((each for each in threads if each.thread_id == number), None)


class _Finder:
    """Finder of the threads of one process that need each other."""

    def __init__(
        self, interpreter: Interpreter, threads: Sequence[PythonThread], source: Source
    ) -> None:
        self._interpreter = interpreter
        self._objects = interpreter.objects
        self._threads = threads
        self._source = source

    def awaited(self, thread: PythonThread) -> int:
        """Return the number of the awaited thread, 0 if it is unknown."""
        for frame in thread.frames[:_NEAR]:
            name = frame.name.rpartition(".")[2]
            if frame.filename.endswith(_THREADING) and name == "join":
                return self._integer(frame, "self._ident")
            if frame.filename.endswith(_THREADING) and name == "_shutdown":
                return self._last_thread(thread, frame)
        locks = set(self._wanted(thread))
        if len(locks) != 1:
            return 0
        (lock,) = locks
        if self._objects.type_name(lock) == _OWNED_LOCK:
            return self._objects.word(lock + _OWNER_AT)
        holders = {each.thread_id for each in self._threads if self._holds(each, lock)}
        return holders.pop() if len(holders) == 1 else 0

    def _integer(self, frame: PythonFrame, text: str) -> int:
        found = self._interpreter.resolve(values.parse(text), frame)
        if not isinstance(found, int) or not self._objects.is_a(found, "int"):
            return 0
        return self._objects.integer(found)

    def _last_thread(self, thread: PythonThread, frame: PythonFrame) -> int:
        """Return the one other thread that the end of the program awaits, 0 for several."""
        objects = self._objects
        active = self._interpreter.resolve(values.parse("_active"), frame)
        if not isinstance(active, int) or not objects.is_a(active, "dict"):
            return 0
        left = []
        for key, value in objects.items(active):
            is_daemon = objects.integer(objects.attribute(value, "_daemonic"))
            if not is_daemon and objects.integer(key) != thread.thread_id:
                left.append(objects.integer(key))
        return left[0] if len(left) == 1 else 0

    def _wanted(self, thread: PythonThread) -> Iterator[int]:
        """Yield the locks that the innermost line of a thread may want."""
        frame = thread.frames[0]
        for text in wanted_locks(self._source(frame.filename) or "", frame.line):
            if lock := self._lock(thread, frame, text):
                yield lock

    def _holds(self, thread: PythonThread, lock: int) -> bool:
        inner: list[PythonFrame] = []
        for frame in thread.frames[:_MOST_FRAMES]:
            texts = held_locks(self._source(frame.filename) or "", frame.line)
            if any(self._lock(thread, frame, each) == lock for each in texts):
                return not any(self._lends(thread, each, lock) for each in inner)
            inner.append(frame)
        return False

    def _lends(self, thread: PythonThread, frame: PythonFrame, lock: int) -> bool:
        """Return whether a frame is the wait of a condition, which releases the lock meanwhile."""
        is_wait = frame.filename.endswith(_THREADING) and frame.name.endswith("wait")
        return is_wait and self._lock(thread, frame, "self._lock") == lock

    def _lock(self, thread: PythonThread, frame: PythonFrame, text: str) -> int:
        """Return the address of the lock that an expression names, 0 if it names none."""
        try:
            scope = self._interpreter.scope(thread, frame)
            found = self._interpreter.resolve(values.parse(text), frame, scope)
            if isinstance(found, int) and self._objects.type_name(found).endswith("Condition"):
                found = self._objects.attribute(found, "_lock")
        except (PgdbError, UnknownError):
            return 0
        is_lock = isinstance(found, int) and self._objects.type_name(found) in (
            _PLAIN_LOCK,
            _OWNED_LOCK,
        )
        return found if is_lock and isinstance(found, int) else 0


def wanted_locks(source: str, line: int) -> list[str]:
    """Return the expressions of the locks that a line may acquire.

    >>> wanted_locks("with lock:\\n    pass\\n", 1), wanted_locks("self.guard.acquire()", 1)
    (['lock'], ['self.guard'])
    """
    found = []
    for node in statements_around(source, line):
        if isinstance(node, ast.With) and node.lineno <= line < _body_line(node):
            found += [ast.unparse(each.context_expr) for each in node.items]
        elif spans(node, line) and (lock := _method(node, "acquire", "__enter__")):
            found.append(lock)
    return list(dict.fromkeys(found))


def held_locks(source: str, line: int) -> list[str]:
    """Return the expressions of the locks that a line is executed with.

    >>> held_locks("with lock, other:\\n    work()\\n", 2)
    ['lock', 'other']
    >>> held_locks("lock.acquire()\\ntry:\\n    work()\\nfinally:\\n    lock.release()\\n", 3)
    ['lock']
    """
    found = []
    for node in statements_around(source, line):
        # A line that has all of the statement says nothing.
        if isinstance(node, ast.With) and _is_in(node.body, line) and line >= _body_line(node):
            texts = [ast.unparse(each.context_expr) for each in node.items]
            # The place alone says nothing about a lock that is released inside.
            found += [each for each in texts if each not in _released(node.body)]
        elif isinstance(node, ast.Try) and _is_in(node.body, line):
            found += [
                each for each in _released(node.finalbody) if each not in _released(node.body)
            ]
    return list(dict.fromkeys(found))


def _body_line(node: ast.With) -> int:
    return max(node.body[0].lineno, node.lineno + 1)


def _is_in(body: Sequence[ast.stmt], line: int) -> bool:
    return body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


def _released(body: Sequence[ast.stmt]) -> list[str]:
    nodes = (node for each in body for node in ast.walk(each))
    return list(filter(None, (_method(each, "release") for each in nodes)))


def _method(node: ast.AST, *names: str) -> str:
    """Return the object of a call of one of these methods, empty for another node."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return ast.unparse(node.func.value) if node.func.attr in names else ""
    return ""
