"""The hooks of a Python rank through which the agent learns of exceptions that nothing catches.

This code runs in the interpreter of the rank, as that of :mod:`pgdb.backend.python.agent` does.
"""

# PGDB's own interpreter compiles this module, too; that of the rank may be older.
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class Hooks:
    """Reports exceptions that end the program or a thread, and those of atexit handlers.

    :param report: is called with the type, the exception, the traceback and the place in words.
    """

    def __init__(self, report: Callable[[Any, Any, Any, str], None]) -> None:
        self.report = report
        self.before: dict[str, Any] = {}
        """The hooks that the program had, by the names of the functions in their place."""
        self.installed: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Replace the hooks of the program."""
        if self.installed:
            return
        self.replace(sys, "excepthook", self.on_end)
        # Python 3.8 and 3.9 print the exceptions of atexit handlers without calling a hook.
        self.replace(sys, "unraisablehook", self.on_ignored)
        threading = sys.modules.get("threading")
        if threading is not None:
            self.replace(threading, "excepthook", self.on_thread_end)

    def replace(self, module: Any, name: str, function: Any) -> None:
        """Replace one hook."""
        before = getattr(module, name, None)
        if before is not None and before != function:
            self.before[function.__name__] = before
            setattr(module, name, function)
            self.installed.append((module, name, function))

    def remove(self) -> None:
        """Restore the hooks that the program has not replaced since."""
        left = []
        for module, name, function in self.installed:
            if getattr(module, name, None) == function:
                setattr(module, name, self.before[function.__name__])
            else:
                left.append((module, name, function))
        self.installed = left

    def on_end(self, kind: Any, value: Any, traceback: Any) -> Any:
        """Take an exception that ends the program, then let it be printed."""
        self.report(kind, value, traceback, "")
        return self.before["on_end"](kind, value, traceback)

    def on_ignored(self, found: Any) -> Any:
        """Take an exception that Python cannot raise, of which those of atexit handlers count."""
        if "atexit callback" in (found.err_msg or ""):
            where = "in an atexit handler"
            self.report(found.exc_type, found.exc_value, found.exc_traceback, where)
        return self.before["on_ignored"](found)

    def on_thread_end(self, found: Any) -> Any:
        """Take an exception that ends a thread; SystemExit ends one as it should."""
        if found.exc_type is not SystemExit:
            self.report(found.exc_type, found.exc_value, found.exc_traceback, "in a thread")
        return self.before["on_thread_end"](found)
