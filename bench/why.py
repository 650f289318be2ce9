"""Score of ``why``: its verdicts on programs with one known fault, and on healthy ones.

``python bench/why.py`` builds the programs of ``tests/why`` with each MPI that is there, at -O0 and
-O2, starts each with four ranks, attaches and asks ``why``. The comment in the first line of a
program is the verdict that is expected, or several with ``or`` between them. ``--random N`` adds N
programs of a generator. ``--share 2/3`` takes every third program, beginning with the second.
``--write`` puts the table into the page of the score. The last line counts the jobs that hang whose
attach ended with a hint to ``why``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pgdb
from pgdb.errors import PgdbError
from pgdb.frontend.analysis.why.explain import Explanation
from pgdb.frontend.analysis.why.hint import hint
from pgdb.frontend.mpi_recorder.library import build as build_recorder
from pgdb.frontend.show.text import why_text
from pgdb.ranks import RankSet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.why_patterns import Pattern, broken
from tests.support.ready_jobs import started

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "why"
PAGE = ROOT / "docs" / "internals" / "why-score.md"
RANKS = 4
_MOST_RANKS = 16
SETTLE_S = 2.0
"""Seconds until a program that does not say when it is ready has come to its place.

Ranks that poll in MPI are at work in /proc before they come to their place, and there.
"""
MOST_BETWEEN_S = 0.2
"""Longest time for which a healthy job runs between two looks."""
LATER_S = 0.3
"""Seconds between the beginning of a program's body and the first question.

A user asks later. No event says that ranks which poll in MPI have come to the place at which they
stay, and to ask until an answer is right would spoil the score.
"""
SUFFIXES = {".c": "C", ".cc": "C++", ".f90": "Fortran", ".py": "mpi4py"}
OUTCOMES = ("right", "wrong", "undecided", "false alarm")
_EXPECTED = re.compile(r"why: (?P<verdicts>.*?)(?: n=(?P<count>\d+))?\s*(?:\*/)?\s*\Z")
_VERDICT = re.compile(
    r"(?P<kinds>[a-z|-]+)(?: ranks=(?P<ranks>[\d,-]*) victims=(?P<victims>[\d,-]*))?\Z"
)


@dataclass(frozen=True)
class Kit:
    """One MPI: its compilers by suffix, and its launcher."""

    name: str
    compilers: dict[str, str]
    launcher: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    """Further options of the compilers."""


@dataclass(frozen=True)
class Expected:
    """A verdict that is right."""

    kinds: tuple[str, ...]
    ranks: str = ""
    victims: str = ""


@dataclass(frozen=True)
class Program:
    """A program to run, with the verdicts of which one is expected."""

    name: str
    language: str
    command: tuple[str, ...]
    expected: tuple[Expected, ...]
    count: int = RANKS
    """Ranks of the job."""
    reports: bool = True
    """Whether each rank makes a file in the folder that WHY_READY names."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of all verdicts that are right."""
        return tuple(kind for each in self.expected for kind in each.kinds)


def kits() -> Iterator[Kit]:
    """Yield the MPIs that are there."""
    root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
    ompi = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    places = {
        "Open MPI 4": ("", ".openmpi", ("--oversubscribe", *root), ompi),
        "MPICH 4": ("", ".mpich", (), {}),
        "Open MPI 5": (os.environ.get("PGDB_TEST_OPENMPI5"), "", ("--oversubscribe", *root), ompi),
        "MPICH 5": (os.environ.get("PGDB_TEST_MPICH"), "", (), {}),
    }
    for name, (folder, suffix, options, environment) in places.items():
        if folder is None:
            continue
        found = {
            each: path
            for each, tool in ((".c", "mpicc"), (".cc", "mpicxx"), (".f90", "mpif90"))
            if (path := shutil.which(f"{tool}{suffix}", path=folder or None))
        }
        launcher = shutil.which(f"mpirun{suffix}", path=folder or None)
        if launcher and ".c" in found:
            yield Kit(name, found, (launcher, *options), environment)
    yield from _intel(os.environ.get("PGDB_TEST_INTEL"), places["MPICH 5"][0])


