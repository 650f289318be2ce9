"""The text of a rank's death, read from its memory: nothing is called in the program.

The functions in which a program dies keep their message on the stack, or a pointer to it. A library
without debug information names neither, so the strings there are compared with the messages that
the library is known for.
"""

from __future__ import annotations

import asyncio
import platform
import re
import struct
from collections.abc import Iterator

from pgdb.backend.gdb.deaths import Death, fatal_signal
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.rank_image import ImageOf, ProcessImage, RankImage
from pgdb.backend.gdb.registers import address_in, stack_pointer
from pgdb.backend.gdb.session import GdbSession
from pgdb.elf import Read
from pgdb.patterns import pattern

_WORD_BYTES = 8
_MOST_STACK_BYTES = 256 << 10
_MOST_POINTERS = 4096
_STRING_BYTES = 512
_MOST_PRINTED_BYTES = 16 << 10
"""Most bytes below the stack that the C library's printf has used, and ``abort`` has not."""
# Open MPI 4 and 5, ompi/runtime/mpiruntime.h: the state in which init has completed, and the one in
# which finalize has deleted MPI_COMM_SELF.
_OMPI_READY, _OMPI_FINALIZED = 2, 4
_MOST_VARIABLES_BYTES = 4 << 20
_TITLE = pattern(
    rb"\n?(?:Fortran runtime error|Operating system error|Internal Error|ERROR STOP):? \Z"
)
_LONGEST_TITLE = 32
_MANGLED = pattern(rb"[\w.]+\Z")
_TYPE = pattern(r"typeinfo for (.+)")
# Itanium C++ ABI, section 2.2.1: the class of exceptions of GNU's C++, and the places in the header
# before the exception, in bytes from _Unwind_Exception on.
_GNU_EXCEPTION = b"\0++CCUNG"
_TYPE_OFFSET, _OBJECT_OFFSET = -80, 32
_BASE_OFFSET = 16
_MOST_BASES = 8
_WITH_TEXT = (b"St13runtime_error", b"St11logic_error")
# struct rt_sigframe of x86-64: siginfo_t follows the ucontext, to which the frame's stack pointer
# points.
_SIGNAL_OFFSET = 304


class DeathTexts:
    """Reader of texts of deaths in one rank."""

    def __init__(self, gdb: GdbSession, image_of: ImageOf = ProcessImage) -> None:
        self._gdb = gdb
        self._image_of = image_of

    async def of(self, row: Death, pid: int, level: int, outer: int, code: int | None) -> str:
        """Return the text of a death in the frame *level* of the selected thread, or nothing.

        :param outer: the frame that has called into the library where the rank dies; the strings
            of that frame are the user's.
        :param code: the error code with which the rank is about to end, if that is known.
        """
        if row.is_code and code is not None:
            return str(code)
        if not (row.text or row.is_exception or row.is_signal or row.is_written):
            return ""
        levels = (0, outer) if not row.is_signal else (level, level)
        begin, end = await self._stack_pointers(levels)
        image = self._image_of(pid)
        try:
            with image.opened() as memory:
                return await self._text(row, image, memory, begin, end, code)
        except OSError:
            return ""

    async def _text(
        self, row: Death, image: RankImage, memory: Read, begin: int, end: int, code: int | None
    ) -> str:
        if row.is_signal:
            return _signal_at(memory, begin)
        size = max(0, min(end - begin, _MOST_STACK_BYTES))
        stack = _read(memory, begin, size)
        if row.is_exception:
            return await self._exception(memory, stack)
        # In a thread: a large stack refers to thousands of strings.
        if row.is_written and (text := await asyncio.to_thread(_written, memory, stack)):
            return text
        if not row.text:
            return ""
        if row.is_printed:
            below = _read(memory, begin - _MOST_PRINTED_BYTES, _MOST_PRINTED_BYTES)
            found = [*re.finditer(row.text, below)]
            return _shown(found[-1]) if found else ""
        text = await asyncio.to_thread(_find_text, memory, stack, re.compile(row.text))
        if row.is_kept and not text:
            text = await self._kept(memory, re.compile(row.text))
        if row.is_mpi_error and not text:
            text = await self._outside_of_mpi()
        if row.is_mpi_error and not text and code is not None:
            text = await asyncio.to_thread(_text_of_code, image, memory, code)
        return text

    async def _kept(self, memory: Read, text: re.Pattern[bytes]) -> str:
        """Return the text in the last message that the C library keeps for core files, or nothing.

        GNU's library has it in a mapping of its own, behind the size of that mapping.
        """
        result = await self._gdb.evaluate_in_c("*(long *)&__abort_msg")
        address = int(result.answer) if result.answer.strip().isdecimal() else 0
        string = _read(memory, address + 4, _STRING_BYTES) if address else b""
        match = text.search(string.partition(b"\0")[0])
        return _shown(match) if match else ""

    async def _outside_of_mpi(self) -> str:
        """Return the words for a call before MPI_Init or after MPI_Finalize in Open MPI.

        The code with which the job is aborted then is none of MPI's errors.
        """
        result = await self._gdb.evaluate_in_c("(int)ompi_mpi_state")
        state = int(result.answer) if result.answer.strip().isdecimal() else _OMPI_READY
        if state < _OMPI_READY:
            return "called before MPI_Init"
        return "called after MPI_Finalize" if state >= _OMPI_FINALIZED else ""

    async def _stack_pointers(self, levels: tuple[int, int]) -> tuple[int, int]:
        """Return the stack pointers of two frames of the selected thread, 0 for unknown ones."""
        asked, asked_too = self._gdb.send_together(
            "-data-evaluate-expression $_thread", "-stack-info-frame"
        )
        thread, selected = (await asked).payload.get("value", "1"), await asked_too
        answers = self._gdb.send_together(
            *(stack_pointer(thread, level) for level in levels),
            f"-stack-select-frame {selected.payload.get('frame', {}).get('level', 0)}",
        )
        begin, end = [address_in(await each) for each in answers[:2]]
        return begin, end

    async def _exception(self, memory: Read, stack: bytes) -> str:
        """Return type and text of the exception whose header the stack refers to."""
        for address in _pointers(stack):
            if _read(memory, address, len(_GNU_EXCEPTION)) != _GNU_EXCEPTION:
                continue
            kind = _pointer(memory, address + _TYPE_OFFSET)
            mangled = _type_name(memory, kind)
            if not mangled:
                continue
            name = mangled.decode("ascii")
            answer = await self._gdb.send(console(f"demangle -l c++ -- _ZTI{name}"))
            if match := _TYPE.match(answer.text.strip()):
                name = match[1]
            what = _text_of_exception(memory, address + _OBJECT_OFFSET, kind)
            return f"{name}: {what}" if what else name
        return ""


