"""The knot: ranks that wait for each other only, with all that rules need to know about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdb.frontend.analysis.why import words
from pgdb.frontend.analysis.why.graph import Edge
from pgdb.frontend.analysis.why.needs import Need, needs_of
from pgdb.frontend.analysis.why.parties import Party, part
from pgdb.frontend.analysis.why.verdict import NO_STEP, Confidence, Step, Verdict, VerdictKind
from pgdb.frontend.analysis.why.waiting import Waiting
from pgdb.ranks import RankSet

NOT_WATCHED = Step(
    "the ranks did not run while they were watched, so that a message may be in flight; a second "
    "look, after they ran for a moment, would show it",
    ("why",),
)
NOT_SEEN = Step(
    "some calls may have returned, and begun again; a longer watch would show it", ("why --for 10",)
)
ASK_RECORDER = Step(
    "arguments of some calls are unknown; debug information, or the recorder of MPI calls, would "
    "have them"
)


class Knot:
    """Parties that wait for each other only, with all that rules need to know about them."""

    def __init__(
        self, waiting: Waiting, members: Sequence[int], edges: Sequence[Edge], victims: RankSet
    ) -> None:
        self.waiting = waiting
        self.members = members
        self.edges = edges
        """The edges from these parties."""
        self.core = self._waited_for()
        """The ranks of the parties that others of them wait for."""
        everybody = RankSet.union(waiting.parties[each].ranks - waiting.free for each in members)
        self.victims = victims | (everybody - self.core)
        self.parties = [self.party(each) for each in members]
        self.ranks = self.core

    def _waited_for(self) -> RankSet:
        parties = self.waiting.parties
        core = RankSet.union(parties[each].ranks - self.waiting.free for each in self.members)
        # Ranks in equal calls are one party, and a cycle may lead through some of them only.
        while True:
            targets = RankSet.union(
                edge.ranks for edge in self.edges if not parties[edge.waiter].ranks.isdisjoint(core)
            )
            if core <= targets or not core & targets:
                return core
            core = core & targets

    def party(self, number: int) -> Party:
        """Return a member without the ranks that nobody here waits for."""
        return part(self.waiting.parties[number], self.core)

    def having(self, kinds: str) -> list[int]:
        """Return the members that have an open need of one of *kinds*."""
        return [
            each
            for each in self.members
            if any(need.kind in kinds.split() for need in self.waiting.open_needs(each))
        ]

    def open_needs(self, number: int, kinds: str) -> list[Need]:
        """Return the open needs of a member that are of one of *kinds*."""
        return [need for need in self.waiting.open_needs(number) if need.kind in kinds.split()]

    def every_need(self) -> Iterator[Need]:
        """Yield the open needs of all members."""
        for each in self.members:
            yield from self.waiting.open_needs(each)

    def calling(self, function: str) -> RankSet:
        """Return the ranks that are in a function."""
        return RankSet.union(
            each.ranks
            for each in self.parties
            if function in [made.function for made in each.calls]
        )

    @property
    def is_known(self) -> bool:
        """Whether all fields that the verdict rests on are known."""
        return all(
            need.is_known
            for each in self.members
            for need in needs_of(self.waiting.conditions[each])
        )

    def verdict(
        self,
        kind: VerdictKind,
        text: str,
        rule: str,
        *,
        ranks: RankSet | None = None,
        victims: RankSet = RankSet(),
        known: bool | None = None,
        step: Step = ASK_RECORDER,
    ) -> Verdict:
        """Return a verdict about these parties; *ranks* are the cause, all by default.

        *step* is the next one if not all is known.
        """
        cause = self.ranks if ranks is None else ranks
        is_known = self.is_known if known is None else known
        confidence, other = confidence_in(self.waiting, self.ranks, is_known=is_known)
        return Verdict(
            kind=kind,
            ranks=cause,
            victims=(self.victims | victims | self.ranks) - cause,
            text=text,
            confidence=confidence,
            rule=rule,
            evidence=words.evidence(self.parties),
            step=step if confidence == "likely" else other,
        )


def confidence_in(waiting: Waiting, ranks: RankSet, *, is_known: bool) -> tuple[Confidence, Step]:
    """Return the confidence in a verdict about *ranks*, and the step that would decide."""
    dead = RankSet.union(each.ranks for each in waiting.parties if each.is_dead)
    if not ranks - dead <= waiting.watch.still:
        return "cannot tell", NOT_SEEN if waiting.watch.seconds else NOT_WATCHED
    return ("certain", NO_STEP) if is_known else ("likely", ASK_RECORDER)
