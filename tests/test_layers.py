"""The import rules of the sources: which folder may import which, and who uses which package.

All imports count, those for the type checker too. A folder without a row fails the test.
"""

from __future__ import annotations

import configparser
import sys
from collections.abc import Iterator, Mapping

import pytest

from tests.support.imports import (
    code_for_gdb,
    cycle_in,
    imports_in,
    is_within,
    mi_commands,
    sources,
    target_of,
)
from tests.support.programs import ROOT

FOLDERS: dict[str, tuple[str, ...]] = {
    "pgdb": (),
    "pgdb.merge": (),
    "pgdb.overlay": ("pgdb.merge", "pgdb.files", "pgdb.cores"),
    "pgdb.files": ("pgdb.overlay",),
    "pgdb.cores": ("pgdb.jobs",),
    "pgdb.jobs": (),
    "pgdb.backend.rank": ("pgdb.overlay", "pgdb.files"),
    "pgdb.backend.sbd": ("pgdb.overlay", "pgdb.files"),
    "pgdb.backend.care": ("pgdb.jobs", "pgdb.backend.sbd", "pgdb.backend.gdb"),
    "pgdb.backend.gdb": (
        "pgdb.overlay",
        "pgdb.cores",
        "pgdb.jobs",
        "pgdb.backend.python",
        "pgdb.backend.rank",
        "pgdb.backend.sbd",
        "pgdb.backend.care",
        "pgdb.backend.zygote",
        "pgdb.backend.mpi_calls",
    ),
    "pgdb.backend.python": (),
    "pgdb.mpi_recorder": (),
    "pgdb.backend.mpi_calls": ("pgdb.jobs", "pgdb.mpi_recorder"),
    "pgdb.backend.zygote": (
        "pgdb.overlay",
        "pgdb.cores",
        "pgdb.jobs",
        "pgdb.backend.sbd",
        "pgdb.backend.care",
        "pgdb.backend.gdb",
    ),
    "pgdb.backend.node": (
        "pgdb.cores",
        "pgdb.merge",
        "pgdb.overlay",
        "pgdb.files",
        "pgdb.jobs",
        "pgdb.backend.rank",
    ),
    "pgdb.backend": ("pgdb.backend.node",),
    "pgdb.frontend": (),
    "pgdb.frontend.discovery": ("pgdb.jobs",),
    "pgdb.frontend.system": (),
    "pgdb.frontend.analysis": ("pgdb.merge", "pgdb.overlay"),
    "pgdb.frontend.store": (
        # Flight records count if they are younger than the ranks.
        "pgdb.jobs",
        "pgdb.merge",
        "pgdb.overlay",
        "pgdb.frontend.system",
        "pgdb.frontend.analysis",
        "pgdb.frontend.api",
    ),
    "pgdb.frontend.api": (
        "pgdb.merge",
        "pgdb.overlay",
        "pgdb.frontend.system",
        "pgdb.frontend.store",
        "pgdb.frontend.analysis",
        "pgdb.frontend.transport",
    ),
    "pgdb.frontend.transport": (
        "pgdb.merge",
        "pgdb.overlay",
        "pgdb.frontend.store",
        "pgdb.frontend.analysis",
    ),
    "pgdb.frontend.mpi_recorder": ("pgdb.overlay", "pgdb.mpi_recorder", "pgdb.frontend.system"),
    "pgdb.frontend.startup": (
        "pgdb.cores",
        "pgdb.frontend.mpi_recorder",
        "pgdb.merge",
        "pgdb.overlay",
        "pgdb.jobs",
        "pgdb.frontend.system",
        "pgdb.frontend.discovery",
        "pgdb.frontend.store",
        "pgdb.frontend.analysis",
        "pgdb.frontend.api",
        "pgdb.frontend.transport",
        "pgdb.frontend.report",
    ),
    "pgdb.frontend.show": (
        "pgdb.merge",
        "pgdb.overlay",
        "pgdb.frontend.system",
        "pgdb.frontend.analysis",
        "pgdb.frontend.api",
    ),
    "pgdb.frontend.report": (
        "pgdb.cores",
        "pgdb.merge",
        "pgdb.overlay",
        "pgdb.jobs",
        "pgdb.frontend.system",
        "pgdb.frontend.discovery",
        "pgdb.frontend.store",
        "pgdb.frontend.analysis",
        "pgdb.frontend.api",
        "pgdb.frontend.show",
    ),
    "pgdb.frontend.commands": (
        "pgdb.merge",
        "pgdb.overlay",
        "pgdb.frontend.system",
        "pgdb.frontend.store",
        "pgdb.frontend.analysis",
        "pgdb.frontend.api",
        "pgdb.frontend.transport",
        "pgdb.frontend.report",
        "pgdb.frontend.show",
    ),
    "pgdb.frontend.run": (
        "pgdb.cores",
        "pgdb.frontend.mpi_recorder",
        "pgdb.jobs",
        "pgdb.overlay",
        "pgdb.frontend.system",
        "pgdb.frontend.api",
        "pgdb.frontend.startup",
        "pgdb.frontend.report",
        "pgdb.frontend.analysis",
        "pgdb.frontend.show",
    ),
    "pgdb.frontend.ui": (
        "pgdb.merge",
        "pgdb.frontend.mpi_recorder",
        "pgdb.overlay",
        "pgdb.frontend.system",
        "pgdb.frontend.discovery",
        "pgdb.frontend.store",
        "pgdb.frontend.analysis",
        "pgdb.frontend.api",
        "pgdb.frontend.transport",
        "pgdb.frontend.startup",
        "pgdb.frontend.report",
        "pgdb.frontend.show",
        "pgdb.frontend.commands",
        "pgdb.frontend.run",
    ),
}
"""A module imports its own folder, ``pgdb`` itself and the folders named here."""

