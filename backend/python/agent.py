"""The code that PGDB runs in a Python rank, for breakpoints at Python code and for steps.

It runs in the interpreter of the rank, which may be Python 3.8, and imports nothing of PGDB's. PGDB
and the agent share a folder with two files. ``commands`` holds all that PGDB wants, ``report`` what
the agent knows; both are literals of Python.

At a hit the agent calls getpriority(2) with arguments that the kernel refuses. GDB has breakpoints
at that function which look at the arguments. So nothing happens when GDB is gone, and the agent
then removes itself. It also looks for its debugger after garbage collections, and where it is a
trace function, after some calls: so it goes from a rank that never comes to a breakpoint, and from
a child that the rank has forked.

Python 3.12 and later call the agent only at the lines that have a breakpoint, by
:mod:`sys.monitoring`. Before, and for steps, the agent is a trace function.
"""

# PGDB's own interpreter compiles this module, too; that of the rank may be older.
from __future__ import annotations

import gc
import os
import sys
from _thread import get_ident
from time import monotonic
from typing import Any

from pgdb.backend.python.agent_hooks import Hooks
from pgdb.backend.python.agent_points import (
    NAME,
    PAGE,
    STEP,
    UNCAUGHT,
    Point,
    Step,
    begins,
    def_line,
    exception_text,
    frames_of,
    is_ours,
    users_frame,
)

_call = os.getpriority
CHECK_S = 0.5
"""Least time between two looks at whether the debugger is there, in seconds."""
_CALLS = 1024
"""Number of calls, a power of two, after which a trace function looks."""


