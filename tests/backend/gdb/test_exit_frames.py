"""The frame that has ended a process."""

from __future__ import annotations

import pytest

from pgdb.backend.gdb.exit_frames import calling_frame, follows_main
from pgdb.records import Frame

STARTED = ["__libc_start_call_main", "__libc_start_main_impl", "_start"]
LEFT = ["__GI__exit", "__run_exit_handlers", "__GI_exit"]


@pytest.mark.parametrize(
    ("functions", "caller", "has_returned"),
    [
        # GNU's C library with its debug information, and status 5 or 0.
        (["__GI_exit", *STARTED], "__libc_start_call_main", True),
        ([*LEFT, *STARTED], "__libc_start_call_main", True),
        # Without it, functions inside the library have no name.
        (["exit", "libc.so.6+0x2724f", "__libc_start_main", "_start"], "libc.so.6+0x2724f", True),
        (
            ["_exit", "libc.so.6+0x3e5a1", "exit", "libc.so.6+0x2724f", "__libc_start_main"],
            "libc.so.6+0x2724f",
            True,
        ),
        ([*LEFT, "main", *STARTED], "main", False),
        (["_exit", "handler", "__run_exit_handlers", "exit", *STARTED], "handler", False),
        (["_exit"], "_exit", False),
    ],
)
def test_who_has_ended_the_process(
    functions: list[str], caller: str, *, has_returned: bool
) -> None:
    frames = [Frame(level=at, function=each) for at, each in enumerate(functions)]
    assert frames[calling_frame(frames)].function == caller
    assert follows_main(frames) is has_returned
