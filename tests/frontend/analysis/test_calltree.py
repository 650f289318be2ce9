"""The merged call tree: laws of merging, nodes, text."""

from __future__ import annotations

import sys
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdb.frontend.analysis import calltree_text
from pgdb.frontend.analysis.call_paths import Node, TreeBy
from pgdb.frontend.analysis.calltree import CallTree, label
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    Failure,
    Frame,
    Record,
    Stack,
    Threads,
    ThreadStack,
    Value,
    Various,
)


def stack(*calls: str) -> Stack:
    """Return a stack of calls, outermost first: ``main:12``, or a library function."""
    frames = []
    for call in calls:
        function, _, line = call.partition(":")
        frames.append(
            Frame(
                level=0,
                function=function,
                file="src/ring.c" if line else "",
                line=int(line or 0),
                library="" if line else "/usr/lib/libmpi.so.40",
                offset=f"+{line or 0}",
            )
        )
    return Stack(frames=tuple(reversed(frames)))


def of(ranks: str, record: Record) -> EquivalenceClass[Record]:
    return EquivalenceClass(ranks=RankSet.parse(ranks), record=record)


def labels(node: Node) -> list[str]:
    return [label(each) for each in node.frames]


def shape(tree: CallTree) -> list[tuple[int, list[str], str]]:
    return [(each.parent, labels(each), str(each.ranks)) for each in tree.nodes]


SEND = stack("main:48", "advance:33", "exchange:26", "PMPI_Sendrecv")
SLEEP = stack("main:48", "advance:38", "usleep")
INIT = stack("main:45")


# -- laws --------------------------------------------------------------------------------------

calls = st.sampled_from(["main:1", "main:2", "a:3", "b:4", "a:5", "MPI_Recv", "??"])
stacks = st.lists(calls, min_size=1, max_size=5).map(lambda names: stack(*names))
threads = st.lists(st.builds(ThreadStack, stack=stacks, count=st.integers(1, 3)), min_size=1).map(
    lambda found: Threads(stacks=tuple(found))
)
records = stacks | threads | st.just(Failure(message="No stack.")) | st.just(Stack(frames=()))


@st.composite
def trees(draw: st.DrawFn) -> CallTree:
    """Answers of disjoint ranks in one of three samples."""
    owners = draw(st.dictionaries(st.integers(0, 20), records, max_size=6))
    classes = [EquivalenceClass(ranks=RankSet([rank]), record=owners[rank]) for rank in owners]
    running = RankSet(draw(st.frozensets(st.integers(0, 20)))) - RankSet(owners)
    at_s = draw(st.sampled_from([0.0, 1.0, 2.5]))
    return CallTree.from_classes(
        cast(Any, classes), by="line", at_s=at_s, missing=Missing(running=running)
    )


@pytest.mark.slow
@given(trees(), trees(), trees())
def test_merging_is_union(one: CallTree, two: CallTree, three: CallTree) -> None:
    assert one | two == two | one
    assert (one | two) | three == one | (two | three)
    assert one | one == one
    assert one | CallTree() == one == CallTree() | one
    assert (one | two) | one == one | two


@given(st.dictionaries(st.integers(0, 60), stacks, min_size=1), st.randoms(use_true_random=False))
def test_every_rank_is_in_exactly_one_leaf(owners: dict[int, Stack], random: Any) -> None:
    parts = [
        CallTree.from_classes([EquivalenceClass(ranks=RankSet([rank]), record=record)])
        for rank, record in owners.items()
    ]
    random.shuffle(parts)
    tree = CallTree.union(parts)
    assert tree.ranks == RankSet(owners)
    assert sum(len(leaf.ranks) for leaf in tree.leaves) == len(owners)
    assert RankSet.union(leaf.ranks for leaf in tree.leaves) == tree.ranks
    # The path of a rank through the tree is its stack.
    for leaf in tree.leaves:
        path = labels(leaf)
        at = leaf.parent
        while at:
            path = labels(tree[at]) + path
            at = tree[at].parent
        for rank in leaf.ranks:
            functions = [
                frame.function if frame.function != "??" else "?? (libmpi.so.40)"
                for frame in reversed(owners[rank].frames)
            ]
            assert path == functions
    for node in tree.nodes:
        assert node.parent < node.number
        below = [each.ranks for each in tree.nodes if each.parent == node.number]
        assert not below or RankSet.union(below) == node.ranks
        assert node.is_leaf == (not below)
        assert len(below) != 1, "nothing branches here"


