"""The log of a session (``--log``): JSON lines with the time of each request and its result.

The log is for bug reports: it contains nothing that :mod:`pgdb.frontend.store.redact` removes,
unless the user asks for values. Each line is written at once, so that the last line shows the last
action, however the front end ends. If a line cannot be written, the log ends and the session
continues.
"""

from __future__ import annotations

import fcntl
import functools
import json
import logging
import os
import platform
import shutil
import stat
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from pgdb.controls import harmless_json
from pgdb.errors import PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import (
    JobEnded,
    JobOutput,
    LateAnswer,
    Notification,
    RankEvents,
    RanksBack,
    RanksLost,
    SessionNotice,
    Starting,
    WorldJoined,
)
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.store.redact import Redactor, private_words
from pgdb.frontend.system.user_files import reason, user_path
from pgdb.overlay.messages import AnyOperation, Hello
from pgdb.ranks import RankSet
from pgdb.records import Progress
from pgdb.regular_files import open_regular
from pgdb.version import __version__

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

P = ParamSpec("P")
FORMAT = "pgdb-log"
VERSION = 1
MAX_BYTES = 8 << 20
"""Maximum size of one file, in bytes; the previous file is kept as FILE.1."""
_MAX_FIRST_LINE = 4096
_LOGGERS = ("pgdb", "asyncio")


