"""Signs that distinguish the program of a rank from the wrappers that start it.

A wrapper executes the program in its place, or forks a child that does. Most wrappers name the
program in their command line. A program of MPI mentions MPI_Init in its file, or is linked with an
MPI library, which its process has mapped once the dynamic linker is done.
"""

from __future__ import annotations

import mmap
import os
import re
import shlex
from collections.abc import Iterator, Sequence

from pgdb.jobs import procfs
from pgdb.jobs.rank_program import MPI_LIBRARY
from pgdb.patterns import pattern
from pgdb.regular_files import open_regular

# Programs that execute another one in their place or as a child, and do not use MPI themselves.
_WRAPPERS = frozenset(
    """
    env numactl taskset nice ionice stdbuf setsid nohup chrt prlimit setarch linux64 linux32
    hwloc-bind sh bash dash zsh ksh mksh ash busybox time timeout perl tclsh setpriv runuser sudo su
    chroot unshare nsenter bwrap xvfb-run catchsegv script
    """.split()
)
# Only one debugger can trace a process, and valgrind executes the program itself.
_TRACERS = pattern(r"(?:strace|ltrace|gdb|gdbserver|rr|valgrind(?:\.bin)?)\Z")
_VALGRIND = pattern(r"[a-z-]+-(?:amd64|x86|arm64|arm|ppc64le|ppc64be|s390x|riscv64)-linux\Z")
_INTERPRETER = pattern(r"(?:python|pypy|perl|ruby|julia|lua|Rscript|R|tclsh|guile|node)[\d.]*t?\Z")
_WITH_A_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})  # Python's
_SYSTEM = ("/bin/", "/sbin/", "/usr/", "/lib")
_MPI_IN_SCRIPTS = pattern(
    r"\b(?:mpi4py|torch|petsc4py|slepc4py|boost\.mpi|Rmpi|MPI\.jl|MPI_Init)\b"
)
_STARTS_PROGRAMS = pattern(r"\b(?:subprocess|Popen|os\.(?:exec|spawn|posix_spawn|system)|pexpect)")
_IN_PROGRAMS = (pattern(rb"MPI_Init"),)
# Each begins with plain text, which a search finds fast in a large program.
_NAMED_IN_PROGRAMS = (
    pattern(rb"MPI_(?:(?<!\wMPI_)|(?<=PMPI_)(?<!\wPMPI_))[A-Z]"),
    pattern(rb"libmpi"),
    pattern(rb"_mpi\W"),
)
# Names of C library functions that a program imports, or has linked in. system and popen are not
# among them: serial programs use them for chores, and such a program is to stop in main.
_STARTERS = (
    pattern(rb"exec(?<=\0exec)(?:v|ve|vp|vpe|l|lp|le|veat)(?:\0|@)"),
    pattern(rb"fexecve(?<=\0fexecve)(?:\0|@)"),
    pattern(rb"posix_spawn(?<=\0posix_spawn)p?(?:\0|@)"),
)
# Parallel programs without MPI.
_OTHER_PARALLEL = (
    pattern(rb"PMI_Init"),
    pattern(rb"PMI2_Init"),
    pattern(rb"PMIx_Init"),
    pattern(rb"shmem_init"),
    pattern(rb"gasnet"),
    pattern(rb"gaspi_proc_init"),
)
_ELF = b"\x7fELF"
_MOST_OF_SCRIPT_BYTES = 1 << 20
PIECE_BYTES = 1 << 22
"""Size of the pieces in which a program is searched: other threads run between two of them."""
_OVERLAP_BYTES = 64
_MOST_KNOWN = 1024
# Programs that were searched: the file, its version and the marks.
_known: dict[tuple[int, int, int, int, tuple[re.Pattern[bytes], ...]], bool] = {}


