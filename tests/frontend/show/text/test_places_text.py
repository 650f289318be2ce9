"""Hosts and states of ranks as text."""

from __future__ import annotations

from pgdb.frontend.show.text.places_text import place_lines, places
from pgdb.merge.classes import EquivalenceClass
from pgdb.proctable import RankProcess
from pgdb.records import Event, Exit, Stop
from tests.support.answers import ranks


def test_places_are_merged_by_host_and_state() -> None:
    processes = [RankProcess(rank, f"node{rank // 16}", 100 + rank, "a") for rank in range(32)]
    found = places(processes, {"stopped": ranks("0-30"), "running": ranks("31")})
    latest = (
        EquivalenceClass[Event](ranks=ranks("0-30"), record=Stop(reason="other", meaning="odd")),
    )
    held = {"hold": ranks("0-1"), "barrier 2": ranks("4")}
    assert place_lines(found, latest, {"late": ranks("3")}, held).splitlines() == [
        "[0-15]  stopped on node0, pid 100-115",
        "[16-30] stopped on node1, pid 116-130",
        "[31]    running on node1, pid 131",
        "[0-30]  stopped (odd) in ??",
        "[0-1]   held",
        "[4]     held for barrier 2",
        "@late = [3]",
    ]
    scattered = [RankProcess(rank, "n", 100 + 7 * rank, "a") for rank in range(32)]
    only = places(scattered, {"running": ranks("0-31")})
    assert place_lines(only, (), {}, {}) == "[0-31] running on n, pid 100,… 32 processes"
    assert place_lines((), (), {}, {}) == "no ranks"


def test_ends_that_read_the_same_are_one_line() -> None:
    """Ranks end at different moments, and after different commands."""
    latest = (
        EquivalenceClass[Event](ranks=ranks("0"), record=Exit(code=0, run=4)),
        EquivalenceClass[Event](ranks=ranks("1"), record=Exit(code=3, run=4)),
        EquivalenceClass[Event](ranks=ranks("2-3"), record=Exit(code=0, run=5)),
    )
    assert place_lines((), latest, {}, {}).splitlines() == [
        "[0,2-3] exited normally",
        "[1]     exited with code 3",
    ]
