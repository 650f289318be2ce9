"""The state of file delivery: decisions of one node, without a loop, a disk or a link."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgdb.files.delivery_actions import (
    ABOVE,
    Action,
    DoWithout,
    Get,
    LookHere,
    MakePart,
    PartHere,
    Send,
    Unavailable,
)
from pgdb.files.delivery_state import PART_BYTES, DeliveryState, gone
from pgdb.files.file_cache import Version
from pgdb.overlay.messages import (
    AnyMessage,
    FileIs,
    FileKey,
    FilePart,
    FilesAre,
    WantedFile,
    WantFiles,
    WantPart,
)

KEY = FileKey(build_id="ab" * 20)
FILE = WantedFile(key=KEY, path="/app")
SIZE = 2 * PART_BYTES + 5
IS = FileIs(key=KEY, size_bytes=SIZE, mtime_ns=7)
WANT = WantFiles(files=(FILE,))


def part(offset: int, data: bytes = b"x") -> FilePart:
    return FilePart(key=KEY, offset=offset, data=data)


def node(*, is_root: bool = False) -> DeliveryState:
    return DeliveryState(1, "host", is_root=is_root)


def sent(actions: list[Action]) -> list[tuple[int, AnyMessage]]:
    return [(each.who, each.message) for each in actions if isinstance(each, Send)]


def test_a_file_is_requested_from_above_once() -> None:
    state = node()
    state.want([(FILE, ())])
    state.from_child(3, WANT)
    state.from_child(4, WANT)
    assert state.take_actions() == [Send(ABOVE, WANT)]
    state.from_above(FilesAre(files=(IS,)))
    announced = FilesAre(files=(IS,))
    assert state.take_actions() == [Send(3, announced), Send(4, announced), Get(KEY)]


def test_the_root_looks_first_and_then_asks_those_that_want_the_file() -> None:
    state = node(is_root=True)
    state.from_child(3, WANT)
    state.from_child(4, WANT)
    assert state.take_actions() == [LookHere(KEY)]
    state.not_here(KEY, "no such file")
    assert state.take_actions() == [Send(3, WANT)]
    state.from_child(3, FilesAre(files=(gone(KEY, "nor here"),)))
    assert state.take_actions() == [Send(4, WANT)]
    state.lose_child(4)
    # No asker is left to try: the children are notified, and an older copy in the cache may still
    # do.
    assert state.take_actions() == [
        Send(3, FilesAre(files=(gone(KEY, "nobody has it"),))),
        DoWithout(KEY),
    ]


def test_a_source_announces_the_file_when_the_copy_is_there() -> None:
    state = node(is_root=True)
    state.from_child(3, WANT)
    state.take_actions()
    state.found_here(KEY, Version(SIZE, 7))
    assert state.take_actions() == [Get(KEY)]
    state.finish(KEY, has_copy=True)
    assert state.take_actions() == [Send(3, FilesAre(files=(IS,)))]


def test_a_part_is_made_once_for_all_that_wait_and_then_kept() -> None:
    state = node(is_root=True)
    for child in (3, 4):
        state.from_child(child, WANT)
    state.found_here(KEY, Version(SIZE, 7))
    state.finish(KEY, has_copy=True)
    state.take_actions()
    for child in (3, 4):
        state.from_child(child, WantPart(key=KEY, offset=0))
    assert state.take_actions() == [MakePart(KEY, 0)]
    state.part_made(part(0))
    assert state.take_actions() == [Send(3, part(0)), Send(4, part(0))]
    state.from_child(5, WantPart(key=KEY, offset=0))
    assert state.take_actions() == [Send(5, part(0))]
    assert (state.own.sent_parts, state.own.sent_bytes) == (3, 3)


def test_children_wait_for_parts_until_they_have_arrived() -> None:
    state = node()
    state.from_child(3, WANT)
    state.from_above(FilesAre(files=(IS,)))
    state.request(KEY, 0)
    state.request(KEY, 0)
    state.take_actions()
    state.from_child(3, WantPart(key=KEY, offset=PART_BYTES))
    assert state.take_actions() == []
    state.progress(KEY, PART_BYTES)
    assert state.take_actions() == []
    state.progress(KEY, 2 * PART_BYTES)
    assert state.take_actions() == [MakePart(KEY, PART_BYTES)]
    # The last part needs the digest of the whole file.
    state.from_child(3, WantPart(key=KEY, offset=2 * PART_BYTES))
    state.progress(KEY, SIZE)
    assert state.take_actions() == []
    state.finish(KEY, has_copy=True, how="received_files")
    assert state.take_actions() == [MakePart(KEY, 2 * PART_BYTES)]


def test_a_node_without_room_relays() -> None:
    state = node()
    state.from_child(3, WANT)
    state.from_above(FilesAre(files=(IS,)))
    state.pass_on(KEY)
    state.take_actions()
    state.from_child(3, WantPart(key=KEY, offset=0))
    state.from_child(4, WantPart(key=KEY, offset=0))
    wanted = WantPart(key=KEY, offset=0)
    assert state.take_actions() == [Send(ABOVE, wanted)]
    state.new_parent()
    assert wanted in [message for who, message in sent(state.take_actions()) if who == ABOVE]
    state.from_above(part(0))
    assert state.take_actions() == [PartHere(part(0)), Send(3, part(0)), Send(4, part(0))]
    state.from_above(part(0))
    assert state.take_actions() == []  # nobody has asked for it again


def test_a_lost_source_ends_the_requests() -> None:
    state = node(is_root=True)
    state.from_child(3, WANT)
    state.from_child(4, WANT)
    state.not_here(KEY, "no such file")
    state.from_child(3, FilesAre(files=(IS,)))
    state.request(KEY, 0)
    state.take_actions()
    state.lose_child(3)
    why = "the host that had it is lost"
    assert state.take_actions() == [
        Send(4, FilesAre(files=(gone(KEY, why),))),
        Unavailable(KEY, why),
    ]


def test_counts_are_reported_when_they_change() -> None:
    state = node()
    assert state.take_report() is None
    state.want([(FILE, ())])
    state.from_above(FilesAre(files=(IS,)))
    state.finish(KEY, has_copy=True, how="received_files")
    assert state.has_news
    report = state.take_report()
    assert report is not None and report.nodes == (state.own,)
    assert (state.own.wanted_files, state.own.received_files) == (1, 1)
    assert not state.has_news


KEYS = [FileKey(build_id=each * 20) for each in ("ab", "cd")] + [
    FileKey(build_id="ab" * 20, kind="debug"),
    FileKey(build_id="x"),
]
keys = st.sampled_from(KEYS)
offsets = st.sampled_from([-1, 0, 1, PART_BYTES, 2 * PART_BYTES])
messages = st.one_of(
    st.builds(lambda key: WantFiles(files=(WantedFile(key=key, path="/a"),)), keys),
    st.builds(
        lambda key, size: FilesAre(files=(FileIs(key=key, size_bytes=size),)),
        keys,
        st.sampled_from([-1, 0, SIZE]),
    ),
    st.builds(lambda key, offset: WantPart(key=key, offset=offset), keys, offsets),
    st.builds(lambda key, offset: FilePart(key=key, offset=offset, data=b"x"), keys, offsets),
)


@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 4), st.none() | messages, st.integers(0, 5)), max_size=30),
)
def test_any_messages_leave_a_state_that_serves_known_files(
    is_root: bool, steps: list[tuple[int, AnyMessage | None, int]]
) -> None:
    state = node(is_root=is_root)
    for child, message, outcome in steps:
        if message is None:
            state.lose_child(child)
        elif child or is_root:
            state.from_child(child, message)
        else:
            state.from_above(message)
        for action in state.take_actions():
            if isinstance(action, Send):
                assert action.who != ABOVE or not is_root
            elif isinstance(action, PartHere):
                assert state.file(action.part.key) is not None
            elif isinstance(action, LookHere):
                if outcome % 2:
                    state.found_here(action.key, Version(SIZE, 7))
                else:
                    state.not_here(action.key, "no such file")
            elif isinstance(action, Get):
                if outcome == 0:
                    state.pass_on(action.key)
                elif outcome == 1:
                    state.request(action.key, 0)
                else:
                    state.finish(action.key, has_copy=True, how="cached_files")
            elif isinstance(action, DoWithout):
                state.finish(action.key, has_copy=outcome == 5, how="cached_files")
            elif isinstance(action, MakePart):
                file = state.file(action.key)
                assert file is not None and not file.is_gone
                assert 0 <= action.offset < file.version.size_bytes
                if outcome:
                    state.part_made(
                        FilePart(key=action.key, offset=action.offset, data=b"x", digest=b"")
                    )
                else:
                    state.part_failed(action.key, action.offset, "it has become shorter")
    state.take_actions()
    report = state.take_report()
    assert report is None or all(each.node == 1 for each in report.nodes)
