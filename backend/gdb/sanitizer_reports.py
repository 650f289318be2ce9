"""Stops at the reports of sanitizers: hidden breakpoints in the runtimes, and the report in words.

The runtimes call these two functions for each report, also for one after which the program goes on.
A program without a runtime gets no breakpoint.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import platform
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pgdb import elf
from pgdb.backend.gdb import decode
from pgdb.backend.gdb.mapped_file_cache import MappedFileCache
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.own_breakpoints import number_in, python
from pgdb.backend.gdb.process_memory import read_some
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.sbd.rank_files import mapped
from pgdb.patterns import pattern
from pgdb.records import Frame
from pgdb.report_switch import STOPS_ON_REPORT

REPORT_STACK = "$_pgdb_report"
"""Convenience variable with the stack pointer at the last report, 0 before the first one."""
SUMMARY, UNDEFINED = "__sanitizer_report_error_summary", "__ubsan_on_report"
_LIBRARY = pattern(r"lib(?:asan|hwasan|ubsan|tsan|msan|lsan|clang_rt)\b[^/]*\.so")
_REGISTERS = {"x86_64": "$rdi", "aarch64": "$x0", "ppc64le": "$r3", "riscv64": "$a0"}
"""The registers of the first argument."""
_TOOL_OFFSET = len("SUMMARY: ")
# The kind comes before the place: a path, "file:line", or "(module+offset)".
_SUMMARY = pattern(
    r"SUMMARY: \w+: (\d+ byte\(s\) leaked.*|.*?)"
    r"(?: (?:/.*|\([^()]*\+0x.*|\(<unknown.*|\S+:\d+.*|<null>.*))?\Z"
)
_KIND = pattern(rb"[a-z][a-z0-9-]+\Z")
_HANDLER = pattern(r"__ubsan_handle_(\w+?)(?:_v\d+)?(?:_abort)?\Z")
_RUNTIME = pattern(
    r"(?:__)?(?:asan|hwasan|ubsan|tsan|msan|lsan|sanitizer|interceptor|interception)(?:_|::)"
    r"|void handle\w+Impl\b|handle\w+Impl\b|Handle\w+Impl\b"
)
_TEXT_BYTES = 1024
_STACK_BYTES = 4096
_PAGE_BYTES = 4096
_BUFFER_WORDS = 5
_STRINGS = 3
"""Kind of a section with strings in an ELF file."""


class Report(msgspec.Struct, frozen=True):
    """A sanitizer's report."""

    kind: str
    """Kind of the error, such as ``heap-buffer-overflow``."""
    message: str = ""
    """The error with its numbers, empty if it is unknown."""