class Image:
    """The program that a process executes at the moment."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.path = procfs.executable(pid) or ""
        self.name = os.path.basename(self.path)
        self.words = tuple(procfs.command_line(pid) or ())
        self.script, self.code = _interpreted(pid)

    def is_named(self, program: str) -> bool:
        """Return whether the image, or the script that it interprets, is *program*.

        A path with a slash means this very file if there is one, else its base name.
        """
        base = os.path.basename(program)
        if base == os.path.basename(self.script):
            return "/" not in program or _is_one_file(path_of(self.pid, self.script), program)
        if base != self.name:
            return "/" in program and _is_one_file(f"/proc/{self.pid}/exe", program)
        return "/" not in program or _is_one_file(f"/proc/{self.pid}/exe", program)

    @property
    def is_interpreter(self) -> bool:
        """Whether the image interprets scripts, and may load MPI in their course."""
        return bool(_INTERPRETER.match(self.name))

    @property
    def is_wrapper(self) -> bool:
        """Whether the image is known to start another program, without MPI of its own."""
        return self.name in _WRAPPERS and not self.mentions_mpi

    @property
    def is_tracer(self) -> bool:
        """Whether the image runs programs under its own control, so that GDB cannot follow."""
        return bool(_TRACERS.match(self.name)) or self.is_valgrind

    @property
    def is_valgrind(self) -> bool:
        """Whether the process is a tool of valgrind's, which interprets the program."""
        return bool(_VALGRIND.match(self.name))

    @property
    def is_valgrind_starter(self) -> bool:
        """Whether the image is valgrind's command, which executes a tool in its place."""
        return self.name in ("valgrind", "valgrind.bin")

    @property
    def is_of_system(self) -> bool:
        """Whether the image belongs to the operating system."""
        return self.path.startswith(_SYSTEM)

    @property
    def mentions_mpi(self) -> bool:
        """Whether the file of the image, or its script, mentions MPI's initialisation."""
        if self.script or self.code:
            return bool(_MPI_IN_SCRIPTS.search(self._script_text()))
        return _mentions(f"/proc/{self.pid}/exe", _IN_PROGRAMS)

    @property
    def has_mapped_mpi(self) -> bool:
        """Whether the process has mapped an MPI library."""
        return any(map(MPI_LIBRARY.search, procfs.mapped_files(self.pid)))

    @property
    def may_start_programs(self) -> bool:
        """Whether the image looks like a wrapper that nobody knows."""
        if self.names_mpi_program:
            return True
        is_tool = self.is_of_system or self.is_interpreter
        if is_tool and any("/" in word and _find(self.pid, word) for word in self._named_words()):
            return True
        if self.script or self.is_interpreter:
            return bool(_STARTS_PROGRAMS.search(self._script_text()))
        return self._can_execute

    @property
    def _can_execute(self) -> bool:
        """Whether the file calls functions that execute programs, and is not parallel itself."""
        exe = f"/proc/{self.pid}/exe"
        return _mentions(exe, _STARTERS) and not _mentions(exe, _OTHER_PARALLEL)

    @property
    def may_link_mpi(self) -> bool:
        """Whether the process may have an MPI library once the dynamic linker is done."""
        if self.is_wrapper or self.is_interpreter:
            return False
        return not self.is_of_system or _is_of_mpi(f"/proc/{self.pid}/exe")

    @property
    def names_mpi_program(self) -> bool:
        """Whether the command line names a program that seems to use MPI."""
        return any(_is_of_mpi(_find(self.pid, word)) for word in self._named_words())

    @property
    def title(self) -> str:
        """The image in words, with the script that it interprets."""
        script = os.path.basename(self.script)
        return f"{self.name} running {script}" if script else self.name

    def names(self, program: str) -> bool:
        """Return whether the command line names a program, by its path or base name."""
        base = os.path.basename(program)
        return any(os.path.basename(word) == base for word in self._named_words())

    def _named_words(self) -> Iterator[str]:
        own = os.path.basename(self.script) or None
        for word in self.words[1:]:
            parts = _split(word) if any(each in word for each in " ;&|\n") else (word,)
            for part in parts:
                if part and not part.startswith("-") and os.path.basename(part) != own:
                    yield part

    def _script_text(self) -> str:
        if not self.script or self.script.startswith("-m "):
            return self.code
        try:
            with open_regular(path_of(self.pid, self.script)) as file:
                return file.read(_MOST_OF_SCRIPT_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


def interpreted_script(pid: int) -> str:
    """Return the script that an interpreter runs in *pid*, as its command line names it.

    The result is empty if the process runs no interpreter, or an interpreter without a script.
    """
    return _interpreted(pid)[0]


def _interpreted(pid: int) -> tuple[str, str]:
    """Return the script of an interpreter, and the code on its command line in place of one."""
    if not _INTERPRETER.match(os.path.basename(procfs.executable(pid) or "")):
        return "", ""
    words = iter((procfs.command_line(pid) or ())[1:])
    for word in words:
        if word in _WITH_A_VALUE:
            next(words, None)
        elif re.match(r"-[A-Za-z]*m\Z", word):
            return f"-m {next(words, '')}", ""
        elif re.match(r"-[A-Za-z]*[ce]\Z", word):
            return "", next(words, "")
        elif not word.startswith("-"):
            return word, ""
    return "", ""


def path_of(pid: int, name: str) -> str:
    """Return our path of the file that the process knows by *name*."""
    return f"/proc/{pid}/{'root' if name.startswith('/') else 'cwd/'}{name}"


def _split(text: str) -> Sequence[str]:
    """Return the words of a piece of shell script, as far as that can be read."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return tuple(lexer)
    except ValueError:
        return tuple(text.split())


def _find(pid: int, word: str) -> str:
    """Return our path of the executable file that a process means by *word*, empty if none."""
    if "/" in word:
        return path if _is_executable(path := path_of(pid, word)) else ""
    search = (procfs.environment(pid) or {}).get("PATH", os.defpath)
    for folder in search.split(":"):
        if folder and _is_executable(path := path_of(pid, f"{folder}/{word}")):
            return path
    return ""


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_one_file(path: str, other: str) -> bool:
    """Return whether two paths lead to one file; of a missing file the name counts."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.basename(os.path.realpath(path)) == os.path.basename(other)


def _is_of_mpi(path: str) -> bool:
    """Return whether the file is a program, not a script, that seems to use MPI."""
    return bool(path) and _is_elf(path) and _mentions(path, _NAMED_IN_PROGRAMS)


def _is_elf(path: str) -> bool:
    try:
        with open_regular(path) as file:
            return file.read(len(_ELF)) == _ELF
    except OSError:
        return False


def _mentions(path: str, marks: tuple[re.Pattern[bytes], ...]) -> bool:
    """Return whether a file contains one of *marks*; the ranks of a host share the answer."""
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, marks)
            found = _known.get(key)
            if found is None:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    found = any(_is_in(data, mark) for mark in marks)
                if len(_known) >= _MOST_KNOWN:
                    _known.clear()
                _known[key] = found
            return found
    except (OSError, ValueError):
        return False


def _is_in(data: mmap.mmap, mark: re.Pattern[bytes]) -> bool:
    # The overlap is longer than any match with the characters around it.
    return any(
        mark.search(data, max(0, begin - _OVERLAP_BYTES), begin + PIECE_BYTES) is not None
        for begin in range(0, len(data), PIECE_BYTES)
    )
