"""The messages in a job's output by which libraries report the failure of a rank. No I/O."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from pgdb.frontend.run.message import PREFIX, Message
from pgdb.frontend.run.python_messages import python_messages
from pgdb.patterns import pattern
from pgdb.source_paths import is_of_system

_BEGIN = r"(?<![^\s:])"
"""The begin of a word: in output without spaces, such as binary data, each byte would be one."""

_ABORT = pattern(
    r"MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator (?P<comm>[^\n]*?)\n?"
    r"(?:[^\n]*Proc: (?:\[\[\d+,1\],(?P<proc>\d+)\])?[^\n]*\n[^\n]*Errorcode: |"
    r"[^\n]*with errorcode )(?P<code>-?\d+)"
)
_HYDRA_ABORT = pattern(
    r"Abort\((?P<code>-?\d+)\) on node (?P<node>\d+) "
    r"\(rank (?P<rank>\d+) in comm (?P<comm>[^)]*)\): "
    r"(?P<text>[^\n]*)(?P<stack>(?:\n[^\n]*\(\d+\)\.*: [^\n]*)*)"
)
_INTERNAL = pattern(r"\b(?:internal_|PMPI_)(?=[A-Z])")
"""MPICH's names of the functions of MPI."""
_OPEN_MPI_ERROR = pattern(
    r"\[[^\[\]\n]*:(?P<pid>\d+)\] \*\*\* An error occurred in (?P<call>\w+)\n"
    r"(?:[^\n]*\*\*\* reported by process \[\d+,(?P<rank>\d+)\]\n)?"
    r"(?:[^\n]*\*\*\* on [^\n]*\n)?"
    r"(?:[^\n]*\*\*\* (?P<text>MPI_ERR\w*: [^\n]*))?"
)
_OPEN_MPI_OUTSIDE = pattern(
    r"\*\*\* The (?P<call>MPI_\w+)\(\) function was called "
    r"(?P<when>before MPI_INIT|after MPI_FINALIZE) was invoked\."
    r"(?:\n[^\n]*\*\*\* [^\n]*)*(?:\n[^\n\[]*\[[^\[\]\n]*:(?P<pid>\d+)\] Local abort)?"
)
_MPICH_OUTSIDE = pattern(
    r"Attempting to use an MPI routine(?: \((?P<call>\w+)\))? "
    r"before initializing or after finalizing"
)
"""Words for a call outside of MPI_Init and MPI_Finalize; MPICH does not say on which side."""
_NO_FINALIZE = pattern(
    r"has exited due to process rank (?P<rank>\d+) with PID \d+ on\s+node \S+ exiting\s+"
    r"improperly"
)
"""Open MPI's words for a rank that ends with status 0 without MPI_Finalize, and for none else."""
_GLIBC_ASSERTION = pattern(
    _BEGIN
    + r"(?P<program>[^\s:]+): (?P<file>[^\s:]+):(?P<line>\d+): (?P<function>[^\n]{0,2048}?): "
    r"Assertion `(?P<text>[^\n]*)' failed"
)
_OTHER_ASSERTION = pattern(
    r"Assertion failed: (?P<text>[^\n]*?) \((?P<file>[^\s:]+): (?P<function>[^:\n]*): "
    r"(?P<line>\d+)\)"
)
_GNU_HEADER_ASSERTION = pattern(
    r"(?P<file>/[^\s:]+):\d+: (?P<function>[^\n]{0,4096}?): Assertion '(?P<text>[^\n]*)' failed\."
)
"""Words of libstdc++ with _GLIBCXX_ASSERTIONS. Their place is in a header of the library."""
_LLVM_HEADER_ASSERTION = pattern(
    r"(?P<file>/[^\s:]+):\d+: (?:libc\+\+ Hardening )?assertion (?P<text>[^\n]*?) failed: "
    r"(?P<why>[^\n]*)"
)
"""Words of libc++ in its hardened modes."""
_PURE_VIRTUAL = pattern(r"(?m)^" + PREFIX + r"(?P<text>pure virtual (?:method|function) called)")
_GNU_EXCEPTION = pattern(
    r"terminate called after throwing an instance of '(?P<type>[^\n]*)'"
    r"(?:\n[^\n]*?what\(\):\s+(?P<text>[^\n]*))?"
)
_BARE_TERMINATE = pattern(r"terminate called (?:without an active exception|recursively)")
_LLVM_EXCEPTION = pattern(
    r"terminating (?:due to|with) uncaught exception(?: of type (?P<type>[^\n:]*))?"
    r"(?:: (?P<text>[^\n]*))?"
)
_FORTRAN_SIGNAL = pattern(
    r"(?m)^"
    + PREFIX
    + r"(?P<text>Program received signal SIG\w+: [^\n]*)\n\s*Backtrace for this error:"
)
_GNU_FORTRAN = pattern(
    r"(?:At line (?P<line>\d+) of file (?P<file>[^\n(]+?)(?: \([^\n]*\))?\n)?"
    + PREFIX
    + r"Fortran runtime error: (?P<text>[^\n]*)"
)
_GNU_ALLOCATION = pattern(
    r"(?m)^" + PREFIX + r"(?:In file '(?P<file>[^'\n]+)', around line (?P<line>\d+): )?"
    r"(?P<text>Error allocating \d+ bytes[^\n]*)"
)
_BACKTRACE_BEGINS = tuple(f"{lines}Error termination. Backtrace:" for lines in ("\n", "\n\n"))
_FORTRAN_FRAME = pattern(
    r"#\d+  0x[0-9a-f]+ in (?P<function>[^\n?]+)\n[^\n]*?\bat (?P<file>/[^\n:]+):(?P<line>\d+)"
)
"""A frame of the backtrace of GNU Fortran's library; the innermost one with a line is the
user's."""
_FLANG = pattern(
    r"fatal Fortran runtime error(?:\((?P<file>[^:\n]+):(?P<line>\d+)\))?: (?P<text>[^\n]*)"
)
_INTEL_FORTRAN = pattern(r"forrtl: (?P<text>(?:severe|error) \(\d+\): [^\n]*)")
_ERROR_STOP = pattern(r"(?m)^" + PREFIX + r"(?P<text>(?:Fortran )?ERROR STOP[^\n]*)")
_GLIBC = pattern(
    r"(?P<text>\*\*\* (?:stack smashing|buffer overflow|%n in writable segment|"
    r"invalid %N\$ use) detected \*\*\*: [^\n]*"
    r"|\*\*\* longjmp causes uninitialized stack frame \*\*\*: [^\n]*"
    r"|(?:double free or corruption|free\(\): |malloc\(\): |calloc\(\): |corrupted (?:size|double)|"
    r"munmap_chunk\(\): |realloc\(\): |mremap_chunk\(\): |malloc_consolidate\(\): |"
    r"tcache_thread_shutdown\(\): |chunk_free\(\): |break adjusted to free malloc space)[^\n]*"
    r"|Fatal glibc error: [^\n]*)"
)
_SANITIZER = pattern(
    r"==(?P<pid>\d+)==\s*(?:ERROR|WARNING): (?P<text>\w+Sanitizer: [^\n]*)"
    r"|WARNING: (?P<thread>ThreadSanitizer: [^\n]*?) \(pid=(?P<thread_pid>\d+)\)"
)
_SANITIZER_FRAME = pattern(
    r"#\d+ (?:0x[0-9a-f]+ in )?(?P<function>[^\n]*?) (?P<file>/?[^\s:]+):(?P<line>\d+)(?::\d+)?"
    r"(?= |\n|$)"
)
_SANITIZER_OWN = pattern(
    r"/libsanitizer/|/compiler-rt/|\b(?:a|t|m|l|ub|hwa)san_\w+\.(?:cpp|cc|h|inc):"
    r"|\bsanitizer_\w+\.(?:cpp|cc|h|inc):|\b_{2,}interceptor_"
)
"""A frame of the run-time library of a sanitizer."""
_MOST_REPORT = 32768
_UNDEFINED = pattern(
    _BEGIN + r"(?P<file>[^\s:]+):(?P<line>\d+):\d+: (?P<text>runtime error: [^\n]*)"
)

