"""Runs inside of GDB, in its Python (3.7 or later): reads symbols once, then forks GDBs.

The other end is :mod:`pgdb.backend.zygote.nursery`, which sends requests as JSON over the socket
whose descriptor stands in PGDB_NURSERY_CONTROL. :func:`main` does not return until there is a
fork: the event loop of the GDB that has read the symbols is never entered, so that nothing of it
is under way when it forks. A child returns, and goes on as any GDB that speaks MI, with the socket
that came with the request as its input and output.

What a child must not share with its siblings is replaced at the same descriptor: the pipes and
eventfds with which GDB wakes itself up, or siblings would take each other's wake-ups, and the open
files of BFD, which share their position with those of the parent.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import select
import socket
import stat
import sys
import time
from typing import Any

import gdb

CONTROL_VARIABLE = "PGDB_NURSERY_CONTROL"
MAX_REQUEST_BYTES = 1 << 20
_EFD_CLOEXEC, _EFD_NONBLOCK = 0o2000000, 0o4000
_LARGE_BYTES = 64 << 20
_LOADING = ("auto-load python-scripts", "auto-load gdb-scripts", "auto-load guile-scripts")
_SUFFIXES = ("-gdb.py", "-gdb.gdb")
_FAILED = 70
"""Status of a GDB that cannot go on."""
_PLAIN = (
    gdb.TYPE_CODE_INT,
    gdb.TYPE_CODE_FLT,
    gdb.TYPE_CODE_PTR,
    gdb.TYPE_CODE_BOOL,
    gdb.TYPE_CODE_CHAR,
    gdb.TYPE_CODE_ENUM,
)
_REHEARSED_FRAMES = 64
_MOST_THREADS = 4
_THREADS_END_S = 5.0
_REAP_S = 1.0
"""How often to look for ended children where the kernel has no descriptors for processes."""


uses_index_cache = False
"""Whether GDB has been told to use its index cache."""
objects_read: list[str] = []
"""Names of the shared objects whose symbols are here."""
scripts: dict[str, list[str]] = {}
"""Scripts to be run for each of them, by its real name."""
are_for_classes = True
"""Whether all that scripts bring is printers for classes, as the C++ library's."""
real_names: dict[str, str] = {}
"""Of what GDB has loaded, by the names that it has for it: every child has the same to ask."""


