"""The statements around a line of Python source, by the syntax tree of its file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import lru_cache

Source = Callable[[str], str | None]
"""Function that returns the text of a source file, None if it is absent or not that of the code."""

_MOST_SOURCE = 1 << 21


@lru_cache(maxsize=64)
def _tree(source: str) -> ast.Module | None:
    if not source or len(source) > _MOST_SOURCE:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def statements_around(source: str, line: int) -> Iterator[ast.AST]:
    """Yield the nodes around a line, of the innermost function that contains it."""
    tree = _tree(source)
    if tree is None:
        return
    scope: ast.AST = tree
    found: list[ast.AST] = []
    nodes = list(ast.iter_child_nodes(tree))
    while nodes:
        node = nodes.pop()
        if isinstance(node, _Scope) and not spans(node, line):
            continue
        if isinstance(node, _Scope) and _body_begins(node) <= line:
            # Statements around a function are not executed around its call.
            scope, found = node, []
            nodes = list(ast.iter_child_nodes(scope))
            continue
        found.append(node)
        nodes += ast.iter_child_nodes(node)
    yield from found


def _body_begins(node: _Scope) -> int:
    return node.body.lineno if isinstance(node, ast.Lambda) else node.body[0].lineno


def spans(node: ast.AST, line: int) -> bool:
    """Return whether a node has a part of a line."""
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    return bool(first) and first <= line <= (last or first)
