"""Command lines of MPI launchers: find the programs in them, and have their ranks held.

All knowledge about the options of mpirun, mpiexec and srun is here and in
:mod:`pgdb.jobs.launcher_options`. PGDB runs a line only after it has found the program in it; it
reports any doubt to the user.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from pgdb.errors import StartError, UsageError
from pgdb.jobs import launcher_options
from pgdb.jobs.launcher_options import OptionTable, ReadOption
from pgdb.jobs.launchers import Family, Launcher, find_launcher, why_not_runnable
from pgdb.patterns import pattern

_RANK_COUNT = pattern(r"0*[1-9][0-9]{0,9}\Z")

TABLES = {
    Family.OPEN_MPI_4: launcher_options.OPEN_MPI_4,
    Family.OPEN_MPI_5: launcher_options.OPEN_MPI_5,
    Family.MPICH: launcher_options.MPICH,
    Family.INTEL: launcher_options.INTEL,
    Family.SLURM: launcher_options.SLURM,
}
_LOOKS_IN_DIRECTORY = frozenset({Family.OPEN_MPI_4, Family.OPEN_MPI_5, Family.SLURM})


class Program(msgspec.Struct, frozen=True):
    """One program in a launcher's line."""

    index: int
    """Index of its word in the line."""
    word: str
    arguments: tuple[str, ...]
    separated: bool = False
    """Whether ``--`` stands directly before it."""
    directory: str = ""
    """Working directory from the line, relative to ours; empty for ours."""
    search_path: str = ""
    """Directories from the line in which it is looked up, in place of PATH."""
    looks_in_directory: bool = False
    """Whether its launcher also finds a name without a slash in the working directory."""


_AGENTS = {
    Family.OPEN_MPI_4: ("--mca", "orte_fork_agent"),
    Family.OPEN_MPI_5: ("--prtemca", "odls_base_exec_agent"),
}
"""Option that names the program with which the launcher's daemons start all ranks."""


class LaunchLine(msgspec.Struct, frozen=True):
    """A parsed command line of a launcher."""

    launcher: Launcher
    argv: tuple[str, ...]
    programs: tuple[Program, ...]
    """One program for each part between ``:``, at least one."""
    doubts: tuple[str, ...]
    """Guesses of the parser, in sentences for the user."""
    rank_count: int | None
    """Number of ranks, None if the line does not give it."""
    on_this_host_only: bool
    """Whether neither the line nor an allocation can place ranks on another host."""

    def held(self, prefix: Sequence[str]) -> tuple[str, ...]:
        """Return the line with *prefix* before every program, and without our ``--``.

        The first word of *prefix* should be an absolute path: ``-path`` of Open MPI 5 hides PATH. A
        program that only the launcher would find becomes a path, since *prefix* looks it up in PATH
        alone.
        """
        line = list(self.argv)
        for program in reversed(self.programs):
            start = program.index - 1 if program.separated else program.index
            line[start : program.index + 1] = [*prefix, _word_for_execvp(program)]
        return tuple(line)

    def held_by_agent(self, prefix: Sequence[str]) -> tuple[str, ...]:
        """Return the line whose daemons start every rank with *prefix* before its program, those
        of MPI_Comm_spawn too; empty if the launcher has no such option.

        Open MPI 4.1.4 and 5.0.11 do. MPICH's and Intel's hydra have none: their proxies execute the
        program themselves (MPICH 5.0.2, Intel MPI 2021.18).
        """
        option = _AGENTS.get(self.launcher.family)
        # The daemon divides the text at blanks.
        if option is None or len(" ".join(prefix).split()) != len(prefix):
            return ()
        line = list(self.argv)
        for program in reversed(self.programs):
            start = program.index - 1 if program.separated else program.index
            line[start : program.index + 1] = [_word_for_execvp(program)]
        return (line[0], *option, " ".join(prefix), *line[1:])


class _Part(msgspec.Struct, frozen=True):
    """One part of a line, between ``:``."""

    program: Program
    rank_count: int | None
    may_leave_host: bool
    doubts: tuple[str, ...]


def given_words(given: Sequence[object], name: str = "launch line") -> tuple[str, ...]:
    """Return the words of a line that a script has given; errors call the line *name*.

    :raises UsageError: if they are one text, or a word is neither a text nor a path.
    """
    if isinstance(given, str | bytes):
        raise UsageError(
            f"the {name} {given!r} is one text; write a list of words, for example "
            "['mpirun', '-n', '4', './app']"
        )
    words: list[str] = []
    for each in given:
        word = os.fspath(each) if isinstance(each, os.PathLike) else each
        if not isinstance(word, str):
            text = os.fsdecode(word) if isinstance(word, bytes) else str(word)
            kind = type(word).__name__
            raise UsageError(f"the {name} has {word!r} of type {kind}; write the text {text!r}")
        words.append(word)
    return tuple(words)


