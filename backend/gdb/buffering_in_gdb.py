"""Runs inside of GDB, in its Python (3.7 or later): has GDB write whole lines.

GDB takes the buffer off its standard output, and MI's quoted texts are written letter by letter,
a system call each. All of MI's output ends in a newline, so a buffer of lines holds nothing back.
"""

import ctypes
import sys

_LINES = 1  # _IOLBF, of glibc and musl alike
_SIZE_BYTES = 65536


def buffer_lines() -> None:
    """Give the C library's standard output a buffer that is written out at each newline."""
    library = ctypes.CDLL(None)
    try:
        output = ctypes.c_void_p.in_dll(library, "stdout")
    except ValueError:
        return
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.fflush.argtypes = [ctypes.c_void_p]
    library.setvbuf.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    # One of its own choosing would keep the size of the one that is there: a single byte.
    buffer = library.malloc(_SIZE_BYTES)
    if buffer:
        library.fflush(output)
        library.setvbuf(output, buffer, _LINES, _SIZE_BYTES)


def main() -> None:
    """Buffer lines, if that can be done; else everything works, only slower."""
    try:
        buffer_lines()
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: GDB's output is not buffered: {error}\n")
