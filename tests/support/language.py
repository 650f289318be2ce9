"""The same lines under plain GDB on one rank and under PGDB on several, compared one by one.

A chapter is a file of lines for one program. GDB runs the program as the only rank of a job, PGDB
as rank 0 of several, and both start where every rank is before ``main``. The judgement of a line
is about rank 0: its text under PGDB has to be GDB's text, apart from the marks that
:func:`normal` and :func:`pattern_of` remove.

Format of a chapter::

    program: language.c         the program, in the first line
    # text                      a comment
    break work                  one line of GDB
    if counter > 0              the first line of a block,
      print counter             whose further lines are indented by two columns
      end
    % different: the reason     the judgement of the next line, if it is not "equal"
    info line work
    % different from GDB 18: …  the same, with GDB 18 or later ("before GDB 18": with an older one)
    show version
    % left out from GDB 18: …   no line for these GDBs, which end at it
    frame view 0
    % refused with calls: …     where GDB can call functions of a program ("without calls": cannot)
    print strlen("a")
    % different without libc symbols: …  where the C library has no debug information ("with")
    info locals

``{@end}`` stands for the number of the source line with the comment ``@end``, ``{folder}`` for a
folder in which lines can write files. GDB and PGDB have one each.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pgdb.ranks import RankSet
from tests.support.processes import has_libc_symbols, why_no_calls
from tests.support.programs import Mpi, Program
from tests.support.terminal import environment, run_json

CHAPTERS = Path(__file__).resolve().parents[1] / "live" / "language"
RANKS = 4

Verdict = Literal["equal", "merged", "refused", "different"]

_GDB_TIMEOUT_S = 240.0
_MARK = re.compile(r"@@(\d+)@@")
_SET_UP = (
    "set width 0",
    "set height 0",
    "set confirm off",
    "set style enabled off",
    "set breakpoint pending off",
    "set debuginfod enabled off",
    "set print thread-events off",
)

_LEFT_OUT = "left out"
_JUDGEMENT = re.compile(
    rf"% (refused|different|{_LEFT_OUT})"
    r"(?: (from|before) GDB (\d+))?(?: (with|without) (calls|libc symbols))?: (.+)",
    re.ASCII,
)


@dataclass(frozen=True)
class Line:
    """One line of a chapter, or a block, and the judgement that is expected."""

    number: int
    text: str
    verdict: str = ""
    """``refused``, ``different``, ``left out``; empty for ``equal`` or ``merged``."""
    reason: str = ""


@dataclass(frozen=True)
class Chapter:
    """A file of lines and the program that they are about."""

    name: str
    program: str
    lines: tuple[Line, ...]

    @classmethod
    def read(cls, path: Path, gdb: int) -> Chapter:
        """Read a chapter.

        :param gdb: the major version of the GDB that is to carry it out.
        :raises ValueError: if a judgement is none, or has no reason.
        """
        first, *rest = path.read_text("utf-8").splitlines()
        program = first.removeprefix("program:").strip()
        lines: list[Line] = []
        verdict = reason = ""
        for number, text in enumerate(rest, start=2):
            if text.startswith("  ") and lines:
                last = lines.pop()
                lines.append(Line(last.number, f"{last.text}\n{text[2:]}", *_judgement(last)))
            elif text.startswith("%"):
                if (judgement := _JUDGEMENT.fullmatch(text)) is None:
                    raise ValueError(f"{path.name}:{number}: {text!r} is no judgement")
                said, when, version, has, name, why = judgement.groups()
                is_meant = when is None or (gdb >= int(version)) == (when == "from")
                if is_meant and has is not None:
                    is_there = has_libc_symbols() if name == "libc symbols" else not why_no_calls()
                    is_meant = is_there == (has == "with")
                if is_meant:
                    verdict, reason = said, why
            elif text.strip() and not text.startswith("#"):
                lines.append(Line(number, text, verdict, reason))
                verdict = reason = ""
        return cls(path.stem, program, tuple(each for each in lines if each.verdict != _LEFT_OUT))


def _judgement(line: Line) -> tuple[str, str]:
    return line.verdict, line.reason


@dataclass
class Judged:
    """One line with both texts of rank 0 and the judgement."""

    line: Line
    gdb: str
    pgdb: str
    verdict: Verdict
    shown: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_expected(self) -> bool:
        """Whether the judgement is the one that the chapter names."""
        good = ("equal", "merged")
        return self.verdict in good if not self.line.verdict else self.verdict == self.line.verdict


# -- both debuggers --------------------------------------------------------------------------------


def gdb_version() -> int:
    """Return the major version of the GDB that both debuggers are to use."""
    said = subprocess.run(["gdb", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(?m)^GNU gdb .*?(\d+)\.\d+\S*$", said)
    assert found is not None, said
    return int(found[1])


def with_gdb(mpi: Mpi, program: Program, texts: Sequence[str]) -> list[str]:
    """Return what plain GDB prints for each text, on the only rank of a job."""
    script = [
        *_SET_UP,
        "unset environment LD_PRELOAD",
        'python gdb.Breakpoint("main", internal=True, temporary=True)',
        "run > /dev/null",
        *_marked(texts),
        "kill",
    ]
    line = [
        mpi.launcher,
        "-n",
        "1",
        *mpi.options,
        # Errors stand where they belong only if both streams are one, without a buffer.
        "sh",
        "-c",
        'exec stdbuf -o0 "$1" -nx -q "$0" 2>&1',
        str(program.path),
        # By its path: Open MPI puts its own folder, which may have another GDB, first in PATH.
        shutil.which("gdb") or "gdb",
    ]
    finished = subprocess.run(
        line,
        input="\n".join(script) + "\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment("") | {"LC_ALL": "C", "DEBUGINFOD_URLS": ""},
        text=True,
        errors="replace",
        timeout=_GDB_TIMEOUT_S,
        check=False,
    )
    # GDB writes its prompt before every line that it reads, also inside a block.
    printed = re.sub(r"(?m)^(\(gdb\) | *>)+|\(gdb\) ?$", "", finished.stdout)
    return _parts(printed, len(texts))


def with_pgdb(
    mpi: Mpi, program: Program, texts: Sequence[str], folder: Path, *options: str
) -> list[list[dict[str, Any]]]:
    """Return the JSON objects that PGDB prints for each text, on several ranks."""
    script = folder / "lines.gdb"
    script.write_text("\n".join(_marked(texts)) + "\n", "utf-8")
    finished = run_json(
        "launch", *options, "-x", str(script), *mpi.line(RANKS, program), has_tracebacks=True
    )
    parts: list[list[dict[str, Any]]] = [[] for _ in texts]
    current = -1
    for each in finished.objects:
        found = _MARK.search(each.get("command", "")) if each["type"] == "answer" else None
        if found:
            current = int(found.group(1))
        elif 0 <= current < len(texts):
            parts[current].append(each)
    assert current == len(texts), f"PGDB has ended behind line {current} of {len(texts)}"
    return parts


def _marked(texts: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for number, text in enumerate(texts):
        lines += [f"echo @@{number}@@\\n", text]
    return [*lines, f"echo @@{len(texts)}@@\\n"]


def _parts(printed: str, count: int) -> list[str]:
    found = {int(each.group(1)): each for each in _MARK.finditer(printed)}
    # Nothing equals nothing: lines that neither debugger has reached would count as equal.
    assert count in found, f"GDB has ended behind line {max(found, default=-1)} of {count}"
    parts: list[str] = []
    for number in range(count):
        start = found[number].end() if number in found else len(printed)
        end = found[number + 1].start() if number + 1 in found else len(printed)
        parts.append(printed[start:end].strip("\n").removesuffix("(gdb) "))
    return parts


# -- judgement -------------------------------------------------------------------------------------


def judge(line: Line, gdb: str, shown: list[dict[str, Any]]) -> Judged:
    """Compare the two results of a line."""
    answers = [each for each in shown if each["type"] == "answer"]
    text = "\n".join(filter(None, (_text_of_rank_0(each) for each in shown)))
    is_error = any(
        found["record"]["kind"] == "error" for each in answers for found in each["classes"]
    )
    same = _is_same(gdb, text, is_error=is_error) or _is_same_call(gdb, text, shown)
    if any(each["type"] == "error" for each in shown):
        return Judged(line, gdb, text, "equal" if same else "refused", shown)
    if not same and not _is_same_stop(gdb, answers):
        return Judged(line, gdb, text, "different", shown)
    merged = any(len(each["classes"]) > 1 for each in answers)
    return Judged(line, gdb, text, "merged" if merged else "equal", shown)


def _text_of_rank_0(each: dict[str, Any]) -> str:
    """Return what rank 0 has said in one JSON object."""
    if each["type"] == "answer":
        for found in each["classes"]:
            if 0 in RankSet.parse(found["ranks"]):
                record = found["record"]
                if record["kind"] == "value":
                    return f"{record.get('warnings', '')}\n{record['text']}".lstrip("\n")
                return str(found["text"])
    if each["type"] == "output" and each["stream"] in ("gdb", "pgdb"):
        ranks = each.get("ranks", "")
        if not ranks or 0 in RankSet.parse(ranks):
            return str(each["text"])
    if each["type"] == "error":
        return str(each["message"])
    return ""


_STOPPED_IN_CALL = "The program being debugged stopped while in a function called from GDB"
_DROPPED_LINES = re.compile(
    r"^(Continuing\.|Continuing at .*|Run till exit .*|Starting program: .*|\[New Thread .*"
    r"|\[Switching to thread .*|\[Thread .* exited\]|Using host libthread_db.*"
    r"|\[Thread debugging using .*|Reading symbols .*|Single stepping until .*)$"
)
_CHANGES = (
    # The name of a value in GDB's history, which PGDB does not show.
    (re.compile(r"^\$\d+ = ", re.M), ""),
    (re.compile(r"Value returned is \$\d+ = "), "value returned: "),
    (re.compile(r"^    value returned: ", re.M), "value returned: "),
    (re.compile(r"^error: ", re.M), ""),
    (re.compile(r'Thread \d+ ".*?" hit '), ""),
    (re.compile(r"^(returned to|stopped in) ", re.M), ""),
    # Addresses of places that have a name beside them.
    (re.compile(r"( at )(?:0x[0-9a-f]+|…): "), ": "),
    (re.compile(r"^(#\d+ +)?(0x[0-9a-f]{8,16}|…) in ", re.M), r"\1"),
    (re.compile(r"\((More stack frames follow\.\.\.|more frames follow)\)"), "(more)"),
    (re.compile(r"(?<=, )0x[0-9a-f]{8,16} in "), ""),
    (re.compile(r" <MULTIPLE>"), ""),
    # Values at function entry, which PGDB turns off.
    (re.compile(r"\b(\w+)=\1@entry="), r"\1="),
    # In GDB 18's words all kinds of breakpoints are listed.
    (re.compile(r"(?<=o breakpoint)(s?), watchpoints?, tracepoints?, or catch"), r"\1 or watch"),
    (re.compile(r"^(\d+ .* at \S+:\d+) thread \d+$", re.M), r"\1"),
    (re.compile(r"(?<=also set at pc) (?:0x[0-9a-f]+|…)"), ""),
    (re.compile(r"/(by-gdb|of-all)\b"), ""),
    (re.compile(r"Enb Address +What"), "Enb What"),
    (re.compile(r"(?:(?<= [yn] )|(?<= N\* )) +0x[0-9a-f]{16} "), ""),
)


def normal(text: str) -> str:
    """Remove from a text what the two debuggers are meant to say in different words."""
    for expression, replacement in _CHANGES:
        text = expression.sub(replacement, text)
    lines = (re.sub(r"\s+", " ", each).strip() for each in text.splitlines())
    return "\n".join(each for each in lines if each and not _DROPPED_LINES.match(each))


def pattern_of(text: str) -> re.Pattern[str]:
    """Return the pattern of a text of PGDB: ``…`` stands for text that it has left out.

    An address stands for any address: the program is loaded elsewhere on every rank.
    """
    parts = re.split(r"(…|0x[0-9a-f]{6,16})", normal(text))
    return re.compile(
        "".join(
            ".*?" if part == "…" else "0x[0-9a-f]+" if number % 2 else re.escape(part)
            for number, part in enumerate(parts)
        )
    )


def _is_same(gdb: str, pgdb: str, *, is_error: bool) -> bool:
    expression = pattern_of(pgdb)
    plain = normal(gdb)
    if is_error and normal(pgdb).startswith((f"{plain.rstrip('.')}: ", f"{plain} ")):
        # GDB's error, followed by the way out.
        return bool(plain)
    if "".join(plain.split()) == "".join(normal(pgdb).split()):
        return True
    if expression.fullmatch(plain):
        return True
    # PGDB shows the source line of a stop apart from its text. GDB 18 warns of one without a file.
    source = re.compile(r"(warning: )?\d+ ")
    without = "\n".join(each for each in plain.splitlines() if not source.match(each))
    return bool(without) and expression.fullmatch(without) is not None


def _is_same_call(gdb: str, text: str, shown: Iterable[dict[str, Any]]) -> bool:
    """Return whether both have stopped in a function that the line calls, with the same error.

    GDB's announcement stands before its error; the stop of PGDB is a line of its own.
    """
    announced, found, _ = gdb.partition(_STOPPED_IN_CALL)
    stops = [part for each in shown if each["type"] == "stop" for part in each["classes"]]
    return (
        bool(announced and found)
        and _is_same(gdb[len(announced) :], text, is_error=True)
        and any(
            0 in RankSet.parse(each["ranks"]) and _is_stop_of(announced, each) for each in stops
        )
    )


def _is_same_stop(gdb: str, answers: Iterable[dict[str, Any]]) -> bool:
    """Return whether a stop of PGDB is at GDB's line, of GDB's breakpoint, by GDB's signal."""
    for answer in answers:
        for each in answer["classes"]:
            record = each["record"]
            if 0 in RankSet.parse(each["ranks"]) and record["kind"] == "stop":
                return _is_stop_of(gdb, record)
            if 0 in RankSet.parse(each["ranks"]) and record["kind"] == "exit":
                return "exited" in gdb
    return False


