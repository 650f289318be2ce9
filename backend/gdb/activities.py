"""The work of a rank outside MPI, by the names of its innermost frames: one table."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.mpi_calls import Activity
from pgdb.patterns import pattern

# The C library's names have prefixes and suffixes of its own: __GI___libc_read, __fgets_chk.
_BEFORE = r"(?:_{2,3}(?:GI_+)?(?:libc_|new_)?|_IO_(?:new_)?(?:file_)?|_)?"
_BEHIND = r"(?:64|_nocancel|_time64|_unlocked|_2|_chk|_slow)*(?:@\S*)?"


def _names(*names: str) -> str:
    return f"{_BEFORE}(?:{'|'.join(names)}){_BEHIND}"


_TABLE: tuple[tuple[Activity, str], ...] = (
    ("exiting", _names("exit", "_?exit", "run_exit_handlers", "cxa_finalize", "exit_group")),
    ("exiting", r"_dl_fini|_gfortran_stop_\w+|Py_Exit|Py_FinalizeEx|Py_RunMain_exit"),
    (
        "sleeping",
        _names("(?:clock_)?nanosleep", "u?sleep", "sched_yield", "sigsuspend", "pause")
        + r"|(?:rt_)?sigtimedwait|sigwait(?:info)?|__sigsuspend",
    ),
    (
        "lock",
        _names(
            r"pthread_(?:mutex_(?:timed)?lock|rwlock_\w+lock|spin_lock)\w*",
            r"lll_lock_wait\w*",
            r"futex_\w+",
            r"mtx_(?:timed)?lock",
            r"sem_(?:timed|clock)?wait\w*",
            r"sem(?:timed)?op",
            r"do_futex_wait\w*",
        )
        + r"|gomp_(?:team_)?(?:mutex|sem|futex)_\w+"
        + r"|(?:GOMP|omp|__kmp\w*)_(?:critical_(?:name_)?start|set_(?:nest_)?lock)\w*"
        + r"|std::(?:\w+_)?mutex::lock\w*|std::counting_semaphore<.*>::acquire",
    ),
    (
        "io",
        _names(
            r"p?(?:read|write)v?[2]?",
            r"f?data?sync|fsync|sync|msync|syncfs",
            r"f(?:open|close|read|write|flush|gets|puts|scanf|printf|seek|truncate)(?:at)?",
            r"open(?:at)?|creat|close|lseek|ftruncate|posix_fallocate|sendfile|splice",
            r"recv(?:from|m?msg)?|send(?:to|m?msg)?|accept4?|connect",
            r"p?poll|p?select|epoll_p?wait|epoll_wait",
            r"msg(?:rcv|snd)|mq_(?:timed)?(?:receive|send)",
            r"getline|getdelim|getc(?:har)?|xsgetn|underflow|fread|fgets|do_read|do_write",
            r"(?:wait|waitpid|wait4|waitid|system)",
            r"(?:flock|fcntl|lockf|ioctl|stat|fstat(?:at)?|lstat|rename|unlink|mkdir|readdir)",
        )
        + r"|H5F?D?_?\w*(?:read|write)\w*"
        + r"|_gfortran_(?:st_(?:read|write|open|close|flush)|transfer|execute_command_line)\w*",
    ),
)
# These call the functions of locks, which are nearer to the kernel.
_WAITS_FOR_THREAD = pattern(
    r"_*(?:GI_+)?pthread_(?:cond_(?:timed|clock)?wait|(?:timed|clock)?join|barrier_wait)\w*"
    + r"|_*(?:thrd_join|cnd_(?:timed)?wait)\Z"
    + r"|gomp_(?:team_)?barrier_\w+|(?:GOMP|omp|__kmp\w*)_barrier\w*"
    + r"|std::(?:condition_variable(?:_any)?|j?thread)::(?:wait|join)\w*"
    # C++ makes futures, latches, barriers and atomic waits of futexes.
    + r"|std::__atomic_futex_unsigned\w*(?:<\w+>)?::\w+|std::(?:__basic_|shared_)?future<.*>::\w+"
    + r"|std::(?:latch|barrier<.*>)::(?:arrive_and_)?wait|std::(?:__atomic_base|atomic)<.*>::wait"
)
_PATTERNS = tuple((activity, pattern(rf"(?:{names})\Z")) for activity, names in _TABLE)
_PYTHON = pattern(r"_?Py(?:Eval_|_RunMain|RunMain|Object_Call|Run_)\w*")
_OPENMP = pattern(r"(?:.*/)?lib(?:gomp|i?omp5?)\.so[.\d]*\Z")
"""Libraries of OpenMP, often without symbols: a thread inside waits for the others of its team."""
_OF_LIBRARY = ("std::", "__gnu_cxx::")
_PLAIN = pattern(rf"{_BEFORE}(\w+?){_BEHIND}\Z")
_NAMED = ("lock", "io")


def blocking_function(places: Sequence[Place]) -> str:
    """Return the function of a library that the user's code has called and that blocks, by its
    plain name; empty if there is none, or if the call is of another kind."""
    inner = None
    for place in places:
        if _is_users(place):
            break
        if place.frame.language:
            return ""
        inner = place
    if inner is None:
        return ""
    match = _PLAIN.match(inner.frame.function)
    name = match[1] if match is not None else ""
    is_known = any(
        activity in _NAMED and names.match(inner.frame.function) for activity, names in _PATTERNS
    )
    return name if is_known or _awaits_thread(inner) else ""


def activity_of(places: Sequence[Place]) -> Activity:
    """Return the work of a thread with these frames, innermost first, which is outside MPI.

    A function of a library counts down to the user's innermost frame: the caller of ``write`` is
    in I/O, whatever stands around it.
    """
    if not places:
        return ""
    if any(each.frame.dying for each in places):
        return "dying"
    for place in places:
        name = place.frame.function
        for activity, names in _PATTERNS:
            if names.match(name) and (not _is_users(place) or activity == "exiting"):
                return _lock_or_thread(places) if activity == "lock" else activity
        if _awaits_thread(place) or _is_in_openmp(place):
            return "thread"
        if _is_users(place):
            break
    # Python evaluates in C frames; a C extension that computes is in Python's call, too.
    if any(_PYTHON.match(each.frame.function) for each in places[:4]):
        return "python"
    return "computing"


def _lock_or_thread(places: Sequence[Place]) -> Activity:
    for place in places:
        if _awaits_thread(place):
            return "thread"
        if _is_users(place):
            break
    return "lock"


def is_of_openmp(place: Place) -> bool:
    """Return whether a frame belongs to a library of OpenMP."""
    return bool(_OPENMP.match(place.frame.library))


def _is_in_openmp(place: Place) -> bool:
    return place.frame.function in ("", "??") and is_of_openmp(place)


def _awaits_thread(place: Place) -> bool:
    return not _is_users(place) and _WAITS_FOR_THREAD.match(place.frame.function) is not None


def _is_users(place: Place) -> bool:
    """Return whether a frame is of the user's own code.

    Templates and inline functions of the C++ library stand in the program itself.
    """
    return place.owner is Owner.USER and not place.frame.function.startswith(_OF_LIBRARY)
