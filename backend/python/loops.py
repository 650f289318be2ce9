"""Loops of Python that a thread cannot leave by itself, proven by their source and their values.

A loop whose statements call nothing, and change nothing that it reads, comes back to the same state
in each turn, if all that it reads are plain values: they execute no code of the program. So only
another thread or process, or the handler of a signal, can end it. If it has no way out either, not
even they can.

Loops that call functions, or that count, are not judged: whether they end is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from pgdb.backend.python.statements import statements_around
from pgdb.mpi_calls import Loop

TypeOf = Callable[[str], str]
"""Function that returns the type's name of a variable, attribute or element; empty if unknown."""

_PLAIN = frozenset(
    "bool int float complex str bytes NoneType list tuple dict set frozenset array".split()
)
"""Types whose operators execute no code of the program; ``array`` is one of numbers."""
_PAUSES = frozenset({"sleep", "sched_yield"})
_FUNCTION_OF_C = "builtin_function_or_method"


def loop_of(source: str, line: int, type_of: TypeOf) -> Loop:
    """Return the kind of loop in which a thread is, at a line of its innermost function.

    >>> loop_of("while True:\\n    pass\\n", 2, lambda _: "")
    'no way out'
    >>> loop_of("while not done:\\n    pass\\n", 1, {"done": "bool"}.__getitem__)
    'spins'
    >>> loop_of("while step():\\n    pass\\n", 2, lambda _: "bool")
    ''
    """
    kinds = [
        _Turn(each, type_of).kind
        for each in statements_around(source, line)
        if isinstance(each, ast.While) and each.lineno <= line <= _end(each.body)
    ]
    return next((each for each in ("no way out", "spins") if each in kinds), "")


def _end(body: Sequence[ast.stmt]) -> int:
    return body[-1].end_lineno or body[-1].lineno


class _Turn:
    """One turn of a loop."""

    def __init__(self, loop: ast.While, type_of: TypeOf) -> None:
        self._loop = loop
        self._type_of = type_of
        self._assigned = {
            each.id
            for each in ast.walk(loop)
            if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)
        }

    @property
    def kind(self) -> Loop:
        loop = self._loop
        if not (self._is_still(loop.test) and all(map(self._changes_nothing, loop.body))):
            return ""
        is_endless = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        return "no way out" if is_endless and not any(_leaving(loop.body)) else "spins"

    def _changes_nothing(self, node: ast.stmt) -> bool:
        """Return whether a statement leaves all as it is that the loop reads."""
        match node:
            case ast.Pass() | ast.Continue() | ast.Break() | ast.Return(value=None):
                return True
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
                return self._is_still(value) or self._is_pause(value)
            case ast.If(test=test) | ast.While(test=test):
                within = [*node.body, *node.orelse]
                return self._is_still(test) and all(map(self._changes_nothing, within))
            case ast.Assign(value=value):
                to_names = all(isinstance(each, ast.Name) for each in node.targets)
                return to_names and self._is_still(value)
        return False

    def _is_still(self, node: ast.expr) -> bool:
        """Return whether an expression has the same value in each turn, and executes no code."""
        match node:
            case ast.Constant():
                return True
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self._is_plain(node)
            case ast.UnaryOp(operand=operand):
                return self._is_still(operand)
            case ast.BoolOp(values=parts):
                return all(map(self._is_still, parts))
            case ast.BinOp(left=left, right=right):
                return self._is_still(left) and self._is_still(right)
            case ast.Compare(left=left, comparators=others):
                return self._is_still(left) and all(map(self._is_still, others))
            case ast.IfExp(test=test, body=body, orelse=other):
                return all(map(self._is_still, (test, body, other)))
        return False

    def _is_plain(self, node: ast.expr) -> bool:
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if not names.isdisjoint(self._assigned):
            return False
        if isinstance(node, ast.Subscript) and not self._is_plain(node.value):
            return False
        return self._type_of(ast.unparse(node)) in _PLAIN

    def _is_pause(self, node: ast.expr) -> bool:
        """Return whether an expression is a call that only pauses the thread."""
        if not isinstance(node, ast.Call) or node.keywords:
            return False
        text = ast.unparse(node.func)
        return (
            text.rpartition(".")[2] in _PAUSES
            and self._type_of(text) == _FUNCTION_OF_C
            and all(map(self._is_still, node.args))
        )


def _leaving(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements by which a loop may be left; a ``break`` may be of an inner loop."""
    for each in body:
        yield from (node for node in ast.walk(each) if isinstance(node, ast.Break | ast.Return))