def _harmless(method: Callable[Concatenate[SessionLog, P], None]) -> Callable[..., None]:
    """Wrap a method, so that its failure ends the log but not the session."""

    @functools.wraps(method)
    def guarded(log: SessionLog, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(log, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  # reported; it cannot be logged
            log.give_up(f"{method.__name__}: {type(error).__name__}: {error}")

    return guarded


class SessionLog:
    """A log file."""

    def __init__(
        self,
        path: Path,
        redactor: Redactor,
        *,
        on_failure: Callable[[str], None],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Begin a log; an existing log becomes FILE.1.

        *on_failure* is called once, when a line cannot be written.

        :raises UsageError: if the log cannot be created, or if another file has its name.
        """
        self._path = path
        self._redactor = redactor
        self.on_failure = on_failure
        self._max_bytes = max_bytes
        self._begun_s = time.monotonic()
        self._size_bytes = 0
        self._handler: _Handler | None = None
        self._has_failed = False
        try:
            self._descriptor: int | None = _open(path)
        except OSError as error:
            raise UsageError(f"--log {path}: {reason(error)}") from None
        self._head(0)

    @property
    def keeps_values(self) -> bool:
        """Whether the log contains values of the program."""
        return self._redactor.keeps_values

    # -- what is logged ----------------------------------------------------------------------

    @_harmless
    def options(self, mode: str, options: SessionOptions) -> None:
        """Log the start of a session: all options without their default value."""
        changed: dict[str, Any] = {}
        for each in fields(options):
            value = getattr(options, each.name)
            if value == each.default:
                continue
            if each.name in ("ssh", "overlay_launcher"):
                value = self._redactor.line(value)
            elif each.name in ("log", "record"):
                value = "given"
            elif isinstance(value, tuple):
                value = list(map(self._redactor.command, value))
            elif not isinstance(value, bool | int | float):
                value = self._redactor.text(str(value))
            changed[each.name] = value
        self.write("options", mode=mode, options=changed)

    @_harmless
    def step(self, text: str) -> None:
        """Log a step of the start."""
        self.write("step", text=self._redactor.text(text))

    @_harmless
    def started(
        self,
        session: Session,
        *,
        nodes: Mapping[int, Hello] = MappingProxyType({}),
        failed: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Log a session that has started, its aggregators, and the hosts that *failed*."""
        program, *arguments = session.description.split() or [""]
        if session.mode == "attach":
            # The names of the program's files contain its name.
            programs = {Path(process.executable).name for process in session.table.processes}

            def is_program(word: str) -> bool:
                # The program may be a symbolic link; "python3" usually is one.
                led_to = os.path.realpath(shutil.which(word) or word)
                return not programs.isdisjoint((Path(word).name, Path(led_to).name))

            self._redactor.hide(private_words((program, *arguments), is_program))
        self.write(
            "started",
            job=self._redactor.line((program, *arguments)),
            gdb=session.gdb_version,
            mpi=session.mpi_version,
            found=self._redactor.text(session.table.source),
            hosts={host: str(ranks) for host, ranks in session.hosts.items()},
            aggregators=[
                {"node": node, "host": hello.host, "pid": hello.pid, "release": hello.release}
                for node, hello in sorted(nodes.items())
            ],
            without_aggregators={host: self._redactor.text(why) for host, why in failed.items()},
        )
        if session.start_answer is not None:
            self.answer(session.start_answer)

    def failed(self, error: BaseException) -> None:
        """Log the error that ended a session or its start; for a bug, with its place."""
        text = str(error)
        if isinstance(error, Exception) and not isinstance(error, PgdbError):
            text = "".join(traceback.format_exception(error))
        self.write("failed", error=type(error).__name__, text=self._redactor.text(text))

    @_harmless
    def request(self, number: int, operation: AnyOperation, ranks: RankSet) -> None:
        """Log a request."""
        described = self._redactor.operation(operation)
        self.write("request", request=number, ranks=self._ranks(ranks), **described)

    @_harmless
    def answer(self, answer: Answer) -> None:
        """Log an answer."""
        self.write(
            "answer",
            request=answer.request_id,
            elapsed_s=round(answer.elapsed_s, 6),
            classes=self._redactor.classes(answer.classes),
            missing={
                name: self._ranks(ranks)
                for name in ("late", "lost", "running")
                if (ranks := getattr(answer.missing, name))
            },
        )

    @_harmless
    def notify(self, notification: Notification) -> None:
        """Log a notification."""
        more: dict[str, Any] = {}
        match notification:
            case JobOutput(stream=stream, data=data):
                more = {"stream": stream, "bytes": len(data)}
            case RankEvents(classes=events):
                classes = [each for each in events if not isinstance(each.record, Progress)]
                if events and not classes:
                    return
                if classes:
                    more["classes"] = self._redactor.classes(classes)
            case LateAnswer(answer=answer):
                more["request"] = answer.request_id
                more["classes"] = self._redactor.classes(answer.classes)
            case RanksLost(ranks=ranks, text=text) | RanksBack(ranks=ranks, text=text):
                if ranks:
                    more["ranks"] = self._ranks(ranks)
                if text:
                    more["text"] = self._redactor.text(text)
            case WorldJoined(world=world):
                more = {"world": world.number, "ranks": self._ranks(world.ranks)}
            case Starting(text=text) | SessionNotice(text=text):
                if text:
                    more["text"] = self._redactor.text(text)
            case JobEnded(code=code):
                more["code"] = code
        self.write("notification", kind=notification.kind, **more)

    @_harmless
    def record(self, record: logging.LogRecord) -> None:
        """Log a message of PGDB's own code, with the traceback of a bug."""
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.write(
            "log",
            level=record.levelname,
            by=record.name,
            text=self._redactor.text(text),
        )

    def listen(self) -> None:
        """Log messages of PGDB's own code from now on."""
        if self._handler is None:
            self._handler = _Handler(self)
            for name in _LOGGERS:
                logging.getLogger(name).addHandler(self._handler)

    def close(self) -> None:
        """End the log."""
        self.write("end")
        self._end()

    async def end(self) -> None:
        """End the log when the session closes."""
        self.close()

    # -- the file ----------------------------------------------------------------------------

    def write(self, event: str, /, **values: Any) -> None:
        """Write one line; a failure ends the log and calls *on_failure*."""
        if self._descriptor is None:
            return
        line = {
            "time": round(time.time(), 6),
            "at_s": round(time.monotonic() - self._begun_s, 6),
            "event": event,
            **values,
        }
        # Not msgspec: texts of GDB and of hosts may be invalid UTF-8.
        text = harmless_json(json.dumps(line, ensure_ascii=False))
        data = f"{text}\n".encode("utf-8", "replace")
        try:
            if self._size_bytes + len(data) > self._max_bytes:
                self._turn_over()
            self._put(data)
        except (OSError, UsageError) as error:
            self.give_up(reason(error) if isinstance(error, OSError) else str(error))

    def give_up(self, why: str) -> None:
        """End the log and report the reason."""
        self._end()
        if not self._has_failed:
            self._has_failed = True
            self.on_failure(f"--log {self._path}: {why}; the log ends here, the session goes on")

    def _put(self, data: bytes) -> None:
        assert self._descriptor is not None
        self._size_bytes += len(data)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _head(self, part: int) -> None:
        self.write(
            "begin",
            format=FORMAT,
            version=VERSION,
            part=part,
            keeps_values=self.keeps_values,
            pgdb=__version__,
            python=platform.python_version(),
            system=platform.platform(),
            pid=os.getpid(),
        )

    def _turn_over(self) -> None:
        """Begin a new file; the current file becomes FILE.1."""
        assert self._descriptor is not None
        os.close(self._descriptor)
        self._descriptor, self._size_bytes = None, 0
        self._descriptor = _open(self._path)
        self._head(1)

    def _end(self) -> None:
        if self._handler is not None:
            for name in _LOGGERS:
                logging.getLogger(name).removeHandler(self._handler)
            self._handler = None
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _ranks(self, ranks: RankSet) -> str:
        return self._redactor.text(str(ranks))


class _Handler(logging.Handler):
    """Logging handler that passes messages of PGDB's own code to the log."""

    def __init__(self, log: SessionLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.record(record)


def open_log(
    options: SessionOptions,
    environment: Mapping[str, str],
    *,
    hidden: Sequence[str] = (),
    on_failure: Callable[[str], None],
) -> SessionLog | None:
    """Begin the log of *options*; *hidden* are words that the log must not contain.

    :raises UsageError: if the log cannot be created.
    """
    if not options.log:
        return None
    redactor = Redactor(environment, hidden=hidden, keeps_values=options.log_values)
    log = SessionLog(user_path(options.log), redactor, on_failure=on_failure)
    log.listen()
    return log


def read_head(path: Path) -> dict[str, Any] | None:
    """Return the first line of a log; None if the file is no log.

    :raises OSError: if the file cannot be read.
    """
    with open_regular(path) as file:
        line = file.readline(_MAX_FIRST_LINE)
    try:
        head = json.loads(line)
    except ValueError:
        return None
    return head if isinstance(head, dict) and head.get("format") == FORMAT else None


def _open(path: Path) -> int:
    """Create the file *path*; an existing log becomes FILE.1 and replaces an older FILE.1.

    :raises UsageError: if another file has the name, or if another session writes the log.
    :raises OSError: if the file cannot be created.
    """
    before = Path(f"{path}.1")
    if os.path.lexists(path):
        if _is_written(path):
            raise UsageError(f"--log {path}: another session writes it; name another file")
        if os.path.lexists(before) and not _is_log(before):
            raise UsageError(f"--log {path}: {before} would be overwritten and is no log of PGDB")
        if _is_log(path):
            os.replace(path, before)
        else:
            raise UsageError(f"--log {path}: the file exists and is no log of PGDB")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _is_log(path: Path) -> bool:
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    return not path.stat().st_size or read_head(path) is not None


def _is_written(path: Path) -> bool:
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    with open_regular(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
