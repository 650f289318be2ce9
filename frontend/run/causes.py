"""Find out why a job failed: from the ends of its ranks and from what they wrote last. No I/O."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from pgdb.patterns import pattern
from pgdb.ranks import RankSet

_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS})
"""Signals that say more than a message before them."""
_FROM_OUTSIDE = frozenset(
    {signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
)
"""Signals by which launchers and batch systems end ranks."""


class RankEnd(msgspec.Struct, frozen=True):
    """The end of one rank."""

    rank: int
    pid: int
    status: int
    """Status as ``waitpid`` returns it."""
    time: float
    """Unix time, by the clock of its host."""
    host: str = ""
    world: str = ""
    directory: str = ""

    @property
    def signal(self) -> int:
        """Number of the signal that ended the rank; 0 if none did."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0

    @property
    def code(self) -> int:
        """Exit status; 0 after a signal."""
        return os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else 0

    @property
    def has_core(self) -> bool:
        """Whether the kernel has written a core file, or passed one to a program."""
        return os.WCOREDUMP(self.status)

    @property
    def is_bad(self) -> bool:
        """Whether it is not ``exit(0)``."""
        return self.status != 0

    @property
    def is_from_outside(self) -> bool:
        """Whether a signal ended the rank that others send to end it."""
        return self.signal in _FROM_OUTSIDE

    @property
    def is_by_request(self) -> bool:
        """Whether a signal ended the rank by which batch systems and users ask a job to end."""
        return self.is_from_outside and self.signal != signal.SIGKILL

    @property
    def in_words(self) -> str:
        """The end in words, without a subject: ``ended with status 3``."""
        if self.signal:
            return f"died of {signal_name(self.signal)}"
        return f"ended with status {self.code}"


class Message(msgspec.Struct, frozen=True):
    """A message by which a library reports the failure of a rank."""

    kind: str
    """``abort``, ``assertion``, ``exception``, ``runtime-error`` or ``sanitizer``."""
    text: str
    at: int
    """Offset in the output."""
    file: str = ""
    line: int = 0
    function: str = ""
    rank: int | None = None
    pid: int | None = None

    @property
    def where(self) -> str:
        """The place in one line, empty if the message does not name one."""
        place = f"{os.path.basename(self.file)}:{self.line}" if self.file else ""
        if self.function and place:
            return f"{self.function} at {place}"
        return place or self.function


class Found(msgspec.Struct, frozen=True):
    """The cause of a failure."""

    kind: str
    what: str
    where: str = ""
    who: RankSet = RankSet()
    file: str = ""
    line: int = 0


_MOST_LAST_CHARACTERS = 4096
_MOST_LINE_CHARACTERS = 200

