"""Explanations: from the calls of all ranks to verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.rich_display import RichText
from pgdb.frontend.analysis.why import (
    busy,
    deadlocks,
    followers,
    graph,
    held,
    receivers,
    words,
)
from pgdb.frontend.analysis.why.graph import Edge
from pgdb.frontend.analysis.why.knot import ASK_RECORDER, Knot
from pgdb.frontend.analysis.why.needs import SPAWNS, is_meeting
from pgdb.frontend.analysis.why.parties import Elsewhere, Party, parties_of
from pgdb.frontend.analysis.why.verdict import LONGER, NO_STEP, Confidence, Step, Verdict
from pgdb.frontend.analysis.why.waiting import NO_WATCH, Waiting, Watch, solve
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record

_NO_RANKS = RankSet()
_ORDER: tuple[Confidence, ...] = ("certain", "likely", "cannot tell")


class Explanation(msgspec.Struct, RichText, frozen=True):
    """The waits of all ranks, with the reasons."""

    verdicts: tuple[Verdict, ...]
    """The reasons, the most certain first; empty for a job in which no rank hangs."""
    waits: tuple[Party, ...]
    """All ranks with their calls; each rank is in one."""
    edges: tuple[Edge, ...]
    """The waits between parties, by the numbers of *waits*."""
    watch: Watch = NO_WATCH
    summary: str = ""
    """The first line, in plain words."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The reasons why arguments or states are unknown, each with its ranks."""
        return words.notes(self.waits)


def explain(
    classes: Iterable[EquivalenceClass[Record]],
    elsewhere: Sequence[Elsewhere] = (),
    watch: Watch = NO_WATCH,
    held_ranks: RankSet = _NO_RANKS,
) -> Explanation:
    """Explain why ranks wait, from the MpiCallStatus of each.

    *elsewhere* are ranks without a status, and those that PGDB has stopped for another reason.
    *watch* is the outcome of letting ranks run before their calls were listed. *held_ranks* are
    stopped, and did not run in it.
    """
    parties, inferred = receivers.inferred(parties_of(classes, elsewhere), watch.still)
    waiting = solve(parties, watch)
    edges = graph.edges_of(waiting)
    found, edges = followers.follow(waiting, edges, tuple(_verdicts(waiting, edges)))
    found = held.with_held(found or tuple(_unexplained(waiting)), waiting, held_ranks)
    verdicts = receivers.as_likely(found, inferred)
    verdicts = sorted(verdicts, key=_order_of)
    if notes := words.notes(parties):
        # Debug information and the recorder are no help where the library is the reason.
        step = Step(f"arguments of some calls are unknown: {'; '.join(notes)}")
        verdicts = [
            replace(each, step=step) if each.step is ASK_RECORDER else each for each in verdicts
        ]
    return Explanation(
        tuple(verdicts), parties, edges, watch, _summary(verdicts, waiting, held_ranks)
    )


def slow(before: Explanation, after: Explanation) -> Explanation:
    """Return *after*, with the ranks that others waited for *before*, and that came at last."""
    found = []
    for each in before.verdicts:
        came = each.victims & after.watch.moved
        if each.kind not in busy.KINDS or not came:
            continue
        returned = f"{words.named(came)} went on after {after.watch.seconds:g} s"
        verdict = replace(
            each,
            kind="slow",
            text=f"not hung, but slow: {each.text}; {returned}",
            confidence="likely",
            rule="ranks waited for a rank outside MPI, and their calls returned at last",
            step=NO_STEP,
        )
        found.append(verdict)
    return replace(after, verdicts=(*after.verdicts, *found), summary="") if found else after


def with_flight(found: Explanation, verdicts: Iterable[Verdict]) -> Explanation:
    """Return an explanation with the verdicts of PyTorch's flight records as well."""
    every = (*found.verdicts, *verdicts)
    if len(every) == len(found.verdicts):
        return found
    return replace(found, verdicts=tuple(sorted(every, key=_order_of)), summary="")


def _order_of(verdict: Verdict) -> tuple[int, int]:
    """Return the place of a verdict among others: sure ones first, of these that of most ranks."""
    return _ORDER.index(verdict.confidence), -len(verdict.ranks | verdict.victims)


def suspects(
    classes: Iterable[EquivalenceClass[Record]], elsewhere: Sequence[Elsewhere] = ()
) -> RankSet:
    """Return the ranks that have to run for a moment to show whether they hang.

    They are those that cannot progress, were no message in flight. If further ranks wait in calls,
    these belong to them, together with the ranks outside MPI that others wait for.
    """
    waiting = solve(parties_of(classes, elsewhere))
    parties = waiting.parties
    stuck = RankSet.union(waiting.stuck(each) for each in range(len(parties)))
    blocked = RankSet.union(each.ranks for each in parties if each.calls)
    if blocked == stuck:
        return stuck
    targets = {each.target for each in graph.edges_of(waiting)}
    return blocked | RankSet.union(parties[each].ranks for each in targets)


def _verdicts(waiting: Waiting, edges: Sequence[Edge]) -> Iterator[Verdict]:
    parties = waiting.parties
    stuck = [each for each in range(len(parties)) if waiting.stuck(each)]
    network = graph.digraph(waiting, edges)
    nodes = stuck + [number for number, each in enumerate(parties) if each.is_dead]
    leaving: dict[int, list[Edge]] = {}
    for edge in edges:
        leaving.setdefault(edge.waiter, []).append(edge)
    blocked = {*stuck}
    for members in graph.knots(network, nodes):
        above = [each for each in graph.reaching(network, members) if each in blocked]
        victims = RankSet.union(waiting.stuck(each) for each in above)
        own = [edge for each in members for edge in leaving.get(each, ())]
        knot = Knot(waiting, members, own, victims)
        if not parties[members[0]].is_dead:
            yield deadlocks.deadlock(knot)
        elif waiters := [each for each in above if members[0] in network.successors(each)]:
            yield deadlocks.ended(knot, waiters)
    yield from busy.verdicts(waiting, edges, stuck)
    yield from _without_progress(waiting, stuck)


