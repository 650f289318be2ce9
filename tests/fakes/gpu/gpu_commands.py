"""Commands of the debuggers of GPU vendors, for a GDB of the CPU: read by GDB, not by the tests.

NVIDIA's texts are those of cuda-gdb 13.0 under MI, the others have the layout of the manuals. They
depend on the number of the rank alone.
"""

import re

import gdb


class Command(gdb.Command):
    """A command whose text depends on the rank and its arguments."""

    def __init__(self, name, text):
        super().__init__(name, gdb.COMMAND_STATUS)
        self._text = text

    def invoke(self, argument, from_tty):
        """Print the text."""
        print(self._text.format(device=device(), argument=argument.strip("() ") or 0))


class Prefix(gdb.Command):
    """A word before other commands."""

    def __init__(self, name):
        super().__init__(name, gdb.COMMAND_STATUS, gdb.COMPLETE_NONE, True)


class InfoCuda(gdb.Command):
    """``info cuda``, whose options are no commands."""

    def __init__(self):
        super().__init__("info cuda", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        """Print what the option asks for."""
        if not argument:
            raise gdb.GdbError("Missing option.")
        if argument != "kernels":
            raise gdb.GdbError(f"Unrecognized option: '{argument}'.")
        print(KERNELS.format(device=device()))


class Cuda(gdb.Command):
    """``cuda``, which shows the focus or changes it."""

    def __init__(self):
        super().__init__("cuda", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        """Switch to a thread or a kernel."""
        match = re.fullmatch(r"(thread|kernel) \(?(\d+)\)?", argument)
        if not argument:
            raise gdb.GdbError("Missing argument(s).")
        if match is None:
            raise gdb.GdbError("Unrecognized argument(s).")
        thread = match[2] if match[1] == "thread" else 0
        if int(thread) > 63:
            raise gdb.GdbError("Invalid coordinates requested. CUDA focus unchanged.")
        print(
            f"[Switching focus to CUDA kernel 0, grid 1, block (0,0,0), thread ({thread},0,0), "
            f"device {device()}, sm 124, warp 0, lane {int(thread) % 32}]"
        )
        print("45\t    int i = blockIdx.x * blockDim.x + threadIdx.x;")


class Launch(gdb.Parameter):
    """Setting that stops the program at the start of every kernel."""

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


def device():
    """Return the number of the device that the rank uses."""
    return int(gdb.parse_and_eval("$_rank")) % 2


KERNELS = (
    "  Kernel Parent Dev Grid Status   SMs Mask GridDim BlockDim Invocation                     \n"
    "*      0      -   {device}    1 Active 0x00ffffff (240,1,1) (128,1,1) "
    'scale(,args=[{{name="n",value="64"}},{{name="part",value="..."}}]) '
)
for prefix in ("set cuda", "show cuda"):
    Prefix(prefix)
InfoCuda()
Cuda()
Launch()
gdb.set_convenience_variable("cuda_num_present_kernels", 1)
Command(
    "info lanes",
    "  Id   State Target Id                Frame\n"
    "* 0    A     AMDGPU Lane 1:1:1:1/0    scale (values=...) at scale.hip:12\n"
    "  1    I     AMDGPU Lane 1:1:1:1/1    scale (values=...) at scale.hip:1{device}",
)
Command("lane", "[Switching to thread 5, lane {argument} (AMDGPU Lane 1:1:1:1/{argument})]")
Command("info agents", "* 1 AMDGPU Agent 0 gfx90a {device}")
Command(
    "info devices",
    "  Location   Sub-device   Vendor Id   Target Id   Cores   Device Name\n"
    "* [3a:00.{device}]  -            0x8086      0x56c1      1024    Intel(R) GPU",
)