def _find_text(memory: Read, stack: bytes, text: re.Pattern[bytes]) -> str:
    """Return the first match in the stack, or in a string that it refers to."""
    if match := text.search(stack):
        return _shown(match)
    for address in _pointers(stack):
        # Behind the string are others: the messages of a library lie side by side.
        string, end, _ = _read(memory, address, _STRING_BYTES).partition(b"\0")
        if match := text.search(string + end):
            return _shown(match)
    return ""


def _written(memory: Read, stack: bytes) -> str:
    """Return the message of GNU's Fortran library (8 or later) behind its title, or nothing.

    The library writes title and message at once. The list of these parts, each a pointer and a
    length, stays on the stack of the function that ends the process.
    """
    words = [word for (word,) in struct.iter_unpack("Q", stack[: len(stack) // 8 * 8])]
    for at in range(len(words) - 3):
        pointer, size = words[at : at + 2]
        if not 0 < size <= _LONGEST_TITLE:
            continue
        if _TITLE.match(_read(memory, pointer, size)) is None:
            continue
        pointer, size = words[at + 2 : at + 4]
        if 0 < size <= _STRING_BYTES:
            return _read(memory, pointer, size).decode("utf-8", "replace").strip()
    return ""


def _text_of_code(image: RankImage, memory: Read, code: int) -> str:
    """Return Open MPI's text for an error code.

    Its objects for the codes are variables of the library: the code, its class, the text.
    """
    known = struct.pack("ii", code, code) + b"MPI_"
    for mapping in image.mappings():
        size = mapping.end - mapping.start
        if mapping.is_writable and size <= _MOST_VARIABLES_BYTES:
            data = _read(memory, mapping.start, size)
            if (at := data.find(known)) >= 0:
                text = data[at + 8 : at + 8 + _STRING_BYTES].partition(b"\0")[0]
                return text.decode("utf-8", "replace")
    return ""


def _shown(match: re.Match[bytes]) -> str:
    found = next((each for each in match.groups() if each is not None), b"")
    return found.decode("utf-8", "replace").strip()


def _pointers(stack: bytes) -> Iterator[int]:
    """Yield the different words of a stack that may be pointers, innermost first."""
    seen: set[int] = set()
    for (word,) in struct.iter_unpack("Q", stack[: len(stack) // _WORD_BYTES * _WORD_BYTES]):
        if 0x1000 < word < 1 << 56 and word not in seen:
            seen.add(word)
            if len(seen) > _MOST_POINTERS:
                return
            yield word


def _read(memory: Read, address: int, size_bytes: int) -> bytes:
    """Return memory of the rank, less where it ends, nothing where there is none."""
    return memory(address, size_bytes) if address > 0 and size_bytes > 0 else b""


def _pointer(memory: Read, address: int) -> int:
    data = _read(memory, address, _WORD_BYTES)
    return int(struct.unpack("Q", data)[0]) if len(data) == _WORD_BYTES else 0


def _string(memory: Read, address: int) -> bytes:
    text, end, _ = _read(memory, address, _STRING_BYTES).partition(b"\0")
    return text if end else b""


def _type_name(memory: Read, kind: int) -> bytes:
    """Return the mangled name of a ``std::type_info``, empty if it is none."""
    name = _string(memory, _pointer(memory, kind + _WORD_BYTES)).removeprefix(b"*")
    return name if _MANGLED.match(name) else b""


def _text_of_exception(memory: Read, thrown: int, kind: int) -> str:
    """Return the text of an exception that derives from std::runtime_error or std::logic_error.

    Only these have it at a known place. Their descendants with one base begin with it.
    """
    for _ in range(_MOST_BASES):
        name = _type_name(memory, kind)
        if not name:
            return ""
        if name in _WITH_TEXT:
            return _string(memory, _pointer(memory, thrown + _WORD_BYTES)).decode(
                "utf-8", "replace"
            )
        kind = _pointer(memory, kind + _BASE_OFFSET)
    return ""


def _signal_at(memory: Read, context: int) -> str:
    """Return the fatal signal whose handler runs, empty for any other and where it is unknown.

    The kernel leaves it there for a handler with SA_SIGINFO.
    """
    data = _read(memory, context + _SIGNAL_OFFSET, 8)
    if platform.machine() != "x86_64" or len(data) < 8:
        return ""
    number, error = struct.unpack("ii", data)
    return fatal_signal(number) if not error else ""