def _intel(folder: str | None, mpich: str | None) -> Iterator[Kit]:
    """Yield Intel MPI, whose wheel has no compilers; those of MPICH's have the same ABI."""
    launcher = shutil.which("mpiexec.hydra", path=folder) if folder else None
    compiler = shutil.which("mpicc", path=mpich) if mpich else None
    if folder is None or launcher is None or compiler is None:
        return
    library = Path(folder).parent / "lib"
    # Without -ppn its launcher divides the ranks among hosts that there are not.
    options = ("-ppn", str(_MOST_RANKS))
    flags = (f"-L{library}", f"-Wl,-rpath,{library}")
    yield Kit("Intel", {".c": compiler}, (launcher, *options), flags=flags)


def programs(
    kit: Kit, optimisation: str, folder: Path, sources: Path, only: str, share: slice
) -> Iterator[Program]:
    """Build and yield the programs of a folder that *kit* can build."""
    every = [each for each in sorted(sources.iterdir()) if each.suffix in SUFFIXES]
    for source in itertools.islice(every, share.start, None, share.step):
        if not re.search(only, source.stem):
            continue
        text = source.read_text(encoding="utf-8")
        match = _EXPECTED.search(text.split("\n", 1)[0])
        if match is None:
            continue
        if source.suffix == ".py":
            if optimisation != "-O0" or kit.name not in ("Open MPI 4", "MPICH 4"):
                continue
            command: tuple[str, ...] = (*mpi4py_words(kit, folder), sys.executable, str(source))
        else:
            compiler = kit.compilers.get(source.suffix)
            if compiler is None:
                continue
            try:
                command = (str(build(source, compiler, optimisation, folder, kit.flags)),)
            except subprocess.CalledProcessError as error:
                print(f"{kit.name} {optimisation} {source.name}: {error}", flush=True)
                continue
        yield Program(
            source.stem,
            SUFFIXES[source.suffix],
            command,
            tuple(map(_expected, match["verdicts"].split(" or "))),
            int(match["count"] or RANKS),
            any(each in text for each in ("why.h", "why.inc", "why import")),
        )


def mpi4py_words(kit: Kit, folder: Path) -> tuple[str, ...]:
    """Return the words before an interpreter whose mpi4py shall load the library of a kit.

    The wheel loads Debian's Open MPI without them, and knows MPICH by the name of its ABI.
    """
    if not kit.name.startswith("MPICH"):
        return ()
    link = folder / "libmpi.so.12"
    if not link.exists():
        link.symlink_to("/usr/lib/x86_64-linux-gnu/libmpich.so.12")
    return ("env", f"LD_LIBRARY_PATH={folder}", "MPI4PY_MPIABI=mpich")


def _expected(text: str) -> Expected:
    match = _VERDICT.match(text)
    if match is None:
        raise SystemExit(f"no verdict: {text}")
    return Expected(tuple(match["kinds"].split("|")), match["ranks"] or "", match["victims"] or "")


def build(
    source: Path, compiler: str, optimisation: str, folder: Path, flags: tuple[str, ...] = ()
) -> Path:
    """Build one program."""
    binary = folder / source.stem
    options = ["-g", "-w", optimisation, "-pthread"]
    if "omp.h" in source.read_text(encoding="utf-8"):
        options.append("-fopenmp")
    if source.suffix == ".f90":
        options += ["-J", str(folder)]
    subprocess.run([compiler, *options, str(source), "-o", str(binary), "-lm", *flags], check=True)
    return binary


