"""Structures explored, variable objects, and GDB's lists under the names of 2014."""

from __future__ import annotations

import re

import pytest

import pgdb
from pgdb.records import Failure, Value, Variables
from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.shown_answers import shown
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def test_structures_are_explored_and_merged(mpi: Mpi, build: Build) -> None:
    program = build("shapes.cpp")
    commands = (
        f"break {program.at('deep')}",
        f"break {program.at('elsewhere')}",
        "c",
        "varprint shape",
        "varprint --depth 1 shape",
        "proc 0 varprint --children 2 shape.v",
        "varprint shape.none",
        "varprint nosuch",
        "varassign shape.rank = 7",
        "p shape.rank",
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    text = shown(finished.out, "varprint shape")
    whole = "\n".join(text)
    assert text[0] == "[0-3] shape = {"
    for part in (
        "rank = …",
        "a = {0, …, 0}",
        "none = 0x0",
        '["one"] = 1',
        'name = "shape"',
        "value = 2",
    ):
        assert part in whole, (part, whole)
    # The list is a cycle on all ranks but one.
    assert "<shown above>" in whole
    places = [line for line in text if line.startswith("    .")]
    # .rank, .inner.a[1], .list.value and .m["rank"]
    assert any(line.startswith("    .rank (+3 more)  ") for line in places), whole
    assert any(line.startswith("    .list.next.next ") for line in places), whole

    assert "{...}" in "\n".join(shown(finished.out, "varprint --depth 1 shape"))
    assert "value = 2" not in "\n".join(shown(finished.out, "varprint --depth 1 shape"))
    cut = shown(finished.out, "proc 0 varprint --children 2 shape.v")
    assert cut[0].endswith("{0, 10...}")
    assert shown(finished.out, "varprint shape.none") == ["[0-3] shape.none = 0x0"]
    assert shown(finished.out, "varprint nosuch")[0].startswith("[0-3] error: No symbol")
    assert shown(finished.out, "varassign shape.rank = 7") == ["[0-3] shape.rank = 7"]
    assert shown(finished.out, "p shape.rank") == ["[0-3] shape.rank = 7"]


def test_variable_objects_and_lists(mpi: Mpi, build: Build) -> None:
    program = build("shapes.cpp")
    commands = (
        f"break {program.at('deep')}",
        f"break {program.at('elsewhere')}",
        "c",
        "enable pretty printing",
        "var create s * shape",
        "var list children s",
        "var list children 1 s.public",
        "var info num children s.public",
        "var info type s.public.inner",
        "var evaluate expression s.public.rank",
        "var assign s.public.rank 40 + 2",
        "var update *",
        "var delete s",
        "var evaluate expression s",
        "var nothing s",
        "info stack depth",
        "info stack depth 1",
        "list locals 1",
        "list stack arguments 1 0 0",
        "list register names",
        "list changed registers",
        f"list symbol lines {program.source.name}",
        "list features",
        "list target features",
        "list thread groups",
        "write memory bytes &shape.rank 05000000",
        "p shape.rank",
        'disassemble -s $pc -e "$pc + 1" -- 0',
        "write memory bytes &shape.rank 5",
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    out = finished.out
    created = shown(out, "var create s * shape")
    assert created[0] == "[0-3]" and "name = s" in created and "type = Shape" in created
    children = "\n".join(shown(out, "var list children 1 s.public"))
    assert "exp = inner" in children and "exp = call" in children
    assert shown(out, "var info type s.public.inner") == ["[0-3] type = Inner"]
    assert sorted(shown(out, "var evaluate expression s.public.rank")) == [
        f"[{rank}] value = {rank}  @{rank + 1}" for rank in range(4)
    ]
    assert shown(out, "var assign s.public.rank 40 + 2") == ["[0-3] value = 42"]
    assert shown(out, "var delete s")[0].startswith("[0-3] ndeleted = ")
    assert "error: Variable object not found" in shown(out, "var evaluate expression s")[0]
    assert shown(out, "var nothing s")[0].startswith("var: no action 'nothing s'; there are create")

    depth = shown(out, "info stack depth")
    assert {re.sub(r" +", " ", line.split("  @")[0]) for line in depth} == {
        "[0,2] depth = 3",
        "[1] depth = 2",
        "[3] depth = 4",
    }
    assert shown(out, "info stack depth 1") == ["[0-3] depth = 1"]
    assert len(shown(out, "list register names")) > 8
    assert len(shown(out, "list changed registers")) > 8
    assert "name = doubled" in "\n".join(shown(out, "list locals 1"))
    assert "[0,2-3] n" in "\n".join(shown(out, "list stack arguments 1 0 0"))
    assert f"line = {program.line('deep')}" in "\n".join(
        shown(out, f"list symbol lines {program.source.name}")
    )
    assert "frozen-varobjs" in "\n".join(shown(out, "list features"))
    assert "async" in "\n".join(shown(out, "list target features"))
    assert "type = process" in "\n".join(shown(out, "list thread groups"))
    assert shown(out, "p shape.rank") == ["[0-3] shape.rank = 5"]
    assert "inst = " in "\n".join(shown(out, 'disassemble -s $pc -e "$pc + 1" -- 0'))
    assert shown(out, "write memory bytes &shape.rank 5")[0].startswith("write: '5' is no row")


def test_children_are_listed_step_by_step(mpi: Mpi, build: Build) -> None:
    program = build("shapes.cpp")
    with pgdb.launch(mpi.line(4, program)) as session:
        session.break_at(program.at("end"))
        session.continue_(timeout_s=120.0)
        fields = variables(session.children("shape"))
        assert fields["none"] == "0x0" and fields["inner"] == "{...}"
        assert fields["list"].endswith("{...}") and fields["list"].startswith("0x")
        assert set(variables(session.children("shape", ["list"]))) == {"value", "next", "data"}
        assert variables(session.children("shape", ["list", "next"]))["value"] == "2"
        assert variables(session.children("shape", ["m"])) == {'["one"]': "1", '["rank"]': "0"}
        assert variables(session.children("shape", ["v"], start=1, count=1)) == {"[1]": "10"}
        assert variables(session.children("shape", ["none"])) == {}
        explored = session.explore("shape", path=["inner"], depth=2)
        (value, *_) = [each.record for each in explored]
        assert isinstance(value, Value) and value.text == "{\n  a = {0, 0, 0},\n  d = 1.5\n}"
        (failed,) = session.children("shape", ["nosuch"]).errors
        assert failed.record == Failure("There is no child nosuch.") and len(failed.ranks) == 4


def variables(answer: pgdb.Answer) -> dict[str, str]:
    """Return the children on rank 0."""
    record = answer.for_rank(0)
    assert isinstance(record, Variables), record
    return {each.name: each.value for each in record.items}