COMPOSITION: dict[str, tuple[str, ...]] = {
    "pgdb.frontend.analysis.rich_display": ("pgdb.frontend.show",),
    "pgdb.backend.node.daemon": ("pgdb.backend.gdb", "pgdb.backend.zygote"),
}
"""Modules that choose implementations, and what they may import beside what their folder may.

The rest of ``pgdb.backend.node`` knows debuggers by ``pgdb.backend.rank.protocol`` only.
"""

SIDES = ("pgdb.frontend", "pgdb.backend")
"""The two sides: neither imports the other, and nothing shared imports either."""

STARTERS = ("pgdb", "pgdb.__main__", "pgdb.aio")
"""Shared by place only: they load the front end (``pgdb`` itself only on first use)."""

PURE = (
    "pgdb.frontend.analysis",
    "pgdb.frontend.show.text",
    "pgdb.frontend.show.json",
    "pgdb.frontend.store.recorder",
    "pgdb.frontend.store.redact",
    "pgdb.frontend.run.causes",
    "pgdb.frontend.run.exit_status",
    "pgdb.frontend.run.options",
    "pgdb.frontend.run.progress",
    "pgdb.frontend.run.run_report",
    "pgdb.frontend.api.job_state",
    "pgdb.merge",
    "pgdb.files.delivery_actions",
    "pgdb.files.delivery_state",
    "pgdb.files.file_state",
    "pgdb.overlay.router",
    "pgdb.overlay.topology",
    "pgdb.ranks",
    "pgdb.records",
)
"""Modules that decide and do no input or output: their tests need no socket and no process."""

INPUT_OUTPUT = {"asyncio", "select", "selectors", "socket", "ssl", "subprocess", "threading"}