def ask(
    kit: Kit, program: Program, folder: Path, looks: int, recorder: str = ""
) -> tuple[list[Explanation], bool]:
    """Run a program, and ask why *looks* times; *recorder* is the library of the recorder of MPI
    calls, empty for none.

    Return the answers, and whether the attach ended with a hint to ``why``.
    """
    line = [*kit.launcher, "-n", str(program.count), *preloading(recorder), *program.command]
    reporting = program.count if program.reports else 0
    with (
        tempfile.TemporaryDirectory(dir=folder) as ready,
        started(line, reporting, Path(ready), kit.environment, output=subprocess.DEVNULL) as pid,
    ):
        time.sleep(LATER_S if program.reports else SETTLE_S)  # ranks report no block
        found = []
        with pgdb.attach(pid) as session:
            is_hinted = bool(hint(session.start_answer.classes))
            for _ in range(looks):
                found.append(session.why())
                if looks > 1:
                    session.continue_(wait=False)
                    # The looks come at random moments: the length is the experiment.
                    time.sleep(random.random() * MOST_BETWEEN_S)
                    session.interrupt()
        return found, is_hinted


def preloading(recorder: str) -> tuple[str, ...]:
    """Return the words before a program that load the recorder into it."""
    return ("env", f"LD_PRELOAD={recorder}") if recorder else ()


def judge(program: Program, found: Explanation) -> tuple[str, str]:
    """Return the outcome, and the verdict in words."""
    sure = [each for each in found.verdicts if each.confidence != "cannot tell"]
    if program.kinds == ("healthy",):
        # A machine that computes other things too makes a healthy job slow, and not hang.
        sure = [each for each in sure if each.kind != "slow"]
        if sure:
            return "false alarm", f"{sure[0].kind}: {sure[0].text}"
        return "right", ""
    if not found.verdicts:
        return ("right" if "healthy" in program.kinds else "undecided"), found.summary
    first = found.verdicts[0]
    text = f"{first.kind} [{first.ranks}] victims [{first.victims}] ({first.confidence})"
    if not sure or first.kind == "unknown":
        if "unknown" in program.kinds:
            return "right", ""
        return "undecided", text
    right = {(kind, each.ranks, each.victims) for each in program.expected for kind in each.kinds}
    if any((each.kind, str(each.ranks), str(each.victims)) in right for each in sure):
        return "right", ""
    return "wrong", f"{text}: {first.text}"


def random_programs(kit: Kit, folder: Path, count: int, seed: int) -> Iterator[Program]:
    """Yield programs of the generator; they are scripts that one interpreter carries out."""
    binary = build(PROGRAMS / "pattern.c", kit.compilers[".c"], "-O2", folder, kit.flags)
    for number in range(count):
        pattern: Pattern = broken(random.Random(seed + number), RANKS)
        script = folder / f"pattern-{number}.txt"
        script.write_text(pattern.script, encoding="utf-8")
        yield Program(
            f"random-{seed + number} ({pattern.change})",
            "random",
            (str(binary), str(script)),
            (Expected(pattern.kinds, *map(_ranks, (pattern.ranks, pattern.victims))),),
        )


def _ranks(text: str) -> str:
    """Return ranks as verdicts write them: ``0,2-3`` for ``0,2,3``."""
    return str(RankSet.parse(text)) if text else ""


