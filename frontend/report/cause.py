"""The summary of a report: what happened, where, and to which ranks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pgdb.frontend.analysis.function_names import STARTS, shown_name
from pgdb.frontend.report.model import (
    Cause,
    RankClass,
    ReportFrame,
    ReportStop,
    Verdict,
    parse_ranks,
)
from pgdb.function_names import bare_name
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.source_paths import is_of_python_library, is_of_system

_KINDS = (
    ("sanitizer", pattern(r"sanitizer report|heap-|stack-buffer|use-after")),
    ("assertion", pattern(r"assertion|an assertion")),
    ("exception", pattern(r"uncaught exception|C\+\+ library|pure virtual")),
    ("runtime-error", pattern(r"Fortran|ERROR STOP|STOP|the C library's error")),
    (
        "abort",
        pattern(
            r"MPI_Abort|fatal error|error code|aborting the job|error handling"
            r"|without MPI_Finalize"
        ),
    ),
    ("exit-code", pattern(r"status |exit\(")),
)
"""Kinds of deaths, by the words that the back end has for them."""
_RUNTIME = pattern(r"__(?:a|t|m|l|ub|hwa)san_|__sanitizer_|_{2,}interceptor_")
_RUNTIME_FILE = pattern(r"/(?:libsanitizer|compiler-rt)/")
"""Functions and files of the run-time libraries of sanitizers, which come with lines in Debian."""


def cause_of(
    stops: Sequence[ReportStop],
    classes: Sequence[RankClass],
    verdicts: Sequence[Verdict] = (),
    lost: RankSet = RankSet(),
    everyone: RankSet = RankSet(),
) -> Cause:
    """Return the cause: the first failure, else a verdict, else lost ranks, else none."""
    failed = [each for each in stops if each.is_error]
    first = next((each for each in failed if each.is_first), failed[0] if failed else None)
    if first is not None:
        return _at(_of_stop(first), classes)
    dying = next((each for each in classes if _dying(each)), None)
    if dying is not None:
        words = _dying(dying)
        cause = Cause(
            kind=kind_of(words),
            what=f"{_subject(dying.ranks)} about to die: {words}",
            who=dying.ranks,
        )
        return _at(cause, classes)
    finding = next((each for each in verdicts if each.is_error), None)
    if finding is not None:
        cause = Cause(
            kind="hang",
            what=finding.text,
            who=finding.ranks,
            file=finding.file,
            line=finding.line,
            severity="error" if finding.confidence == "certain" else "warning",
        )
        return cause if cause.line else _at(cause, classes)
    if lost:
        return Cause(kind="lost", what=f"{_subject(str(lost))} lost to the debugger", who=str(lost))
    odd = next((each for each in classes if each.is_odd), None)
    cause = Cause(
        kind="none",
        what="no rank has failed",
        who=odd.ranks if odd is not None else str(everyone),
        severity="note",
    )
    return _at(cause, classes)


def kind_of(words: str) -> str:
    """Return the kind of a death.

    >>> kind_of("assertion 'n > 0' failed"), kind_of("error code 3"), kind_of("")
    ('assertion', 'abort', 'signal')
    >>> kind_of("the C library's error: free(): double free detected in tcache 2")
    'runtime-error'
    """
    return next((kind for kind, expression in _KINDS if expression.search(words)), "signal")


def user_frame(frames: Sequence[ReportFrame]) -> int | None:
    """Return the index of the innermost frame of the user's code that has a line, else of any code;
    None if none has a line."""
    own, others = _with_lines(frames)
    return next(iter(own or others), None)


def own_frame(frames: Sequence[ReportFrame]) -> int | None:
    """Return the index of the innermost frame of the user's code that has a line; None if there is
    none."""
    return next(iter(_with_lines(frames)[0]), None)


def _with_lines(frames: Sequence[ReportFrame]) -> tuple[list[int], list[int]]:
    """Return the indices of the frames with a line: those of the user's code, and all."""
    with_lines = [
        at
        for at, each in enumerate(frames)
        if each.line
        and not STARTS.match(each.function)
        and not _RUNTIME.match(each.function)
        and not _RUNTIME_FILE.search(each.fullname or each.file)
    ]
    # Libraries with debug information and no source directory come as ./time/clock.c.
    own = [at for at in with_lines if not _is_of_library(frames[at])]
    return own, with_lines


def _is_of_library(frame: ReportFrame) -> bool:
    path = frame.fullname
    if frame.language == "python":
        return is_of_python_library(path or frame.file)
    return path[:1] not in ("", "/") or is_of_system(path)


def place_text(frame: ReportFrame) -> str:
    """Return the place of a frame in one line."""
    name = shown_name(bare_name(frame.function))
    if frame.line:
        return f"{name} at {frame.file}:{frame.line}"
    return f"{name} from {frame.library}" if frame.library else name


def _of_stop(stop: ReportStop) -> Cause:
    is_one = len(parse_ranks(stop.ranks)) == 1
    kind, words = "signal", stop.text.partition("\n")[0]
    if stop.reason == "sanitizer-report":
        kind = "sanitizer"
    elif stop.dying:
        kind, words = kind_of(stop.dying), f"{'is' if is_one else 'are'} about to die: {stop.dying}"
    elif stop.has_ended and not stop.signal:
        kind = "exit-code"
    elif stop.signal and not stop.has_ended:
        words = f"received {stop.signal}" + (f", {stop.meaning}" if stop.meaning else "")
    return Cause(
        kind=kind, what=f"{'rank' if is_one else 'ranks'} {stop.ranks} {words}", who=stop.ranks
    )


def _at(cause: Cause, classes: Sequence[RankClass]) -> Cause:
    """Return *cause* with the place of its ranks, if they are in a class."""
    who = parse_ranks(cause.who)
    for each in classes:
        if who and not who.isdisjoint(parse_ranks(each.ranks)) and each.frames:
            at = user_frame(each.frames)
            frame = each.frames[at or 0]
            return with_place(cause, frame)
    return cause


def with_place(cause: Cause, frame: ReportFrame) -> Cause:
    """Return *cause* with the place of a frame."""
    return replace(
        cause, where=place_text(frame), file=frame.fullname or frame.file, line=frame.line
    )


def _dying(each: RankClass) -> str:
    return next((frame.dying for frame in each.frames if frame.dying), "")


def _subject(ranks: str) -> str:
    return f"rank {ranks} is" if len(parse_ranks(ranks)) == 1 else f"ranks {ranks} are"
