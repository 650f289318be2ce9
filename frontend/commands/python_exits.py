"""Calls in Python code that end the process that carries it out, as ``sys.exit`` does. No I/O."""

from __future__ import annotations

import ast

_ENDS = frozenset(("exit", "quit"))
_ENDS_OF = {"sys": frozenset(("exit",)), "os": frozenset(("_exit", "abort"))}
_EXIT = "SystemExit"
_CATCHES = frozenset((_EXIT, "BaseException"))


def first_exit(code: str) -> tuple[int, str] | None:
    """Return the first call or ``raise`` in code that ends its process, with its line, or None.

    It is one that is not inside a ``try`` that catches it. One in a function counts if the code
    calls the function.

    >>> first_exit("import sys\\nsys.exit(3)"), first_exit("raise SystemExit")
    ((2, 'sys.exit(3)'), (1, 'raise SystemExit'))
    >>> first_exit("def f(): exit()"), first_exit("def f():\\n  exit()\\nf()")
    (None, (2, 'exit()'))
    """
    try:
        return _Exits(ast.parse(code)).first
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # GDB's Python says so


class _Exits:
    def __init__(self, tree: ast.Module) -> None:
        self.first: tuple[int, str] | None = None
        nodes = [*ast.walk(tree)]
        self._functions = {each.name: each for each in nodes if isinstance(each, ast.FunctionDef)}
        self._defined = {
            each.asname or each.name
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for each in node.names
        } | {*self._functions}
        self._visit(tree)

    def _visit(self, node: ast.AST) -> None:
        if self.first is not None:
            return
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return
            case ast.Try(handlers=handlers) if any(map(_catches, handlers)):
                inner: list[ast.stmt] = [*node.orelse, *node.finalbody]
                inner += (each for handler in handlers for each in handler.body)
                for statement in inner:
                    self._visit(statement)
                return
            case ast.Call(func=function) if self._ends(function):
                self.first = node.lineno, ast.unparse(node)
                return
            case ast.Call(func=ast.Name(id=name)) if name in self._functions:
                called = self._functions.pop(name)
                for statement in called.body:
                    self._visit(statement)
            case (
                ast.Raise(exc=ast.Name(id=name)) | ast.Raise(exc=ast.Call(func=ast.Name(id=name)))
            ) if name == _EXIT:
                self.first = node.lineno, ast.unparse(node)
                return
            case _:
                pass
        for each in ast.iter_child_nodes(node):
            self._visit(each)

    def _ends(self, function: ast.expr) -> bool:
        match function:
            case ast.Name(id=name):
                return name in _ENDS and name not in self._defined
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                return name in _ENDS_OF.get(module, ())
            case _:
                return False


def _catches(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches the exception of ``sys.exit``."""
    if handler.type is None:
        return True
    names = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(each, ast.Name) and each.id in _CATCHES for each in names)