_FAILED_CHECK = pattern(
    r"(?m)^"
    + PREFIX
    + r"F(?:\d{4}){1,2} [\d:]+\.\d+\s+(?P<pid>\d+) (?P<file>[^\s:]+):(?P<line>\d+)\] "
    r"(?P<text>[^\n]+)"
)
"""A fatal line of the logs of glog and Abseil, which abort the process."""
_RUST_PANIC = pattern(
    r"(?m)^" + PREFIX + r"thread '[^'\n]*'(?: \(\d+\))? panicked at (?:'(?P<old>[^\n]*)', )?"
    r"(?P<file>[^\s:']+):(?P<line>\d+):\d+(?::\n" + PREFIX + r"(?P<text>[^\n]+))?"
)
_GSL_ERROR = pattern(r"(?m)^" + PREFIX + r"gsl: (?P<place>[^\s:]+:\d+): ERROR: (?P<text>[^\n]+)")
_LAUNCHER_WORDS = pattern(
    r"(?m)^(?:[^\n]*"
    r"(?:MPI_ABORT was invoked on rank|\bAbort\(-?\d+\) on node \d|BAD TERMINATION OF ONE)"
    r"|Primary job +terminated normally, but|srun: error: [^\s:]+: tasks? \d"
    r"|\w+ (?:noticed that process rank|has exited due to process rank"
    r"|detected that one or more processes exited with) )"
)
"""The begin of what libraries and launchers write when a rank has called MPI_Abort or has died."""


