"""NVIDIA's GDB: words for the place on a GPU that it looks at, from its fields and its texts.

The fields and texts are those of cuda-gdb 13.0, which is GDB 14.2. A stop in a kernel names a
thread of the host too, which has nothing to do with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pgdb.backend.gdb.mi import cut
from pgdb.patterns import pattern

_FOCUS = "CudaFocus"
_PLACE = (
    ("kernel", "kernel"),
    ("grid", "grid"),
    ("clusterIdx", "cluster"),
    ("blockIdx", "block"),
    ("threadIdx", "thread"),
)
# [Switching focus to CUDA kernel 0, grid 1, block (0,0,0), thread (5,0,0), device 0, sm 124, …]
_SWITCHED = pattern(
    r"^\[Switching focus to CUDA (kernel [^\n\]]*?)(?:, device (\d+)[^\n\]]*)?\]$", re.M
)
# A row of "info cuda kernels"; the first column of the header is "Kernel".
_KERNEL = pattern(r"^[* ] +(\d+) ", re.M)
# relax(,args=[{name="before",value="0x7ffdcde00000"},{name="part",value="..."}])
_ARGUMENTS = pattern(r'\(,args=\[((?:\{name="[^"\n]*",value="(?:[^"\\\n]|\\.)*"\},?)*)\]\)')
_KERNELS = pattern(r"\s*(?:i|inf|info)\s+cuda\s")


def is_on_gpu(payload: Mapping[str, Any]) -> bool:
    """Return whether a ``*stopped`` is about a thread of a GPU."""
    return bool(payload.get(_FOCUS))


def device_of(payload: Mapping[str, Any]) -> str:
    """Return the number of the device that a ``*stopped`` is about, empty for the host."""
    focus = payload.get(_FOCUS)
    return str(focus.get("device", "")) if isinstance(focus, Mapping) else ""


def device_of_switch(text: str) -> str:
    """Return the number of the device that a ``cuda`` command has switched to, or nothing.

    >>> device_of_switch("[Switching focus to CUDA kernel 0, block (1,0,0), device 2, sm 7]")
    '2'
    """
    match = _SWITCHED.search(text)
    return match[2] or "" if match is not None else ""


def place_on_gpu(payload: Mapping[str, Any]) -> str:
    """Return the place on a GPU of a ``*stopped``, empty for a stop on the host.

    Device, multiprocessor, warp and lane are left out: ranks of a host use a device each, and the
    rest differs by chance between ranks that do the same.
    """
    focus = payload.get(_FOCUS)
    if not isinstance(focus, Mapping):
        return ""
    words = [f"{word} {focus[name]}" for name, word in _PLACE if name in focus]
    return f"CUDA {', '.join(words)}" if words else ""


def is_on_another_processor(frame: Mapping[str, Any], threads: Mapping[str, Any]) -> bool:
    """Return whether a ``frame={…}`` is none of the threads of a ``-thread-info``.

    GDB lists only threads of the host, while the selected frame may be of a GPU.
    """
    frames = (each.get("frame", {}) for each in threads.get("threads", ()))
    processors = {each["arch"] for each in frames if "arch" in each}
    return bool(processors) and "arch" in frame and frame["arch"] not in processors


def place_of_switch(text: str) -> str:
    """Return the place that a ``cuda`` command has switched to, empty if it has not.

    >>> place_of_switch("[Switching focus to CUDA kernel 0, block (1,0,0), device 0, sm 7]")
    'CUDA kernel 0, block (1,0,0)'
    """
    match = _SWITCHED.search(text)
    return f"CUDA {match[1]}" if match is not None else ""


def exception_place(payload: Mapping[str, Any]) -> str:
    """Return where an exception was triggered, empty if the ``*stopped`` does not say.

    The GPU goes on for some instructions, so that the frame of the stop may be on another line.
    """
    function = payload.get("function")
    if "exception_name" not in payload or not function:
        return ""
    file, line = payload.get("filename"), payload.get("line")
    return f"triggered in {function}" + (f" at {file}:{line}" if file and line else "")


def first_kernel(text: str) -> str:
    """Return the number of the first kernel that ``info cuda kernels`` lists, empty without one."""
    match = _KERNEL.search(text)
    return match[1] if match is not None else ""


def lists_kernels(command: str) -> bool:
    """Return whether a command may print invocations of kernels."""
    return _KERNELS.match(command) is not None


def with_invocations(text: str) -> str:
    """Return a text with the arguments of kernels as the command line of GDB shows them.

    Under MI they are written as fields of MI inside the text.

    >>> with_invocations('f(,args=[{name="n",value="3"},{name="p",value="..."}])')
    'f(n=3, p=...)'
    """
    return _ARGUMENTS.sub(_invocation, text)


def _invocation(match: re.Match[str]) -> str:
    arguments = cut(f"^done,args=[{match[1]}]").payload.get("args")
    if not isinstance(arguments, list):
        return match[0]
    words = (f"{each['name']}={each['value']}" for each in arguments)
    return f"({', '.join(words)})"
