"""The declaration of commands with options: the example of CONTRIBUTING.md, and the parser."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.interfaces import Interfaces
from pgdb.frontend.api.line_completion import Completed
from pgdb.frontend.commands.__main__ import page
from pgdb.frontend.commands.completion import LineCompleter
from pgdb.frontend.commands.options import Option, Rest, Syntax, count, integers, number
from pgdb.frontend.commands.table import Call, CommandTable, Group, Outcome, Shown
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.system.durations import seconds
from pgdb.ranks import RankSet


class SpreadLine(msgspec.Struct, frozen=True, tag_field="type", tag="spread"):
    """The JSON line of ``spread``."""

    expression: str
    ranks: str
    factor: float
    unit: str


TABLE = CommandTable()


@TABLE.command(
    "spread",
    group=Group.DATA,
    usage="spread EXPR",
    summary="show how far the values of EXPR lie apart",
    needs="an expression",
    options=(
        Option(
            name="--factor",
            value="F",
            help="multiply every value by F",
            read=number,
            default=1.0,
        ),
        Option(
            name="--unit",
            value="UNIT",
            help="the unit of the values: s or m",
            choices=("s", "m"),
            default="s",
        ),
    ),
)
async def _spread(call: Call, expression: str, *, factor: float, unit: str) -> Outcome:
    """Show the greatest difference between two values of EXPR, of all selected ranks."""
    return Shown(
        f"{expression}: 0 {unit}",
        line=SpreadLine(expression=expression, ranks=str(call.ranks), factor=factor, unit=unit),
    )


def typed(line: str) -> Shown:
    word, _, argument = line.partition(" ")
    command = TABLE.find(word)
    assert command is not None
    call = Call(cast(Any, None), RankSet([0, 1]), word, "", argument, line)
    shown = asyncio.run(cast(Any, command.handler(call)))
    assert isinstance(shown, Shown)
    return shown


def test_the_handler_gets_what_was_typed() -> None:
    shown = typed("spread a --> b --unit m --factor=2.5")
    assert shown.text == "a --> b: 0 m"
    assert shown.line == SpreadLine("a --> b", "0-1", 2.5, "m")
    assert typed("spread x").line == SpreadLine("x", "0-1", 1.0, "s")


def test_the_json_line_is_the_struct() -> None:
    line = json_lines.encode(cast(Any, typed("spread x").line))
    assert json.loads(line) == {
        "type": "spread",
        "expression": "x",
        "ranks": "0-1",
        "factor": 1.0,
        "unit": "s",
    }


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("spread", "'spread' needs an expression"),
        ("spread --unit m", "'spread' needs an expression"),
        ("spread x --unit km", "spread: --unit takes s or m, not 'km'"),
        ("spread x --unit", "spread: --unit needs a value"),
        ("spread x --factor two", "spread: --factor 'two' is no number"),
        ("spread --unit m x --unit=s", "spread: --unit is given twice; it takes one value"),
        ("spread x --units m", "spread: no option '--units'; there are --factor, --unit"),
    ],
)
def test_slips_are_usage_errors(line: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        typed(line)
    assert str(caught.value) == why


HELP = """\
spread EXPR [--factor F] [--unit UNIT]
    show how far the values of EXPR lie apart

Show the greatest difference between two values of EXPR, of all selected ranks.

