"""Hosts and states of ranks as text."""

from __future__ import annotations

from pgdb.frontend.show.text.places_text import place_lines, places
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import normalize_record
from pgdb.proctable import RankProcess
from pgdb.records import Event, Exit, Frame, Stop, Variable
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


def test_events_that_are_the_same_but_for_their_moment_are_one_line() -> None:
    """Ranks stop and end one by one, and after different commands; addresses split no line."""

    def stopped(members: str, run: int, pointer: str) -> EquivalenceClass[Event]:
        place = Frame(
            level=0, function="main", arguments=(Variable("argv", pointer),), file="a.c", line=9
        )
        found = normalize_record(Stop(reason="interrupted", run=run, frame=place))
        assert isinstance(found.record, Stop)
        return EquivalenceClass(ranks=ranks(members), record=found.record, slots=found.slots)

    latest = (
        EquivalenceClass[Event](ranks=ranks("0"), record=Exit(code=0, run=4)),
        EquivalenceClass[Event](ranks=ranks("1"), record=Exit(code=3, run=4)),
        EquivalenceClass[Event](ranks=ranks("2-3"), record=Exit(code=0, run=5)),
        stopped("4-5", 6, "0x7ffe12345678"),
        stopped("6", 6, "0x7ffe12345680"),
    )
    assert place_lines((), latest, {}, {}).splitlines() == [
        "[0,2-3] exited normally",
        "[1]     exited with code 3",
        "[4-6]   interrupted in main (argv=…) at a.c:9",
    ]