@given(trees(), trees())
def test_asked_ranks_are_somewhere_once(one: CallTree, two: CallTree) -> None:
    tree = one | two
    missing = tree.missing
    sets = [missing.late, missing.lost, missing.running]
    assert sum(map(len, sets)) == len(missing.ranks)
    assert missing.ranks.isdisjoint(tree.ranks)


# -- nodes -------------------------------------------------------------------------------------


def test_chains_are_one_node_and_ends_in_between_are_leaves() -> None:
    tree = CallTree.from_classes([of("0-2,5", SEND), of("3", SLEEP), of("4", INIT)])
    assert shape(tree) == [
        (0, ["main"], "0-5"),
        (1, [], "4"),
        (1, ["advance"], "0-3,5"),
        (3, ["exchange", "PMPI_Sendrecv"], "0-2,5"),
        (3, ["usleep"], "3"),
    ]
    assert [str(leaf.ranks) for leaf in tree.leaves] == ["4", "0-2,5", "3"]
    assert tree[4].sources == (("src/ring.c", 26),)
    assert tree[1].sources == (("src/ring.c", 45), ("src/ring.c", 48))
    assert tree.odd is None, "there are two that are smallest"
    with pytest.raises(IndexError, match="1 to 5"):
        tree[6]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("function", [["main", "advance"], ["exchange", "PMPI_Sendrecv"], ["usleep"]]),
        (
            "line",
            [
                ["main ring.c:48"],
                ["advance ring.c:33", "exchange ring.c:26", "PMPI_Sendrecv"],
                ["advance ring.c:38", "usleep"],
            ],
        ),
        (
            "pc",
            [
                ["main+48"],
                ["advance+33", "exchange+26", "PMPI_Sendrecv+0"],
                ["advance+38", "usleep+0"],
            ],
        ),
    ],
)
def test_properties_that_distinguish_frames(by: TreeBy, expected: list[list[str]]) -> None:
    tree = CallTree.from_classes([of("0-2", SEND), of("3", SLEEP)], by=by)
    assert [labels(each) for each in tree.nodes] == expected
    assert tree.odd is not None
    assert str(tree.odd.ranks) == "3"


def test_trees_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="function and line"):
        CallTree.from_classes([of("0", SEND)]) | CallTree.from_classes([of("1", SEND)], by="line")


def test_lines_of_libraries_are_not_shown_for_the_programs_own() -> None:
    main = Frame(level=1, function="main", file="ring.c", fullname="/home/me/ring.c", line=7)
    sleep = Frame(level=0, function="usleep", file="usleep.c", fullname="./posix/usleep.c", line=3)
    tree = CallTree.from_classes([of("0", Stack(frames=(sleep, main)))])
    assert tree[1].sources == (("ring.c", 7),)
    alone = CallTree.from_classes([of("0", Stack(frames=(sleep,)))])
    assert alone[1].sources == (("usleep.c", 3),)


def test_unknown_functions_of_two_libraries_are_two() -> None:
    one = Frame(level=0, function="??", library="/opt/liba.so")
    two = Frame(level=0, function="??", library="/opt/libb.so")
    tree = CallTree.from_classes([of("0", Stack(frames=(one,))), of("1", Stack(frames=(two,)))])
    assert [labels(each) for each in tree.nodes] == [["?? (liba.so)"], ["?? (libb.so)"]]


