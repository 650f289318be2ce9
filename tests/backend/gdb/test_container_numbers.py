"""Numbers of containers and of types that NumPy has no equal of, as ``stat`` sums them up."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest

from pgdb.backend.gdb import quadruple
from tests.support.read_blocks import array, ask, read_all, refusal

CPP = """
#include <array>
#include <any>
#include <atomic>
#include <bitset>
#include <chrono>
#include <complex>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <stack>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <valarray>
#include <variant>
#include <vector>
struct point { double x, y; };
enum class kind : short { one = -1, two = 2 };
int look(int n) { return n; }
int main()
{
    std::deque<double> dq;
    for (int i = 0; i < 1000; i++)
        dq.push_back(i);
    for (int i = 0; i < 100; i++)
        dq.pop_front();
    std::deque<int> empty_deque;
    std::list<int> li{4, 5, 6}, empty_list;
    std::forward_list<short> fl{1, 2};
    std::map<std::string, double> mp{{"a", 1.5}, {"b", 2.5}};
    std::multimap<int, float> mm{{1, 1}, {1, 2}};
    std::unordered_map<int, long> um{{1, 10}};
    std::set<unsigned> st{3, 1, 2};
    std::unordered_set<char> us{'a'};
    std::valarray<double> va{1, 2, 3};
    std::vector<double> ve{1, 2, 3, 4};
    const std::vector<double> &ref = ve;
    std::span<double> sp(ve.data() + 1, 3);
    std::span<double, 2> fixed(ve.data(), 2);
    std::vector<bool> vb(70);
    vb[1] = vb[69] = true;
    std::vector<std::vector<bool>> masks(2, vb);
    std::bitset<70> bs(5);
    std::bitset<3> small(2);
    std::vector<std::vector<int>> even{{1, 2}, {3, 4}}, ragged{{1}, {}, {2, 3}};
    std::vector<std::array<int, 2>> rows{{1, 2}, {3, 4}};
    std::array<std::array<double, 2>, 2> grid{{{1, 2}, {3, 4}}};
    std::array<int, 0> no_array;
    std::vector<double> c_array[2] = {{1, 2}, {3, 4}};
    std::complex<double> co(1, 2);
    std::vector<std::complex<float>> vc(2, {1, 2});
    std::list<std::complex<double>> lc;
    std::optional<double> op = 2.5, none;
    std::variant<int, double, std::string> var = 1.5, text = std::string("x"), number = 3;
    std::any any = 7;
    std::atomic<int> at{4};
    std::vector<std::atomic<int>> ats(2);
    std::queue<int> qu;
    qu.push(1);
    std::stack<int> sk;
    sk.push(2);
    std::priority_queue<double> pq;
    pq.push(3);
    std::chrono::milliseconds ms(5);
    std::vector<kind> kinds{kind::one, kind::two};
    std::vector<long double> vld{1.5L, 2};
    std::list<_Float128> quads{1.5Q, -2};
    std::vector<__int128> wide{(__int128)1 << 100, -3};
    unsigned __int128 wider[2] = {(unsigned __int128)1 << 127, 1};
    _Float128 quad = 0.1Q;
    std::vector<point> vp(2);
    std::list<std::string> texts{"x"};
    std::pair<int, double> pa{1, 2.5};
    std::tuple<int, double> tu{1, 2.5};
    std::unique_ptr<double[]> up(new double[2]{1, 2});
    std::vector<double *> pointers(2);
    std::map<int, point> points{{1, {1, 2}}};
    std::list<point> no_points;
    point plain{1, 2};
    long memory[32];
    for (int i = 0; i < 32; i++)
        memory[i] = 0x4141414141414141;
    auto &bad_deque = *(std::deque<double> *)memory;
    auto &bad_list = *(std::list<int> *)memory;
    auto &bad_map = *(std::map<std::string, double> *)memory;
    auto &bad_vector = *(std::vector<double> *)(memory + 2);
    auto &bad_bits = *(std::vector<bool> *)memory;
    memory[3] += 1l << 50;
    return look((int)(dq.size() + sp.size() + fixed.size() + ref.size() + plain.x));
}
"""

VALUES: dict[str, tuple[str, Any]] = {
    "dq": ("<f8", numpy.arange(100.0, 1000.0)),
    "empty_deque": ("<i4", numpy.zeros(0)),
    "li": ("<i4", [4, 5, 6]),
    "empty_list": ("<i4", numpy.zeros(0)),
    "fl": ("<i2", [1, 2]),
    "mp": ("<f8", [1.5, 2.5]),
    "mm": ("<f4", [1, 2]),
    "um": ("<i8", [10]),
    "st": ("<u4", [1, 2, 3]),
    "us": ("|i1", [97]),
    "va": ("<f8", [1, 2, 3]),
    "va[1]": ("<f8", 2),
    "ref": ("<f8", [1, 2, 3, 4]),
    "sp": ("<f8", [2, 3, 4]),
    "fixed": ("<f8", [1, 2]),
    "vb": ("|b1", [at in (1, 69) for at in range(70)]),
    "masks": ("|b1", [[at in (1, 69) for at in range(70)]] * 2),
    "bs": ("|b1", [at in (0, 2) for at in range(70)]),
    "small": ("|b1", [False, True, False]),
    "even": ("<i4", [[1, 2], [3, 4]]),
    "ragged": ("<i4", [1, 2, 3]),
    "rows": ("<i4", [[1, 2], [3, 4]]),
    "grid": ("<f8", [[1, 2], [3, 4]]),
    "no_array": ("<i4", numpy.zeros(0)),
    "c_array": ("<f8", [[1, 2], [3, 4]]),
    "co": ("<c16", 1 + 2j),
    "vc": ("<c8", [1 + 2j, 1 + 2j]),
    "lc": ("<c16", numpy.zeros(0)),
    "op": ("<f8", [2.5]),
    "none": ("<f8", numpy.zeros(0)),
    "var": ("<f8", 1.5),
    "number": ("<i4", 3),
    "any": ("<i4", 7),
    "at": ("<i4", 4),
    "ats": ("<i4", [0, 0]),
    "qu": ("<i4", [1]),
    "sk": ("<i4", [2]),
    "pq": ("<f8", [3]),
    "ms": ("<i8", 5),
    "tu[1]": ("<i4", 1),
    "tu[2]": ("<f8", 2.5),
    "kinds": ("<i2", [-1, 2]),
    "vld": ("<f16", numpy.array([1.5, 2], numpy.longdouble)),
    "quads": ("<f16", numpy.array([1.5, -2], numpy.longdouble)),
    "wide": ("<f16", numpy.array([2.0**100, -3], numpy.longdouble)),
    "wider": ("<f16", numpy.array([2.0**127, 1], numpy.longdouble)),
    "quad": ("<f16", numpy.longdouble(1) / 10),
}

REFUSED = {
    "text": "text, not numbers",
    "vp": "vp is of type point; read a member, such as vp[0].NAME",
    "texts": "text, not numbers",
    "pa": "write one of them, such as pa.first",
    "tu": "has elements of several types; write one of them, such as tu[1]",
    "up": "up is a pointer; write *up, or up.get()[0]@COUNT for an array",
    "pointers": "each is a pointer",
    "points": "is of type point",
    "no_points": "has no elements, and they would be of type point",
    "bad_deque": "is not constructed, or is damaged",
    "bad_list": "Cannot access memory at address 0x4141414141414141",
    "bad_map": "Cannot access memory at address 0x414",
    "bad_vector": "elements: it is not constructed, or is damaged",
    "bad_bits": "bits: it is not constructed, or is damaged",
    "plain": "plain is of type struct point; read a member, such as plain.NAME",
}
"""Values that have no numbers, with a part of the error."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("containers")
    if shutil.which("c++") is None:
        return {}
    path = directory / "program.cpp"
    path.write_text(CPP, encoding="utf-8")
    line = ["c++", "-std=gnu++20", "-g", "-O0", "-o", str(directory / "program"), str(path)]
    subprocess.run(line, check=True, stdin=subprocess.DEVNULL, timeout=300, cwd=directory)
    return {"cpp": directory / "program"}


