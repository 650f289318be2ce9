"""The lines of ``--json`` about ranks that wait for others."""

from __future__ import annotations

from pgdb.frontend.show.json.json_base import LineBase
from pgdb.frontend.show.json.json_parts import FlightGroup, RankText, WhyVerdict, WhyWait


class WhyLine(LineBase, frozen=True, kw_only=True, tag="why"):
    """The reasons why ranks wait, the most certain first; no verdict if no rank hangs."""

    command: str
    verdicts: tuple[WhyVerdict, ...]
    waits: tuple[WhyWait, ...]
    watched_s: float = 0.0
    """Time for which ranks ran between two looks; 0 if they stayed stopped."""
    returned: RankText = ""
    """Ranks whose call returned meanwhile."""
    summary: str = ""
    """The result in words, if there is no verdict."""
    files: tuple[str, ...] = ()
    """Files written from the graph."""


class FlightLine(LineBase, frozen=True, kw_only=True, tag="flight"):
    """The ranks of each process group of PyTorch by their last collective call."""

    command: str
    groups: tuple[FlightGroup, ...]