class Agent:
    """All breakpoints and steps of one process."""

    def __init__(self, folder: str, key: int) -> None:
        self.folder, self.key, self.pid = folder, key, os.getpid()
        self.generation = 0
        self.step_number = 0
        self.points: dict[int, Point] = {}
        self.armed: dict[int, tuple[Any, dict[int, list[Point]]]] = {}
        self.steps: dict[int, Step] = {}
        self.busy: set[int] = set()
        self.event: dict[str, Any] = {}
        self.reported: dict[str, Any] = {}
        """The event in the file, which holds until the next one."""
        self.hooks = Hooks(self.on_uncaught)
        self.tool: int | None = None
        self.before: dict[int, Any] = {}
        self.is_removed = False
        self.checked_s = monotonic()
        self.call_count = 0
        self.problem = ""
        self.monitoring: Any = getattr(sys, "monitoring", None)

    # -- the shared folder -----------------------------------------------------------------------

    def read(self) -> dict[str, Any] | None:
        """Return what PGDB wants; None if it wants nothing any more."""
        try:
            with open(f"{self.folder}/commands", encoding="utf-8") as file:
                wanted = eval(file.read(), {"__builtins__": {}})
        except (OSError, SyntaxError, ValueError):
            return None
        return wanted if isinstance(wanted, dict) and not wanted.get("ends") else None

    def write(self) -> None:
        """Report what is armed, and what has happened last."""
        if os.getpid() != self.pid:
            return  # the folder is that of the parent
        points = self.points.values()
        self.reported = self.event
        note = {
            "generation": self.generation,
            "places": {each.slot: each.place for each in points if each.place},
            "problems": {each.slot: each.problem for each in points if each.problem},
            "absences": {each.slot: each.absence() for each in points if not each.place},
            "problem": self.problem,
            "event": self.event,
        }
        try:
            with open(f"{self.folder}/report.new", "w", encoding="utf-8") as file:
                file.write(ascii(note))
            os.replace(f"{self.folder}/report.new", f"{self.folder}/report")
        except OSError:
            pass

    def synchronize(self, frame: Any) -> None:
        """Do what PGDB wants now, in the thread that executes *frame*."""
        wanted = self.read()
        if wanted is None or not self.is_traced():
            self.remove()
            return
        step = wanted.get("step")
        if step is None or step["number"] != self.step_number:
            self.end_steps()
        if wanted["generation"] != self.generation:
            self.generation = wanted["generation"]
            self.arm(wanted["points"])
            self.catch(bool(wanted.get("catch")))
            self.event = {}
            self.write()
        if step is not None and step["number"] != self.step_number and frame is not None:
            self.step_number = step["number"]
            self.begin(Step(step["kind"], step["count"], frame, step["depth"]))

    def wake(self) -> None:
        """Do what PGDB wants now, at its request."""
        self.synchronize(users_frame())

    def is_traced(self) -> bool:
        """Return whether a debugger has this process."""
        if os.getpid() != self.pid:
            return False
        try:
            with open("/proc/self/status", "rb") as file:
                return b"\nTracerPid:\t0\n" not in file.read()
        except OSError:
            return True

    def on_collection(self, phase: str, _: Any) -> None:
        """Look after a garbage collection, which most programs have every few moments."""
        if phase == "stop":
            self.check()

    def check(self) -> bool:
        """Remove the agent if its debugger is gone, or if this is a child of its process.

        The result is whether that was so.
        """
        now = monotonic()
        if now - self.checked_s < CHECK_S:
            return False
        self.checked_s = now
        if self.read() is not None and self.is_traced():
            return False
        self.remove()
        return True

    # -- breakpoints -----------------------------------------------------------------------------

    def arm(self, wanted: dict[int, dict[str, Any]]) -> None:
        """Replace the breakpoints by those that are wanted."""
        self.points = {slot: Point(slot, each) for slot, each in wanted.items()}
        self.disarm()
        if not self.points:
            self.untrace()
            return
        if self.monitoring is not None:
            self.watch()
        else:
            self.trace_all()
        frame: Any
        for frame in sys._current_frames().values():
            while frame is not None:
                if self.places_in(frame.f_code, frame.f_globals) and self.monitoring is None:
                    frame.f_trace = self.on_trace
                frame = frame.f_back
        for point in self.points.values():
            code = point.resolved() if point.function else None
            if code is not None:
                self.places_in(code, {})

    def places_in(self, code: Any, names: dict[str, Any]) -> dict[int, list[Point]]:
        """Return the breakpoints in a code object by their lines, -1 for its start; arm them."""
        known = self.armed.get(id(code))
        if known is not None:
            return known[1]
        found: dict[int, list[Point]] = {}
        if code.co_filename != NAME:
            module = str(names.get("__name__", ""))
            for point in list(self.points.values()):
                line = point.matches(code, module)
                if line:
                    found.setdefault(line, []).append(point)
                    shown = line if line > 0 else def_line(code)
                    name = getattr(code, "co_qualname", code.co_name)
                    point.place = (code.co_filename, shown, name)
                    self.write()
        # A reference to the code keeps its identity.
        self.armed[id(code)] = (code, found)
        if self.monitoring is not None and found and self.tool is not None:
            self.monitoring.set_local_events(self.tool, code, self.monitoring.events.LINE)
        return found

    def disarm(self) -> None:
        """Remove all breakpoints from the code."""
        if self.tool is not None:
            for code, found in self.armed.values():
                if found:
                    self.monitoring.set_local_events(self.tool, code, 0)
            self.monitoring.set_events(self.tool, 0)
            for event in self.callbacks():
                self.monitoring.register_callback(self.tool, event, None)
            self.monitoring.free_tool_id(self.tool)
            self.tool = None
        self.armed = {}

    def callbacks(self) -> dict[int, Any]:
        """Return the functions to call by their events."""
        events = self.monitoring.events
        return {
            events.PY_START: self.on_start,
            events.PY_RESUME: self.on_resume,
            events.LINE: self.on_line,
        }

    def watch(self) -> None:
        """Be called at each code object that begins, once, and at the lines with a breakpoint."""
        free = [each for each in (0, 3, 4, 2, 1, 5) if self.monitoring.get_tool(each) is None]
        if not free:
            self.problem = "all tool numbers of sys.monitoring are in use"
            return
        self.tool = free[0]
        self.monitoring.use_tool_id(self.tool, "pgdb")
        for event, function in self.callbacks().items():
            self.monitoring.register_callback(self.tool, event, function)
        events = self.monitoring.events
        self.monitoring.set_events(self.tool, events.PY_START | events.PY_RESUME)
        # A place that has returned DISABLE stays disabled, even for the next user of the number.
        self.monitoring.restart_events()

    def on_start(self, code: Any, _: int) -> Any:
        """Take the beginning of a function."""
        frame = sys._getframe(1)
        found = self.places_in(code, frame.f_globals).get(-1)
        if not found:
            return self.monitoring.DISABLE
        self.pass_points(found, frame)
        return None

    def on_resume(self, code: Any, _: int) -> Any:
        """Take a generator or coroutine that runs on."""
        self.places_in(code, sys._getframe(1).f_globals)
        return self.monitoring.DISABLE

    def on_line(self, code: Any, line: int) -> Any:
        """Take a line of a function with a breakpoint."""
        frame = sys._getframe(1)
        found = self.places_in(code, frame.f_globals).get(line)
        if not found:
            return self.monitoring.DISABLE
        self.pass_points(found, frame)
        return None

    def pass_points(self, points: list[Point], frame: Any, *, ends_step: bool = False) -> None:
        """Stop at those breakpoints whose conditions hold."""
        if get_ident() in self.busy:
            return
        slots = [STEP] if ends_step else []
        slots += [each.slot for each in points if self.holds(each, frame)]
        if slots:
            self.stop(slots, frame)
        else:
            self.check()

    def holds(self, point: Point, frame: Any) -> bool:
        """Return whether the condition of a breakpoint holds; it does where it fails."""
        if point.condition is None:
            return not point.problem
        names: dict[str, Any] = {**frame.f_locals}
        scope = frame.f_globals
        if any(hasattr(each, "co_code") for each in point.condition.co_consts):
            # The body of a comprehension sees global names only.
            scope = {**scope, **names}
        self.busy.add(get_ident())
        try:
            return bool(eval(point.condition, scope, names))
        except BaseException as error:  # noqa: BLE001 (the program must not see it)
            failed = exception_text(type(error), error)
            self.event = {"kind": "condition", "slot": point.slot, "text": failed}
            return True
        finally:
            self.busy.discard(get_ident())

    def stop(self, slots: list[int], frame: Any) -> None:
        """Let GDB stop here, and do what PGDB wants afterwards."""
        if self.event != self.reported or not all(each.place for each in self.points.values()):
            self.write()
        pages: dict[int, int] = {}
        for slot in slots:
            pages[slot // PAGE] = pages.get(slot // PAGE, 0) | 1 << slot % PAGE
        for page, bits in pages.items():
            try:
                _call(self.key + page, bits)
            except OSError:
                pass
        self.event = {}
        self.synchronize(frame)

    # -- steps, and breakpoints before Python 3.12 -----------------------------------------------

    def trace_all(self) -> None:
        """Be the trace function of this thread and of all that begin."""
        now = sys.gettrace()
        if now is not None and now != self.on_call:
            self.problem = "the program has a trace function of its own (sys.settrace)"
            return
        sys.settrace(self.on_call)
        threading = sys.modules.get("threading")
        if threading is not None:
            threading.settrace(self.on_call)

    def untrace(self) -> None:
        """Be no trace function any longer, but for the steps of threads.

        The others leave it at their next call: a thread can only change its own.
        """
        if sys.gettrace() == self.on_call and get_ident() not in self.steps:
            sys.settrace(None)
        frame: Any
        for ident, frame in sys._current_frames().items():
            while frame is not None and ident not in self.steps:
                if frame.f_trace == self.on_trace:
                    frame.f_trace = None
                frame = frame.f_back
        threading = sys.modules.get("threading")
        if threading is not None and getattr(threading, "_trace_hook", None) == self.on_call:
            threading.settrace(None)

    def is_idle(self) -> bool:
        """Return whether this thread is traced for nothing."""
        return self.is_removed or not (self.points or get_ident() in self.steps)

    def begin(self, step: Step) -> None:
        """Begin a step of this thread."""
        now = sys.gettrace()
        if now != self.on_call:
            self.before[get_ident()] = now
        self.steps[get_ident()] = step
        frame = step.start[0]
        while frame is not None:
            if frame.f_code.co_filename != NAME and not is_ours(frame):
                step.traced.append((frame, frame.f_trace))
                frame.f_trace = self.on_trace
            frame = frame.f_back
        sys.settrace(self.on_call)

    def end_steps(self) -> None:
        """End the step of this thread; those of others end at their next event."""
        others = {ident: each for ident, each in self.steps.items() if ident != get_ident()}
        step = self.steps.pop(get_ident(), None)
        self.steps = others
        if step is None:
            return
        for frame, before in step.traced:
            frame.f_trace = before
        if self.monitoring is not None or not self.points:
            sys.settrace(self.before.pop(get_ident(), None))

    def on_call(self, frame: Any, event: str, _: Any) -> Any:
        """Take a call of a function, as the trace function."""
        if self.is_idle():
            sys.settrace(None)
            return None
        self.call_count += 1
        if not self.call_count % _CALLS and self.check():
            return None
        if event != "call" or frame.f_code.co_filename == NAME or get_ident() in self.busy:
            return None
        step = self.steps.get(get_ident())
        found = self.places_in(frame.f_code, frame.f_globals) if self.monitoring is None else {}
        if found.get(-1) and begins(frame):
            self.pass_points(found[-1], frame)
        if found or (step is not None and step.enters(frame)):
            return self.on_trace
        return None

    def on_trace(self, frame: Any, event: str, arg: Any) -> Any:
        """Take a line, a return or an exception of a function, as its trace function."""
        if self.is_idle():
            sys.settrace(None)
            return None
        if get_ident() in self.busy:
            return self.on_trace
        found: list[Point] = []
        if event == "line" and self.monitoring is None:
            found = self.places_in(frame.f_code, frame.f_globals).get(frame.f_lineno, [])
        step = self.steps.get(get_ident())
        ends = step is not None and step.ends(frame, event, arg)
        if step is not None and ends:
            self.event = {"kind": step.kind, "text": step.result}
        if found or ends:
            self.pass_points(found, frame, ends_step=ends)
        return self.on_trace

    # -- exceptions ------------------------------------------------------------------------------

    def catch(self, is_wanted: bool) -> None:
        """Stop at uncaught exceptions, or no longer."""
        if is_wanted:
            self.hooks.install()
        else:
            self.hooks.remove()

    def on_uncaught(self, kind: Any, value: Any, traceback: Any, where: str) -> None:
        """Stop at an exception that nothing has caught."""
        if self.is_removed:
            return
        self.event = {
            "kind": "uncaught",
            "text": exception_text(kind, value),
            "where": where,
            "frames": frames_of(traceback),
        }
        self.stop([UNCAUGHT], None)

    # -- the end ---------------------------------------------------------------------------------

    def remove(self) -> None:
        """Remove all that the agent has put into the process."""
        if self.is_removed:
            return
        self.end_steps()
        self.points, self.steps = {}, {}
        self.disarm()
        self.catch(False)
        self.is_removed = True
        if self.on_collection in gc.callbacks:
            gc.callbacks.remove(self.on_collection)
        self.untrace()
        if getattr(sys, "_pgdb_agent", None) is self:
            del sys._pgdb_agent  # type: ignore[attr-defined]
        if os.getpid() == self.pid:
            clear(self.folder)


def clear(folder: str) -> None:
    """Delete the shared folder."""
    for name in ("commands", "report", "report.new", "script.py", ""):
        try:
            (os.unlink if name else os.rmdir)(f"{folder}/{name}")
        except OSError:
            pass


def install(folder: str, key: int) -> None:
    """Begin, in place of an agent of another session."""
    before: Any = getattr(sys, "_pgdb_agent", None)
    if before is not None:
        before.remove()
    agent = Agent(folder, key)
    if agent.read() is None or not agent.is_traced():
        clear(folder)
        return
    sys._pgdb_agent = agent  # type: ignore[attr-defined]
    gc.callbacks.append(agent.on_collection)
    agent.wake()