@pytest.mark.gdb
def test_numbers_of_containers(programs: dict[str, Path]) -> None:
    asked = [*VALUES, *REFUSED]
    found = read_all(programs, "cpp", ["up", *map(ask, asked)], is_summed_up=True)
    answers = dict(zip(asked, found, strict=True))
    for name, (kind, expected) in VALUES.items():
        values = array(answers[name])
        assert values.dtype == kind, name
        assert values.shape == numpy.shape(expected), name
        numpy.testing.assert_array_equal(values, numpy.array(expected), err_msg=name)
    for name, part in REFUSED.items():
        assert part in refusal(answers[name]), (name, answers[name])


@pytest.mark.gdb
def test_numbers_to_be_compared_have_a_position_and_all_digits(programs: dict[str, Path]) -> None:
    shown = {"dq": numpy.arange(100.0, 1000.0), "li": [4, 5, 6], "va": [1, 2, 3]}
    refused = ["st", "mp", "um", "op", "bs", "quads", "wide"]
    found = read_all(programs, "cpp", ["up", *map(ask, [*shown, *refused])])
    for expected, block in zip(shown.values(), found, strict=False):
        numpy.testing.assert_array_equal(array(block), numpy.array(expected))
    for block in found[len(shown) :]:
        assert "without a position" in refusal(block) or "128 bits" in refusal(block)


