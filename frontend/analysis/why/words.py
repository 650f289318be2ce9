"""Calls, places and ranks in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdb.frontend.analysis.function_names import shown_name
from pgdb.frontend.analysis.why.matching import group_of
from pgdb.frontend.analysis.why.needs import Need
from pgdb.frontend.analysis.why.parties import Party, is_read
from pgdb.mpi_calls import (
    ANY_SOURCE,
    ANY_TAG,
    ELSEWHERE,
    Activity,
    ArrivedMessage,
    CallSite,
    ChildWork,
    Communicator,
    Loop,
    MpiCall,
    MpiCallStatus,
    Peer,
    Request,
    Tag,
)
from pgdb.ranks import RankSet

_ACTIVITIES = {
    "computing": "computes",
    "sleeping": "sleeps",
    "io": "does input or output",
    "lock": "waits for a lock",
    "deadlock": "waits for a lock that it holds itself",
    "thread": "waits for another thread of its own",
    "python": "runs Python code",
    "dying": "is dying",
    "exiting": "is ending",
    "": "is outside MPI",
}
_OF_THREADS = "is in a deadlock of threads"
_INSIDE = {
    **dict.fromkeys(
        ("wait", "wait3", "wait4", "waitid", "waitpid", "system"), "waits for a child process"
    ),
    **dict.fromkeys(("pthread_join", "pthread_timedjoin_np"), "waits for a thread"),
    **dict.fromkeys(("flock", "lockf", "fcntl"), "waits for the lock of a file"),
    **dict.fromkeys(("accept", "accept4"), "waits for a connection"),
    **dict.fromkeys(("poll", "ppoll", "select", "pselect"), "waits for input or output"),
    **dict.fromkeys(("epoll_wait", "epoll_pwait"), "waits for input or output"),
}
"""The work of a rank that blocks in one of these functions, where its activity does not say it."""
_INSIDE_OTHERS = (
    ("gfortran_execute_command_line", "waits for a child process"),
    ("subprocess.", "waits for a child process"),
    ("multiprocessing.", "waits for another process"),
    ("concurrent.futures.process.", "waits for another process"),
    ("asyncio.", "waits in an event loop"),
    ("torch.utils.data.", "waits for a data loader"),
    ("socket.socket.accept", "waits for a connection"),
)
"""The same for functions of Fortran's library and of modules of Python, by the start of a name."""
LOOPS: dict[Loop, str] = {
    "no way out": "in a loop that has no way out",
    "spins": "in a loop that only another thread or process can end",
}
"""The loops of ranks, as the rest of a predicate."""
_CONFINED = (
    "under strict seccomp, in which it is killed at any system call but read, write and exit"
)
_READS = "again and again, and only another rank or thread can write there"
_UNITS = {"h": 3600, "min": 60, "s": 1}
_PLURALS = {
    "computes": "compute",
    "sleeps": "sleep",
    "does": "do",
    "waits": "wait",
    "runs": "run",
    "polls": "poll",
    "is": "are",
    "has": "have",
    "hangs": "hang",
    "needs": "need",
    "ended": "ended",
}
_ABSENCES = {
    "ended": "has ended",
    "lost": "is lost",
    "detached": "is detached and runs on",
    "running": "runs",
    "silent": "has not answered",
    "failed": "could not be looked at",
}
_MOST_REQUESTS = 4
_MOST_CALLS = 2
_MOST_LETTERS = 60
MOST_STEPS = 8
"""Most ranks of a cycle that its verdict names."""


def named(ranks: RankSet) -> str:
    """Return ranks as the subject of a sentence: ``rank 3``, ``ranks 0-2,5``.

    Where ranges are many, the text has the first ones and the number of ranks.
    """
    text = str(ranks)
    if len(text) > _MOST_LETTERS:
        first = text[:_MOST_LETTERS].rpartition(",")[0]
        return f"{len(ranks)} ranks ({first},…)"
    return f"rank {text}" if len(ranks) == 1 else f"ranks {text}"


