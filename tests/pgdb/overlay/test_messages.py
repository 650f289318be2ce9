"""Messages: every class is encoded and decoded without a change, and any other bytes only raise."""

from __future__ import annotations

import re
import sys
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgdb.cores.core_file import CoreFile
from pgdb.cores.search import CoreSearch, HostCores, ListedCore
from pgdb.errors import ProtocolError, UsageError
from pgdb.jobs.rank_environment import RankIdentity
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.graph import to_graph
from pgdb.merge.rankset_codec import MAX_PACKED_RANK
from pgdb.overlay import message_codec, messages
from pgdb.overlay.breakpoint_operations import CheckExpression, ListTrace, StartTrace, StopTrace
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import (
    FRONT_END,
    Acquire,
    AdvanceBreakpoints,
    Announce,
    AnyMessage,
    AnyOperation,
    Backtrace,
    BreakpointCommands,
    ChangeBreakpoints,
    Console,
    Delivered,
    Deliveries,
    Deploy,
    Detach,
    Evaluate,
    Events,
    Explore,
    FileIs,
    FileKey,
    FilePart,
    FilesAre,
    Find,
    Found,
    FoundRanks,
    Heartbeat,
    Hello,
    InsertBreakpoint,
    Interrupt,
    Joined,
    Kill,
    ListBreakpoints,
    ListMpiCalls,
    ListRecordedCalls,
    ListVariables,
    Lost,
    MachineQuery,
    Notice,
    ReadBlock,
    Reattach,
    Recall,
    Reduce,
    Reply,
    Request,
    Resume,
    Script,
    SelectFrame,
    Setup,
    Share,
    Shutdown,
    Table,
    WantedFile,
    WantFiles,
    WantPart,
)
from pgdb.overlay.operation import NO_CAPABILITY, Capability
from pgdb.overlay.operations import ReadFile, SelectMpiCaller, TakeSample
from pgdb.ranks import RankSet
from pgdb.records import Exit, Record, Running, Value
from tests.support.strategies import EVENTS, class_tuples, rank_sets

RANKS = RankSet.parse("0-3,8")
HELLO = Hello(
    version=1,
    release="PGDB 1",
    node=3,
    host="node1",
    pid=7,
    names=("node1", "10.0.0.1"),
    address="h:1",
    joins=2,
    parent=1,
)

OPERATIONS: tuple[AnyOperation, ...] = (
    Acquire(),
    Reattach(),
    Evaluate(expression="x", format="x"),
    Backtrace(limit=-3, fold=False, split=True, threads=True, offsets=True),
    ListRecordedCalls(),
    TakeSample(),
    SelectMpiCaller(),
    ReadBlock(expression="u[0]@9", start=3, count=4, limit_bytes=5),
    ReadFile(path="/tmp/core.{rank}", start=3, most_bytes=4),
    Reduce(expression="u", low=-1.5, high=2.5, bins=10, limit_bytes=5),
    Recall(request_id=7),
    SelectFrame(command="up 2"),
    ListVariables(which="locals"),
    ListMpiCalls(threads=False),
    Console(command="info threads", run=True),
    MachineQuery(command="var create", arguments=("-", "*", "x")),
    Explore(expression="x", path=("next", "[0]"), depth=2, most=9, start=4, children_only=True),
    Script(lines=("python", "print(1)", "end")),
    Resume(command="continue", argument="3"),
    Interrupt(),
    InsertBreakpoint(command="break main if x > 3", first_number=2),
    ChangeBreakpoints(command="delete", numbers=("3.1",), argument=""),
    BreakpointCommands(numbers=("1",), commands=("silent", "continue")),
    AdvanceBreakpoints(last=7),
    ListBreakpoints(numbers=("1", "3-4"), kind="watchpoint"),
    CheckExpression(place="f", expression="x"),
    StartTrace(number=1, place="f", expressions=("x", "y"), condition="x > 1", every=2, first=9),
    StopTrace(number=1),
    ListTrace(number=1, begin=5, count=20),
    Detach(),
    Kill(),
)