def messages_in(text: str) -> list[Message]:
    """Return the messages about failures in a job's output, in their order."""
    found = [each for finder in _FINDERS for each in finder(text)]
    return sorted(found, key=lambda each: each.at)


def before_launcher(text: str) -> str:
    """Return the part of an output before the words about MPI_Abort and those of the launcher."""
    found = _LAUNCHER_WORDS.search(text)
    return text[: found.start()] if found else text


def _aborts(text: str) -> Iterator[Message]:
    for each in _ABORT.finditer(text):
        comm = each["comm"].strip()
        yield Message(
            "abort",
            f"MPI_Abort({comm}, {each['code']})",
            each.start(),
            function="MPI_Abort",
            # Only ranks of the world are ranks of the job.
            rank=_number(each["rank"] if comm.startswith("MPI_COMM_WORLD") else each["proc"]),
        )
    for each in _HYDRA_ABORT.finditer(text):
        said = each["text"]
        # Communicator 0 is the world; the "node" is the rank there.
        rank = int(each["rank"] if each["comm"] == "0" else each["node"])
        if "application called MPI_Abort" in said:
            call = said.partition("called ")[2].partition(" - ")[0]
            yield Message("abort", call, each.start(), function="MPI_Abort", rank=rank)
            continue
        said = _INTERNAL.sub("MPI_", said.removesuffix(", error stack:"))
        # The innermost line of the stack has the detail.
        details = [line.partition(": ")[2] for line in each["stack"].splitlines() if line]
        call = said.partition(" in ")[2].partition(":")[0]
        detail = f": {details[-1].strip()}" if details else ""
        reason = said.rpartition(": ")[2]
        if detail.startswith(f": {reason}"):
            said = said.removesuffix(f": {reason}")
        yield Message("abort", f"{said}{detail}", each.start(), function=call, rank=rank)
    for each in _OPEN_MPI_ERROR.finditer(text):
        detail = f": {each['text'].strip()}" if each["text"] else ""
        yield Message(
            "abort",
            f"fatal error in {each['call']}{detail}",
            each.start(),
            function=each["call"],
            rank=_number(each["rank"]),
            pid=int(each["pid"]),
        )
    for each in _OPEN_MPI_OUTSIDE.finditer(text):
        when = each["when"].replace("INIT", "Init").replace("FINALIZE", "Finalize")
        yield Message(
            "abort",
            f"{each['call']} was called {when}",
            each.start(),
            function=each["call"],
            pid=_number(each["pid"]),
        )
    for each in _MPICH_OUTSIDE.finditer(text):
        call = (each["call"] or "").replace("internal_", "MPI_")
        yield Message(
            "abort",
            f"{call or 'a function of MPI'} was called before MPI_Init or after MPI_Finalize",
            each.start(),
            function=call,
        )
    for each in _NO_FINALIZE.finditer(text):
        yield Message(
            "abort",
            "ended without MPI_Finalize, so that the launcher has ended the job",
            each.start(),
            rank=int(each["rank"]),
        )


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _assertions(text: str) -> Iterator[Message]:
    for finder in (_GLIBC_ASSERTION, _OTHER_ASSERTION):
        for each in finder.finditer(text):
            yield Message(
                "assertion",
                f"assertion '{each['text']}' failed",
                each.start(),
                file=each["file"],
                line=int(each["line"]),
                function=_short(each["function"]),
            )
    for finder in (_GNU_HEADER_ASSERTION, _LLVM_HEADER_ASSERTION):
        for each in finder.finditer(text):
            said = each.groupdict()
            why = f": {said['why'].strip()}" if said.get("why") else ""
            header = os.path.basename(each["file"])
            yield Message(
                "assertion",
                f"assertion '{each['text']}' of the C++ library failed{why} ({header})",
                each.start(),
            )

    for each in _FAILED_CHECK.finditer(text):
        yield Message(
            "assertion",
            each["text"].strip(),
            each.start(),
            file=each["file"],
            line=int(each["line"]),
            pid=int(each["pid"]),
        )


def _exceptions(text: str) -> Iterator[Message]:
    for finder in (_GNU_EXCEPTION, _LLVM_EXCEPTION):
        for each in finder.finditer(text):
            of_type = f" of type {each['type'].strip()}" if each["type"] else ""
            said = f": {each['text'].strip()}" if each["text"] else ""
            yield Message("exception", f"uncaught C++ exception{of_type}{said}", each.start())
    for each in _PURE_VIRTUAL.finditer(text):
        yield Message("exception", each["text"], each.start())
    for each in _BARE_TERMINATE.finditer(text):
        yield Message(
            "exception", each[0].replace("terminate called", "std::terminate called"), each.start()
        )
    for each in _RUST_PANIC.finditer(text):
        said = each["old"] or each["text"] or ""
        yield Message(
            "exception",
            f"panic of Rust: {said.strip()}" if said else "panic of Rust",
            each.start(),
            file=each["file"],
            line=int(each["line"]),
        )


