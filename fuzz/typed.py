"""Readers of what users type: rank sets, commands, launchers' lines, command lines."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fuzz.common import ALL_RANKS, run_coroutine
from pgdb.errors import CommandError, InternalError, PgdbError, RankSetError, UsageError
from pgdb.frontend.api import gdb_blocks, gdb_commands
from pgdb.frontend.api.interfaces import Interfaces
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.settings_journal import SettingsJournal
from pgdb.frontend.commands import host
from pgdb.frontend.commands.dispatch import Dispatcher, Quit
from pgdb.frontend.commands.table import Call, Outcome
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.store.recorder import Recorder
from pgdb.frontend.system.typed_names import change_directory
from pgdb.frontend.ui.arguments import parse
from pgdb.jobs import launch_lines, launchers
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet


def run_ranks(data: bytes) -> None:
    """Read a rank set as users write it."""
    text = data.decode("utf-8", "replace")
    found = RankSet.parse(text, everything=ALL_RANKS, named={"a": RankSet([1]), "": ALL_RANKS}.get)
    if found.run_count < 5000:
        assert RankSet.parse(str(found)) == found if found else str(found) == ""


TEXT_WORDS = tuple(
    b"0|3|-|..|/|,|!|&|^|all|@a|@|[|]| |0-31/2|16777216|2147483647|99999999999999999999|\n".split(
        b"|"
    )
)


class _Nobody:
    """A stand-in for a session: a job of which no rank answers."""

    def __init__(self) -> None:
        self.set = ALL_RANKS
        self.state = JobState(ALL_RANKS)
        self.sets: dict[str, RankSet] = {}
        ranks = tuple(RankProcess(rank, "node1", 4711 + rank, "/bin/app") for rank in ALL_RANKS)
        self.table = ProcTable(ranks, "nobody")
        self.options = SessionOptions()
        self.interfaces = Interfaces()
        self.settings = SettingsJournal()
        self.recorder = Recorder()

    def named_set(self, name: str) -> RankSet | None:
        return self.sets.get(name) or self.state.named(name)

    def numbered_on(self, text: str) -> str:
        return text

    def subscribe(self, take: object) -> Callable[[], None]:
        return lambda: None

    def has_breakpoints(self, ranks: RankSet, number: int = 0) -> bool:
        return True

    def check_restart(self) -> None:
        raise CommandError("nobody restarts this job")

    def ranks(self, which: str | RankSet) -> _Nobody:
        found = which
        if isinstance(which, str):
            found = RankSet.parse(which, everything=ALL_RANKS, named=self.named_set)
        if unknown := found - ALL_RANKS:
            raise RankSetError(f"no rank {unknown}")
        return self

    def __getitem__(self, which: int) -> _Nobody:
        return self

    def one_call(self, line: str) -> contextlib.AbstractContextManager[None]:
        """Log no call for a script."""
        return contextlib.nullcontext()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _NoCall(name)


class _NoCall:
    """A stand-in for a method of the session, or for a part of it: all use of it is refused."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _NoCall:
        if name.startswith("_"):
            raise AttributeError(name)
        return _NoCall(f"{self._name}.{name}")

    def __iter__(self) -> Iterator[Any]:
        raise CommandError(f"{self._name}: nobody knows")

    # No coroutine: nobody would await that of a method that the session has without `async`.
    def __call__(self, *arguments: object, **options: object) -> Any:
        raise CommandError(f"{self._name}: nobody answers")


class _NoDisplay:
    width = 80

    def error(self, error: PgdbError, command: str) -> None:
        """Re-raise errors that are not the user's."""
        if isinstance(error, InternalError):
            raise AssertionError(f"{command!r}: {error}") from error

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: None


# Without a session they would look for files.
_TOUCHING = frozenset({"decompose", "help", "h"})


