"""Messages for the loss of an aggregator: the ranks, the reason, the remedy."""

from __future__ import annotations

from collections.abc import Mapping

from pgdb.overlay.channel import SILENT
from pgdb.overlay.messages import Hello, Lost, Share
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet

_ORPHANS = "unreachable: a parent aggregator died; reconnecting"


def describe(
    lost: Lost,
    ranks: RankSet,
    *,
    topology: Topology,
    shares: Mapping[int, Share],
    known: Mapping[int, Hello],
) -> tuple[tuple[RankSet, str], ...]:
    """Return *ranks*, for which a loss is news, in parts, each with its message.

    Ranks whose own aggregator lives, below a lost one, are a part of their own: they come back.
    """
    # The parent of an orphan is its nearest ancestor, so no lost node has a lost ancestor.
    heads = [
        node
        for node in sorted(lost.nodes)
        if node in shares and not set(topology.ancestors(node)) & set(lost.nodes)
    ]
    if not heads:
        return ((ranks, lost.why),) if ranks else ()
    parts = []
    left = ranks
    for node in heads:
        if own := shares[node].ranks & left:
            what = f"with {_name(node, known, lost.why)}: {lost.why}"
            parts.append((own, f"{what}; 'reattach' attaches to them again"))
            left -= own
    if left:
        parts.append((left, _ORPHANS))
    return tuple(parts)


def _name(node: int, known: Mapping[int, Hello], why: str) -> str:
    host = known[node].host if node in known else "an unknown host"
    # A closed link means that the aggregator has ended, and that its host lives.
    return (
        f"host {host}, or its aggregator"
        if why.startswith(SILENT)
        else f"aggregator {node} on {host}"
    )
