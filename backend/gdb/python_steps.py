"""Run commands of one rank, where a Python frame is selected: steps by lines of Python."""

from __future__ import annotations

from typing import Any

from pgdb.backend.gdb import python_calls
from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.command_kinds import run_command
from pgdb.backend.gdb.python_breakpoints import place_in
from pgdb.backend.gdb.python_commands import with_file
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.python.injection import CannotArmError
from pgdb.overlay.messages import Console, Resume
from pgdb.records import Failure

_STEPS = ("step", "next", "finish", "until", "advance")
_TO_A_PLACE = ("until", "advance")
_C_FRAME = "select a C frame ('frame N') to step in C code"


class PythonSteps:
    """Maker of the commands with which one GDB sets its rank running."""

    def __init__(self, stacks: Stacks, breakpoints: Breakpoints) -> None:
        self._stacks = stacks
        self._agent = breakpoints.python.agent

    async def command_for(self, operation: Resume | Console, pid: int) -> str | Failure:
        """Return the MI command of a run command, once the agent has its orders.

        :raises GdbError: if GDB ends.
        """
        argument = operation.argument if isinstance(operation, Resume) else ""
        word, argument = operation.command, argument.removesuffix("&").strip()
        place = None
        if isinstance(operation, Resume) and pid:
            if word in _TO_A_PLACE and argument:
                found = place_in(await with_file(f"break {argument}", self._stacks, pid))
                place = found.wanted if found is not None else None
                is_step = place is not None and bool(self._stacks.python.runtime_of(pid))
            else:
                is_step = word in _STEPS and self._stacks.python.is_python_selected
            if is_step:
                return await self._step(word, argument, place, pid)
        self._agent.no_step()
        try:
            await self._agent.settle(pid)
        except CannotArmError as error:
            return Failure(message=f"breakpoints at Python code cannot be changed: {error}")
        return run_command(operation)

    async def _step(
        self, word: str, argument: str, place: dict[str, Any] | None, pid: int
    ) -> str | Failure:
        count = argument if place is None else ""
        if count and (word in ("finish", "until") or not count.isdecimal() or len(count) > 9):
            return Failure(
                message=f"{word} {argument}: at a Python frame, it takes "
                f"{'no argument' if word == 'finish' else 'a number'}; {_C_FRAME}"
            )
        if count and not int(count):
            return Failure(message=f"{word} {argument}: the number is at least 1")
        described = await python_calls.ask(
            self._stacks.gdb,
            "python_frames_in_gdb.describe",
            needed_for="steps by lines of Python need",
        )
        if isinstance(described, Failure):
            return described
        depth = 0
        if word == "finish":
            mixed = await self._stacks.mixed(pid)
            if not isinstance(mixed, str) and (at := self._stacks.python.selected) is not None:
                depth = sum(each is not None for each in mixed.python[:at])
        try:
            await self._agent.step(
                pid,
                "finish" if place is not None else word,
                count=int(count or 1),
                depth=depth,
                lwp=int(described["lwp"]),
                place=place,
            )
        except CannotArmError as error:
            return Failure(message=f"'{word}' at a Python frame: {error}; {_C_FRAME}")
        return "-exec-continue"
