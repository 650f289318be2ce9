"""Numbers read from memory: GDB's names of types, and programs under a real GDB."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest

from pgdb.backend.gdb import blocks, number_types, process_memory
from pgdb.errors import CommandError
from pgdb.overlay.messages import ReadBlock
from pgdb.records import Block, Failure
from tests.support.read_blocks import array, ask, read_all, refusal

C = """
#include <complex.h>
#include <stdbool.h>
#include <stdlib.h>
typedef double real;
enum colour { RED, GREEN = 5 };
enum sign { MINUS = -1, PLUS = 1 };
struct part { double x[3]; int id; unsigned ghost : 3; struct part *next; };
const volatile real cv[4] = {1, 2, 3, 4};
double m[3][4];
double large[300][100];
_Bool flags[3] = {1, 0, 1};
char letter = 'A';
unsigned char byte = 200;
unsigned long big = 1ul << 63;
long double wide[2] = {1.5L, 2.5L};
double complex z[2] = {1 + 2 * I, 3};
float complex w = 1 - 1 * I;
enum colour colours[2] = {GREEN, RED};
enum sign sign = MINUS;
struct part parts[2];
__float128 quad = 1;
__int128 wide_integer = 1;
unsigned __int128 wide_unsigned = 1;
short small = -2;
double nan_value, minus = -0.0;
double *pointers[3];
int look(double (*rows)[4], double *p, int n)
{
    register int k = n * 2;
    return k + (p[0] > 1 && rows[0][0] > 1);
}
int main(void)
{
    int n = 10;
    double *p = malloc(n * sizeof *p);
    for (int i = 0; i < 12; i++)
        m[i / 4][i % 4] = i;
    for (int i = 0; i < 30000; i++)
        large[i / 100][i % 100] = i;
    for (int i = 0; i < n; i++)
        p[i] = 0.5 * i;
    nan_value = minus / minus;
    parts[1].x[2] = 7;
    parts[1].ghost = 5;
    return look(m, p, n);
}
"""

CPP = """
#include <array>
#include <complex>
#include <map>
#include <string>
#include <vector>
using Field = std::vector<double>;
enum class kind : unsigned char { one, two };
struct mesh { Field u; };
int look(const Field &u, double (&r)[3], const mesh &m)
{
    return u[0] > r[0] && m.u.empty();
}
int main()
{
    Field u(10, 1.5), none;
    std::vector<bool> bits(3);
    std::array<int, 4> four{1, 2, 3, 4};
    std::vector<std::complex<float>> zs(2, {1, 2});
    mesh m{u};
    std::map<std::string, double> names{{"a", 1}};
    double r[3] = {1, 2, 3};
    kind k[2] = {kind::one, kind::two};
    double &one = r[1];
    return look(u, r, m) + (int)bits.size() + (int)zs.size() + four[0] + (int)k[0] + (int)one
        + (int)names.size();
}
"""

FORTRAN = """
program main
  implicit none
  type :: cell
    integer :: id
    real(kind=8) :: v(3)
  end type
  type(cell) :: one, grid(2,2)
  real(kind=8) :: u(4,3), v(0:3,-1:1), large(200,300)
  real(kind=8), allocatable :: a(:,:), none(:)
  real(kind=8), pointer :: part(:)
  integer :: n(5), i, j
  logical :: ok(2)
  complex(kind=8) :: z(2)
  character(len=5) :: names(2)
  real(kind=16) :: quad
  do j = 1, 3
    do i = 1, 4
      u(i,j) = 10*i + j
    end do
  end do
  v = u
  large = 2
  large(7,9) = 3
  if (allocated(none)) deallocate(none)
  allocate(a(4,3), part(3))
  a = u
  part = [1, 2, 3]
  n = [1, 2, 3, 4, 5]
  ok = [.true., .false.]
  z = (1.0, 2.0)
  names = 'abc'
  quad = 1
  one%id = 1
  one%v = [1, 2, 3]
  grid(1,1) = one
  call look(u(1:4:2,:), large(1:200:2,:), n(5:1:-1))