def _fatal_signals(text: str) -> Iterator[Message]:
    for each in _FORTRAN_SIGNAL.finditer(text):
        frame = _FORTRAN_FRAME.search(text, each.end(), each.end() + 4096)
        yield Message(
            "runtime-error",
            each["text"].strip(),
            each.start(),
            file=frame["file"] if frame else "",
            line=int(frame["line"]) if frame else 0,
            function=frame["function"].strip() if frame else "",
            is_of_signal=True,
        )


def _runtime_errors(text: str) -> Iterator[Message]:
    for finder in (_GNU_FORTRAN, _FLANG):
        for each in finder.finditer(text):
            said = f"Fortran runtime error: {each['text'].strip()}"
            if not each["line"]:
                yield _placed_in_backtrace(text, each.start(), each.end(), said)
                continue
            yield Message(
                "runtime-error",
                said,
                each.start(),
                file=each["file"].strip(),
                line=int(each["line"]),
            )
    for each in _GNU_ALLOCATION.finditer(text):
        yield Message(
            "runtime-error",
            f"Fortran runtime error: {each['text'].strip()}",
            each.start(),
            file=each["file"] or "",
            line=int(each["line"] or 0),
        )
    for each in _INTEL_FORTRAN.finditer(text):
        yield Message(
            "runtime-error", f"Fortran runtime error: {each['text'].strip()}", each.start()
        )
    for each in _ERROR_STOP.finditer(text):
        yield _placed_in_backtrace(text, each.start(), each.end(), each["text"].strip())
    for each in _GSL_ERROR.finditer(text):
        said = f"error of GSL: {each['text'].strip()} ({each['place']})"
        yield Message("runtime-error", said, each.start())
    for each in _GLIBC.finditer(text):
        yield Message("runtime-error", each["text"].strip(), each.start())


def _placed_in_backtrace(text: str, at: int, end: int, said: str) -> Message:
    """Return a message of Fortran's library with the place in the backtrace that follows it."""
    frame = None
    if text.startswith(_BACKTRACE_BEGINS, end):
        frame = _FORTRAN_FRAME.search(text, end, end + 4096)
    return Message(
        "runtime-error",
        said,
        at,
        file=frame["file"] if frame else "",
        line=int(frame["line"]) if frame else 0,
        function=frame["function"].strip() if frame else "",
    )


def _sanitizers(text: str) -> Iterator[Message]:
    for each in _SANITIZER.finditer(text):
        said = each["text"] or each["thread"]
        if said.startswith("LeakSanitizer: detected"):
            said = "LeakSanitizer: detected memory leaks"
        frame = _sanitizer_frame(text, each.end(), is_leak=said.startswith("LeakSanitizer"))
        yield Message(
            "sanitizer",
            said.partition(" on address ")[0].strip(),
            each.start(),
            file=frame["file"] if frame else "",
            line=int(frame["line"]) if frame else 0,
            function=_short(frame["function"]) if frame else "",
            pid=int(each["pid"] or each["thread_pid"]),
        )
    for each in _UNDEFINED.finditer(text):
        yield Message(
            "sanitizer", each["text"].strip(), each.start(), each["file"], int(each["line"])
        )


def _sanitizer_frame(text: str, begin: int, *, is_leak: bool) -> re.Match[str] | None:
    """Return the innermost frame with a line that is outside of the run-time library of the
    sanitizer; None if there is none.

    The first stack of a report is that of the error. Each leak has a stack of its own, and those of
    libraries without lines come first, too.
    """
    last = begin + _MOST_REPORT
    if not is_leak:
        end = text.find("\n\n", max(text.find("#0 ", begin, last), begin), last)
        last = last if end < 0 else end
    found = [
        each
        for each in _SANITIZER_FRAME.finditer(text, begin, last)
        if not _SANITIZER_OWN.search(each[0])
    ]
    # The C library's files have names such as libio/vasprintf.c.
    own = [each for each in found if each["file"][0] == "/" and not is_of_system(each["file"])]
    return next(iter(own or ([] if is_leak else found)), None)


_FINDERS = (
    _aborts,
    _assertions,
    _exceptions,
    python_messages,
    _runtime_errors,
    _fatal_signals,
    _sanitizers,
)


def _short(function: str) -> str:
    """Return the name in a C or C++ signature.

    >>> _short("void die(int, int)")
    'die'
    """
    name = function.partition("(")[0].split()
    return name[-1].lstrip("*&") if name else function.strip()
