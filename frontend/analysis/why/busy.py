"""Verdicts about ranks outside MPI that others wait for: they never come, or they are slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdb.frontend.analysis.why import graph, words
from pgdb.frontend.analysis.why.graph import Edge
from pgdb.frontend.analysis.why.parties import Party, is_read, part
from pgdb.frontend.analysis.why.verdict import (
    LONGER,
    NO_STEP,
    Confidence,
    Step,
    Verdict,
    VerdictKind,
)
from pgdb.frontend.analysis.why.waiting import Waiting
from pgdb.ranks import RankSet

KINDS: tuple[VerdictKind, ...] = ("missing-from-collective", "waits-for-busy-rank")
_BLOCKED = ("sleeping", "lock", "thread", "deadlock", "io", "exiting", "dying")
_LONG_SLEEP_S = 600
"""Least length of a sleep that is no pause of a program that works, in seconds."""


def verdicts(waiting: Waiting, edges: Sequence[Edge], stuck: Sequence[int]) -> Iterator[Verdict]:
    """Yield a verdict for each party outside MPI that others wait for, if none has progressed."""
    parties, watch = waiting.parties, waiting.watch
    network = graph.digraph(waiting, edges)
    blocked = {number for number, each in enumerate(parties) if each.calls}
    entering: dict[int, list[Edge]] = {}
    for edge in edges:
        if edge.waiter != edge.target:
            entering.setdefault(edge.target, []).append(edge)
    for number, direct in sorted(entering.items()):
        party = parties[number]
        is_busy = not party.calls or party.is_polling or party.is_passing
        if not is_busy or party.is_dead or number in stuck:
            continue
        if not party.ranks.isdisjoint(watch.moved):
            continue
        if party.is_polling and party.ranks <= watch.still and _waits(number, edges):
            continue  # a victim: its message is still to come
        above = [each for each in graph.reaching(network, [number]) if each in blocked]
        victims = RankSet.union(parties[each].ranks for each in above) - party.ranks
        if not victims.isdisjoint(watch.moved) or not {*above} - {*stuck}:
            continue
        waiters = RankSet.union(parties[each.waiter].ranks for each in direct)
        is_collective = any(_is_part_of_call(each, parties[each.waiter]) for each in direct)
        kind: VerdictKind = "missing-from-collective" if is_collective else "waits-for-busy-rank"
        confidence, step = _confidence(waiting, number, victims)
        text = f"{words.named(waiters)} {words.verb(waiters, 'waits')} "
        text += words.in_calls([parties[each] for each in sorted({one.waiter for one in direct})])
        wanted = RankSet.union(each.ranks for each in direct)
        party = part(party, wanted)
        text += f" for {words.named(wanted)}, which {words.states(party)}"
        yield Verdict(
            kind=kind,
            ranks=wanted,
            victims=victims,
            text=text,
            confidence=confidence,
            rule="the chain of waiting ranks ends at a rank that is in no such call",
            evidence=words.evidence([party, *(parties[each] for each in above)]),
            step=step,
        )


def _is_part_of_call(edge: Edge, waiter: Party) -> bool:
    """Return whether a party waits for the part of another one in a collective call."""
    if edge.need.kind != "others":
        return edge.need.kind == "meeting"
    # The members that such a call needs are known to the library alone.
    return all(each.kind in ("collective", "comm") for each in waiter.calls)


def _confidence(waiting: Waiting, number: int, victims: RankSet) -> tuple[Confidence, Step]:
    """Return how sure it is that a party never comes, and the step that would decide.

    A rank that works is slow until a proof says that it never comes. A rank that blocks and does no
    work comes if somebody else lets it.
    """
    party, watch, status = waiting.parties[number], waiting.watch, waiting.parties[number].status
    if party.absence:
        if party.absence == "running":
            command = f"proc {party.ranks} interrupt"
            return "cannot tell", Step("where it is, which a stop would show", (command,))
        return "cannot tell", Step(f"the state of [{party.ranks}] is unknown")
    if party.text:
        return "certain", NO_STEP
    if not watch.seconds:
        text = "it may be slow, or never come; a look after the ranks have run would show it"
        return "cannot tell", Step(text, ("why",))
    if not party.ranks | victims <= watch.still:
        text = f"it is at work: it moved within {watch.seconds:g} s; a longer watch would show it"
        return "cannot tell", Step(text, LONGER)
    if status.loop == "no way out" or status.activity == "deadlock":
        return "certain", NO_STEP
    if status.loop == "spins":
        if _others_work(waiting, number):
            text = "another rank is at work, and may end the loop; a longer watch would show it"
            return "cannot tell", Step(text, ("progress",))
        if is_read(status):
            text = f"it read this place for {watch.seconds:g} s; a longer watch would show it"
            return "likely", Step(text, LONGER)
        text = "another thread may end the loop; the stacks of all threads would show it"
        return "likely", Step(text, ("tree --threads",))
    if party.is_polling:
        text = f"it polled for {watch.seconds:g} s; a longer watch would show it"
        return "likely", Step(text, LONGER)
    if not is_blocked(party):
        text = (
            f"it computed for {watch.seconds:g} s: it is slow, or in a loop that does not end; a "
            "longer watch shows whether it moves"
        )
        return "cannot tell", Step(text, ("progress", *LONGER))
    if status.worked or status.worked is None:
        text = (
            "its other threads or child processes are at work; the stacks of its threads, and a "
            "longer watch, would show it"
        )
        return "cannot tell", Step(text, ("tree --threads", *LONGER))
    if status.activity == "sleeping":
        if status.sleeps_s is not None and status.sleeps_s < _LONG_SLEEP_S:
            text = f"it sleeps for {words.sleep(status.sleeps_s)}, and wakes up then"
            return "cannot tell", Step(f"{text}; a longer watch would show it", LONGER)
        return "likely", Step("it may wake up; a longer watch would show it", LONGER)
    if status.activity == "io" and _others_work(waiting, number):
        text = (
            "another rank is at work, and may end its input or output; a longer watch would show it"
        )
        return "cannot tell", Step(text, LONGER)
    text = f"it did not leave this place in {watch.seconds:g} s, and used no processor"
    return "likely", Step(f"{text}; a longer watch would show it", LONGER)


def is_blocked(party: Party) -> bool:
    """Return whether ranks outside MPI wait for something, and do not compute."""
    return not party.calls and party.status.activity in _BLOCKED


def _waits(number: int, edges: Sequence[Edge]) -> bool:
    """Return whether a party waits for another one."""
    return any(each.waiter == number != each.target for each in edges)


def _others_work(waiting: Waiting, number: int) -> bool:
    """Return whether another party is, or may be, at work."""
    return any(
        not each.calls
        and not each.is_dead
        and not each.text
        and not each.status.loop
        and not is_blocked(each)
        for other, each in enumerate(waiting.parties)
        if other != number
    )
