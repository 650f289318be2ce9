"""The effect of one instruction of x86-64 on a symbolic state."""

from __future__ import annotations

from pgdb.backend.mpi_calls.instructions import (
    ARGUMENTS,
    REGISTERS,
    VOLATILE,
    Instruction,
    Operand,
)
from pgdb.backend.mpi_calls.values import (
    DEEPEST,
    MASK,
    State,
    Value,
    depth,
    low,
    operation,
    plus,
    sign_extended,
    signed,
)

_NOTHING = frozenset(
    "endbr64 nop test cmp pause fnop ucomisd ucomiss comisd comiss bt prefetcht0".split()
)
_BINARY = {
    "add": "+",
    "sub": "-",
    "imul": "*",
    "shl": "<<",
    "sal": "<<",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shr": ">>",
}
_VECTOR_MOVES = frozenset(
    "movaps movups movdqa movdqu movapd movupd vmovdqa vmovdqu vmovaps vmovups vmovdqu64".split()
)


class Effects:
    """Carries instructions out on states.

    A *caller* is followed with symbols for unknown values, since a value that it has kept elsewhere
    is as good. Its stack slots are unknown after a call. In a *callee* only the values that it was
    entered with count, and a slot is lost once its address is passed on.
    """

    def __init__(self, *, is_caller: bool) -> None:
        self.is_caller = is_caller
        self.escaped: set[int] = set()
        """Stack slots whose address was passed on or stored."""
        self._now = 0

    def apply(self, state: State, insn: Instruction) -> None:
        """Apply an instruction that is no jump."""
        self._now = insn.address
        if insn.is_call:
            self._call(state, insn)
            return
        name = insn.mnemonic
        if name in _NOTHING:
            return
        if insn.prefix in ("rep", "repz", "repne"):
            self._forget_written(state, insn)
            state.age = max(state.age, insn.address)
            return
        special = getattr(self, f"_{name}", None)
        try:
            if special is not None and special(state, insn):
                return
        except (IndexError, ValueError):
            # An instruction of another form, such as one with fewer operands.
            pass
        if name in _BINARY or name == "sar":
            if self._arithmetic(state, insn):
                return
        elif name in _VECTOR_MOVES:
            if self._vector_move(state, insn):
                return
        elif name in ("movq", "movd", "vmovq", "vmovd") and self._vector_word(state, insn):
            return
        self._forget_written(state, insn)

    # -- operands ------------------------------------------------------------------------------

    def address(self, state: State, insn: Instruction, operand: Operand) -> Value:
        """Return the address of a place in memory."""
        if operand.segment in ("fs", "gs"):
            return None
        if operand.base == "rip":
            found: Value = ("image", insn.next)
        elif operand.base:
            found = self.register(state, operand.base)
        else:
            found = ("const", 0)
        if operand.index:
            index = self.register(state, operand.index)
            if index is None or found is None:
                return None
            if operand.scale != 1:
                index = (
                    ("const", index[1] * operand.scale & MASK)
                    if index[0] == "const"
                    else operation("*", index, ("const", operand.scale))
                )
            if index is not None and index[0] == "const":
                found = plus(found, signed(index[1]))
            elif found[0] == "const":
                found = plus(index, signed(found[1]))
            else:
                found = operation("+", found, index)
        return plus(found, operand.disp)

    def register(self, state: State, name: str) -> Value:
        """Return the value of a register by any of its names."""
        full, size = REGISTERS.get(name, ("", 0))
        if not full or name[1:] == "h":
            return None
        return low(state.registers.get(full), size)

    def get(self, state: State, insn: Instruction, operand: Operand) -> Value:
        """Return the value of an operand."""
        if operand.kind == "reg":
            return self.register(state, operand.reg)
        if operand.kind == "imm":
            return ("const", operand.imm & MASK)
        return self._load(state, self.address(state, insn, operand), operand.size)

    def _load(self, state: State, address: Value, size: int) -> Value:
        if address is None:
            return None
        if address[0] != "cfa":
            return operation_load(address, size, state.age)
        held = state.slots.get(address[1])
        if held is not None:
            value, held_size = held
            return low(value, size) if held_size >= size else None
        begin, end = address[1], address[1] + size
        if any(at < end and begin < at + held_size for at, (_, held_size) in state.slots.items()):
            return None
        return operation_load(address, size, state.age)

    def _set(self, state: State, name: str, value: Value) -> None:
        full, size = REGISTERS.get(name, ("", 0))
        if not full:
            return
        if value is None or size < 4:
            if self.is_caller and size >= 4:
                state.registers[full] = ("some", self._now, full)
            else:
                state.registers.pop(full, None)
            return
        found = low(value, 4) if size == 4 else value
        assert found is not None
        state.registers[full] = found

    def _store(self, state: State, address: Value, value: Value, size: int) -> None:
        if value is not None and value[0] == "cfa":
            self.escaped.add(value[1])
        if address is None or address[0] != "cfa":
            state.age = max(state.age, self._now)
            return
        if value is None and self.is_caller:
            value = ("some", self._now, address[1])
        begin = address[1]
        overlapping = [
            at for at, (_, held) in state.slots.items() if at < begin + size and begin < at + held
        ]
        for at in overlapping:
            del state.slots[at]
        if value is not None:
            state.slots[begin] = (low(value, size), size)

    def _put(self, state: State, insn: Instruction, operand: Operand, value: Value) -> None:
        if operand.kind == "reg":
            self._set(state, operand.reg, value)
        else:
            address = self.address(state, insn, operand)
            self._store(state, address, value, operand.size)

    # -- instructions; each returns whether it was carried out ---------------------------------

    def _push(self, state: State, insn: Instruction) -> bool:
        value = self.get(state, insn, insn.operands[0])
        sp = plus(state.registers.get("rsp"), -8)
        if sp is None:
            state.registers.pop("rsp", None)
        else:
            state.registers["rsp"] = sp
            self._store(state, sp, value, 8)
        return True

    def _pop(self, state: State, insn: Instruction) -> bool:
        sp = state.registers.get("rsp")
        value = state.slots.get(sp[1], (None, 8))[0] if sp and sp[0] == "cfa" else None
        self._put(state, insn, insn.operands[0], value)
        self._move_sp(state, sp, 8)
        return True

    def _leave(self, state: State, insn: Instruction) -> bool:
        base = state.registers.get("rbp")
        if base is not None and base[0] == "cfa":
            value = state.slots.get(base[1], (None, 8))[0]
            self._move_sp(state, base, 8)
            self._set(state, "rbp", value)
        else:
            state.registers.pop("rsp", None)
            state.registers.pop("rbp", None)
        return True

    def _move_sp(self, state: State, sp: Value, by: int) -> None:
        moved = plus(sp, by)
        if moved is not None:
            state.registers["rsp"] = moved

    def _mov(self, state: State, insn: Instruction) -> bool:
        to, what = insn.operands
        value = self.get(state, insn, what)
        if what.kind == "imm" and to.kind == "mem":
            value = low(value, to.size)
        self._put(state, insn, to, value)
        return True

    _movabs = _mov

    def _movzx(self, state: State, insn: Instruction) -> bool:
        to, what = insn.operands
        self._put(state, insn, to, low(self.get(state, insn, what), what.size))
        return True

    def _movsx(self, state: State, insn: Instruction) -> bool:
        to, what = insn.operands
        self._put(state, insn, to, sign_extended(self.get(state, insn, what), what.size))
        return True

    _movsxd = _movsx

    def _cdqe(self, state: State, insn: Instruction) -> bool:
        self._set(state, "rax", sign_extended(state.registers.get("rax"), 4))
        return True

    def _lea(self, state: State, insn: Instruction) -> bool:
        to, what = insn.operands
        self._put(state, insn, to, self.address(state, insn, what))
        return True

    def _inc(self, state: State, insn: Instruction) -> bool:
        value = self.get(state, insn, insn.operands[0])
        self._put(state, insn, insn.operands[0], plus(value, 1 if insn.mnemonic == "inc" else -1))
        return True

    _dec = _inc

    def _neg(self, state: State, insn: Instruction) -> bool:
        value = self.get(state, insn, insn.operands[0])
        self._put(state, insn, insn.operands[0], operation(insn.mnemonic, value, ("const", 0)))
        return True

    _not = _neg

    def _xchg(self, state: State, insn: Instruction) -> bool:
        one, other = insn.operands
        if one.kind != "reg" or other.kind != "reg":
            return False
        a, b = self.get(state, insn, one), self.get(state, insn, other)
        self._put(state, insn, one, b)
        self._put(state, insn, other, a)
        return True

    def _cdq(self, state: State, insn: Instruction) -> bool:
        value = self.register(state, "eax")
        self._set(state, "rdx", None if value is None else ("sign of", value))
        return True

    def _idiv(self, state: State, insn: Instruction) -> bool:
        divisor = insn.operands[0]
        high, value = state.registers.get("rdx"), self.register(state, "eax")
        b = self.get(state, insn, divisor)
        if divisor.size != 4 or value is None or b is None or high != ("sign of", value):
            return False
        self._set(state, "eax", operation("/", value, b))
        self._set(state, "edx", operation("%", value, b))
        return True

    def _arithmetic(self, state: State, insn: Instruction) -> bool:
        operands = insn.operands
        if any(each.is_xmm for each in operands) or len(operands) < 2:
            return False
        to, other = operands[0], operands[1]
        name = insn.mnemonic
        if name in ("xor", "sub") and to.kind == other.kind == "reg" and to.reg == other.reg:
            self._put(state, insn, to, ("const", 0))
            return True
        if other.kind == "imm" and len(operands) == 2:
            # Short code for constants: or $-1, and $0.
            if name == "or" and signed(other.imm, to.size) == -1:
                self._put(state, insn, to, low(("const", MASK), to.size))
                return True
            if name == "and" and not other.imm:
                self._put(state, insn, to, ("const", 0))
                return True
        if len(operands) == 3:
            a, b = self.get(state, insn, other), ("const", operands[2].imm & MASK)
            self._put(state, insn, to, operation("*", a, b))
            return True
        left, right = self.get(state, insn, to), self.get(state, insn, other)
        value: Value = None
        if right is not None and right[0] == "const" and name in ("add", "sub"):
            number = signed(right[1], other.size)
            value = plus(left, number if name == "add" else -number)
            if to.size == 4:
                value = low(value, 4)
        elif left is not None and (name != "and" or left[0] != "cfa"):
            sign = f">>{to.size}" if name == "sar" else _BINARY[name]
            value = operation(sign, left, right)
        self._put(state, insn, to, value)
        return True

    # -- vector registers, which spill two arguments at once -----------------------------------

    def _vector_word(self, state: State, insn: Instruction) -> bool:
        to, what = insn.operands
        if to.is_xmm:
            if what.is_xmm:
                value = state.vectors.get(what.reg, (None, None))[0]
            else:
                value = self.get(state, insn, what)
            state.vectors[to.reg] = (value, ("const", 0))
        elif what.is_xmm:
            value = state.vectors.get(what.reg, (None, None))[0]
            self._put(state, insn, to, low(value, to.size))
        else:
            self._put(state, insn, to, self.get(state, insn, what))
        return True

    def _halves(self, state: State, insn: Instruction, operand: Operand) -> tuple[Value, Value]:
        if operand.is_xmm:
            return state.vectors.get(operand.reg, (None, None))
        place = self.address(state, insn, operand)
        return self._load(state, place, 8), self._load(state, plus(place, 8), 8)

    def _punpcklqdq(self, state: State, insn: Instruction) -> bool:
        operands = insn.operands
        first, second = operands[-2], operands[-1]
        if len(operands) == 2:
            first = operands[0]
        a = self._halves(state, insn, first)[0]
        state.vectors[operands[0].reg] = (a, self._halves(state, insn, second)[0])
        return True

    _vpunpcklqdq = _punpcklqdq

    def _pinsrq(self, state: State, insn: Instruction) -> bool:
        *places, what, which = insn.operands
        low_half, high_half = state.vectors.get(places[-1].reg, (None, None))
        value = self.get(state, insn, what)
        state.vectors[places[0].reg] = (low_half, value) if which.imm else (value, high_half)
        return True

    _vpinsrq = _pinsrq

    def _movhps(self, state: State, insn: Instruction) -> bool:
        to, what = insn.operands
        if not to.is_xmm:
            return False
        half = state.vectors.get(to.reg, (None, None))[0]
        state.vectors[to.reg] = (half, self._load(state, self.address(state, insn, what), 8))
        return True

    def _vector_move(self, state: State, insn: Instruction) -> bool:
        to, what = insn.operands[0], insn.operands[-1]
        if len(insn.operands) != 2 or "xmm" not in (to.reg[:3], what.reg[:3]):
            return False
        halves = self._halves(state, insn, what)
        if to.kind == "reg":
            state.vectors[to.reg] = halves
            return True
        place = self.address(state, insn, to)
        self._store(state, place, halves[0], 8)
        self._store(state, plus(place, 8), halves[1], 8)
        return True

    # -- anything else -------------------------------------------------------------------------

    def _forget_written(self, state: State, insn: Instruction) -> None:
        for name in insn.written:
            if name in REGISTERS:
                self._set(state, REGISTERS[name][0], None)
            elif name[1:3] == "mm":
                state.vectors.pop(f"xmm{name[3:]}", None)
        for each in insn.operands:
            if each.kind == "mem" and each.is_written:
                self._store(state, self.address(state, insn, each), None, max(each.size, 8))
            elif each.kind == "reg" and each.is_written and each.reg in REGISTERS:
                self._set(state, REGISTERS[each.reg][0], None)

    def _call(self, state: State, insn: Instruction) -> None:
        for name in ARGUMENTS:
            value = state.registers.get(name)
            if value is not None and value[0] == "cfa":
                self.escaped.add(value[1])
        state.age = max(state.age, insn.address)
        if self.is_caller:
            state.slots.clear()
        else:
            for at in self.escaped:
                state.slots.pop(at, None)
        for name in VOLATILE:
            state.registers.pop(name, None)
        state.registers["rax"] = ("some", insn.address)
        state.vectors.clear()
        sp = state.sp
        if sp is not None:
            # The callee may change its arguments on the stack, and all that is below.
            for at in [at for at in state.slots if at < sp]:
                del state.slots[at]


def operation_load(address: Value, size: int, age: int) -> Value:
    """Return the value of memory, None where it nests too deep."""
    if address is None or size not in (1, 2, 4, 8):
        return None
    return ("load", address, size, age) if depth(address) < DEEPEST else None
