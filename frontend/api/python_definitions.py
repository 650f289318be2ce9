"""Python code for GDB that only defines: commands, functions, pretty-printers. No I/O.

Such code can be carried out again in the GDBs of another launch. Code that prints, gives commands
to GDB or makes breakpoints is not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

_ACTS = frozenset("execute parse_and_eval post_event write flush rbreak Breakpoint".split())
"""Functions of GDB's module that do more than define, and the class whose objects stop ranks."""
_STOPPING = frozenset(("Breakpoint", "FinishBreakpoint"))
_REGISTERS = frozenset(
    "append insert extend update add connect setdefault register_pretty_printer "
    "register_xmethod_matcher register_unwinder register_type_printer register "
    "set_convenience_variable set_parameter".split()
)
_OUTSIDE = frozenset("os pathlib shutil signal socket subprocess sys urllib".split())
"""Modules whose functions act outside GDB, except those of a part in :data:`_PARTS`."""
_PARTS = frozenset(("path", "environ"))
_OTHERS = frozenset(("print", "input", "open", "exec", "eval", "exit", "quit", "__import__"))


def definitions(code: str, known: Iterable[str] = ()) -> frozenset[str] | None:
    """Return the names that code defines and that do nothing else when they are called.

    Return None if the code does anything but define. *known* are such names of earlier code.

    >>> sorted(definitions("class H(gdb.Command): pass\\nH()"))
    ['H']
    >>> definitions("gdb.execute('next')"), definitions("print(1)"), definitions("f(")
    (None, None, None)
    >>> definitions("def f(): pass\\nimport os\\nos.system('date')\\nx = os.getpid()")
    >>> sorted(definitions("import sys\\nsys.path.insert(0, '/x')\\ndef f(): pass"))
    ['f', 'insert']
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = _Definitions(tree, known)
    if not found.made or not all(map(found.only_defines, tree.body)):
        return None
    return frozenset(filter(found.is_harmless, found.made))


class _Definitions:
    def __init__(self, tree: ast.Module, known: Iterable[str]) -> None:
        self._bodies: dict[str, ast.AST] = {}
        self.made: set[str] = set()
        self._known = {*known}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                self._bodies.setdefault(node.name, node)
        for statement in tree.body:
            match statement:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    self.made.add(name)
                case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in self._known:
                    self.made.add(name)
                case ast.Expr(value=ast.Call(func=ast.Attribute(attr=attr))) if attr in _REGISTERS:
                    self.made.add(attr)

    def only_defines(self, node: ast.stmt) -> bool:
        """Return whether a statement at the top level has no effect but a definition."""
        match node:
            case ast.ClassDef():
                return all(self._is_harmless(each) for each in (*node.bases, *node.decorator_list))
            case ast.FunctionDef() | ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Global():
                return True
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                return self._is_harmless(node)
            case ast.If() | ast.Try() | ast.For() | ast.With():
                inner = [
                    each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)
                ]
                handlers = [each for each in inner if isinstance(each, ast.ExceptHandler)]
                rest = [each for each in inner if not isinstance(each, ast.ExceptHandler)]
                bodies = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
                bodies += (each for handler in handlers for each in handler.body)
                return all(map(self._is_harmless, rest)) and all(map(self.only_defines, bodies))
            case ast.Expr(value=ast.Constant()):
                return True
            case ast.Expr(value=ast.Call() as call):
                return self._registers(call) and self._is_harmless(call)
        return False

    def is_harmless(self, name: str) -> bool:
        """Return whether a call of a name does nothing but define."""
        body = self._bodies.get(name)
        return body is None or self._is_harmless_body(body, frozenset((name,)))

    def _registers(self, call: ast.Call) -> bool:
        match call.func:
            case ast.Name(id=name):
                return name in self._bodies or name in self._known
            case ast.Attribute(attr=attr):
                return attr in _REGISTERS
        return False

    def _is_harmless(self, node: ast.AST, seen: frozenset[str] = frozenset()) -> bool:
        """Return whether code calls nothing that acts, in the functions that it calls as well."""
        for each in ast.walk(node):
            if not isinstance(each, ast.Call):
                continue
            match each.func:
                case ast.Attribute(attr=attr) if attr in _ACTS or attr in _STOPPING:
                    return False
                case ast.Attribute(value=ast.Name(id=module), attr=attr) if module in _OUTSIDE:
                    if attr not in _PARTS:
                        return False
                case ast.Name(id=name) if name in _OTHERS or name in _ACTS:
                    return False
                case ast.Name(id=name) if name in self._bodies and name not in seen:
                    if not self._is_harmless_body(self._bodies[name], seen | {name}):
                        return False
        return True

    def _is_harmless_body(self, body: ast.AST, seen: frozenset[str]) -> bool:
        if not isinstance(body, ast.ClassDef):
            return self._is_harmless(body, seen)
        names = [each.attr if isinstance(each, ast.Attribute) else "" for each in body.bases]
        if not _STOPPING.isdisjoint(names):
            return False  # its object is a breakpoint, which has a place in the table of all
        starts = (each for each in body.body if isinstance(each, ast.FunctionDef))
        return all(self._is_harmless(each, seen) for each in starts if each.name == "__init__")
