"""The verdicts of ``why`` as part of a report."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.why.explain import Explanation
from pgdb.frontend.analysis.why.parties import Elsewhere
from pgdb.frontend.analysis.why.verdict import Verdict as Finding
from pgdb.frontend.api.explaining import explain_waits
from pgdb.frontend.api.session import Session
from pgdb.frontend.report.model import Verdict, Wait
from pgdb.frontend.show.json.json_why import why
from pgdb.ranks import RankSet

_MERE_WAITS = frozenset({"waits-for-busy-rank"})
"""Kinds of verdicts that are no failure: the ranks wait for others that work."""


async def explain(
    session: Session, *, watches: bool, elsewhere: Sequence[Elsewhere] = ()
) -> tuple[tuple[Verdict, ...], tuple[Wait, ...], tuple[str, ...]]:
    """Return the verdicts, the waits, and the reasons why there are none, or not all.

    With *watches*, ranks that wait run for a moment, which alone shows whether they hang.
    *elsewhere* are ranks that ended before the session.
    """
    if session.state.running and not watches:
        return (), (), (f"ranks [{session.state.running}] run, and were not stopped for it",)
    try:
        found = await explain_waits(session, look_only=not watches, elsewhere=elsewhere)
    except PgdbError as error:
        return (), (), (str(error),)
    explanation = found.explanation
    verdicts = (_verdict(each, explanation.watch.still) for each in explanation.verdicts)
    return tuple(verdicts), _waits(explanation), explanation.notes


def _verdict(finding: Finding, still: RankSet) -> Verdict:
    # Ranks whose calls have not returned in that moment hang, whatever the reason is.
    is_sure = finding.confidence != "cannot tell" or not still.isdisjoint(finding.ranks)
    is_error = finding.kind not in _MERE_WAITS and is_sure
    decides = (f"to decide: {finding.decides}",) if finding.decides else ()
    return Verdict(
        kind=finding.kind,
        text=finding.text,
        ranks=str(finding.ranks),
        victims=str(finding.victims),
        confidence=finding.confidence,
        details=(*finding.evidence, *decides),
        is_error=is_error,
    )


def _waits(explanation: Explanation) -> tuple[Wait, ...]:
    waiters = {edge.waiter for edge in explanation.edges}
    return tuple(
        Wait(ranks=each.ranks, on=each.peers, text=each.text)
        for number, each in enumerate(why(explanation, "").waits)
        if number in waiters
    )