--factor F   multiply every value by F (default 1)
--unit UNIT  the unit of the values: s or m (default s)"""


def test_help_and_page_come_from_the_declaration() -> None:
    command = TABLE.find("spread")
    assert command is not None
    assert command.help == HELP
    assert page(TABLE).endswith(f"\n## Data\n\n### spread\n\n```\n{HELP}\n```\n")


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("spr", ["spread"]),
        ("spread x -", ["--factor", "--unit"]),
        ("spread x --u", ["--unit"]),
        ("spread x --unit ", ["s", "m"]),
        ("spread x --factor ", []),
        ("spread x", []),
    ],
)
def test_completion_comes_from_the_declaration(text: str, candidates: list[str]) -> None:
    session = SimpleNamespace(set=RankSet([0]), sets={}, last_breakpoint=0, interfaces=Interfaces())

    async def no_gdb(line: str, ranks: RankSet) -> Completed:
        return Completed()

    completer = LineCompleter(Workspace(cast(Any, session)), TABLE, ask=no_gdb)
    found = asyncio.run(completer(text)).lines
    start = text[: text.rfind(" ") + 1]
    assert found == tuple(sorted(start + each for each in candidates))


def test_a_handler_has_an_argument_for_each_option() -> None:
    async def handler(call: Call, expression: str, *, other: str) -> Outcome:
        """Do nothing."""
        return None

    table = CommandTable()
    declare = table.command(
        "x", group=Group.DATA, summary="", options=(Option(name="--one", help=""),)
    )
    with pytest.raises(ValueError, match=r"x: options \['one'\], but arguments \['other'\]"):
        declare(handler)


FLAG = Option(name="--all", help="")
VALUE = Option(name="--by", value="N", help="", read=count(9), default=1)
FILE = Option(name="-o", value="FILE", help="", argument="file", default="")


@pytest.mark.parametrize(
    ("rest", "text", "left", "values"),
    [
        (Rest.EXPRESSION, "--x > 0 --all", "--x > 0", {"all": True}),
        (Rest.EXPRESSION, 's == "a --all b"', 's == "a --all b"', {}),
        (Rest.EXPRESSION, "a  +  b --by 3", "a  +  b", {"by": 3}),
        (Rest.EXPRESSION, "--by=3 x -o a b", "x b", {"by": 3, "file": "a"}),
        (Rest.LOCATION, "-function f if x > --y --all", "-function f if x > --y", {"all": True}),
        (Rest.OPERAND, "u[0] @ 3 -o 'my file.png'", "u[0] @ 3", {"file": "my file.png"}),
        (Rest.OPERAND, r"u -o my\ file.png", "u", {"file": "my file.png"}),
        (Rest.OPERAND, "-x --all", "-x", {"all": True}),
        (Rest.NOTHING, "-all --by 2", "", {"all": True, "by": 2}),
        (Rest.GDB, "--all -frame-arg all 3", "-frame-arg all 3", {"all": True}),
        (Rest.GDB, "-5", "-5", {}),
        (Rest.BEHIND, "--all var x = y --by 3", "var x = y --by 3", {"all": True}),
        (Rest.BEHIND, "x --all", "x --all", {}),
        (Rest.WORDS, "--all --by=2 x --all", "x --all", {"all": True, "by": 2}),
        (Rest.WORDS, "--all -- --by", "-- --by", {"all": True}),
        (Rest.WORDS, "-x", "-x", {}),
    ],
)
def test_options_are_read_around_the_rest(
    rest: Rest, text: str, left: str, values: dict[str, object]
) -> None:
    syntax = Syntax((FLAG, VALUE, FILE), rest, ("-frame-arguments",))
    parsed = syntax.parse("cmd", text)
    assert parsed.rest == left
    assert parsed.values == {"all": False, "by": 1, "file": "", **values}


@pytest.mark.parametrize(
    ("rest", "text", "why"),
    [
        (Rest.EXPRESSION, "x --al", "cmd: no option '--al'; there are --all, --by, -o"),
        (Rest.LOCATION, "--x", "cmd: no option '--x'; there are --all, --by, -o"),
        (Rest.LOCATION, "--x=3 --all", "cmd: no option '--x'; there are --all, --by, -o"),
        (Rest.LOCATION, "f --x", "cmd: no option '--x'; there are --all, --by, -o"),
        (Rest.OPERAND, "--x", "cmd: no option '--x'; there are --all, --by, -o"),
        (Rest.NOTHING, "x", "cmd: no option 'x'; there are --all, --by, -o"),
        (Rest.NOTHING, "--all=3", "cmd: --all takes no value"),
        (Rest.NOTHING, "'", 'cmd: "\'": No closing quotation'),
        (Rest.GDB, "--frame", "cmd: no option '--frame'; there are --all, --by, -o, and those of"),
        (Rest.EXPRESSION, "x --by 10", "cmd: --by takes 1 to 9, not '10'"),
        (Rest.EXPRESSION, "x -o", "cmd: -o needs a value"),
        (Rest.WORDS, "--all --x y", "cmd: no option '--x'; there are --all, --by, -o"),
    ],
)
def test_errors_name_the_option(rest: Rest, text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        Syntax((FLAG, VALUE, FILE), rest, ("-frame-arguments",)).parse("cmd", text)
    assert str(caught.value).startswith(why)


def test_a_command_without_options_says_so_and_where_an_option_belongs() -> None:
    table = CommandTable()

    @table.command("go", group=Group.RUNNING, summary="go", rest=Rest.OPERAND, advice={"--by": "!"})
    async def _go(call: Call, text: str) -> Outcome:
        """Go on."""
        return text

    command = table.find("go")
    assert command is not None
    assert command.parse("2").rest == "2"
    assert command.help == "go\n    go\n\nGo on."
    for text, says in (
        ("2 --at x", "go: no option '--at'"),
        ("2 --by 3", "go: no option '--by'!"),
        ("--ranks 0", "go: no option '--ranks'; 'proc SET go' chooses the ranks"),
    ):
        with pytest.raises(UsageError) as caught:
            command.parse(text)
        assert str(caught.value) == says


def test_options_of_one_argument_exclude_each_other_or_add_up() -> None:
    one, two, three = (
        Option(name=f"--{each}", help="", argument="kind", constant=each, default="")
        for each in ("a", "b", "c")
    )
    syntax = Syntax((one, two, three), Rest.OPERAND)
    assert syntax.parse("cmd", "x --b --b").values == {"kind": "b"}
    with pytest.raises(UsageError, match=r"^cmd: one of --a, --b and --c is enough$"):
        syntax.parse("cmd", "x --a --c")
    several = Option(name="--n", value="N", help="", read=integers, is_repeated=True)
    assert Syntax((several,), Rest.NOTHING).parse("cmd", "").values == {"n": ()}
    parsed = Syntax((several,), Rest.NOTHING).parse("cmd", "--n 1x2 --n 3")
    assert parsed.values == {"n": ((1, 2), (3,))}


@pytest.mark.parametrize(
    ("read", "text", "why"),
    [
        (count(3), "\u00b2", "o takes 1 to 3, not '\u00b2'"),
        (count(3), "1" * 5000, "o takes 1 to 3"),
        (number, "x", "o 'x' is no number"),
        (integers, "1,x", "o takes numbers such as 100,50, not '1,x'"),
        (seconds, "x", "o: 'x' is no number of seconds"),
    ],
)
def test_readers_of_values_name_the_option(read: Any, text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        read("o", text)
    assert str(caught.value).startswith(why)


def test_help_shows_defaults_that_can_be_typed() -> None:
    def help_of(default: object) -> str:
        option = Option(name="--first", value="N", help="so many rows", default=default)
        return Syntax(options=(option,), rest=Rest.NOTHING).help()

    assert help_of(3) == "--first N  so many rows (default 3)"
    assert help_of(0.0) == "--first N  so many rows (default 0)"
    for absent in (0, None, ""):
        assert help_of(absent) == "--first N  so many rows"