def pronoun(ranks: RankSet) -> str:
    """Return the pronoun for ranks as an object."""
    return "it" if len(ranks) == 1 else "them"


def subject(ranks: RankSet) -> str:
    """Return the pronoun for ranks as a subject."""
    return "it" if len(ranks) == 1 else "they"


def verb(ranks: RankSet, text: str) -> str:
    """Return a phrase whose first word is a verb of one rank, for *ranks*."""
    first, blank, rest = text.partition(" ")
    word = first.rstrip(",")
    plural = _PLURALS.get(word, word) + first[len(word) :]
    return text if len(ranks) == 1 else f"{plural}{blank}{rest}"


def place(where: CallSite | None) -> str:
    """Return a place in the user's code: ``exchange at ring.c:57``; empty if it is unknown."""
    if where is None:
        return ""
    file = where.file.rpartition("/")[2]
    at = f"{file}:{where.line}" if where.line else where.library.rpartition("/")[2]
    name = shown_name(where.function)
    return f"{name} at {at}" if name and at else name or at


def communicator(comm: Communicator | None, *, brief: bool = False) -> str:
    """Return a communicator with its members; empty if nothing about it is known."""
    if comm is None:
        return ""
    name = comm.name or "a communicator"
    if brief and comm.name:
        return name
    if comm.remote == ELSEWHERE:
        return f"{name} of [{comm.members}] and another world"
    if comm.remote:
        return f"{name} of [{comm.members}] with [{comm.remote}]"
    return f"{name} [{comm.members}]" if comm.members is not None else name


def call(made: MpiCall, *, brief: bool = False) -> str:
    """Return a call with its arguments: ``MPI_Recv from 1 with tag 7 in MPI_COMM_WORLD [0-3]``."""
    parts = [made.function]
    if made.dest is not None:
        parts.append(f"to {_peer(made.dest)}")
    if made.kind == "sendrecv" and made.tag is not None:
        parts.append(_tag(made.tag))
    if made.source is not None:
        parts.append(f"from {_peer(made.source)}")
    if made.kind == "sendrecv":
        if made.receive_tag is not None:
            parts.append(_tag(made.receive_tag))
    elif made.tag is not None:
        parts.append(_tag(made.tag))
    if made.root is not None:
        parts.append(f"with root {made.root}")
    if made.displacement is not None:
        parts.append(f"at {made.displacement}")
    if made.kind == "rma" and made.group is not None and made.group.members:
        parts.append(f"for [{made.group.members}]")
    if made.operation:
        parts.append(f"of {made.operation}")
    if made.count is not None and made.kind == "collective":
        parts.append(f"of {made.count} {made.datatype or 'elements'}")
    if made.requests:
        parts.append(_requests(made.requests, made.waits_for))
    if text := communicator(group_of(made), brief=brief):
        parts.append(f"in {text}")
    if made.part_of:
        parts.append(f"as a part of {made.part_of}")
    return " ".join(parts)


def _requests(requests: Sequence[Request], waits_for: str) -> str:
    open_ones = [each for each in requests if not each.complete and each.kind != "null"]
    texts = [request(each) for each in open_ones[:_MOST_REQUESTS]]
    if len(open_ones) > _MOST_REQUESTS:
        texts.append(f"{len(open_ones) - _MOST_REQUESTS} more")
    joined = (" or " if waits_for in ("any", "some") else " and ").join(texts)
    return f"for {joined}" if joined else "for completed requests"


