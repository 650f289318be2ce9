"""Find out why a job failed: from the ends of its ranks and from what they wrote last. No I/O."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

import msgspec

from pgdb.frontend.api.first_deaths import MOST_LEAVING_S
from pgdb.frontend.run.batch_words import end_in_words, memory_in_words
from pgdb.frontend.run.message import Message
from pgdb.frontend.run.messages import before_launcher, messages_in
from pgdb.frontend.run.python_messages import GOES_ON, TIMEOUT, UNCAUGHT
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS})
"""Signals that say more than a message before them."""
_CAUGHT_ABORT = pattern(r"\[[^\[\]\n]*:(?P<pid>\d+)\] Signal: Aborted \(")
"""Open MPI's word that it has caught SIGABRT; a rank can die of a fault in its handler."""
_FROM_OUTSIDE = frozenset(
    {signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
)
"""Signals by which launchers and batch systems end ranks."""


_SIGNAL_SENDER = "a process or the kernel (out of memory, or the limit of CPU time)"
"""Senders of SIGKILL. The process that dies can be one of them."""


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


def said_before(text: str) -> str:
    """Return the first error of a rank in a job's output, with its place; empty if there is none.

    It can be the reason for a hang: a rank that waits in MPI_Finalize after an exception, for
    example. Words of launchers do not count: launchers say them as they end the job.
    """
    message = next((each for each in messages_in(text) if each.kind != "abort"), None)
    if message is None:
        return ""
    return f"{message.text} at {message.where}" if message.where else message.text


_ERROR = pattern(
    # At the start of a line, behind marks and words that launchers put there; or before a colon.
    r"(?i)^(?:\[(?!\W*(?:error|fatal))[^\[\]]*\]|<std\w+>:?|\W)*+"
    r"(?:fatal|(?:internal |runtime |input )?error\b)"
    r"|\berror\s*:|\bfatal\b"
)
"""An error in a program's words."""
_SIZE = pattern(r"(?i)\berror\s*(?:[=<>]|:?\s*[-+]?[\d.]+(?:[ed][-+]?\d+)?\s*%?\Z)")
"""The size of an error, such as ``error = 1e-5``, which is no failure."""

# Open MPI 4's launcher prints a message of its ranks, and now and then cannot read it.
_LOST = pattern(r"ORTE_ERROR_LOG: .*\bshow_help\.c\b")
_HANDLER_WORDS = pattern(
    r"(?m)^.*(?:\*\*\* Process received signal \*\*\*|Caught signal \d+ \(|"
    r"Program received signal SIG|Program aborted\. Backtrace:|Fatal Python error: |"
    r"==== backtrace \(tid:)"
)
"""The beginning of what handlers of a fatal signal write: Open MPI, UCX, GNU Fortran, Python."""
_RULER = pattern(r"-{8}|={8}|\*{8}")
"""A line drawn around a heading: PETSc draws it around ``Error Message``."""
_NOTICED = pattern(
    r"noticed that process rank (?P<rank>\d+) with PID \d+ on\s+node \S+ exited on\s+"
    r"signal (?P<number>\d+)"
)
"""Open MPI's words for the rank whose death made it end the others."""


def words_before_abort(*texts: str) -> str:
    """Return the words by which a job most likely said why it called MPI_Abort, or why a rank left.

    >>> words_before_abort("no grid\\nAbort(1) on node 0 (rank 0 in comm 0): …\\n", "step 1\\n")
    'the last line of the job: no grid'
    """
    return last_words(*map(before_launcher, texts))


def words_before_signal(*texts: str) -> str:
    """Return the words by which a job most likely said why it called ``abort``.

    >>> words_before_signal("no grid\\n[a:07] *** Process received signal ***\\n[a:07] frame\\n")
    'the last line of the job: no grid'
    """
    return words_before_abort(*(_HANDLER_WORDS.split(each, 1)[0] for each in texts))


def last_words(*texts: str) -> str:
    """Return the words by which a job most likely said why it ended; empty if it said nothing.

    They are the first line about an error at the end of a text, else the last line that says
    something. *texts* are outputs of the job; the first one that has such a line counts.

    >>> last_words("", "step 1\\nERROR: no grid 7\\nLast command: run\\n")
    'the job said: ERROR: no grid 7'
    >>> last_words("step 1\\napp: no grid\\n\\n")
    'the last line of the job: app: no grid'
    >>> last_words("step 1\\n[a:1] [[2,0],0] ORTE_ERROR_LOG: Out of it in file show_help.c")
    'Open MPI has lost the message that says why (ORTE_ERROR_LOG in show_help.c)'
    """
    outputs = [_lines(each) for each in texts]
    for lines in outputs:
        for at, line in enumerate(lines):
            if _ERROR.search(line) and not _SIZE.search(line) and not _RULER.search(line):
                # A heading has its message on the next line.
                more = f" {lines[at + 1]}" if line.endswith(":") and lines[at + 1 :] else ""
                return f"the job said: {_cut(line + more)}"
    if any(_LOST.search(each) for each in texts):
        return "Open MPI has lost the message that says why (ORTE_ERROR_LOG in show_help.c)"
    last = next((lines[-1] for lines in outputs if lines), "")
    return f"the last line of the job: {_cut(last)}" if last else ""


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in text[-_MOST_LAST_CHARACTERS:].splitlines()]
    texts = [each for each in lines if _is_text(each)]
    if 2 * len(texts) < len(lines):
        return []  # binary data can have lines that look like text
    return [each for each in texts if any(map(str.isalnum, each)) and not _LOST.search(each)]


