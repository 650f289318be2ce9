"""The messages of Python about exceptions, and those of its faulthandler. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from pgdb.frontend.run.message import PREFIX, Message
from pgdb.patterns import pattern
from pgdb.source_paths import is_of_python_library

TIMEOUT = "faulthandler of Python: "
"""Beginning of the text of a message about a time limit, behind which a program may go on."""
UNCAUGHT = "uncaught Python exception "
"""Beginning of the text of a message about a traceback."""
AT_EXIT = "Python exception in an atexit handler: "
"""Beginning of the text of a message about an exception behind which Python calls the other
handlers."""
IGNORED = "ignored Python exception: "
"""Beginning of the text of a message about an exception that Python cannot raise, as in
``__del__``."""
GOES_ON = (TIMEOUT, AT_EXIT, IGNORED)
"""Beginnings of the texts of messages behind which a program goes on."""

_TRACEBACK = pattern(r"Traceback \(most recent call last\):\n")
_PYTHON = pattern(
    r"Traceback \(most recent call last\):\n(?P<frames>(?:[^\n]*\n)+?)"
    + PREFIX
    + r"(?P<text>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Stop\w*)\b[^\n]*)"
)
_BEFORE_IGNORED = pattern(
    r"(?:\A|\n)"
    + PREFIX
    + r"(?:(?P<at_exit>Exception ignored in atexit callback|Error in atexit\._run_exitfuncs)|"
    r"Exception ignored [a-z]+)\b[^\n]*\n" + PREFIX + r"\Z"
)
"""The line before a traceback that ends no program: of Python 3.10 and later, or of older ones."""
_MOST_BEFORE = 1000
_PYTHON_EXACT = pattern(
    r"Traceback \(most recent call last\):\n(?P<frames>(?:"
    + PREFIX
    + r" +[^\n]*\n)+)"
    + PREFIX
    + r"(?P<text>[A-Za-z_][\w.]*(?:: [^\n]*)?)(?=\n|\Z)"
)
"""A traceback whose lines nothing has come between: its exception can have any name."""
_PYTHON_NEXT = pattern(
    r"\n\s*(?:The above exception was the direct cause of the following exception|"
    r"During handling of the above exception, another exception occurred):\s*\n"
    r"(?=[^\n]*Traceback \(most)"
)
"""Words between two exceptions, the second of which ended the program."""
_PYTHON_GROUP = pattern(
    r"(?m)^\s*\+ Exception Group Traceback \(most recent call last\):\n"
    r"(?P<frames>(?:\s*\|   [^\n]*\n)+)\s*\| (?P<text>[A-Za-z_][\w.]*: [^\n]*)"
)
_PYTHON_SYNTAX = pattern(
    r"(?m)^"
    + PREFIX
    + r"  (?P<frames>File \"[^\"\n]+\", line \d+\n)(?:[^\n]*\n){1,2}"
    + PREFIX
    + r"(?P<text>(?:Syntax|Indentation|Tab)Error: [^\n]*)"
)
"""The words for a program that cannot be compiled, which has no traceback."""
_PYTHON_FRAME = pattern(
    r"File \"(?P<file>[^\"\n]+)\", line (?P<line>\d+)(?:, in (?P<function>[^\n]+))?"
)
_PYTHON_FATAL = pattern(r"(?m)^" + PREFIX + r"(?P<text>Fatal Python error: [^\n]*)")
_PYTHON_FATAL_THREAD = pattern(
    r"Current thread 0x[^\n]*\(most recent call first\):\n"
    r"(?P<frames>(?:[^\n]*File \"[^\"\n]+\", line \d+ in [^\n]+\n?)+)"
)
"""The stack below the words of Python's faulthandler, innermost frame first."""
_PYTHON_FATAL_FRAME = pattern(
    r"File \"(?P<file>[^\"\n]+)\", line (?P<line>\d+) in (?P<function>[^\n]+)"
)

_PYTHON_TIMEOUT = pattern(
    r"(?m)^"
    + PREFIX
    + r"(?P<text>Timeout \(\d+:\d\d:\d\d[\d.]*\)!)\n"
    + r"(?P<threads>(?:[^\n]*Thread 0x[^\n]*\(most recent call first\):\n"
    + r"(?:[^\n]*File \"[^\"\n]+\", line \d+ in [^\n]+\n?)+\n?)+)"
)
"""The words of faulthandler.dump_traceback_later, with the stacks of all threads, the first one
last. The process ends with status 1 behind them if its caller has asked for that."""


def python_messages(text: str) -> Iterator[Message]:
    """Yield the messages of Python in a job's output."""
    yield from _exceptions(text)
    yield from _fatal_errors(text)


def _exceptions(text: str) -> Iterator[Message]:
    end = 0
    earlier: list[str] = []
    for begin in _TRACEBACK.finditer(text):
        if begin.start() < end:
            continue
        found = _PYTHON_EXACT.match(text, begin.start()) or _PYTHON.match(text, begin.start())
        if found is None:
            continue
        end = found.end()
        if _PYTHON_NEXT.match(text, end):
            earlier.append(found["text"].strip())
            continue
        yield _python_message(found, earlier, _kind_of(text, begin.start()))
        earlier = []
    for finder in (_PYTHON_GROUP, _PYTHON_SYNTAX):
        for each in finder.finditer(text):
            yield _python_message(each, [])


def _kind_of(text: str, at: int) -> str:
    """Return the beginning of the message about the traceback at a place."""
    before = _BEFORE_IGNORED.search(text[max(at - _MOST_BEFORE, 0) : at])
    if before is None:
        return UNCAUGHT
    return AT_EXIT if before["at_exit"] else IGNORED


def _fatal_errors(text: str) -> Iterator[Message]:
    for each in _PYTHON_FATAL.finditer(text):
        thread = _PYTHON_FATAL_THREAD.search(text, each.end(), each.end() + 65536)
        yield _of_stack(each["text"], each.start(), thread["frames"] if thread else "")
    for each in _PYTHON_TIMEOUT.finditer(text):
        first = each["threads"].rpartition("(most recent call first):\n")[2]
        yield replace(
            _of_stack(f"{TIMEOUT}{each['text']}", each.start(), first), is_of_signal=False
        )


def _of_stack(said: str, at: int, stack: str) -> Message:
    """Return a message with the place of a stack of the faulthandler's, innermost frame first."""
    frames = list(_PYTHON_FATAL_FRAME.finditer(stack))
    own = [frame for frame in frames if not is_of_python_library(frame["file"])]
    first = next(iter(own or frames), None)
    return Message(
        "runtime-error",
        said.strip(),
        at,
        file=first["file"] if first else "",
        line=int(first["line"]) if first else 0,
        function=first["function"].strip() if first else "",
        is_of_signal=True,
    )


def _python_message(found: re.Match[str], earlier: Sequence[str], kind: str = UNCAUGHT) -> Message:
    frames = list(_PYTHON_FRAME.finditer(found["frames"]))
    own = [each for each in frames if not is_of_python_library(each["file"])]
    last = next(iter((own or frames)[-1:]), None)
    after = f" (after {'; '.join(earlier)})" if earlier else ""
    return Message(
        "exception",
        f"{kind}{found['text'].strip()}{after}",
        found.start(),
        file=last["file"] if last else "",
        line=int(last["line"]) if last else 0,
        function=(last["function"] or "").strip() if last else "",
    )
