"""A variable of an enclosing function counts before a global of its name, in each interpreter."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.backend.python import reader, scopes, values
from pgdb.backend.python.objects import UnknownError
from pgdb.backend.python.reader import Reader
from tests.support.programs import ROOT
from tests.support.python_processes import PythonProcess, running
from tests.support.pythons import interpreters

pytestmark = pytest.mark.skipif(not reader.program(), reason="py-spy is not installed")
PROGRAM = ROOT / "tests" / "programs" / "python_scopes.py"


def value(process: PythonProcess, function: str, text: str) -> str:
    (thread,) = asyncio.run(Reader().read(process.pid)).threads
    frame = next(each for each in thread.frames if each.name.rpartition(".")[2] == function)
    found = process.interpreter
    address = found.resolve(values.parse(text), frame, found.scope(thread, frame))
    assert isinstance(address, int)
    return found.shown(address)


@pytest.mark.slow
@pytest.mark.parametrize("python", interpreters())
def test_a_variable_of_an_enclosing_function_hides_a_global(python: str) -> None:
    with running(python, PROGRAM) as process:
        process.look()
        for function, text, expected in (
            ("innermost", "own", "'argument'"),
            ("innermost", "hidden", "'global'"),
            ("inner", "own", "'argument'"),
            ("inner", "hidden", "'outer'"),
            ("inner", "later[0]", "'taken'"),
            ("inner", "taken", "'taken'"),
            ("inner", "plain", "'global'"),
            ("outer", "hidden", "'outer'"),
            ("outer", "taken", "'taken'"),
            ("Body", "hidden", "'class'"),
            ("Body", "plain", "'global'"),
            ("<module>", "hidden", "'global'"),
            ("<module>", "__name__", "'__main__'"),
        ):
            assert value(process, function, text) == expected, (function, text)
        with pytest.raises(UnknownError, match=r"'unset_before' of .*inner has no value yet"):
            value(process, "inner", "unset_before")
        with pytest.raises(UnknownError, match=r"No Python variable 'absent' in .*inner"):
            value(process, "inner", "absent")


@pytest.mark.parametrize("python", interpreters())
def test_a_stack_with_other_functions_than_the_reader_reported_is_unknown(python: str) -> None:
    with running(python, PROGRAM) as process:
        process.look()
        (thread,) = asyncio.run(Reader().read(process.pid)).threads
        found = process.interpreter
        objects, at = found.objects, found.runtime_at
        assert len(scopes.frames_of(objects, found.memory, at, thread)) == len(thread.frames)
        for reported in (thread.frames[1:], tuple(reversed(thread.frames))):
            other = reader.PythonThread(thread.thread_id, reported)
            assert scopes.frames_of(objects, found.memory, at, other) == ()
        elsewhere = reader.PythonThread(thread.thread_id + 8, thread.frames)
        assert scopes.frames_of(objects, found.memory, at, elsewhere) == ()