RANK_7 = RankIdentity(rank=7, size=8, local_rank=None, local_size=None, job_key="717")
MESSAGES: tuple[AnyMessage, ...] = (
    Notice(text="slower than could be", hosts=("node1", "node2")),
    HELLO,
    Table(node=1, count=2, fan_out=32, addresses=("a:1", "b:2"), is_parent=True),
    Joined(nodes=(HELLO.pack(),)),
    Find(mark="m", selector="s", shares=(0, 1), shares_per_host=2),
    Find(cores=CoreSearch(nodes=(0,), targets=("/t/core.*",), paths={0: ("/t/core.1",)})),
    Found(
        node=0,
        cores=HostCores(
            listed=(ListedCore(path="/c", size_bytes=1, mtime_ns=2, digest=b"d"),),
            cores=(CoreFile(path="/c", program="/bin/app", identity=RANK_7),),
            refused=(("/x", "is empty"),),
            why_none={"/y": "nothing"},
        ),
    ),
    Found(
        node=1, jobs=(FoundRanks(job="j", size=9, ranks=RANKS, pids=(7, 8), executable="/bin/x"),)
    ),
    Setup(
        shares=(Share.of(0, RankSet([3, 9]), (7, 8)),),
        is_held=True,
        gdb="gdb",
        deploy=Deploy(cache="/tmp/x", max_bytes=1 << 40, max_age_s=0.5, wait_s=9.0),
    ),
    WantFiles(files=(WantedFile(key=FileKey(build_id="0f", kind="debug"), path="/bin/x"),)),
    FilesAre(files=(FileIs(key=FileKey(build_id="0f"), size_bytes=-1, why="it has gone"),)),
    WantPart(key=FileKey(build_id="0f"), offset=1 << 40),
    FilePart(key=FileKey(build_id="0f"), offset=0, data=b"\0\xff", digest=b"\xfe"),
    Deliveries(nodes=(Delivered(node=1, host="h", read_bytes=1 << 40),)),
    *(Request(request_id=1, ranks=RANKS, operation=each, timeout_s=1.5) for each in OPERATIONS),
    Reply(
        request_id=1,
        graph=to_graph(
            (EquivalenceClass(RANKS, Value(text="7")),),
            Missing(late=RankSet([7, 10]), lost=RankSet([9]), running=RankSet()),
        ),
        late=True,
    ),
    Events(classes=(EquivalenceClass(RANKS, Exit(code=1), ("x",)),)),
    Lost(nodes=(1, FRONT_END), ranks=RankSet(), why="it closed the link"),
    Announce(nodes=(1,), classes=(EquivalenceClass(RANKS, Running()),)),
    Shutdown(),
    Heartbeat(),
)


def test_a_hello_is_packed_and_back_without_those_below() -> None:
    whole = msgspec.structs.replace(HELLO, below=(HELLO.pack(),), is_set_up=True)
    back = Hello.unpack(whole.pack())
    assert back == msgspec.structs.replace(whole, below=())
    assert Hello.unpack(whole.below[0]) == HELLO


@given(
    st.binary()
    | st.lists(
        st.none() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.booleans(), max_size=20
    ).map(msgspec.msgpack.encode)
)
@example(b"")
@example(b"\x91" * 5000)
@example(msgspec.msgpack.encode([*msgspec.structs.astuple(HELLO)][:-1]))
def test_what_is_no_packed_hello_is_an_error(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="no hello"):
        Hello.unpack(data)


def test_the_instances_leave_no_class_out() -> None:
    assert {type(each) for each in MESSAGES} == set(get_args(AnyMessage))
    assert {type(each) for each in OPERATIONS} == set(get_args(AnyOperation))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_round_trip(message: AnyMessage) -> None:
    assert decode(encode(message)) == message


classes_of_events = st.lists(
    st.builds(EquivalenceClass, rank_sets, st.one_of(list(EVENTS.values()))), max_size=4
).map(tuple)


@given(class_tuples())
def test_replies_of_all_records_go_over_the_wire(classes: tuple[Any, ...]) -> None:
    reply = Reply(request_id=1, graph=to_graph(classes))
    assert decode(encode(reply)) == reply


@given(classes_of_events)
def test_events_go_over_the_wire(classes: tuple[Any, ...]) -> None:
    events = Events(classes=classes)
    assert decode(encode(events)) == events


@pytest.mark.parametrize(
    "ranks",
    [
        RankSet(),
        RankSet([0]),
        RankSet([MAX_PACKED_RANK]),
        RankSet.range(0, 1 << 20),
        RankSet.range(0, 1 << 20, 3),
        RankSet(rank for rank in range(20_000) if (rank * 2654435761) % 7 < 3),
    ],
    ids=["none", "one", "largest", "block", "stride", "scattered"],
)
def test_rank_sets_go_over_the_wire_in_the_smaller_form(ranks: RankSet) -> None:
    lost = Lost(nodes=(), ranks=ranks, why="")
    data = encode(lost)
    assert decode(data) == lost
    assert len(data) <= min(len(str(ranks)), len(ranks.to_bytes())) + 40


