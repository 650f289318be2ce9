"""Instructions of x86-64, decoded once by capstone into small objects of our own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

Read = Callable[[int, int], bytes]
"""Function that returns the bytes at an address, fewer where the memory ends."""

_NAMES = {
    "rax": "rax eax ax al",
    "rbx": "rbx ebx bx bl",
    "rcx": "rcx ecx cx cl",
    "rdx": "rdx edx dx dl",
    "rsi": "rsi esi si sil",
    "rdi": "rdi edi di dil",
    "rbp": "rbp ebp bp bpl",
    "rsp": "rsp esp sp spl",
    **{f"r{n}": f"r{n} r{n}d r{n}w r{n}b" for n in range(8, 16)},
}
REGISTERS: dict[str, tuple[str, int]] = {
    name: (full, size)
    for full, names in _NAMES.items()
    for name, size in zip(names.split(), (8, 4, 2, 1), strict=True)
}
"""The whole register and the size in bytes of each name of a general register."""
HIGH = {"ah": "rax", "bh": "rbx", "ch": "rcx", "dh": "rdx"}
"""The second bytes of four registers."""
REGISTERS.update({name: (full, 1) for name, full in HIGH.items()})
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
"""Registers of the first six arguments of a call (System V ABI)."""
SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")
"""Registers that a function hands back as it got them."""
VOLATILE = ("rax", *ARGUMENTS, "r10", "r11")
CONDITIONS: dict[str, Callable[[bool, bool, bool, bool], bool]] = {
    "e": lambda z, s, c, o: z,
    "ne": lambda z, s, c, o: not z,
    "l": lambda z, s, c, o: s != o,
    "ge": lambda z, s, c, o: s == o,
    "le": lambda z, s, c, o: z or s != o,
    "g": lambda z, s, c, o: not z and s == o,
    "b": lambda z, s, c, o: c,
    "ae": lambda z, s, c, o: not c,
    "be": lambda z, s, c, o: c or z,
    "a": lambda z, s, c, o: not (c or z),
    "s": lambda z, s, c, o: s,
    "ns": lambda z, s, c, o: not s,
    "o": lambda z, s, c, o: o,
    "no": lambda z, s, c, o: not o,
}
"""Tests of the flags zero, sign, carry and overflow, by the end of the names of jumps."""
_LONGEST = 15
_MOST_KNOWN = 1 << 17
_PREFIXES = ("notrack ", "bnd ", "lock ", "repne ", "repz ", "rep ", "data16 ")


class Operand:
    """An operand: a register, a constant or a place in memory."""

    __slots__ = (
        "base",
        "disp",
        "imm",
        "index",
        "is_written",
        "kind",
        "reg",
        "scale",
        "segment",
        "size",
    )

    def __init__(self, kind: Literal["reg", "imm", "mem"], size: int) -> None:
        self.kind = kind
        self.size = size
        self.reg = self.base = self.index = self.segment = ""
        self.imm = self.disp = 0
        self.scale = 1
        self.is_written = False

    @property
    def is_xmm(self) -> bool:
        """Whether it is a vector register."""
        return self.kind == "reg" and self.reg[1:3] == "mm"


class Instruction:
    """A decoded instruction."""

    __slots__ = (
        "address",
        "is_call",
        "is_jump",
        "is_return",
        "mnemonic",
        "next",
        "operands",
        "prefix",
        "written",
    )

    def __init__(self, address: int, following: int, mnemonic: str, prefix: str) -> None:
        self.address = address
        self.next = following
        self.mnemonic = mnemonic
        self.prefix = prefix
        self.operands: tuple[Operand, ...] = ()
        self.written: tuple[str, ...] = ()
        self.is_call = self.is_jump = self.is_return = False

    @property
    def target(self) -> int | None:
        """Target of a direct jump or call."""
        first = self.operands[0] if self.operands else None
        return first.imm if first is not None and first.kind == "imm" else None

    @property
    def is_branch(self) -> bool:
        """Whether it is a jump that can fall through."""
        return self.is_jump and self.mnemonic != "jmp"


@cache
def _capstone() -> tuple[Any, Any]:
    # The import takes longer than all else at the start of an aggregator.
    import capstone

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    return capstone, decoder


def decode(data: bytes, address: int) -> Instruction | None:
    """Return the instruction at *address* that *data* begins with; None if it is none."""
    capstone, decoder = _capstone()
    for found in decoder.disasm(data[:_LONGEST], address, 1):
        return _converted(capstone, found)
    return None


def _converted(capstone: Any, found: Any) -> Instruction:
    mnemonic, prefix = found.mnemonic, ""
    for each in _PREFIXES:
        if mnemonic.startswith(each):
            mnemonic, prefix = mnemonic[len(each) :], each.strip()
    made = Instruction(found.address, found.address + found.size, mnemonic, prefix)
    operands = []
    for each in found.operands:
        if each.type == capstone.x86.X86_OP_REG:
            operand = Operand("reg", each.size)
            operand.reg = found.reg_name(each.reg)
        elif each.type == capstone.x86.X86_OP_IMM:
            operand = Operand("imm", each.size)
            operand.imm = each.imm
        else:
            operand = Operand("mem", each.size)
            place = each.mem
            operand.base = found.reg_name(place.base) if place.base else ""
            operand.index = found.reg_name(place.index) if place.index else ""
            operand.segment = found.reg_name(place.segment) if place.segment else ""
            operand.scale, operand.disp = place.scale, place.disp
        operand.is_written = bool(each.access & capstone.CS_AC_WRITE)
        operands.append(operand)
    made.operands = tuple(operands)
    groups = found.groups
    made.is_call = capstone.CS_GRP_CALL in groups
    made.is_jump = capstone.CS_GRP_JUMP in groups
    made.is_return = capstone.CS_GRP_RET in groups or mnemonic in ("hlt", "ud2")
    if not (made.is_call or made.is_jump or made.is_return):
        made.written = tuple(found.reg_name(each) for each in found.regs_access()[1])
    return made


class Code:
    """The instructions of one object file; each is decoded once, for all processes."""

    def __init__(self) -> None:
        self._known: dict[int, Instruction | None] = {}

    def at(self, address: int, read: Read) -> Instruction | None:
        """Return the instruction at an address of the file; *read* reads its bytes."""
        try:
            return self._known[address]
        except KeyError:
            pass
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        found = decode(read(address, _LONGEST), address)
        if found is not None:
            self._known[address] = found
        return found