def run_commands(data: bytes) -> None:
    """Read typed lines, up to the requests to the ranks."""
    lines = [line for line in data.decode("utf-8", "replace").split("\n") if line.strip()]
    # No input may touch a file: no rank answers, and no line names a file in a folder.
    if any(bad in word for line in lines for word in line.split()[1:] for bad in ("/", "..")):
        return

    async def read() -> None:
        left = iter(lines)

        async def next_line(prompt: str) -> str | None:
            return next(left, None)

        dispatcher = Dispatcher(Workspace(_Nobody()), _NoDisplay(), read_line=next_line)  # type: ignore[arg-type]
        for line in left:
            gdb_blocks.reads_lines(line)
            if gdb_commands.first_word(line) in _TOUCHING:
                dispatcher._call(line, ALL_RANKS) if line.strip()[:1] != "@" else None
                continue
            with contextlib.suppress(Quit):
                await dispatcher.run_line(line)
                await dispatcher.dispatch(line, ALL_RANKS)

    # No input may run a command of the shell.
    with patch.object(host, "_run", _refuse_to_run):
        try:
            run_coroutine(read())
        finally:
            change_directory(None)  # 'cd' of one input must not lead the next one elsewhere


async def _refuse_to_run(call: Call, command: str, given: bytes | None = None) -> Outcome:
    raise CommandError(f"{call.word}: {command!r} is not run ({given!r})")


COMMAND_WORDS = (
    *b"proc |focus |print |p/x |bt |tree |stat |save |compare |assert |expand |break |delete |"
    b"defset a |commands 1\n|end\n|thread apply all |with |--|-o |--by |-n |@1 |0-3 |all |(|)|"
    b"\"|'|$_|==| < |set |show |info |x/4i |frame |up |define f\n|python\n|&|\0|\xc3\xa9|99999999"
    b"99999999999|@bp|\xc2\xb2|ranks |wait |plot |dump |array ".split(b"|"),
    b"9" * 5000,
    b"delete 1-",
)


def run_launch(data: bytes) -> None:
    """Parse a launcher's line, as for each family of launchers whose options are known."""
    words = ["mpirun", *data.decode("utf-8", "replace").split("\n")]
    for family in launch_lines.TABLES:
        launcher = launchers.Launcher(Path("/nonexistent/mpirun"), family, "1")
        list(launch_lines.options_of(launcher, words))
        with contextlib.suppress(UsageError):
            launch_lines.parse_line_of(launcher, words, {})


LAUNCH_WORDS = (
    *b"mpirun\n|-n\n|4\n|-np\n|--\n|:\n|./app\n|--mca\n|a\n|-x\n|-genv\n|A=1\n|--host\n|h:2,h2:3\n"
    b"|-H\n|--map-by\n|ppr:2:node\n|-N4\n|-c|--nodes=1-3\n|-wdir\n|=|-env\n|--ntasks=\n|\xd9\xa3\n|-"
    b"".split(b"|"),
    b"9" * 5000 + b"\n",
)


def run_options(data: bytes) -> None:
    """Read a command line; words that begin with PGDB_ are environment variables."""
    words = data.decode("utf-8", "surrogateescape").replace("\0", "").split("\n")
    variables = [each.partition("=") for each in words if each.startswith("PGDB_")]
    kept, stdin = dict(os.environ), sys.stdin
    try:
        sys.stdin = io.StringIO("4711,node2:812")
        os.environ.update({name: value for name, _, value in variables})
        with contextlib.redirect_stdout(io.StringIO()):
            parse([each for each in words if not each.startswith("PGDB_")])
    except SystemExit as end:  # --help, --version
        assert not end.code
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(kept)


OPTION_WORDS = (
    *b"attach\n|launch\n|replay\n|report-bug\n|jobs\n|doctor\n|-p\n|--pid=1\n|--\n|--ranks\n|0-3\n|"
    b"--timeout\n|-1\n|1e999\n|nan\n|0\n|--sbd-cache-size\n|--grace\n|--pids\n|0:host:1\n|-ex\n|bt\n|"
    b"-x\n|--host\n|--ssh\n|ssh -o 'a\n|--listen\n|999.0.0.1\n|--aggregators\n|2\n|--wire-up\n|"
    b"mpi\n|--gdb\n|--log\n|--help\n|--batch\n|--json\n|--settle\n|mpirun\n|-n\n|PGDB_SSH=ssh 'a\n|"
    b"PGDB_SSH=\n|PGDB_SBD_CACHE=/tmp/%h%\n|=|\xff|\xc2\xb2|-o\n|--output\n|@a\n|4711\n".split(
        b"|"
    ),
    b"9" * 5000,
)
