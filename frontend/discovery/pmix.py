"""The ranks of prterun, the launcher of Open MPI 5, through PMIx's tool interface.

prterun has no MPIR_proctable. It answers tools that connect to it on its own host, and knows the
ranks of all hosts. The PMIx library starts threads, writes to standard error and waits without a
deadline, so a process of its own loads it: this module as a program.

prterun counts every tool as a job of its own and does not notice that a tool has left
(openpmix/prrte#2591). With Open MPI 5.0.11 one such job delays its end by half a second; two keep
it from ending at all. So all connections of PGDB use one name: while that name is in use, prterun
refuses further connections and counts no second job (tried: 1 to 10 connections, the end came
within 1.1 s). But for each refusal prterun writes two lines to the job's standard error, and
another tool beside ours still does harm: use PMIx only if there is no other way.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import glob
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TypeAlias

import msgspec

from pgdb.errors import DiscoveryError
from pgdb.jobs import procfs
from pgdb.jobs.placement import absolute_parts
from pgdb.proctable import RankProcess

_Row: TypeAlias = tuple[int, str, int, str]

# The library needs from the launcher's environment: the place of its files for tools (below its
# temporary directory), the place of a moved installation such as a wheel, and its configuration.
# Nothing else is passed on, since a rank's PMIX_NAMESPACE and the like would make it a client of
# that job.
_TEMPORARY = ("TMPDIR", "TMP", "TEMP", "PMIX_SYSTEM_TMPDIR", "PMIX_SERVER_TMPDIR")
_WANTED = frozenset({*_TEMPORARY, "LD_LIBRARY_PATH", "OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX"})
_WANTED_PREFIX = "PMIX_MCA_"
_ALARM_S = 10
"""Time after its deadline when the asking process ends by itself, in seconds."""
# After an accepted connection, prterun refuses one or two of the same name and then accepts the
# next (Open MPI 5.0.11, in every of 12 trials).
_ATTEMPTS = 5
_FORGET_S = 1.0


def query_job(launcher_pid: int, timeout_s: float = 10.0) -> tuple[RankProcess, ...]:
    """Return the ranks on all hosts of the job that launcher *launcher_pid* of this host runs.

    They are in order, without those that have ended. A pid is 0 if the launcher does not know it.
    Jobs that the job started with MPI_Comm_spawn are omitted.

    :raises DiscoveryError: if the launcher does not answer within *timeout_s* seconds, is not the
        user's, or there is no PMIx library.
    """
    name = _describe(launcher_pid)
    libraries = _libraries(launcher_pid)
    if not libraries:
        raise DiscoveryError(
            f"{name} was not asked through PMIx: it has no libpmix loaded and this host has none"
        )
    deadline = time.monotonic() + timeout_s
    reason = ""
    for left in reversed(range(_ATTEMPTS)):
        # Some connections were never answered, and the next one was. The time of a connection
        # varies: 0.3 s, or 4 s on a machine with eight times more work than cores.
        left_s = max(0.0, deadline - time.monotonic())
        answer = _ask(launcher_pid, libraries, left_s / 2 if left else left_s)
        if answer.ranks:
            return tuple(RankProcess(*row) for row in answer.ranks)
        reason = f"no answer within {timeout_s:g} s" if answer.is_late else answer.reason
        if not (answer.is_refused or answer.is_late):
            break
        if left and answer.is_refused:
            # The launcher does not announce when it has dropped the earlier connection of that
            # name.
            time.sleep(min(_FORGET_S, max(0.0, deadline - time.monotonic())))
    raise DiscoveryError(f"{name} does not report its ranks through PMIx: {reason}")


class _Answer(msgspec.Struct, frozen=True):
    """Result of the asking process."""

    ranks: tuple[_Row, ...] = ()
    reason: str = ""
    """Reason why there are no ranks."""
    is_refused: bool = False
    """Whether the launcher refused the connection."""
    is_late: bool = False


def _ask(launcher_pid: int, libraries: Sequence[str], timeout_s: float) -> _Answer:
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "pgdb.frontend.discovery.pmix",
            str(launcher_pid),
            str(int(timeout_s) + _ALARM_S),
            *libraries,
        ],
        env=_environment(launcher_pid),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    is_late = False
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        is_late = True
        process.kill()
        output, errors = process.communicate()
    except BaseException:
        process.kill()
        process.communicate()
        raise
    try:
        # A late process may have answered and only be slow to end.
        answer = json.loads(output)
    except ValueError:
        return _Answer(reason=_how_ended(process.returncode, errors), is_late=is_late)
    return _Answer(
        ranks=tuple((rank, host, pid, path) for rank, host, pid, path in answer["ranks"]),
        reason=answer["reason"],
        is_refused=answer["is_refused"],
    )


def _describe(pid: int) -> str:
    stat = procfs.read_stat(pid)
    if stat is None or stat.has_ended:
        raise DiscoveryError(f"process {pid} was not asked through PMIx: it has ended")
    if stat.uid != os.geteuid():
        # Only their owner can read the files for tools, and prterun also refuses root if it does
        # not run as root.
        raise DiscoveryError(
            f"{stat.comm} {pid} was not asked through PMIx: it belongs to another user, and it "
            "answers its own only"
        )
    return f"{stat.comm} {pid}"


def _libraries(launcher_pid: int) -> list[str]:
    """Return the PMIx libraries to try, the launcher's own first."""
    found = [
        path
        for path in sorted(procfs.mapped_files(launcher_pid))
        if os.path.basename(path).startswith("libpmix.so") and os.path.exists(path)
    ]
    if system := ctypes.util.find_library("pmix"):
        found.append(system)
    return list(dict.fromkeys(found))


