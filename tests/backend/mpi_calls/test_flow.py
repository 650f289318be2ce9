"""Data flow through machine code that a compiler has made, and its values in frames."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pgdb.backend.mpi_calls.frames import compute
from pgdb.backend.mpi_calls.values import State, entry_state, low, meet, plus
from tests.support.assembled import reached

pytestmark = pytest.mark.skipif(
    not shutil.which("objcopy"), reason="objcopy of binutils is missing"
)


def test_constants_and_entry_values(tmp_path: Path) -> None:
    state = reached(
        tmp_path,
        "push rbx\n mov ebx, esi\n mov edx, 7\n lea ecx, [rbx+2]\n mov edi, ebx\n call 0x100\n ret",
    ).state
    assert state.registers["rdx"] == ("const", 7)
    assert state.registers["rdi"] == ("low", 4, ("entry", "rsi"))
    assert state.sp == -16


def test_short_code_for_constants(tmp_path: Path) -> None:
    state = reached(tmp_path, "or ecx, -1\n and edx, 0\n or r8, -1\n call 0x100\n ret").state
    assert state.registers["rcx"] == ("const", 0xFFFFFFFF)
    assert state.registers["rdx"] == ("const", 0)
    assert state.registers["r8"] == ("const", (1 << 64) - 1)


def test_values_of_two_ways_are_one_symbol(tmp_path: Path) -> None:
    state = reached(
        tmp_path,
        "test edi, edi\n je 1f\n mov ebx, 1\n jmp 2f\n1: mov ebx, 2\n2: mov esi, ebx\n"
        "mov edx, 5\n call 0x100\n ret",
    ).state
    assert state.registers["rsi"][:2] == ("low", 4)
    assert state.registers["rsi"][2] == state.registers["rbx"]
    assert state.registers["rdx"] == ("const", 5)


def test_values_of_two_ways_are_unknown_in_a_callee(tmp_path: Path) -> None:
    state = reached(
        tmp_path,
        "mov rbx, rdi\n mov r12, rsi\n test edi, edi\n je 1f\n mov rbx, rdx\n1: call 0x100\n ret",
        is_caller=False,
    ).state
    assert "rbx" not in state.registers
    assert state.registers["r12"] == ("entry", "rsi")


def test_slots_are_lost_when_their_address_is_passed_on(tmp_path: Path) -> None:
    text = (
        "sub rsp, 40\n mov [rsp+8], rdi\n mov [rsp+16], rsi\n lea rdi, [rsp+8]\n call 0x100\n"
        "call 0x200\n ret"
    )
    state = reached(tmp_path, text, is_caller=False).state
    assert [value for value, _ in state.slots.values() if value == ("entry", "rdi")] == []
    assert (("entry", "rsi"), 8) in state.slots.values()


def test_loops_settle(tmp_path: Path) -> None:
    state = reached(
        tmp_path,
        "mov r12d, edi\n xor ebx, ebx\n1: mov edi, r12d\n mov esi, ebx\n call 0x100\n inc ebx\n"
        "cmp ebx, 10\n jne 1b\n ret",
    ).state
    assert state.registers["rdi"] == ("low", 4, ("entry", "rdi"))
    assert state.registers["rsi"][0] == "low"


def test_two_arguments_in_one_vector_register(tmp_path: Path) -> None:
    state = reached(
        tmp_path,
        "sub rsp, 24\n movq xmm0, rdi\n movq xmm1, rsi\n punpcklqdq xmm0, xmm1\n"
        "movaps [rsp], xmm0\n call 0x100\n ret",
        is_caller=False,
    ).state
    assert state.slots[-32] == (("entry", "rdi"), 8)
    assert state.slots[-24] == (("entry", "rsi"), 8)


def test_switch_tables_are_followed(tmp_path: Path) -> None:
    text = (
        "mov r12d, esi\n cmp edi, 1\n ja 9f\n lea rax, [rip+5f]\n"
        "movsxd rdi, dword ptr [rax+rdi*4]\n"
        "add rdi, rax\n jmp rdi\n1: mov ebx, 4\n jmp 3f\n2: mov ebx, 4\n3: mov edi, ebx\n"
        "mov esi, r12d\n call 0x200\n9: ret\n5: .long 1b-5b, 2b-5b"
    )
    state = reached(tmp_path, text).state
    assert state.registers["rdi"] == ("const", 4)
    assert state.registers["rsi"] == ("low", 4, ("entry", "rsi"))


def test_a_join_keeps_the_common_part() -> None:
    one, other = entry_state(), entry_state()
    other.registers["rdi"] = ("const", 1)
    del other.registers["rsi"]
    joined = meet([one, other], 5, keeps_symbols=False)
    assert "rdi" not in joined.registers and "rsi" not in joined.registers
    assert joined.registers["rdx"] == ("entry", "rdx")


def test_values() -> None:
    assert plus(("const", 3), -4) == ("const", (1 << 64) - 1)
    assert plus(plus(("entry", "rdi"), 8), -8) == ("entry", "rdi")
    assert low(("const", 0x1_0000_0005), 4) == ("const", 5)
    assert isinstance(State().copy(), State)


@pytest.mark.parametrize(
    ("sign", "a", "b", "result"),
    [
        ("-", 1, 2, (1 << 64) - 1),
        ("/s4", 7, 0xFFFFFFFE, 0xFFFFFFFD),
        ("%s4", 7, 2, 1),
        ("/u4", 1, 0, None),
        (">>4", 0xFFFFFFF0, 2, (1 << 64) - 4),
        ("<<", 1, 65, 2),
        ("?", 1, 1, None),
    ],
)
def test_operations(sign: str, a: int, b: int, result: int | None) -> None:
    assert compute(sign, a, b) == result