contains
  subroutine look(s, t, r)
    real(kind=8), intent(in) :: s(:,:), t(:,:)
    integer, intent(in) :: r(:)
    print *, s(1,1), t(1,1), r(1), z(1), names(1), quad, ok(1), part(1), v(0,-1), grid(1,1)%id
  end subroutine
end program
"""

OF_C = """
typedef union { int i[2]; double x; } mynumber;
mynumber b = {{1, 2}};
"""
"""libm has a static variable of that name, which a Fortran program's "b" finds without one of its
own."""

SOURCES = {"c": (C, "cc"), "cpp": (CPP, "c++"), "f90": (FORTRAN, "gfortran")}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("blocks")
    built = {}
    for suffix, (source, compiler) in SOURCES.items():
        if shutil.which(compiler) is None:
            continue
        path = directory / f"program.{suffix}"
        path.write_text(source, encoding="utf-8")
        built[suffix] = directory / suffix
        words = [compiler, "-g", "-O0", "-o", str(built[suffix]), str(path)]
        if suffix == "f90":
            beside = directory / "of_c.c"
            beside.write_text(OF_C, encoding="utf-8")
            words.append(str(beside))
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=120, cwd=directory)
    return built


def check(
    programs: dict[str, Path],
    suffix: str,
    commands: list[str],
    values: dict[str, tuple[str, Any]],
    refused: dict[str, str],
) -> None:
    names = [*values, *refused]
    answers = dict(
        zip(names, read_all(programs, suffix, [*commands, *map(ask, names)]), strict=True)
    )
    for name, (kind, expected) in values.items():
        found = answers[name]
        assert isinstance(found, Block), (name, found)
        assert found.dtype == kind, name
        numpy.testing.assert_array_equal(array(found), numpy.array(expected), err_msg=name)
        assert array(found).shape == numpy.shape(expected), name
    for name, part in refused.items():
        assert part in refusal(answers[name]), (name, answers[name])


@pytest.mark.gdb
def test_numbers_of_c(programs: dict[str, Path]) -> None:
    m = numpy.arange(12.0).reshape(3, 4)
    values = {
        "m": ("<f8", m),
        "m[1]": ("<f8", m[1]),
        "m[1][2]": ("<f8", 6.0),
        "*m@2": ("<f8", m[:2]),
        "rows[0]@3": ("<f8", m),
        "*rows": ("<f8", m[0]),
        "p[0]@n": ("<f8", 0.5 * numpy.arange(10)),
        "*p@n/2": ("<f8", 0.5 * numpy.arange(5)),
        "p[0]@(n-10)": ("<f8", numpy.zeros(0)),
        "p[1]@2@3": ("<f8", 0.5 * numpy.arange(1, 7).reshape(3, 2)),
        "large": ("<f8", numpy.arange(30000.0).reshape(300, 100)),
        "large[0][0]@30000": ("<f8", numpy.arange(30000.0)),
        "cv": ("<f8", [1.0, 2, 3, 4]),
        "flags": ("|b1", [True, False, True]),
        "letter": ("|i1", 65),
        "byte": ("|u1", 200),
        "big": ("<u8", 1 << 63),
        "small": ("<i2", -2),
        "wide": ("<f16", numpy.array([1.5, 2.5], numpy.longdouble)),
        "z": ("<c16", [1 + 2j, 3]),
        "w": ("<c8", 1 - 1j),
        "colours": ("<u4", [5, 0]),
        "sign": ("<i4", -1),
        "parts[1].x": ("<f8", [0.0, 0, 7]),
        "parts[1].ghost": ("<u4", 5),
        "minus": ("<f8", -0.0),
        "nan_value": ("<f8", numpy.nan),
        "k": ("<i4", -3),
        "k*2": ("<i4", -6),
        "m[1][1]/2": ("<f8", 2.5),
        "$pc == 0": ("<i4", 0),
        "*(double *)&p[3]": ("<f8", 1.5),
    }
    refused = {
        "parts": "read a member, such as parts[0].NAME",
        "parts[0]": "is of type struct part; read a member, such as parts[0].NAME",
        "p": "write p[0]@COUNT",
        "rows": "write rows[0]@COUNT",
        "parts[0].next": "is a pointer",
        "pointers": "holds pointers",
        "look": "is a function",
        "(void)0": "is of type void",
        "quad": "NumPy has no equal",
        "wide_integer": "numbers of 128 bits, which NumPy has no equal of; 'print' and 'stat'",
        "wide_unsigned": "NumPy has no equal",
        "nosuch": 'No symbol "nosuch" in current context.',
        "p[0]@-1": "is -1, which is no number of elements",
        "p[0]@p[1]": "which is no integer",
        "p[0]@": "syntax error",
        "*(double *)8": "Cannot access memory at address 0x8",
        "p[0]@100000000": "Cannot access memory at address 0x",
        "$xmm0": "read a member",
        "int": "syntax error",
    }
    check(programs, "c", ["set var $rank = 0", "set var k = -3"], values, refused)


@pytest.mark.gdb
def test_numbers_of_cpp(programs: dict[str, Path]) -> None:
    values = {
        "u": ("<f8", numpy.full(10, 1.5)),
        "none": ("<f8", numpy.zeros(0)),
        "m.u": ("<f8", numpy.full(10, 1.5)),
        "four": ("<i4", [1, 2, 3, 4]),
        "zs": ("<c8", [1 + 2j, 1 + 2j]),
        "r": ("<f8", [1.0, 2, 3]),
        "k": ("|u1", [0, 1]),
        "k[1]": ("|u1", 1),
        "one": ("<f8", 2.0),
        "bits": ("|b1", [False, False, False]),
    }
    refused = {
        "m": "read a member, such as m.NAME",
        "names": "names has elements without a position; 'stat' and 'print' show it",
    }
    check(programs, "cpp", ["up"], values, refused)


@pytest.mark.gdb
def test_numbers_of_fortran(programs: dict[str, Path]) -> None:
    u = numpy.add.outer(10.0 * numpy.arange(1, 5), numpy.arange(1, 4))
    large = numpy.full((200, 300), 2.0)
    large[6, 8] = 3
    inside: dict[str, tuple[str, Any]] = {
        "s": ("<f8", u[::2]),
        "t": ("<f8", large[::2]),
        "s(2,3)": ("<f8", u[2, 2]),
        "r": ("<i4", [5, 4, 3, 2, 1]),
    }
    check(programs, "f90", [], inside, {})
    values = {
        "u": ("<f8", u),
        "u(2,2)": ("<f8", u[1, 1]),
        "u(:,2)": ("<f8", u[:, 1]),
        "u(1:2,:)": ("<f8", u[:2]),
        "u(1,1)@4": ("<f8", u[:, 0]),
        "v": ("<f8", u),
        "a": ("<f8", u),
        "large": ("<f8", large),
        "part": ("<f8", [1.0, 2, 3]),
        "n": ("<i4", [1, 2, 3, 4, 5]),
        "ok": ("<u4", [1, 0]),
        "z": ("<c16", [1 + 2j, 1 + 2j]),
        "u(1,1)*2": ("<f8", 22.0),
        "one%v": ("<f8", [1.0, 2, 3]),
    }
    refused = {
        "b": "b is of type mynumber, which is no number",  # GDB 13.1 can die of it
        "one": "one is of type cell; read a member, such as one%NAME",
        "grid": "grid is of type cell; read a member, such as grid(1,1)%NAME",
        "none": "is not allocated",
        "names": "is text",
        "quad": "NumPy has no equal",
        "nosuch": "No symbol",
    }
    check(programs, "f90", ["up"], values, refused)


@pytest.mark.gdb
def test_parts_and_limits(programs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ReadBlock | str] = [
        ask("m", 5, 3),
        ask("m", 10, 100),
        ask("m", 1 << 62),
        ask("large", limit=240000),
        ask("large", limit=239999),
        ask("large", count=10, limit=80),
        ask("$_exitcode"),
    ]
    first = read_all(programs, "c", asked)
    assert (array_of(first[0]), array_of(first[1])) == ([5, 6, 7], [10, 11])
    assert first[2] == Block(dtype="<f8", shape=(3, 4), data=b"", start=12)
    assert isinstance(first[3], Block)
    assert refusal(first[4]) == (
        "large takes 240000 bytes, and array-limit is 239999; 'set array-limit BYTES' raises it, "
        "and ELEMENT@COUNT reads a part"
    )
    assert isinstance(first[5], Block)
    assert first[5].shape == (300, 100)
    assert array_of(first[5]) == list(range(10))

    def refuse(pid: int, address: int, size_bytes: int) -> bytes:
        raise PermissionError

    # As with Yama: then GDB itself reads.
    monkeypatch.setattr(process_memory, "_memory_of_process", refuse)
    second = read_all(programs, "c", [*asked, ask("*(double *)8")])
    assert second[:-1] == first
    assert "Cannot access memory at address 0x8" in refusal(second[-1])


def array_of(block: Block | Failure) -> list[float]:
    assert isinstance(block, Block), block
    return list(numpy.frombuffer(block.data, block.dtype))


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("u", ("u", ())),
        (" u[0] @ n ", ("u[0]", ("n",))),
        ("a@2@3", ("a", ("3", "2"))),
        ("f(x@2)[0]@4", ("f(x@2)[0]", ("4",))),
        ("'a@b.c'::x@2", ("'a@b.c'::x", ("2",))),
        ("x@entry", ("x@entry", ())),
        ("u@", ("u@", ())),
        ("@2", ("@2", ())),
    ],
)
def test_repeats_are_cut_off(expression: str, parts: tuple[str, tuple[str, ...]]) -> None:
    assert blocks.split_repeats(expression) == parts


@pytest.mark.parametrize(
    ("name", "letter", "shape", "order"),
    [
        ("const volatile double [3][4]", "f", (3, 4), "C"),
        ("double (&)[3]", "f", (3,), "C"),
        ("unsigned long long", "u", (), "C"),
        ("long long &", "i", (), "C"),
        ("enum {A, B} [2]", "u", (2,), "C"),
        ("_Complex double", "c", (), "C"),
        ("double __attribute__ ((vector_size(4)))", "f", (4,), "C"),
        ("float [2] __attribute__ ((vector_size(8)))", "f", (2, 8), "C"),
        ("real(kind=8), allocatable (4,0:3)", "f", (4, 4), "F"),
        ("real*8 (5)", "f", (5,), "C"),
        ("REAL(8)", "", (), ""),
        ("integer(kind=4), target (3:2)", "i", (0,), "C"),
        ("complex(kind=8) (4,3:2)", "c", (4, 0), "F"),
    ],
)
def test_types(name: str, letter: str, shape: tuple[int, ...], order: str) -> None:
    if not letter:
        with pytest.raises(CommandError):
            number_types.parse_type(name, "u")
        return
    found = number_types.parse_type(name, "u")
    assert (found.letter, found.shape, found.order) == (letter, shape, order)


def test_an_array_of_fortran_without_elements_is_no_odd_number() -> None:
    kinds = {"real(kind=4) (0)": 4, "complex(kind=8) (4,0)": 16, "real*8 (0)": 8}
    assert {name: number_types.parse_type(name, "u").item_bytes for name in kinds} == kinds
    unset = number_types.parse_type("real(kind=8) (-162201600000:-1,5)", "u")
    assert max(unset.extents) > 1_000_000 or min(unset.extents) < -1_000_000
