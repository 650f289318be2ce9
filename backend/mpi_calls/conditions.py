"""Flags as symbolic values, and the instructions that read them: conditional moves and the like."""

from __future__ import annotations

from collections.abc import Callable

from pgdb.backend.mpi_calls.instructions import CONDITIONS, Instruction
from pgdb.backend.mpi_calls.operands import Operands
from pgdb.backend.mpi_calls.values import (
    DEEPEST,
    Flags,
    State,
    Value,
    depth,
    low,
    operation,
    select,
    sign_extended,
)

_KEEPING = frozenset(
    "mov movabs movzx movsx movsxd cdqe cwde cdq cqo lea push pop leave xchg not nop endbr64 bswap"
    " pause fnop prefetcht0 rorx sarx shlx shrx mulx pext pdep".split()
)
_COMPARING = ("comis", "ucomis", "vcomis", "vucomis", "ptest", "vptest", "vtest", "kortest")
_ONLY_ZERO_AND_SIGN = ("e", "ne", "s", "ns")
_ONLY_CARRY = ("b", "ae")


def keeps_flags(insn: Instruction) -> bool:
    """Return whether an instruction leaves the flags alone."""
    name = insn.mnemonic
    if name in _KEEPING or name.startswith(("cmov", "set")):
        return True
    is_vector = any(each.is_xmm for each in insn.operands)
    return is_vector and not name.startswith(_COMPARING)