class Nursery:
    """The GDB that has read the symbols, and is the parent of all others."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._children: dict[
            int, int | None
        ] = {}  # process id -> descriptor of the process, or None

    def serve(self) -> None:
        """Serve requests; return in each child, and in the parent never."""
        while True:
            waiting = any(descriptor is None for descriptor in self._children.values())
            ready = self._poll.poll(_REAP_S * 1000 if waiting else None)
            self._reap()
            if not any(descriptor == self._control.fileno() for descriptor, _ in ready):
                continue
            message, descriptors = self._receive()
            if not message:
                os._exit(0)
            try:
                is_child = self._carry_out(json.loads(message.decode("utf-8")), descriptors)
            except Exception as error:  # noqa: BLE001  # whatever it is, the other end falls back
                kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
                self._tell({"error": f"{kind}{error}"})
                continue
            if is_child:
                return

    def _carry_out(self, request: dict[str, Any], descriptors: list[int]) -> bool:
        if "fork" in request:
            return self._fork(descriptors[0])
        answer: dict[str, Any] = {}
        if "settings" in request:
            for setting in request["settings"]:
                execute(setting["command"], must=setting["must"])
        elif "parameters" in request:
            for name, value in request["parameters"]:
                # {} stands for what the setting is; an empty name would be the working directory.
                value = value.replace("{}", str(gdb.parameter(name) or "")).strip(":")
                execute(f"set {name} {value}")
        elif "executable" in request:
            read_executable(request["executable"])
        elif "objects" in request:
            answer["failed"] = [name for name in request["objects"] if not read_object(name)]
        elif "sealed" in request:
            seal()
        elif "rehearse" in request:
            rehearse(request["rehearse"])
        else:
            raise ValueError(f"unknown request {sorted(request)}")
        self._tell(answer)
        return False

    def _fork(self, connection: int) -> bool:
        sys.stdout.flush()
        try:
            child = os.fork()
        except OSError as error:
            os.close(connection)
            self._tell({"error": f"fork: {error.strerror}"})
            return False
        if not child:
            try:
                self._become_gdb(connection)
            except BaseException as error:  # noqa: BLE001  # a child must not go on as the parent
                os.write(2, f"pgdb: a forked GDB cannot go on: {error!r}\n".encode())
                os._exit(_FAILED)
            return True
        os.close(connection)
        self._children[child] = None
        if hasattr(os, "pidfd_open"):
            try:
                descriptor = os.pidfd_open(child)
            except OSError:  # Linux before 5.3
                pass
            else:
                self._children[child] = descriptor
                self._poll.register(descriptor, select.POLLIN)
        self._tell({"pid": child})
        return False

    def _become_gdb(self, connection: int) -> None:
        os.setsid()
        for descriptor in [self._control.detach(), *self._children.values()]:
            if descriptor is not None:
                os.close(descriptor)
        os.dup2(connection, 0)
        os.dup2(connection, 1)
        os.close(connection)
        own_descriptors()
        # Not in the parent, which would run the scripts for itself when it rehearses.
        look_up_printer.enabled = True  # type: ignore[attr-defined]

    def _receive(self) -> tuple[bytes, list[int]]:
        size = array.array("i").itemsize
        message, control, _, _ = self._control.recvmsg(MAX_REQUEST_BYTES, socket.CMSG_SPACE(size))
        found: array.array[int] = array.array("i")
        for level, kind, data in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found.frombytes(data[: len(data) - len(data) % size])
        return message, list(found)

    def _tell(self, answer: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(answer).encode("utf-8"))
        except OSError:  # whoever asked has gone, which the next receive tells
            pass

    def _reap(self) -> None:
        while self._children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            descriptor = self._children.pop(child, None)
            if descriptor is not None:
                self._poll.unregister(descriptor)
                os.close(descriptor)
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            self._tell({"ended": child, "code": code})


def own_descriptors() -> None:
    """Replace what this process shares with its parent and siblings by its own."""
    pipes: dict[str, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor < 3:
            continue
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        except OSError:  # the one that the listing itself has used
            continue
        if target.startswith("pipe:"):
            pipes.setdefault(target, []).append((descriptor, flags))
        elif target == "anon_inode:[eventfd]":
            replace(descriptor, new_eventfd(flags))
        elif target in ("anon_inode:[eventpoll]", "anon_inode:[signalfd]"):
            raise OSError("GDB waits for events in a way that cannot be forked: " + target)
        elif stat.S_ISREG(os.fstat(descriptor).st_mode) and flags & os.O_ACCMODE == os.O_RDONLY:
            at = os.lseek(descriptor, 0, os.SEEK_CUR)
            own = os.open(f"/proc/self/fd/{name}", os.O_RDONLY | os.O_CLOEXEC)
            os.lseek(own, at, os.SEEK_SET)
            replace(descriptor, own)
    for ends in pipes.values():
        reading, writing = os.pipe()
        for descriptor, flags in ends:
            end = reading if flags & os.O_ACCMODE == os.O_RDONLY else writing
            fcntl.fcntl(end, fcntl.F_SETFL, flags)
            os.dup2(end, descriptor, False)
        os.close(reading)
        os.close(writing)


def replace(descriptor: int, own: int) -> None:
    """Have *descriptor* be what *own* was."""
    os.dup2(own, descriptor, False)
    os.close(own)


def new_eventfd(flags: int) -> int:
    """Return an eventfd; Python has had them since 3.10 only."""
    library = ctypes.CDLL(None, use_errno=True)
    own: int = library.eventfd(0, _EFD_CLOEXEC | (_EFD_NONBLOCK if flags & os.O_NONBLOCK else 0))
    if own < 0:
        raise OSError(ctypes.get_errno(), "eventfd")
    return own


def execute(command: str, *, must: bool = False) -> bool:
    """Run a GDB command; return whether it could be run."""
    try:
        gdb.execute(command, to_string=True)
    except gdb.error:
        if must:
            raise
        return False
    return True


def quoted(name: str) -> str:
    """Return a file name as GDB's commands take it.

    The program that is debugged has chosen it. What stands behind a line end would be a command of
    its own (tried with GDB 13.1).
    """
    if any(ord(each) < ord(" ") for each in name):
        raise ValueError(f"GDB cannot be told a name with control characters, as in {name!r}")
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def read_executable(path: str) -> None:
    """Read the program's symbols into the inferior that children will debug in."""
    global uses_index_cache
    try:
        uses_index_cache = bool(gdb.parameter("index-cache enabled"))
    except RuntimeError:  # GDB before 12 has no such setting
        pass
    # There is nothing else to compute on the host meanwhile: ranks are held still.
    execute(f"maint set worker-threads {min(_MOST_THREADS, os.cpu_count() or 1)}")
    gdb.execute("file " + quoted(path), to_string=True)
    gdb.execute("add-inferior", to_string=True)
    gdb.execute("inferior 2", to_string=True)


