"""Threads merged over ranks, by stack."""

from __future__ import annotations

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.show.text import render
from pgdb.frontend.show.text.thread_stacks import stacks_of
from pgdb.merge.classes import Merger
from pgdb.merge.normalize import normalize_record
from pgdb.ranks import RankSet
from pgdb.records import Failure, Frame, Record, Stack, Threads, ThreadStack, Value, Variable


def stack(*functions: str, argument: str = "") -> Stack:
    arguments = (Variable(name="x", value=argument),) if argument else ()
    return Stack(
        frames=tuple(
            Frame(level=level, function=function, arguments=arguments)
            for level, function in enumerate(functions)
        ),
        hidden="0",
    )


def threads(*stacks: tuple[int, Stack], hidden: int = 0) -> Threads:
    return Threads(
        stacks=tuple(ThreadStack(stack=each, count=count) for count, each in stacks),
        hidden=str(hidden),
    )


def answer(*said: tuple[str, Record], ranks: str = "0-3") -> Answer:
    merger: Merger[Record] = Merger()
    for each, record in said:
        normalized = normalize_record(record, join_arguments=True)
        assert isinstance(normalized.record, Threads | Failure | Value)
        merger.add(RankSet.parse(each), normalized.record, normalized.slots)
    return Answer("thread apply all backtrace", RankSet.parse(ranks), merger.classes)


def test_a_stack_is_one_over_all_ranks() -> None:
    said = answer(
        ("0-2", threads((1, stack("main")), (3, stack("work", argument="1")))),
        ("3", threads((1, stack("crash", "main")), (1, stack("work", argument="2")))),
    )
    work, main, crash = stacks_of(said)
    assert (str(work.ranks), work.thread_count) == ("0-3", 10)
    assert [(count, str(ranks)) for count, ranks in work.counts] == [(1, "3"), (3, "0-2")]
    assert work.stack.frames[0].arguments[0].value == "…"
    assert work.stack.hidden == "0"
    assert [str(each.ranks) for each in (main, crash)] == ["0-2", "3"]
    assert render.answer(said) == "\n".join(
        [
            "[3] × 1 thread  <-- differs  @1",
            "[0-2] × 3 threads  @2",
            "#0  work (x=…)",
            "[0-2] × 1 thread  @2",
            "#0  main ()",
            "[3] × 1 thread  <-- differs  @1",
            "#0  crash ()",
            "#1  main ()",
        ]
    )
    # Each set has one number.
    assert [*map(str, render.numbered_sets(said))] == ["3", "0-2"]


def test_the_same_on_all_ranks() -> None:
    said = answer(("0-3", threads((1, stack("main")), (3, stack("work", argument="7")))))
    text = render.answer(said)
    assert text.startswith("[0-3] × 3 threads\n#0  work (x=7)\n[0-3] × 1 thread\n")
    assert "differs" not in text


def test_addresses_for_names_of_functions_stay_at_their_frames() -> None:
    functions = ("[anon]+0xa", "0x18c4834800890274", "0xa8", "main")
    (only,) = stacks_of(answer(("1", threads((1, stack(*functions, argument="<optimized out>"))))))
    assert [each.function for each in only.stack.frames] == [*functions]
    assert {each.arguments[0].value for each in only.stack.frames} == {"<optimized out>"}
    others = ("[anon]+0xa", "0x18c4834800890275", "0xa8", "main")
    said = answer(("0", threads((1, stack(*functions)))), ("1", threads((1, stack(*others)))))
    (both,) = stacks_of(said)
    assert [each.function for each in both.stack.frames] == ["[anon]+0xa", "…", "0xa8", "main"]


def test_threads_that_are_not_shown_are_counted() -> None:
    same = answer(("0-3", threads((1, stack("main")), hidden=2)))
    note = "(8 threads of the MPI library are not shown; bt -threads --full shows them)"
    assert render.answer(same).splitlines()[-1] == note
    one = answer(("0", threads((1, stack("main")), hidden=1)), ranks="0")
    assert "(1 thread of the MPI library is not shown;" in render.answer(one)
    differ = answer(
        ("0", threads((1, stack("main")), hidden=2)), ("1", threads((1, stack("main")), hidden=1))
    )
    assert "(the threads of the MPI library are not shown;" in render.answer(differ)
    none = answer(("0-3", threads((1, stack("main")))))
    assert "MPI library" not in render.answer(none)


def test_ranks_that_fail_are_named() -> None:
    said = answer(("0-2", threads((1, stack("main")))), ("3", Failure(message="No registers.")))
    assert [str(each.ranks) for each in stacks_of(said)] == ["0-2"]
    assert "[3] error: No registers." in render.answer(said)
    assert "[0-2] × 1 thread  @1" in render.answer(said)
    assert [*map(str, render.numbered_sets(said))] == ["0-2", "3"]


def test_many_stacks() -> None:
    many = threads(*((1, stack(f"work{number}")) for number in range(20)))
    said = answer(("0-3", many))
    assert "(12 more stacks are folded)" in render.answer(said, number=7)
    assert "expand 7" in render.answer(said, number=7)
    assert "folded" not in render.answer(said, whole=True)
    assert len(stacks_of(said)) == 20


def test_many_numbers_of_threads() -> None:
    said = answer(
        *((str(rank), threads((rank + 1, stack("work")))) for rank in range(20)), ranks="0-19"
    )
    text = render.answer(said, number=7)
    assert "(8 more numbers of threads are folded)" in text
    assert "expand 7" in text
    assert "[19] × 20 threads" in render.answer(said, whole=True)


def test_no_threads_in_other_answers() -> None:
    assert stacks_of(answer(("0-3", Value(text="1")))) == ()
