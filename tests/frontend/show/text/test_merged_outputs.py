"""Outputs of GDB's commands merged by threads, frames, places, lines and fields."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.frontend.show.text import event_text
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT_SLOT
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Event, Failure, Output, Text, Value
from tests.support.rendered import answer, by_rank, shown

THREADS = "  Id   Target Id                              Frame \n"


def _thread(number: int, frame: str, *, current: bool = False) -> str:
    mark = "*" if current else " "
    return f'{mark} {number}    Thread {SLOT} (LWP {SLOT}) "app" {frame}\n'


def test_threads_are_one_table_with_the_ranks_of_each_function() -> None:
    same = [
        Text(THREADS + _thread(1, "main () at a.c:5", current=True) + _thread(2, f"w (n={n})"))
        for n in (1, 1, 2)
    ]
    assert shown(by_rank("info threads", same)) == [
        "[0-2]",
        "  Id  Target Id               Frame",
        '* 1   Thread … (LWP …) "app"  main () at a.c:5',
        '  2   Thread … (LWP …) "app"  w (n=…)',
    ]
    other = Text(THREADS + _thread(1, "f () at a.c:7", current=True) + _thread(2, "w (n=1)"))
    assert shown(by_rank("info threads", [*same, other])) == [
        "        Id  Target Id               Frame",
        '[0-2] * 1   Thread … (LWP …) "app"  main () at a.c:5',
        '[3]   * 1   Thread … (LWP …) "app"  f () at a.c:7  @4',
        '[0-3]   2   Thread … (LWP …) "app"  w (n=…)',
    ]


def test_a_command_for_all_threads_is_shown_once_for_each_output() -> None:
    def output(*texts: str) -> Text:
        threads = enumerate(texts, 1)
        parts = [
            f'\nThread {n} (Thread {SLOT} (LWP {SLOT}) "app"):\n{text}\n' for n, text in threads
        ]
        return Text("".join(reversed(parts)))

    said = [
        output("$1 = 5", "$2 = 7"),
        output("$1 = 6", "$2 = 7"),
        output("$1 = 5", "$2 = 8", "$3 = 7"),
    ]
    assert shown(by_rank("thread apply all p x", said)) == [
        "[0-1] thread 2, [2] thread 3: $… = 7",
        "[2] thread 2: $… = 8",
        "[0-2] thread 1: $… = …",
        "    $…  [0,2] 5",
        "        [1]   6  <-- differs  @2",
    ]


def _switched(frame: str, number: int = 1) -> Text:
    return Text(f"[Switching to thread {number} (Thread {SLOT} (LWP {SLOT}))]\n{frame}\n")


def test_selected_threads_have_one_heading_and_a_frame_for_each_place() -> None:
    deep = [f"#0  deep (n={n}) at a.c:5\n5\t  x = 1;" for n in (0, 0, 4)]
    other = f"#2  {SLOT} in f (k=1) at b.c:7\n7\tin b.c"
    unreadable = f"#2  {SLOT} in f (k=1) at b.c:7\n7\tb.c: No such file or directory."
    heading = "[Switching to thread 1 (Thread … (LWP …))]"
    said = [_switched(frame) for frame in (*deep, other, unreadable)]
    assert shown(by_rank("thread 1", said)) == [
        "[0-4]",
        heading,
        "[0-2] #0  deep (n=…) at a.c:5",
        "5\t  x = 1;",
        "    #0 deep n  [0-1] 0",
        "               [2]   4  <-- differs  @3",
        "[3-4] #2  f (k=1) at b.c:7",
        "7\tb.c: No such file or directory.",
    ]
    assert shown(by_rank("thread 1", said[3:])) == [
        "[0-1]",
        heading,
        "#2  f (k=1) at b.c:7",
        "7\tb.c: No such file or directory.",
    ]
    # One output is as GDB has it.
    alone = shown(answer("thread 1", ("0-1", said[3])))
    assert alone[:2] == ["[0-1]", "[Switching to thread 1 (Thread " + f"{SLOT} (LWP {SLOT}))]"]
    # Other numbers are in the heading, and a thread that runs has no frame.
    said = [_switched(deep[0], 3), Text(_switched("").text.rstrip("\n") + "(running)")]
    assert shown(by_rank("thread $n", said)) == [
        "[0-1]",
        "[Switching to thread … (Thread … (LWP …))]",
        "    [Switching to  [0] 3  @1",
        "                   [1] 1  @2",
        "[0] #0  deep (n=0) at a.c:5  @1",
        "5\t  x = 1;",
        "[1] (running)  @2",
    ]


def test_selected_threads_at_many_places_are_folded() -> None:
    said = [_switched(f"#0  f{rank} () at a.c:5") for rank in range(20)]
    lines = shown(by_rank("thread 1", said))
    assert [line.split()[2] for line in lines if "#0" in line] == [
        f"f{rank}" for rank in (0, 1, 2, 3, 16, 17, 18, 19)
    ]
    assert lines[-2:] == [
        "(12 more places with 12 ranks are folded)",
        "(expand 5 shows all of it)",
    ]


def test_numbers_of_the_history_of_values_are_no_differences() -> None:
    said = [Text("$4 = 5"), Text("$5 = 5"), Text("$4 = 6")]
    assert shown(by_rank("call x", said)) == ["[0-1] $… = 5", "[2]   $… = 6  <-- differs  @3"]


def test_addresses_that_differ_are_offered() -> None:
    one = answer("print p", ("0-3", Value(f"(Node *) {SLOT}")))
    found = replace(one, classes=(replace(one.classes[0], slots=(DIFFERENT_SLOT,)),))
    hint = "(addresses differ between the ranks; expand 5 shows them)"
    assert shown(found) == ["[0-3] p = (Node *) …", hint]
    one = answer("x/s p", ("0-3", Text(f'{SLOT}:\t"a"')))
    found = replace(one, classes=(replace(one.classes[0], slots=(DIFFERENT_SLOT,)),))
    assert shown(found) == ['[0-3] …:\t"a"', hint]
    one = answer("print &x", ("0-3", Value(f"(int *) {SLOT} <x>")))
    found = replace(one, classes=(replace(one.classes[0], slots=(DIFFERENT_SLOT,)),))
    assert shown(found) == ["[0-3] &x = (int *) … <x>"]


def test_many_places_with_the_same_texts_are_folded() -> None:
    names = ", ".join(f"f{number} = VALUE" for number in range(9))
    said = [Value("{" + names.replace("VALUE", str(value)) + ", g = 1}") for value in (1, 1, 2)]
    lines = shown(by_rank("print s", said))
    assert lines[1:] == [
        "    .f0 (+8 more)  [0-1] 1",
        "                   [2]   2  <-- differs  @3",
        "(expand 5 shows all of it)",
    ]
    assert len(shown(by_rank("print s", said), whole=True)) > 18


def test_registers_of_which_few_differ() -> None:
    usual = "rax            0x0                 0\nrbx            0x5                 5\n"
    other = usual.replace("0x0                 0", "0x7                 7")
    assert shown(answer("info registers", ("0-2", Text(usual)), ("3", Text(other)))) == [
        "[0-3]",
        "rax            …",
        "rbx            0x5                 5",
        "    rax  [0-2] 0x0  0  @1",
        "         [3]   0x7  7  <-- differs  @2",
    ]


def test_outputs_that_have_nothing_in_common_stay_whole() -> None:
    said = answer("info x", ("0-2", Text("a b\nc d")), ("3", Text("1 2\n3 4\n5 6")))
    assert shown(said) == ["[0-2]  @1", "a b", "c d", "[3]  @2", "1 2", "3 4", "5 6"]


def test_a_few_short_outputs_stay_apart_and_many_are_summed_up() -> None:
    assert shown(by_rank("output x", [Text(f"{rank}") for rank in range(2)])) == [
        "[0] 0  @1",
        "[1] 1  @2",
    ]
    many = shown(by_rank("output x", [Text(f"step {rank} of 9") for rank in range(20)]))
    assert many[0] == "[0-19] step … of 9"
    assert many[1].startswith("    step  0 … 19, 20 different values")


def test_structures_in_outputs_are_compared_by_field() -> None:
    said = by_rank("display s", [Text(f"1: s = {{id = {rank}, n = 4}}") for rank in range(3)])
    assert shown(said) == [
        "[0-2] 1: s = {id = …, n = 4}",
        "    s.id  [0] 0  @1",
        "          [1] 1  @2",
        "          [2] 2  @3",
    ]


def test_an_error_beside_outputs_has_its_own_line() -> None:
    said = answer(
        "info registers",
        ("0-1", Text("rax 1\nrbx 2\nrcx 3")),
        ("2", Text("rax 2\nrbx 2\nrcx 3")),
        ("3", Failure("no registers")),
    )
    assert shown(said)[-1] == "[3] error: no registers  @3"
    assert shown(said)[0] == "[0-2]"


def test_displays_are_merged() -> None:
    outputs = [Output(text=f"1: x = {rank}\n2: n = 5") for rank in range(2)]
    classes = [
        EquivalenceClass[Event](ranks=RankSet([rank]), record=each)
        for rank, each in enumerate(outputs)
    ]
    assert event_text.events(classes).split("\n") == [
        "[0-1]",
        "1: x = …",
        "2: n = 5",
        "    x  [0] 0",
        "       [1] 1",
    ]


def test_a_display_that_gdb_cuts_says_that_a_part_is_compared() -> None:
    note = [
        "    (compared as far as they are shown: v;",
        "     'print v' looks at all of it)",
    ]
    cut = Text('1: v = {1 <repeats 200 times>...}\n2: s = "a..."\n')
    assert shown(by_rank("display", [cut, cut]))[-2:] == note
    assert note[0] not in shown(by_rank("display", [cut]))
    large = Text("1: v = <error: value requires 90000 bytes, which is more than max-value-size>\n")
    assert shown(by_rank("display v", [large, large]))[-2:] == note
    assert note[0] not in shown(by_rank("x/s p", [cut, cut]))
