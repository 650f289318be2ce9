"""Random values of C++ and Fortran: the place that differs is an expression that shows the same.

A program has each value twice, with one element changed. GDB prints both, as two ranks would.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from pgdb.backend.gdb.queries import bounds_of
from pgdb.frontend.analysis.diff import NONE, Place, compare
from pgdb.frontend.analysis.paths import place_of
from pgdb.frontend.analysis.values import Group, Leaf, Node, parse
from pgdb.merge.normalize import normalize_values
from pgdb.ranks import RankSet
from tests.support.programs import ROOT
from tests.support.random_values import cpp_program, fortran_program

pytestmark = [pytest.mark.gdb]

VARIABLES = 40
DEADLINE_S = 120.0
NAMES = ("one", "other")


def compiled(directory: Path, source: str, suffix: str) -> Path:
    """Return the program of a source text."""
    word = "gfortran" if suffix == ".f90" else "g++"
    compiler = shutil.which(word) or pytest.skip(f"this machine has no {word}")
    path = directory / f"values{suffix}"
    path.write_text(source, encoding="utf-8")
    flags = ["-std=c++17"] if suffix == ".cpp" else ["-ffree-line-length-none"]
    line = [compiler, "-g", "-O0", "-w", *flags, "-o", "values", path.name]
    subprocess.run(line, cwd=directory, check=True, timeout=DEADLINE_S)
    return directory / "values"


def printed(program: Path, expressions: Sequence[str], before: str = "") -> list[str]:
    """Return what GDB prints for expressions in the function above ``look``."""
    code = ROOT / "backend" / "gdb"
    line = ["gdb", "-q", "-nx", "-batch"]
    line += ["-iex", f"python import sys; sys.path.insert(0, '{code}')"]
    for module in ("elements_in_gdb", "fortran_arrays_in_gdb", "library_printers_in_gdb"):
        line += ["-iex", f"python import {module}; {module}.main()"]
    settings = ("width 0", "print max-depth -1", "print elements 0", "max-value-size unlimited")
    for command in (*(f"set {each}" for each in settings), "break look"):
        line += ["-ex", command]
    line += ["-ex", "run", "-ex", "up"]
    for number, each in enumerate(expressions):
        line += ["-ex", f"echo \\n<{number}>", "-ex", f"{before}output {each}"]
    # The last text has an end, too, where an expression fails.
    line += ["-ex", f"echo \\n<{len(expressions)}>", str(program)]
    shown = subprocess.run(
        line,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    parts = re.split(r"\n<(\d+)>", shown.stdout)
    assert [int(each) for each in parts[1::2]] == [*range(len(expressions) + 1)], shown.stderr
    return parts[2::2][:-1]


def elements(node: Node) -> list[str]:
    """Return the texts of all leaves, each run in full."""
    if isinstance(node, Leaf):
        return [node.text]
    return [text for item in node.items for text in elements(item.value) * item.count]


def normalized(text: str) -> list[str]:
    """Return the leaves of a text without its addresses."""
    # A run of equal strings of Fortran could be one string as well.
    if (run := re.fullmatch(r"[{(]('[^']*'),? <repeats (\d+) times>[})]", text)) is not None:
        return [run[1]] * int(run[2])
    return elements(parse(normalize_values(text, [])))


def places_of(texts: Sequence[str], bounds: Sequence[str]) -> tuple[Place, ...]:
    nodes = []
    for rank, (text, lower) in enumerate(zip(texts, bounds, strict=True)):
        slots: list[str] = []
        mark = normalize_values(text, slots)
        nodes.append((RankSet([rank]), parse(mark, (*slots, lower) if lower else slots)))
    return compare(nodes).places


def check(program: Path, *, is_fortran: bool) -> int:
    """Check all places of a program; return how many have a path."""
    variables = [f"{name}_{number}" for number in range(VARIABLES) for name in NAMES]
    texts = printed(program, variables)
    bounds = [""] * len(texts)
    if is_fortran:
        indexed = printed(program, variables, "with print array-indexes on -- ")
        bounds = [bounds_of(*pair) for pair in zip(indexed, texts, strict=True)]
        assert "?" not in bounds
    asked, expected = [], []
    for number in range(VARIABLES):
        pair = slice(2 * number, 2 * number + 2)
        found = places_of(texts[pair], bounds[pair])
        assert found, texts[pair]
        for place in found:
            for rank, text in ((rank, text) for ranks, text in place.texts for rank in ranks):
                if text != NONE:
                    asked.append(place_of(variables[2 * number + rank], place.path))
                    expected.append((text, place.path, texts[2 * number + rank]))
    for expression, typed, (text, path, whole) in zip(
        asked, printed(program, asked), expected, strict=True
    ):
        node = parse(typed)
        # The text of a container can be its size, that of a set has the elements too.
        begin = text.partition(", has element")[0].partition(", lacks element")[0]
        is_length = isinstance(node, Group) and node.head.text.startswith(begin)
        assert is_length or normalized(typed) == normalized(text), (expression, path, typed, whole)
    return sum(bool(path) for _, path, _ in expected)


@pytest.mark.parametrize("seed", [3, 5, 11])
def test_places_in_random_values_of_cpp(tmp_path: Path, seed: int) -> None:
    program = compiled(tmp_path, cpp_program(seed, VARIABLES), ".cpp")
    assert check(program, is_fortran=False) > VARIABLES


@pytest.mark.parametrize("seed", [7, 8, 9])
def test_places_in_random_values_of_fortran(tmp_path: Path, seed: int) -> None:
    program = compiled(tmp_path, fortran_program(seed, VARIABLES), ".f90")
    assert check(program, is_fortran=True) > VARIABLES


ITERATORS = """
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <valarray>
#include <vector>
struct cell { int id; double rho; };
struct alignas(32) wide { double x; };
void look() {}
int main()
{
    std::map<std::string, int> map{{"a", 1}, {"b", 2}};
    const std::map<std::string, int> fixed = map;
    std::map<char, wide> wides{{'a', {2.5}}};
    std::set<int> set{4, 5};
    std::unordered_map<std::string, cell> table{{"k", {3, 1.5}}};
    std::unordered_set<long> numbers{7};
    std::unordered_map<int, wide> far{{1, {3.5}}};
    std::list<cell> list{{1, 0.5}};
    std::forward_list<int> chain{8};
    std::vector<std::vector<int>> rows{{1}, {2, 3}};
    std::deque<int> queue{6, 9};
    std::optional<cell> some = cell{2, 4.5}, none;
    std::valarray<double> values(1.0, 4), empty;
    values[2] = 7;
    auto in_map = map.find("b"), at_end = std::map<std::string, int>::iterator();
    auto in_fixed = fixed.begin();
    auto in_wides = wides.begin();
    auto in_set = ++set.begin();
    auto in_table = table.begin();
    auto in_numbers = numbers.cbegin();
    auto in_far = far.begin();
    auto in_list = list.begin();
    auto in_chain = chain.cbegin();
    auto in_rows = rows.begin() + 1;
    auto in_queue = queue.begin() + 1;
    std::unordered_map<int, int>::iterator nowhere{};
    look();
}
"""
ELEMENTS = {
    "in_map->second": "2",
    "in_fixed->second": "1",
    "*in_map": '{first = "b", second = 2}',
    "in_wides->second.x": "2.5",
    "*in_set": "5",
    "in_table": '{first = "k", second = {id = 3, rho = 1.5}}',
    "in_table->second.rho": "1.5",
    "in_numbers": "7",
    "*in_numbers": "7",
    "in_far->second.x": "3.5",
    "in_list->rho": "0.5",
    "*in_chain": "8",
    "(*in_rows)[1]": "3",
    "*in_queue": "9",
    "some->rho": "4.5",
    "(*some).id": "2",
    "values": "std::valarray of length 4 = {1, 1, 7, 1}",
    "values[2]": "7",
    "empty": "std::valarray of length 0",
    "nowhere": "non-dereferenceable iterator for unordered container",
}


def test_iterators_and_optionals_are_dereferenced_without_the_program(tmp_path: Path) -> None:
    program = compiled(tmp_path, ITERATORS, ".cpp")
    assert dict(zip(ELEMENTS, printed(program, [*ELEMENTS]), strict=True)) == ELEMENTS
    assert printed(program, ["at_end->second", "none->rho"]) == ["", ""]


DEQUES = """
#include <deque>
struct Point { int id; double x[2]; };
__attribute__((noinline)) void look(int) {}
int main() {
  std::deque<int> popped, at_start{1, 2, 3}, none;
  for (int i = 0; i < 300; ++i) popped.push_back(i);
  for (int i = 0; i < 130; ++i) popped.pop_front();
  std::deque<Point> pushed;
  for (int i = 0; i < 40; ++i) pushed.push_front(Point{i, {0.5, 1.0 * i}});
  std::deque<std::deque<int>> rows;
  rows = {{1, 2}, {3, 4, 5}, {}};
  rows.push_front({9});
  look(popped[0] + pushed[0].id + rows[1][1] + at_start.at(1) + (int)none.size());
}
"""
IN_DEQUES = {
    "popped[0]": "130",
    "popped[169]": "299",
    "popped.size()": "170",
    "at_start[2]": "3",
    "none.size()": "0",
    "pushed[0].id": "39",
    "pushed[39].x[0]": "0.5",
    "pushed[5].x[1]": "34",
    "rows[0][0]": "9",
    "rows[2][2]": "5",
    "rows[2].size()": "3",
}


def test_an_element_of_a_deque_is_the_one_that_gdb_prints(tmp_path: Path) -> None:
    program = compiled(tmp_path, DEQUES, ".cpp")
    shown = printed(program, [*IN_DEQUES])
    # A reference shows its type and address in front of the value.
    values = [each.rpartition(": ")[2].strip() for each in shown]
    assert dict(zip(IN_DEQUES, values, strict=True)) == IN_DEQUES
