"""The import rules of the sources: who may know whom, and which package is used where.

A module that is not in the tables fails the test: give it a place here when you add it.
"""

from __future__ import annotations

import ast
import configparser
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS: dict[str, int] = {
    # Shared by both processes.
    "pgdb.version": 0,
    "pgdb.controls": 0,
    "pgdb.corefiles": 0,
    "pgdb.elf": 0,
    "pgdb.files": 0,
    "pgdb.patterns": 0,
    "pgdb.errors": 0,
    "pgdb.ranks": 0,
    "pgdb.records": 0,
    "pgdb.proctable": 0,
    "pgdb.merge": 1,
    "pgdb.merge.answer": 1,
    "pgdb.merge.forms": 1,
    "pgdb.merge.calltree": 1,
    "pgdb.merge.graph": 1,
    "pgdb.merge.labels": 1,
    "pgdb.merge.masking": 1,
    "pgdb.merge.packing": 1,
    "pgdb.merge.runs": 1,
    "pgdb.merge.summary": 1,
    "pgdb.merge.texts": 1,
    "pgdb.merge.treetext": 1,
    "pgdb.jobs": 1,
    "pgdb.jobs.debugger": 1,
    "pgdb.jobs.byhand": 1,
    "pgdb.jobs.hold": 1,
    "pgdb.jobs.keeper": 1,
    "pgdb.jobs.ladder": 1,
    "pgdb.jobs.launchers": 1,
    "pgdb.jobs.listing": 1,
    "pgdb.jobs.mpir": 1,
    "pgdb.jobs.options": 1,
    "pgdb.jobs.placement": 1,
    "pgdb.jobs.pmix": 1,
    "pgdb.jobs.procfs": 1,
    "pgdb.jobs.scanning": 1,
    "pgdb.jobs.slurm": 1,
    "pgdb.overlay": 2,
    "pgdb.overlay.addresses": 2,
    "pgdb.overlay.bootstrap": 2,
    "pgdb.overlay.channel": 2,
    "pgdb.overlay.credentials": 2,
    "pgdb.overlay.delivery": 2,
    "pgdb.overlay.filecache": 2,
    "pgdb.overlay.filesources": 2,
    "pgdb.overlay.making": 2,
    "pgdb.overlay.messages": 2,
    "pgdb.overlay.node": 2,
    "pgdb.overlay.rendezvous": 2,
    "pgdb.overlay.router": 2,
    "pgdb.overlay.topology": 2,
    "pgdb.overlay.words": 2,
    # The aggregators.
    "pgdb.backend": 2,
    "pgdb.backend.gdb": 2,
    "pgdb.backend.gdb.*": 2,
    "pgdb.backend.blocks": 3,
    "pgdb.backend.breakin": 3,
    "pgdb.backend.breakpoints": 3,
    "pgdb.backend.deployment": 3,
    "pgdb.backend.fileviews": 3,
    "pgdb.backend.folding": 3,
    "pgdb.backend.following": 3,
    "pgdb.backend.indexcache": 3,
    "pgdb.backend.inferior": 3,
    "pgdb.backend.leaf": 3,
    "pgdb.backend.looking": 3,
    "pgdb.backend.mending": 3,
    "pgdb.backend.nursery": 3,
    "pgdb.backend.headstart": 3,
    "pgdb.backend.pausing": 3,
    "pgdb.backend.objects": 3,
    "pgdb.backend.rankfiles": 3,
    "pgdb.backend.reducing": 3,
    "pgdb.backend.remembering": 3,
    "pgdb.backend.stacks": 3,
    "pgdb.backend.starting": 3,
    "pgdb.backend.taking": 3,
    "pgdb.backend.guarding": 3,
    "pgdb.backend.watching": 3,
    "pgdb.backend.wireup": 3,
    "pgdb.backend.aggregator": 4,
    "pgdb.backend.serving": 5,
    "pgdb.backend.daemon": 6,
    "pgdb.backend.__main__": 7,
    # What the user runs.
    "pgdb.frontend.answers": 1,
    "pgdb.frontend.analysis.differences": 1,
    "pgdb.frontend.analysis.limits": 1,
    "pgdb.frontend.text.layout": 1,
    "pgdb.frontend.analysis.values": 1,
    "pgdb.frontend.text.valuetext": 1,
    "pgdb.frontend.export.arrayfiles": 3,
    "pgdb.frontend.analysis.arrays": 3,
    "pgdb.frontend.analysis.decompose": 3,
    "pgdb.frontend.export.pictures": 4,
    "pgdb.frontend.text.plots": 1,
    "pgdb.frontend.text.threadtext": 1,
    "pgdb.frontend": 3,
    "pgdb.frontend.analysis": 1,
    "pgdb.frontend.export": 1,
    "pgdb.frontend.starting": 1,
    "pgdb.frontend.text": 1,
    "pgdb.frontend.analysis.checking": 3,
    "pgdb.frontend.analysis.comparing": 3,
    "pgdb.frontend.analysis.histogram": 3,
    "pgdb.frontend.deadline": 3,
    "pgdb.frontend.deliveries": 3,
    "pgdb.frontend.lateanswers": 3,
    "pgdb.frontend.losses": 3,
    "pgdb.frontend.doctor": 3,
    "pgdb.frontend.gdbwords": 3,
    "pgdb.frontend.recording": 3,
    "pgdb.frontend.recording.bugreport": 5,
    "pgdb.frontend.recording.files": 3,
    "pgdb.frontend.recording.history": 5,
    "pgdb.frontend.recording.log": 3,
    "pgdb.frontend.recording.recorder": 3,
    "pgdb.frontend.recording.recordfile": 3,
    "pgdb.frontend.recording.redact": 3,
    "pgdb.frontend.recording.replay": 3,
    "pgdb.frontend.recording.saving": 3,
    "pgdb.frontend.recording.settings": 3,
    "pgdb.frontend.starting.directory": 3,
    "pgdb.frontend.starting.held": 3,
    "pgdb.frontend.starting.job": 3,
    "pgdb.frontend.starting.links": 3,
    "pgdb.frontend.starting.logged": 3,
    "pgdb.frontend.options": 3,
    "pgdb.frontend.times": 2,
    "pgdb.frontend.starting.overlay": 3,
    "pgdb.frontend.starting.remote": 3,
    "pgdb.frontend.programs": 3,
    "pgdb.frontend.relaying": 3,
    "pgdb.frontend.ptrace_trial": 3,
    "pgdb.frontend.replaying": 3,
    "pgdb.frontend.reviving": 3,
    "pgdb.frontend.root": 3,
    "pgdb.frontend.analysis.sampling": 3,
    "pgdb.frontend.analysis.saved": 3,
    "pgdb.frontend.session": 3,
    "pgdb.frontend.sources": 3,
    "pgdb.frontend.starting.shipping": 3,
    "pgdb.frontend.starting.site": 3,
    "pgdb.frontend.starting.start": 3,
    "pgdb.frontend.state": 3,
    "pgdb.frontend.telling": 3,
    "pgdb.frontend.threads": 3,
    "pgdb.frontend.uncut": 2,
    "pgdb.frontend.view": 3,
    "pgdb.frontend.commands": 4,
    "pgdb.frontend.commands.*": 4,
    "pgdb.frontend.completion": 4,
    "pgdb.frontend.jsonlines": 4,
    "pgdb.frontend.loopthread": 4,
    "pgdb.frontend.jsonshapes": 4,
    "pgdb.frontend.text.palette": 4,
    "pgdb.frontend.text.render": 4,
    "pgdb.frontend.text.reports": 4,
    "pgdb.frontend.sync": 4,
    "pgdb.frontend.export.treefiles": 4,
    "pgdb.frontend.display": 4,
    "pgdb.frontend.batch": 5,
    "pgdb.frontend.lookout": 5,
    "pgdb.frontend.shell": 4,
    "pgdb.frontend.repl": 5,
    "pgdb.frontend.arguments": 6,
    "pgdb.frontend.main": 6,
    "pgdb.aio": 6,
    "pgdb.__main__": 6,
    "pgdb": 6,
}
"""A module imports its own layer and those below. ``package.*``: the modules in that package."""