THIRD_PARTY: dict[str, tuple[str, ...]] = {
    "capstone": ("pgdb.backend.mpi_calls.instructions",),
    "cryptography": ("pgdb.overlay",),
    # Modules of ours, under the names that GDB's Python has them under.
    "elements_in_gdb": ("pgdb.backend.gdb.cpp_parts_in_gdb", "pgdb.backend.gdb.numbers_in_gdb"),
    "fortran_arrays_in_gdb": (
        "pgdb.backend.gdb.fortran_elements_in_gdb",
        "pgdb.backend.gdb.fortran_objects_in_gdb",
        "pgdb.backend.gdb.fortran_parts_in_gdb",
    ),
    "fortran_descriptors_in_gdb": (
        "pgdb.backend.gdb.fortran_arrays_in_gdb",
        "pgdb.backend.gdb.fortran_elements_in_gdb",
        "pgdb.backend.gdb.fortran_objects_in_gdb",
        "pgdb.backend.gdb.fortran_types_in_gdb",
    ),
    "fortran_types_in_gdb": ("pgdb.backend.gdb.fortran_elements_in_gdb",),
    "fortran_objects_in_gdb": (
        "pgdb.backend.gdb.fortran_elements_in_gdb",
        "pgdb.backend.gdb.fortran_parts_in_gdb",
    ),
    "fortran_parts_in_gdb": ("pgdb.backend.gdb.fortran_elements_in_gdb",),
    "library_printers_in_gdb": ("pgdb.backend.gdb.cpp_parts_in_gdb",),
    "parser_words_in_gdb": ("pgdb.backend.gdb.fortran_elements_in_gdb",),
    "process_in_gdb": (
        "pgdb.backend.gdb.breakpoints_in_gdb",
        "pgdb.backend.gdb.python_hits_in_gdb",
    ),
    "printers_in_gdb": (
        "pgdb.backend.gdb.explore_in_gdb",
        "pgdb.backend.gdb.fortran_arrays_in_gdb",
        "pgdb.backend.gdb.fortran_elements_in_gdb",
        "pgdb.backend.gdb.fortran_objects_in_gdb",
        "pgdb.backend.gdb.library_printers_in_gdb",
        "pgdb.backend.gdb.references_in_gdb",
        "pgdb.backend.gdb.scopes_in_gdb",
    ),
    "gdb": ("pgdb.backend.gdb",),
    "jinja2": ("pgdb.frontend.report.forms.html",),
    "matplotlib": SIDES[:1],
    "mpi4py": ("pgdb.backend.node.wireup", "pgdb.backend.__main__"),
    "msgspec": ("pgdb",),
    "networkx": ("pgdb.frontend.analysis", "pgdb.merge"),
    "numpy": ("pgdb.ranks", "pgdb.merge", *SIDES),
    "prompt_toolkit": (
        "pgdb.frontend.ui.repl",
        "pgdb.frontend.store.history",
        "pgdb.frontend.ui.cli_jobs",
        "pgdb.frontend.ui.interrupts",
        "pgdb.frontend.ui.pager",
        "pgdb.frontend.ui.pane",
        "pgdb.frontend.ui.prompt_keys",
        "pgdb.frontend.ui.screen",
    ),
    "pyroaring": ("pgdb.ranks",),
    "pytest": ("pgdb.frontend.ui.pytest_plugin",),
    "rich": ("pgdb.frontend.show.text.palette",),
    "shtab": ("pgdb.frontend.ui.reference",),
    "ssl": ("pgdb.overlay",),
}
"""Modules, or packages with all that is in them, that may import each third-party module."""

STANDARD_LIBRARY_ONLY = (
    "pgdb.jobs.hold",
    "pgdb.jobs.keeper",
    "pgdb.jobs.output_channels",
    "pgdb.jobs.output_relay",
    "pgdb.jobs.rank_output",
    "pgdb.jobs.rank_watcher",
)
"""Run as files by whatever Python a host has, beside or in place of the user's program."""


OPTIONAL = {"plots": {"matplotlib"}, "completion": {"shtab"}, "pytest": {"pytest"}}
"""Packages that only an extra brings, by extra."""


def folder_of(module: str) -> str | None:
    """Return the folder of the table that holds *module*, or None when it has none."""
    if module in STARTERS:
        return "pgdb"
    parent = module if module in FOLDERS else module.rpartition(".")[0]
    while parent and parent not in FOLDERS:
        parent = parent.rpartition(".")[0]
    if parent in ("pgdb", *SIDES) and module.count(".") > parent.count(".") + 1:
        return None  # a folder below it that the table does not have
    return parent or None


