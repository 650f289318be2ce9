"""Lists of threads of many ranks as one list."""

from __future__ import annotations

from pgdb.frontend.analysis.thread_lists import merge_thread_lists
from tests.support.merged_texts import said

HEAD = "  Id   Target Id                                   Frame \n"


def row(number: int, frame: str, *, rank: int = 0, current: bool = False, name: str = "app") -> str:
    mark = "*" if current else " "
    address = f"0x7f{rank:02x}5bd8f{number}40"
    return f'{mark} {number}    Thread {address} (LWP {100 * rank + number}) "{name}" {frame}\n'


def rows(*texts: str) -> list[tuple[str, str, bool, str, str]] | None:
    found = merge_thread_lists(said(*texts))
    if found is None:
        return None
    return [
        (str(each.ranks), each.number, each.is_current, each.target, each.frame) for each in found
    ]


def test_each_thread_once_for_each_function() -> None:
    poll = "0x00007f6a5b1234{rank}a in poll (timeout={timeout}) at poll.c:29"
    texts = [
        HEAD
        + row(1, f"step (n={rank}) at a.c:{7 if rank == 1 else 5}", rank=rank, current=True)
        + row(2, poll.format(rank=rank, timeout=3000 - rank), rank=rank)
        for rank in range(3)
    ]
    texts[2] += row(3, "wait () at w.c:4", rank=2)
    found = rows(*texts)
    assert found is not None
    target = 'Thread … (LWP …) "app"'
    assert found[0] == ("0,2", "1", True, target, "step (n=…) at a.c:5")
    assert found[1][:3] == ("1", "1", True)
    assert found[1][4] == "step (n=1) at a.c:7"
    assert found[2] == ("0-2", "2", False, target, "poll (timeout=…) at poll.c:29")
    assert (found[3][0], found[3][1], found[3][4]) == ("2", "3", "wait () at w.c:4")


def test_ranks_with_other_current_threads() -> None:
    texts = [
        HEAD
        + row(1, "main () at a.c:5", rank=rank, current=rank != 1)
        + row(2, "(running)", rank=rank, current=rank == 1)
        for rank in range(3)
    ]
    found = rows(*texts)
    assert found is not None
    assert [each[:3] for each in found] == [
        ("0,2", "1", True),
        ("1", "1", False),
        ("0,2", "2", False),
        ("1", "2", True),
    ]


def test_names_may_differ_and_have_any_characters() -> None:
    texts = [
        HEAD + row(1, 'f (s="a) at b:1") at a.c:5', rank=rank, name=f'w "{rank}" (x)')
        for rank in range(2)
    ]
    texts = [text.replace('"w "', '"w \\"').replace('" (x)"', '\\" (x)"') for text in texts]
    found = rows(*texts)
    assert found is not None
    assert found[0][0] == "0-1"
    assert found[0][4] == 'f (s="a) at b:1") at a.c:5'


def test_other_texts_are_no_lists() -> None:
    assert rows("No threads.\n", HEAD + row(1, "main ()")) is None
    assert rows(HEAD + "something else\n") is None
