"""The functions in which a program dies, and the words for each: one table.

A rank inside one of them looks like a rank that waits: MPI's error handler prints, flushes and
sleeps as MPI_Recv does. So each stack is searched for these functions by their names. The names are
those of Open MPI, MPICH and its descendants, the C and C++ libraries, Fortran, the sanitizers and
Python.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from pgdb.backend.gdb.decode import is_readable
from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.patterns import pattern
from pgdb.records import FATAL_SIGNALS, Frame

_LONGEST = 200
"""Most characters of a text that was read."""
_STRING = pattern(r"(?:0x[0-9a-f]+ )?(?:<[^>]*> )?\"((?:[^\"\\]|\\.)*)\"")
_NUMBER = pattern(r"-?\d+\Z")
SIGNAL_FRAME = "<signal handler called>"


class Death(msgspec.Struct, frozen=True):
    """A row of the table: functions, and the words for a rank inside one of them."""

    functions: str
    """Regular expression that matches a whole name, without arguments."""
    says: str
    """The words, with ``{}`` for the text or number that was read."""
    bare: str = ""
    """The words where nothing can be read; a function without any is passed over then."""
    arguments: tuple[str, ...] = ()
    """Names of arguments that have the text or number, where there is debug information."""
    text: bytes = b""
    """Regular expression for the text among the strings that the frames refer to; its first group
    that matches is shown. The format of a message is not the text."""
    is_code: bool = False
    """Whether the text is the error code or status of the call."""
    is_mpi_error: bool = False
    """Whether the error code of the call means the text."""
    is_exception: bool = False
    """Whether the exception that was thrown is the text."""
    is_written: bool = False
    """Whether the library keeps the parts of the message as it has written them."""
    is_kept: bool = False
    """Whether the C library keeps the message for core files."""
    is_signal: bool = False
    """Whether the signal that the kernel delivered is the text."""
    is_printed: bool = False
    """Whether the text is in what the function that printed it has left below the stack."""
    ends_at_user: bool = False
    """Whether it means nothing once it has called a function of the user's."""
    is_common: bool = False
    """Whether it means a death only once it has called ``abort``, or a function of the user's."""


_OF_MPICH = rb"Fatal error in [^\n\0]*?: ([^\n\0]+?)(?:, error stack:)?[\n\0]"

# The function that wrote the message has returned; only formats have a percent sign.
_OF_FORTRAN_IO = (
    rb"(End of (?:file|record)|(?:Cannot (?:open|write|read|match)|File (?:already|'|is)"
    rb"|Unit number|Bad [a-z]+"
    rb"|Expected|Missing|Unexpected|Read past|I/O past|Invalid|Direct access"
    rb"|Sequential|Record number|Conflicting|Illegal|Repeat count|Zero repeat|Namelist|Constant"
    rb"|Value|Non-existing|Integer overflow|Too many)\b[ -$&-~]{3,})\0"
)