def parse_launch_line(
    argv: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> LaunchLine:
    """Parse the launcher's command line *argv*.

    *environment* (default: our own) shows whether we are inside an allocation of hosts.

    :raises StartError: if ``argv[0]`` is not a launcher.
    :raises UsageError: if the line is empty or has no program, an option lacks its argument, the
        number
        of ranks is not a number, or the programs are in a file.
    """
    if not argv:
        raise UsageError("the launch line is empty; write for example mpirun -n 4 ./app")
    if environment is None:
        environment = os.environ
    return parse_line_of(find_launcher(argv[0]), argv, environment)


def parse_line_of(
    launcher: Launcher, argv: Sequence[str], environment: Mapping[str, str]
) -> LaunchLine:
    """Parse a line of *launcher*, see :func:`parse_launch_line`.

    :raises UsageError: as that function does.
    """
    ends = [index for index, word in enumerate(argv) if word == ":"] + [len(argv)]
    parts = []
    start = 1
    for end in ends:
        parts.append(_parse_part(launcher, argv[:end], start))
        start = end + 1
    counts = [part.rank_count for part in parts]
    return LaunchLine(
        launcher=launcher,
        argv=tuple(argv),
        programs=tuple(part.program for part in parts),
        doubts=tuple(doubt for part in parts for doubt in part.doubts),
        rank_count=None if None in counts else sum(count or 0 for count in counts),
        on_this_host_only=not any(part.may_leave_host for part in parts)
        and _is_alone(launcher.family, environment),
    )


def _parse_part(launcher: Launcher, words: Sequence[str], start: int) -> _Part:
    """Read ``words[start:]``; *words* ends with this part of the line."""
    table = TABLES[launcher.family]
    seen: list[ReadOption] = []
    doubts: list[str] = []
    at = start
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        read = _read_checked(launcher, table, words, at)
        if read[0].name:
            seen.extend(read)
            at = read[-1].end
            continue
        at, doubt = _after_unknown(launcher, seen, words, at)
        doubts.extend(doubt)
    separated = at < len(words) and words[at] == "--"
    if separated:
        at += 1
    if at >= len(words):
        after = " ".join(words[start - 1 :]) if start > 1 else words[0]
        raise UsageError(f"no program follows {after!r}; write for example mpirun -n 4 ./app")
    counts = [_rank_count(option) for option in seen if option.name in table.count]
    return _Part(
        program=_program(launcher, seen, words, at, separated=separated),
        rank_count=counts[-1] if counts else None,
        may_leave_host=any(_may_leave_host(option, table) for option in seen),
        doubts=tuple(doubts),
    )


def options_of(
    launcher: Launcher, argv: Sequence[str]
) -> Iterator[tuple[ReadOption, Sequence[str]]]:
    """Yield the options before the first program of a running launcher's line, with their words.

    The iterator ends at the first word that it does not understand.
    """
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] not in ("-", "--"):
        try:
            read = launcher_options.read_option(TABLES[launcher.family], argv, at)
        except UsageError:
            return
        if not read[0].name:
            return
        yield read[-1], argv[at : read[-1].end]
        at = read[-1].end


def _read_checked(
    launcher: Launcher, table: OptionTable, words: Sequence[str], at: int
) -> list[ReadOption]:
    """Read one option word; refuse options that read programs from a file."""
    read = launcher_options.read_option(table, words, at)
    if any(option.name in table.program_files for option in read):
        way_out = (
            "start the job as always and attach to it by the pid of srun"
            if launcher.family is Family.SLURM
            else "write the programs in the line, as in mpirun -n 2 ./a : -n 2 ./b"
        )
        raise UsageError(
            f"{words[at]} takes the programs from a file, which PGDB cannot launch; {way_out}"
        )
    return read


def _after_unknown(
    launcher: Launcher, seen: Sequence[ReadOption], words: Sequence[str], at: int
) -> tuple[int, tuple[str, ...]]:
    """Return the index after the unknown option ``words[at]``, and the doubts about it."""
    word = words[at]
    following = at + 1
    if "=" in word or following >= len(words) or words[following].startswith("-"):
        return following, ()
    # A program may have a "--" among its own arguments; a program follows ours.
    for index in range(following, len(words) - 1):
        if words[index] == "--" and _runs(_program(launcher, seen, words, index + 1)):
            return index, ()
    candidate = _program(launcher, seen, words, following)
    unknown = f"{word} is not an option PGDB knows; put -- before the program to settle it"
    if _runs(candidate) or following + 1 == len(words):
        return following, (f"took {words[following]!r} for the program because {unknown}",)
    return following + 1, (f"took {words[following]!r} for the argument of {word}: {unknown}",)


