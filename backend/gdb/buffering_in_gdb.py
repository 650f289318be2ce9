"""Line buffering of GDB's output; runs inside GDB, in its Python (3.7 or later).

GDB removes the buffer of its standard output, and writes MI's quoted texts letter by letter, a
system call each. All MI output ends in a newline, so a line buffer delays nothing.
"""

import ctypes
import sys

_LINES = 1  # _IOLBF, of glibc and musl alike
_SIZE_BYTES = 65536


def buffer_lines() -> None:
    """Make the C library's standard output line-buffered."""
    library = ctypes.CDLL(None)
    try:
        output = ctypes.c_void_p.in_dll(library, "stdout")
    except ValueError:
        return
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.fflush.argtypes = [ctypes.c_void_p]
    library.setvbuf.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    # A buffer that the C library allocates would keep the present size: a single byte.
    buffer = library.malloc(_SIZE_BYTES)
    if buffer:
        library.fflush(output)
        library.setvbuf(output, buffer, _LINES, _SIZE_BYTES)


def main() -> None:
    """Buffer lines if possible; without that all works, only slower."""
    try:
        buffer_lines()
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: GDB's output is not buffered: {error}\n")
