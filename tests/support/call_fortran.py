"""Random programs in Fortran whose rank 1 stands in one call of MPI after the other.

The calls and what the other ranks do are those of :class:`Generator`; expressions, declarations and
procedures are Fortran's.
"""

from __future__ import annotations

import re
from random import Random
from typing import Literal

from tests.support.call_expressions import COMMUNICATORS, INPUTS, TYPES, Scope
from tests.support.call_generator import Call, Generator
from tests.support.call_truth import Truth

Interface = Literal["mpif.h", "mpi", "mpi_f08"]
FLAGS = (
    "-ffree-line-length-none",
    "-fallow-argument-mismatch",
    # One procedure of all calls would be larger than any that people write.
    "-fno-inline-functions-called-once",
)
_TYPES = {
    "MPI_INT": "MPI_INTEGER",
    "MPI_DOUBLE": "MPI_DOUBLE_PRECISION",
    "MPI_CHAR": "MPI_CHARACTER",
}
_HEAD = """\
module calls
  use iso_c_binding
  {use}
  implicit none
  {include}
  type part
    integer :: kind, a(0:5)
    integer(2) :: s(0:3)
    integer(8) :: l(0:3)
    {comm} :: comm
  end type
  interface
    function c_open(path, flags) bind(C, name="open")
      import
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: flags
      integer(c_int) :: c_open
    end function
    function c_mmap(at, length, access, flags, file, offset) bind(C, name="mmap")
      import
      type(c_ptr), value :: at
      integer(c_size_t), value :: length, offset
      integer(c_int), value :: access, flags, file
      type(c_ptr) :: c_mmap
    end function
    function c_usleep(time) bind(C, name="usleep")
      import
      integer(c_int), value :: time
      integer(c_int) :: c_usleep
    end function
  end interface
  integer(c_int), pointer, volatile :: control(:)
  integer, volatile :: in(0:63)
  integer :: rank, size
  {comm} :: world, sub, turned, twin, comms(0:3)
  {datatype} :: types(0:2)
  integer :: data(16384), results(16384)
  integer(8) :: trace
{globals}
contains
  subroutine noise(n)
    integer, intent(in) :: n
    trace = trace * 31 + n
  end subroutine
  integer function identity(n)
    integer, intent(in) :: n
    trace = trace + 1
    identity = n
  end function
  subroutine begin(number)
    integer, intent(in) :: number
    integer :: unused
    if (rank == 1) then
      control(1) = number
    else
      do while (control(2) < number)
        unused = c_usleep(500)
      end do
    end if
  end subroutine
"""
_MAIN = """
end module
program main
  use calls
  implicit none
  character(len=4000) :: path
  integer :: n, ierr
  {group} :: all, some
  {status}
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  call get_command_argument(1, path)
  call c_f_pointer(c_mmap(c_null_ptr, 4096_c_size_t, 3, 1, &
                          c_open(trim(path) // c_null_char, 2), 0_c_size_t), control, [2])
  do n = 0, 63
    in(n) = n
  end do
  sub = MPI_COMM_NULL
  twin = MPI_COMM_NULL
  call MPI_Comm_dup(MPI_COMM_WORLD, world, ierr)
  call MPI_Comm_group(world, all, ierr)
  call MPI_Group_incl(all, 4, [3, 2, 1, 0], some, ierr)
  call MPI_Comm_create(world, some, turned, ierr)
  call MPI_Group_incl(all, 3, [3, 1, 0], some, ierr)
  call MPI_Comm_create(world, some, sub, ierr)
  if (sub /= MPI_COMM_NULL) then
    call MPI_Comm_dup(sub, twin, ierr)
    call MPI_Comm_set_name(sub, "three", ierr)
    call MPI_Comm_set_name(twin, "twin", ierr)
  end if
  comms = [world, sub, turned, twin]
  types = [MPI_INTEGER, MPI_DOUBLE_PRECISION, MPI_CHARACTER]
"""
_STATEMENT = re.compile(r"(MPI_\w+)\((.*?)\);", re.DOTALL)


