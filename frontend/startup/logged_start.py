"""A start of a session with a log (``--log``), which also holds a failure of the start."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Sequence

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.api.notifications import Listener, Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.store.log import SessionLog, open_log
from pgdb.frontend.store.recording_file import check_place
from pgdb.frontend.store.redact import private_words
from pgdb.frontend.system.user_files import user_path
from pgdb.frontend.transport.overlay_transport import OverlayTransport

OnStep = Callable[[str], None]
Begin = Callable[[OnStep, Listener | None], Awaitable[Session]]


async def logged(
    begin: Begin,
    mode: str,
    options: SessionOptions,
    *,
    on_step: OnStep,
    listener: Listener | None,
    argv: Sequence[str] = (),
) -> Session:
    """Start a session by *begin*, which gets receivers for its steps and notifications.

    :raises UsageError: if the log cannot be started, or a recording could not be written later.
    """
    if options.record:
        try:
            check_place(user_path(options.record))
        except CommandError as error:
            raise UsageError(f"--record: {error}") from None

    if options.script_log:
        try:
            check_place(user_path(options.script_log))
        except CommandError as error:
            raise UsageError(f"--script-log: {error}") from None

    def complain(text: str) -> None:
        on_step(f"note: {text}")

    hidden = private_words(argv, lambda word: shutil.which(word) is not None)
    log = open_log(options, os.environ, hidden=hidden, on_failure=complain)
    if log is None:
        return await begin(on_step, listener)
    log.options(mode, options)
    try:
        session = await begin(*_heard(log, on_step, listener))
    except BaseException as error:
        log.failed(error)
        log.close()
        raise
    log.on_failure = session.note
    transport = session.transport
    assert isinstance(transport, OverlayTransport)
    log.started(session, nodes=transport.overlay.nodes, failed=transport.overlay.failed)
    session.log = log
    session.ending.add(log.end())
    return session


def _heard(log: SessionLog, on_step: OnStep, listener: Listener | None) -> tuple[OnStep, Listener]:
    def step(text: str) -> None:
        log.step(text)
        on_step(text)

    def notify(notification: Notification) -> None:
        log.notify(notification)
        if listener is not None:
            listener(notification)

    return step, notify