SIDES = ("pgdb.frontend", "pgdb.backend")
"""Neither imports the other, and nothing shared imports either."""

STARTERS = ("pgdb", "pgdb.__main__", "pgdb.aio")
"""Shared by place only: they load the front end (``pgdb`` itself only on first use)."""

LOW: dict[str, int] = {"pgdb.frontend.text.render": 1}
"""Modules that import less than their own layer would let them: records in, text out."""

PURE = (
    "pgdb.frontend.analysis.decompose",
    "pgdb.frontend.text.plots",
    "pgdb.frontend.analysis.checking",
    "pgdb.frontend.analysis.comparing",
    "pgdb.frontend.analysis.histogram",
    "pgdb.frontend.analysis.differences",
    "pgdb.frontend.text.layout",
    "pgdb.frontend.text.render",
    "pgdb.frontend.analysis.values",
    "pgdb.frontend.text.valuetext",
    "pgdb.frontend.text.threadtext",
    "pgdb.frontend.recording.recorder",
    "pgdb.frontend.recording.redact",
    "pgdb.frontend.state",
    "pgdb.merge",
    "pgdb.overlay.router",
    "pgdb.overlay.topology",
    "pgdb.ranks",
    "pgdb.records",
)
"""They decide and do no input or output, so that a test needs no socket and no process."""