_PREFIX = r"(?:\[[^\[\]\n]*\]\s*)?(?:<std\w+>:?\s*)?"
"""Words that launchers put before a line: Open MPI's --tag-output, hydra's -l, srun's -l."""
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
_PURE_VIRTUAL = pattern(r"(?m)^" + _PREFIX + r"(?P<text>pure virtual (?:method|function) called)")
_GNU_EXCEPTION = pattern(
    r"terminate called after throwing an instance of '(?P<type>[^\n]*)'"
    r"(?:\n[^\n]*?what\(\):\s+(?P<text>[^\n]*))?"
)
_BARE_TERMINATE = pattern(r"terminate called (?:without an active exception|recursively)")
_LLVM_EXCEPTION = pattern(
    r"terminating (?:due to|with) uncaught exception(?: of type (?P<type>[^\n:]*))?"
    r"(?:: (?P<text>[^\n]*))?"
)
_PYTHON = pattern(
    r"Traceback \(most recent call last\):\n(?P<frames>(?:[^\n]*\n)+?)"
    + _PREFIX
    + r"(?P<text>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Stop\w*)\b[^\n]*)"
)
_PYTHON_FRAME = pattern(
    r"File \"(?P<file>[^\"\n]+)\", line (?P<line>\d+)(?:, in (?P<function>[^\n]+))?"
)
_GNU_FORTRAN = pattern(
    r"(?:At line (?P<line>\d+) of file (?P<file>[^\n(]+?)(?: \([^\n]*\))?\n)?"
    + _PREFIX
    + r"Fortran runtime error: (?P<text>[^\n]*)"
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
_ERROR_STOP = pattern(r"(?m)^" + _PREFIX + r"(?P<text>(?:Fortran )?ERROR STOP[^\n]*)")
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
_UNDEFINED = pattern(
    _BEGIN + r"(?P<file>[^\s:]+):(?P<line>\d+):\d+: (?P<text>runtime error: [^\n]*)"
)


def messages_in(text: str) -> list[Message]:
    """Return the messages about failures in a job's output, in their order."""
    found = [each for finder in _FINDERS for each in finder(text)]
    return sorted(found, key=lambda each: each.at)


def said_before(text: str) -> str:
    """Return the first error of a rank in a job's output, with its place; empty if there is none.

    It can be the reason for a hang: a rank that waits in MPI_Finalize after an exception, for
    example. Words of launchers do not count: launchers say them as they end the job.
    """
    message = next((each for each in messages_in(text) if each.kind != "abort"), None)
    if message is None:
        return ""
    return f"{message.text} at {message.where}" if message.where else message.text


def last_line(text: str) -> str:
    """Return the last line of an output that says something, cut if it is long.

    >>> last_line("step 1\\napp: no grid\\n\\n")
    'app: no grid'
    """
    lines = (line.strip() for line in reversed(text[-_MOST_LAST_CHARACTERS:].splitlines()))
    line = next((each for each in lines if any(map(str.isalnum, each))), "")
    return f"{line[:_MOST_LINE_CHARACTERS]}…" if len(line) > _MOST_LINE_CHARACTERS else line


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
    for each in _PYTHON.finditer(text):
        frames = list(_PYTHON_FRAME.finditer(each["frames"]))
        last = frames[-1] if frames else None
        yield Message(
            "exception",
            f"uncaught Python exception {each['text'].strip()}",
            each.start(),
            file=last["file"] if last else "",
            line=int(last["line"]) if last else 0,
            function=(last["function"] or "").strip() if last else "",
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
    for each in _INTEL_FORTRAN.finditer(text):
        yield Message(
            "runtime-error", f"Fortran runtime error: {each['text'].strip()}", each.start()
        )
    for each in _ERROR_STOP.finditer(text):
        yield _placed_in_backtrace(text, each.start(), each.end(), each["text"].strip())
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
        frame = _SANITIZER_FRAME.search(text, each.end(), each.end() + 4096)
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


_FINDERS = (_aborts, _assertions, _exceptions, _runtime_errors, _sanitizers)


def _short(function: str) -> str:
    """Return the name in a C or C++ signature.

    >>> _short("void die(int, int)")
    'die'
    """
    name = function.partition("(")[0].split()
    return name[-1].lstrip("*&") if name else function.strip()


def signal_name(number: int) -> str:
    """Return the name of a signal: ``SIGSEGV, Segmentation fault``."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    words = signal.strsignal(number)
    return f"{name}, {words}" if words else name


def first_failure(ends: Sequence[RankEnd]) -> RankEnd | None:
    """Return the end that began a failure: the first one that a launcher did not make."""
    bad = [each for each in ends if each.is_bad]
    own = [each for each in bad if not each.is_from_outside]
    return next(iter(own or bad), None)


def cause_of(
    ends: Sequence[RankEnd],
    text: str,
    pids: Mapping[int, int] | None = None,
    *,
    has_failed: bool = False,
) -> Found | None:
    """Return the cause of a failure, None if there was none.

    *ends* are in the order of their arrival, *text* is what the job has written, *pids* has the
    rank of each process. *has_failed* says that the launcher has: it may have ended its ranks, and
    their watchers, before any could report.
    """
    first = first_failure(ends)
    ranks = dict(pids or {}) | {each.pid: each.rank for each in ends}
    messages = messages_in(text)
    if first is None:
        kinds = [each for each in messages if has_failed or each.kind == "sanitizer"]
        message = next(iter(kinds), None)
        return None if message is None else _of_message(message, None, ranks)
    message = None
    if first.signal not in _FAULTS:
        message = next((each for each in messages if _explains(each, first, ranks)), None)
    if message is not None:
        return _of_message(message, first, ranks)
    who = RankSet([first.rank])
    if not first.signal:
        return Found("exit-code", f"rank {first.rank} ended with status {first.code}", who=who)
    what = f"rank {first.rank} died of {signal_name(first.signal)}"
    if first.signal == signal.SIGKILL:
        what += ", which another process or the kernel (out of memory) has sent"
    return Found("signal", what, who=who)


def _explains(message: Message, first: RankEnd, ranks: Mapping[int, int]) -> bool:
    """Return whether a message can be the reason of the first failure."""
    rank = _rank_of(message, ranks)
    if rank is not None and rank != first.rank and not first.is_from_outside:
        # MPI_Abort of one rank can end another one before the report of the first arrives.
        return message.kind == "abort"
    if first.signal == signal.SIGABRT:
        return message.kind != "sanitizer" or "Sanitizer" in message.text
    if first.is_from_outside:
        return message.kind == "abort"
    return True


def _rank_of(message: Message, ranks: Mapping[int, int]) -> int | None:
    if message.pid is not None and message.pid in ranks:
        return ranks[message.pid]
    return message.rank


def _of_message(message: Message, first: RankEnd | None, ranks: Mapping[int, int]) -> Found:
    rank = _rank_of(message, ranks)
    if rank is None and first is not None:
        rank = first.rank
    subject = "a rank" if rank is None else f"rank {rank}"
    return Found(
        message.kind,
        f"{subject}: {message.text}",
        message.where,
        RankSet() if rank is None else RankSet([rank]),
        message.file,
        message.line,
    )
