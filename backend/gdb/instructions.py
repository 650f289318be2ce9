"""The next instruction of a rank that has stopped: after ``stepi``, and where the user wants it."""

from __future__ import annotations

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.session import GdbSession
from pgdb.patterns import pattern
from pgdb.records import Stop

_SETTING = pattern(r"set\s+disassemble-n[a-z-]*(?:\s+(?P<value>\w+))?\s*\Z")
_ON = ("", "on", "1", "yes", "enable")
_OF_INSTRUCTIONS = ("stepi", "nexti", "reverse-stepi", "reverse-nexti")


class NextInstruction:
    """Finder of the instruction at which a rank has stopped.

    GDB prints it at a stop with ``set disassemble-next-line`` only, and its MI never does.
    """

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self._setting = "off"

    def take_command(self, command: str) -> None:
        """Note a command of the user's that may be ``set disassemble-next-line``."""
        match = _SETTING.match(command)
        if match is not None:
            value = match["value"] or ""
            self._setting = "on" if value in _ON else "auto" if value == "auto" else "off"

    def is_wanted(self, stop: Stop, word: str) -> bool:
        """Return whether the instruction is shown at a stop that *word* has led to."""
        if stop.reason == "end-stepping-range" and word in _OF_INSTRUCTIONS:
            return True
        if self._setting == "auto":
            return stop.frame is not None and not stop.frame.line
        return self._setting == "on"

    async def text(self) -> str:
        """Return the instruction in the form of GDB's ``x/i $pc``; nothing if GDB cannot read it.

        Unlike ``x``, the question changes neither ``$_`` nor the defaults of the user's next ``x``.
        """
        answer = await self._gdb.send('-data-disassemble -s $pc -e "$pc + 1" -- 0')
        found = decode.mappings(answer.payload.get("asm_insns")) if answer.kind == "done" else ()
        for each in found:
            function, offset = each.get("func-name"), each.get("offset")
            place = f" <{function}+{offset}>" if function else ""
            return f"=> {each.get('address', '?')}{place}:\t{each.get('inst', '')}"
        return ""
