"""Parts of C++ values that GDB prints but does not find, under a real GDB."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pgdb.backend.gdb import cpp_parts, full_values
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.messages import Evaluate
from pgdb.records import Failure, Value
from tests.support.compiled import compiled
from tests.support.gdb_breakpoints import run_to, started

pytestmark = [pytest.mark.gdb]

SOURCE = """
#include <map>
#include <memory>
#include <string>
#include <vector>
namespace geo {
struct Base { int id = 4; virtual ~Base() {} };
template <class T> struct Round : Base { std::vector<T> radii{1, 2, 3}; };
}
namespace { struct Hidden : geo::Base { double deep[3] = {1, 2, 8}; }; }
struct Left : virtual geo::Base {};
struct Right : virtual geo::Base {};
struct Both : Left, Right { int last = 3; };
std::vector<int> squares(int n) {
  std::vector<int> v;
  for (int i = 0; i < n; i++) v.push_back(i * i);
  return v;
}
std::map<std::string, double> table() { return {{"a", 1.5}, {"b", 2.5}}; }
int look(geo::Base &round, geo::Base &hidden, geo::Base &both, std::shared_ptr<geo::Base> held,
         std::vector<std::unique_ptr<geo::Base>> &all, geo::Base *p) {
  return round.id + hidden.id + both.id + held->id + all[0]->id + p->id;
}
int main() {
  squares(5);
  table();
  geo::Round<double> round;
  Hidden hidden;
  Both both;
  auto held = std::make_shared<geo::Round<double>>();
  std::vector<std::unique_ptr<geo::Base>> all;
  all.emplace_back(new geo::Round<double>);
  return look(round, hidden, both, held, all, &round);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("parts"), "parts.cpp", SOURCE)


async def evaluated(gdb: GdbSession, expression: str) -> str:
    """Return the text of an expression's value, or of GDB's error."""
    record = await full_values.evaluate(gdb, Evaluate(expression=expression), 0)
    if isinstance(record, Failure):
        other = await cpp_parts.with_parts(gdb, expression, record)
        if other is None:
            return f"error: {record.message}"
        record = await full_values.evaluate(gdb, Evaluate(expression=other), 0)
    return record.text if isinstance(record, Value) else f"error: {record.message}"


@pytest.mark.parametrize(
    ("function", "expression", "text"),
    [
        ("squares", "$1[4]", "16"),
        ("squares", "$1[4] + $1[2]", "20"),
        ("squares", "$1[1]@3", "{1, 4, 9}"),
        ("squares", "$1[9]", "error: The container has no such element."),
        ("squares", '$1["b"]', "error: The container has no such element."),
        ("table", '$1["b"]', "2.5"),
    ],
)
def test_a_returned_container_has_its_elements(
    program: Path, function: str, expression: str, text: str
) -> None:
    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, function)
            await gdb.send("-exec-finish")  # puts the value into the history
            await listener.stops.get()
            shown = await evaluated(gdb, expression)
            assert shown == text
            await gdb.send(console("kill"))

    asyncio.run(check())


PARTS = {
    "round.radii[1]": "2",
    "p->radii[1]": "2",
    "held->radii[1] + 1": "3",
    "all[0]->radii[2]": "3",
    "hidden.deep[2]": "8",
    "both.last": "3",
    "round.nosuch": "error: There is no member or method named nosuch.",
}


def test_the_object_behind_a_base_has_its_members_where_gdb_prints_them(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, "look")
            # GDB prints the base alone, and finds no more.
            assert (await evaluated(gdb, "round.radii[1]")).startswith("error: There is no member")
            await gdb.send(console("set print object on"))
            assert {each: await evaluated(gdb, each) for each in PARTS} == PARTS
            await gdb.send(console("kill"))

    asyncio.run(check())
