"""The work for the ranks' files so far, in words (``--sbd``)."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.overlay.messages import FRONT_END, Delivered
from pgdb.sizes import size_text

MOST_HOSTS = 16
"""Number of hosts that a report lists; more are only summed up."""


def progress(nodes: Sequence[Delivered]) -> str:
    """Return the progress in a few words."""
    read, sent = _total(nodes, "read_bytes"), _total(nodes, "received_bytes")
    return f"files: {size_text(read)} read, {size_text(sent)} received on the hosts"


def report(nodes: Sequence[Delivered]) -> str:
    """Return the totals of all nodes, and a line for each host unless there are too many."""
    hosts = [each for each in nodes if each.node != FRONT_END]
    if not nodes:
        return "--sbd is not in use: every GDB reads the files by itself"
    lines = [
        f"read where they are: {_total(nodes, 'read_files')} files, "
        f"{size_text(_total(nodes, 'read_bytes'))}",
        f"sent down the tree: {_total(nodes, 'sent_parts')} parts, "
        f"{size_text(_total(nodes, 'sent_bytes'))} compressed",
        f"{len(hosts)} aggregator{'s' * (len(hosts) != 1)} needed "
        f"{_total(hosts, 'wanted_files')} files: "
        f"{_total(hosts, 'cached_files')} from their caches, "
        f"{_total(hosts, 'received_files')} received "
        f"({size_text(_total(hosts, 'resumed_bytes'))} of them in an earlier session), "
        f"{_total(hosts, 'missing_files')} left to the GDBs",
    ]
    odd = [each for each in hosts if each.missing_files]
    shown = hosts if len(hosts) <= MOST_HOSTS else odd[:MOST_HOSTS]
    for each in shown:
        lines.append(
            f"  {each.host} ({each.node}): {each.cached_files} cached, {each.received_files} "
            f"received, {each.read_files} read here, {each.missing_files} left to the GDBs"
        )
    if len(odd) > MOST_HOSTS:
        lines.append(f"  {len(odd) - MOST_HOSTS} more hosts have left files to the GDBs")
    return "\n".join(lines)


def _total(nodes: Sequence[Delivered], name: str) -> int:
    return sum(getattr(each, name) for each in nodes)
