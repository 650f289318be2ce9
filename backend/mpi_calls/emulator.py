"""An emulator of x86-64 over a private copy of a process's memory.

It runs the query functions of the MPI library (``PMPI_Comm_size`` and the like) as if the process
had called them. Pages are copied when they are written, so nothing in the process changes, and a
bad handle ends in an error here. The number of instructions is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from pgdb.backend.mpi_calls import vectors
from pgdb.backend.mpi_calls.c_library import STUBS, carry_out
from pgdb.backend.mpi_calls.errors import EmulationError, HaltError
from pgdb.backend.mpi_calls.instructions import CONDITIONS, HIGH, REGISTERS, Instruction, Operand
from pgdb.backend.mpi_calls.memory import Images, Memory
from pgdb.backend.mpi_calls.private_copy import MOST_COPIED, STACK, PrivateCopy
from pgdb.backend.mpi_calls.values import MASK, signed

_PAGE = 4096
_RETURN = 0x7EAD0000
"""The address that a call of ours returns to."""
MOST_STEPS = 100_000
"""Most instructions of one call."""
_NOTHING = frozenset("endbr64 nop pause mfence lfence sfence prefetcht0 vzeroupper cld".split())
_MOVES = frozenset(
    "mov movabs movq movd movaps movups movdqa movdqu movzx movapd movupd vmovdqa vmovdqu vmovaps"
    " vmovups vmovq vmovd".split()
)
_ARITHMETIC = frozenset("add adc sub sbb cmp and or xor test inc dec neg xadd".split())
_BITS = frozenset("bt bts btr btc".split())


class Emulator(PrivateCopy):
    """Emulator of functions of a stopped process, on a private copy of its memory."""

    def __init__(self, memory: Memory, images: Images, thread_pointer: int) -> None:
        super().__init__(memory)
        self._images = images
        self.thread_pointer = thread_pointer
        """The base of the fs segment."""
        # Instructions have the addresses of their object file.
        self._decoded: dict[int, tuple[Instruction, int]] = {}
        self._bias = 0
        self._stubs: dict[int, str] = {}
        self.registers: dict[str, int] = {}
        """The general registers by their whole names."""
        self._vectors: dict[str, int] = {}
        self._zero = self._sign = self._carry = self._overflow = False
        self._pc = 0
        self._reads: list[tuple[int, int]] | None = None
        self._halts: frozenset[int] = frozenset()
        self.steps = 0
        """Number of instructions so far."""

    @contextmanager
    def recorded_reads(self) -> Iterator[list[tuple[int, int]]]:
        """Yield a list that gets the addresses and the sizes of all numbers that are read."""
        reads = self._reads = []
        try:
            yield reads
        finally:
            self._reads = None

    @contextmanager
    def halted_at(self, functions: frozenset[int]) -> Iterator[None]:
        """Do not run the functions at some addresses: a call of one raises a HaltError."""
        self._halts = functions
        try:
            yield
        finally:
            self._halts = frozenset()

    # -- running -------------------------------------------------------------------------------

    def call(self, function: int, *arguments: int, most_steps: int = MOST_STEPS) -> int:
        """Call a function at an address of the process with whole numbers; return rax.

        :raises EmulationError: if it cannot be emulated, or does not return in time.
        """
        self.registers = {full: 0 for full, _ in REGISTERS.values()}
        self._vectors = {}
        for name, value in zip(("rdi", "rsi", "rdx", "rcx", "r8", "r9"), arguments, strict=False):
            self.registers[name] = value & MASK
        stacked = arguments[6:]
        self.registers["rsp"] = STACK - _PAGE - (8 * len(stacked) + 15 & ~15)
        for number, value in enumerate(stacked):
            place = self.registers["rsp"] + 8 * number
            self.write(place, struct.pack("<Q", value & MASK))
        self._push(_RETURN)
        self._pc = function
        with self.restored_at_errors():
            for _ in range(most_steps):
                if self._pc == _RETURN:
                    return self.registers["rax"]
                self.steps += 1
                self._step()
            raise EmulationError(f"no end after {most_steps} instructions")

    def _step(self) -> None:
        stub = self._stubs.get(self._pc)
        if stub is not None:
            self.registers["rax"] = carry_out(stub, self) & MASK
            self._pc = self._pop()
            return
        known = self._decoded.get(self._pc)
        if known is None:
            image = self._images.at(self._pc)
            found = image.instruction(self._pc - image.bias) if image is not None else None
            if image is None or found is None:
                raise EmulationError(f"no instruction at {self._pc:#x}")
            known = self._decoded[self._pc] = (found, image.bias)
        insn, self._bias = known
        self._pc = insn.next + self._bias
        try:
            self._execute(insn)
        except (IndexError, KeyError, ValueError, OverflowError) as error:
            # An instruction of another form than those that are known.
            text = f"the instruction {insn.mnemonic} at {insn.address:#x} is not known in this form"
            raise EmulationError(text) from error

    def _push(self, value: int) -> None:
        self.registers["rsp"] = self.registers["rsp"] - 8 & MASK
        self.write(self.registers["rsp"], struct.pack("<Q", value & MASK))

    def _pop(self) -> int:
        value = self.number(self.registers["rsp"], 8)
        self.registers["rsp"] = self.registers["rsp"] + 8 & MASK
        return value

    def _address(self, insn: Instruction, operand: Operand) -> int:
        address = operand.disp
        if operand.base == "rip":
            address += insn.next + self._bias
        elif operand.base:
            address += self.registers[operand.base]
        if operand.index:
            address += self.registers[operand.index] * operand.scale
        if operand.segment == "fs":
            address += self.thread_pointer
        elif operand.segment == "gs":
            raise EmulationError("the gs segment")
        return address & MASK

    def _get(self, insn: Instruction, operand: Operand) -> int:
        if operand.kind == "imm":
            return operand.imm & MASK
        if operand.kind == "reg":
            if operand.is_xmm:
                return self._vectors.get(operand.reg, 0)
            full, size = self._register(operand.reg)
            value = self.registers[full]
            return (value >> 8 if operand.reg in HIGH else value) & ((1 << 8 * size) - 1)
        address = self._address(insn, operand)
        if self._reads is not None:
            self._reads.append((address, operand.size))
        return self.number(address, operand.size)

    def _put(self, insn: Instruction, operand: Operand, value: int) -> None:
        value &= (1 << 8 * operand.size) - 1
        if operand.kind == "mem":
            self.write(self._address(insn, operand), value.to_bytes(operand.size, "little"))
        elif operand.is_xmm:
            self._vectors[operand.reg] = value
        else:
            full, size = self._register(operand.reg)
            if operand.reg in HIGH:
                self.registers[full] = self.registers[full] & ~0xFF00 | value << 8
                return
            kept = 0 if size >= 4 else self.registers[full] & ~((1 << 8 * size) - 1)
            self.registers[full] = kept | value

    def _register(self, name: str) -> tuple[str, int]:
        try:
            return REGISTERS[name]
        except KeyError:
            raise EmulationError(f"the register {name}") from None

    def _holds(self, condition: str) -> bool:
        test = CONDITIONS.get(condition)
        if test is None:
            raise EmulationError(f"the condition {condition}")
        return test(self._zero, self._sign, self._carry, self._overflow)

    # -- instructions --------------------------------------------------------------------------

    def _execute(self, insn: Instruction) -> None:
        name, operands = insn.mnemonic, insn.operands
        if insn.prefix in ("rep", "repz", "repne"):
            self._repeat(insn)
        elif name in _MOVES:
            if len(operands) != 2:
                raise EmulationError(f"{name} with {len(operands)} operands")
            self._put(insn, operands[0], self._get(insn, operands[1]))
        elif name in _ARITHMETIC:
            self._compute(insn)
        elif insn.is_call:
            self._go(insn, is_call=True)
        elif name == "jmp":
            self._go(insn, is_call=False)
        elif insn.is_jump:
            if self._holds(name[1:]):
                self._pc = operands[0].imm + self._bias & MASK
        elif name == "ret":
            self._pc = self._pop()
        elif name == "push":
            self._push(signed(self._get(insn, operands[0]), operands[0].size))
        elif name == "pop":
            self._put(insn, operands[0], self._pop())
        elif name == "lea":
            self._put(insn, operands[0], self._address(insn, operands[1]))
        elif name not in _NOTHING:
            self._execute_rare(insn)

    def _go(self, insn: Instruction, *, is_call: bool) -> None:
        operand = insn.operands[0]
        if operand.kind == "imm":
            target = operand.imm + self._bias & MASK
        else:
            target = self._get(insn, operand)
            if operand.kind == "mem" and operand.base == "rip":
                target = self._resolved(insn.next + self._bias + operand.disp, target)
        if target in self._halts:
            raise HaltError(f"a call of {target:#x}")
        if is_call:
            self._push(insn.next + self._bias)
        self._pc = target

    def _resolved(self, slot: int, target: int) -> int:
        """Return the target of a jump through a word that the dynamic linker fills; functions of
        the C library that need its state, or wide vectors, become stubs."""
        image = self._images.at(slot)
        name = image.imports.get(slot - image.bias, "") if image is not None else ""
        if not name:
            return target
        if name in STUBS:
            return self._stub(name)
        if self._images.at(target) is image:
            # The linker has not filled it yet.
            for each in self._images.all():
                if name in each.symbols and each.symbols[name] in each.functions:
                    return each.symbols[name] + each.bias
        return target

    def _stub(self, name: str) -> int:
        """Return the address that stands for a function that is carried out here."""
        place = _RETURN + 16 * (1 + list(STUBS).index(name))
        self._stubs[place] = name
        return place

    def _compute(self, insn: Instruction) -> None:
        name, operands = insn.mnemonic, insn.operands
        to = operands[0]
        bits = 8 * to.size
        mask = (1 << bits) - 1
        a = self._get(insn, to)
        if name in ("inc", "dec"):
            b = 1
        elif name == "neg":
            a, b = 0, a
        else:
            b = (
                operands[1].imm & mask
                if operands[1].kind == "imm"
                else self._get(insn, operands[1])
            )
        carry = int(self._carry) if name in ("adc", "sbb") else 0
        if name in ("add", "adc", "inc", "xadd"):
            result = a + b + carry
            self._overflow = bool((a ^ result) & (b ^ result) & 1 << bits - 1)
            if name != "inc":
                self._carry = result > mask
        elif name in ("sub", "sbb", "cmp", "dec", "neg"):
            result = a - b - carry
            self._overflow = bool((a ^ b) & (a ^ result) & 1 << bits - 1)
            if name != "dec":
                self._carry = result < 0
        else:
            result = {"and": a & b, "test": a & b, "or": a | b, "xor": a ^ b}[name]
            self._carry = self._overflow = False
        result &= mask
        self._flags(result, bits)
        if name == "xadd":
            self._put(insn, operands[1], a)
        if name not in ("cmp", "test"):
            self._put(insn, to, result)

    def _flags(self, result: int, bits: int) -> None:
        self._zero = result == 0
        self._sign = bool(result >> bits - 1 & 1)

    def _execute_rare(self, insn: Instruction) -> None:
        name, operands = insn.mnemonic, insn.operands
        registers = self.registers
        if name in ("movsx", "movsxd"):
            self._put(insn, operands[0], signed(self._get(insn, operands[1]), operands[1].size))
        elif name == "cdqe":
            registers["rax"] = signed(registers["rax"], 4) & MASK
        elif name == "cdq":
            registers["rdx"] = 0xFFFFFFFF if registers["rax"] >> 31 & 1 else 0
        elif name == "cqo":
            registers["rdx"] = MASK if registers["rax"] >> 63 else 0
        elif name in ("shl", "sal", "shr", "sar"):
            self._shift(insn)
        elif name == "imul":
            self._multiply(insn)
        elif name in ("div", "idiv"):
            self._divide(insn)
        elif name.startswith("cmov"):
            # A move of 32 bits clears the upper half even where it does not happen.
            holds = self._holds(name[4:])
            self._put(insn, operands[0], self._get(insn, operands[1 if holds else 0]))
        elif name.startswith("set"):
            self._put(insn, operands[0], int(self._holds(name[3:])))
        elif name == "not":
            self._put(insn, operands[0], ~self._get(insn, operands[0]))
        elif name == "leave":
            registers["rsp"] = registers["rbp"]
            registers["rbp"] = self._pop()
        elif name == "xchg":
            a, b = self._get(insn, operands[0]), self._get(insn, operands[1])
            self._put(insn, operands[0], b)
            self._put(insn, operands[1], a)
        elif name == "cmpxchg":
            mask = (1 << 8 * operands[0].size) - 1
            a = self._get(insn, operands[0])
            self._zero = a == registers["rax"] & mask
            if self._zero:
                self._put(insn, operands[0], self._get(insn, operands[1]))
            else:
                registers["rax"] = a
        elif name == "cmpxchg16b":
            at = self._address(insn, operands[0])
            low, high = self.number(at, 8), self.number(at + 8, 8)
            self._zero = (low, high) == (registers["rax"], registers["rdx"])
            if self._zero:
                self.write(at, struct.pack("<QQ", registers["rbx"], registers["rcx"]))
            else:
                registers["rax"], registers["rdx"] = low, high
        elif name == "cwde":
            registers["rax"] = signed(registers["rax"], 2) & 0xFFFFFFFF
        elif name in ("bsf", "tzcnt", "bsr"):
            value = self._get(insn, operands[1])
            self._zero = not value
            if not value:
                raise EmulationError(f"{name} of 0")
            place = value.bit_length() - 1 if name == "bsr" else (value & -value).bit_length() - 1
            self._put(insn, operands[0], place)
        elif name in _BITS:
            self._test_bit(insn)
        elif name == "rdtsc":
            registers["rax"], registers["rdx"] = self.steps & 0xFFFFFFFF, self.steps >> 32
        else:
            self._execute_vector(insn)

    def _test_bit(self, insn: Instruction) -> None:
        to, number = insn.operands
        bits = 8 * to.size
        if to.kind == "mem" and number.kind == "reg":
            raise EmulationError(f"a bit of an array at {insn.address:#x}")
        value, at = self._get(insn, to), self._get(insn, number) % bits
        self._carry = bool(value >> at & 1)
        changed = {"bts": value | 1 << at, "btr": value & ~(1 << at), "btc": value ^ 1 << at}
        if insn.mnemonic in changed:
            self._put(insn, to, changed[insn.mnemonic])

    def _execute_vector(self, insn: Instruction) -> None:
        name, operands = insn.mnemonic, insn.operands
        first, last = operands[0], operands[-1]
        is_avx = name.startswith("v")
        name = name.removeprefix("v")
        if name in ("movhps", "movhpd", "movlps", "movlpd") and len(operands) == 2:
            self._move_half(insn, is_high=name[3] == "h")
            return
        if not first.is_xmm:
            if name in ("pextrd", "pextrq", "pextrw"):
                bits = {"d": 32, "q": 64, "w": 16}[name[-1]]
                source = self._get(insn, operands[1])
                self._put(insn, first, vectors.extracted(source, last.imm, bits))
                return
            raise EmulationError(f"{insn.mnemonic} at {insn.address:#x}")
        result: int | None = None
        if last.kind == "imm":
            if name == "pshufd":
                result = vectors.shuffled(self._get(insn, operands[1]), last.imm)
            elif name in ("pinsrd", "pinsrq", "pinsrw"):
                bits = {"d": 32, "q": 64, "w": 16}[name[-1]]
                value, number = self._get(insn, operands[-3]), self._get(insn, operands[-2])
                result = vectors.inserted(value, number, last.imm, bits)
            else:
                result = vectors.shifted(name, self._get(insn, operands[-2]), last.imm)
        elif len(operands) == 2 + is_avx and "ymm" not in (first.reg[:3], last.reg[:3]):
            result = vectors.combined(name, self._get(insn, operands[-2]), self._get(insn, last))
        if result is None:
            raise EmulationError(f"{insn.mnemonic} at {insn.address:#x}")
        self._put(insn, first, result)

    def _move_half(self, insn: Instruction, *, is_high: bool) -> None:
        to, what = insn.operands
        by = 64 if is_high else 0
        if not to.is_xmm:
            self._put(insn, to, self._get(insn, what) >> by & MASK)
            return
        kept = self._vectors.get(to.reg, 0) & (MASK if is_high else MASK << 64)
        self._vectors[to.reg] = kept | (self._get(insn, what) & MASK) << by

    def _shift(self, insn: Instruction) -> None:
        to = insn.operands[0]
        bits = 8 * to.size
        value = self._get(insn, to)
        by = self._get(insn, insn.operands[1]) if len(insn.operands) > 1 else 1
        by &= 63 if to.size == 8 else 31
        if not by:
            return
        if insn.mnemonic in ("shl", "sal"):
            result = value << by
            self._carry = bool(result >> bits & 1)
        else:
            whole = signed(value, to.size) if insn.mnemonic == "sar" else value
            result = whole >> by
            self._carry = bool(whole >> by - 1 & 1)
        self._flags(result & ((1 << bits) - 1), bits)
        self._put(insn, to, result)

    def _multiply(self, insn: Instruction) -> None:
        operands = insn.operands
        if len(operands) == 1:
            raise EmulationError("a multiplication of 128 bits")
        size = operands[0].size
        a = signed(self._get(insn, operands[-2]), size)
        b = operands[2].imm if len(operands) == 3 else signed(self._get(insn, operands[1]), size)
        self._put(insn, operands[0], a * b)

    def _divide(self, insn: Instruction) -> None:
        operand = insn.operands[0]
        size, registers = operand.size, self.registers
        bits = 8 * size
        mask = (1 << bits) - 1
        whole = (registers["rdx"] & mask) << bits | registers["rax"] & mask
        divisor = self._get(insn, operand)
        if insn.mnemonic == "idiv":
            whole, divisor = signed(whole, 2 * size), signed(divisor, size)
        if not divisor or size < 4:
            raise EmulationError("a division")
        quotient = abs(whole) // abs(divisor) * (1 if (whole < 0) == (divisor < 0) else -1)
        registers["rax"] = quotient & mask
        registers["rdx"] = whole - quotient * divisor & mask

    def _repeat(self, insn: Instruction) -> None:
        name, registers = insn.mnemonic, self.registers
        size = {"b": 1, "w": 2, "d": 4, "q": 8}.get(name[-1], 0)
        count = registers["rcx"] * size
        if (
            insn.prefix != "rep"
            or name[:-1] not in ("movs", "stos")
            or not 0 <= count < MOST_COPIED
        ):
            raise EmulationError(f"{insn.prefix} {name} at {insn.address:#x}")
        if name.startswith("movs"):
            self.write(registers["rdi"], self.read(registers["rsi"], count))
            registers["rsi"] += count
        else:
            piece = (registers["rax"] & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            self.write(registers["rdi"], piece * registers["rcx"])
        registers["rdi"] += count
        registers["rcx"] = 0