INPUT_OUTPUT = {"asyncio", "select", "selectors", "socket", "ssl", "subprocess", "threading"}

THIRD_PARTY: dict[str, tuple[str, ...]] = {
    "cryptography": ("pgdb.overlay",),
    "gdb": ("pgdb.backend.gdb",),
    "matplotlib": SIDES[:1],
    "mpi4py": ("pgdb.backend.wireup", "pgdb.backend.__main__"),
    "msgspec": ("pgdb",),
    "networkx": ("pgdb.merge",),
    "numpy": ("pgdb.ranks", "pgdb.merge", *SIDES),
    "prompt_toolkit": (
        "pgdb.frontend.repl",
        "pgdb.frontend.recording.history",
        "pgdb.frontend.completion",
        "pgdb.frontend.lookout",
    ),
    "pyroaring": ("pgdb.ranks",),
    "rich": ("pgdb.frontend.text.palette",),
    "ssl": ("pgdb.overlay",),
}
"""Which modules, or packages with all that is in them, may import it."""

STANDARD_LIBRARY_ONLY = ("pgdb.jobs.hold", "pgdb.jobs.keeper")
"""Run as files by whatever Python a host has, beside or in place of the user's program."""


OPTIONAL = {"matplotlib"}
"""What is imported only if it is there: the extra ``plots``."""


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


def is_within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(place + ".") for place in places)


def layer_of(module: str) -> int | None:
    """Return the layer of *module*, or None when the table does not have it."""
    return LAYERS.get(module, LAYERS.get(module.rpartition(".")[0] + ".*"))


def target_of(name: str, modules: Mapping[str, object]) -> str:
    """Return the module that importing *name* loads; what is not ours as it is."""
    parent = name.rpartition(".")[0]
    return parent if name not in modules and parent in modules else name


def faults_of_own(module: str, target: str, *, is_lazy: bool) -> Iterator[str]:
    """Yield what is wrong with *module* importing our own *target*."""
    own, other = layer_of(module), layer_of(target)
    if module in STANDARD_LIBRARY_ONLY:
        yield "may import the standard library only"
    if own is None or other is None:
        return  # said of that module itself
    if other > own:
        yield f"layer {own} may not import layer {other}"
    elif module in LOW and other > LOW[module]:
        yield f"may import layers 0-{LOW[module]} only, this is layer {other}"
    for side in SIDES:
        if not is_within(target, (side,)) or is_within(module, (side,)):
            continue
        if module not in STARTERS:
            yield f"only {side} itself may import {side}"
        elif side == "pgdb.backend":
            yield "the front end's starters may not import the back end"
        elif module == "pgdb" and not is_lazy:
            yield "the package loads the front end on first use only, the aggregators import it"


