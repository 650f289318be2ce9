"""The arguments that frames are shown with, as GDB's settings ask for.

``-stack-list-arguments`` obeys no setting for frames: it prints whole objects, and Fortran arrays
whose bounds the procedure has not set yet, which takes GDB 13.1 for ever. With ``print max-depth
0`` it prints only scalars, which is what ``bt`` prints by default. The form that lists simple
values prints whole objects behind references, and GDB 13.1 refuses it for Fortran arrays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pgdb.backend.gdb import decode, settings
from pgdb.backend.gdb.lent_setting import LentSetting, Send
from pgdb.backend.gdb.mi import Result
from pgdb.errors import GdbError
from pgdb.records import Frame, Variable

_ELEMENTS = "200"
_LONGEST = 100
"""Longest value of an argument, in characters: that of a line."""
LIMIT_S = 10.0
"""Time for the values of arguments, in seconds; then frames are shown as ``f (...)``."""
_ONLY_SCALARS = f"-gdb-set {settings.DEPTH} 0"

Arguments = Mapping[int, tuple[Variable, ...]]
"""The arguments of each level that has any."""

PRESENCE = (Variable(name=decode.LEFT_OUT, value=""),)
"""The arguments of a frame that shows only that it has some."""


class FrameArguments:
    """GDB's settings for the arguments of frames, and the commands that list arguments so."""

    def __init__(
        self,
        is_alive: Callable[[], bool] = lambda: True,
        stop_printing: Callable[[], None] = lambda: None,
        lent: LentSetting | None = None,
    ) -> None:
        """Take *stop_printing* to interrupt the GDB, if *is_alive* says that it has not ended.

        :param lent: keeps the depth lowered between questions; None for no longer than each one.
        """
        self._lent = lent or LentSetting(is_shown_unasked=True)
        self._is_alive = is_alive
        self._stop_printing = stop_printing
        # The defaults of GDB; every GDB is started without start files.
        self.mode = "scalars"
        """The value of ``print frame-arguments``."""
        self._depth = settings.GDBS_DEPTH
        self._elements = _ELEMENTS
        self.has_fortran = False
        """Whether a frame of Fortran has been seen at a stop, or was selected."""

    def see(self, frame: Frame | None) -> None:
        """Take note of the frame of a stop, or of a selected one."""
        if frame is not None and not self.has_fortran:
            self.has_fortran = decode.is_of_fortran(frame)

    def on_notice(self, name: str, payload: Mapping[str, Any]) -> None:
        """Record a setting that a command of the user's has changed."""
        if name != "cmd-param-changed":
            return
        value = str(payload.get("value", ""))
        match payload.get("param"):
            case "print frame-arguments":
                self.mode = value
            case settings.DEPTH:
                self._depth = value
            case "print elements":
                self._elements = value
            case _:
                pass

    @property
    def elements(self) -> str:
        """The user's value of ``print elements``."""
        return self._elements

    @property
    def only_presence(self) -> bool:
        """Whether frames show only whether they have arguments."""
        return self.mode == "presence"

    @property
    def are_whole(self) -> bool:
        """Whether frames show whole arguments."""
        return self.mode == "all"

    @property
    def lists_safely(self) -> bool:
        """Whether frames show whole arguments, of which some may have bounds that are not set."""
        return self.are_whole and self.has_fortran

    @property
    def settings(self) -> tuple[str, str]:
        """The settings that decide what is left out of the values that GDB has printed."""
        return self.mode, self._elements

    def ask_whole(self, send: Send, where: str) -> asyncio.Future[Result]:
        """Send the command that lists arguments in full, whatever the settings for frames are."""
        return send(f"-stack-list-arguments {where.replace('@', '1')}")[0]

    def ask(self, send: Send, *before: str, where: str) -> list[asyncio.Future[Result]]:
        """Send commands and then the one that lists arguments; return the results of these.

        *where* has an ``@`` for the form of the list: the option for a thread before it, the range
        of levels behind it.
        """
        if self.mode in ("none", "presence"):
            return send(*before, f"-stack-list-arguments {where.replace('@', '0')}")
        command = f"-stack-list-arguments {where.replace('@', '1')}"
        if self._depth == "0" or (self.are_whole and not self.has_fortran):
            return send(*before, command)
        restore = f"-gdb-set {settings.DEPTH} {self._depth}"
        return self._lent.ask(send, *before, command, change=_ONLY_SCALARS, restore=restore)

    async def result(self, asked: asyncio.Future[Result]) -> Result:
        """Return the list of arguments; an error if GDB does not print it in time.

        :raises GdbError: if GDB ends.
        """
        limit = asyncio.get_running_loop().call_later(LIMIT_S, self._stop_printing)
        try:
            return await asked
        except GdbError as error:
            if not self._is_alive():
                raise
            return Result("error", {"msg": str(error)})
        finally:
            limit.cancel()

    def shown(self, frames: Sequence[Frame], listed: Result) -> Arguments:
        """Return the arguments of each level as they are shown."""
        if listed.kind != "done":
            return dict.fromkeys([each.level for each in frames], PRESENCE)
        arguments = decode.arguments_of(listed.line)
        if self.only_presence:
            return dict.fromkeys(arguments, PRESENCE)
        return {level: self.cut(items) for level, items in arguments.items()}

    def cut(self, items: tuple[Variable, ...]) -> tuple[Variable, ...]:
        """Return arguments with no value longer than a line, unless the user has asked for more."""
        limit = self._longest
        if limit is None or all(len(each.value) <= limit for each in items):
            return items
        return tuple(
            each if len(each.value) <= limit else Variable(each.name, _start(each.value, limit))
            for each in items
        )

    @property
    def _longest(self) -> int | None:
        """Longest value in characters, None for no limit."""
        if self.are_whole or self._elements in ("0", "-1", "unlimited"):
            return None
        # The user has asked for strings of that length.
        return _LONGEST if self._elements == _ELEMENTS else _LONGEST + _number(self._elements)


def _start(value: str, limit: int) -> str:
    """Return the start of a value as GDB writes it of a long string."""
    end = f'"{decode.LEFT_OUT}' if value.endswith('"') else decode.LEFT_OUT
    return value[: limit - len(end)] + end


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
