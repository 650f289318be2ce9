"""Answers as text: the common part once, different parts with their ranks, within a width."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.show.text import event_text, render, stack_text
from pgdb.frontend.show.text.layout import shortened
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    SLOT,
    Event,
    Exit,
    Failure,
    Frame,
    Record,
    Stack,
    Stop,
    Text,
    Value,
    Variable,
    Variables,
)
from tests.support.rendered import PARTICLE, answer, by_rank, fields, shown, various


def test_all_agree() -> None:
    assert shown(answer("print x", ("0-31", "5"))) == ["[0-31] x = 5"]


def test_a_few_values_most_common_first() -> None:
    said = answer("print x", ("0", "7"), ("1-30", "5"), ("31", Failure("No symbol.")))
    assert shown(said) == [
        "[1-30] x = 5  @2",
        "[0]    x = 7  <-- differs  @1",
        "[31]   error: No symbol.  @3",
    ]
    assert shown(said, whole=True) == ["[0]    x = 7", "[1-30] x = 5", "[31]   error: No symbol."]


def test_warnings_stand_before_the_values_with_their_ranks() -> None:
    odd = Value("5", warnings="warning: left shift count is negative")
    assert shown(answer("print x", ("0,2-3", "5"), ("1", odd))) == [
        "[1]   warning: left shift count is negative  @2",
        "[0-3] x = 5",
    ]
    summed = various(Value(text=PLACEHOLDER, warnings="warning: odd"), [*map(str, range(9))])
    first, second, *_ = shown(Answer("print x", summed.ranks, (summed,)))
    assert first == "[0-8] warning: odd"
    assert second.startswith("[0-8] x = 0 … 8, 9 different values")


def test_halves_are_no_outliers() -> None:
    said = answer("print x", ("0-30/2", "5"), ("1-31/2", "6"))
    assert shown(said) == ["[0-30/2] x = 5  @1", "[1-31/2] x = 6  @2"]


def test_many_numbers_are_summed_up() -> None:
    texts = [f"{1.5 * rank:g}" for rank in range(32)]
    texts[7], texts[9], texts[11] = "nan(0x8000000000000)", "-inf", "<optimized out>"
    first, second, third, other, hint = shown(by_rank("print local", texts))
    assert first.startswith("[0-10,12-31] local = 0 … 46.5, 29 different values  ▁")
    assert second.strip() == "min 0 [0]  max 46.5 [31]  mean 24.2586  std 14.1486"
    assert third.strip() == "NaN on [7]  -inf on [9]"
    assert other == "[11]         local = <optimized out>  <-- differs  @12"
    assert hint == "(expand 5 shows all of it)"
    whole = shown(by_rank("print local", texts), whole=True)
    assert len(whole) == 32 and whole[7] == "[7]  local = nan(0x8000000000000)"


@pytest.mark.parametrize(
    ("command", "form", "extremes"),
    [
        ("print/x n", "{:#x}", "min 0x0 [0]  max 0x1f [31]  mean 15.5  std 9.23309"),
        ("print -pretty -- /x n", "{:#x}", "min 0x0 [0]  max 0x1f [31]  mean 15.5  std 9.23309"),
        ("print/o n", "0{:o}", "min 0 [0]  max 037 [31]  mean 15.5  std 9.23309"),
        ("print/t n", "{:b}", "min 0 [0]  max 11111 [31]  mean 15.5  std 9.23309"),
    ],
)
def test_many_numbers_in_another_base_are_summed_up_in_it(
    command: str, form: str, extremes: str
) -> None:
    first, second, _ = shown(by_rank(command, [form.format(rank) for rank in range(32)]))
    assert first.startswith(f"[0-31] n = {extremes.split()[1]} … {extremes.split()[4]}, 32 ")
    assert second.strip() == extremes


def test_the_differing_field_alone_is_listed() -> None:
    said = answer(
        "print particle",
        ("0-6,8-31", PARTICLE.format(5, 2.5, "even")),
        ("7", PARTICLE.format(5, "nan", "even")),
    )
    assert shown(said, width=120) == [
        "[0-31] particle = {id = 5, x = {1, …, 3}, name = \"even\", '\\000' <repeats 11 times>}",
        "    .x[1]  [0-6,8-31] 2.5  @1",
        "           [7]        nan  <-- differs  @2",
    ]
    cut = shown(said, width=60)
    assert cut[0].startswith("[0-31] particle = {id = 5, x = {1, …, 3}, name =")
    assert cut[0].endswith("…")
    assert cut[1:3] == shown(said, width=120)[1:]
    assert cut[3] == "(expand 5 shows all of it)"


def test_fields_with_many_numbers_have_their_summary() -> None:
    texts = [PARTICLE.format(rank, 2.5, ("even", "odd")[rank % 2]) for rank in range(32)]
    lines = shown(by_rank("print particle", texts))
    assert lines[0].startswith("[0-31] particle = {id = …, x = {1, 2.5, 3}, name = …}")
    assert lines[1].startswith("    .id    0 … 31, 32 different values  ▁")
    assert lines[2].strip() == "min 0 [0]  max 31 [31]  mean 15.5  std 9.23309"
    assert lines[3].startswith("    .name  [0-30/2] \"even\", '\\000'")


def test_where_nothing_is_common_values_stay_whole() -> None:
    said = by_rank("print p", ["{x = 1, y = 2}", "{x = 3, y = 4}"])
    assert shown(said) == ["[0] p = {x = 1, y = 2}  @1", "[1] p = {x = 3, y = 4}  @2"]


def test_arrays_of_numbers() -> None:
    texts = [f"{{0, {', '.join(str(rank * n) for n in range(1, 50))}}}" for rank in range(20)]
    lines = shown(by_rank("print u", texts))
    assert lines[0] == "[0-19] u = {0, … <repeats 49 times>}"
    assert lines[1].startswith("    [1]@49  0 … 931, ")
    assert "min 0 [0]  max 931 [19]" in lines[2]


@pytest.mark.parametrize("count", [2, 8, 9, 12])
def test_a_nan_in_long_arrays_of_a_few_ranks_is_named(count: int) -> None:
    def number(rank: int, at: int) -> str:
        return "nan(0x8000000000000)" if (rank, at) == (1, 17) else f"{rank + at / 8:g}"

    texts = [f"{{{', '.join(number(rank, at) for at in range(200))}}}" for rank in range(count)]
    lines = shown(by_rank("print u", texts))
    nan = next(number for number, line in enumerate(lines) if "NaN on [1] at [17]" in line)
    assert nan < 4
    assert any(f"max {count + 23.875:g} [{count - 1}]" in line for line in lines[:nan])
    if count <= 8:  # the arrays stand below
        assert [line.split()[0] for line in lines[nan + 1 : -1]] == [f"[{r}]" for r in range(count)]
    assert lines[-1] == "(expand 5 shows all of it)"
    assert len(shown(by_rank("print u", texts), whole=True)) == count


def test_strange_elements_have_their_indices() -> None:
    def text(strange: dict[int, str], first: str) -> str:
        return f"{{{', '.join(strange.get(at, f'{first}{at}') for at in range(60))}}}"

    texts = [
        text({5: "-nan(0x8000000000000)", 40: "inf"}, "1"),
        text({5: "nan(0x8000000000000)", 7: "nan(0x8000000000000)"}, "2"),
        text({30: "-inf", 31: "-inf", 32: "-inf", 33: "-inf"}, "3"),
    ]
    reported = "\n".join(shown(by_rank("print u", texts)))
    assert "NaN on [0-1] at [5], [7] of [1]" in reported
    assert " inf on [0] at [40]" in reported
    assert "-inf on [2] at [30], [31], [32], …" in reported
    rows = [f"{{{each}, {texts[2]}}}" for each in texts]
    assert "NaN on [0-1] at " in "\n".join(shown(by_rank("print u", rows)))


def test_variables_one_by_one_addresses_apart() -> None:
    def said(number: int, address: str) -> EquivalenceClass[Record]:
        items = (
            Variable("same", "42"),
            Variable("text", f'{SLOT} "a"'),
            Variable("i", str(number)),
            Variable("text", f'{SLOT} "b"'),
        )
        return EquivalenceClass(
            ranks=RankSet([number]), record=Variables(items), slots=(address, "0x55555")
        )

    classes = (said(0, "0x7ffe10"), said(1, "0x7ffe20"))
    lines = shown(Answer("info locals", RankSet([0, 1]), classes))
    assert lines == [
        "[0-1] same = 42",
        '[0-1] text = … "a"',
        "[0]   i = 0  @1",
        "[1]   i = 1  @2",
        '[0-1] text (2) = 0x55555 "b"',
    ]


def test_the_most_prominent_place_comes_before_the_other_fields() -> None:
    usual = {"f20": "1", "f30": "2", "f38": "0.5"}
    said = [fields(rank, **usual) for rank in range(4)]
    said[2] = fields(2, **usual | {"f38": "-nan(0x8000000000000)"})
    said[3] = fields(3, **usual | {"f20": "7"})
    lines = shown(by_rank("print s", said))
    assert [line.split() for line in lines[1:6]] == [
        [".f38", "[0-1,3]", "0.5"],
        ["[2]", "-nan(0x8000000000000)", "<--", "differs", "@3"],
        [".f20", "[0-2]", "1"],
        ["[3]", "7", "<--", "differs", "@4"],
        [".f0", "[0]", "0.5", "@1"],
    ]
    assert lines[-2:] == ["    (27 more places differ)", "(expand 5 shows all of it)"]


def test_a_variable_that_few_ranks_differ_in_comes_first() -> None:
    def variables(rank: int, odd: str, alone: str) -> Variables:
        values = {"same": "1", "mine": str(rank), "alone": alone, "last": '"a"', "odd": odd}
        return Variables(items=tuple(Variable(*item) for item in values.items()))

    said = [variables(rank, "inf" if rank == 1 else "2.5", "3") for rank in range(3)]
    said.append(variables(3, "2.5", "4"))
    assert shown(by_rank("info locals", said)) == [
        "[0,2-3] odd = 2.5",
        "[1]     odd = inf  <-- differs  @2",
        "[0-2]   alone = 3",
        "[3]     alone = 4  <-- differs  @4",
        "[0-3]   same = 1",
        "[0]     mine = 0  @1",
        "[1]     mine = 1  @2",
        "[2]     mine = 2  @3",
        "[3]     mine = 3  @4",
        '[0-3]   last = "a"',
    ]


@pytest.mark.parametrize(
    ("usual", "odd"),
    [
        ("1 + 2i", "1 + 3i"),
        ("std::set with 2 elements = {1, 2}", "std::set with 2 elements = {3, 4}"),
        (
            "std::vector of length 1, capacity 1 = {std::vector of length 1, capacity 1 = {1}}",
            "std::vector of length 1, capacity 1 = {std::vector of length 1, capacity 1 = {2}}",
        ),
        ("((1,2),(3,4))", "((5,6),(7,8))"),
        ('{"a", "b"}', '{"c", "d"}'),
    ],
)
def test_a_variable_is_one_value_of_ranks_that_differ_in_another(usual: str, odd: str) -> None:
    def variables(rank: int) -> Variables:
        value = odd if rank == 3 else usual
        return Variables(items=(Variable("value", value), Variable("mine", str(rank))))

    lines = shown(by_rank("info locals", [variables(rank) for rank in range(4)]), width=0)
    values = render.answer(answer("print value", ("0-2", usual), ("3", odd))).replace("  @1", "")
    assert lines[:-4] == [line.replace("@2", "@4") for line in values.split("\n")]
    assert [line.split()[0] for line in lines[-4:]] == ["[0]", "[1]", "[2]", "[3]"]


def test_summaries_of_aggregators_look_the_same() -> None:
    ids = [str(rank) for rank in range(2000)]
    rates = [str(rank / 8) for rank in range(1999)] + ["nan"]
    form = Value(
        f"{{id = {PLACEHOLDER}, x = {{{PLACEHOLDER}, {PLACEHOLDER}}}, name = {PLACEHOLDER}}}"
    )
    said = various(form, ids, ["3"] * 2000, rates, ['"a"'] * 2000)
    error = EquivalenceClass[Record](ranks=RankSet([2000]), record=Failure("No symbol."))
    lines = shown(Answer("print p", RankSet.range(0, 2001), (said, error)))
    assert lines[0] == "[0-1999] p = {id = …, x = {3, …}, name = …}  @1"
    assert lines[1].startswith("    .x[1]  0 … 249.75, about ")  # the NaN comes first
    assert lines[3].strip() == "NaN on [1999]"
    assert lines[4].startswith("    .id    0 … 1999, about ")
    assert lines[6] == "    .name  different texts"
    assert lines[7] == "[2000]   error: No symbol.  @2"
    single = shown(Answer("print x", said.ranks, (various(Value(PLACEHOLDER), rates),)))
    assert single[0].startswith("[0-1999] x = 0 … 249.75, about ")
    nothing = shown(Answer("print x", said.ranks, (various(Value("")),)))
    assert nothing[0] == "[0-1999] x = different on each of 2000 ranks"
    locals_form = Variables(
        (Variable("a", PLACEHOLDER), Variable("b", "5"), Variable("c", PLACEHOLDER))
    )
    listed = shown(Answer("info locals", said.ranks, (various(locals_form, ids, rates),)))
    assert [line.partition(" = ")[0].strip() for line in listed if " = " in line] == [
        "[0-1999] c",  # with the NaN
        "[0-1999] a",
        "[0-1999] b",
    ]
    text = shown(Answer("info x", said.ranks, (various(Text(f"at {PLACEHOLDER}"), ids),)))
    assert text[:3] == ["[0-1999]", "at …", "different on each of 2000 ranks"]


def test_rank_sets_are_shortened_in_the_middle() -> None:
    squares = RankSet(n * n for n in range(40))
    short = shortened(squares, 30)
    assert short.startswith("[0-1,4,9,") and short.endswith(",… 40 ranks]") and len(short) <= 32
    said = answer("print x", (str(squares), "5"), ("2-3", "6"))
    assert shown(said)[0].startswith(f"{short} x = 5")
    assert shown(said)[-1] == "(expand 5 shows all of it)"
    assert shown(said, whole=True)[0].startswith(f"[{squares}] x = 5")
    # A log has no width.
    assert f"[{squares}] x = 5" in shown(said, width=0)[0]
    assert shortened(RankSet.range(0, 1 << 20), 30) == "[0-1048575]"
    assert len(shortened(RankSet(n * n for n in range(1000)), 200)) <= 202


def test_logs_are_not_cut() -> None:
    text = f'"{"a" * 500}"'
    assert shown(answer("print s", ("0-3", text)), width=0) == [f"[0-3] s = {text}"]
    assert shown(answer("print s", ("0-3", text)))[0].endswith("a…")


def test_many_texts_are_folded_and_counted() -> None:
    lines = shown(by_rank("print s", [f'"text {rank}"' for rank in range(32)]))
    assert len(lines) == 10
    assert lines[-2:] == [
        "(24 more classes with 24 ranks are folded)",
        "(expand 5 shows all of it)",
    ]
    folded = shown(by_rank("info x", [Text(f"text-{rank}") for rank in range(32)]))
    assert folded[-2] == "(24 more classes with 24 ranks are folded)"


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (Exit(code=0), "exited normally"),
        (Exit(code=3), "exited with code 3"),
        (Exit(signal="SIGKILL"), "ended by SIGKILL"),
        (Exit(), "ended in an unknown way"),
    ],
)
def test_ends(end: Exit, text: str) -> None:
    assert event_text.event(end) == text


def test_equal_ends_of_several_runs_are_one_line() -> None:
    ends = [("0", Exit(signal="SIGKILL", run=3)), ("1", Exit(code=3, run=4))]
    ends += [("2-3", Exit(signal="SIGKILL", run=5))]
    classes = [EquivalenceClass[Event](RankSet.parse(text), end) for text, end in ends]
    assert event_text.events(classes) == "[0,2-3] ended by SIGKILL\n[1]     exited with code 3"


def test_equal_stops_of_several_runs_are_one_line() -> None:
    stops = [("0", Stop(reason="entry", run=3)), ("1", Stop(reason="fork", run=4))]
    stops += [("2-3", Stop(reason="entry", run=5))]
    classes = [EquivalenceClass[Event](RankSet.parse(text), stop) for text, stop in stops]
    text = event_text.events(classes)
    assert [line.split()[0] for line in text.splitlines()] == ["[0,2-3]", "[1]"]


def test_wide_stops_leave_long_arguments_out() -> None:
    frame = Frame(
        level=0,
        function="main",
        arguments=(Variable("argc", "1"), Variable("argv", "0x7fffffffe0a8")),
        file="/home/somebody/somewhere/deep/down/recursion.c",
        line=50,
    )
    reported = EquivalenceClass[Event](
        ranks=RankSet([0]), record=Stop(reason="breakpoint-hit", breakpoint=1, frame=frame)
    )
    place = "at /home/somebody/somewhere/deep/down/recursion.c:50"
    assert event_text.events([reported], width=80) == (
        f"[0] Breakpoint 1, main (argc=1, argv=…) {place}"
    )
    whole = f"[0] Breakpoint 1, main (argc=1, argv=0x7fffffffe0a8) {place}"
    assert event_text.events([reported], width=len(whole)) == whole == event_text.events([reported])


def test_recursion_is_folded() -> None:
    def recursive(depth: int) -> Stack:
        names = ["crash", *["deep"] * depth, *["ping", "pong"] * 5, "main"]
        return Stack(
            frames=tuple(
                Frame(level=level, function=name, file="rec.c", line=len(name))
                for level, name in enumerate(names)
            ),
            hidden="0",
        )

    said = answer("backtrace", ("0,2", recursive(300)), ("1,3", recursive(301)))
    assert shown(said) == [
        "[0,2]  2 of 4  312 frames  @1",
        "#0  crash () at rec.c:5",
        "#1  deep () at rec.c:4",
        "    … 298 more of deep at rec.c:4",
        "#300 deep () at rec.c:4",
        "#301 ping () at rec.c:4",
        "#302 pong () at rec.c:4",
        "    … 6 more of ping at rec.c:4 and pong at rec.c:4",
        "#309 ping () at rec.c:4",
        "#310 pong () at rec.c:4",
        "#311 main () at rec.c:4",
        *shown(said)[11:],
    ]
    assert shown(said)[11] == "[1,3]  2 of 4  313 frames  @2"
    assert render.answer(said, number=5).splitlines()[-1] == "(expand 5 shows all of it)"
    assert len(shown(said, whole=True)) == 2 + 312 + 313
    few = answer("backtrace", ("0-3", recursive(4)))
    assert "#4  deep () at rec.c:4" in shown(few)


def test_stacks_and_missing_ranks() -> None:
    def stack(function: str) -> Stack:
        return Stack((Frame(level=0, function=function, file="a.c", line=3),))

    said = answer("backtrace", ("0-2", stack("main")), ("3", stack("hang")))
    missing = Missing(late=RankSet([4]), running=RankSet([5]))
    said = Answer("backtrace", said.ranks, said.classes, missing, elapsed_s=10.0)
    assert shown(said, width=0) == [
        "[0-2]  3 of 4  @1",
        "#0  main () at a.c:3",
        "[3]  1 of 4  <-- differs  @2",
        "#0  hang () at a.c:3",
        "[5] running",
        "[4] no answer yet after 10 s; it is shown when it comes",
    ]


@pytest.mark.parametrize("text", ["0", "-1.7e308", "1.7e308", "123456789012345678901234567890"])
def test_extreme_numbers_have_a_summary(text: str) -> None:
    texts = [text, "-1.7e308", *(str(rank) for rank in range(20))]
    assert shown(by_rank("print x", texts))[0].startswith("[0-21] x = -1.7e+308 … ")


def test_values_on_several_lines() -> None:
    one, other = ("{\n  a = 1,\n  b = 2\n}", "{\n  a = 1,\n  b = 3\n}")
    assert shown(answer("print p", ("0-2", one), ("3", other))) == [
        "[0-3] p = {",
        "        a = 1,",
        "        b = …",
        "      }",
        "    .b  [0-2] 2  @1",
        "        [3]   3  <-- differs  @2",
    ]


def test_arrays_with_other_bounds_are_not_joined() -> None:
    items = [Variable("a", "(1, 2)", bounds=bounds) for bounds in ("-1", "1", "-1")]
    said = [Variables((item, Variable("n", str(rank)))) for rank, item in enumerate(items)]
    lines = shown(by_rank("info locals", said), whole=True)
    assert [line for line in lines if " a = " in line] == ["[0,2] a = (1, 2)", "[1]   a = (1, 2)"]


def test_variables_with_other_hashes_differ_behind_the_printed_part() -> None:
    hashes = ("0x1", "0x1", "0x2")
    said = [Variables((Variable("v", "{1, 2...}", digest=each),)) for each in hashes]
    lines = shown(by_rank("info locals", said))
    assert lines[0] == "[0-2] v = {1, 2...}"
    assert lines[1:] == [
        "    (2 different values, beyond the elements shown: [0-1], [2];",
        "     'print v' shows where they differ)",
    ]
    many = [Variables((Variable("v", "{1, 2...}", digest=f"0x{n}"),)) for n in range(40)]
    assert "40 different values, beyond the elements" in shown(by_rank("info locals", many))[1]


def test_values_that_are_shown_whole_differ_in_no_hidden_part() -> None:
    said = [
        Variables((Variable("x", f"{{{each} <repeats 1000 times>}}", digest=f"0x{each}"),))
        for each in (0, 0, 1)
    ]
    lines = shown(by_rank("info locals", said))
    assert [line.split("  @")[0] for line in lines] == [
        "[0-1] x = {0 <repeats 1000 times>}",
        "[2]   x = {1 <repeats 1000 times>}  <-- differs",
    ]


def test_equal_variables_that_were_looked_at_in_part_say_so() -> None:
    part = Variables((Variable("v", "{1, 2...}", digest="0x1", looked_at=2000),))
    lines = shown(by_rank("info locals", [part, part]))
    assert lines[1:] == [
        "    ([0-1] equal in the first 2000 elements; the others were not looked at)"
    ]


def test_values_of_single_ranks_that_were_looked_at_in_part_say_so() -> None:
    said = [
        Variables((Variable("v", f"{{{n}, 2...}}", digest=f"0x{n}", looked_at=2000),))
        for n in range(3)
    ]
    lines = shown(by_rank("info locals", said))
    assert lines[-1] == "    ([0-2] looked at in the first 2000 elements only)"
    assert not any("looked at" in line for line in shown(by_rank("info locals", said[:1])))


def test_a_variable_that_gdb_cuts_on_one_rank_only_is_not_compared_by_its_part() -> None:
    whole, part = "{a = {0 <repeats 900 times>}}", "{a = {0 <repeats 500 times>...}}"
    said = [
        Variables((Variable("v", whole),)),
        Variables((Variable("v", whole),)),
        Variables((Variable("v", part, digest="0x2"),)),
    ]
    lines = shown(by_rank("info locals", said))
    assert lines[-1] == "     'print v' shows where they differ)"
    assert "beyond 'set print elements'" not in "\n".join(lines)


def test_a_frame_of_gdbs_own_has_no_arguments() -> None:
    for function in ("<signal handler called>", "<function called from gdb>"):
        assert stack_text.frame(Frame(level=1, function=function)) == function
    assert stack_text.frame(Frame(level=1, function="main")) == "main ()"
