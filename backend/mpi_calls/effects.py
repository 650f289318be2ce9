"""The effect of one instruction of x86-64 on a symbolic state."""

from __future__ import annotations

from pgdb.backend.mpi_calls.conditions import ConditionEffects, keeps_flags
from pgdb.backend.mpi_calls.instructions import ARGUMENTS, REGISTERS, VOLATILE, Instruction, Operand
from pgdb.backend.mpi_calls.values import (
    MASK,
    State,
    Value,
    low,
    operation,
    plus,
    select,
    sign_extended,
    signed,
)

_NOTHING = frozenset(
    "endbr64 nop pause fnop ucomisd ucomiss comisd comiss vucomisd vucomiss vcomisd vcomiss"
    " ptest prefetcht0".split()
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
_SHIFTS = frozenset("shl sal shr sar".split())
_VECTOR_MOVES = frozenset(
    "movaps movups movdqa movdqu movapd movupd vmovdqa vmovdqu vmovaps vmovups vmovdqu64".split()
)


class Effects(ConditionEffects):
    """Executor of instructions on states."""

    def apply(self, state: State, insn: Instruction) -> None:
        """Apply an instruction that is no jump."""
        self._now = insn.address
        if insn.is_call:
            self._call(state, insn)
            return
        name = insn.mnemonic
        if not keeps_flags(insn):
            self.before, state.flags = state.flags, None
        else:
            self.before = state.flags
        if name in _NOTHING:
            return
        if insn.prefix in ("rep", "repz", "repne"):
            self._forget_written(state, insn)
            # It may have filled an array of the frame.
            to = state.registers.get("rdi")
            if insn.mnemonic[:4] in ("movs", "stos") and to is not None:
                self._store_element(state, to)
            elif insn.mnemonic[:4] in ("movs", "stos"):
                state.slots.clear()
            state.note_call(insn.address)
            return
        special = getattr(self, f"_{name}", None) or self.conditional(name)
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
        found = plus(value, 1 if insn.mnemonic == "inc" else -1)
        self._put(state, insn, insn.operands[0], found)
        self.set_result(state, insn.operands[0].size, found)
        return True

    _dec = _inc

    def _neg(self, state: State, insn: Instruction) -> bool:
        value = self.get(state, insn, insn.operands[0])
        self._put(state, insn, insn.operands[0], operation(insn.mnemonic, value, ("const", 0)))
        if insn.mnemonic == "neg":
            self.set_flags(state, "sub", insn.operands[0].size, ("const", 0), value)
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

    def _arithmetic(self, state: State, insn: Instruction) -> bool:
        operands = insn.operands
        if any(each.is_xmm for each in operands) or not operands:
            return False
        to = operands[0]
        name = insn.mnemonic
        if len(operands) == 1:
            # A shift by one.
            if name not in _SHIFTS:
                return False
            return self._combine(state, insn, name, self.get(state, insn, to), ("const", 1))
        other = operands[1]
        if name in ("xor", "sub") and to.kind == other.kind == "reg" and to.reg == other.reg:
            self._put(state, insn, to, ("const", 0))
            self.set_flags(state, "logic", to.size, ("const", 0))
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
        if name in _SHIFTS and right is not None and right[0] != "const":
            right = operation("&", right, ("const", 8 * to.size - 1 if to.size == 8 else 31))
        return self._combine(state, insn, name, left, right)

    def _combine(
        self, state: State, insn: Instruction, name: str, left: Value, right: Value
    ) -> bool:
        to = insn.operands[0]
        value: Value = None
        if right is not None and right[0] == "const" and name in ("add", "sub"):
            number = signed(right[1], insn.operands[1].size)
            value = plus(left, number if name == "add" else -number)
            if to.size == 4:
                value = low(value, 4)
        elif left is not None and (name != "and" or left[0] != "cfa"):
            sign = f">>{to.size}" if name == "sar" else _BINARY[name]
            value = operation(sign, left, right)
        self._put(state, insn, to, value)
        if name in ("add", "sub"):
            self.set_flags(state, name, to.size, left, right)
        elif name in ("and", "or", "xor"):
            self.set_flags(state, "logic", to.size, value)
        elif name in _SHIFTS and right is not None and right[0] == "const" and right[1]:
            self.set_result(state, to.size, value)
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

    def _pinsrd(self, state: State, insn: Instruction) -> bool:
        *places, what, which = insn.operands
        halves = list(state.vectors.get(places[-1].reg, (None, None)))
        half, value = which.imm >> 1 & 1, self.get(state, insn, what)
        if which.imm & 1:
            halves[half] = _joined(halves[half], value)
        else:
            old = halves[half]
            halves[half] = ("insert", 4, old, value) if value is not None else None
        state.vectors[places[0].reg] = (halves[0], halves[1])
        return True

    _vpinsrd = _pinsrd

    def _punpckldq(self, state: State, insn: Instruction) -> bool:
        operands = insn.operands
        first = operands[-2] if len(operands) == 3 else operands[0]
        a, b = (self._halves(state, insn, each)[0] for each in (first, operands[-1]))
        state.vectors[operands[0].reg] = (_joined(a, b), None)
        return True

    _vpunpckldq = _punpckldq

    def _least(self, state: State, insn: Instruction) -> bool:
        """Carry out a minimum or maximum of numbers of 32 bits, of which the first one counts."""
        operands = insn.operands
        first = operands[-2] if len(operands) == 3 else operands[0]
        a, b = (low(self._halves(state, insn, each)[0], 4) for each in (first, operands[-1]))
        name = insn.mnemonic.removeprefix("v")
        condition = {"pminsd": "l", "pmaxsd": "g", "pminud": "b", "pmaxud": "a"}[name]
        flags = ("sub", 4, a, b) if a is not None and b is not None else None
        value = select(condition, flags, a, b)
        found = ("insert", 4, None, value) if value is not None else None
        state.vectors[operands[0].reg] = (found, None)
        return True

    _pminsd = _pmaxsd = _pminud = _pmaxud = _least
    _vpminsd = _vpmaxsd = _vpminud = _vpmaxud = _least

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
        state.note_call(insn.address)
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


def _joined(lower: Value, upper: Value) -> Value:
    """Return the value of eight bytes that two numbers of four bytes make."""
    shifted = operation("<<", low(upper, 4), ("const", 32))
    if lower is None or shifted is None:
        return None
    return ("insert", 4, shifted, low(lower, 4))