@pytest.mark.slow
def test_stacks_deeper_than_python_recurses() -> None:
    deep = ["f"] * (20 * sys.getrecursionlimit())
    zigzag = [
        EquivalenceClass(ranks=RankSet([n]), record=stack(*["g"] * (n + 1))) for n in range(1200)
    ]
    one = CallTree.from_classes([of("0-1", stack(*deep)), of("2", stack(*deep, "end"))])
    assert [len(each.frames) for each in one.nodes] == [len(deep), 0, 1]
    two = CallTree.from_classes(cast(Any, zigzag))
    assert len(two.leaves) == 1200
    assert (one | two) == (two | one)
    assert max(map(len, calltree_text.text(two).splitlines())) <= 80


def test_failures_missing_ranks_and_summed_up_stacks() -> None:
    form = Various(template=stack("main:1", f"f{PLACEHOLDER}"))
    classes = [of("0-1", form), of("2", Failure(message="No stack.")), of("3", Value(text="1"))]
    tree = CallTree.from_classes(classes, missing=Missing(running=RankSet([4]), lost=RankSet([5])))
    assert labels(tree[1]) == ["main", "f…"]
    assert tree.failures == {"No stack.": RankSet([2]), "no stack": RankSet([3])}
    assert calltree_text.notes(tree) == [
        "[2] error: No stack.",
        "[3] error: no stack",
        "[4] running",
        "[5] not there: ended, detached or lost",
    ]


def test_threads_are_counted_per_rank() -> None:
    worker = stack("clone", "work:3", "wait:4")
    both = Threads(stacks=(ThreadStack(SEND), ThreadStack(worker, 3)))
    fewer = Threads(stacks=(ThreadStack(SEND), ThreadStack(worker, 2)))
    tree = CallTree.from_classes([of("0-3", both), of("4", fewer)])
    assert tree.has_threads
    assert [(each.threads, each.threads_per_rank) for each in tree.nodes] == [
        (14, (2, 3)),
        (5, (1, 1)),
    ]
    split = Threads(
        stacks=(ThreadStack(stack("clone", "a:1"), 2), ThreadStack(stack("clone", "b:1")))
    )
    tree = CallTree.from_classes([of("0-1", split)])
    assert (tree[1].threads, tree[1].threads_per_rank) == (6, (3, 3))
    assert "× 3 threads" in calltree_text.text(tree).splitlines()[0]


# -- times -------------------------------------------------------------------------------------


def sampled() -> CallTree:
    """Rank 3 hangs, ranks 0-2 progress, rank 4 is stopped at a breakpoint."""
    idle = RankSet([4])
    at = [
        [of("0-1", SEND), of("2", INIT), of("3", SLEEP), of("4", INIT)],
        [of("0,2", SEND), of("1,4", INIT), of("3", SLEEP)],
        [of("1-2", SEND), of("0,4", INIT), of("3", SLEEP)],
    ]
    return CallTree.union(
        CallTree.from_classes(classes, at_s=0.5 * n, idle=idle) for n, classes in enumerate(at)
    )


def test_who_stays_and_who_moves() -> None:
    tree = sampled()
    assert tree.times_s == (0.0, 0.5, 1.0)
    assert (str(tree.stayed), str(tree.moved), str(tree.idle)) == ("3", "0-2", "4")
    send = next(each for each in tree.leaves if "PMPI_Sendrecv" in labels(each))
    assert list(map(str, send.seen)) == ["0-1", "0,2", "1-2"]
    assert (send.samples, str(send.steady)) == (3, "")
    text = calltree_text.text(tree)
    assert "3/3 samples" in text
    number = next(each.number for each in tree.leaves if str(each.ranks) == "3")
    assert f"[3] in the same place each time: @{number}" in text
    assert "[0-2] moved between places" in text
    assert "[4] stopped all the time" in text


def test_one_time_says_nothing_of_moving() -> None:
    tree = CallTree.from_classes([of("0-3", SEND)])
    assert not tree.stayed
    assert not tree.moved
    assert "samples" not in calltree_text.text(tree)


