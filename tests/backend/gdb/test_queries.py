"""Failures of GDB's commands as records."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.backend.gdb.frame_arguments import FrameArguments
from pgdb.backend.gdb.mi import Result, console
from pgdb.backend.gdb.queries import evaluate_numbered, failure, select_frame, variables
from pgdb.backend.rank.protocol import NeedsStopError
from pgdb.records import Failure, Record, Stack, Value, Variables
from tests.fakes.table_gdb import TableGdb, said


async def printed(gdb: TableGdb, expression: str, letters: str) -> Record:
    return (await evaluate_numbered(gdb, expression, letters))[0]


def failed(message: str) -> Result:
    return Result(kind="error", payload={"msg": message})


def test_a_failure_has_gdbs_words() -> None:
    assert failure(failed('No symbol "x" in current context.\n')).message == (
        'No symbol "x" in current context.'
    )


def test_a_gdb_that_is_too_old_for_the_processor_is_named_with_the_way_out() -> None:
    message = failure(failed("Couldn't write extended state status: Bad address.")).message
    assert message.startswith("Couldn't write extended state status: Bad address: this GDB cannot")
    assert "GDB 14" in message and "--gdb" in message


def test_a_rank_that_runs_is_no_failure() -> None:
    with pytest.raises(NeedsStopError):
        failure(failed("Selected thread is running."))


@pytest.mark.parametrize(
    ("command", "level"),
    [
        ("frame function main", "2"),
        ("f fun main(int, char **)", "2"),
        ("frame function inlined", "0"),
        ("frame function solve", "1"),
        ("frame function nobody", "0"),
        ("frame function outer", "0"),
        ("frame 0", "0"),
    ],
)
def test_a_function_is_selected_and_no_function_inlined_into_it(command: str, level: str) -> None:
    def frame(number: int, name: str, address: str = "0x1100") -> str:
        return f'frame={{level="{number}",addr="{address}",func="{name}"}}'

    outer = [frame(1, "app::solve(double)"), frame(2, "main"), frame(3, "outer", "0x1200")]
    gdb = TableGdb(
        {
            "-stack-info-frame": f"^done,{frame(0, 'inlined')}",
            "-stack-list-frames 1 32": f"^done,stack=[{','.join(outer)}]",
        }
    )

    async def select() -> object:
        return await select_frame(gdb, FrameArguments(), command, lambda each, _: each)

    selected = asyncio.run(select())
    assert isinstance(selected, Stack) and selected.hidden == level
    assert [each for each in gdb.asked if each.startswith("-interpreter")] == [
        console(command),
        *([console(f"frame {level}")] if level != "0" else []),
    ]


def test_the_selected_frame_is_asked_for_without_a_command() -> None:
    """GDB's ``frame`` would change the lines that ``list`` lists next."""
    gdb = TableGdb({"-stack-info-frame": '^done,frame={level="1",addr="0x1",func="main"}'})

    async def select() -> object:
        return await select_frame(gdb, FrameArguments(), "", lambda each, _: each)

    selected = asyncio.run(select())
    assert isinstance(selected, Stack) and selected.frames[0].function == "main"
    assert not [each for each in gdb.asked if each.startswith("-interpreter")]


@pytest.mark.parametrize(
    ("value", "indexed", "bounds"),
    [
        ("(4, 5)", "((-1) = 4, (0) = 5)", "-1"),
        ("(4, 5)", "((1) = 4, (2) = 5)", ""),
        ("((4, 5) (6, 7))", "((-3) = ((0) = 4, (1) = 5) (-2) = ((0) = 6, (1) = 7))", "-3,0,0"),
        ("( n = 2, x = (1, 2) )", "( n = 2, x = ((5) = 1, (6) = 2) )", "5"),
        ("('ab', 'cd')", "((0) = 'ab', (1) = 'cd')", "0"),
        ("(4, 5)", "((-1) = 4, (0) = 6)", "?"),
        ("(4, 5)", "(4, 5)", "?"),
        ("( n = 2, z = (1,2) )", "( n = 2, z = (1,2) )", ""),
    ],
)
def test_lower_bounds_of_fortran_arrays(value: str, indexed: str, bounds: str) -> None:
    side = "with may-call-functions off -- with print array-indexes on -- output $1"
    gdb = TableGdb({console("print u"): said(f"$1 = {value}"), console(side): said(indexed)})
    assert asyncio.run(printed(gdb, "u", "")) == Value(text=value, bounds=bounds)


@pytest.mark.parametrize(
    "value", ["5", "(1,-2.5)", "(int *) 0x7ffe", "{1, 2}", "(FAST | LOUD)", "( n = 2 )"]
)
def test_other_values_are_printed_once(value: str) -> None:
    gdb = TableGdb({console("print u"): said(f"$1 = {value}")})
    assert asyncio.run(printed(gdb, "u", "")) == Value(text=value)


