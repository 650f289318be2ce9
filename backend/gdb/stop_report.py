"""Stops of one rank as records: the reason, and the frame that the user sees."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from pgdb.backend.gdb import decode, own_signals
from pgdb.backend.gdb.attach import Acquired
from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.death_points import Point
from pgdb.backend.gdb.exit_frames import calling_frame
from pgdb.backend.gdb.fault_causes import EXPLAINED, FAULTS, FaultCauses
from pgdb.backend.gdb.gpu_focus import GpuFocus
from pgdb.backend.gdb.gpu_words import is_on_gpu, place_on_gpu
from pgdb.backend.gdb.instructions import NextInstruction
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.python_agent import Hit
from pgdb.backend.gdb.python_stacks import on_one_line
from pgdb.backend.gdb.sanitizer_reports import users_frame
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.settings import INTERRUPT
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.gdb.stop_frames import called_back, called_by, dying_before, dying_in
from pgdb.backend.gdb.stop_values import StopValues
from pgdb.backend.gdb.stop_words import TEMPORARY, stop_words
from pgdb.errors import GdbError
from pgdb.patterns import pattern
from pgdb.records import ARROW, Frame, Stop, StopReason

_FRAMES_FOR_STOP = 64
_SIGNALS_OF_ATTACHING = ("0", "SIGSTOP", "SIGTRAP")
_AT_A_PLACE: tuple[StopReason, ...] = (
    "breakpoint-hit",
    "watchpoint-trigger",
    "watchpoint-scope",
    "end-stepping-range",
    "function-finished",
    "location-reached",
    "exec",
)
"""Reasons of stops at which the innermost frame stays selected."""
_REASONS_OF_RUNS: dict[str, StopReason] = {
    "step": "end-stepping-range",
    "next": "end-stepping-range",
    "stepi": "end-stepping-range",
    "nexti": "end-stepping-range",
    "finish": "function-finished",
    "until": "location-reached",
    "advance": "location-reached",
}
"""Reasons of stops for which GDB has none, by the command that has set the rank running."""
_CALLED_FIRST = "has not returned yet; the handler of a signal was called first"
_NOT_RECORDED = "Process record"
# "Process record does not support instruction 0x62 at address 0x7f2bf5284ac2."
_UNKNOWN_INSTRUCTION = pattern(r"does not support (instruction 0x[0-9a-f]+)")
_CONDITION_FAILED = "Error in testing "
"""First words of GDB's message that a rank is stopped because a condition failed."""
# GDB deletes the watchpoint, stops without a reason, and counts a hit (cuda-gdb 13.0).
_WATCH_FAILED = pattern(r"Error evaluating expression for watchpoint (\d+) (.*)")


DisplayText = Callable[[str, int], Awaitable[str]]