class SanitizerReports:
    """The breakpoints at reports of sanitizers, of one GDB."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self._functions: dict[int, str] = {}
        self.has_new_libraries = True
        """Whether libraries were loaded since the last search for a runtime."""

    def forget(self) -> None:
        """Forget all breakpoints: the process is gone or free."""
        self._functions.clear()
        self.has_new_libraries = True

    def at(self, payload: Mapping[str, Any]) -> str:
        """Return the function at which the rank stopped, empty for other stops."""
        numbers = payload.get("bkptno", ())
        for each in numbers if isinstance(numbers, list) else [numbers]:
            if function := self._functions.get(decode.whole_number(each), ""):
                return function
        return ""

    async def find(self, pid: int) -> None:
        """Make the breakpoints of runtimes that the process *pid* has loaded since the last time.

        They are made by name: an address would be another place after an exec.
        """
        if not self.has_new_libraries:
            return
        self.has_new_libraries = False
        if not await asyncio.to_thread(has_runtime, pid):
            return
        register = _REGISTERS.get(platform.machine(), "")
        for variable in (f"{REPORT_STACK} = 0", f"{STOPS_ON_REPORT} = 1"):
            await self._gdb.send(console(f"init-if-undefined {variable}"))
        for function in {SUMMARY, UNDEFINED} - {*self._functions.values()}:
            result = await self._gdb.send(
                python("stop_at_report", function, condition(function, register))
            )
            if result.kind != "error" and (number := number_in(result)):
                self._functions[number] = function

    async def read(self, function: str, pid: int, frames: Sequence[Frame]) -> Report:
        """Return the report for which the rank has stopped in *function*."""
        if function == SUMMARY:
            register = _REGISTERS.get(platform.machine(), "0")
            text = await asyncio.to_thread(_string_at, pid, await self._value(register))
            return Report(kind_in_summary(text) or "error")
        found = await asyncio.to_thread(undefined_report, pid, await self._value("$sp"))
        return found or Report(kind_in_handlers(frames) or "undefined behavior")

    async def _value(self, expression: str) -> int:
        text = str((await self._gdb.send(console(f"output/d {expression}"))).text).strip()
        return int(text) if text.lstrip("-").isdecimal() else 0


def condition(function: str, register: str) -> str:
    """Return the condition of a breakpoint, in C; it keeps the stack pointer of the report.

    UBSan's reports have a summary if the user asks for it, and were reported before.
    """
    stops = f"{STOPS_ON_REPORT} && ({REPORT_STACK} = (long) $sp)"
    if function != SUMMARY or not register:
        return stops
    return f"((char *) {register})[{_TOOL_OFFSET}] != {ord('U')} && {stops}"


def kind_in_summary(text: str) -> str:
    """Return the kind of error in the last line of a report.

    >>> kind_in_summary("SUMMARY: AddressSanitizer: heap-buffer-overflow /a/b.c:4 in over")
    'heap-buffer-overflow'
    """
    match = _SUMMARY.match(text.strip())
    return match[1].strip() if match else ""


def kind_in_handlers(frames: Sequence[Frame]) -> str:
    """Return UBSan's kind of error in words, by the name of the function that handles it."""
    names = (_HANDLER.match(each.function.partition("(")[0]) for each in frames)
    return next((name[1].replace("_", " ") for name in names if name), "")


def users_frame(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame outside the runtime; with a readable source, if there is one.

    A source of the user's comes before a header of a library.
    """
    outside = [each for each in frames if not _RUNTIME.match(each.function)]
    readable = (each for each in outside if each.fullname and decode.is_readable(each.fullname))
    return decode.users_source(readable) or next(iter(outside or frames), None)


def has_runtime(pid: int) -> bool:
    """Return whether the process has the runtime of a sanitizer, in a library or in itself."""
    mappings = tuple(mapped(pid))
    if any(_LIBRARY.match(os.path.basename(each.path)) for each in mappings):
        return True
    try:
        program = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return False
    return any(_STATIC.find(pid, each) for each in mappings if each.path == program)


def _names_runtime(file: int) -> bool:
    """Return whether the symbols of an open file name a runtime.

    :raises ValueError: if it is no ELF file.
    """
    read = elf.reader(file)
    tables = [each for each in elf.sections(elf.header(read), read) if each.kind == _STRINGS]
    with mmap.mmap(file, 0, prot=mmap.PROT_READ) as data:
        return any(
            data.find(f"{name}\0".encode(), table.offset, table.offset + table.size_bytes) >= 0
            for table in tables
            for name in (SUMMARY, UNDEFINED)
        )


_STATIC = MappedFileCache(_names_runtime, nothing=False)
"""Whether mapped files have a runtime in them."""


def _string_at(pid: int, address: int) -> str:
    text, _, _ = read_some(pid, address, _TEXT_BYTES).partition(b"\0")
    return " ".join(text.decode("utf-8", "replace").split())


def undefined_report(pid: int, stack_pointer: int) -> Report | None:
    """Return UBSan's report, which is on the stack: its kind, place, and a buffer with the message.

    The buffer is an array of whole pages: its address, the bytes it has, the bytes it uses. Other
    words of the stack can look like that.
    """
    stack = read_some(pid, stack_pointer, _STACK_BYTES)
    words = [word for (word,) in struct.iter_unpack("=Q", stack[: len(stack) // 8 * 8])]
    for at in range(len(words) - _BUFFER_WORDS + 1):
        kind_at, _, message_at, room_bytes, used_bytes = words[at : at + _BUFFER_WORDS]
        if not 1 < used_bytes <= room_bytes or (room_bytes | message_at) % _PAGE_BYTES:
            continue
        kind, _, _ = read_some(pid, kind_at, 64).partition(b"\0")
        message = _string_at(pid, message_at)
        if _KIND.match(kind) and message and message.isprintable():
            return Report(kind.decode("ascii"), message)
    return None
