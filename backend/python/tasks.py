"""The tasks of asyncio in a process, read from its memory.

Before Python 3.14 the module ``asyncio.tasks`` has a set of all tasks. Later each thread has a list
of its own, whose place asyncio's table of offsets says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from pgdb.backend.python import coroutines, runtime
from pgdb.backend.python.coroutines import type_or_nothing
from pgdb.backend.python.objects import Module, Objects, UnknownError
from pgdb.backend.python.reader import PythonFrame
from pgdb.backend.python.runtime import Memory
from pgdb.patterns import pattern

MODULE = "asyncio.tasks"
_SETS = ("_all_tasks", "_scheduled_tasks", "_eager_tasks")
"""Sets of tasks in the module: before Python 3.12, and two from 3.12 on."""
_MOST_TASKS = 10_000
_MOST_NAMED = 8
_AUTOMATIC = pattern(r"Task-\d+\Z")
_REFERENT_AT = 16
_TABLE = (
    "task.size task.name task.awaited_by task.is_task task.awaited_by_is_set task.coro task.node "
    "interpreter.size interpreter.head thread.size thread.running_loop thread.running_task "
    "thread.head"
).split()
"""Fields of asyncio's table of offsets."""
RUNS, READY = "runs", "is ready"


class Task(msgspec.Struct, frozen=True):
    """A task that has not ended."""

    name: str
    """Name that the program has given, else ``Task (COROUTINE)``."""
    frames: tuple[PythonFrame, ...]
    """Frames of its coroutines, innermost first."""
    state: str
    """``runs``, ``is ready``, or ``awaits`` and the object."""

    @property
    def words(self) -> str:
        """Name and state."""
        return f"{self.name}, {self.state}"


class _Parts(msgspec.Struct, frozen=True):
    """The fields of a task object."""

    waiter: int
    coroutine: int
    name: str
    """Name, empty for one that asyncio has made."""


def tasks_of(
    objects: Objects, memory: Memory, modules: Iterator[Module], runtime_at: int, table_at: int
) -> list[Task]:
    """Return the tasks of all event loops of a process.

    :param table_at: address of asyncio's table of offsets, 0 if the interpreter has none.
    :raises UnknownError: if the memory cannot be read.
    """
    module = next((each for each in modules if each.name == MODULE), None)
    if module is None:
        return []
    addresses = dict.fromkeys(_in_sets(objects, module))
    addresses |= dict.fromkeys(_in_lists(memory, runtime_at, table_at))
    found = []
    for address in list(addresses)[:_MOST_TASKS]:
        parts = _parts(objects, address)
        if parts is not None and type_or_nothing(objects, parts.coroutine):
            found.append(_task(objects, parts))
    return [each for each in found if each.frames]


def _in_sets(objects: Objects, module: Module) -> Iterator[int]:
    for key, value in objects.items(module.globals):
        if not objects.is_a(key, "str") or objects.text(key) not in _SETS:
            continue
        is_weak = type_or_nothing(objects, value) == "WeakSet"
        table = objects.attribute(value, "data") if is_weak else value
        if type_or_nothing(objects, table) != "set":
            continue
        for each in objects.members(table):
            kind = type_or_nothing(objects, each)
            if not is_weak:
                yield each
            elif kind.startswith("weakref"):
                yield objects.word(each + _REFERENT_AT)


def _in_lists(memory: Memory, runtime_at: int, table_at: int) -> Iterator[int]:
    """Yield the tasks in the lists of threads and interpreters (Python 3.14 and later)."""
    known = runtime.offsets(memory, runtime_at)
    data = memory(table_at, 8 * len(_TABLE)) if table_at else b""
    if known is None or len(data) < 8 * len(_TABLE):
        return
    at = dict(zip(_TABLE, struct.unpack(f"<{len(_TABLE)}Q", data), strict=True))
    if not all(each < 1 << 24 for each in at.values()):
        return
    try:
        interpreters, threads = runtime.thread_states(memory, known)
        heads = [each + at["interpreter.head"] for each in interpreters]
        heads += [each + at["thread.head"] for each in threads]
        for head in heads:
            node = runtime.pointer(memory, head)
            for _ in range(_MOST_TASKS):
                if node in (0, head):
                    break
                yield node - at["task.node"]
                node = runtime.pointer(memory, node)
    except ValueError:
        raise UnknownError("the tasks of asyncio cannot be read") from None


def _parts(objects: Objects, address: int) -> _Parts | None:
    """Return the fields of a task, None for another object.

    The fields have moved between versions. A context follows the name, and the name the coroutine.
    """
    if not type_or_nothing(objects, address):
        return None
    size = objects.base_bytes(address)
    if not 64 <= size <= 4096:
        return None
    words = objects.words(address, size // 8)
    for at in range(3, len(words) - 2):
        name, context = (type_or_nothing(objects, each) for each in words[at + 1 : at + 3])
        if name in ("str", "int") and context.rpartition(".")[2] == "Context":
            return _Parts(words[at - 1], words[at], _given_name(objects, words[at + 1]))
    return _of_python(objects, address)


def _of_python(objects: Objects, address: int) -> _Parts | None:
    """Return the fields of a task of a class written in Python."""
    try:
        coroutine = objects.attribute(address, "_coro")
        named = objects.attribute(address, "_name")
        waiter = objects.attribute(address, "_fut_waiter")
    except UnknownError:
        return None
    if type_or_nothing(objects, waiter) == "NoneType":
        waiter = 0
    return _Parts(waiter, coroutine, _given_name(objects, named))


def _given_name(objects: Objects, address: int) -> str:
    """Return the name of a task, empty for one that asyncio has made, which may be a number yet."""
    name = objects.text(address) if type_or_nothing(objects, address) == "str" else ""
    return "" if _AUTOMATIC.match(name) else name


def _task(objects: Objects, parts: _Parts) -> Task:
    chain = coroutines.chain(objects, parts.coroutine)
    state = READY
    if chain.is_running:
        state = RUNS
    elif type_or_nothing(objects, parts.waiter):
        state = f"awaits {_described(objects, parts.waiter)}"
    return Task(_name(parts, chain.frames), chain.frames, state)


def _name(parts: _Parts, frames: tuple[PythonFrame, ...]) -> str:
    return parts.name or (f"Task ({frames[-1].name})" if frames else "Task")


def _described(objects: Objects, address: int) -> str:
    """Return words for an object that a task waits for."""
    kind = type_or_nothing(objects, address)
    if kind == "_GatheringFuture":
        children = objects.elements(objects.attribute(address, "_children"))
        names = sorted({_described(objects, each) for each in children})
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return f"gather of {', '.join(names[:_MOST_NAMED])}{more}"
    parts = _parts(objects, address)
    if parts is None:
        return f"a {kind.rpartition('.')[2]}"
    frames: tuple[PythonFrame, ...] = ()
    if not parts.name and type_or_nothing(objects, parts.coroutine):
        frames = coroutines.chain(objects, parts.coroutine).frames
    return _name(parts, frames)