def _cut(line: str) -> str:
    return f"{line[:_MOST_LINE_CHARACTERS]}…" if len(line) > _MOST_LINE_CHARACTERS else line


def _is_text(line: str) -> bool:
    """Return whether a line has no control characters, and no bytes that are no characters."""
    return "\ufffd" not in line and line.replace("\t", " ").isprintable()


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
    outputs: Mapping[int, str] | None = None,
) -> Found | None:
    """Return the cause of a failure, None if there was none.

    *ends* are in the order of their arrival, *text* is what the job has written, *pids* has the
    rank of each process. *has_failed* says that the launcher has: it may have ended its ranks, and
    their watchers, before any could report. *outputs* has the output of each rank, where it was
    kept apart: it says which ranks have written a message that names none.
    """
    first = first_failure(ends)
    ranks = dict(pids or {}) | {each.pid: each.rank for each in ends}
    messages = messages_in(text)
    if first is None:
        kinds = [each for each in messages if has_failed or each.kind == "sanitizer"]
        message = next(iter(kinds), None)
        if message is None:
            return _ended_by_batch(text, ranks) if has_failed else None
        return _with_writers(_of_message(message, None, ranks), message, outputs or {})
    message = None
    aborted = {int(each["pid"]) for each in _CAUGHT_ABORT.finditer(text)}
    if first.signal not in _FAULTS or first.pid in aborted:
        dead = msgspec.structs.replace(first, status=signal.SIGABRT)
        explained = dead if first.pid in aborted else first
        reasons = [
            each
            for each in messages
            if _explains(each, explained, ranks) and not _is_of_another(each, first, outputs or {})
        ]
        caught = [each for each in reasons if _is_caught(each, first)]
        strong = [each for each in reasons if each not in caught]
        several = len({*ranks.values()}) > 1
        sure = [each for each in strong if not (several and _is_anybodys(each, first, outputs))]
        message = next(iter(sure), None)
        others = [each for each in strong if each not in sure]
        if message is None and (others or caught):
            return _with_weak(_with_status(first, ends), (others or caught)[-1], first)
        if message is not None and others:
            found = _of_message(message, first, ranks)
            return msgspec.structs.replace(found, what=f"{found.what}; {_said(others[0])}")
    if message is not None:
        return _of_message(message, first, ranks)
    if first.is_from_outside and not memory_in_words(text) and _are_alike(ends, text):
        if left := left_before(ends[: ends.index(first)], first.time, text):
            return left
    # A launcher that kills the others after the death of one has its step cancelled, too.
    if first.is_by_request and (ended := _ended_by_batch(text, ranks)):
        return ended
    if first.is_by_request and (ended := _ended_together(ends, text)):
        return ended
    if not first.signal:
        return _with_status(first, ends)
    who = RankSet([first.rank])
    what = f"rank {first.rank} died of {signal_name(first.signal)}"
    if first.signal == signal.SIGKILL:
        sender = memory_in_words(text)
        what += f"; {sender}" if sender else f", which {_SIGNAL_SENDER} has sent"
    found = Found("signal", what, who=who)
    # Handlers of a library write where the fault was. One of several ranks has died first.
    places = {(each.where, each.file, each.line) for each in messages if each.is_of_signal}
    if len(places) == 1:
        (place,) = places
        found = msgspec.structs.replace(found, where=place[0], file=place[1], line=place[2])
    return found


def _with_status(first: RankEnd, ends: Sequence[RankEnd]) -> Found:
    """Return the end of the ranks that have ended with the status of the first one."""
    who = RankSet(each.rank for each in ends if each.status == first.status)
    if len(who) == 1:
        return Found("exit-code", f"rank {who} ended with status {first.code}", who=who)
    what = f"ranks {who} ended with status {first.code}, rank {first.rank} first"
    return Found("exit-code", what, who=who)


def _with_weak(found: Found, message: Message, first: RankEnd) -> Found:
    """Return the end of a rank with a message that need not be the reason for it."""
    what = f"{found.what}; {_said(message)}"
    if message.kind != "sanitizer" and not (message.text.startswith(TIMEOUT) and first.code == 1):
        return msgspec.structs.replace(found, what=what)
    # A program can go on behind the report of a sanitizer, which is an error in any case.
    kind = "sanitizer" if message.kind == "sanitizer" else found.kind
    place = message.where, message.file, message.line
    return Found(kind, what, place[0], found.who, place[1], place[2])