# -- text --------------------------------------------------------------------------------------


def test_text() -> None:
    tree = CallTree.from_classes([of("0,2-31", SEND), of("1", SLEEP)])
    assert str(tree) == (
        "@1 main > advance               ring.c:33,38  [0-31]\n"
        "@2 ├─ exchange > PMPI_Sendrecv  ring.c:26     [0,2-31]\n"
        "@3 └─ usleep                    ring.c:38     [1]  <-- differs"
    )


@pytest.mark.slow
@given(trees(), trees(), st.integers(60, 200))
def test_text_keeps_to_the_width(one: CallTree, two: CallTree, width: int) -> None:
    tree = one | two
    lines = calltree_text.text(tree, width=width).splitlines()
    notes = len(calltree_text.notes(tree))
    assert sum(line.startswith("@") for line in lines[: len(lines) - notes]) == len(tree.nodes)
    assert len(calltree_text.numbered_sets(tree)) >= len(tree.nodes)
    assert max(map(len, lines[: len(tree.nodes)]), default=0) <= max(width, 80)


def test_long_parts_are_cut() -> None:
    far = stack(
        "main:1", *(f"a_function_with_a_long_name_{n}:{n}" for n in range(2, 9)), "MPI_Recv"
    )
    ranks = RankSet(n * n for n in range(200))
    tree = CallTree.from_classes(
        [EquivalenceClass(ranks=ranks, record=far), of("2", stack("main:1", "b:2"))]
    )
    lines = calltree_text.text(tree).splitlines()
    assert max(map(len, lines)) <= 80
    assert "… 200 ranks]" in lines[1]
    assert calltree_text.chain(["main", "a" * 30, "exchange"], 20) == "main > … > exchange"
    assert calltree_text.chain(["usleep", "__GI___clock_nanosleep"], 16) == "usleep > …"
    assert calltree_text.chain(["usleep", "clock_nanosleep"], 16) == "usleep > clock_…"
    assert len(calltree_text.chain(["x" * 100], 20)) == 20


def test_what_room_there_is_is_used() -> None:
    sleeping = ["main+2326", "__sleep+64", "__GI___nanosleep+19", "__GI___clock_nanosleep+90"]
    assert (
        calltree_text.chain(sleeping, 54)
        == "main+2326 > __sleep+64 > … > __GI___clock_nanosleep+90"
    )
    assert calltree_text.chain(sleeping, 27) == "main+2326 > __sleep+64 > …"
    cxx = [
        "clone3",
        "start_thread",
        "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)(int), int> > >::_M_run",
        "std::__invoke<void (*)(int), int>",
        "spin<double>",
        "std::this_thread::sleep_for<long, std::ratio<1l, 1l> >",
        "__GI___nanosleep",
    ]
    assert (
        calltree_text.chain(cxx, 60) == "clone3 > … > spin<…> > std::this_thread::sleep_for<…> > …"
    )
    assert calltree_text.chain(cxx, 26) == "clone3 > … > spin<…> > …"
    assert (
        calltree_text.chain([*cxx[1:3], "Job::operator()", "__poll"], 20) == "… > Job::operator()…"
    )
    assert calltree_text.chain(
        ["main+265", "std::this_thread::sleep_for+9", "__poll_nocancel"], 28
    ) == ("main+265 > std::this_thread…")
    branch = ["log_temperature", "begin_log", "usleep", "__GI___nanosleep"]
    assert calltree_text.chain(branch, 24) == "log_temperature > … > u…"
    assert calltree_text.chain(["operator<", "f"], 8) == "operato…"


def test_recursion_is_one_frame_in_the_text() -> None:
    deep = ["main:1", *["deep:9"] * 300, *["ping:3", "pong:4"] * 20, "abort"]
    by_line = CallTree.from_classes([of("0", stack(*deep))], by="line")
    assert calltree_text.node_label(by_line[1]) == (
        "main ring.c:1 > deep ring.c:9 × 300 > (ping ring.c:3 > pong ring.c:4) × 20 > abort"
    )
    assert len(by_line[1].frames) == 342


