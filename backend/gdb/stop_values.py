"""Values that GDB prints at a stop: what ``finish`` returned, what a watchpoint saw change.

GDB prints them as it reports the stop, with the settings that hold then, and nobody can ask for the
old value later. So its limits are raised before a run that may end so, and restored at the stop;
the text is cut to the user's limits here. GDB 13 stops the rank and reports nothing if a returned
value is larger than max-value-size, so that the rank would seem to run on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pgdb.backend.gdb import decode, full_values, queries
from pgdb.backend.gdb.frame_arguments import FrameArguments
from pgdb.backend.gdb.python_calls import call
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from pgdb.overlay.messages import Evaluate
from pgdb.patterns import pattern
from pgdb.printed_parts import cut_elements, has_dots, is_cut
from pgdb.records import ARROW, Stop, Value

_FINISH = pattern(r'-exec-finish|-interpreter-exec console "fin(?:i|is|ish)?\b')
_LARGEST_RETURNED_BYTES = 1 << 30
MOST_ELEMENTS = 2000
"""Most elements of an array, and characters of a string, that are looked at, as for ``print``."""
_LOOKED_AT_BYTES = 1 << 25
"""Largest array of numbers that is read to be compared."""
_HISTORY = pattern(r"\$\d+\Z")
# A number, a complex number, or a structure with one member that is one.
_NUMBER = pattern(r"(?:\{\w+ = )*[-+(]?(?:\d|nan|inf)[^={}<>\"']*\}*\Z")
_SIZE = "max-value-size"
_ELEMENTS = "print elements"


class StopValues:
    """The values in the stops of one rank, in full, and GDB's limits for them."""

    def __init__(
        self,
        gdb: GdbSession,
        arguments: FrameArguments,
        is_watching: Callable[[], bool] = lambda: False,
    ) -> None:
        """Read the values of *gdb*; *is_watching* returns whether the rank has a watchpoint."""
        self._gdb = gdb
        self._arguments = arguments
        self._is_watching = is_watching
        self._before: dict[str, str] = {}
        self._most = 0  # the raised limit of elements in the present run, or 0
        self._expression = ""  # of the latest value: watched, or its number in GDB's history
        self._shown = ""  # the text of the latest value
        self.is_shown_unasked = False
        """Whether commands of breakpoints or scripts print at stops, which the user's limits are
        for."""

    async def raise_for(self, command: str) -> None:
        """Raise the limits if *command* is a ``finish``, or the rank has a watchpoint.

        :raises GdbError: if GDB ends.
        """
        if self._before:
            return
        finishes = _FINISH.match(command) is not None
        if finishes:
            shown = await self._gdb.send(f"-gdb-show {_SIZE}")
            limit = str(shown.payload.get("value", ""))
            if limit.isdigit() and int(limit) < _LARGEST_RETURNED_BYTES:
                self._raise(_SIZE, limit, _LARGEST_RETURNED_BYTES)
        elements = self._arguments.elements
        self._most = 0
        if self.is_shown_unasked or not (finishes or self._is_watching()):
            return
        if elements.isdigit() and 0 < int(elements) < MOST_ELEMENTS:
            self._raise(_ELEMENTS, elements, MOST_ELEMENTS)
            self._most = MOST_ELEMENTS

    def _raise(self, setting: str, before: str, limit: int) -> None:
        self._before[setting] = before
        self._gdb.send(f"-gdb-set {setting} {limit}")

    def on_notice(self, name: str, payload: Mapping[str, Any]) -> None:
        """Keep a limit that the user has set while it was raised."""
        if name == "cmd-param-changed":
            self._before.pop(str(payload.get("param")), None)

    def restore(self) -> None:
        """Restore the limits, if they were raised: the rank has stopped."""
        before, self._before = self._before, {}
        for setting, value in before.items():
            with contextlib.suppress(GdbError):
                self._gdb.send(f"-gdb-set {setting} {value}")

    def take(self, payload: Mapping[str, Any]) -> tuple[str, tuple[Value, ...]]:
        """Return the text of the values in a ``*stopped``, and the values if it is a part of them.

        The text is empty if the stop has no value.
        """
        self._expression = ""
        if not decode.has_values(payload):
            return "", ()
        texts = decode.stop_values(payload)
        self._expression = decode.stop_expression(payload)
        if not texts:
            return "", ()
        values = tuple(map(self._value, texts))
        self._shown = shown = ARROW.join(each.text for each in values)
        is_plain = all(each == Value(text=each.text) for each in values)
        if is_plain and shown.count(ARROW) == max(0, len(values) - 1) and not _has_arrays(values):
            return shown, ()
        return shown, values

    def _value(self, text: str) -> Value:
        """Return a value as the user's limits show it, with its whole."""
        shown = text
        if self._most and self._arguments.elements.isdigit():
            shown = cut_elements(text, int(self._arguments.elements))
        looked_at = 0
        if has_dots(text) and is_cut(text):
            looked_at = self._most if self._most and "{...}" not in text else -1
        if shown == text:
            return Value(text=text, looked_at=looked_at)
        return Value(text=shown, whole=text, looked_at=looked_at)

    def needs_look(self, values: Sequence[Value]) -> bool:
        """Return whether :meth:`look` asks GDB about the latest values."""
        if not self._expression and not values:
            return False
        is_returned = _HISTORY.match(self._expression) is not None
        if is_returned and _NUMBER.match(self._shown):
            return True
        return (is_returned and any(each.looked_at for each in values)) or _has_arrays(values)

    async def corrected(self, stop: Stop) -> Stop:
        """Return a stop with the number that a function has returned, where GDB reads it wrong; see
        ``returned_in_gdb.py``.

        :raises GdbError: if GDB ends.
        """
        before = f": {self._shown}"
        if not _HISTORY.match(self._expression) or not _NUMBER.match(self._shown):
            return stop
        result = await self._gdb.send(call("returned_in_gdb.correct", self._expression))
        text = result.text.strip() if result.kind == "done" else ""
        if not text or not stop.detail.endswith(before):
            return stop
        return replace(stop, detail=f"{stop.detail.removesuffix(before)}: {text}", values=())

    async def look(self, values: tuple[Value, ...], pid: int) -> tuple[Value, ...]:
        """Return the latest values with all elements and with lower bounds, as far as GDB says.

        :raises GdbError: if GDB ends.
        """
        expression = self._expression
        if _HISTORY.match(expression) and values and values[0].looked_at:
            asked = Evaluate(
                expression=expression, most_elements=MOST_ELEMENTS, limit_bytes=_LOOKED_AT_BYTES
            )
            shown = Value(text=values[0].text)
            whole = await full_values.in_full(self._gdb, asked, pid, shown, expression)
            if isinstance(whole, Value):
                values = (whole,)
        if not _has_arrays(values):
            return values
        # A watched array has the same bounds before and after.
        latest = values[-1]
        text = latest.whole if isinstance(latest.whole, str) else latest.text
        most = MOST_ELEMENTS if text is not latest.text else 0
        bounds = await queries.bounds(self._gdb, expression, text, most_elements=most)
        return tuple(replace(each, bounds=bounds) for each in values)


def _has_arrays(values: Sequence[Value]) -> bool:
    """Return whether some value may be an array of Fortran."""
    return any(queries.is_fortran_array(each.text) for each in values)
