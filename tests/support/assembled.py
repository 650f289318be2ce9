"""Machine code from assembler text, and the calls that it reaches."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pgdb.backend.mpi_calls.flow import Flow, Reached
from pgdb.backend.mpi_calls.instructions import Code, Instruction


def assembled(tmp_path: Path, text: str) -> bytes:
    """Return the machine code of a text in GNU's assembler, for address 0."""
    source, made, raw = (tmp_path / name for name in ("a.s", "a.o", "a.bin"))
    source.write_text(f".intel_syntax noprefix\n.text\n{text}\n")
    subprocess.run(["cc", "-c", "-o", made, source], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", made, raw], check=True)
    return raw.read_bytes()


class Assembled:
    """An object file of one function at address 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._code = Code()

    def read(self, address: int, size_bytes: int) -> bytes:
        return self._data[address : address + size_bytes] if address >= 0 else b""

    def instruction(self, address: int) -> Instruction | None:
        return self._code.at(address, self.read)

    def function(self, address: int) -> tuple[int, int] | None:
        return 0, len(self._data)


def reached(tmp_path: Path, text: str, *, is_caller: bool = True) -> Reached:
    """Return the state at the last call of a function."""
    data = assembled(tmp_path, text)
    image = Assembled(data)
    at, last = 0, None
    while (insn := image.instruction(at)) is not None:
        last = insn.next if insn.is_call else last
        at = insn.next
    assert last is not None
    flow = Flow(image, lambda at: False, is_caller=is_caller)
    found = flow.state_at(0, last, is_return=True)
    assert found is not None
    return found
