"""The imports of a source, and the sources of PGDB."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tests.support.programs import ROOT

MI_COMMAND = re.compile(
    "-(?:break|catch|data|enable|environment|exec|file|gdb|inferior|info|interpreter|list|stack"
    "|symbol|target|thread|var)-[a-z]"
)
GDB_CODE = re.compile(
    r"(?<![\w.])gdb\.(?:[a-z_]+\(|error\b|[A-Z]+_\w|[A-Z][a-z]+\()"
    r"|\bpython (?:exec\(|import |\w+_in_gdb\.)"
)


@dataclass(frozen=True)
class Import:
    """One import: of *name* (a module, or a name in one), at *line*."""

    name: str
    line: int
    is_lazy: bool
    """Not at load time: inside a function, or only for the type checker."""
    is_for_types: bool
    """Only for the type checker: nothing is ever loaded."""


def imports_of(
    tree: ast.AST, *, is_lazy: bool = False, is_for_types: bool = False
) -> Iterator[Import]:
    """Yield every import below *tree*; ``from a import b`` as ``a.b``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, is_lazy, is_for_types)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            for alias in node.names:
                yield Import(f"{source}.{alias.name}", node.lineno, is_lazy, is_for_types)
        else:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            is_typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            yield from imports_of(
                node,
                is_lazy=is_lazy or is_function or is_typing,
                is_for_types=is_for_types or is_typing,
            )


@cache
def imports_in(source: str) -> tuple[Import, ...]:
    """Return every import in a source; several tests look at all sources."""
    return tuple(imports_of(ast.parse(source)))


def is_within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(place + ".") for place in places)


def target_of(name: str, modules: Mapping[str, object]) -> str:
    """Return the module that importing *name* loads; what is not ours as it is."""
    parent = name.rpartition(".")[0]
    return parent if name not in modules and parent in modules else name


def cycle_in(modules: Mapping[str, str]) -> list[str]:
    """Return the modules of one cycle of imports at load time, or nothing."""
    edges = {
        module: [
            target
            for each in imports_in(source)
            if not each.is_lazy
            and (target := target_of(each.name, modules)) in modules
            and target != module
        ]
        for module, source in modules.items()
    }
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for target in edges[module]:
            if cycle := visit(target, [*path, module]):
                return cycle
        done.add(module)
        return []

    return next((cycle for module in edges if (cycle := visit(module, []))), [])


def sources() -> dict[str, str]:
    """Return the source of every module of PGDB by its name."""
    found = {}
    for folder, package in (
        ("pgdb", "pgdb"),
        ("frontend", "pgdb.frontend"),
        ("backend", "pgdb.backend"),
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "pgdb" and parts[0] in ("frontend", "backend"):
                continue  # the links: Python 3.13's rglob goes through them
            name = ".".join((package, *parts)).removesuffix(".__init__")
            found[name] = path.read_text(encoding="utf-8")
    return found


def mi_commands(source: str) -> list[str]:
    """Return the strings and bytes of a source that begin as a GDB/MI command does."""
    found = []
    for node in ast.walk(ast.parse(source)):
        value = node.value if isinstance(node, ast.Constant) else None
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if isinstance(text, str) and MI_COMMAND.match(text):
            found.append(text)
    return found


def code_for_gdb(source: str) -> list[str]:
    """Return the strings of a source that hold Python code for GDB, or call a module in GDB.

    Docstrings do not count.
    """
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and id(node) not in docstrings
        if isinstance(node.value, str) and GDB_CODE.search(node.value)
    ]


def writes_to_streams(source: str) -> bool:
    """Return whether a module prints, or uses ``sys.stdout`` or ``sys.stderr``."""
    return any(
        (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print")
        or (
            isinstance(node, ast.Attribute)
            and node.attr in ("stdout", "stderr")
            and isinstance(node.value, ast.Name)
            and node.value.id == "sys"
        )
        for node in ast.walk(ast.parse(source))
    )
