"""Reports in files: the suffix of the name decides the form."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from pgdb.controls import harmless
from pgdb.errors import CommandError, UsageError
from pgdb.frontend.report import comparing
from pgdb.frontend.report.comparing import ReportComparison
from pgdb.frontend.report.model import Report, decode, encode_part
from pgdb.frontend.system.user_files import (
    check_place,
    check_suffix,
    read_regular,
    reason,
    replace_file,
    user_path,
)
from pgdb.frontend.system.workers import with_file

_FORMS = {
    ".txt": "text",
    ".html": "html",
    ".xml": "junit",
    ".sarif": "sarif",
    ".md": "markdown",
}
"""Module of each form, by suffix. Each has a function ``render`` that returns its text."""
SUFFIXES = (".json", *_FORMS)
MOST_BYTES = 256 << 20
"""Largest report that is read, in bytes."""


def render(report: Report | ReportComparison, suffix: str) -> str:
    """Return the text of the form that *suffix* names.

    :raises UsageError: if a comparison has no such form.
    """
    if suffix == ".json":
        return encode_part(report).decode()
    if isinstance(report, ReportComparison) and suffix == ".txt":
        return harmless(comparing.text(report))
    module = importlib.import_module(f"pgdb.frontend.report.forms.{_FORMS[suffix]}")
    if isinstance(report, ReportComparison):
        compared: Callable[[ReportComparison], str] | None = getattr(module, "compared", None)
        if compared is None:
            raise UsageError(f"a comparison of reports has no form {suffix}; .txt is one")
        return compared(report)
    form: Callable[[Report], str] = module.render
    return form(report)


def check_suffix_of(path: Path | str) -> Path:
    """Return the path of a report.

    :raises UsageError: if the suffix names no form.
    """
    target = user_path(path)
    check_suffix(target, SUFFIXES)
    return target


def check(path: Path | str) -> Path:
    """Return the path of a report that can be written.

    :raises UsageError: if the suffix names no form.
    :raises CommandError: if the file cannot be written.
    """
    target = check_suffix_of(path)
    check_place(target)
    return target


async def write(report: Report | ReportComparison, path: Path | str) -> Path:
    """Write a report in the form of the suffix of *path*; return the path.

    :raises UsageError: if the suffix names no form.
    :raises CommandError: if the file cannot be written; an old file stays.
    """
    target = check_suffix_of(path)
    data = render(report, target.suffix).encode("utf-8", "replace")
    await with_file(
        target, lambda: replace_file(target, lambda out: out.write(data)), size_bytes=len(data)
    )
    return target


async def write_all(
    report: Report | ReportComparison, paths: Sequence[Path | str]
) -> tuple[str, tuple[str, ...]]:
    """Write a report to all *paths*, whatever fails.

    Return a text to print and the lines of the errors. The text is the report itself if a path
    could not be written, so that no report is lost, and if there are no paths; else it is empty.
    """
    errors = []
    for path in paths:
        try:
            await write(report, path)
        except CommandError as error:
            errors.append(str(error))
    is_printed = bool(errors) or not paths
    return printed(report) if is_printed else "", tuple(errors)


def printed(report: Report | ReportComparison) -> str:
    """Return the text of a report that is printed, which many people may read in a log.

    It has no environment, which is long, and in which a secret may have an unknown name.
    """
    if isinstance(report, Report) and report.environment is not None:
        count = len(report.environment.variables)
        note = f"{count} variables of the environment: only reports in files have them (-o FILE)"
        report = replace(report, environment=None, notes=(*report.notes, note))
    return render(report, ".txt")


async def read(path: Path | str) -> Report:
    """Return the report in a JSON file.

    :raises CommandError: if it cannot be read, or is no report.
    """
    source = user_path(path)

    def load() -> bytes:
        try:
            return read_regular(source, MOST_BYTES)
        except OSError as error:
            raise CommandError(f"{source}: cannot be read: {reason(error)}") from None

    return decode(await with_file(source, load), str(source))
