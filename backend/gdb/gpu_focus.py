"""The focus of NVIDIA's GDB after an interrupt: on the kernel that the rank has in flight.

After its own Ctrl-C (SIGINT) cuda-gdb looks at a kernel if the rank has one. PGDB interrupts by
another signal (:data:`~pgdb.backend.gdb.settings.INTERRUPT`), after which it looks at the host
(cuda-gdb 13.0).
"""

from __future__ import annotations

from typing import Any

from pgdb.backend.gdb import gpu_words
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession

_COUNT = "-data-evaluate-expression $cuda_num_present_kernels"


class GpuFocus:
    """Chooser of the kernel on which the focus of one GDB is."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self._counts_kernels: bool | None = None
        """Whether this GDB knows kernels; None until it was asked."""
        self.device = ""
        """Number of the device that the rank was last seen on; empty if on none so far."""

    def see(self, payload: dict[str, Any]) -> None:
        """Note the device of a ``*stopped``."""
        self.device = gpu_words.device_of(payload) or self.device

    def is_wanted(self, payload: dict[str, Any]) -> bool:
        """Return whether the rank of an interrupt's ``*stopped`` may have a kernel in flight that
        GDB does not look at."""
        return self._counts_kernels is not False and not gpu_words.is_on_gpu(payload)

    async def take(self) -> str:
        """Look at the first kernel in flight; return the place, empty if the rank has no kernel.

        :raises GdbError: if GDB ends.
        """
        if self._counts_kernels is False:
            return ""
        counted = await self._gdb.ask_together(_COUNT)[0]
        count = str(counted.payload.get("value", ""))
        # For another GDB the variable is one that nobody has set: void.
        self._counts_kernels = counted.kind == "done" and count.isdecimal()
        if not self._counts_kernels or count == "0":
            return ""
        listed = await self._gdb.ask_together(console("info cuda kernels"))[0]
        kernel = gpu_words.first_kernel(listed.text)
        if not kernel:
            return ""
        switched = await self._gdb.send(console(f"cuda kernel {kernel}"))
        self.device = gpu_words.device_of_switch(switched.text) or self.device
        return gpu_words.place_of_switch(switched.text) if switched.kind == "done" else ""
