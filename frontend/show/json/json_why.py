"""The line of ``why``."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from pgdb.frontend.analysis.why import words
from pgdb.frontend.analysis.why.explain import Explanation
from pgdb.frontend.analysis.why.matching import group_of, members_of
from pgdb.frontend.analysis.why.parties import Party
from pgdb.frontend.analysis.why.verdict import Verdict
from pgdb.frontend.show.json.json_parts import WhyVerdict, WhyWait
from pgdb.frontend.show.json.json_waits import WhyLine
from pgdb.mpi_calls import ANY_SOURCE
from pgdb.ranks import RankSet


def why(found: Explanation, command: str, files: Sequence[str] = ()) -> WhyLine:
    """Return the line of an explanation."""
    waited: dict[int, list[RankSet]] = {}
    for edge in found.edges:
        waited.setdefault(edge.waiter, []).append(edge.ranks)
    return WhyLine(
        time=0.0,
        command=command,
        verdicts=tuple(map(_verdict, found.verdicts)),
        waits=tuple(
            _wait(each, RankSet.union(waited.get(number, ())))
            for number, each in enumerate(found.waits)
        ),
        watched_s=found.watch.seconds,
        returned=str(found.watch.moved),
        summary=found.summary,
        files=tuple(files),
    )


def _verdict(verdict: Verdict) -> WhyVerdict:
    return WhyVerdict(
        kind=verdict.kind,
        ranks=str(verdict.ranks),
        victims=str(verdict.victims),
        text=verdict.text,
        confidence=verdict.confidence,
        rule=verdict.rule,
        evidence=verdict.evidence,
        decides=verdict.decides,
        commands=verdict.commands,
    )


def _wait(party: Party, waited_for: RankSet) -> WhyWait:
    status, call = party.status, party.call
    where = status.where
    plain = WhyWait(
        ranks=str(party.ranks),
        state=party.absence or status.state,
        function=where.function if where is not None else "",
        file=where.file if where is not None else "",
        line=where.line if where is not None else 0,
        activity=status.activity,
        thread=status.thread,
        text=words.states(party),
        note=status.note,
    )
    if call is None:
        return plain
    group = group_of(call)
    named = (call.dest, call.source, *(each.peer for each in call.requests if not each.complete))
    peers = waited_for or RankSet(each for each in named if isinstance(each, int))
    open_requests = [each for each in call.requests if not each.complete and each.kind != "null"]
    return replace(
        plain,
        call=call.function,
        communicator=group.name if group is not None else "",
        members=str(members_of(group) or ""),
        peers=str(peers),
        any_source=ANY_SOURCE in named,
        tag=UNSET if call.tag is None else call.tag,
        root=UNSET if call.root is None else call.root,
        operation=call.operation or "",
        count=UNSET if call.count is None else call.count,
        datatype=call.datatype or "",
        requests=tuple(map(words.request, open_requests)),
        arrived=tuple(map(words.arrived, status.arrived)),
        source=", ".join(sorted({each.source for each in call.sources})),
    )
