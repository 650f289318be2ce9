"""Errors of the user's own code that GDB carries out at a stop, by its log. No I/O.

GDB reports them in its log, as it does everything else that it complains of: the commands of a
breakpoint and Python's handlers behind the ``*stopped``, ``hook-stop`` before it.
"""

from __future__ import annotations

_HOOK = "Error while running hook_stop:"
"""GDB's first line about an error in ``hook-stop``; the next one has its message."""
_PYTHON = "Python Exception <"
_TRACEBACK = "Traceback (most recent call last):"
_END_OF_TRACEBACK = "Error while executing Python code."
_WARNING = "warning: "
_BEFORE_MESSAGE = "error: "


class UserErrors:
    """Finder of the errors of the user's own code in the log of one GDB."""

    def __init__(self) -> None:
        self._is_at_stop = False
        self._is_of_hook = False
        self._is_traceback = False

    def on_stopped(self) -> None:
        """Note a stop: until GDB's next prompt, it carries out what belongs to the stop."""
        self.on_prompt()
        self._is_at_stop = True

    def on_prompt(self) -> None:
        """Note GDB's prompt, or its answer to a command."""
        self._is_at_stop = self._is_of_hook = self._is_traceback = False

    def text(self, log: str, *, is_running: bool) -> str:
        """Return a piece of the log as the user sees it; empty if it is about something else.

        :param is_running: whether the inferior runs.

        >>> errors = UserErrors()
        >>> errors.text("No symbol.", is_running=True)
        ''
        >>> errors.on_stopped()
        >>> errors.text("No symbol.", is_running=False)
        'error: No symbol.'
        """
        if self._is_of_hook:
            self._is_of_hook = False
            return log
        if log.startswith(_HOOK) and (is_running or self._is_at_stop):
            self._is_of_hook = True
            return log
        if log.startswith(_PYTHON):
            return log if is_running or self._is_at_stop else ""
        if not self._is_at_stop or log.startswith(_WARNING) or not log.strip():
            return ""
        if log.startswith(_TRACEBACK):
            self._is_traceback = True
        elif log.startswith(_END_OF_TRACEBACK):
            self._is_traceback = False
        if self._is_traceback:
            return log
        return f"{_BEFORE_MESSAGE}{log}"