def faults_of_own(module: str, target: str, *, is_lazy: bool) -> Iterator[str]:
    """Yield what is wrong with *module* importing our own *target*."""
    own, other = folder_of(module), folder_of(target)
    if module in STANDARD_LIBRARY_ONLY:
        yield "may import the standard library only"
    if own is None or other is None:
        return  # said of that module itself
    allowed = (own, "pgdb", *FOLDERS[own], *COMPOSITION.get(module, ()))
    if module not in STARTERS and other not in allowed:
        yield f"{own} may not import {other}"
    if target in STARTERS and module not in STARTERS and target != "pgdb":
        yield "nothing imports what starts the front end"
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
        f"{module}: its folder is not in FOLDERS of tests/test_layers.py; give it a row there"
        for module in modules
        if folder_of(module) is None
    ]
    for module, source in modules.items():
        for each in imports_in(source):
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


@pytest.mark.slow
def test_every_import_keeps_the_rules() -> None:
    modules = sources()
    assert len(modules) > 20, "the sources were not found"
    found = faults(modules)
    assert not found, "\n" + "\n".join(found)


def test_every_module_in_the_tables_is_there() -> None:
    modules = sources()
    named = {*FOLDERS, *STARTERS, *PURE, *STANDARD_LIBRARY_ONLY, *SIDES}
    named.update(place for places in THIRD_PARTY.values() for place in places)
    named.update(folder for folders in FOLDERS.values() for folder in folders)
    assert named <= set(modules)


@pytest.mark.slow
def test_every_rule_between_folders_is_used() -> None:
    modules = sources()
    edges = {
        (module, folder_of(target_of(each.name, modules)))
        for module, source in modules.items()
        for each in imports_in(source)
        if is_within(each.name, ("pgdb",))
    }
    used = {
        (folder_of(module), other)
        for module, other in edges
        if other not in COMPOSITION.get(module, ())
    }
    assert {(own, other) for own, others in FOLDERS.items() for other in others} <= used
    assert {(own, other) for own, others in COMPOSITION.items() for other in others} <= edges


@pytest.mark.slow
def test_no_cycle_of_imports() -> None:
    assert cycle_in(sources()) == []


@pytest.mark.slow
def test_mi_commands_stand_in_one_folder() -> None:
    assert mi_commands('ask(f"-stack-list-frames {n}", "a -data-evaluate")') == [
        "-stack-list-frames "
    ]
    assert mi_commands(r'write(b"-gdb-exit\n\xff")') == ["-gdb-exit\n\xff"]
    found = {module: mi_commands(source) for module, source in sources().items()}
    with_commands = {module for module, commands in found.items() if commands}
    assert with_commands
    assert all(is_within(module, ("pgdb.backend.gdb",)) for module in with_commands)


def test_code_for_gdb_stands_in_one_folder() -> None:
    for code in (
        "python exec(",
        "pass\nexcept gdb.error: x",
        "python a_in_gdb.f()",
        "gdb.Value(1)",
    ):
        assert code_for_gdb(f"ask({code!r})") == [code]
    assert not code_for_gdb('"""Code with gdb.execute(x)."""; f("see backend.gdb.mi")')
    assert not code_for_gdb('f("of pgdb.errors", "python print(6 * 7)")')
    found = {module: code_for_gdb(source) for module, source in sources().items()}
    with_code = {module for module, code in found.items() if code}
    assert with_code
    assert {each for each in with_code if not is_within(each, ("pgdb.backend.gdb",))} == set()