def _without_progress(waiting: Waiting, stuck: Sequence[int]) -> Iterator[Verdict]:
    """Yield a verdict about ranks that wait for nobody who is missing, and do not return."""
    watch = waiting.watch
    if not watch.seconds or stuck:
        return
    parties = [
        each
        for number, each in enumerate(waiting.parties)
        if each.calls and each.ranks <= watch.still and not waiting.waits(number)
    ]
    parties = [each for each in parties if any(map(is_meeting, each.calls))]
    if not parties:
        return
    ranks = RankSet.union(each.ranks for each in parties)
    everybody = RankSet.union(each.ranks for each in waiting.parties)
    functions = {made.function for each in parties for made in each.calls}
    names = " and ".join(sorted(functions))
    is_edge = functions <= {"MPI_Init", "MPI_Init_thread", "MPI_Finalize"}
    text = f"{words.named(ranks)} {words.verb(ranks, 'is')} in {names}, and no call returns"
    if is_edge and ranks == everybody:
        yield Verdict(
            kind="network-or-launcher",
            ranks=ranks,
            text=f"{text}: the launcher or the network may be in trouble",
            confidence="likely",
            rule="all ranks are at the beginning or the end of MPI, and none waits for another",
            evidence=words.evidence(parties),
            step=Step("the output of the launcher, and a longer watch", LONGER),
        )
        return
    if functions <= SPAWNS:
        yield _started_processes(waiting, parties, f"{text} within {watch.seconds:g} s")
        return
    yield Verdict(
        kind="no-progress",
        ranks=ranks,
        text=f"{text} within {watch.seconds:g} s, though all members are there",
        confidence="cannot tell",
        rule="all members of the communicator are in the call",
        evidence=words.evidence(parties),
        step=Step("a large message may need longer; a longer watch would show it", LONGER),
    )


def _started_processes(waiting: Waiting, parties: Sequence[Party], text: str) -> Verdict:
    """Return the verdict about ranks that wait for processes which MPI_Comm_spawn starts.

    The call returns when all of these have called MPI_Init. Nothing says which ranks they are.
    """
    outside = RankSet.union(each.ranks for each in waiting.parties if not each.calls)
    which = "the processes that it starts"
    if outside:
        verb = words.verb(outside, "is")
        which += f"; {words.named(outside)}, which {verb} not in MPI, may be among them"
    return Verdict(
        kind="no-progress",
        ranks=RankSet.union(each.ranks for each in parties),
        text=f"{text}: the call waits until MPI_Init has returned in {which}",
        confidence="cannot tell",
        rule="all members of the communicator are in the call, and the started processes are not "
        "known to have left MPI_Init",
        evidence=words.evidence(parties),
        step=Step("where the started processes are", ("worlds", "proc @world1 continue")),
    )


def _unexplained(waiting: Waiting) -> Iterator[Verdict]:
    """Yield a verdict for a job all of whose ranks stand still in MPI, if the calls do not say why.

    An unknown request may be one that completes, so that nothing is known to be missing.
    """
    watch = waiting.watch
    parties = [each for each in waiting.parties if not each.is_dead]
    if not watch.seconds or not parties:
        return
    if not all(each.calls and each.ranks <= watch.still for each in parties):
        return
    ranks = RankSet.union(each.ranks for each in parties)
    text = f"{words.named(ranks)} {words.verb(ranks, 'waits')} in MPI, and no call returned within"
    yield Verdict(
        kind="no-progress",
        ranks=ranks,
        text=f"{text} {watch.seconds:g} s; for whom is unknown",
        confidence="cannot tell",
        rule="all ranks are in calls of MPI, and the known arguments do not say what is missing",
        evidence=words.evidence(parties),
        step=Step("all calls with their arguments, and a longer watch", ("why --all", *LONGER)),
    )


def _summary(verdicts: Sequence[Verdict], waiting: Waiting, held_ranks: RankSet) -> str:
    parties, watch = waiting.parties, waiting.watch
    if verdicts:
        return ""
    blocked = RankSet.union(each.ranks for each in parties if each.calls)
    everybody = RankSet.union(each.ranks for each in parties)
    if parties and all(each.status.state == "no_mpi" for each in parties):
        if any(each.status.note for each in parties):
            return "no rank is known to use MPI: 'tree' shows where ranks are"
        return "no rank is in a call of MPI or of torch.distributed: 'tree' shows where ranks are"
    if stays := held_ranks & blocked:
        return held.summary(watch, stays)
    if watch.moved:
        calls = "call" if len(watch.moved) == 1 else "calls"
        return (
            f"no rank hangs: the {calls} of {words.named(watch.moved)} returned when the ranks ran "
            f"for a moment"
        )
    if not blocked:
        dead = RankSet.union(each.ranks for each in parties if each.is_dead)
        if dead == everybody:
            return "no rank hangs: all have ended"
        left = RankSet.union(each.ranks for each in parties if each.absence == "detached")
        if left and left | dead == everybody:
            return (
                f"no rank was looked at: {words.named(left)} {words.verb(left, 'is')} detached; "
                "'reattach' attaches again"
            )
        return "no rank hangs: none waits in a call of MPI"
    return (
        f"no rank hangs, as far as the calls say: {words.named(blocked)} "
        f"{words.verb(blocked, 'is')} in MPI, and the ranks they wait for can progress"
    )
