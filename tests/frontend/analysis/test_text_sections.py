"""Outputs for several threads or frames, compared thread by thread and frame by frame."""

from __future__ import annotations

from pgdb.frontend.analysis.text_sections import merge_sections
from tests.support.merged_texts import said


def for_threads(*outputs: str) -> str:
    """Return what GDB prints for threads with these outputs, the highest number first."""
    return "".join(
        f'\nThread {number} (Thread 0x7f00{number:08x} (LWP {4000 + number}) "a (x): y"):\n{text}\n'
        for number, text in sorted(enumerate(outputs, 1), reverse=True)
    )


def test_threads_with_equal_outputs_are_joined_whatever_their_numbers() -> None:
    few = for_threads("$1 = 5", "$2 = 7", "$3 = 8")
    many = for_threads("$4 = 5", "$5 = 6", "$6 = 7", "$7 = 8")
    found = merge_sections(said(few, few, many))
    assert found is not None
    shown = {
        each.common: {number: str(ranks) for number, ranks in each.threads.items()}
        for each in found
    }
    assert shown["$… = 8"] == {"4": "2", "3": "0-1"}
    assert shown["$… = 7"] == {"3": "2", "2": "0-1"}
    assert shown["$… = 6"] == {"2": "2"}
    assert not any(each.places for each in found)


def test_addresses_of_threads_are_no_differences() -> None:
    first = for_threads("$1 = (void (*)()) 0x7f5512345678 <poll+4>", "$2 = 1")
    second = for_threads("$1 = (void (*)()) 0x7f6612345678 <poll+4>", "$2 = 1")
    found = merge_sections(said(first, second))
    assert found is not None
    assert [(each.common, str(each.ranks)) for each in found] == [
        ("$… = 1", "0-1"),
        ("$… = (void (*)()) … <poll+4>", "0-1"),
    ]


def test_parts_of_the_output_of_one_thread_are_compared() -> None:
    found = merge_sections(said(for_threads("level 0\nsize = 4"), for_threads("level 0\nsize = 5")))
    assert found is not None
    (only,) = found
    assert only.common == "level 0\nsize = …"
    assert [(place.path, place.texts[0][1], place.texts[1][1]) for place in only.places] == [
        ("size", "4", "5")
    ]


def frames(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def test_frames_are_paired_from_the_outermost_call_on() -> None:
    shallow = frames(
        "#0  leaf (n=1) at a.c:3", "$1 = 1", "#1  0x000055555555512a in main () at a.c:9", "$2 = 9"
    )
    deep = frames(
        "#0  leaf (n=1) at a.c:3",
        "$1 = 1",
        "#1  0x000055555555511a in work (n=2) at a.c:6",
        "$2 = 2",
        "#2  0x000055555555512a in main () at a.c:9",
        "$3 = 9",
    )
    found = merge_sections(said(shallow, deep, shallow))
    assert found is not None
    assert [(str(each.ranks), each.common) for each in found] == [
        ("0-2", "#0  leaf (n=1) at a.c:3\n$1 = 1"),
        ("1", "#1  work (n=2) at a.c:6\n$2 = 2"),
        ("0-2", "main () at a.c:9\n$… = 9"),
    ]


def test_other_outputs_have_no_sections() -> None:
    assert merge_sections(said("$1 = 5", "$1 = 6")) is None
    assert merge_sections(said(for_threads("1"), "No thread.")) is None
    assert merge_sections(said("")) is None