def faults_of_others(module: str, top: str) -> Iterator[str]:
    """Yield what is wrong with *module* importing the foreign package *top*."""
    places = THIRD_PARTY.get(top)
    if places is not None:
        if not is_within(module, places):
            yield f"only {', '.join(places)} may import {top}"
    elif top not in sys.stdlib_module_names:
        yield f"{top} is not in THIRD_PARTY of tests/test_layers.py"
    if top in INPUT_OUTPUT and is_within(module, PURE):
        yield f"does no input or output, so it has no use for {top}"
    if module in STANDARD_LIBRARY_ONLY and top not in sys.stdlib_module_names:
        yield "may import the standard library only"


def faults(modules: Mapping[str, str]) -> list[str]:
    """Return what breaks the rules in *modules*, a map from name to source."""
    found = [
        f"{module}: not in LAYERS of tests/test_layers.py; give it a layer there"
        for module in modules
        if layer_of(module) is None
    ]
    for module, source in modules.items():
        for each in imports_of(ast.parse(source)):
            if each.name.startswith("."):
                reasons = iter(("relative import; write it in full",))
            elif each.name == "pgdb" and module not in STANDARD_LIBRARY_ONLY:
                continue  # every import of ours loads it; it is asked where it lies
            elif is_within(each.name, ("pgdb",)):
                target = target_of(each.name, modules)
                reasons = faults_of_own(module, target, is_lazy=each.is_lazy)
            elif each.name.split(".")[0] in ("frontend", "backend"):
                reasons = iter((f"write pgdb.{each.name}",))
            elif each.is_for_types:
                continue
            else:
                reasons = faults_of_others(module, each.name.split(".")[0])
            found += [f"{module}:{each.line}: imports {each.name}: {reason}" for reason in reasons]
    return found