def read_object(name: str) -> bool:
    """Read the symbols of a shared object into the second inferior; return whether it could be.

    Children find them where they are in memory when they load an object of that name: "target:"
    keeps GDB from calling it by what its symbolic links lead to.
    """
    # What comes from the index cache is not as cheap for a child to share as what GDB has read
    # itself (GDB 13.1); it pays where reading takes long.
    try:
        is_large = os.path.getsize(name) >= _LARGE_BYTES
    except OSError:
        return False
    try:
        command = f"add-symbol-file {quoted('target:' + name)} -o 0"
    except ValueError:
        return False
    execute(f"set index-cache enabled {'on' if is_large and uses_index_cache else 'off'}")
    if not execute(command):
        return False
    objects_read.append(name)
    return True


def seal() -> None:
    """Make ready for children, which debug in the first inferior and load no scripts themselves.

    Looking for the scripts of each object takes a child as long as all the rest of attaching. So
    they are looked for here, once. What they import is, by running them, there for all children.
    """
    global are_for_classes
    for kind in _LOADING:
        execute(f"set {kind} off")
    for path in map(os.path.realpath, objects_read):
        scripts[path] = [each for each in scripts_of(path) if is_trusted(each)]
        for script in scripts[path]:
            run_script(script, NotLoaded(path))
    found = [os.path.basename(script) for each in scripts.values() for script in each]
    are_for_classes = all(name.startswith("libstdc++") for name in found)
    look_up_printer.enabled = False  # type: ignore[attr-defined]
    if found:
        gdb.pretty_printers.append(look_up_printer)
    gdb.execute("inferior 1", to_string=True)
    end_threads()


def end_threads() -> None:
    """Have GDB's worker threads end: a fork has none of them, and would wait for their work.

    :raises OSError: if there are threads after a while.
    """
    execute("maint set worker-threads 0")
    due = time.monotonic() + _THREADS_END_S
    while len(os.listdir("/proc/self/task")) > 1:
        if time.monotonic() > due:
            raise OSError("GDB's worker threads do not end")
        time.sleep(0.001)


def rehearse(pid: int) -> None:
    """Attach to a process of the program, look at its stack and let it go again.

    What GDB finds out only then, children find done: what the kernel's ptrace can do (GDB forks
    itself twice to try), how the functions on the stack and all before them in memory are unwound,
    and the debug information of these functions. The process is as it was before: nothing is
    inserted into one that is not let run.

    The event loop is not entered for that, see above: GDB waits for the process itself.
    """
    execute("maint set target-async off", must=True)
    try:
        execute(f"attach {pid}", must=True)
        execute(f"bt {_REHEARSED_FRAMES}")
        for objfile in gdb.objfiles():
            real_name(str(objfile.filename))
    finally:
        execute("detach")
        if gdb.selected_inferior().pid:
            # Nobody would ever let it go; the kernel does, when its tracer ends.
            os._exit(_FAILED)
        execute("maint set target-async on", must=True)