class ConditionEffects(Operands):
    """Executor of instructions that set flags or depend on them."""

    def __init__(self, *, is_caller: bool) -> None:
        super().__init__(is_caller=is_caller)
        self.before: Flags = None
        """The flags before the instruction."""

    def conditional(self, name: str) -> Callable[[State, Instruction], bool] | None:
        """Return the method for an instruction whose name ends with a condition."""
        if name.startswith("cmov"):
            return self._move_if
        return self._set_if if name.startswith("set") else None

    def set_flags(self, state: State, kind: str, size: int, *values: Value) -> None:
        """Note what the flags are."""
        flags = (kind, size, *(low(each, size) for each in values))
        is_known = all(each is not None for each in flags) and depth(flags) <= DEEPEST
        state.flags = flags if is_known else None

    def set_result(self, state: State, size: int, value: Value) -> None:
        """Note that the flags for zero and for the sign are those of *value*."""
        self.set_flags(state, "result", size, value)

    # -- instructions; each returns whether it was carried out ---------------------------------

    def _cmp(self, state: State, insn: Instruction) -> bool:
        one, other = insn.operands
        values = self.get(state, insn, one), self.get(state, insn, other)
        self.set_flags(state, "sub", one.size, *values)
        return True

    def _test(self, state: State, insn: Instruction) -> bool:
        one, other = insn.operands
        value = self.get(state, insn, one)
        if one.kind != "reg" or other.kind != "reg" or one.reg != other.reg:
            value = operation("&", value, self.get(state, insn, other))
        self.set_flags(state, "logic", one.size, value)
        return True

    def _bt(self, state: State, insn: Instruction) -> bool:
        one, other = insn.operands
        if one.kind == "reg":
            number = operation(
                "&", low(self.get(state, insn, other), one.size), ("const", 8 * one.size - 1)
            )
            self.set_flags(state, "bit", one.size, self.get(state, insn, one), number)
        return True

    def _move_if(self, state: State, insn: Instruction) -> bool:
        to, what = insn.operands
        a, b = self.get(state, insn, what), self.get(state, insn, to)
        self._put(state, insn, to, select(insn.mnemonic[4:], self.before, a, b))
        return True

    def _set_if(self, state: State, insn: Instruction) -> bool:
        self._put(state, insn, insn.operands[0], _holds(insn.mnemonic[3:], self.before))
        return True

    def _sbb(self, state: State, insn: Instruction) -> bool:
        to, other = insn.operands
        carry = _holds("b", self.before)
        if to.kind == other.kind == "reg" and to.reg == other.reg:
            value = operation("neg", carry, ("const", 0))
        else:
            a, b = self.get(state, insn, to), self.get(state, insn, other)
            sign = "-" if insn.mnemonic == "sbb" else "+"
            value = operation(sign, operation(sign, a, b), carry)
        self._put(state, insn, to, value)
        self.set_result(state, to.size, value)
        return True

    _adc = _sbb

    # -- shifts and logic that leave the flags alone -------------------------------------------

    def _shlx(self, state: State, insn: Instruction) -> bool:
        to, what, by = insn.operands
        sign = {"shlx": "<<", "shrx": ">>"}.get(insn.mnemonic, f">>{to.size}")
        count = operation("&", self.get(state, insn, by), ("const", 8 * to.size - 1))
        self._put(state, insn, to, operation(sign, self.get(state, insn, what), count))
        return True

    _shrx = _sarx = _shlx

    def _andn(self, state: State, insn: Instruction) -> bool:
        to, one, other = insn.operands
        inverse = operation("not", self.get(state, insn, one), ("const", 0))
        value = operation("&", inverse, self.get(state, insn, other))
        self._put(state, insn, to, value)
        self.set_flags(state, "logic", to.size, value)
        return True

    # -- multiplications and divisions with a result in two registers --------------------------

    def _mul(self, state: State, insn: Instruction) -> bool:
        (what,) = insn.operands
        if what.size != 4:
            return False
        values = [self.register(state, "eax"), self.get(state, insn, what)]
        if insn.mnemonic == "imul":
            values = [sign_extended(each, 4) for each in values]
        product = operation("*", *values)
        self._set(state, "eax", product)
        self._set(state, "edx", operation(">>", product, ("const", 32)))
        return True

    def _imul(self, state: State, insn: Instruction) -> bool:
        return len(insn.operands) == 1 and self._mul(state, insn)

    def _cdq(self, state: State, insn: Instruction) -> bool:
        size = 4 if insn.mnemonic == "cdq" else 8
        value = self.register(state, "eax" if size == 4 else "rax")
        sign = operation(f">>{size}", value, ("const", 8 * size - 1))
        self._set(state, "edx" if size == 4 else "rdx", sign)
        return True

    _cqo = _cdq

    def _idiv(self, state: State, insn: Instruction) -> bool:
        divisor = insn.operands[0]
        size = divisor.size
        if size not in (4, 8):
            return False
        names = ("eax", "edx") if size == 4 else ("rax", "rdx")
        value, high = (self.register(state, each) for each in names)
        by = self.get(state, insn, divisor)
        is_signed = insn.mnemonic == "idiv"
        expected = (
            low(operation(f">>{size}", value, ("const", 8 * size - 1)), size)
            if is_signed
            else ("const", 0)
        )
        if value is None or by is None or high != expected:
            return False
        kind = f"{'s' if is_signed else 'u'}{size}"
        self._set(state, names[0], operation(f"/{kind}", value, by))
        self._set(state, names[1], operation(f"%{kind}", value, by))
        return True

    _div = _idiv


def _holds(condition: str, flags: Flags) -> Value:
    """Return 1 or 0, by a condition."""
    return ("holds", condition, flags) if flags is not None else None


def negated(number: int, size: int) -> bool:
    """Return whether the highest bit of a number is set."""
    return bool(number >> 8 * size - 1 & 1)


def is_true(condition: str, kind: str, size: int, values: list[int]) -> bool | None:
    """Return whether a condition holds after an operation on numbers; None if that is unknown."""
    test = CONDITIONS.get(condition)
    if test is None:
        return None
    mask = (1 << 8 * size) - 1
    a, b = (each & mask for each in (*values, 0)[:2])
    match kind:
        case "sub":
            result = a - b & mask
            overflow = negated((a ^ b) & (a ^ result), size)
            return test(result == 0, negated(result, size), a < b, overflow)
        case "add":
            result = a + b & mask
            overflow = negated((a ^ result) & (b ^ result), size)
            return test(result == 0, negated(result, size), result < a, overflow)
        case "logic":
            return test(a == 0, negated(a, size), False, False)
        case "bit" if condition in _ONLY_CARRY:
            return test(False, False, bool(a >> b & 1), False)
        case "result" if condition in _ONLY_ZERO_AND_SIGN:
            return test(a == 0, negated(a, size), False, False)
        case _:
            return None