TABLE: tuple[Death, ...] = (
    Death(
        r"ompi_mpi_errors_(?:are_fatal|abort)_\w+_handler|MPIR_Handle_fatal_error",
        "fatal error: {}",
        "fatal error",
        is_mpi_error=True,
        text=rb"(MPI_ERR_\w+: [ -~]+)|" + _OF_MPICH,
    ),
    Death(
        # Nothing else of MPICH's error handling has a name where its symbols are hidden. It calls
        # the user's own error handlers, too.
        r"MPIR_Err_return_\w+",
        "fatal error: {}",
        "error handling",
        text=_OF_MPICH,
        ends_at_user=True,
    ),
    Death(
        r"P?MPI_Abort|p?mpi_abort(?:_f08)?_{0,2}|ompi_mpi_abort|MPID_Abort|MPIR_Abort(?:_impl)?",
        "error code {}",
        "aborting the job",
        is_code=True,
        arguments=("errorcode", "errcode", "error_code", "exit_code"),
        text=rb"application called MPI_Abort\([^)\0]*?(-?\d+)\) - process",
    ),
    Death(
        r"__assert_fail(?:_base)?|__assert_perror_fail|__assert",
        "assertion '{}' failed",
        "an assertion failed",
        arguments=("assertion",),
        text=rb"Assertion `(?!%s')([^\n\0]*)' failed\.",
        is_kept=True,
    ),
    Death(
        r"std::__(?:glibcxx_assert_fail|replacement_assert)",
        "assertion '{}' failed",
        "an assertion of the C++ library failed",
        arguments=("condition", "__condition"),
        text=rb"Assertion '(?!%s')([^\n\0]*)' failed\.",
        is_printed=True,
    ),
    Death(
        r"(?:std|__cxxabiv1)::_*terminate|__gnu_cxx::__verbose_terminate_handler|__cxa_call_terminate",
        "uncaught exception {}",
        "terminated by the C++ library",
        is_exception=True,
    ),
    Death(
        # The search for a handler, which every exception goes through, has met a function that may
        # throw none.
        r"__gxx_personality_v0",
        "an exception leaves a function that may throw none: {}",
        "an exception leaves a function that may throw none",
        is_exception=True,
        is_common=True,
    ),
    Death(r"__cxa_pure_virtual", "", "a pure virtual function was called"),
    Death(
        r"_gfortran_generate_error\w*",
        "Fortran runtime error: {}",
        "Fortran runtime error",
        text=_OF_FORTRAN_IO,
    ),
    Death(
        r"_gfortran_(?:runtime_error|os_error|internal_error)\w*",
        "Fortran runtime error: {}",
        "Fortran runtime error",
        text=rb"(At line \d+ of file [ -~]+)",
        is_written=True,
    ),
    Death(
        r"_gfortran_error_stop_\w+",
        "ERROR STOP {}",
        "ERROR STOP",
        arguments=("error", "code"),
        is_written=True,
    ),
    Death(r"_gfortran_(?:f2008_)?stop_numeric\w*", "STOP {}", "STOP", arguments=("code",)),
    Death(
        r"for_(?:stop|_issue_diagnostic|_emit_diagnostic|emit_diagnostic|_exit_handler)\w*"
        r"|(?:__)?fort_abort\w*|_FortranAStopStatement\w*|Fortran::runtime::Terminator::Crash\w*",
        "",
        "Fortran runtime error or STOP",
    ),
    Death(
        r"__fortify_fail\w*|__chk_fail|__stack_chk_fail|malloc_printerr|__libc_(?:message|fatal)\w*",
        "the C library's error: {}",
        "the C library's fatal error",
        arguments=("str", "msg", "message"),
        text=rb"((?:free|malloc|calloc|realloc|munmap_chunk|memalign|mremap_chunk"
        rb"|malloc_consolidate)\(\): [ -~]+|double free or corruption[ -~]*|corrupted [ -~]+"
        rb"|invalid [ -~]+|stack smashing detected|buffer overflow detected|break adjusted[ -~]*)",
        is_kept=True,
    ),
    Death(
        r"__(?:asan|hwasan|tsan|msan|lsan|ubsan)_(?:report|handle|warning|on_error)\w*"
        r"|__(?:asan|hwasan|tsan|msan|lsan|ubsan)::\w*(?:Report|Error)\w*(?:::\w+)*"
        r"|__sanitizer::(?:Die|CheckFailed)",
        "sanitizer report: {}",
        "sanitizer report",
        text=rb"((?:heap|stack|global|container|dynamic-stack|intra-object)-[a-z-]*(?:flow|scope"
        rb"|return|free)|double-free|alloc-dealloc-mismatch|data race|bad-free)\0",
    ),
    Death(r"ucs_fatal_error\w*|ucs_handle_error", "", "UCX's fatal error"),
    Death(r"_?Py_FatalError\w*", "", "Python's fatal error"),
    Death(r"faulthandler_fatal_error", "", "Python reports a fatal signal"),
    Death(
        r"(?:opal_)?show_stackframe|PMPI_Error_signal_handler",
        "",
        "Open MPI reports a fatal signal",
    ),
    Death(re.escape(SIGNAL_FRAME), "{}", is_signal=True),
    Death(
        r"_?exit|_Exit|quick_exit|__run_exit_handlers|Py_Exit",
        "status {}",
        is_code=True,
        arguments=("status", "sts"),
    ),
)