def _is_stop_of(gdb: str, record: dict[str, Any]) -> bool:
    signal = re.search(r"received signal (\w+)", gdb)
    if signal is not None:
        # PGDB selects the user's frame.
        return signal.group(1) == record.get("signal")
    changed = re.search(
        r"(?s)atchpoint (\d+): (.*?)\n\nOld value = (.*?)\nNew value = (.*?)\n", gdb
    )
    if changed is not None:
        number, what, old, new = changed.groups()
        reported = (record.get("breakpoint"), record.get("detail"))
        return reported == (int(number), f"{what}: {old} -> {new}")
    lines = re.findall(r"(?m)^(\d+)\t", gdb) or re.findall(r":(\d+)$", gdb.strip())
    frame = record.get("frame", {})
    if lines and str(frame.get("line", "")) != lines[-1]:
        return False
    hit = re.search(r"reakpoint (\d+), ", gdb)
    return (int(hit.group(1)) if hit else None) == record.get("breakpoint")


def run_chapter(
    chapter: Chapter, mpi: Mpi, program: Program, folder: Path, *options: str
) -> list[Judged]:
    """Run all lines of a chapter under both debuggers."""
    texts = [_with_lines(each.text, program) for each in chapter.lines]
    gdb = with_gdb(mpi, program, _with_folder(texts, folder / "by-gdb"))
    pgdb = with_pgdb(mpi, program, _with_folder(texts, folder / "of-all"), folder, *options)
    return [judge(*each) for each in zip(chapter.lines, gdb, pgdb, strict=True)]


def _with_lines(text: str, program: Program) -> str:
    return re.sub(r"\{(@\w+)\}", lambda found: str(program.line(found.group(1)[1:])), text)


def _with_folder(texts: Iterable[str], folder: Path) -> list[str]:
    """Return the lines with a folder, whose name has the same length for both debuggers."""
    folder.mkdir(exist_ok=True)
    return [each.replace("{folder}", str(folder)) for each in texts]


def report(judged: Sequence[Judged]) -> str:
    """Return the lines that are not as the chapter says, with both texts."""
    parts: list[str] = []
    for each in judged:
        if not each.is_expected:
            expected = each.line.verdict or "equal or merged"
            parts.append(
                f"line {each.line.number}: {each.line.text}\n"
                f"  {each.verdict}; the chapter says {expected}\n"
                f"  GDB:  {_indented(normal(each.gdb))}\n"
                f"  PGDB: {_indented(normal(each.pgdb)) or json.dumps(each.shown)[:400]}"
            )
    return "\n".join(parts)


def _indented(text: str) -> str:
    return text.replace("\n", "\n        ")