def request(made: Request) -> str:
    """Return a request: ``a receive from 2 with tag 7``."""
    kind = (made.kind or "unknown request").replace("recv", "receive")
    parts = [f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"]
    if made.peer is not None:
        parts.append(f"{'to' if 'send' in kind else 'from'} {_peer(made.peer)}")
    if made.tag is not None:
        parts.append(_tag(made.tag))
    return " ".join(parts)


def _peer(peer: Peer) -> str:
    return "any rank" if peer == ANY_SOURCE else str(peer)


def _tag(tag: Tag) -> str:
    return "with any tag" if tag == ANY_TAG else f"with tag {tag}"


def state(party: Party) -> str:
    """Return the state of one rank of a party, as a predicate: ``waits in MPI_Recv from 1``."""
    if party.absence:
        reason = party.text
        if party.absence == "ended" and reason:
            return f"has {reason}"
        return _ABSENCES[party.absence] + (f" ({reason})" if reason else "")
    status = party.status
    at = place(status.where)
    suffix = f", in {at}" if at else ""
    if party.text:
        return f"is {party.text}{suffix if at and at not in party.text else ''}"
    match status.state:
        case "in_call" if party.call is not None:
            texts = " and ".join(call(each) for each in party.calls)
            loop = f", {_READS if is_read(status) else LOOPS[status.loop]}" if status.loop else ""
            return f"{'polls' if party.is_polling else 'is'} in {texts}{loop}{suffix}"
        case "outside":
            return f"{_outside(status)}{suffix}{_children(status)}"
        case "before_init":
            return f"has not called MPI_Init{suffix}"
        case "after_finalize":
            return f"has left MPI by MPI_Finalize{suffix}"
        case "no_mpi":
            program = "that may use MPI or not" if status.note else "without MPI"
            text = _outside(status) if status.activity else f"runs a program {program}"
            return f"{text}{suffix}{_children(status)}"
    return f"is in an unknown state{suffix}"


def sleep(least_s: int) -> str:
    """Return the length of a sleep in words."""
    if not least_s:
        return "less than 1 s"
    unit = next((each for each in _UNITS if least_s >= _UNITS[each]), "s")
    return f"{least_s // _UNITS[unit]} {unit} or longer"


def _children(status: MpiCallStatus) -> str:
    """Return the work of the child processes that a rank waits for."""
    is_alone = sum(each.count for each in status.children) == 1
    return "".join(f"; {_child(each, is_alone=is_alone)}" for each in status.children)


def _child(work: ChildWork, *, is_alone: bool) -> str:
    """Return the work of child processes: ``its child process sleeps, in load at data.py:9``."""
    who = "its child process" if is_alone else "one child process"
    if work.count > 1:
        who = f"{work.count} child processes"
    at = place(work.where)
    if work.state == "idle":
        return f"{who} {_of_count('waits', work.count)} for a job"
    if work.state == "stopped":
        return f"{who} ({work.program}) {_of_count('is', work.count)} stopped by a signal"
    if work.activity == "exiting":
        return f"{who} ({work.program}) {_of_count('has', work.count)} ended"
    text = _work(work.activity, work.inside) if work.activity else "runs"
    name = "" if at else f" ({work.program})"
    return f"{who}{name} {_of_count(text, work.count)}{f', in {at}' if at else ''}"


def _of_count(predicate: str, count: int) -> str:
    """Return a predicate for one process or for several."""
    return verb(RankSet(range(count)), predicate)


def _outside(status: MpiCallStatus) -> str:
    """Return the work of a rank outside MPI."""
    text = _ACTIVITIES[status.activity]
    if status.activity == "deadlock" and status.thread:
        # The first thread waits, directly or not, for one that has what it waits for.
        return (
            f"{_OF_THREADS}{f' in {status.inside}' * bool(status.inside)} in thread {status.thread}"
        )
    if status.activity == "sleeping" and status.sleeps_s is not None:
        text += f" for {sleep(status.sleeps_s)}"
    if status.inside:
        text = _work(status.activity, status.inside)
    if status.waits_on:
        text += f" on {status.waits_on}"
    if status.thread:
        text += f" in thread {status.thread}"
    if status.callback_of is not None:
        text += f" in a function that {status.callback_of.function} has called"
    if status.is_confined:
        text += f", {_CONFINED}"
    return f"{text}, {LOOPS[status.loop]}" if status.loop else text


def _work(activity: Activity, inside: str) -> str:
    """Return the work of a process with the function of a library in which it blocks."""
    text = _ACTIVITIES[activity]
    if not inside:
        return text
    known = (each for begin, each in _INSIDE_OTHERS if inside.startswith(begin))
    return f"{_INSIDE.get(inside) or next(known, text)} in {inside}"


def states(party: Party) -> str:
    """Return the state of all ranks of a party."""
    return verb(party.ranks, state(party))


def evidence(parties: Iterable[Party]) -> tuple[str, ...]:
    """Return a line for each party: ``[0] is in MPI_Recv from 1, in main at ring.c:57``."""
    lines = []
    for party in parties:
        lines.append(f"[{party.ranks}] {states(party)}{_untaken(party)}")
        lines += [
            f"[{party.ranks}] has a child process in {' > '.join(each.frames)}"
            for each in party.status.children
            if each.frames
        ]
    return tuple(lines)


def _untaken(party: Party) -> str:
    """Return the messages that have come and that no receive takes."""
    texts = list(map(arrived, party.status.arrived))
    if not texts:
        return ""
    if len(texts) > _MOST_REQUESTS:
        texts = [*texts[:_MOST_REQUESTS], f"{len(texts) - _MOST_REQUESTS} more"]
    return f"; no receive takes what has come {', '.join(texts)}"


def arrived(made: ArrivedMessage) -> str:
    """Return a message in words: ``from 3 with tag 7 in MPI_COMM_WORLD``."""
    comm = communicator(made.communicator, brief=True)
    if made.function:
        return f"from {made.source} in {made.function}{f' in {comm}' if comm else ''}"
    return f"from {made.source} with tag {made.tag}{f' in {comm}' if comm else ''}"


def notes(parties: Iterable[Party]) -> tuple[str, ...]:
    """Return a line for each reason why ranks have unknown arguments, or an unknown state."""
    found: dict[str, list[RankSet]] = {}
    for each in parties:
        if each.status.note:
            found.setdefault(each.status.note, []).append(each.ranks)
    return tuple(f"[{RankSet.union(ranks)}] {note}" for note, ranks in found.items())


def at(party: Party) -> str:
    """Return the place of a party in parentheses, empty if it is unknown."""
    where = place(party.status.where)
    return f" ({where})" if where else ""


def short(party: Party) -> str:
    """Return a party with its first call in few words."""
    made = party.call
    text = call(made, brief=True) if made is not None else state(party)
    return f"[{party.ranks}] {text}{at(party)}"


def in_calls(parties: Sequence[Party], *, named_only: bool = False) -> str:
    """Return the first calls of parties: ``in MPI_Recv from 1 in library (main at ring.c:57)``.

    Of many different calls, and with *named_only*, only the functions and places are named.
    """
    made = [(each, each.call) for each in parties if each.call is not None]
    texts = list(dict.fromkeys(f"{call(one, brief=True)}{at(each)}" for each, one in made))
    if named_only or len(texts) > _MOST_CALLS:
        texts = list(dict.fromkeys(f"{one.function}{at(each)}" for each, one in made))
    if len(texts) > _MOST_CALLS + 1:
        texts = [*texts[:_MOST_CALLS], "other calls"]
    return f"in {' and '.join(texts)}" if texts else "in calls of MPI"


def wanted(need: Need) -> str:
    """Return a message in words: ``from rank 1 with tag 7 in MPI_COMM_WORLD``."""
    to = "to" if need.kind == "receiver" else "from"
    some = "any rank" if need.peer == ANY_SOURCE else "a rank that is unknown"
    peer = f"{to} rank {need.peer}" if isinstance(need.peer, int) else f"{to} {some}"
    tag = f" with tag {need.tag}" if isinstance(need.tag, int) else ""
    comm = communicator(need.communicator, brief=True)
    return f"{peer}{tag}{f' in {comm}' if comm else ''}"


def any_of(texts: Sequence[str]) -> str:
    """Return texts of which one holds."""
    if len(texts) > _MOST_REQUESTS:
        texts = [*texts[:_MOST_REQUESTS], f"{len(texts) - _MOST_REQUESTS} others"]
    return " or ".join(texts)