def _program(
    launcher: Launcher,
    seen: Sequence[ReadOption],
    words: Sequence[str],
    at: int,
    *,
    separated: bool = False,
) -> Program:
    table = TABLES[launcher.family]
    values = {option.name: option.value or "" for option in seen}
    return Program(
        index=at,
        word=words[at],
        arguments=tuple(words[at + 1 :]),
        separated=separated,
        directory=next((values[name] for name in table.directory if name in values), ""),
        search_path=next((values[name] for name in table.search_path if name in values), ""),
        looks_in_directory=launcher.family in _LOOKS_IN_DIRECTORY,
    )


def _rank_count(option: ReadOption) -> int:
    text = option.value or ""
    if not _RANK_COUNT.match(text):
        dashes = "-" if len(option.name) == 1 else "--"
        raise UsageError(
            f"{text!r} is no number of ranks; write for example {dashes}{option.name} 4"
        )
    return int(text)


def _may_leave_host(option: ReadOption, table: OptionTable) -> bool:
    value = option.value or ""
    if option.name in table.hosts:
        names = {entry.partition(":")[0] for entry in value.split(",")}
        here = socket.gethostname()
        return not names <= {"localhost", "127.0.0.1", here, here.partition(".")[0]}
    if option.name in ("mca", "gmca", "prtemca", "map-by"):
        return any(each in value for each in ("hostfile", "rankfile", "rank_file", "seq"))
    if option.name == "nodes":
        return value != "1"
    return option.name in table.elsewhere


def _is_alone(family: Family, environment: Mapping[str, str]) -> bool:
    """Return whether a launcher of *family* can place ranks on this host only."""
    if "SLURM_JOB_ID" in environment:
        here = socket.gethostname().partition(".")[0]
        nodes = environment.get("SLURM_JOB_NODELIST", "")
        node = environment.get("SLURMD_NODENAME", here)
        return environment.get("SLURM_JOB_NUM_NODES") == "1" and nodes in ("", node)
    if family in (Family.SLURM, Family.OTHER, Family.TORCHRUN):
        return False
    allocations = ("PBS_NODEFILE", "LSB_MCPU_HOSTS", "PE_HOSTFILE", "COBALT_NODEFILE")
    host_files = {
        Family.OPEN_MPI_4: ("OMPI_MCA_orte_default_hostfile", "OMPI_MCA_orte_rankfile"),
        Family.OPEN_MPI_5: ("PRTE_MCA_prte_default_hostfile",),
        Family.MPICH: ("HYDRA_HOST_FILE",),
        Family.INTEL: ("I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_HOSTS_GROUP"),
    }[family]
    return not any(environment.get(name) for name in (*allocations, *host_files))


def _runs(program: Program) -> bool:
    found = _find(program, os.environ.get("PATH", os.defpath))
    return found is not None and os.path.isfile(found) and os.access(found, os.X_OK)


def _find(program: Program, path_env: str) -> Path | None:
    """Return the path at which the launcher would look for *program*, executable or not."""
    directory = Path(program.directory)
    if "/" in program.word:
        return directory / program.word
    if found := shutil.which(program.word, path=program.search_path or path_env):
        return Path(found)
    # Tried with Open MPI 4.1.4 and 5.0.11 and srun 22.05: PATH first, then the ranks' working
    # directory. hydra looks in PATH only.
    beside = directory / program.word
    return beside if program.looks_in_directory and os.path.isfile(beside) else None


def _word_for_execvp(program: Program) -> str:
    if "/" in program.word:
        return program.word
    path_env = os.environ.get("PATH", os.defpath)
    found = _find(program, path_env)
    if found is None:
        return program.word
    if program.search_path:
        return str(found.absolute())
    in_path = shutil.which(program.word, path=path_env) is not None
    return program.word if in_path else f"./{program.word}"


def check_program(program: Program, path_env: str) -> Path:
    """Return the file that *program* names, by its path or through *path_env* (PATH).

    Call it before anything is started: launchers report a missing program late and at length.

    :raises StartError: if it does not exist, is a directory or must not be executed.
    """
    if program.directory and not Path(program.directory).is_dir():
        raise StartError(f"the working directory {program.directory!r} does not exist")
    found = _find(program, path_env)
    if found is not None and os.path.isfile(found) and os.access(found, os.X_OK):
        return Path(os.path.abspath(found))
    if found is None and (Path(program.directory) / program.word).is_file():
        raise StartError(
            f"{program.word!r} is not in PATH; for the one here write ./{program.word}"
        )
    if found is None and program.search_path:
        raise StartError(f"{program.word!r} is not in {program.search_path!r}, as -path says")
    where = f" in {program.directory!r}" if program.directory else ""
    raise StartError(why_not_runnable(program.word, found or Path(program.word), where))