@pytest.mark.parametrize(
    ("command", "expression", "letters", "value"),
    [
        ("print/t u", "u", "t", Value(text="0", base=2)),
        ("print/o u", "u", "o", Value(text="0", base=8)),
        ("print/x u", "u", "x", Value(text="0")),
        ("print -pretty on -- /t u", "-pretty on -- u", "t", Value(text="0", base=2)),
    ],
)
def test_the_base_of_digits_that_do_not_show_it_is_kept(
    command: str, expression: str, letters: str, value: Value
) -> None:
    gdb = TableGdb({console(command): said("$1 = 0")})
    assert asyncio.run(printed(gdb, expression, letters)) == value


def test_an_expression_that_assigns_is_evaluated_once() -> None:
    side = "with may-call-functions off -- with print array-indexes on -- output $1"
    gdb = TableGdb(
        {
            console("print u = v"): said("$1 = (4, 5)"),
            console(side): said("((-1) = 4, (0) = 5)"),
        }
    )
    assert asyncio.run(printed(gdb, "u = v", "")) == Value(text="(4, 5)", bounds="-1")


@pytest.mark.parametrize(
    ("text", "log", "message", "expected"),
    [
        ("", 'No symbol "x" in current context.\n', 'No symbol "x" in current context.', ""),
        ("#0  main ()\n$1 = 4\n", "No symbol.\n", "No symbol.", "#0  main ()\n$1 = 4"),
        ("", "warning: old\nNo symbol.\n", "No symbol.", "warning: old"),
        (
            "before\n",
            "Traceback (most recent call last):\n  File \"<string>\"\nKeyError: 'k'\n"
            "Error while executing Python code.\n",
            "Error while executing Python code.",
            "before\nTraceback (most recent call last):\n  File \"<string>\"\nKeyError: 'k'",
        ),
    ],
)
def test_the_output_before_an_error_is_kept(
    text: str, log: str, message: str, expected: str
) -> None:
    failed = failure(Result("error", {"msg": message}, text, log))
    assert (failed.message, failed.output) == (message, expected)


def test_words_of_python_become_the_message_and_are_not_repeated() -> None:
    log = "Python Exception <class 'gdb.GdbError'>: plain words\nError occurred in Python: plain\n"
    failed = failure(Result("error", {"msg": "Error occurred in Python: plain"}, "a\n", log))
    assert (failed.message, failed.output) == ("plain words", "a")


class FailingPrinters(TableGdb):
    """A GDB whose pretty-printers fail, unless it prints raw values."""

    def answer(self, command: str) -> asyncio.Future[Result]:
        future = super().answer(command)
        if "output/r" in command:
            return future
        failed: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        log = "Python Exception <class 'gdb.error'>: There is no member named _M_fp.\n"
        known = future.result()
        failed.set_result(Result(known.kind, known.payload, known.text, log))
        return failed


def test_a_printer_that_fails_does_not_make_all_values_equal() -> None:
    gdb = FailingPrinters(
        {
            console("print at"): "~$4 = \n",
            console("print/x at"): "~$5 = \n",
            console("output/r $4"): "~{_M_fp = 5.5}",
            console("output/rx $5"): "~{_M_fp = 0x5}",
            console("output/r at"): "~{_M_fp = 5.5}",
            "-stack-list-locals 1": '^done,locals=[{name="at",value=""},{name="n",value="4"}]',
        }
    )

    async def ask() -> tuple[object, object, object]:
        one, other = await printed(gdb, "at", ""), await printed(gdb, "at", "x")
        return one, other, await variables(gdb, "locals")

    first, second, listed = asyncio.run(ask())
    warnings = "Python Exception <class 'gdb.error'>: There is no member named _M_fp."
    assert first == Value(text="{_M_fp = 5.5}", warnings=warnings)
    assert second == Value(text="{_M_fp = 0x5}", warnings=warnings)
    assert isinstance(listed, Variables)
    assert [each.value for each in listed.items] == ["{_M_fp = 5.5}", "4"]


def test_the_number_of_a_value_that_cannot_be_formatted_is_not_shown() -> None:
    class Refusing(TableGdb):
        def answer(self, command: str) -> asyncio.Future[Result]:
            future = super().answer(command)
            if command != console("print/q 3"):
                return future
            refused: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
            words = {"msg": 'Undefined output format "q".'}
            refused.set_result(Result("error", words, "printed before\n$7 = "))
            return refused

    # Ranks whose histories are of different lengths have one answer.
    record = asyncio.run(printed(Refusing({}), "3", "q"))
    assert record == Failure(message='Undefined output format "q".', output="printed before")
