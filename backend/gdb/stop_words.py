"""GDB's announcement of a stop: what was hit, what was caught, and by which thread.

GDB prints it as text just before the ``*stopped`` of a breakpoint or a signal, whichever command
has set the program running. The ``*stopped`` itself has the number of the breakpoint, but neither
its kind nor the thread's name, and for a caught signal not even a reason.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from pgdb.backend.gdb.decode import first
from pgdb.backend.gdb.gpu_words import is_on_gpu
from pgdb.patterns import pattern
from pgdb.records import Failure

FIRST_THREAD = "1"

# Thread 3 "worker" hit Catchpoint 2 (exception thrown), 0x… in __cxa_throw () from …
# Temporary breakpoint 3, main () at …
# CUDA thread hit Breakpoint 2.2, relax<<<(2,1,1),(64,1,1)>>> (before=0x…, …
# Hardware access (read/write) watchpoint 4: x
_HIT = pattern(
    r'^(?:(?:Thread [\d.]+ "[^\n]*"|CUDA thread) hit )?'
    r"((?:Temporary |Hardware |Hardware read |Hardware access \(read/write\) |Masked )?"
    r"(?:[Bb]reak|[Cc]atch|[Ww]atch)point) (\d+)(?:\.(\d+))?"
    r"(?: \(([^\n]*?)\), |\n +Inferior ((?:un)?loaded [^\n]*(?:\n    [^\n]*)*))?",
    re.M,
)
# Thread 3 "worker" received signal SIGSEGV, Segmentation fault.
_THREAD = pattern(r'^Thread [\d.]+ "([^\n]*)" (?:hit|received) ', re.M)
_BEGIN = pattern(
    r'\n?^(?:(?:Thread [\d.]+ "[^\n]*"|CUDA thread) (?:hit|received)|Program received) ', re.M
)
_IS_UNWOUND = "GDB has restored the context"
_STOPPED_IN_CALL = pattern(
    "The program being debugged (?:stopped|was signaled) while in a function called from GDB"
)
_WORDS_OF_WATCHPOINTS = {
    "wpt": "",
    "hw-rwpt": "Hardware read watchpoint",
    "hw-awpt": "Hardware access (read/write) watchpoint",
}
_NO_WATCHPOINT = _WORDS_OF_WATCHPOINTS.keys().isdisjoint
# With "set cuda break_on_launch" there is no breakpoint with a number.
# CUDA thread hit application kernel entry function breakpoint, relax<<<…>>> (…
_LAUNCH = pattern(r"^CUDA thread hit (\w+ kernel entry function breakpoint), ", re.M)
_ORDINARY = ("Breakpoint", "Watchpoint")
"""Words that say no more than the reason of the stop does."""

TEMPORARY = "Temporary breakpoint"
_MOST = 1 << 20
"""Most characters that are kept: values of displays stand behind the announcement."""
_LONG = 4096
_MOST_OF_LONG = 512
"""Number of characters that are kept of a line from _LONG characters on."""


class Announcements:
    """The text that GDB has printed unasked since the inferior runs, its latest part.

    It keeps only the beginning of a long line, where an announcement stands: displays have the
    longest lines.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self._size = 0

    def add(self, line: str) -> None:
        """Add a line that GDB has printed."""
        if len(line) >= _LONG:
            line = f"{line[:_MOST_OF_LONG]}\n"
        self._lines.append(line)
        self._size += len(line)
        while self._size > _MOST:
            self._size -= len(self._lines.popleft())

    def take(self) -> str:
        """Return the text, and begin anew."""
        text = "".join(self._lines)
        self.clear()
        return text

    def clear(self) -> None:
        """Begin anew: the inferior runs."""
        self._lines.clear()
        self._size = 0


class StopWords(NamedTuple):
    """The parts of an announcement; empty where it has none."""

    number: int = 0
    """GDB's number of the breakpoint that was hit."""
    hit: str = ""
    """GDB's word for it, unless that is the word for an ordinary one: ``Temporary breakpoint``."""
    event: str = ""
    """The event that a catchpoint has caught: ``exception thrown``; or that a kernel begins."""
    thread: str = ""
    """GDB's number of the thread, unless it is the first one."""
    thread_name: str = ""
    location: int = 0
    """Number of the breakpoint's location, if it has several ones."""


def stop_words(
    text: str, payload: Mapping[str, Any], first_thread: str = FIRST_THREAD
) -> StopWords:
    """Return the announcement in *text*, which GDB printed during the run that *payload* ends."""
    number, location, hit, event = _number(payload.get("bkptno")), 0, "", ""
    for key, word in () if _NO_WATCHPOINT(payload) else _WORDS_OF_WATCHPOINTS.items():
        if key in payload and isinstance(watched := first(payload[key]), Mapping):
            number, hit = _number(watched.get("number")), word
    # Output of a script may look like an announcement: the last one counts.
    for match in _HIT.finditer(text) if number or not payload.get("reason") else ():
        if int(match[2]) == number or not payload.get("reason"):
            number, hit, location = int(match[2]), match[1], int(match[3] or 0)
            event = match[4] or ", ".join((match[5] or "").split("\n    "))
    if not hit and payload.get("disp") == "del":
        hit = TEMPORARY
    thread = str(payload.get("thread-id", first_thread))
    if is_on_gpu(payload):
        thread = first_thread  # a thread of the host, which GDB names with it
        if not number and (launch := _LAUNCH.search(text)) is not None:
            event = launch[1]
    names = _THREAD.findall(text) if thread != first_thread else ()
    return StopWords(
        number=number,
        hit="" if hit in _ORDINARY else hit,
        event=event,
        thread="" if thread == first_thread else thread,
        thread_name=names[-1] if names else "",
        location=location,
    )


def without_announcement(failed: Failure) -> Failure:
    """Return the error of a command, without the announcement of the stop in a function that it
    has called: a notification has that, and comes before the error."""
    # With 'unwindonsignal' GDB takes the stop back, and no notification comes.
    if not _STOPPED_IN_CALL.match(failed.message) or _IS_UNWOUND in failed.message:
        return failed
    found = [*_BEGIN.finditer(failed.output), *_HIT.finditer(failed.output)]
    if not found:
        return failed
    before = failed.output[: max(each.start() for each in found)]
    return replace(failed, output=before.rstrip("\n"))


def _number(value: Any) -> int:
    text = str(first(value) or "0")
    return int(text) if text.isascii() and text.isdecimal() else 0
