"""Print the Python threads of a core file as JSON, in the form of ``py-spy dump --json``.

It runs as a program of its own, ``python -P pystack_dump.py CORE PROGRAM``: pystack reads a core
with a library in C++, which a damaged core could crash. Its exit status is 3 if there is no
pystack.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

NO_PYSTACK = 3
"""Exit status without pystack."""


def main(core: str, program: str) -> None:
    """Print the threads."""
    try:
        engine: Any = importlib.import_module("pystack.engine")
    except ImportError:
        raise SystemExit(NO_PYSTACK) from None
    from pathlib import Path

    threads = engine.get_process_threads_for_core(
        Path(core), Path(program), native_mode=engine.NativeReportingMode.OFF, locals=True
    )
    json.dump([_thread(each) for each in threads], sys.stdout)


def _thread(thread: Any) -> dict[str, object]:
    # pystack lists frames outermost first; 1.4.1 also lists those through which Python 3.12 and
    # 3.13 enter the interpreter, named <interpreter trampoline>.
    frames = [
        {
            "name": each.code.scope,
            "filename": each.code.filename,
            "line": each.code.location.lineno,
            "is_entry": each.is_entry,
            "locals": [
                {"name": name, "repr": value, "arg": is_argument}
                for is_argument, values in ((True, each.arguments), (False, each.locals))
                for name, value in values.items()
            ],
        }
        for each in thread.all_frames
        if not each.is_shim
    ]
    return {
        "thread_id": 0,
        "os_thread_id": thread.tid,
        "thread_name": thread.name,
        "owns_gil": thread.holds_the_gil > 0,
        "frames": frames[::-1],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
