"""The nursery's part inside GDB, in GDB's Python (3.7 or later): reads symbols once, then forks
GDBs.

The other end is :mod:`pgdb.backend.zygote.nursery`, which sends requests as JSON over the socket
whose descriptor is in PGDB_NURSERY_CONTROL. :func:`main` returns only in a child: the event loop
of the GDB that has read the symbols never runs, so that no event is in flight at a fork. A child
returns, and continues as any GDB that speaks MI, with the socket that came with the request as
its input and output.

A child replaces, at the same descriptors, the files that it must not share with its siblings:
the pipes and eventfds with which GDB wakes itself up, or siblings would receive each other's
wake-ups, and the open files of BFD, which share their position with those of the parent.
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
"""Exit status of a GDB that cannot continue."""
_PLAIN = (
    gdb.TYPE_CODE_INT,
    gdb.TYPE_CODE_FLT,
    gdb.TYPE_CODE_PTR,
    gdb.TYPE_CODE_BOOL,
    gdb.TYPE_CODE_CHAR,
    gdb.TYPE_CODE_ENUM,
)
_OF_GPUS = ("info cuda", "info agents", "info devices")
"""Commands of NVIDIA's, AMD's and Intel's GDB."""
_REHEARSED_FRAMES = 64
_MOST_THREADS = 4
_THREADS_END_S = 5.0
_REAP_S = 1.0
"""Interval of polling for ended children if the kernel has no process descriptors, in seconds."""


uses_index_cache = False
"""Whether this GDB uses its index cache."""
objects_read: list[str] = []
"""Names of the shared objects whose symbols have been read."""
scripts: dict[str, list[str]] = {}
"""Scripts to run for each object, by the object's real name."""
are_for_classes = True
"""Whether the scripts define only printers for classes, as those of the C++ library do."""
real_names: dict[str, str] = {}
"""Real names of loaded files by GDB's names, resolved once for all children."""


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
        """Serve requests; return in each child, never in the parent."""
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
            except Exception as error:  # noqa: BLE001  # the other end falls back on any error
                kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
                self._reply({"error": f"{kind}{error}"})
                continue
            if is_child:
                return

    def _carry_out(self, request: dict[str, Any], descriptors: list[int]) -> bool:
        if "fork" in request:
            return self._fork(descriptors[0])
        answer: dict[str, Any] = {}
        if "settings" in request:
            answer["debugs_gpus"] = debugs_gpus()
            for setting in request["settings"]:
                execute(setting["command"], must=setting["must"])
        elif "parameters" in request:
            for name, value in request["parameters"]:
                # {} is the present value; an empty name would mean the working directory.
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
        elif "rehearse_core" in request:
            rehearse_core(request["rehearse_core"])
        else:
            raise ValueError(f"unknown request {sorted(request)}")
        self._reply(answer)
        return False

    def _fork(self, connection: int) -> bool:
        sys.stdout.flush()
        try:
            child = os.fork()
        except OSError as error:
            os.close(connection)
            self._reply({"error": f"fork: {error.strerror}"})
            return False
        if not child:
            try:
                self._become_gdb(connection)
            except BaseException as error:  # noqa: BLE001  # a child must not continue as the parent
                os.write(2, f"pgdb: a forked GDB cannot continue: {error!r}\n".encode())
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
        self._reply({"pid": child})
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
        # Off in the parent, which would run the scripts during a rehearsal.
        look_up_printer.enabled = True  # type: ignore[attr-defined]

    def _receive(self) -> tuple[bytes, list[int]]:
        size = array.array("i").itemsize
        message, control, _, _ = self._control.recvmsg(MAX_REQUEST_BYTES, socket.CMSG_SPACE(size))
        found: array.array[int] = array.array("i")
        for level, kind, data in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found.frombytes(data[: len(data) - len(data) % size])
        return message, list(found)

    def _reply(self, answer: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(answer).encode("utf-8"))
        except OSError:  # the other end is gone; the next receive reports it
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
            self._reply({"ended": child, "code": code})


