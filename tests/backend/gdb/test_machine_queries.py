"""Answers of GDB's machine interface as texts; a GDB that is played."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pgdb.backend.gdb import machine_queries
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.messages import Explore, MachineQuery
from pgdb.overlay.query_options import QueryOptions
from pgdb.records import Done, Failure, Record, Text, Value, Variable, Variables


class Played:
    """A GDB that gives prepared answers and keeps what it was asked."""

    def __init__(self, *answers: Result) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def send(self, command: str) -> Result:
        self.asked.append(command)
        return self._answers.pop(0)


def ask(gdb: Played, operation: MachineQuery) -> Record:
    return asyncio.run(machine_queries.ask(cast(GdbSession, gdb), operation))


def explore(gdb: Played, operation: Explore) -> Record:
    return asyncio.run(machine_queries.explore(cast(GdbSession, gdb), operation))


def done(payload: dict[str, Any] | None = None, text: str = "") -> Result:
    return Result("done", payload, text)


def query(command: str, *arguments: str, **options: Any) -> MachineQuery:
    return MachineQuery(command=command, arguments=arguments, options=QueryOptions(**options))


def test_fields_are_lines_and_lists_of_structures_have_a_line_each() -> None:
    payload = {
        "numchild": "2",
        "children": [{"name": "s.a", "value": "1"}, {"name": "s.b", "value": "{...}"}],
        "displayhint": "map",
    }
    gdb = Played(done(payload))
    record = ask(gdb, query("var list children", "s", values="all"))
    assert record == Text(
        "numchild = 2\nchildren: 2\n  name = s.a, value = 1\n  name = s.b, value = {...}"
    )
    assert gdb.asked == ["-var-list-children --all-values s"]


def test_arguments_with_blanks_are_quoted() -> None:
    gdb = Played(done(), done({"name": "s"}))
    ask(gdb, query("var create", "s", "*", 'a + "b"'))
    assert gdb.asked[-1] == '-var-create s * "a + \\"b\\""'


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        (query("var delete", "s", children_only=True), "-var-delete -c s"),
        (
            query("var evaluate expression", "s", format="hexadecimal"),
            "-var-evaluate-expression -f hexadecimal s",
        ),
        (query("list locals", values="simple"), "-stack-list-locals --simple-values"),
        (
            query("disassemble", start="$pc", end="$pc + 1", mode=0),
            '-data-disassemble -s $pc -e "$pc + 1" -- 0',
        ),
        (
            query("disassemble", file="a.c", line=3, lines=-1, mode=2),
            "-data-disassemble -f a.c -l 3 -n -1 -- 2",
        ),
    ],
)
def test_options_are_those_of_mi(query: MachineQuery, sent: str) -> None:
    gdb = Played(done())
    assert ask(gdb, query) == Done()
    assert gdb.asked == [sent]


def test_changed_registers_have_names_and_values() -> None:
    gdb = Played(
        done({"changed-registers": ["0", "2"]}),
        done({"register-names": ["rax", "", "rip"]}),
        done(
            {
                "register-values": [
                    {"number": "0", "value": "0x1"},
                    {"number": "2", "value": "0x40"},
                ]
            }
        ),
    )
    record = ask(gdb, query("list changed registers"))
    assert record == Text("rax            0x1\nrip            0x40")
    gdb = Played(done({"changed-registers": []}))
    record = ask(gdb, query("list changed registers"))
    assert record == Text("No registers have changed.")


def test_registers_are_named_by_numbers_and_names() -> None:
    names = done({"register-names": ["rax", "", "rip"]})
    values = done({"register-values": [{"number": "2", "value": "64"}]})
    gdb = Played(names, values)
    assert ask(gdb, query("info registers", "d", "2", "$rax")) == Text("rip            64")
    assert gdb.asked[-1] == "-data-list-register-values --skip-unavailable d 2 0"
    for unknown in ("1234", "nosuch", ""):
        record = ask(Played(names), query("info registers", "x", unknown))
        assert isinstance(record, Failure) and "'list register names'" in record.message


def test_warnings_stand_before_the_answer() -> None:
    warned = Result("done", {"path": "/a:/b"}, log="Warning: /a: No such file or directory.\n")
    gdb = Played(warned)
    assert ask(gdb, query("path", "/a", resets=True)) == Text(
        "Warning: /a: No such file or directory.\nExecutable and object file path: /a:/b"
    )
    assert gdb.asked == ['-environment-path -r "/a"']


def test_nothing_to_say_and_unknown_commands() -> None:
    gdb = Played(done())
    record = ask(gdb, query("var set frozen", "s", "1"))
    assert record == Done()
    record = ask(Played(), query("exec run"))
    assert record == Failure("no command 'exec run'")


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ('"{a = 1}"\n', Value("{a = 1}")),
        (
            '[["a", "1"], ["b", "{...}"]]',
            Variables((Variable("a", "1"), Variable("b", "{...}")), "No children."),
        ),
        ("[]", Variables((), "No children.")),
        ('{"error": "No symbol \\"x\\" here."}', Failure('No symbol "x" here.')),
        ("", Failure("GDB has no Python, which exploring needs")),
    ],
)
def test_explored_values(text: str, record: object) -> None:
    gdb = Played(done(text=text))
    operation = Explore(expression='m["a"]', path=("x",), children_only=text.startswith("["))
    assert explore(gdb, operation) == record
    assert '(\\"m[\\\\\\"a\\\\\\"]\\", [\\"x\\"], ' in gdb.asked[0]