def cycle_in(modules: Mapping[str, str]) -> list[str]:
    """Return the modules of one cycle of imports at load time, or nothing."""
    edges = {
        module: [
            target
            for each in imports_of(ast.parse(source))
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
    for folder, package in (("pgdb", "pgdb"), ("frontend", SIDES[0]), ("backend", SIDES[1])):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "pgdb" and parts[0] in ("frontend", "backend"):
                continue  # the links: Python 3.13's rglob goes through them
            name = ".".join((package, *parts)).removesuffix(".__init__")
            found[name] = path.read_text(encoding="utf-8")
    return found


def test_every_import_keeps_the_rules() -> None:
    modules = sources()
    assert len(modules) > 20, "the sources were not found"
    found = faults(modules)
    assert not found, "\n" + "\n".join(found)


def test_every_module_in_the_tables_is_there() -> None:
    modules = sources()
    packages = {name.rpartition(".")[0] for name in modules}
    named = {*LAYERS, *STARTERS, *LOW, *PURE, *STANDARD_LIBRARY_ONLY, *SIDES}
    named.update(place for places in THIRD_PARTY.values() for place in places)
    assert not {
        name
        for name in named
        if (name.removesuffix(".*") not in packages if name.endswith(".*") else name not in modules)
    }


def test_no_cycle_of_imports() -> None:
    assert cycle_in(sources()) == []


def test_table_of_third_parties_is_what_is_installed() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    required = [
        line.split(">=")[0]
        for line in parser["options"]["install_requires"].split("\n")
        if line and not line.startswith("#")
    ]
    # ssl is Python's, gdb exists inside GDB only.
    expected = set(THIRD_PARTY) - {"ssl", "gdb"} - OPTIONAL
    assert set(required) == expected
    extras = parser["options.extras_require"]["plots"].split()
    assert {line.split(">=")[0] for line in extras} == OPTIONAL


@pytest.mark.parametrize(
    ("module", "source", "reason"),
    [
        ("pgdb.frontend.state", "from pgdb.backend import leaf", "only pgdb.backend itself"),
        ("pgdb.backend.leaf", "import pgdb.frontend.text.render", "only pgdb.frontend itself"),
        ("pgdb.jobs.mpir", "from pgdb.frontend import state", "only pgdb.frontend itself"),
        ("pgdb.merge.answer", "from pgdb.overlay.messages import Stop", "layer 1 may not import"),
        ("pgdb.ranks", "def f():\n    from pgdb.merge import answer", "layer 0 may not import"),
        ("pgdb.ranks", "from pgdb import launch", "layer 0 may not import layer 6"),
        ("pgdb.frontend.text.render", "from pgdb.frontend.state import Job", "layers 0-1 only"),
        ("pgdb.overlay.router", "import asyncio", "no input or output"),
        ("pgdb.frontend.state", "import prompt_toolkit.history", "may import prompt_toolkit"),
        ("pgdb.backend.leaf", "from pyroaring import BitMap", "may import pyroaring"),
        ("pgdb.backend.leaf", "def f():\n    import networkx", "may import networkx"),
        ("pgdb.frontend.session", "import ssl", "may import ssl"),
        ("pgdb.backend.daemon", "from mpi4py import MPI", "may import mpi4py"),
        ("pgdb.jobs.hold", "from pgdb.errors import PgdbError", "standard library only"),
        ("pgdb.jobs.keeper", "import msgspec", "standard library only"),
        ("pgdb.jobs.keeper", "import pgdb", "standard library only"),
        ("pgdb.jobs.mpir", "import scipy", "not in THIRD_PARTY"),
        ("pgdb.jobs.mpir", "from . import procfs", "relative import"),
        ("pgdb.jobs.mpir", "from backend import leaf", "write pgdb.backend.leaf"),
        ("pgdb", "from pgdb.frontend.session import Session", "on first use only"),
        ("pgdb.utils", "", "not in LAYERS"),
    ],
)
def test_checker_finds(module: str, source: str, reason: str) -> None:
    modules = dict.fromkeys((name for name in LAYERS if not name.endswith("*")), "")
    found = faults(modules | {module: source})
    assert [line for line in found if line.startswith(module) and reason in line]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pgdb", "def __getattr__(name):\n    from pgdb.frontend.session import Session"),
        ("pgdb.__main__", "from pgdb.frontend.main import run"),
        ("pgdb.frontend.answers", "if TYPE_CHECKING:\n    import networkx"),
        ("pgdb.frontend.starting.overlay", "import pgdb"),
        ("pgdb.backend.leaf", "from pgdb.overlay.messages import Request"),
        ("pgdb.frontend.commands.data", "import argparse\nfrom pgdb.frontend import session"),
        ("pgdb.overlay.channel", "import ssl, asyncio\nfrom cryptography import x509"),
    ],
)
def test_checker_allows(module: str, source: str) -> None:
    modules = dict.fromkeys((name for name in LAYERS if not name.endswith("*")), "")
    assert faults(modules | {module: source}) == []


def test_checker_finds_a_cycle() -> None:
    looped = {"a": "import b", "b": "from c import x", "c": "import a"}
    assert cycle_in(looped) == ["a", "b", "c", "a"]
    assert cycle_in(looped | {"c": "def f():\n    import a"}) == []


def loaded_by(statement: str) -> set[str]:
    """Return the names of the modules that *statement* loads in a fresh Python."""
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_daemon_loads_no_front_end_and_no_heavy_package() -> None:
    loaded = loaded_by("import pgdb.backend.daemon, pgdb.backend.serving")
    assert "pgdb.backend.leaf" in loaded
    # networkx alone takes 0.46 s to import; every host of a job would pay for it.
    heavy = ("networkx", "numpy", "prompt_toolkit", "rich", "matplotlib", "mpi4py")
    unwanted = ("pgdb.frontend", *heavy)
    assert not [name for name in loaded if is_within(name, unwanted)]


def test_front_end_loads_no_back_end() -> None:
    loaded = loaded_by("import pgdb.frontend.main")
    assert "pgdb.frontend.main" in loaded
    # numpy and rich take 0.1 s each, and most sessions look at no array.
    unwanted = ("pgdb.backend", "mpi4py", "networkx", "numpy", "rich", "matplotlib")
    assert not [name for name in loaded if is_within(name, unwanted)]
