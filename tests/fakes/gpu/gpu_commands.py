"""Commands of the debuggers of GPU vendors, for a GDB of the CPU: read by GDB, not by the tests.

The texts have the layout of the manuals. They depend on the number of the rank alone.
"""

import gdb


class Command(gdb.Command):
    """A command whose text depends on the rank and its arguments."""

    def __init__(self, name, text):
        super().__init__(name, gdb.COMMAND_STATUS)
        self._text = text

    def invoke(self, argument, from_tty):
        """Print the text."""
        rank = int(gdb.parse_and_eval("$_rank"))
        print(self._text.format(device=rank % 2, argument=argument.strip("() ") or 0))


class Prefix(gdb.Command):
    """A word before other commands."""

    def __init__(self, name):
        super().__init__(name, gdb.COMMAND_STATUS, gdb.COMPLETE_NONE, True)


class Launch(gdb.Parameter):
    """Whether the program stops at the start of every kernel."""

    set_doc = show_doc = "Stop at the start of every kernel."

    def __init__(self):
        super().__init__(
            "cuda break_on_launch", gdb.COMMAND_RUNNING, gdb.PARAM_ENUM, ["none", "application"]
        )
        self.value = "none"

    def get_set_string(self):
        """Print nothing."""
        return ""

    def get_show_string(self, value):
        """Return the value in a sentence."""
        return "Break on every kernel launch is set to '" + value + "'."


for prefix in ("info cuda", "cuda", "set cuda", "show cuda"):
    Prefix(prefix)
Launch()
Command(
    "info cuda kernels",
    "  Kernel Parent Dev Grid Status   SMs Mask GridDim BlockDim Invocation\n"
    "*      0      -   {device}    1 Active 0x00ffffff (240,1,1) (128,1,1) scale(values=...)",
)
Command(
    "cuda thread",
    "[Switching focus to CUDA kernel 0, grid 1, block (0,0,0), thread ({argument},0,0), "
    "device {device}, sm 1, warp 3, lane 1]",
)
Command(
    "info lanes",
    "  Id   State Target Id                Frame\n"
    "* 0    A     AMDGPU Lane 1:1:1:1/0    scale (values=...) at scale.hip:12\n"
    "  1    I     AMDGPU Lane 1:1:1:1/1    scale (values=...) at scale.hip:1{device}",
)
Command("lane", "[Switching to thread 5, lane {argument} (AMDGPU Lane 1:1:1:1/{argument})]")
Command("info agents", "* 1 AMDGPU Agent 0 gfx90a {device}")