def _environment(launcher_pid: int) -> dict[str, str]:
    """Return the environment of the asking process: the launcher's settings, and our modules."""
    import pgdb

    assert pgdb.__file__ is not None
    own = absolute_parts(os.environ.get("PYTHONPATH", ""))
    paths = (str(Path(pgdb.__file__).resolve().parent.parent), own)
    theirs = procfs.environment(launcher_pid) or {}
    if "LD_LIBRARY_PATH" in theirs:
        theirs["LD_LIBRARY_PATH"] = absolute_parts(theirs["LD_LIBRARY_PATH"])
    session = _session_directory(launcher_pid, theirs.get("TMPDIR", "/tmp"))
    # A tool searches the whole temporary directory for its server's rendezvous file, and follows
    # links: if two links point at each other's folders, the search never ends (openpmix 5).
    searched = dict.fromkeys(_TEMPORARY, session) if session else {}
    return {
        **{
            name: value
            for name, value in theirs.items()
            if name in _WANTED or name.startswith(_WANTED_PREFIX)
        },
        **searched,
        **{name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ},
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "LC_ALL": "C.UTF-8",
    }


def _session_directory(launcher_pid: int, temporary: str) -> str:
    """Return the launcher's directory of rendezvous files; empty if unknown.

    The launcher maps shared memory in it once a rank has called MPI_Init; its own name, or that of
    a folder in it, ends with the launcher's pid (``ompi.PID``, ``prte.HOST.UID/dvm.PID``).
    """
    ending = f".{launcher_pid}"
    mapped = (folder for file in procfs.mapped_files(launcher_pid) for folder in Path(file).parents)
    # Not Path.glob: of Python 3.11 and 3.12 it raises where a folder vanishes under it.
    patterns = (f"{glob.escape(temporary)}/{levels}{ending}" for levels in ("*", "*/*"))
    named = (Path(path) for pattern in patterns for path in glob.iglob(pattern))
    for directory in (*mapped, *named):
        with contextlib.suppress(OSError):
            names = os.listdir(directory)
            if any(name.startswith("pmix.") and name.endswith(ending) for name in names):
                return str(directory)
    return ""