_ROWS = tuple((re.compile(each.functions), each) for each in TABLE)


class Dying(msgspec.Struct, frozen=True):
    """A frame of a stack in which the rank dies."""

    level: int
    """Index among the frames, innermost first."""
    row: Death


@lru_cache(maxsize=4096)
def death_in(function: str) -> Death | None:
    """Return the row of a function, None for a function in which nobody dies.

    >>> death_in("PMPI_Abort").bare, death_in("std::terminate()").bare, death_in("MPI_Send")
    ('aborting the job', 'terminated by the C++ library', None)
    """
    name = function.partition("(")[0] if function.endswith(")") else function
    # The C library's own names for functions that it calls itself.
    name = name.removeprefix("__GI_").removeprefix("__new_")
    return next((row for names, row in _ROWS if names.fullmatch(name)), None)


def find_deaths(places: Sequence[Place]) -> list[Dying]:
    """Return the frames in which the rank dies, outermost first: there it began.

    A function of the user's that has one of these names is none.
    """
    found: list[Dying] = []
    has_user = has_abort = False
    for level, place in enumerate(places):
        is_users = place.owner is Owner.USER and is_readable(place.frame.fullname)
        row = None if is_users else death_in(place.frame.function)
        is_none = row is None or (row.ends_at_user and has_user)
        if row is not None and not is_none and (has_user or has_abort or not row.is_common):
            found.append(Dying(level, row))
        has_user |= is_users
        has_abort |= place.frame.function.removeprefix("__GI_") == "abort"
    found.reverse()
    return found


def outer_user(places: Sequence[Place], level: int) -> int:
    """Return the index of the user's frame that has called, at last, the frame at *level*."""
    beyond = range(level + 1, len(places))
    return next((at for at in beyond if places[at].owner is Owner.USER), len(places) - 1)


def is_last_call(places: Sequence[Place], level: int) -> bool:
    """Return whether the frame at *level* has called no function of the user's.

    Such a function, of ``atexit`` for example, ends the process with a status of its own.
    """
    return not any(
        each.owner is Owner.USER and is_readable(each.frame.fullname) for each in places[:level]
    )


def words(row: Death, text: str) -> str:
    """Return the words of a row with the *text* that was read, on one line."""
    if not text or not row.says:
        return row.bare
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    return row.says.format(text)


def fatal_signal(number: int) -> str:
    """Return words for a rank that handles a fatal signal, nothing for any other signal."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return ""
    return f"in a handler of {name}" if name in FATAL_SIGNALS else ""


def text_in_arguments(places: Sequence[Place], dying: Dying) -> str:
    """Return the text that an argument has, in the frame where the death began or further in."""
    level, row = dying.level, dying.row
    if row.is_signal:
        # The handler's first argument is the number of the signal.
        handler = places[level - 1].frame.arguments[:1] if level else ()
        known = [int(each.value) for each in handler if _NUMBER.match(each.value)]
        return fatal_signal(known[0]) if known else ""
    for each in reversed(places[: level + 1]):
        if each.owner is Owner.USER and is_readable(each.frame.fullname):
            break  # a function of the user's that was called ends by what it has itself
        if found := argument_of(each.frame, row):
            return found
    return ""


def argument_of(frame: Frame, row: Death) -> str:
    """Return the text or number that an argument of the frame has, empty if none does.

    A status of 0 is no death.
    """
    for each in frame.arguments:
        if each.name.removesuffix("@entry") in row.arguments:
            if match := _STRING.match(each.value):
                return re.sub(r"\\(.)", r"\1", match[1])
            if _NUMBER.match(each.value):
                return "" if each.value == "0" else each.value
    return ""