def real_name(name: str) -> str:
    """Return the name of a file without symbolic links."""
    found = real_names.get(name)
    if found is None:
        found = real_names[name] = os.path.realpath(name)
    return found


def scripts_of(path: str) -> list[str]:
    """Return the scripts that there are for an object, as GDB would find them by its name."""
    folders = ["", *directories("auto-load scripts-directory")]
    names = [f"{folder}{path}{suffix}" for folder in folders for suffix in _SUFFIXES]
    return [name for name in names if os.path.isfile(name)]


def is_trusted(script: str) -> bool:
    """Return whether GDB would run a script without being asked to."""
    path = os.path.realpath(script)
    if any(ord(each) < ord(" ") for each in path):
        return False
    safe = map(os.path.realpath, directories("auto-load safe-path"))
    return any(os.path.commonpath((path, each)) == each for each in safe)


def directories(setting: str) -> list[str]:
    """Return the absolute directories of one of GDB's search paths."""
    listed = str(gdb.parameter(setting) or "")
    for name, value in (
        ("$debugdir", gdb.parameter("debug-file-directory")),
        ("$datadir", gdb.parameter("data-directory")),
    ):
        listed = listed.replace(name, str(value))
    return [each for each in listed.split(os.pathsep) if each.startswith("/")]


def run_script(script: str, objfile: Any) -> None:
    """Run a script for an object, as GDB does when it loads it by itself: it is told which one."""
    told = gdb.current_objfile
    gdb.current_objfile = lambda: objfile
    try:
        execute(f"source {script}")
    finally:
        gdb.current_objfile = told


class NotLoaded:
    """What a script is told of its object where none is loaded yet: what it imports is wanted."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.pretty_printers: list[object] = []
        self.type_printers: list[object] = []
        self.frame_filters: dict[str, object] = {}


def run_scripts() -> None:
    """In a child that has attached: run the scripts of what it has loaded, once."""
    look_up_printer.enabled = False  # type: ignore[attr-defined]
    for objfile in gdb.objfiles() if any(scripts.values()) else ():
        for script in scripts.get(real_name(str(objfile.filename)), ()):
            run_script(script, objfile)


def look_up_printer(value: Any) -> Any:
    """Return a pretty-printer for a value, None if there is none: the first that may have one.

    Scripts bring printers for classes, and take a child as long to run as half of attaching; most
    children are only ever asked for stacks in which there are none.
    """
    kind = value.type.strip_typedefs() if are_for_classes else value.type
    if kind.code in _PLAIN:
        return None
    run_scripts()
    return gdb.default_visualizer(value)


def settle() -> None:
    """In a child that has attached: go on as a GDB that was never forked.

    The inferior that objects were read into is forgotten: what is shared is, by now, and with two
    inferiors, breakpoints would have locations in both. The frame that is selected stays so. It can
    be done again where an interrupt has ended it.
    """
    try:
        level = gdb.selected_frame().level()
    except gdb.error:  # it has ended
        level = 0
    if any(each.num == 2 for each in gdb.inferiors()):
        execute("remove-inferiors 2", must=True)
    if look_up_printer.enabled:  # type: ignore[attr-defined]
        run_scripts()
    if look_up_printer in gdb.pretty_printers:
        gdb.pretty_printers.remove(look_up_printer)
    for kind in _LOADING:
        execute(f"set {kind} on")
    if uses_index_cache:
        execute("set index-cache enabled on")
    if level:
        execute(f"frame {level}")


def main() -> None:
    """Serve, and return in each child."""
    control = int(os.environ.pop(CONTROL_VARIABLE))
    Nursery(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, control)).serve()
