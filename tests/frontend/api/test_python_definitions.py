"""Python code for GDB that only defines something."""

from __future__ import annotations

import pytest

from pgdb.frontend.api.python_definitions import definitions

COMMAND = """
import gdb
class Hello(gdb.Command):
    def __init__(self):
        super().__init__("hello", gdb.COMMAND_USER)
    def invoke(self, argument, from_tty):
        gdb.execute("print 1")
        print("hello")
Hello()
"""
PRINTERS = """
import gdb.printing
try:
    import extra
except ImportError:
    extra = None
class Point:
    "Prints a point."
    def __init__(self, value): self.value = value
    def to_string(self): return str(self.value["x"])
def build():
    found = gdb.printing.RegexpCollectionPrettyPrinter("mine")
    found.add_printer("point", "^point$", Point)
    return found
gdb.printing.register_pretty_printer(None, build(), replace=True)
"""


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (COMMAND, {"Hello"}),
        (PRINTERS, {"Point", "build", "register_pretty_printer"}),
        ("def f(): return 7", {"f"}),
        ("x = 3\ndef f(): return x", {"f"}),
        ("gdb.pretty_printers.append(lookup)", {"append"}),
        ("gdb.events.stop.connect(lambda event: None)", {"connect"}),
    ],
)
def test_definitions(code: str, names: set[str]) -> None:
    assert definitions(code) == names


@pytest.mark.parametrize(
    "code",
    [
        "print(1)",
        "x = 3",
        "gdb.execute('next')",
        "import os\ndef f(): pass\nx = os.system('date')",
        "import subprocess\ndef f(): subprocess.run(['date'])\nx = f()",
        "def f(): pass\nprint(f())",
        "def f(): gdb.execute('next')\nf()",
        "def f(): gdb.execute('next')\nx = f()",
        "def g(): gdb.execute('next')\ndef f(): g()\nf()",
        "class H(gdb.Command):\n  def __init__(self): gdb.execute('next')\nH()",
        "class B(gdb.Breakpoint):\n  def stop(self): return False\nB('work')",
        "def f(): pass\nb = gdb.Breakpoint('work')",
        "def f(): pass\nif gdb.parse_and_eval('x'): pass",
        "def f(): pass\nunknown()",
        "def f(): pass\nfor n in range(3):\n  print(n)",
        "def f(",
        "",
    ],
)
def test_code_that_does_more(code: str) -> None:
    assert definitions(code) is None


def test_names_of_earlier_code() -> None:
    assert definitions("def f(): gdb.execute('next')") == frozenset(), "f() is not to be repeated"
    assert definitions("Hello()") is None
    assert definitions("Hello()", known=("Hello",)) == {"Hello"}