def lost_with(ranks: object) -> bytes:
    body = {"type": "Lost", "nodes": [], "ranks": ranks, "why": ""}
    return msgspec.msgpack.encode(body)


def test_the_bare_form_is_read() -> None:
    assert decode(lost_with("1-3")) == Lost(nodes=(), ranks=RankSet([1, 2, 3]), why="")


@pytest.mark.parametrize(
    "ranks",
    [
        str(MAX_PACKED_RANK + 1),
        f"0-{MAX_PACKED_RANK + 1}",
        f"0-{MAX_PACKED_RANK + 1}/2",
        "9" * 5000,
        RankSet([2**31 - 1]).to_bytes()[:-1],
        "x",
        "3-1",
        "0-3/0",
        "all",
        "@name",
        7,
        ["1"],
        None,
        b"",
        b"junk",
    ],
)
def test_rank_sets_that_are_none_or_too_large_are_refused(ranks: object) -> None:
    with pytest.raises(ProtocolError, match="no valid message"):
        decode(lost_with(ranks))


@pytest.mark.parametrize(
    "ranks",
    [
        f"0..{MAX_PACKED_RANK + 1}",
        f" {MAX_PACKED_RANK + 1}",
        f"0^{MAX_PACKED_RANK + 1}",
        RankSet([MAX_PACKED_RANK + 1]).to_bytes(),
        RankSet.range(0, 1 << 31).to_bytes(),
    ],
    ids=["dots", "blank", "operator", "bitmap", "runs"],
)
def test_too_large_ranks_are_refused_in_every_form(ranks: object) -> None:
    with pytest.raises(ProtocolError):
        decode(lost_with(ranks))


@pytest.mark.parametrize(
    "body",
    [
        {"type": "Nothing"},
        {"type": "Heartbeat", "more": 1},
        {"type": "Lost", "nodes": [], "ranks": "1"},
        {"type": "Lost", "nodes": ["1"], "ranks": "1", "why": ""},
        {"type": "Lost", "nodes": [], "ranks": "1", "why": 5},
        {"type": "Request", "request_id": 1, "ranks": "1", "timeout_s": 1.0},
        {
            "type": "Request",
            "request_id": 1,
            "ranks": "1",
            "timeout_s": 1.0,
            "operation": {"type": "Resume", "command": "run"},
        },
        [],
        {},
        7,
        None,
        "Heartbeat",
    ],
)
def test_other_shapes_are_refused(body: object) -> None:
    with pytest.raises(ProtocolError, match="no valid message"):
        decode(msgspec.msgpack.encode(body))


@given(st.binary(max_size=200))
@example(b"")
@example(b"[]")
@example(b"{}")
@example(b'{"kind": "x"}')
@example(b"\xff")
@example(b"\x81" * 100_000)
@example(b"\x91" * 100_000)
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\xc6\xff\xff\xff\xff")
def test_junk_raises_nothing_but_our_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(data)


@given(
    st.sampled_from(MESSAGES),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=5),
)
def test_a_message_with_broken_bytes_is_a_message_or_our_error(
    message: AnyMessage, broken: list[tuple[int, int]]
) -> None:
    data = bytearray(encode(message))
    for where, value in broken:
        data[where % len(data)] = value
    try:
        decode(bytes(data))
    except ProtocolError as error:
        assert "\n" not in str(error)


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "ranks", "nodes", "why", "graph"]), inner)
    ),
    max_leaves=8,
)


@given(
    st.sampled_from([type(each).__name__ for each in MESSAGES]),
    st.dictionaries(
        st.sampled_from(
            "nodes ranks why classes graph request_id missing late operation timeout_s".split()
        ),
        json_like,
    ),
)
def test_fields_of_other_types_raise_nothing_but_our_error(
    name: str, fields: dict[str, Any]
) -> None:
    try:
        decode(msgspec.msgpack.encode({"type": name, **fields}))
    except ProtocolError:
        pass


def test_a_message_over_the_limit_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_codec, "MAX_MESSAGE_BYTES", 100)
    assert encode(Lost(nodes=(), ranks=RankSet(), why="x" * 50))
    with pytest.raises(ProtocolError, match=r"a Lost of .* bytes is too large to send"):
        encode(Lost(nodes=(), ranks=RankSet(), why="x" * 100))


def test_the_error_quotes_only_the_start() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(b"A" * 10_000)
    assert len(str(caught.value)) < 300