def own_descriptors() -> None:
    """Replace descriptors shared with the parent and siblings by private ones."""
    pipes: dict[str, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor < 3:
            continue
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        except OSError:  # the descriptor of the listing itself
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
    """Move the file of *own* to *descriptor*."""
    os.dup2(own, descriptor, False)
    os.close(own)


def new_eventfd(flags: int) -> int:
    """Return an eventfd; Python has them only since 3.10."""
    library = ctypes.CDLL(None, use_errno=True)
    own: int = library.eventfd(0, _EFD_CLOEXEC | (_EFD_NONBLOCK if flags & os.O_NONBLOCK else 0))
    if own < 0:
        raise OSError(ctypes.get_errno(), "eventfd")
    return own


def execute(command: str, *, must: bool = False) -> bool:
    """Run a GDB command; return whether it succeeded."""
    try:
        gdb.execute(command, to_string=True)
    except gdb.error:
        if must:
            raise
        return False
    return True


def quoted(name: str) -> str:
    """Return a file name quoted for GDB's commands.

    The debugged program has chosen the name. Text after a line end would be a command of its own
    (tried with GDB 13.1).
    """
    if any(ord(each) < ord(" ") for each in name):
        raise ValueError(f"GDB accepts no name with control characters, as in {name!r}")
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def read_executable(path: str) -> None:
    """Read the program's symbols into the inferior in which children will debug."""
    global uses_index_cache
    try:
        uses_index_cache = bool(gdb.parameter("index-cache enabled"))
    except RuntimeError:  # GDB before 12 has no such setting
        pass
    # The cores of the host are free meanwhile: ranks are suspended.
    execute(f"maint set worker-threads {min(_MOST_THREADS, os.cpu_count() or 1)}")
    gdb.execute("file " + quoted(path), to_string=True)
    gdb.execute("add-inferior", to_string=True)
    gdb.execute("inferior 2", to_string=True)


def read_object(name: str) -> bool:
    """Read the symbols of a shared object into the second inferior; return whether that succeeded.

    A child that loads an object of that name reuses the symbols in memory: "target:" keeps GDB from
    resolving the symbolic links of the name.
    """
    # Children share symbols from the index cache less cheaply than symbols that GDB has read itself
    # (GDB 13.1); the cache pays only for objects that take long to read.
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
    """Prepare for children, which debug in the first inferior and load no scripts themselves.

    The search for each object's scripts takes a child as long as all the rest of attaching. So the
    search is done here, once. The scripts also run once here, so that all children have their
    imports.
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


def debugs_gpus() -> bool:
    """Return whether this GDB has commands for GPUs, as those of the vendors have.

    Such a GDB talks to the driver of the GPU in a process that it attaches to.
    """
    return any(
        command in gdb.execute(f"complete {command}", to_string=True).splitlines()
        for command in _OF_GPUS
    )


def end_threads() -> None:
    """End GDB's worker threads: a fork has none of them, and would wait for their work.

    :raises OSError: if threads remain after some seconds.
    """
    execute("maint set worker-threads 0")
    due = time.monotonic() + _THREADS_END_S
    while len(os.listdir("/proc/self/task")) > 1:
        if time.monotonic() > due:
            raise OSError("GDB's worker threads do not end")
        time.sleep(0.001)  # only Linux 6.9 and later can report the end of a thread (PIDFD_THREAD)


def rehearse(pid: int) -> None:
    """Attach to a process of the program, read its stack and detach.

    Children inherit what GDB learns only then: the abilities of the kernel's ptrace (GDB forks
    itself twice to try), the unwinding of the functions on the stack and of all before them in
    memory, and the debug information of these functions. The process is unchanged afterwards: GDB
    inserts nothing into a process that it does not resume.

    The event loop is not entered for that (see above): GDB waits for the process itself.
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
            # Nothing else would release the process; the kernel does when its tracer ends.
            os._exit(_FAILED)
        execute("maint set target-async on", must=True)


def rehearse_core(path: str) -> None:
    """Read a core file of the program, and its stack, and forget the core again.

    Children inherit what GDB learns only then, as by :func:`rehearse`.
    """
    try:
        execute(f"core-file {path}", must=True)
        execute(f"bt {_REHEARSED_FRAMES}")
        for objfile in gdb.objfiles():
            real_name(str(objfile.filename))
    finally:
        execute("core-file")


def real_name(name: str) -> str:
    """Return the name of a file without symbolic links."""
    found = real_names.get(name)
    if found is None:
        found = real_names[name] = os.path.realpath(name)
    return found


def scripts_of(path: str) -> list[str]:
    """Return the existing scripts for an object, as GDB would find them by its name."""
    folders = ["", *directories("auto-load scripts-directory")]
    names = [f"{folder}{path}{suffix}" for folder in folders for suffix in _SUFFIXES]
    return [name for name in names if os.path.isfile(name)]


def is_trusted(script: str) -> bool:
    """Return whether GDB would run a script automatically."""
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
    """Run a script for an object as GDB's auto-load does, with the object as the current one."""
    before = gdb.current_objfile
    gdb.current_objfile = lambda: objfile
    try:
        execute(f"source {script}")
    finally:
        gdb.current_objfile = before


class NotLoaded:
    """The current object of a script that runs only for its imports, while no object is loaded."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.pretty_printers: list[object] = []
        self.type_printers: list[object] = []
        self.frame_filters: dict[str, object] = {}


def run_scripts() -> None:
    """Run the scripts of all loaded objects once, in a child that has attached."""
    look_up_printer.enabled = False  # type: ignore[attr-defined]
    for objfile in gdb.objfiles() if any(scripts.values()) else ():
        for script in scripts.get(real_name(str(objfile.filename)), ()):
            run_script(script, objfile)


def look_up_printer(value: Any) -> Any:
    """Return a pretty-printer for a value, None if there is none; run the scripts first if need be.

    Scripts define printers for classes, and take a child as long to run as half of attaching;
    most children only print stacks without values of classes.
    """
    kind = value.type.strip_typedefs() if are_for_classes else value.type
    if kind.code in _PLAIN:
        return None
    run_scripts()
    return gdb.default_visualizer(value)


def settle() -> None:
    """Turn a child that has attached into a GDB like any other.

    The inferior that objects were read into is removed: its symbols are shared by now, and with two
    inferiors, breakpoints would have locations in both. The selected frame stays selected. The call
    can be repeated after an interrupt has ended it.
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
    """Serve requests; return in each child."""
    control = int(os.environ.pop(CONTROL_VARIABLE))
    Nursery(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, control)).serve()