def _said(message: Message) -> str:
    """Return a message that any rank can have written."""
    at = f" at {message.where}" if message.where else ""
    if message.kind == "sanitizer":
        return f"a rank has written: {message.text}{at}"
    text = message.text
    if text.startswith(UNCAUGHT):
        text = f"Python exception {text.removeprefix(UNCAUGHT)}"
    return f"the job said: {text}{at}"


def _ended_together(ends: Sequence[RankEnd], text: str) -> Found | None:
    """Return the end of several ranks by one signal that a launcher or a user sends.

    None of them has failed by itself. A rank that left before can be the reason. So can the first
    one that died, if the launcher says in *text* that it has ended the others for that.
    """
    bad = [each for each in ends if each.is_bad]
    if len(bad) < 2 or not _are_alike(ends, text):
        return None
    who = RankSet(each.rank for each in bad)
    what = f"ranks {who} died of {signal_name(bad[0].signal)}, which their launcher or another "
    what += "process has sent"
    if before := RankSet(each.rank for each in ends[: ends.index(bad[0])]) - who:
        what += f"; [{before}] had ended with status 0 before"
    return Found("signal", what, who=who)


def _are_alike(ends: Sequence[RankEnd], text: str) -> bool:
    """Return whether all bad ends are alike, and the launcher's *text* names none as the first."""
    bad = [each for each in ends if each.is_bad]
    noticed = {(int(each["rank"]), int(each["number"])) for each in _NOTICED.finditer(text)}
    is_noticed = not bad[0].world and (bad[0].rank, bad[0].signal) in noticed
    return not is_noticed and len({each.status for each in bad}) == 1


def left_before(ends: Sequence[RankEnd], others_s: float, text: str) -> Found | None:
    """Return the end of ranks that has most likely made their launcher end the others.

    The rank has ended with status 0 right before the others, which a launcher does not mind after
    MPI_Finalize.

    :param ends: the ends of ranks that have ended well.
    :param others_s: Unix time of the end of the others.
    :param text: output of the job. Where Open MPI has lost a message, it can be that of MPI_Abort.
    """
    left = [each for each in ends if not each.world and others_s - each.time < MOST_LEAVING_S]
    if not left:
        return None
    who = RankSet(each.rank for each in left)
    subject = f"rank {who}" if len(who) == 1 else f"ranks {who}"
    how = "without MPI_Finalize" + (", or by MPI_Abort" if _LOST.search(text) else "")
    what = f"{subject} ended with status 0, most likely {how}: the launcher ended the others right "
    return Found("abort", f"{what}after that", who=who)


def _ended_by_batch(text: str, ranks: Mapping[int, int]) -> Found | None:
    """Return the end that a batch system has made of the whole job."""
    words = end_in_words(text)
    return Found("ended", words, who=RankSet(ranks.values())) if words else None


def _with_writers(found: Found, message: Message, outputs: Mapping[int, str]) -> Found:
    """Add the ranks that have written the message, if it names none."""
    if found.who:
        return found
    who = _writers(message, outputs)
    if not who:
        return found
    subject = f"rank {who}" if len(who) == 1 else f"ranks {who}"
    return msgspec.structs.replace(found, what=f"{subject}: {message.text}", who=who)


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


def _is_caught(message: Message, first: RankEnd) -> bool:
    """Return whether the program has caught an exception of Python whose traceback was written,
    or has gone on behind one in an atexit handler, or behind a time limit of its faulthandler.

    The interpreter ends with status 1 at an exception that nobody catches.
    """
    if message.text.startswith(GOES_ON):
        return True
    return message.text.startswith(UNCAUGHT) and first.code not in (0, 1)


def _is_of_another(message: Message, first: RankEnd, outputs: Mapping[int, str]) -> bool:
    """Return whether only other ranks have written a message that names no rank."""
    if message.rank is not None or message.pid is not None or first.world:
        return False
    writers = _writers(message, outputs)
    return bool(writers) and first.rank not in writers


def _is_anybodys(message: Message, first: RankEnd, outputs: Mapping[int, str] | None) -> bool:
    """Return whether any rank can have written a message, and gone on.

    A sanitizer of undefined behavior names no process, and lets the program run on.
    """
    names_none = message.rank is None and message.pid is None
    is_open = message.kind == "sanitizer" and names_none
    return is_open and first.rank not in _writers(message, outputs or {})


def _writers(message: Message, outputs: Mapping[int, str]) -> RankSet:
    """Return the ranks in whose own output a message is."""
    said = message.text, message.where
    return RankSet(
        rank
        for rank, text in outputs.items()
        if any((each.text, each.where) == said for each in messages_in(text))
    )


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