def test_the_ranks_of_a_share_are_looked_at_as_it_comes() -> None:
    share = Share.of(3, RankSet([1, 5, 9]))
    assert share.ranks == RankSet([1, 5, 9])
    assert (share.packed_pids, share.pids) == (b"", ())
    too_large = msgspec.msgpack.encode("0-999999999")
    for packed in (b"", b"\xc1", b"\x07", msgspec.msgpack.encode("1-"), too_large):
        wrong = msgspec.structs.replace(share, packed_ranks=packed)
        with pytest.raises(ProtocolError):
            decode(encode(Setup(shares=(share, wrong), gdb="gdb")))
        with pytest.raises(ProtocolError):
            _ = wrong.ranks


def test_a_share_has_a_process_for_each_rank_or_none() -> None:
    share = Share.of(3, RankSet([1, 5, 9]), (70, 4_194_304, 2**32 - 1))
    assert share.pids == (70, 4_194_304, 2**32 - 1)
    assert msgspec.structs.replace(share, packed_pids=b"").pids == ()
    far, before = ([0, 0, 1 << 32], [-1, 0, 0])
    for packed in (b"abc", bytes(8), b"\x92\0\0", *map(msgspec.msgpack.encode, (far, before))):
        with pytest.raises(ProtocolError, match="node 3"):
            _ = msgspec.structs.replace(share, packed_pids=packed).pids


@pytest.mark.parametrize("operation", OPERATIONS)
def test_properties_of_operations_do_not_travel_and_logged_fields_exist(
    operation: AnyOperation,
) -> None:
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(operation))
    properties = {"only_reads", "needs_stopped_rank", "is_urgent", "uses_frame", "keeps_answer"}
    properties |= {"capability", "can_last"}
    assert properties.isdisjoint(sent) and {"logged", "outdates_answers"}.isdisjoint(sent)
    assert set(operation.logged) <= set(type(operation).__struct_fields__)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_name_the_capability_that_they_need(operation: AnyOperation) -> None:
    match operation:
        case Resume() | Interrupt() | Kill() | Console(run=True):
            needed = Capability.RUN
        case InsertBreakpoint() | ChangeBreakpoints() | BreakpointCommands():
            needed = Capability.BREAKPOINTS
        case AdvanceBreakpoints() | ListBreakpoints() | StartTrace() | StopTrace():
            needed = Capability.BREAKPOINTS
        case CheckExpression():
            needed = Capability.BREAKPOINTS
        case _:
            needed = NO_CAPABILITY
    assert operation.needed == needed
    assert operation.needs_process is (bool(needed) or isinstance(operation, Detach))
    if operation.only_reads and not isinstance(operation, ListBreakpoints):
        assert not operation.needs_process


def test_operations_that_only_read_are_recorded_and_outdate_nothing() -> None:
    recorded = get_args(messages.RecordedOperation)
    for operation in OPERATIONS:
        # Contents of files on the hosts are in no recording.
        if operation.only_reads and not isinstance(operation, ReadFile):
            assert isinstance(operation, recorded)
            assert not (operation.outdates_answers or operation.sets_running)
        if operation.outdates_answers:
            assert not isinstance(operation, recorded)
    assert Console(command="until 5", run=True).sets_running
    assert Evaluate(expression="x", format="x").asks_for_numbers
    assert not Evaluate(expression="x", format="a").asks_for_numbers


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Resume(command="next 2"), "command: 'next 2' is none of continue, step, "),
        (Evaluate(expression=3), "expression: int in place of str"),
        (Evaluate(expression="x", format=None), "format: "),
        (Evaluate(expression="a\udc80"), "byte 0x80 at character 2 of the text is not UTF-8"),
        (ReadBlock(expression="x", start=1 << 70, limit_bytes=1), "ReadBlock: "),
    ],
)
def test_operations_that_an_aggregator_would_refuse_are_usage_errors(
    operation: AnyOperation, reason: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)):
        operation.check()


def test_every_operation_that_is_sent_passes_its_own_check() -> None:
    Resume(command="next", argument="2").check()
    Evaluate(expression="x").check()
    Backtrace(limit=-3, threads=True).check()


def test_annotations_of_operations_and_records_are_no_text() -> None:
    # msgspec compiles annotations that are text: two thirds of the time to make the decoder.
    kinds = (*get_args(AnyMessage), *get_args(AnyOperation), *get_args(Record))
    modules = {sys.modules[each.__module__] for each in kinds}
    assert len(modules) > 4
    late = [each.__name__ for each in modules if hasattr(each, "annotations")]
    assert late == [], "they import annotations of __future__"
