"""Breakpoints and steps in a Python rank: which code and which events they mean.

This code runs in the interpreter of the rank, before that of :mod:`.agent`, which says more.
"""

# PGDB's own interpreter compiles this module, too; that of the rank may be older.
from __future__ import annotations

import os
import sys
from opcode import opname
from types import FunctionType, MethodType, ModuleType
from typing import Any

NAME = "<pgdb>"
"""File name of this code in the rank."""
PAGE = 31
"""Number of slots in one call: the bits of a positive int of C."""
STEP, UNCAUGHT, FIRST = 0, 1, 2
"""Slots: of the end of a step, of an uncaught exception, and the first one of a breakpoint."""
MOST_TEXT = 4000
"""Length of a text in a report, in characters."""
_MOST_FRAMES = 200
_MOST_LOCALS = 200
_PLAIN = (int, float, bool, str, bytes, type(None))
_OF_FUNCTION = 1  # CO_OPTIMIZED
_OF_COROUTINE = 0x380  # CO_COROUTINE, CO_ITERABLE_COROUTINE, CO_ASYNC_GENERATOR
_MOST_WRAPPERS, _MOST_AT_LEVEL = 6, 100
"""Number of wrappers around each other, and of values beside each other, that are looked at."""
_MOST_SOURCE = 1 << 24
MOST_DECORATORS = 200
"""Number of lines in which the ``def`` behind decorators is looked for."""
_VALUE_OF_GENERATOR = "async_generator_wrapped_value"
"""Type of a value that an asynchronous generator yields to its caller."""


def lines_of(code: Any) -> set[int]:
    """Return the lines that have instructions of a code object."""
    if hasattr(code, "co_lines"):
        return {line for _, _, line in code.co_lines() if line}
    found, line = {code.co_firstlineno}, code.co_firstlineno
    for step in code.co_lnotab[1::2]:
        line += step - 256 if step > 127 else step
        found.add(line)
    return found