class StopReports:
    """Maker of the records of one rank's stops."""

    def __init__(self, gdb: GdbSession, stacks: Stacks, breakpoints: Breakpoints) -> None:
        self._gdb = gdb
        self.values = StopValues(gdb, stacks.arguments, lambda: breakpoints.has_watchpoint)
        self._stacks = stacks
        self._faults = FaultCauses(gdb, stacks.image_of)
        self._breakpoints = breakpoints
        self.shows_displays = False
        """Whether GDB shows values at each stop (``display``)."""
        self.display_text: DisplayText | None = None
        """Function that returns what GDB has printed of displays as the user knows them."""
        self._instruction = NextInstruction(gdb)
        self._runs_before = -1  # the runs before the last command that sets the rank running
        self.gpu = GpuFocus(gdb)
        """The part of a GPU that GDB looks at."""
        self._death: Point | None = None
        self._report = ""
        self._python: Hit | None = None
        self._word = ""
        self._signalled_thread = ""  # it got the signal, and another one is selected

    @property
    def may_print(self) -> bool:
        """Whether commands of breakpoints, or scripts of the user's, can print at a stop."""
        return self.values.is_shown_unasked

    def take_command(self, command: str) -> None:
        """Note a command of the user's: ``display`` adds to all later stops."""
        self.shows_displays |= command.startswith(("display ", "display/"))
        self._instruction.take_command(command)

    def take_run(self, command: str) -> None:
        """Note the first word of the command that sets the rank running."""
        self._word = command.partition(" ")[0]
        self._runs_before = self._gdb.runs

    async def prepare(self, command: str) -> None:
        """Prepare GDB for a run of the rank, until :meth:`restore`.

        :raises GdbError: if GDB ends.
        """
        if self._word == "signal" and self._signalled_thread:
            # GDB replaces the signal of the selected thread only.
            await self._gdb.send(f"-thread-select {self._signalled_thread}")
        self._signalled_thread = ""
        await self.values.raise_for(command)
        self._breakpoints.pass_over()

    def restore(self) -> None:
        """Restore what a run has changed in GDB: the rank has stopped, or has not run."""
        self.values.restore()
        self._breakpoints.passed.enable()

    def stop_of(self, payload: dict[str, Any], run: int, pid: int) -> Stop:
        """Return the stop of a ``*stopped`` of the process *pid* that ends *run*."""
        stop = decode.stop(payload, run=run)
        is_at_place = stop.reason in _AT_A_PLACE
        self._stacks.python.keeps_innermost = is_at_place or stop.signal in FAULTS
        self._stacks.python.latest = None
        self._python = self._breakpoints.python.at(payload)
        self._stacks.python.take_hit(self._python)
        self.gpu.see(payload)
        self._stacks.arguments.see(stop.frame)
        if (frame := stop.frame) is not None and frame.arguments:
            shown = self._stacks.arguments.cut(frame.arguments)
            if shown is not frame.arguments:
                stop = replace(stop, frame=replace(frame, arguments=shown))
        named = self._stacks.named(pid, stop.frame, payload.get("frame"))
        if named is not stop.frame:
            stop = replace(stop, frame=named)
        stop = self._with_words(self._with_values(stop, payload), payload)
        log = self._gdb.take_run_log()
        if (begin := log.find(_CONDITION_FAILED)) >= 0:
            why = log[begin:]
            stop = replace(stop, detail=_joined(why, stop.detail), values=())
        elif not payload.get("reason") and (failed := _WATCH_FAILED.search(log)) is not None:
            number = self._breakpoints.number_of(int(failed[1]))
            why = f"watchpoint {number} is deleted: {failed[2]}"
            detail = _joined(why, stop.detail)
            stop = replace(stop, reason="other", breakpoint=0, hit="", location=0, detail=detail)
            stop = replace(stop, breakpoints=())
        if stop.signal == "0" and _NOT_RECORDED in log:
            stop = replace(stop, reason="other", signal="", meaning=_about_record(log))
        elif stop.reason == "signal-received" and stop.signal in (INTERRUPT.name, "0"):
            stop = as_interrupt(stop)
        self._death, self._stacks.death_code = self._breakpoints.deaths.at(payload), None
        self._report = self._breakpoints.reports.at(payload)
        if self._report:
            stop = replace(stop, breakpoint=0, meaning="", hit="", breakpoints=())
            return replace(stop, reason="sanitizer-report")
        if self._python is not None:
            return self._at_python(stop, self._python, pid)
        if self._death is None:
            return stop
        number = self._breakpoints.deaths.number
        all_hit = self._breakpoints.all_hit(number)
        return replace(stop, reason="death", breakpoint=number, meaning="", breakpoints=all_hit)

    def _at_python(self, stop: Stop, hit: Hit, pid: int) -> Stop:
        """Return the stop at which the agent in the rank reports a hit."""
        number = self._breakpoints.python.number_of(hit.slot)
        match hit.kind:
            case "":
                return stop
            case "condition":
                why = f"Error in testing condition for breakpoint {number}: {hit.text}"
                return replace(stop, detail=why, values=())
            case "uncaught":
                # The message may name the rank: it must not part ranks with one exception.
                kind, _, message = hit.text.partition(": ")
                said = f"{kind}: {on_one_line(message)}" if message else ""
                event = f"uncaught {kind} {hit.where}".rstrip()
                return replace(stop, hit="Catchpoint", event=event, detail=said, values=())
        reason = _REASONS_OF_RUNS.get(self._word, "end-stepping-range")
        detail = ""
        if hit.kind == "finish" and hit.text:
            if hit.text.startswith("! "):
                detail = f"raised {hit.text[2:]}"
            else:
                detail = f"value returned: {self._stacks.python.value_of(pid, hit.text)}"
        stop = replace(stop, reason=reason, detail=detail, event="")
        return replace(stop, breakpoint=0, hit="", breakpoints=())

    def _with_values(self, stop: Stop, payload: dict[str, Any]) -> Stop:
        """Return a stop with its values as the user's limits show them."""
        text, values = self.values.take(payload)
        if not text:
            return stop
        before, _, behind = stop.detail.partition(f": {ARROW.join(decode.stop_values(payload))}")
        further = "".join(f"; {each}" for each in decode.further_changes(payload))
        detail = f"{before}: {text}{further}{behind}"
        return replace(stop, detail=detail, values=() if further or behind else values)

    def _with_words(self, stop: Stop, payload: dict[str, Any]) -> Stop:
        """Return the stop with what GDB has printed about it, and with a reason if it has none."""
        words = stop_words(self._gdb.announced.take(), payload, self._gdb.first_thread)
        number, reason, meaning, hit = stop.breakpoint, stop.reason, stop.meaning, words.hit
        if not payload.get("reason"):
            # A breakpoint whose commands begin with "silent" stops without a reason or a frame. A
            # caught signal, and "finish" out of a function without debug information, have a frame.
            own = words.number or (0 if "frame" in payload else self._breakpoints.first_hit)
            number = self._breakpoints.number_of(own)
            hit = hit or TEMPORARY * self._breakpoints.is_temporary(number)
            reason = "breakpoint-hit" if own else _REASONS_OF_RUNS.get(self._word, "other")
        elif words.hit and reason == "other":
            # Catchpoints for system calls, forks and libraries have reasons of their own.
            reason, meaning = "breakpoint-hit", ""
        return replace(
            stop,
            reason=reason,
            breakpoint=number,
            meaning=meaning,
            hit=hit if number else "",
            event=words.event if number or is_on_gpu(payload) else "",
            thread=words.thread,
            thread_name=words.thread_name,
            location=words.location if number else 0,
            breakpoints=self._breakpoints.all_hit(number),
        )

    def why_refused(self, message: str) -> str:
        """Return GDB's reason for not setting the rank running."""
        log = self._gdb.take_run_log().removeprefix("Warning: ")
        return _about_record(log) if _NOT_RECORDED in log + message else log or message

    def is_complete(self, stop: Stop, payload: dict[str, Any]) -> bool:
        """Return whether :meth:`describe` would add nothing."""
        is_elsewhere = self.is_elsewhere(stop, payload)
        is_explained = stop.reason in ("death", "sanitizer-report") or self._python is not None
        if is_elsewhere or is_explained or self.shows_displays or _looks_outwards(stop):
            return False
        if stop.signal in EXPLAINED or _may_end(stop):
            return False
        if stop.reason == "interrupted" and self.gpu.is_wanted(payload):
            return False
        if self.values.needs_look(stop.values) or self._shows_instruction(stop):
            return False
        if _may_be_called(stop):
            return False
        return stop.frame is not None and not self._needs_offset(stop)

    def _shows_instruction(self, stop: Stop) -> bool:
        """Return whether to show the next instruction at a stop.

        GDB announces a stop for ``stepi 0`` as well, and prints the place in answer to it. It
        enters an inlined function by ``step`` without a run, and prints nothing then.
        """
        if not self._instruction.is_wanted(stop, self._word):
            return False
        return self._gdb.runs > self._runs_before or self._word == "step"

    def _needs_offset(self, stop: Stop) -> bool:
        """Return whether only the offset in the function shows that a step has moved."""
        if stop.reason != "end-stepping-range" or stop.frame is None:
            return False
        return not stop.frame.line or self._word in ("stepi", "nexti")

    def is_elsewhere(self, stop: Stop, payload: dict[str, Any]) -> bool:
        """Return whether another thread than the first one took our interrupt, or a signal that may
        be for the whole process.

        The kernel may give such a signal to any thread, such as one of MPI's own. The first thread
        shows where the program is.
        """
        first = self._gdb.first_thread
        is_any = stop.reason == "interrupted" or _may_end(stop)
        return is_any and payload.get("thread-id", first) != first

    async def describe(self, stop: Stop, pid: int, *, is_elsewhere: bool) -> tuple[Stop, str]:
        """Return a stop with its frame, which is selected then, and the text of the displays.

        :raises GdbError: if GDB ends.
        """
        if stop.reason == "interrupted" and not stop.detail and (place := await self.gpu.take()):
            # Equal to a stop in the kernel itself; the thread of the host is not selected.
            stop, is_elsewhere = replace(stop, frame=None, detail=place), False
        frame, inside, dying = stop.frame, "", ""
        point = self._death if stop.reason == "death" else None
        called = await self._call_of(point) if point is not None else ""
        sent = await own_signals.sent(self._gdb) if _may_end(stop) else None
        if is_elsewhere and _may_end(stop):
            is_elsewhere = sent is not None and sent.is_to_process
            if is_elsewhere:
                self._signalled_thread = stop.thread
                stop = replace(stop, thread="", thread_name="")
        if is_elsewhere:
            await self._gdb.send(f"-thread-select {self._gdb.first_thread}")
        if stop.reason == "sanitizer-report":
            stop, frame = await self._reported(stop, pid)
        elif self._python is not None:
            frame = next(iter(await self._stacks.folded(pid, _FRAMES_FOR_STOP)), frame)
            await self._select(frame)
        elif is_elsewhere or _looks_outwards(stop):
            frames = await self._stacks.folded(pid, _FRAMES_FOR_STOP)
            frame, inside = decode.place(frames)
            if point is None:
                dying = dying_before(frame, frames)
            else:
                if not inside and len(frames) > 1:
                    # No caller has a source: the function that ends the process is not the place.
                    frame, inside = frames[calling_frame(frames)], frames[0].function
                dying = dying_in(frames, frame, inside, called)
            if stop.reason in ("death", "signal-received") and (
                words := called_back(frame, frames)
            ):
                stop = replace(stop, detail=_joined(words, stop.detail))
            if stop.signal in FAULTS and stop.frame is not None and frame is not None:
                words = called_by(frame, inside, stop.frame.function) if frame.level else ""
                stop = replace(stop, detail="; ".join(filter(None, (stop.detail, words))))
                frame, inside = stop.frame, ""
            await self._select(frame)
        elif frame is None:
            frame = next(iter(await self._stacks.innermost(pid)), None)
        elif _may_be_called(stop):
            # No function returns to the first instruction of another one.
            if await self._stacks.innermost_offset(pid) == "+0":
                stop = replace(stop, reason="end-stepping-range", detail=_CALLED_FIRST)
        elif self._needs_offset(stop):
            offset = await self._stacks.innermost_offset(pid)
            frame = replace(frame, offset=offset.removesuffix("+0"))
        if stop.signal in EXPLAINED and (cause := await self._faults.of(stop.signal, pid)):
            stop = replace(stop, detail=_joined(f"cause: {cause}", stop.detail))
        if (
            sent is not None
            and await sent.ends_itself(stop.signal, pid)
            and await own_signals.is_passed(self._gdb, stop.signal)
        ):
            deaths = self._breakpoints.deaths
            number = deaths.number if deaths.is_active else 0
            stop = replace(stop, reason="death", breakpoint=number, meaning="")
            dying = f"{stop.signal} that the rank has sent to itself"
        if self.values.needs_look(stop.values):
            stop = await self.values.corrected(stop)
            stop = replace(stop, values=await self.values.look(stop.values, pid))
        text = ""
        if self.shows_displays and self.display_text is not None:
            shown = (await self._gdb.send(console("display"))).text
            text = (await self.display_text(shown, pid)).rstrip("\n")
        stop = replace(stop, frame=frame, inside=inside, dying=dying)
        text = text if text.strip() else ""
        if self._shows_instruction(stop) and "=> " not in text:
            text = "\n".join(filter(None, (await self._instruction.text(), text)))
        return stop, text

    async def _reported(self, stop: Stop, pid: int) -> tuple[Stop, Frame | None]:
        """Return a stop with the sanitizer's report, and the frame of the error, which is selected
        then."""
        frames = await self._stacks.folded(pid, _FRAMES_FOR_STOP)
        if not frames:
            # GDB reads the runtime's debug information for the first stack. An interrupt of the
            # rank can interrupt that.
            frames = await self._stacks.folded(pid, _FRAMES_FOR_STOP)
        found = await self._breakpoints.reports.read(self._report, pid, frames)
        frame = users_frame(frames) or stop.frame
        await self._select(frame)
        detail = f"runtime error: {found.message}" if found.message else ""
        return replace(stop, event=found.kind, detail=detail, values=()), frame

    async def _call_of(self, point: Point) -> str:
        """Return the call that the rank is about to make, with its status or error code."""
        value = None
        if register := point.register:
            text = str((await self._gdb.send(console(f"output/d {register}"))).text).strip()
            value = int(text) if text.lstrip("-").isdecimal() else None
        self._stacks.death_code = value
        return point.words(value)

    async def after_gdb_interrupt(
        self, stop: Stop, payload: dict[str, Any], *, stays_stopped: Callable[[], bool]
    ) -> Stop | None:
        """Return a stop at our SIGINT; None for one in a function that GDB has gone back from."""
        thread = payload.get("thread-id", self._gdb.first_thread)
        frame = payload.get("frame", {})
        with contextlib.suppress(GdbError):
            # Not the selected frame: a command of the user's own may have continued with "up".
            now = await self._gdb.send(f"-stack-info-frame --thread {thread} --frame 0")
            is_there = decode.addresses([now.payload.get("frame", {})]) == decode.addresses([frame])
            # GDB goes back from a condition's function, and mostly stops at the breakpoint itself.
            if is_there:
                return stop
            if stays_stopped():
                return replace(stop, frame=None)
        return None

    async def first(self, acquired: Acquired, run: int, notes: list[str]) -> Stop:
        """Return the first stop of a rank.

        :raises GdbError: if GDB ends.
        """
        stop, reason = decode.stop(acquired.payload, run=run), acquired.reason
        self.gpu.see(acquired.payload)
        # A signal of the rank's own can stop it on the way. SIGTRAP is how the kernel reports to a
        # debugger that has just attached that the rank executes another program.
        by_signal = stop.reason == "signal-received" and stop.signal not in _SIGNALS_OF_ATTACHING
        frames = await self._stacks.folded(acquired.pid, _FRAMES_FOR_STOP)
        frame, inside = decode.place(frames)
        await self._select(frame)
        if self._stacks.python.advice:
            notes = [*notes, self._stacks.python.advice]
        if reason == "entry":
            frame, inside = (frames[0] if frames else None), ""
        return Stop(
            reason="signal-received" if by_signal else reason,
            run=run,
            signal=stop.signal if by_signal else "",
            meaning=stop.meaning if by_signal else "",
            frame=frame or stop.frame,
            inside=inside,
            detail="; ".join(filter(None, (*notes, place_on_gpu(acquired.payload)))),
            dying=dying_before(frame, frames),
            program=acquired.program,
            was_stopped=acquired.was_stopped,
        )

    async def _select(self, frame: Frame | None) -> None:
        """Select the frame that the stop is reported with, so that commands look at that frame."""
        self._stacks.arguments.see(frame)
        if frame is not None and self._stacks.python.latest is not None:
            await self._stacks.python.select_latest(frame)
        elif frame is not None and frame.level:
            await self._gdb.ask_together(console(f"frame {frame.level}"))[0]


