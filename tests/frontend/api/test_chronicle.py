"""The last events and the end of the output of a session."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgdb.frontend.api.chronicle import MOST_EVENTS, Chronicle, Tail
from pgdb.frontend.api.notifications import JobOutput, SessionNotice, Starting


@given(st.lists(st.binary(max_size=40)), st.integers(1, 50))
def test_a_tail_is_the_end_of_the_stream(pieces: list[bytes], most: int) -> None:
    tail = Tail(most)
    for each in pieces:
        tail.add(each)
    whole = b"".join(pieces)
    assert tail.data == whole[-most:]
    assert tail.dropped_bytes == len(whole) - len(tail.data)


def test_output_is_kept_by_stream_and_events_with_their_times() -> None:
    times = iter((1.0, 2.0))
    chronicle = Chronicle(lambda: next(times))
    chronicle.on_notification(Starting(text="held"))
    chronicle.on_notification(JobOutput(text="a", data=b"a"))
    chronicle.on_notification(JobOutput(text="b", data=b"b", stream="stderr"))
    chronicle.on_notification(SessionNotice(text="n"))
    assert {name: tail.data for name, tail in chronicle.output.items()} == {
        "stdout": b"a",
        "stderr": b"b",
    }
    assert [each.time_s for each in chronicle.events] == [2.0]


def test_old_events_are_dropped_and_counted() -> None:
    chronicle = Chronicle()
    for number in range(MOST_EVENTS + 3):
        chronicle.on_notification(SessionNotice(text=str(number)))
    assert chronicle.dropped == 3
    assert len(chronicle.events) == MOST_EVENTS