def _how_ended(status: int, errors: bytes) -> str:
    if status < 0:
        return f"the process that asked it died of {signal.Signals(-status).name}"
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines()]
    said = next((line for line in reversed(lines) if line), "nothing")
    return f"the process that asked it ended with status {status} and said {said!r}"


# The rest runs in the asking process. The layouts are those of pmix_common.h, equal in PMIx 4.2 and
# 5.0 on the 64-bit machines that they run on.


class _Proc(ctypes.Structure):
    _fields_ = (("nspace", ctypes.c_char * 256), ("rank", ctypes.c_uint32))


class _ProcInfo(ctypes.Structure):
    _fields_ = (
        ("proc", _Proc),
        ("hostname", ctypes.c_char_p),
        ("executable_name", ctypes.c_char_p),
        ("pid", ctypes.c_int),
        ("exit_code", ctypes.c_int),
        ("state", ctypes.c_uint8),
    )


class _DataArray(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint16), ("size", ctypes.c_size_t), ("array", ctypes.c_void_p))


class _Data(ctypes.Union):
    _fields_ = (
        ("string", ctypes.c_char_p),
        ("pid", ctypes.c_int),
        ("rank", ctypes.c_uint32),
        ("darray", ctypes.POINTER(_DataArray)),
        # The largest member of the real union, pmix_envar_t: two pointers and a character.
        ("room", ctypes.c_uint64 * 3),
    )


class _Value(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint16), ("data", _Data))


class _Info(ctypes.Structure):
    _fields_ = (("key", ctypes.c_char * 512), ("flags", ctypes.c_uint32), ("value", _Value))


class _Query(ctypes.Structure):
    _fields_ = (
        ("keys", ctypes.POINTER(ctypes.c_char_p)),
        ("qualifiers", ctypes.POINTER(_Info)),
        ("nqual", ctypes.c_size_t),
    )


_SUCCESS = 0
_STRING, _PID, _PROC_INFO, _DATA_ARRAY, _PROC_RANK = 3, 5, 38, 39, 40
_SERVER_PIDINFO = b"pmix.srvr.pidinfo"
_TOOL_NAMESPACE = b"pmix.tool.nspace"
_TOOL_RANK = b"pmix.tool.rank"
_OUR_NAME = b"pgdb"
_NAMESPACE = b"pmix.nspace"
_QUERY_NAMESPACES = b"pmix.qry.ns"
_QUERY_PROC_TABLE = b"pmix.qry.ptable"
_STATE_TERMINATED = 20
"""Smallest pmix_proc_state_t of a process that has ended."""


class _NoAnswerError(Exception):
    """The library, or the launcher through it, refused a request; the text names the request and
    reason."""


class _RefusedError(_NoAnswerError):
    """Refusal of the connection by the launcher."""


