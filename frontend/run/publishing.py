"""Reports of a run in files, and the lines that the user sees on standard error."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

from pgdb.errors import CommandError
from pgdb.frontend.report import writing
from pgdb.frontend.report.model import Report
from pgdb.frontend.run.options import RunOptions


class Publisher:
    """Writer of the reports of one run."""

    def __init__(self, options: RunOptions) -> None:
        self._paths = options.outputs
        self._quiet = options.quiet
        self._alone = asyncio.Lock()
        self._unwritten = ""
        """The text of the last report, if a file of it could not be written."""
        self._errors: tuple[str, ...] = ()
        """Files that could not be written, with the reason."""

    async def check(self) -> None:
        """Warn of reports that cannot be written; they are printed in place of that.

        :raises UsageError: if a suffix names no form.
        """
        for each in self._paths:
            try:
                await asyncio.to_thread(writing.check, each)
            except CommandError as error:
                self.say(f"{error}; the report will be printed")

    async def write(self, report: Report, number: int = 0) -> None:
        """Write a report to all files of the options; *number* is that of a snapshot.

        A snapshot without a file is printed.
        """
        if self._paths:
            paths = [numbered(each, number) for each in self._paths]
            async with self._alone:
                text, errors = await writing.write_all(report, paths)
            self._unwritten, self._errors = text, errors
        if number and (self._unwritten or not self._paths):
            self._print(self._unwritten or writing.printed(report))

    def conclude(self, report: Report, *, is_event: bool) -> None:
        """Print the last report where it is in no file, else its summary if there was an event."""
        if self._unwritten:
            for each in self._errors:
                self.say(f"{each}; the report is printed")
            self._print(self._unwritten)
        elif is_event and not self._paths:
            self._print(writing.printed(report))
        elif is_event:
            cause = report.cause
            self.say(f"what: {cause.what}")
            self.say(f"where: {cause.where or 'not known'}")
            self.say(f"who: {cause.who or 'not known'}; report: {', '.join(self._paths)}")

    def say(self, text: str) -> None:
        """Print a line."""
        self._print(f"pgdb: {text}\n")

    def _print(self, text: str) -> None:
        if self._quiet:
            return
        # The exit status and the files count where nobody can read this.
        with contextlib.suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


def numbered(path: str, number: int) -> str:
    """Return the path of a snapshot.

    >>> numbered("out/run.html", 3), numbered("run.txt", 0)
    ('out/run.3.html', 'run.txt')
    """
    if not number:
        return path
    root, suffix = os.path.splitext(path)
    return f"{root}.{number}{suffix}"
