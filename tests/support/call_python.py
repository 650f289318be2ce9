"""Random programs of mpi4py whose rank 1 stands in one call of MPI after the other.

The calls are those of :class:`Generator`. Python computes arguments before mpi4py's own code, which
is always the same, calls MPI; so they are plain numbers here.
"""

from __future__ import annotations

import re

from tests.support.call_generator import Call, Generator
from tests.support.call_truth import Truth

_HEAD = """\
import mmap
import os
import struct
import sys
import time

from mpi4py import MPI

with open(sys.argv[1], "r+b") as file:
    control = mmap.mmap(file.fileno(), 4096)
everyone = MPI.COMM_WORLD
rank = everyone.rank
world = everyone.Dup()
turned = world.Create(world.group.Incl([3, 2, 1, 0]))
sub = world.Create(world.group.Incl([3, 1, 0]))
twin = MPI.COMM_NULL
if sub != MPI.COMM_NULL:
    twin = sub.Dup()
    sub.name, twin.name = "three", "twin"
data, results = bytearray(65536), bytearray(65536)


def begin(number):
    if rank == 1:
        struct.pack_into("<i", control, 0, number)
    while rank != 1 and struct.unpack_from("<i", control, 4)[0] < number:
        time.sleep(0.0005)


"""
_STATEMENT = re.compile(r"MPI_(\w+)\((.*?)\);", re.DOTALL)
_ONLY_AT_THE_ROOT = {"MPI_Scatter": ("count", "datatype"), "MPI_Gather": ("receive_count",)}
"""Fields that say nothing elsewhere: mpi4py then passes other values than those that are given."""


class PythonGenerator(Generator):
    """Writer of programs for mpi4py."""

    def program(self, calls: int) -> tuple[str, dict[int, Truth]]:
        """Return the source of a program, and the truth about each of its calls."""
        lines: list[str] = []
        truth = {}
        for number in range(1, calls + 1):
            call = self._call()
            own = str(call.values.get("begin", ""))
            if not own:
                given = {key: str(value) for key, value in call.values.items()}
                own = f"{call.function}({', '.join(call.arguments).format(**given)});"
            lines += [f"begin({number})", "if rank == 1:", *_statements(own)]
            if "begin" in call.values:
                lines.append("    MPI.Request.Waitall(requests)")
            lines += _statements(call.behind)
            for rank, text in call.partners.items():
                lines += [f"elif rank == {rank}:", *_statements(text)]
            truth[number] = Truth(call.function, self._fields(call))
        return _HEAD + "\n".join(lines) + "\n", truth

    def _fields(self, call: Call) -> dict[str, str]:
        unsaid = _ONLY_AT_THE_ROOT.get(call.function, ())
        return {name: value for name, value in call.truth.items() if name not in unsaid}


def _statements(text: str) -> list[str]:
    """Return statements of C in Python."""
    found = _STATEMENT.findall(text)
    lines = [f"    {_statement(name, arguments.split(', '))}" for name, arguments in found]
    if any(name == "Irecv" for name, _ in found):
        lines.insert(0, "    requests = []")
    return lines


def _statement(name: str, arguments: list[str]) -> str:
    words = [each.replace("MPI_", "MPI.") for each in arguments if not each.startswith("&")]
    comm = words.pop()

    def buffer(at: int) -> str:
        data, count, datatype = words[at : at + 3]
        return f"[{data}, {count}, {datatype}]"

    match name:
        case "Recv" | "Send" | "Ssend":
            return f"{comm}.{name}({buffer(0)}, {words[3]}, {words[4]})"
        case "Irecv":
            return f"requests.append({comm}.Irecv({buffer(0)}, {words[3]}, {words[4]}))"
        case "Sendrecv":
            there = f"{buffer(0)}, {words[3]}, {words[4]}"
            return f"{comm}.Sendrecv({there}, {buffer(5)}, {words[8]}, {words[9]})"
        case "Bcast":
            return f"{comm}.Bcast({buffer(0)}, {words[3]})"
        case "Reduce" | "Allreduce":
            data, results, count, datatype, *rest = words
            both = f"[{data}, {count}, {datatype}], [{results}, {count}, {datatype}]"
            return f"{comm}.{name}({', '.join([both, *rest])})"
        case "Gather" | "Allgather":
            return f"{comm}.{name}({', '.join([buffer(0), buffer(3), *words[6:]])})"
        case "Scatter":
            return f"{comm}.Scatter({buffer(0)}, {buffer(3)}, {words[6]})"
        case _:
            return f"{comm}.{name}({', '.join(words)})"
