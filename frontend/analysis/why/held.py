"""Held ranks: they do not progress until the user releases them, whatever their calls say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from pgdb.frontend.analysis.why import words
from pgdb.frontend.analysis.why.matching import group_of, members_of
from pgdb.frontend.analysis.why.needs import is_meeting
from pgdb.frontend.analysis.why.parties import Party, part
from pgdb.frontend.analysis.why.verdict import Confidence, Step, Verdict, VerdictKind
from pgdb.frontend.analysis.why.waiting import Waiting, Watch
from pgdb.mpi_calls import MpiCall
from pgdb.ranks import RankSet

_WITHOUT_REASON: tuple[VerdictKind, ...] = ("no-progress", "network-or-launcher")


def release(ranks: RankSet) -> str:
    """Return the way out in words: ``'release 3' lets it run again``."""
    return f"'release {ranks}' lets {words.pronoun(ranks)} run again"


def with_held(found: Sequence[Verdict], waiting: Waiting, held: RankSet) -> tuple[Verdict, ...]:
    """Return the verdicts with what is due to *held* ranks, which did not run in the watch."""
    if not held:
        return tuple(found)
    explained = RankSet.union(
        each.ranks | each.victims for each in found if each.kind not in _WITHOUT_REASON
    )
    own = tuple(_verdicts(waiting, held, explained))
    waiters = RankSet.union(each.victims for each in own)
    kept = (
        each for each in found if each.kind not in _WITHOUT_REASON or each.ranks.isdisjoint(waiters)
    )
    return (*(_with_release(each, held) for each in kept), *own)


def summary(watch: Watch, ranks: RankSet) -> str:
    """Return the first line for a job without a verdict whose *ranks* are held in MPI."""
    text = (
        f"whether {words.named(ranks)} {words.verb(ranks, 'hangs')} is unknown: "
        f"{words.subject(ranks)} {words.verb(ranks, 'is')} held, and did not run; {release(ranks)}"
    )
    if not watch.moved:
        return text
    calls = "call" if len(watch.moved) == 1 else "calls"
    return f"the {calls} of {words.named(watch.moved)} returned when the ranks ran; {text}"


def _with_release(verdict: Verdict, held: RankSet) -> Verdict:
    """Return a verdict that names the held ranks in it, and the way out."""
    if verdict.confidence != "cannot tell":
        cause = verdict.ranks & held
        return replace(verdict, text=f"{verdict.text}; {release(cause)}") if cause else verdict
    ranks = (verdict.ranks | verdict.victims) & held
    return replace(verdict, step=_step(ranks)) if ranks else verdict


def _step(ranks: RankSet) -> Step:
    return Step(
        f"{words.named(ranks)} {words.verb(ranks, 'is')} held, and did not run; a look after "
        f"{words.subject(ranks)} {words.verb(ranks, 'has')} run for a moment would show it",
        (f"release {ranks}", "why"),
    )


def _verdicts(waiting: Waiting, held: RankSet, explained: RankSet) -> Iterator[Verdict]:
    """Yield a verdict for each party that stays in a call with held ranks, without those whose
    wait is *explained*.

    A held rank may have done its part before, so that the verdict is never certain.
    """
    watch = waiting.watch
    for number, each in enumerate(waiting.parties):
        ranks = each.ranks - held - explained - watch.moved
        if watch.seconds:
            ranks = ranks & watch.still
        partners = (_partners(waiting, number) & held) - explained
        inside = [part(one, partners) for one in waiting.parties if one.calls]
        inside = [one for one in inside if one.ranks]
        if not ranks or not inside:
            continue
        yield _verdict(watch, part(each, ranks), inside)


def _verdict(watch: Watch, waiter: Party, inside: Sequence[Party]) -> Verdict:
    held, ranks = RankSet.union(one.ranks for one in inside), waiter.ranks
    is_sure = bool(watch.seconds) and not watch.moved
    confidence: Confidence = "likely" if is_sure else "cannot tell"
    return Verdict(
        kind="no-progress",
        ranks=held,
        victims=ranks,
        text=f"{words.named(ranks)} {words.verb(ranks, 'waits')} {words.in_calls([waiter])} for "
        f"{words.named(held)}, which {words.verb(held, 'is')} held {words.in_calls(inside)}; "
        f"{release(held)}",
        confidence=confidence,
        rule="a held rank does not run, so that a call which needs it does not return",
        evidence=words.evidence([waiter, *inside]),
        step=_step(held),
    )


def _partners(waiting: Waiting, number: int) -> RankSet:
    """Return the ranks without which the calls of a party do not return."""
    found = [
        need.targets
        for each in waiting.conditions[number]
        if each.every or each.is_exchange or len(each.needs) == 1
        for need in each.needs
        if need.is_known and (need.every or len(need.targets) == 1)
    ]
    found += [_members(waiting, call) for call in waiting.parties[number].calls if is_meeting(call)]
    return RankSet.union(found)


def _members(waiting: Waiting, call: MpiCall) -> RankSet:
    """Return the members of a collective call's group; those in the function if it is unknown."""
    there = RankSet.union(
        each.ranks
        for each in waiting.parties
        if any(made.function == call.function for made in each.calls)
    )
    if call.kind in ("init", "finalize"):
        return there
    members = members_of(group_of(call))
    return there if members is None else members & there