class _Tool:
    """A connection to one launcher."""

    def __init__(self, library: ctypes.CDLL, pid: int) -> None:
        self._library = library
        library.PMIx_Error_string.restype = ctypes.c_char_p
        library.PMIx_tool_init.argtypes = (
            ctypes.POINTER(_Proc),
            ctypes.POINTER(_Info),
            ctypes.c_size_t,
        )
        library.PMIx_Query_info.argtypes = (
            ctypes.POINTER(_Query),
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.POINTER(_Info)),
            ctypes.POINTER(ctypes.c_size_t),
        )
        directives = (_Info * 3)(
            _Info(key=_SERVER_PIDINFO, value=_Value(type=_PID, data=_Data(pid=pid))),
            _Info(key=_TOOL_NAMESPACE, value=_Value(type=_STRING, data=_Data(string=_OUR_NAME))),
            _Info(key=_TOOL_RANK, value=_Value(type=_PROC_RANK, data=_Data(rank=0))),
        )
        status = library.PMIx_tool_init(ctypes.byref(_Proc()), directives, len(directives))
        if status != _SUCCESS:
            raise _RefusedError(f"it did not take the connection ({self._text(status)})")

    def _text(self, status: int) -> str:
        text: bytes = self._library.PMIx_Error_string(status) or b""
        return text.decode("utf-8", "replace") or str(status)

    def ask(self, key: bytes, namespace: bytes | None = None) -> Iterator[_Value]:
        """Yield the values that answer the query *key*."""
        value = _Value(type=_STRING, data=_Data(string=namespace))
        qualifier = _Info(key=_NAMESPACE, value=value)
        query = _Query(keys=(ctypes.c_char_p * 2)(key, None))
        if namespace is not None:
            query.qualifiers, query.nqual = ctypes.pointer(qualifier), 1
        results = ctypes.POINTER(_Info)()
        count = ctypes.c_size_t()
        status = self._library.PMIx_Query_info(
            ctypes.byref(query), 1, ctypes.byref(results), ctypes.byref(count)
        )
        if status != _SUCCESS:
            raise _NoAnswerError(f"it did not answer {key.decode()} ({self._text(status)})")
        # The results are never freed: this process ends soon.
        yield from (results[at].value for at in range(count.value) if results[at].key == key)

    def namespaces(self) -> list[bytes]:
        """Return the launcher's jobs: its own job first, then those that the job spawned."""
        for value in self.ask(_QUERY_NAMESPACES):
            if value.type == _STRING and value.data.string:
                names = value.data.string.split(b",")
                return [name for name in names if name not in (b"", _OUR_NAME)]
        return []

    def ranks(self, namespace: bytes) -> list[_Row]:
        """Return rank, host, pid and executable of the processes of *namespace*."""
        found: list[_Row] = []
        for value in self.ask(_QUERY_PROC_TABLE, namespace):
            if value.type != _DATA_ARRAY or not value.data.darray:
                continue
            array = value.data.darray.contents
            if array.type != _PROC_INFO or not array.array:
                continue
            for each in (_ProcInfo * array.size).from_address(array.array):
                if each.state < _STATE_TERMINATED:
                    host, path = each.hostname or b"", each.executable_name or b""
                    found.append((each.proc.rank, os.fsdecode(host), each.pid, os.fsdecode(path)))
        return sorted(found)

    def close(self) -> None:
        """Disconnect, so that the launcher does not count us as lost."""
        self._library.PMIx_tool_finalize()


def _load(paths: Sequence[str]) -> ctypes.CDLL:
    reasons = []
    for path in paths:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    raise _NoAnswerError(f"the PMIx library cannot be loaded: {'; '.join(reasons)}")


def _find_ranks(pid: int, libraries: Sequence[str], answer: IO[str]) -> None:
    """Write the launcher's ranks, or the reason why there are none."""
    ranks: list[_Row] = []
    reason = ""
    is_refused = False
    tool = None
    try:
        tool = _Tool(_load(libraries), pid)
        namespaces = tool.namespaces()
        if namespaces:
            ranks = tool.ranks(namespaces[0])
        if not ranks:
            reason = "it has no job that runs"
    except _NoAnswerError as error:
        reason = str(error)
        is_refused = isinstance(error, _RefusedError)
    json.dump({"ranks": ranks, "reason": reason, "is_refused": is_refused}, answer)
    answer.close()
    if tool is not None:
        tool.close()


def _main(arguments: Sequence[str]) -> None:
    """Write the ranks of a launcher to standard output; the arguments are its pid, the seconds
    after which this process ends in any case, and the libraries to try."""
    pid, seconds, *libraries = arguments
    signal.alarm(int(seconds))
    # The library's own output must not mix with the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _find_ranks(int(pid), libraries, answer)
    # Threads of the library may still run, which would make the interpreter's own end fail.
    os._exit(0)


if __name__ == "__main__":
    _main(sys.argv[1:])