def _about_record(log: str) -> str:
    """Return the reason why GDB cannot record further, and the way out."""
    instructions = _UNKNOWN_INSTRUCTION.findall(log)
    what = f": it does not know {instructions[-1]}" if instructions else ""
    return (
        f"GDB cannot record the execution further{what}; 'record stop' lets the rank run on, "
        "without the record"
    )


def _joined(why: str, detail: str) -> str:
    return "; ".join(filter(None, (why, detail)))


def _may_end(stop: Stop) -> bool:
    """Return whether the rank stopped at a signal that ends a process and that others send."""
    return stop.reason == "signal-received" and stop.signal in own_signals.ENDING


def as_interrupt(stop: Stop) -> Stop:
    """Return a stop at a signal of ours as an interrupt."""
    return replace(stop, reason="interrupted", signal="", meaning="")


def _may_be_called(stop: Stop) -> bool:
    """Return whether the end of ``finish`` may be a call of a signal handler.

    GDB 13.1 steps out of an inlined function, and reports a handler that it gets into as the end.
    Such a stop has no returned value.
    """
    is_end = stop.reason == "function-finished" and not stop.detail
    return is_end and stop.frame is not None


def _looks_outwards(stop: Stop) -> bool:
    """Return whether the innermost frame with a source is looked up.

    A stop that the rank was not led to is mostly inside a library, which its user does not know:
    that frame is selected in place of the innermost one, or only named after a fault. At a
    breakpoint and after a step the user asked for just this place.
    """
    return stop.reason not in _AT_A_PLACE and not _has_source(stop.frame)


def _has_source(frame: Frame | None) -> bool:
    return frame is not None and bool(frame.fullname) and decode.is_readable(frame.fullname)