class FortranGenerator(Generator):
    """Writer of programs in Fortran for one of the three interfaces."""

    def __init__(self, random: Random, interface: Interface) -> None:
        super().__init__(random)
        is_f08 = interface == "mpi_f08"
        self._locals: list[str] = []
        self._status = (
            "type(MPI_Status) :: status" if is_f08 else "integer :: status(MPI_STATUS_SIZE)"
        )
        self._words = {
            "use": "" if interface == "mpif.h" else f"use {interface}",
            "include": "include 'mpif.h'" if interface == "mpif.h" else "",
            "status": self._status,
        }
        for kind in ("Comm", "Datatype", "Group", "Request"):
            self._words[kind.lower()] = f"type(MPI_{kind})" if is_f08 else "integer"

    def program(self, calls: int) -> tuple[str, dict[int, Truth]]:
        """Return the source of a program, and the truth about each of its calls."""
        functions: list[str] = []
        steps: list[str] = []
        declared: list[str] = []
        truth = {}
        for number in range(1, calls + 1):
            call = self._call()
            self._globals, self._locals = [], []
            body, step = self._procedure(number, call)
            declared += self._globals
            functions += body
            steps += [f"  call begin({number})", "  if (rank == 1) then", *step]
            steps += self._statements(call.behind)
            for rank, text in call.partners.items():
                steps += [f"  else if (rank == {rank}) then", *self._statements(text)]
            steps.append("  end if")
            fields = dict(call.truth)
            if "datatype" in fields:
                fields["datatype"] = _TYPES[fields["datatype"]]
            truth[number] = Truth(call.function, fields)
        head = _HEAD.format(globals="\n".join(declared), **self._words)
        main = [_MAIN.format(**self._words), *steps, "  call MPI_Finalize(ierr)", "end program"]
        return "\n".join([head, *functions, *main]) + "\n", truth

    # -- statements ----------------------------------------------------------------------------

    def _statements(self, text: str) -> list[str]:
        """Return statements of C, which call MPI only, in Fortran."""
        return [
            f"    call {function}({', '.join(map(_argument, arguments.split(', ')))}, ierr)"
            for function, arguments in _STATEMENT.findall(text)
        ]

    def _procedure(self, number: int, call: Call) -> tuple[list[str], list[str]]:
        """Return the procedures of a call, and the statements that call them."""
        random = self._random
        scope = Scope()
        texts = self._texts(scope, call)
        arguments = [_argument(each.format(**texts)) for each in call.arguments]
        before = list(scope.before)
        if "begin" in call.values:
            before += self._statements(str(call.values["begin"]))
        if random.random() < 0.3:
            before.append(f"call noise({random.randrange(9)})")
        made = f"call {call.function}({', '.join([*arguments, 'ierr'])})"
        shape = random.choice("plain plain plain wrapper value internal loop select".split())
        helpers: list[str] = []
        inside: list[str] = []
        if shape in ("wrapper", "value", "internal"):
            how = "value" if shape == "value" else "intent(in)"
            names, declared = [], []
            for at, template in enumerate(call.arguments):
                if "{" in template:
                    names.append(f"p{at}")
                    declared.append(f"{self._type_of(template)}, {how} :: p{at}")
            inner = [
                f"p{at}" if "{" in template else arguments[at]
                for at, template in enumerate(call.arguments)
            ]
            passed = [text for at, text in enumerate(arguments) if f"p{at}" in names]
            own = ["integer :: ierr", self._status]
            if "requests" in inner:
                names.append("requests")
                declared.append(f"{self._words['request']} :: requests(2)")
                passed.append("requests")
            body = [
                f"subroutine wrapped_{number}({', '.join(names)})",
                *declared,
                *own,
                f"call {call.function}({', '.join([*inner, 'ierr'])})",
                *["trace = trace + 3"] * (random.random() < 0.5),
                "end subroutine",
            ]
            made = f"call wrapped_{number}({', '.join(passed)})"
            if shape == "internal":
                inside = ["contains", *body]
            else:
                helpers = body
        elif shape == "loop":
            at = random.randrange(6)
            self._locals.append("integer :: i")
            made = (
                f"do i = in(0), in(5)\nif (i == in({at})) then\n{made}\nelse\ncall noise(i)\n"
                "end if\nend do"
            )
        elif shape == "select":
            at = random.randrange(6)
            cases = "".join(
                f"case ({n})\n{made if n == at else f'call noise({n} * rank)'}\n" for n in range(6)
            )
            made = f"select case (in({at}))\n{cases}end select"
        names = [name for _, name, _ in scope.parameters]
        function = [
            f"subroutine call_{number}({', '.join(names)})",
            *[f"{kind} :: {name}" for kind, name, _ in scope.parameters],
            "integer :: ierr",
            self._status,
            *[f"{self._words['request']} :: requests(2)"] * ("requests" in arguments),
            *self._locals,
            *before,
            made,
            *["trace = trace * 3"] * (random.random() < 0.5),
            *inside,
            "end subroutine",
        ]
        given = ", ".join(text for _, _, text in scope.parameters)
        return [*helpers, *function], [*scope.outside, f"call call_{number}({given})"]

    def _type_of(self, template: str) -> str:
        if template == "{comm}":
            return self._words["comm"]
        return self._words["datatype"] if "datatype" in template else "integer"

    # -- expressions ---------------------------------------------------------------------------

    def expression(self, scope: Scope, value: int, depth: int) -> str:
        """Return an expression with this value, of the default kind of integers."""
        random = self._random
        if depth <= 0 or not 0 <= value <= 100_000 or random.random() < 0.15:
            return self._leaf(scope, value)

        def part(number: int) -> str:
            return self.expression(scope, number, depth - 1)

        match random.randrange(9):
            case 0 | 1:
                other = part(random.randrange(60))
                is_true = random.random() < 0.5
                first, second = (part(value), other) if is_true else (other, part(value))
                return f"merge({first}, {second}, {self._condition(scope, is_true, depth - 1)})"
            case 2 | 3:
                less = random.randrange(0, value + 1)
                return f"({part(less)} + {part(value - less)})"
            case 4:
                more = random.randrange(0, 40)
                return f"({part(value + more)} - {part(more)})"
            case 5:
                by = random.choice([2, 3, 4, 5, 7, 8, 10])
                return f"({part(value // by)} * {by} + {value % by})"
            case 6:
                by = random.choice([2, 3, 4, 5, 7, 8, 16])
                return f"({part(value * by + random.randrange(by))} / {by})"
            case 7:
                by = value + random.randrange(1, 20)
                return f"mod({part(value + by * random.randrange(3))}, {part(by)})"
            case _:
                return f"min({part(value + random.randrange(20))}, {part(value)})"

    def _condition(self, scope: Scope, is_true: bool, depth: int) -> str:
        random = self._random
        low = random.randrange(0, 30)
        first = self.expression(scope, low, depth - 1)
        second = self.expression(scope, low + random.randrange(1, 20), depth - 1)
        match random.randrange(3):
            case 0:
                return f"rank == {1 if is_true else 2}"
            case 1:
                return f"{first} {'<' if is_true else '>='} {second}"
            case _:
                return f"{first} {'/=' if is_true else '=='} {second}"

    def _leaf(self, scope: Scope, value: int) -> str:
        random = self._random
        known = scope.exact.get(value)
        if known and random.random() < 0.5:
            return random.choice(known)
        if not 0 <= value < INPUTS or random.random() < 0.15:
            return str(value)
        self._count += 1
        name, given = f"v{self._count}", f"in({value})"
        match random.randrange(9):
            case 0 | 1:
                # An expression, so that the dummy argument is no alias of the volatile variable.
                scope.parameters.append(("integer, intent(in)", name, f"({given})"))
                found = name
            case 2:
                scope.parameters.append(("integer, value", name, given))
                found = name
            case 3:
                self._locals.append(f"integer :: {name}")
                scope.before.append(f"{name} = {given}")
                found = name
            case 4:
                self._globals.append(f"integer :: {name}")
                scope.outside.append(f"{name} = {given}")
                found = name
            case 5:
                self._globals.append(f"type(part), target :: {name}")
                table, index = random.choice("asl"), random.randrange(4)
                scope.outside.append(f"{name}%{table}({index}) = {given}")
                found = f"int({name}%{table}(in({index})))"
            case 6:
                self._globals.append(f"integer, allocatable :: {name}(:)")
                scope.outside.append(f"{name} = [{value + 3}, {given}, 5]")
                found = f"{name}(in(2))"
            case 7:
                return f"identity({given} + 0)"
            case _:
                scope.parameters.append(("integer(8), value", name, f"int({given}, 8)"))
                found = f"int({name})"
        scope.exact.setdefault(value, []).append(found)
        return found

    def communicator(self, scope: Scope, name: str) -> str:
        """Return an expression for a communicator."""
        self._count += 1
        own = f"c{self._count}"
        match self._random.randrange(5):
            case 0:
                scope.parameters.append((f"{self._words['comm']}, intent(in)", own, name))
                return own
            case 1:
                self._globals.append(f"type(part) :: {own}")
                scope.outside.append(f"{own}%comm = {name}")
                return f"{own}%comm"
            case 2:
                number = list(COMMUNICATORS).index(name)
                return f"comms({self.expression(scope, number, 1)})"
            case _:
                return name

    def datatype(self, scope: Scope, name: str) -> str:
        """Return an expression for a datatype."""
        if self._random.random() < 0.7:
            return _TYPES[name]
        return f"types({self.expression(scope, list(TYPES).index(name), 1)})"


def _argument(text: str) -> str:
    """Return an argument of a call in Fortran; expressions are in Fortran already."""
    if match := re.fullmatch(r"&requests\[(\d)\]", text):
        return f"requests({int(match[1]) + 1})"
    if text == "&status":
        return "status"
    return _TYPES.get(text, text)
