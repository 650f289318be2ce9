"""Arguments that depend on conditions: moves, sums of flags, branches, and tail calls."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pgdb.backend.mpi_calls.conditions import is_true
from pgdb.backend.mpi_calls.flow import Reached
from pgdb.backend.mpi_calls.frames import Evaluator, MachineFrame
from pgdb.backend.mpi_calls.values import Known, place_of, region_of
from tests.support.assembled import reached

pytestmark = pytest.mark.skipif(
    not shutil.which("objcopy"), reason="objcopy of binutils is missing"
)

CFA = 0x10000


class Words:
    """Memory of a stopped process: the words that a test puts there."""

    def __init__(self, words: dict[int, int]) -> None:
        self._words = words

    def word(self, address: int, size_bytes: int = 8) -> int | None:
        found = self._words.get(address)
        return None if found is None else found & ((1 << 8 * size_bytes) - 1)


def evaluated(
    found: Reached,
    register: str,
    *,
    preserved: dict[str, int] | None = None,
    memory: dict[int, int] | None = None,
    entry: dict[str, int] | None = None,
) -> int | None:
    """Return the value of a register at the call of a function, in a frame of it."""

    def of_entry(value: Known) -> int | None:
        return (entry or {}).get(value[1])

    evaluator = Evaluator(
        Words(memory or {}),  # type: ignore[arg-type]  # the part that is needed
        MachineFrame(pc=0, registers=preserved or {}),
        found,
        bias=0,
        cfa=CFA,
        entry=of_entry,
    )
    return evaluator.value(found.state.registers.get(register))


@pytest.mark.parametrize(("rank", "peer"), [(0, 7), (3, 2)])
def test_a_conditional_move_is_decided_by_what_its_flags_compared(
    tmp_path: Path, rank: int, peer: int
) -> None:
    # rank ? rank - 1 : 7, with the rank in a register that calls preserve
    text = (
        "push rbx\n mov ebx, edi\n call 0x100\n test ebx, ebx\n lea ecx, [rbx-1]\n mov eax, 7\n"
        "cmove ecx, eax\n call 0x200\n ret"
    )
    assert evaluated(reached(tmp_path, text), "rcx", preserved={"rbx": rank}) == peer


@pytest.mark.parametrize(("held", "result"), [(12, 12), (0xFFFFFFFB, 5)])
def test_the_size_of_a_number_is_known_however_long_its_way_is(
    tmp_path: Path, held: int, result: int
) -> None:
    # abs(x), which reads x three times; x is in a register that calls preserve, after many steps
    steps = "".join(f" imul ebx, ebx, {each}\n sub ebx, 5\n" for each in range(3, 7))
    text = (
        f"push rbx\n call 0x100\n mov ebx, eax\n{steps} mov ecx, ebx\n neg ecx\n cmovs ecx, ebx\n"
        "call 0x200\n ret"
    )
    assert evaluated(reached(tmp_path, text), "rcx", preserved={"rbx": held}) == result


def test_a_number_after_many_steps_is_computed_from_what_is_left(tmp_path: Path) -> None:
    steps = "".join(f" imul ecx, ecx, {each}\n sub ecx, 1\n" for each in range(2, 14))
    text = f"push rbx\n mov ebx, edi\n mov ecx, ebx\n{steps} call 0x100\n ret"
    expected = 3
    for each in range(2, 14):
        expected = expected * each - 1 & 0xFFFFFFFF
    assert evaluated(reached(tmp_path, text), "rcx", preserved={"rbx": 3}) == expected


@pytest.mark.parametrize(("rank", "result"), [(1, 5), (4, 6), (0xFFFFFFFF, 5)])
def test_numbers_made_of_flags(tmp_path: Path, rank: int, result: int) -> None:
    text = (
        "mov ebx, edi\n call 0x100\n xor ecx, ecx\n cmp ebx, 3\n setg cl\n add ecx, 5\n"
        "call 0x200\n ret"
    )
    assert evaluated(reached(tmp_path, text), "rcx", preserved={"rbx": rank}) == result


@pytest.mark.parametrize(("rank", "result"), [(1, 9), (4, 8)])
def test_numbers_made_of_the_carry(tmp_path: Path, rank: int, result: int) -> None:
    text = "mov ebx, edi\n call 0x100\n cmp ebx, 3\n sbb ecx, ecx\n neg ecx\n add ecx, 8\n"
    text += "call 0x200\n ret"
    assert evaluated(reached(tmp_path, text), "rcx", preserved={"rbx": rank}) == result


@pytest.mark.parametrize(("rank", "result"), [(0, 1), (2, 2), (5, 3)])
def test_the_way_to_a_join_is_found_by_the_conditions(
    tmp_path: Path, rank: int, result: int
) -> None:
    text = (
        "mov ebx, edi\n call 0x100\n test ebx, ebx\n je 1f\n cmp ebx, 4\n jg 2f\n mov ecx, 2\n"
        "jmp 3f\n1: mov ecx, 1\n jmp 3f\n2: mov ecx, 3\n3: call 0x200\n ret"
    )
    assert evaluated(reached(tmp_path, text), "rcx", preserved={"rbx": rank}) == result


def test_a_condition_that_has_changed_since_decides_nothing(tmp_path: Path) -> None:
    # The word that is tested may have been changed by the call in between.
    text = (
        "push rbx\n lea rdx, [rip+0x1000]\n mov eax, [rdx]\n mov ecx, 1\n mov ebx, 2\n"
        "test eax, eax\n cmove ecx, ebx\n mov r12, rdx\n mov [rsp-8], ecx\n call 0x100\n"
        "mov ecx, [rsp-8]\n test eax, eax\n call 0x200\n ret"
    )
    found = reached(tmp_path, text)
    assert evaluated(found, "rcx", memory={CFA - 24: 2}) == 2
    again = text.replace("mov [rsp-8], ecx\n", "").replace("mov ecx, [rsp-8]\n", "")
    assert evaluated(reached(tmp_path, again), "rcx", memory={0x1009: 1}) is None


def test_a_store_changes_what_was_loaded_before(tmp_path: Path) -> None:
    text = "mov ecx, [rip+0x1000]\n mov dword ptr [rip+{}], 5\n call 0x200\n ret"
    same = reached(tmp_path, text.format("0x1000 - 10"))
    assert evaluated(same, "rcx", memory={0x1006: 3}) is None
    other = reached(tmp_path, text.format("0x1000"))
    assert evaluated(other, "rcx", memory={0x1006: 3}) == 3


def test_a_store_by_a_pointer_changes_what_other_pointers_lead_to(tmp_path: Path) -> None:
    text = "mov ecx, [rdi]\n mov [{}], eax\n mov r12, rdi\n call 0x200\n ret"
    for place, known in (("rsi", None), ("rdi+8", 4), ("rdi+2", None), ("rsp-8", 4)):
        found = reached(tmp_path, text.format(place))
        assert evaluated(found, "rcx", preserved={"r12": 64}, memory={64: 4}) == known, place


def test_an_argument_that_a_register_holds_with_a_constant_added(tmp_path: Path) -> None:
    text = "mov ebx, edi\n1: mov ecx, ebx\n add ebx, 3\n call 0x200\n cmp ebx, 90\n jl 1b\n ret"
    assert evaluated(reached(tmp_path, text), "rcx", preserved={"rbx": 13}) == 10


def test_the_last_round_of_a_loop_is_not_known(tmp_path: Path) -> None:
    text = (
        "mov ebx, edi\n mov ecx, 1\n1: mov edx, ecx\n mov ecx, 2\n dec ebx\n jne 1b\n"
        "mov ecx, edx\n call 0x200\n ret"
    )
    assert evaluated(reached(tmp_path, text), "rcx", preserved={"rbx": 0}) is None


def test_division_of_numbers(tmp_path: Path) -> None:
    text = (
        "mov ebx, edi\n call 0x100\n mov eax, ebx\n mov ecx, 7\n cdq\n idiv ecx\n mov ecx, edx\n"
        "mov esi, eax\n call 0x200\n ret"
    )
    found = reached(tmp_path, text)
    assert evaluated(found, "rcx", preserved={"rbx": 30}) == 2
    assert evaluated(found, "rsi", preserved={"rbx": 30}) == 4


@pytest.mark.parametrize(
    ("condition", "kind", "values", "result"),
    [
        ("l", "sub", [0xFFFFFFFF, 1], True),
        ("b", "sub", [0xFFFFFFFF, 1], False),
        ("g", "sub", [0x7FFFFFFF, 0xFFFFFFFF], True),
        ("e", "logic", [0], True),
        ("be", "logic", [0], True),
        ("b", "add", [0xFFFFFFFF, 1], True),
        ("o", "add", [0x7FFFFFFF, 1], True),
        ("ne", "result", [0], False),
        ("b", "result", [0], None),
        ("b", "bit", [4, 2], True),
        ("e", "bit", [4, 2], None),
        ("p", "sub", [1, 2], None),
    ],
)
def test_conditions(condition: str, kind: str, values: list[int], result: bool | None) -> None:
    assert is_true(condition, kind, 4, values) is result


def test_places() -> None:
    element = ("op", "+", ("image", 8), ("op", "*", ("entry", "rdi"), ("const", 4)))
    assert region_of(element) == "image"
    assert region_of(("op", "+", ("entry", "rdi"), ("const", 4))) == "other"
    assert place_of(("op", "+", ("entry", "rdi"), ("const", 4))) == (("entry", "rdi"), 4)