def score(
    arguments: argparse.Namespace, rows: dict[tuple[str, str, str], Counter[str]], hints: list[bool]
) -> None:
    """Run all programs, and count the outcomes in *rows*; *hints* gets the hints of all that
    hang."""
    for kit in kits():
        if not kit.name.startswith(arguments.mpi):
            continue
        if arguments.strip:
            kit = replace(kit, flags=(*kit.flags, "-s"))
        recorder = (
            str(asyncio.run(build_recorder(kit.compilers[".c"]))) if arguments.recorder else ""
        )
        for optimisation in arguments.optimisation or ("-O0", "-O2"):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                chosen = (arguments.programs, arguments.only, arguments.share)
                todo = list(programs(kit, optimisation, folder, *chosen))
                if optimisation == "-O2" or len(arguments.optimisation or ()) == 1:
                    todo += random_programs(kit, folder, arguments.random, arguments.seed)
                for program in todo:
                    if not re.search(arguments.only, program.name):
                        continue
                    is_healthy = program.kinds == ("healthy",)
                    build_name = f"{optimisation} -s" if arguments.strip else optimisation
                    row = rows.setdefault((kit.name, build_name, program.language), Counter())
                    try:
                        looks = arguments.looks if is_healthy else 1
                        answers, is_hinted = ask(kit, program, folder, looks, recorder)
                    except (PgdbError, OSError, AssertionError) as error:
                        row["not run"] += 1
                        print(f"{kit.name} {optimisation} {program.name}: {error}", flush=True)
                        continue
                    if "healthy" not in program.kinds:
                        hints.append(is_hinted)
                        if not is_hinted:
                            line = f"{kit.name} {optimisation} {program.name}: no hint"
                            print(line, flush=True)
                    for answer in answers:
                        outcome, text = judge(program, answer)
                        if arguments.text:
                            print(f"--- {program.name}: {outcome}")
                            print(why_text.text(answer, RankSet(range(program.count))))
                        row[outcome] += 1
                        if outcome != "right":
                            line = f"{kit.name} {optimisation} {program.name}: {outcome}: {text}"
                            print(line, flush=True)


def share_of(text: str) -> slice:
    """Return the programs of a share, such as ``2/3``."""
    first, _, step = text.partition("/")
    return slice(int(first) - 1, None, int(step))


def main() -> None:
    """Print the score, and each answer that is not right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpi", default="", help="only the MPIs whose names begin so")
    parser.add_argument(
        "--optimisation", action="append", choices=("-O0", "-O2"), help="as --optimisation=-O2"
    )
    parser.add_argument("--programs", type=Path, default=PROGRAMS, help="folder of the programs")
    parser.add_argument("--text", action="store_true", help="print each answer")
    parser.add_argument("--only", default="", help="only programs whose names match")
    parser.add_argument("--share", type=share_of, default="1/1", help="as 2/3: every third program")
    parser.add_argument("--looks", type=int, default=3, help="looks at each healthy program")
    parser.add_argument("--random", type=int, default=0, help="programs of the generator")
    parser.add_argument("--recorder", action="store_true", help="with the recorder of MPI calls")
    parser.add_argument("--strip", action="store_true", help="programs without symbols")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write the page of the score")
    arguments = parser.parse_args()
    rows: dict[tuple[str, str, str], Counter[str]] = {}
    hints: list[bool] = []
    # Ctrl-C ends the run with the score so far.
    with contextlib.suppress(KeyboardInterrupt):
        score(arguments, rows, hints)
    table = "\n".join(lines_of(rows, "on" if arguments.recorder else "off"))
    print(table)
    print(f"hints: {sum(hints)} of {len(hints)} jobs that hang")
    if arguments.write:
        head, _, _ = PAGE.read_text(encoding="utf-8").partition("| MPI |")
        PAGE.write_text(f"{head}{table}\n", encoding="utf-8")


def lines_of(rows: dict[tuple[str, str, str], Counter[str]], recorder: str) -> Iterator[str]:
    """Yield the table of the score."""
    yield f"| MPI | build | recorder | language | {' | '.join(OUTCOMES)} |"
    yield f"|{'---|' * (4 + len(OUTCOMES))}"
    total: Counter[str] = Counter()
    for (mpi, optimisation, language), counts in rows.items():
        total += counts
        cells = " | ".join(str(counts[each]) for each in OUTCOMES)
        yield f"| {mpi} | {optimisation} | {recorder} | {language} | {cells} |"
    yield f"| all | | | | {' | '.join(str(total[each]) for each in OUTCOMES)} |"


if __name__ == "__main__":
    main()