def all_lines(path: str) -> set[int]:
    """Return the lines of a source file that have instructions; none if it cannot be read."""
    try:
        with open(path, "rb") as file:
            codes = [compile(file.read(), path, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
        return set()
    found: set[int] = set()
    while codes:
        code = codes.pop()
        found |= lines_of(code)
        codes += [each for each in code.co_consts if hasattr(each, "co_code")]
    return found


def is_function(code: Any) -> bool:
    """Return whether a code object is that of a function with a name."""
    return bool(code.co_flags & _OF_FUNCTION) and not code.co_name.startswith("<")


def text_of(value: object) -> str:
    """Return the text of a simple value, the type and address of any other one."""
    if type(value) in _PLAIN:
        return repr(value)[:MOST_TEXT]
    return f"<{type(value).__name__} at {id(value):#x}>"


def exception_text(kind: Any, value: Any) -> str:
    """Return the name of an exception's type, and its message."""
    try:
        message = str(value)
    except BaseException:  # noqa: BLE001 (the program must not see it)
        message = "<its message cannot be made>"
    return f"{kind.__name__}: {message}"[:MOST_TEXT]


class Point:
    """A breakpoint: at a line of a file, or at the beginning of a function."""

    def __init__(self, slot: int, wanted: dict[str, Any]) -> None:
        self.slot = slot
        self.file: str = wanted.get("file", "")
        self.line: int = wanted.get("line", 0)
        self.function: str = wanted.get("function", "")
        self.condition: Any = None
        self.text: str = wanted.get("condition", "")
        self.place: tuple[str, int, str] | None = None
        self.problem = ""
        self.real_lines: dict[str, int] = {}
        self.known: tuple[Any, Any] = (None, None)
        """The value that the function's name had last, and its code."""
        if self.text:
            try:
                self.condition = compile(self.text.strip(), NAME, "eval", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                self.problem = f"its condition: {error}"

    def matches(self, code: Any, module: str) -> int:
        """Return the line at which it stops in a code object: 0 for nowhere, -1 for its start."""
        if self.function:
            return -1 if is_function(code) and self.is_named(code, module) else 0
        name = code.co_filename
        if name != self.file and not name.endswith("/" + self.file.lstrip("/")):
            return 0
        if self.file.startswith("/") and name != self.file:
            if os.path.realpath(name) != os.path.realpath(self.file):
                return 0
        line = self.real_lines.get(name)
        if line is None:
            known = all_lines(name)
            line = min((each for each in known if each >= self.line), default=0)
            line = line if known else self.line
            self.real_lines[name] = line
            if not line:
                self.problem = f"{name} has no code at line {self.line} or later"
        if not line:
            return 0
        begins_at = code.co_firstlineno
        if is_function(code) and begins_at <= line <= begins_at + MOST_DECORATORS:
            # The line of "def" and those of its decorators stand for the function.
            body = min((each for each in lines_of(code) if each > begins_at), default=line + 1)
            if line == begins_at or (line < body and line <= def_line(code)):
                return -1
        if line == begins_at and not code.co_name.startswith("<module"):
            # A lambda or a comprehension belongs to the line around it.
            return 0
        return line if line in lines_of(code) else 0

    def is_named(self, code: Any, module: str) -> bool:
        """Return whether a function has the name of this breakpoint."""
        found = self.resolved()
        if found is code:
            return True
        # Before Python 3.11 a function does not know the class around it.
        name = getattr(code, "co_qualname", "") or ("" if found else code.co_name)
        if not name:
            return False
        modules = (module, main_stem()) if module == "__main__" else (module,)
        is_main = module == "__main__" and self.function == name
        return is_main or self.function in [f"{each}.{name}" for each in modules]

    def resolved(self) -> Any:
        """Return the code of the function that the name leads to in the loaded modules."""
        words = self.function.split(".")
        for count in range(len(words) - 1, -1, -1):
            name = ".".join(words[:count])
            found: Any = sys.modules.get("__main__" if name in ("", main_stem()) else name)
            for word in words[count:]:
                found = member_of(found, word)
            if found is None:
                continue
            if found is not self.known[0]:
                self.known = (found, code_of(found, words[-1]))
            if self.known[1] is not None:
                return self.known[1]
        return None

    def absence(self) -> str:
        """Return what the loaded modules lack of the place, empty if nothing."""
        if not self.function:
            names = [getattr(each, "__file__", None) for each in list(sys.modules.values())]
            files = [each for each in names if isinstance(each, str)]
            ends = (self.file, "/" + self.file)
            is_there = any(each == ends[0] or each.endswith(ends[1]) for each in files)
            return "" if is_there else f"no module of a file {self.file} was loaded"
        if self.resolved() is not None:
            return ""
        words = self.function.split(".")
        found, count = None, len(words)
        while found is None and count > 1:
            count -= 1
            name = ".".join(words[:count])
            found = sys.modules.get("__main__" if name == main_stem() else name)
        if found is None:
            return f"no module '{words[0]}' was loaded"
        for word in words[count:]:
            inner = member_of(found, word)
            if inner is None:
                return f"'{name}' had no '{word}'"
            found, name = inner, f"{name}.{word}"
        if isinstance(found, type):
            return f"'{name}' was a class; name a function of it, such as {name}.__init__"
        return f"'{name}' was no function of Python"


def member_of(value: Any, name: str) -> Any:
    """Return an attribute of a module, a class or an object; None if it has none.

    A class has those of its bases. No code of the program is executed.
    """
    places = type.mro(value) if isinstance(value, type) else [value]
    for each in places:
        if hasattr(each, "__dict__") and name in vars(each):
            return vars(each)[name]
    return None


def code_of(value: Any, name: str) -> Any:
    """Return the code of the function *name* that a value is, or that it wraps as a decorator does.

    A wrapper need not say what it wraps: the function is then in a variable of its own. A value
    without such a function has the code of the last function that it names, None if it has none.
    """
    seen: set[int] = set()
    level = [value]
    for _ in range(_MOST_WRAPPERS):
        inner: list[Any] = []
        for each in level[:_MOST_AT_LEVEL]:
            if id(each) in seen or type(each) in _PLAIN:
                continue
            seen.add(id(each))
            if type(each) is FunctionType and each.__code__.co_name == name:
                return each.__code__
            inner += [named_by(each), *kept_in(each)]
        level = inner
    code = None
    for _ in range(_MOST_WRAPPERS):
        code = value.__code__ if type(value) is FunctionType else code
        value = named_by(value)
    return code


def named_by(value: Any) -> Any:
    """Return what a wrapper says that it wraps, None if it says nothing."""
    if type(value) in (staticmethod, classmethod, MethodType):
        return value.__func__
    if type(value) is property:
        return value.fget
    if type(value).__module__ == "functools" and type(value).__name__ == "partial":
        return value.func
    return own_names(value).get("__wrapped__")


def kept_in(value: Any) -> list[Any]:
    """Return the values in which a wrapper can keep a function that it does not name."""
    if type(value) in (list, tuple):
        return list(value[:_MOST_AT_LEVEL])
    found = list(own_names(value).values())[:_MOST_AT_LEVEL]
    for cell in (value.__closure__ or ()) if type(value) is FunctionType else ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            pass
    return found


def own_names(value: Any) -> dict[str, Any]:
    """Return the attributes that an object has itself; none of a module or a class."""
    if isinstance(value, (type, ModuleType)):
        return {}
    try:
        names = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return names if type(names) is dict else {}


def def_line(code: Any) -> int:
    """Return the line of the word ``def`` of a function, which is behind its decorators."""
    first: int = code.co_firstlineno
    try:
        with open(code.co_filename, "rb") as file:
            lines = file.read(_MOST_SOURCE).splitlines()[first - 1 : first - 1 + MOST_DECORATORS]
    except (OSError, ValueError):
        return first
    return first + lines_to_def(lines, code.co_name)


def lines_to_def(lines: list[bytes], name: str) -> int:
    """Return the number of lines of decorators in front of the ``def`` of a function.

    >>> lines_to_def([b"@timed", b"def step(u):", b"    return u"], "step")
    1
    >>> lines_to_def([b"def step(u):", b"    return u"], "step")
    0
    """
    if not lines or not lines[0].lstrip().startswith(b"@"):
        return 0
    for number, line in enumerate(lines):
        words = line.replace(b"(", b" ").replace(b"[", b" ").split()
        words = words[1:] if words[:1] == [b"async"] else words
        if words[:1] in ([b"def"], [b"class"]):
            return number if words[:2] == [b"def", name.encode()] else 0
    return 0


def main_stem() -> str:
    """Return the name of the program's file without its ending."""
    path = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    return os.path.splitext(os.path.basename(path))[0]


def begins(frame: Any) -> bool:
    """Return whether a frame that a trace function is called for begins, and is not resumed."""
    code, at = frame.f_code.co_code, frame.f_lasti
    # Python 3.11 is at an instruction RESUME (151), whose argument is 0 at the beginning.
    return at < 0 or (sys.version_info >= (3, 11) and code[at] == 151 and not code[at + 1] & 3)


def leaves_by(frame: Any) -> str:
    """Return how a frame with the event ``return`` leaves: ``return``, ``yield``, or ``raise``."""
    code, at = frame.f_code.co_code, frame.f_lasti
    name = opname[code[at]]
    if name.startswith("RETURN_"):
        return "return"
    # Before Python 3.11 a frame that awaits another one stands before its instruction; since 3.13 a
    # frame that yields stands at the next one.
    follows = opname[code[at + 2]] if at + 2 < len(code) else ""
    resumes = name == "RESUME" and code[at + 1] & 3
    is_yield = name == "YIELD_VALUE" or follows == "YIELD_FROM" or resumes
    return "yield" if is_yield else "raise"


def is_of_asyncio(frame: Any) -> bool:
    """Return whether a frame is of the event loop, which runs tasks."""
    name: str = frame.f_code.co_filename
    return os.path.basename(os.path.dirname(name)) == "asyncio"


class Step:
    """A step of one thread: to a line, or to the return of a function.

    A coroutine that awaits leaves the thread to other tasks, in which the step does not end.
    """

    def __init__(self, kind: str, count: int, frame: Any, depth: int) -> None:
        self.kind, self.count = kind, count
        self.start = (frame, frame.f_lasti)
        self.at = (frame, frame.f_lineno)
        for _ in range(depth if kind == "finish" else 0):
            frame = frame.f_back or frame
        self.frame = frame
        self.stays_outside = kind != "step" and not is_of_asyncio(frame)
        self.awaiting: Any = None
        """Frame of the coroutine that has left the thread to others."""
        self.raised: Any = None
        self.result = ""
        self.traced: list[tuple[Any, Any]] = []

    def enters(self, frame: Any) -> bool:
        """Return whether the lines of a function that is called matter."""
        return self.kind == "step" and not frame.f_code.co_filename.startswith("<frozen")

    def ends(self, frame: Any, event: str, arg: Any) -> bool:
        """Return whether the step ends at an event of the trace function."""
        if event == "exception":
            self.raised = (frame, frame.f_lasti, arg)
            return False
        if event == "return":
            return self.leaves(frame, arg)
        self.raised = None
        if self.kind == "finish" or self.awaiting not in (None, frame):
            return False
        self.awaiting = None
        if (frame, frame.f_lasti) == self.start:
            # The line at which the thread stands, once more: its breakpoint was reported first.
            self.start = (None, 0)
            return False
        self.start = (None, 0)
        if self.stays_outside and is_of_asyncio(frame):
            return False
        at = (frame, frame.f_lineno)
        # A loop in one line, such as a comprehension, comes to its line again and again.
        if at == self.at or (self.kind == "until" and frame is self.frame and at[1] <= self.at[1]):
            return False
        self.count -= 1
        self.at = at
        return self.count <= 0

    def leaves(self, frame: Any, arg: Any) -> bool:
        """Return whether the step ends as a function is left, and note the value of the function.

        A generator or coroutine that yields has not returned.
        """
        how = leaves_by(frame)
        if arg is None and self.raised is not None and self.raised[:2] == (frame, frame.f_lasti):
            how = "raise"
        if self.kind != "finish":
            is_coroutine = frame.f_code.co_flags & _OF_COROUTINE
            if how == "yield" and is_coroutine and type(arg).__name__ != _VALUE_OF_GENERATOR:
                self.awaiting = self.awaiting or frame
            elif frame is self.awaiting:
                self.awaiting = None
            return False
        if frame is not self.frame or how == "yield":
            return False
        if how == "raise" and self.raised is not None and self.raised[0] is frame:
            self.result = f"! {exception_text(*self.raised[2][:2])}"
        else:
            self.result = text_of(arg)
        return True


def is_ours(frame: Any) -> bool:
    """Return whether a frame executes the few lines that have led here."""
    return frame.f_code.co_name == "<module>" and NAME in frame.f_code.co_consts


def users_frame() -> Any:
    """Return the innermost frame of the program."""
    frame: Any = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename == NAME or is_ours(frame)):
        frame = frame.f_back
    return frame


def frames_of(traceback: Any) -> list[dict[str, Any]]:
    """Return the frames of a traceback, innermost first, as the reader of stacks has them."""
    found: list[dict[str, Any]] = []
    while traceback is not None:
        frame = traceback.tb_frame
        code = frame.f_code
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        names = {} if frame.f_locals is frame.f_globals else {**frame.f_locals}
        found.append(
            {
                "name": getattr(code, "co_qualname", code.co_name),
                "filename": code.co_filename,
                "line": traceback.tb_lineno,
                "locals": [
                    {
                        "name": name,
                        "addr": id(value),
                        "arg": name in arguments,
                        "repr": text_of(value),
                    }
                    for name, value in list(names.items())[:_MOST_LOCALS]
                ],
            }
        )
        traceback = traceback.tb_next
    found.reverse()
    return found[:_MOST_FRAMES]
