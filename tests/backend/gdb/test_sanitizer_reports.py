"""Reports of sanitizers: kinds, conditions, the user's frame, and the runtimes in processes."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb.backend.gdb.death_points import POINTS
from pgdb.backend.gdb.sanitizer_reports import (
    REPORT_STACK,
    SUMMARY,
    UNDEFINED,
    Report,
    condition,
    has_runtime,
    kind_in_handlers,
    kind_in_summary,
    undefined_report,
    users_frame,
)
from pgdb.records import Frame


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("AddressSanitizer: heap-buffer-overflow /tmp/a b/x.c:4 in over", "heap-buffer-overflow"),
        ("AddressSanitizer: stack-use-after-scope x.c:4:7 in main", "stack-use-after-scope"),
        ("AddressSanitizer: SEGV (/lib/libc.so.6+0x1f2) in memcpy", "SEGV"),
        ("AddressSanitizer: 16 byte(s) leaked in 1 allocation(s).",) * 2,
        ("ThreadSanitizer: data race x.cpp:9 in add(int)", "data race"),
        (
            "ThreadSanitizer: lock-order-inversion (potential deadlock) /x.c:9 in f",
            "lock-order-inversion (potential deadlock)",
        ),
        ("MemorySanitizer: use-of-uninitialized-value (/tmp/a+0x1) ", "use-of-uninitialized-value"),
        ("AddressSanitizer: double-free", "double-free"),
    ],
)
def test_kind_of_a_summary(line: str, kind: str) -> None:
    assert kind_in_summary(f"SUMMARY: {line}") == kind.removeprefix("AddressSanitizer: ")


def test_text_that_is_no_summary_has_no_kind() -> None:
    assert kind_in_summary("") == kind_in_summary("heap-buffer-overflow") == ""


def frames(*functions: str, source: str = "") -> list[Frame]:
    return [Frame(level, each, fullname=source) for level, each in enumerate(functions)]


def test_users_frame_is_outside_the_runtime() -> None:
    runtime = frames(
        "__ubsan::__ubsan_on_report",
        "__ubsan::Diag::~Diag() ()",
        "void handleIntegerOverflowImpl<__ubsan::Value>(__ubsan::OverflowData*)",
        "__ubsan_handle_add_overflow_abort",
        source=__file__,
    )
    assert kind_in_handlers(runtime) == "add overflow"
    assert kind_in_handlers(frames("__ubsan_handle_type_mismatch_v1")) == "type mismatch"
    assert kind_in_handlers(frames("main")) == ""
    called = frames("__asan::ReportGenericError", "__interceptor_memcpy", "library_call")
    user = Frame(7, "main", fullname=__file__)
    assert users_frame([*runtime, user]) == user
    assert users_frame([*called, user]) == user
    assert users_frame(called) == called[2]
    assert users_frame(runtime) == runtime[0] and users_frame([]) is None


def test_summary_of_a_report_that_has_stopped_already_does_not_stop() -> None:
    assert "[9] != 85" in condition(SUMMARY, "$rdi") and "SUMMARY: UndefinedB"[9] == chr(85)
    assert "[9]" not in condition(UNDEFINED, "$rdi") and "[9]" not in condition(SUMMARY, "")
    # The end of the process after a report is no second stop; other deaths are.
    after = {each.function: REPORT_STACK in each.condition for each in POINTS}
    assert after.pop("__sanitizer::Die") and not any(after.values())


def test_undefined_behavior_is_read_from_the_stack() -> None:
    kind = ctypes.create_string_buffer(b"invalid-shift-exponent")
    message = b"shift exponent 40 is too large\0"
    pages = mmap.mmap(-1, 4096)
    pages.write(message)
    pages.seek(2048)
    pages.write(message)

    def on_stack(*words: int) -> Report | None:
        stack = ctypes.create_string_buffer(struct.pack(f"={len(words)}Q", *words))
        return undefined_report(os.getpid(), ctypes.addressof(stack))

    text = ctypes.c_char.from_buffer(pages)
    kind_at, text_at, used = ctypes.addressof(kind), ctypes.addressof(text), len(message)
    found = on_stack(3, 0, kind_at, 1 << 47, text_at, 4096, used, 9)
    assert found == Report("invalid-shift-exponent", "shift exponent 40 is too large")
    assert on_stack(kind_at, 1 << 47, text_at, 4095, used) is None
    assert on_stack(kind_at, 1 << 47, text_at, 4096, 5000) is None
    assert on_stack(text_at, 1 << 47, text_at, 4096, used) is None
    # Other data of the stack.
    assert on_stack(kind_at, 1 << 47, text_at + 2048, 4096, used) is None
    pages.seek(0)
    pages.write(b"\1\0")
    assert on_stack(kind_at, 1 << 47, text_at, 4096, used) is None
    assert undefined_report(os.getpid(), 0) is None


@pytest.mark.parametrize(
    ("flags", "has_one"),
    [
        ((), False),
        (("-fsanitize=undefined",), True),
        (("-fsanitize=undefined", "-static-libubsan"), True),
        (("-fsanitize=address", "-static-libasan"), True),
    ],
)
def test_runtime_in_a_library_or_in_the_program(
    flags: tuple[str, ...], has_one: bool, tmp_path: Path
) -> None:
    source, program = tmp_path / "waits.c", tmp_path / "waits"
    source.write_text(
        "#include <stdio.h>\n"
        'int main(int n, char **v) { puts("there"); fflush(stdout); return getchar() + n; }\n'
    )
    built = subprocess.run(["cc", *flags, "-o", program, source], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"this compiler has no such runtime: {built.stderr[-200:]}")
    pipe = subprocess.PIPE
    with subprocess.Popen([program], stdin=pipe, stdout=pipe) as waiting:
        assert waiting.stdout is not None and waiting.stdout.readline() == b"there\n"
        assert has_runtime(waiting.pid) is has_one
        waiting.kill()


def test_a_process_that_is_gone_has_no_runtime() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not has_runtime(gone.pid)
