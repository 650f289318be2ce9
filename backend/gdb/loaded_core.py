"""One GDB that has read one core file."""

from __future__ import annotations

import os
import signal
from typing import Any

from pgdb.backend.gdb import main_program
from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.mi import console, quote
from pgdb.backend.gdb.operations import Operations
from pgdb.backend.gdb.python_stacks import PythonStacks
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.rank_gdb import RankGdb
from pgdb.backend.gdb.rank_image import CoreImage
from pgdb.backend.gdb.rank_variables import definitions_for
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.gdb.stop_report import StopReports
from pgdb.backend.python.core_reader import CoreReader
from pgdb.backend.zygote.core_programs import CoreProgram
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.cores.core_file import CoreFile
from pgdb.errors import GdbError
from pgdb.jobs.rank_environment import RankIdentity
from pgdb.patterns import pattern
from pgdb.records import Stop

_SIGNAL = pattern(r"^Program terminated with signal (\w+), (.*)\.$", 8)
_PLAIN_NAME = pattern(r"[\w./+=@%:,-]+\Z")


class LoadedCore:
    """The GDB of one core, and the parts that ask it."""

    def __init__(self, rank: int, core: CoreFile, identity: RankIdentity | None) -> None:
        self._rank = rank
        self._core = core
        self._identity = identity
        self._words = ""
        self._file = -1
        self.has_run = False
        """Whether a command has made GDB start a program, which GDB's end has ended."""
        self.is_unloaded = False
        """Whether a command has made GDB forget the core."""
        self.gdb = RankGdb(self)
        image = CoreImage(core)
        self.breakpoints = Breakpoints(self.gdb)
        self._python = CoreReader(core.path)
        self.stacks = Stacks(self.gdb, self.gdb.interrupt, image_of=lambda pid: image)
        self.stacks.python = PythonStacks(self.gdb, self._python)
        self.stops = StopReports(self.gdb, self.stacks, self.breakpoints)
        self.operations = Operations(
            self.gdb,
            self.breakpoints,
            self.stacks,
            adopt_run=lambda run: None,
            show=lambda text: None,
            rank=rank,
        )
        self.stops.display_text = self.operations.display_text

    async def load(self, factory: GdbFactory, program: CoreProgram) -> None:
        """Start a GDB that reads the program and the core.

        :raises GdbError: if that fails; the GDB has ended then.
        """
        self._python.program = program.executable
        try:
            is_forked = await factory.start_for_core(self.gdb, program)
            if not is_forked and program.executable:
                # A program that GDB cannot read leaves a core without symbols.
                await self.gdb.send(f"-file-exec-and-symbols {quote(program.executable)}")
            result = await self.gdb.send(console(f"core-file {self._name()}"))
            if result.kind == "error":
                raise GdbError(f"{self._core.path}: {failure(result).message.rstrip('.')}")
            self._words = result.text
            self.is_unloaded = False
            if is_forked:
                await factory.settle(self.gdb)
            else:
                main_program.find(self.gdb)
            for each in definitions_for(self._rank, self._identity):
                await self.gdb.send(each)
        except BaseException:
            await self.close()
            raise

    async def stop(self, run: int, notes: list[str]) -> Stop:
        """Return where the process died.

        :raises GdbError: if GDB ends.
        """
        listed = await self.gdb.send("-thread-info")
        current = str(listed.payload.get("current-thread-id", self.gdb.first_thread))
        threads = listed.payload.get("threads") or ()
        frame = next((each.get("frame") for each in threads if each.get("id") == current), None)
        payload: dict[str, Any] = {"thread-id": current, "reason": "signal-received"}
        if isinstance(frame, dict):
            payload["frame"] = frame
        name, meaning = self._signal()
        payload |= {"signal-name": name, "signal-meaning": meaning}
        stop = self.stops.stop_of(payload, run, self._core.pid)
        if not name:
            stop = Stop(reason="core", run=run, frame=stop.frame)
        stop, _ = await self.stops.describe(stop, self._core.pid, is_elsewhere=False)
        details = "; ".join(filter(None, (*notes, stop.detail)))
        return Stop(
            reason=stop.reason,
            run=run,
            signal=stop.signal,
            meaning=stop.meaning,
            frame=stop.frame,
            inside=stop.inside,
            detail=details,
            dying=stop.dying,
        )

    async def close(self, timeout_s: float = 5.0) -> None:
        """End the GDB, by force if it computes."""
        if not await self.gdb.close(timeout_s):
            self.gdb.kill()
            await self.gdb.close(timeout_s)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _name(self) -> str:
        """Return a name of the core without characters that GDB takes for something else.

        GDB 13 takes the rest of the line as the name, later ones want quotation marks.
        """
        if _PLAIN_NAME.match(self._core.path):
            return self._core.path
        self._file = os.open(self._core.path, os.O_RDONLY | os.O_CLOEXEC)
        name = f"/proc/{os.getpid()}/fd/{self._file}"
        self.gdb.rename([(name, self._core.path)])
        return name

    def _signal(self) -> tuple[str, str]:
        """Return name and meaning of the signal that the process died of, empty for none."""
        if (match := _SIGNAL.search(self._words)) is not None:
            return match[1], match[2]
        if not self._core.signal or "terminated with signal" not in self._words:
            # GDB itself writes cores of living processes (generate-core-file).
            return "", ""
        try:
            number = signal.Signals(self._core.signal)
        except ValueError:
            return f"SIG{self._core.signal}", "unknown signal"
        return number.name, signal.strsignal(number) or ""

    # -- what GDB reports --------------------------------------------------------------------------

    def on_stopped(self, payload: dict[str, Any]) -> None:
        """Take a ``*stopped`` of a program that a command has started."""

    def on_running(self) -> None:
        """End a GDB that runs a program: the session has core files only."""
        self.has_run = True
        self.gdb.kill()

    def on_run_failed(self, message: str) -> None:
        """Ignore the report: GDB has no process here."""

    def on_unreported_stop(self) -> None:
        """Ignore the report: GDB has no process here."""

    def on_partly_stopped(self, thread: str) -> None:
        """Ignore the report: GDB has no process here."""

    def on_notice(self, name: str, payload: dict[str, Any]) -> None:
        """Take a change of settings, threads, libraries."""
        if name == "thread-group-exited":
            self.is_unloaded = True
        self.stacks.on_notice(name, payload)
        self.stops.values.on_notice(name, payload)

    def on_output(self, text: str) -> None:
        """Take output that belongs to no command."""

    def on_end(self, why: str) -> None:
        """Take the end of GDB; the next operation starts another one."""
