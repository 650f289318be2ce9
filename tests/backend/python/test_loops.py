"""Loops of Python that end only from outside."""

from __future__ import annotations

import pytest

from pgdb.backend.python.loops import loop_of

TYPES = {
    "flag": "bool",
    "self.done": "int",
    "flags": "list",
    "flags[0]": "bool",
    "shared": "array",
    "shared[0]": "array",
    "limit": "float",
    "request": "mpi4py.MPI.Request",
    "grid": "Grid",
    "grid[0]": "bool",
    "time.sleep": "builtin_function_or_method",
    "sleep": "function",
}


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("while True:\n    pass  # here", "no way out"),
        ("while 1: pass  # here", "no way out"),
        ("while not flag:\n    pass  # here", "spins"),
        ("while not self.done:  # here\n    continue", "spins"),
        ("while flags[0] is False and shared[0] != 3:  # here\n    ...", "spins"),
        ("while limit + 1 < 3 or flag:  # here\n    pass", "spins"),
        ("while True:\n    if flag:  # here\n        break", "spins"),
        ("while not flag:\n    time.sleep(0.1)  # here", "spins"),
        ("while True:\n    found = flag  # here\n    if flag: break", "spins"),
        ("while True:\n    while not flag:  # here\n        pass\n    step()", "spins"),
        ("def wait():\n    while not flag:\n        pass  # here", "spins"),
        # They call, count, or read what executes code.
        ("while True:\n    n += 1  # here", ""),
        ("while True:\n    n = limit + n  # here", ""),
        ("while not request.done:  # here\n    pass", ""),
        ("while not request:  # here\n    pass", ""),
        ("while grid[0]:  # here\n    pass", ""),
        ("while step():  # here\n    pass", ""),
        ("while not flag:\n    sleep(1)  # here", ""),
        ("while True:\n    if flag:  # here\n        step()", ""),
        ("for each in range(9):\n    pass  # here", ""),
        ("while True:\n    yield  # here", ""),
        ("while not unknown:\n    pass  # here", ""),
        # The line is elsewhere.
        ("while True:\n    pass\nstep()  # here", ""),
        ("while flag:\n    pass\nelse:\n    step()  # here", ""),
        ("while True:\n    def wait():\n        step()  # here", ""),
        ("no python: (  # here", ""),
    ],
)
def test_the_kind_of_a_loop(source: str, kind: str) -> None:
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "# here" in text)
    assert loop_of(source, line, lambda text: TYPES.get(text, "")) == kind