def test_by_line_there_is_no_column_of_lines() -> None:
    tree = CallTree.from_classes(
        [of("0", stack("main:1")), of("1", stack("main:1", "deep:2"))], by="line"
    )
    assert calltree_text.text(tree).splitlines() == [
        "@1 main ring.c:1     [0-1]",
        "@2 ├─ (itself)       [0]",
        "@3 └─ deep ring.c:2  [1]",
    ]


def test_who_has_other_numbers_of_threads() -> None:
    work = stack("clone", "work:9")
    counts = {"0-1,3": 1, "2": 2}
    tree = CallTree.from_classes(
        [
            of(ranks, Threads(stacks=(ThreadStack(SEND), ThreadStack(work, count))))
            for ranks, count in counts.items()
        ]
    )
    assert [(count, str(ranks)) for count, ranks in tree[1].threads_by_rank] == [
        (1, "0-1,3"),
        (2, "2"),
    ]
    assert calltree_text.text(tree).splitlines()[2:] == [
        "of @1: @3  [0-1,3]  × 1 thread",
        "       @4  [2]  × 2 threads  <-- differs",
    ]
    assert [*map(str, calltree_text.numbered_sets(tree))] == ["0-3", "0-3", "0-1,3", "2"]


def test_networkx() -> None:
    tree = CallTree.from_classes([of("0-2", SEND), of("3", SLEEP)])
    graph = tree.to_networkx()
    assert graph.nodes[0]["ranks"] == "0-3"
    assert graph.nodes[3]["label"] == "usleep"
    assert set(graph.edges) == {(0, 1), (1, 2), (1, 3)}
    assert graph.edges[1, 2]["ranks"] == "0-2"


def test_no_line_of_another_frame_at_a_leaf() -> None:
    """A program without debug information can run on a C library that has it."""
    start = Frame(
        level=3,
        function="__libc_start_call_main",
        file="../sysdeps/libc_start_call_main.h",
        fullname="./csu/../sysdeps/libc_start_call_main.h",
        line=58,
    )
    rooted = replace(start, fullname="/usr/src/glibc/csu/libc_start_call_main.h")
    send = Frame(level=0, function="PMPI_Send", library="libmpi.so")
    static = Frame(level=0, function="PMPI_Send")
    solve = Frame(level=1, function="app+0x1f3a")
    main = Frame(level=2, function="main")
    lined = Frame(level=2, function="main", file="ring.c", fullname="/home/me/ring.c", line=7)

    def sources(*frames: Frame) -> list[tuple[str, int]]:
        tree = CallTree.from_classes([of("0", Stack(frames=frames))])
        return [tuple(each) for each in tree[1].sources]

    assert sources(send, solve, main, start) == []
    assert sources(send, solve, main, rooted) == []
    assert sources(send, start) == sources(send, rooted) == []
    assert sources(send, solve, lined) == [], "the line is not where solve has called"
    assert sources(send, lined, start) == sources(static, lined, start) == [("ring.c", 7)]
    assert sources(start) == [("../sysdeps/libc_start_call_main.h", 58)]


def test_a_tree_for_a_file_is_not_cut() -> None:
    calls = [f"a_function_with_a_long_name_{at}" for at in range(12)]
    ranks = RankSet(range(0, 200, 3))
    tree = CallTree.from_classes([EquivalenceClass(ranks, stack(*calls)), of("1", stack("main:1"))])
    whole, cut = calltree_text.text(tree, width=0), calltree_text.text(tree)
    assert " > ".join(calls) in whole and f"[{ranks}]" in whole and "…" not in whole
    assert max(map(len, cut.splitlines())) <= 80 and "…" in cut
    assert len(whole.splitlines()) == len(cut.splitlines())
