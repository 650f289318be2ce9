"""Long parts of structures: each is looked at alone, and its differences have places."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.comparing import compare
from pgdb.frontend.analysis.cut_parts import (
    Show,
    before_parts,
    count_of,
    cut_parts,
    is_kept_as_hashes,
    look_at_parts,
)
from pgdb.frontend.analysis.full_answers import part_of
from pgdb.frontend.analysis.long_differences import long_differences
from pgdb.frontend.analysis.values import parse
from pgdb.frontend.analysis.whole_values import is_partial, key_of
from pgdb.frontend.system.workers import beside
from pgdb.merge.classes import Merger
from pgdb.merge.normalize import normalize_values
from pgdb.overlay.messages import AnyOperation, Evaluate, ReadBlock
from pgdb.ranks import RankSet
from pgdb.records import Block, Failure, Record, Value

SHOWN = 2000
HEAD = "std::vector of length {0}, capacity {0} = "


def hashed(data: bytes) -> str:
    return f"0x{hashlib.blake2b(data, digest_size=16).hexdigest()}"


def _same(text: str, rank: int) -> str:
    del rank
    return text


class Ranks:
    """Ranks with a structure ``s`` that has arrays, of which GDB prints a part."""

    def __init__(
        self, *structures: dict[str, Sequence[Any]], text: Callable[[str, int], str] = _same
    ):
        self.structures = structures
        self.text = text
        self.asked: list[str] = []
        self.kept_history: list[bool] = []

    def part(self, name: str, rank: int) -> Value:
        values = self.structures[rank][name]
        array = numpy.array(values)
        whole = Block(dtype=array.dtype.str, shape=array.shape, data=array.tobytes())
        return Value(text="{1...}", digest=hashed(array.tobytes()), whole=whole)

    def struct(self, rank: int, *, whole: bool) -> Value:
        parts = []
        for name, values in self.structures[rank].items():
            shown = ", ".join(map(repr, values[:SHOWN])).replace("], [", "}, {")
            shown = re.sub(r"^\[", "{", re.sub(r"\]$", "}", shown))
            cut = "..." if len(values) > SHOWN else ""
            parts.append(f"{name} = {HEAD.format(len(values))}{{{shown}{cut}}}")
        text = self.text("{" + ", ".join(parts) + "}", rank)
        return Value(
            text=normalize_values(text, []),
            digest=hashed(normalize_values(text, []).encode()),
            whole=text if whole else None,
            looked_at=SHOWN,
        )

    async def ask(
        self,
        command: str,
        operation: AnyOperation,
        ranks: RankSet,
        *,
        timeout_s: float | None = None,
    ) -> Answer:
        del timeout_s
        self.asked.append(command)
        if isinstance(operation, Evaluate):
            self.kept_history.append(operation.keeps_history)
        merger: Merger[Record] = Merger()
        for rank in ranks:
            record: Record
            match operation:
                case Evaluate(expression="s", whole=whole):
                    record = self.struct(rank, whole=whole)
                case Evaluate(expression=expression) | ReadBlock(expression=expression):
                    name = expression.rpartition(".")[2]
                    if name not in self.structures[rank]:
                        record = Failure(message="gone")
                    elif isinstance(operation, Evaluate):
                        found = self.part(name, rank)
                        assert isinstance(found.whole, Block)
                        header = Block(dtype=found.whole.dtype, shape=found.whole.shape, data=b"")
                        shown = header if operation.whole else None
                        record = Value(text=found.text, digest=found.digest, whole=shown)
                    else:
                        block = self.part(name, rank).whole
                        assert isinstance(block, Block)
                        data = b"" if operation.start else block.data
                        record = Block(dtype=block.dtype, shape=block.shape, data=data, start=0)
                case _:
                    raise AssertionError(operation)
            merger.add(RankSet([rank]), record, ())
        return Answer(command=command, ranks=ranks, classes=merger.classes)

    def look(
        self, expression: str = "s", read_bytes: int = 1 << 25, *, show: Show = "differences"
    ) -> Answer:
        async def looked() -> Answer:
            everyone = RankSet.range(0, len(self.structures))
            answer = await self.ask(f"print {expression}", Evaluate(expression="s"), everyone)
            self.asked.clear()
            self.kept_history.clear()
            return await look_at_parts(
                answer,
                self.ask,
                limit_bytes=1 << 30,
                read_bytes=read_bytes,
                most_elements=SHOWN,
                part_elements=SHOWN,
                compute=beside,
                show=show,
            )

        return asyncio.run(looked())


def places(answer: Answer) -> dict[str, dict[str, str]]:
    """Return the text of each set of ranks, by place."""
    found = long_differences(answer.classes)
    assert found is not None
    return {place.path: {str(r): text for r, text in place.texts} for place in found.places}


def with_one(value: Any, at: int, other: Any, length: int = 5000) -> list[Any]:
    found = [value] * length
    found[at] = other
    return found


def test_a_prominent_element_of_an_array_that_differs_all_over_is_a_place() -> None:
    def moved(by: float, at: int, odd: float) -> dict[str, Sequence[Any]]:
        numbers = [number + by for number in range(5000)]
        numbers[at] = odd
        return {"x": numbers, "few": [1, 2]}

    nan = moved(0.5, 4321, float("nan"))
    ranks = Ranks(moved(0.0, 40, 1.0), moved(0.0, 40, 1.0), nan, moved(0.5, 40, 9.0))
    answer = ranks.look()
    found = long_differences(answer.classes)
    assert found is not None and found.cut == (".x",)
    assert {".x[4321]"} <= {place.path for place in found.places}
    # A few places that differ are all there.
    few = [{"x": with_one(1.0, at, 2.0)} for at in (4000, 4100, 4100)]
    found = long_differences(Ranks(*few).look().classes)
    assert found is not None and found.cut == () and len(found.places) == 2


def test_arrays_of_other_lengths_that_are_too_long_for_a_text_are_named() -> None:
    short, long = {"x": [1.5] * 21_000, "n": [1]}, {"x": [1.5] * 22_000, "n": [2]}
    found = long_differences(Ranks(short, short, long).look().classes)
    assert found is not None and found.cut == (".x",)
    assert ".n[0]" in {place.path for place in found.places}


def test_an_element_behind_the_text_of_a_structure_is_a_place() -> None:
    usual = {"x": [1.5] * 5000, "n": [7] * 5000, "few": [1, 2]}
    odd = {"x": with_one(1.5, 4321, float("nan")), "n": with_one(7, 2000, 8), "few": [1, 2]}
    ranks = Ranks(usual, usual, odd)
    answer = ranks.look()
    assert [str(each.ranks) for each in answer.classes] == ["0-1", "2"]
    assert not any(is_partial(each.record) for each in answer.classes)
    found = places(answer)
    assert found.keys() == {".x[4321]", ".n[2000]"}
    assert found[".n[2000]"] == {"0-1": "7", "2": "8"}
    # "$" is the value still, and none of its parts.
    assert "print s.n" in ranks.asked and "print s.few" not in ranks.asked
    assert all(ranks.kept_history)


def test_a_saved_answer_has_no_marks_in_place_of_values() -> None:
    answer = before_parts(Ranks({"x": [1] * 5000}, {"x": with_one(1, 4000, 2)}).look())
    for each in answer.classes:
        assert type(each.record) is Value and each.record.looked_at == SHOWN
        assert isinstance(each.record.whole, str) and "<equal>" not in each.record.whole


def test_parts_that_are_kept_as_hashes_show_which_part_has_changed() -> None:
    usual: dict[str, Sequence[Any]] = {"x": [1] * 5000, "y": [2] * 5000}
    other: dict[str, Sequence[Any]] = {"x": [1] * 5000, "y": with_one(2, 4000, 3)}
    before, same, after = (
        Ranks(*structures).look(show="hashes")
        for structures in ((usual, other), (usual, other), (other, other))
    )
    assert all(is_kept_as_hashes(each.record) for each in before.classes)
    assert not any(is_partial(each.record) for each in before.classes)
    assert compare(before, same).same
    found = compare(before, after)
    assert str(found.equal) == "1"
    (difference,) = found.differences
    assert str(difference.ranks) == "0" and [part.path for part in difference.parts] == [".y"]
    # A single rank, too.
    assert all(map(is_kept_as_hashes, [Ranks(usual).look(show="hashes").classes[0].record]))


def test_elements_of_long_parts_are_put_into_the_text_and_hashes_of_very_long_ones() -> None:
    usual: dict[str, Sequence[Any]] = {"x": [1] * 5000, "y": [2] * 30_000, "z": [3] * 5000}
    other = {**usual, "x": with_one(1, 4000, 7), "y": with_one(2, 25_000, 7, 30_000)}
    answer = Ranks(usual, other).look(show="elements")
    texts = {str(each.ranks): each.record.whole for each in answer.classes}  # type: ignore[union-attr]
    assert all(type(text) is str and "<equal>" not in text for text in texts.values())
    fields = answer.fields()
    assert fields[".x[4000]"].values.tolist() == [1, 7]
    assert fields[".z[0]@5000"].values.tolist() == [3, 3]
    hashes = fields[".y"].values.tolist()
    assert len({*hashes}) == 2 and all("<elements with hash " in each for each in hashes)
    assert not any(is_partial(each.record) for each in answer.classes)
    # A single rank, too.
    alone = Ranks(usual).look(show="elements")
    assert alone.fields()[".x[0]@5000"].values.tolist() == [1]


def test_unordered_containers_in_other_orders_are_equal_only_with_their_parts() -> None:
    def turned(text: str, rank: int) -> str:
        one, other = ("1", "2") if rank else ("2", "1")
        found = f"std::unordered_set with 2 elements = {{[0] = {one}, [1] = {other}}}"
        return text.replace("{x", f"{{s = {found}, x", 1)

    same = Ranks({"x": [1] * 5000}, {"x": [1] * 5000}, text=turned).look()
    other = Ranks({"x": [1] * 5000}, {"x": with_one(1, 4000, 2)}, text=turned).look()
    keys = [{key_of(each.record) for each in answer.classes} for answer in (same, other)]
    assert [len(each) for each in keys] == [1, 2]
    assert len(same.classes) == 2


def test_two_sides_of_ranks_are_compared_with_their_parts() -> None:
    answer = Ranks({"x": [1] * 5000}, {"x": [1] * 5000}, {"x": with_one(1, 4000, 2)}).look()
    first, *others = (part_of(answer, RankSet([rank])) for rank in range(3))
    for by in ("value", "position"):
        equal, different = (compare(first, other, by=by) for other in others)
        assert equal.equal and not different.equal
    ((part,),) = (each.parts for each in different.differences)
    assert (part.path, part.before, part.after) == (".x[4000]", "1", "2")


def test_equal_structures_are_equal_in_full() -> None:
    usual = {"x": [1.5] * 5000}
    (alone,) = Ranks(usual, usual).look().classes
    assert str(alone.ranks) == "0-1" and not is_partial(alone.record)


def test_addresses_beside_a_null_pointer_are_no_differences() -> None:
    def linked(text: str, rank: int) -> str:
        return text.replace("{x", f"{{next = 0x0, data = 0x7f3ac000201{rank}, x", 1)

    answer = Ranks({"x": with_one(1, 3, 0)}, {"x": with_one(1, 4000, 2)}, text=linked).look()
    assert places(answer).keys() == {".x[3]", ".x[4000]"}


def test_ranks_that_differ_in_the_text_and_behind_it() -> None:
    texts = [with_one(0, 3, 1), with_one(0, 4500, 9), with_one(0, 4500, 9), [0] * 5000]
    answer = Ranks(*({"x": text} for text in texts)).look()
    assert [str(each.ranks) for each in answer.classes] == ["0", "1-2", "3"]
    found = places(answer)
    assert found[".x[3]"] == {"1-3": "0", "0": "1"}
    assert found[".x[4500]"] == {"0,3": "0", "1-2": "9"}


def test_arrays_of_other_lengths_are_compared_as_far_as_both_reach() -> None:
    answer = Ranks({"x": [1] * 5000}, {"x": with_one(1, 4000, 2, length=5001)}).look()
    found = places(answer)
    assert found[".x[4000]"] == {"0": "1", "1": "2"}
    assert found[".x[5000]"] == {"0": "(none)", "1": "1"}


def test_a_part_that_is_too_long_to_be_read_differs_all_the_same() -> None:
    answer = Ranks({"x": [1] * 5000}, {"x": with_one(1, 4000, 2)}).look(read_bytes=64)
    one, other = (each.record for each in answer.classes)
    assert isinstance(one, Value) and isinstance(other, Value)
    assert one.digest != other.digest and not one.looked_at


def test_a_part_that_cannot_be_evaluated_is_not_known() -> None:
    def unnamed(text: str, rank: int) -> str:
        del rank
        return text.replace("x ", "y ")

    ranks = Ranks({"x": [1] * 5000}, {"x": [1] * 5000}, text=unnamed)
    (alone,) = ranks.look().classes
    assert is_partial(alone.record) and "print s.y" in ranks.asked


@pytest.mark.parametrize("expression", ["f(s)", "a[f (1)]"])
def test_nothing_is_called_again(expression: str) -> None:
    ranks = Ranks({"x": [1] * 5000}, {"x": [1] * 5000})
    answer = ranks.look(expression)
    assert all(is_partial(each.record) for each in answer.classes) and not ranks.asked


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("{1, 2...}", [""]),
        ("{a = 1, x = {{1, 2}, {3...}...}, y = {{1, 2}}}", [".x"]),
        ("{v = {{x = {1...}}, {x = {2...}} <repeats 12 times>}}", [".v[0].x", ".v[1].x"]),
        ("{<Base> = {x = {1...}}, x = {2...}}", [".Base::x", ".x"]),
        ('{s = \'x\' <repeats 200 times>..., t = "ab"..., u = 0x41 "no"}', [".s", ".t"]),
        ('{m = std::map with 2 elements = {["a"] = {1...}, ["b"] = {2}}}', ['.m["a"]']),
        ("{s = std::unordered_set with 2 elements = {[0] = 1...}}", [".s"]),
        ("( n = 3, x = (1, 2, ...), p = (( y = (1, ...) )) )", ["%x", "%p(1)%y"]),
        ("{f = {int (const char *, ...)} 0x401136 <main>}", []),
    ],
)
def test_parts_of_which_the_text_is_cut(text: str, paths: list[str]) -> None:
    assert [*cut_parts(parse(text))] == paths


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("std::map with 3000 elements = {[0] = {a = 1}...}", 3000),
        ("std::vector of length 12, capacity 16 = {{a = 1}...}", 12),
        ("std::map with 1 element = {[0] = 1}", 1),
        ("{a = 1}", 0),
        ("3", 0),
    ],
)
def test_the_number_of_elements_is_known_from_the_head(text: str, count: int) -> None:
    assert count_of(parse(text)) == count


@pytest.mark.parametrize(("count", "most"), [(3000, 8000), (9000, SHOWN)])
def test_containers_are_printed_again_only_if_all_of_them_can_be(count: int, most: int) -> None:
    asked: dict[str, int] = {}

    async def ask(
        command: str, operation: AnyOperation, ranks: RankSet, *, timeout_s: float | None = None
    ) -> Answer:
        del timeout_s
        assert isinstance(operation, Evaluate)
        asked[operation.expression] = operation.most_elements
        head = f"std::map with {count} elements = "
        text = f"{{m = {head}{{[0] = {{a = 1}}...}}, n = {head}{{[0] = {{a = 1}}...}}}}"
        whole = text if operation.whole else None
        value = Value(text=text, digest="0x1", whole=whole, looked_at=SHOWN)
        merger: Merger[Record] = Merger()
        merger.add(ranks, value, ())
        return Answer(command=command, ranks=ranks, classes=merger.classes)

    async def look() -> Answer:
        everyone = RankSet.range(0, 2)
        answer = await ask("print s", Evaluate(expression="s"), everyone)
        return await look_at_parts(
            answer,
            ask,
            limit_bytes=1,
            read_bytes=1,
            most_elements=SHOWN,
            part_elements=16000,
            compute=beside,
        )

    asyncio.run(look())
    assert asked == {"s": SHOWN, "s.m": most, "s.n": most}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('std::vector of length 9, capacity 9 = {"abc", "abc", "abc"...}', [""]),
        ('{s = std::vector of length 9, capacity 9 = {"abc", "abcd"...}}', [".s"]),
        ('std::vector of length 2, capacity 2 = {"abc", "abc"...}', ["[1]"]),
        ('{n = {"ab", "cd", "ef"...}}', [".n"]),
        ('{n = {"ab", "cdef"...}}', [".n[1]"]),
        ('std::map with 7 elements = {["a"] = "x", ["b"] = "y"...}', [""]),
    ],
)
def test_dots_behind_the_last_string_are_of_the_container(text: str, paths: list[str]) -> None:
    assert [*cut_parts(parse(text))] == paths