@pytest.mark.gdb
def test_a_part_of_a_container(programs: dict[str, Path]) -> None:
    # The parts of a deque are at several places.
    (block,) = read_all(programs, "cpp", ["up", ask("dq", start=50, count=400)])
    expected = numpy.arange(150.0, 550.0).tobytes()
    assert getattr(block, "data", None) == expected


def binary128(number: float) -> bytes:
    """Return the bytes of a binary128 number."""
    sign = int(math.copysign(1, number) < 0)
    if math.isnan(number) or math.isinf(number):
        bits = 0x7FFF << 112 | (1 << 111 if math.isnan(number) else 0)
    elif not number:
        bits = 0
    else:
        fraction, exponent = math.frexp(abs(number))
        bits = (exponent - 1 + 16383) << 112
        bits |= int((fraction * 2 - 1) * 2**52) << 60
    return (bits | sign << 127).to_bytes(16, "little")


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, -2.5, 1e-300, 1.7e308, math.inf, -math.inf])
def test_quadruple_numbers(number: float) -> None:
    dtype, data, is_rounded = quadruple.rounded(binary128(number), "q")
    assert not is_rounded
    (found,) = numpy.frombuffer(data, dtype)
    assert found == number
    assert math.copysign(1, found) == math.copysign(1, number)


def test_quadruple_numbers_that_are_none() -> None:
    dtype, data, is_rounded = quadruple.rounded(binary128(math.nan) + binary128(3), "q")
    assert not is_rounded
    first, second = numpy.frombuffer(data, dtype)
    assert math.isnan(first)
    assert second == 3


@pytest.mark.parametrize(
    ("number", "is_rounded"),
    [
        (0, False),
        (-1, False),
        (2**127 - 1, True),
        (-(2**90), False),
        (-(2**90) - 1, True),
        (2**64 + 1, True),
        (2**64 - 1, False),
        (3 << 100, False),
        (-(2**127), False),
    ],
)
def test_integers_that_lose_digits_say_so(number: int, is_rounded: bool) -> None:
    data = number.to_bytes(16, "little", signed=True)
    assert quadruple.rounded(data, "I")[2] == is_rounded
    assert quadruple.rounded((2**128 - 1).to_bytes(16, "little"), "U")[2]


def test_quadruple_numbers_that_lose_digits_say_so() -> None:
    one = int.from_bytes(binary128(1.0), "little")
    for bits, is_rounded in ((0, False), (1, True), (1 << 48, True), (1 << 49, False)):
        data = (one | bits).to_bytes(16, "little")
        assert quadruple.rounded(data, "q")[2] == is_rounded, bits