def test_table_of_third_parties_is_what_is_installed() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    required = [
        line.split(">=")[0]
        for line in parser["options"]["install_requires"].split("\n")
        if line and not line.startswith("#")
    ]
    # ssl is Python's, gdb and our modules there exist inside GDB only.
    inside = {each for each in THIRD_PARTY if each == "gdb" or each.endswith("_in_gdb")}
    expected = set(THIRD_PARTY) - {"ssl"} - inside - set().union(*OPTIONAL.values())
    assert set(required) == expected
    for extra, packages in OPTIONAL.items():
        lines = parser["options.extras_require"][extra].split()
        assert {line.split(">=")[0] for line in lines} == packages


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "source", "reason"),
    [
        (
            "pgdb.frontend.api.job_state",
            "from pgdb.backend import leaf",
            "only pgdb.backend itself",
        ),
        (
            "pgdb.backend.node.leaf",
            "import pgdb.frontend.show.text.render",
            "only pgdb.frontend itself",
        ),
        (
            "pgdb.frontend.discovery.mpir",
            "from pgdb.frontend.api import job_state",
            "pgdb.frontend.discovery may not import pgdb.frontend.api",
        ),
        (
            "pgdb.merge.classes",
            "from pgdb.overlay.messages import Stop",
            "may not import pgdb.overlay",
        ),
        ("pgdb.ranks", "def f():\n    from pgdb.merge import classes", "pgdb may not import"),
        ("pgdb.ranks", "import pgdb.aio", "nothing imports what starts"),
        (
            "pgdb.frontend.show.text.render",
            "if TYPE_CHECKING:\n    from pgdb.frontend.ui import repl",
            "may not import pgdb.frontend.ui",
        ),
        ("pgdb.overlay.router", "import asyncio", "no input or output"),
        (
            "pgdb.frontend.api.job_state",
            "import prompt_toolkit.history",
            "may import prompt_toolkit",
        ),
        (
            "pgdb.backend.node.leaf",
            "from pgdb.backend.gdb.debugger import GdbDebugger",
            "pgdb.backend.node may not import pgdb.backend.gdb",
        ),
        ("pgdb.backend.rank.protocol", "import pgdb.backend.gdb.mi", "may not import"),
        ("pgdb.backend.node.leaf", "from pyroaring import BitMap", "may import pyroaring"),
        ("pgdb.backend.node.leaf", "def f():\n    import networkx", "may import networkx"),
        ("pgdb.frontend.api.session", "import ssl", "may import ssl"),
        ("pgdb.backend.node.daemon", "from mpi4py import MPI", "may import mpi4py"),
        ("pgdb.jobs.hold", "from pgdb.errors import PgdbError", "standard library only"),
        ("pgdb.jobs.keeper", "import msgspec", "standard library only"),
        ("pgdb.jobs.keeper", "import pgdb", "standard library only"),
        ("pgdb.frontend.discovery.mpir", "import scipy", "not in THIRD_PARTY"),
        ("pgdb.frontend.discovery.mpir", "from . import procfs", "relative import"),
        (
            "pgdb.frontend.discovery.mpir",
            "from backend.node import leaf",
            "write pgdb.backend.node.leaf",
        ),
        ("pgdb", "from pgdb.frontend.api.session import Session", "on first use only"),
        ("pgdb.new.utils", "", "not in FOLDERS"),
    ],
)
def test_checker_finds(module: str, source: str, reason: str) -> None:
    modules = dict.fromkeys(sources(), "")
    found = faults(modules | {module: source})
    assert [line for line in found if line.startswith(module) and reason in line]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pgdb", "def __getattr__(name):\n    from pgdb.frontend.api.session import Session"),
        ("pgdb.__main__", "from pgdb.frontend.ui.main import run"),
        ("pgdb.frontend.api.session", "if TYPE_CHECKING:\n    import networkx"),
        ("pgdb.frontend.startup.overlay", "import pgdb"),
        ("pgdb.backend.node.leaf", "from pgdb.overlay.messages import Request"),
        ("pgdb.frontend.commands.data", "import argparse\nfrom pgdb.frontend.api import session"),
        ("pgdb.overlay.channel", "import ssl, asyncio\nfrom cryptography import x509"),
    ],
)
def test_checker_allows(module: str, source: str) -> None:
    modules = dict.fromkeys(sources(), "")
    assert faults(modules | {module: source}) == []


def test_checker_finds_a_cycle() -> None:
    looped = {"a": "import b", "b": "from c import x", "c": "import a"}
    assert cycle_in(looped) == ["a", "b", "c", "a"]
    assert cycle_in(looped | {"c": "def f():\n    import a"}) == []
