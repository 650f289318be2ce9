"""The verdict: the reason why ranks wait, with the evidence for it."""

from __future__ import annotations

from typing import Literal

import msgspec

from pgdb.ranks import RankSet

VerdictKind = Literal[
    "cycle",
    "head-to-head-sends",
    "self-deadlock",
    "unmatched-receive",
    "unmatched-send",
    "unmatched-rma",
    "communicator-mixup",
    "different-collectives",
    "different-roots",
    "different-operations",
    "different-counts",
    "different-datatypes",
    "collective-order",
    "missing-from-collective",
    "waits-for-busy-rank",
    "slow",
    "rank-left",
    "no-connection",
    "no-progress",
    "network-or-launcher",
    "unknown",
]
Confidence = Literal["certain", "likely", "cannot tell"]


class Step(msgspec.Struct, frozen=True):
    """The next step of a reader who wants to be sure."""

    text: str = ""
    """The fact that would decide, in words that hold for readers without a session too."""
    commands: tuple[str, ...] = ()
    """The commands of a session that show it."""


NO_STEP = Step()
LONGER = ("why --for 30",)
"""The command that watches for longer."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why ranks wait."""

    kind: VerdictKind
    ranks: RankSet
    """The ranks whose calls, or whose absence, are the cause."""
    victims: RankSet = RankSet()
    """Ranks that wait because of them."""
    text: str
    """The reason in one sentence."""
    confidence: Confidence
    rule: str
    """The rule that led to the verdict."""
    evidence: tuple[str, ...] = ()
    """The calls and places of the ranks, a line for each party."""
    step: Step = NO_STEP
    """The next step, for a verdict that is not certain."""

    @property
    def decides(self) -> str:
        """The fact that would decide; a reader needs no session to understand it."""
        return self.step.text

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of a session that show that fact."""
        return self.step.commands
