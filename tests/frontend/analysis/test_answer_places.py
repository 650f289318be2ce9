"""The places at which answers differ, for programs."""

from __future__ import annotations

import json

from pgdb.frontend.analysis.answer_places import MOST_PLACES, places_of
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.show.json import json_lines
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import normalize_record
from pgdb.ranks import RankSet
from pgdb.records import Record, Text, Value, Variable, Variables


def answer(*records: Record) -> Answer:
    classes = []
    for rank, record in enumerate(records):
        normalized = normalize_record(record)
        assert isinstance(normalized.record, Value | Variables | Text)
        classes.append(
            EquivalenceClass[Record](
                ranks=RankSet([rank]), record=normalized.record, slots=normalized.slots
            )
        )
    return Answer("print x", RankSet.range(0, len(records)), tuple(classes))


def found(said: Answer) -> list[tuple[str, list[tuple[str, str]]]]:
    return [
        (place.path, [(str(ranks), text) for ranks, text in place.texts])
        for place in places_of(said)
    ]


def test_fields_the_most_prominent_first() -> None:
    values = [f"{{a = {rank}, b = {5 if rank == 1 else 4}, c = 2.5}}" for rank in range(3)]
    values[2] = values[2].replace("2.5", "inf")
    assert found(answer(*map(Value, values))) == [
        (".c", [("0-1", "2.5"), ("2", "inf")]),
        (".b", [("0,2", "4"), ("1", "5")]),
        (".a", [("0", "0"), ("1", "1"), ("2", "2")]),
    ]


def test_variables_and_their_fields() -> None:
    records = [
        Variables(
            (
                Variable("p", f"(int *) 0x5555555592a{rank}"),
                Variable("n", str(rank)),
                Variable("s", f"{{x = {{1, {rank}}}}}"),
                Variable("n", "7" if rank == 2 else "6"),
            )
        )
        for rank in range(3)
    ]
    assert [path for path, _ in found(answer(*records))] == ["n (2)", "n", "s.x[1]"]


def test_variables_that_differ_behind_the_printed_part() -> None:
    records = [Variables((Variable("v", "{1...}", digest=f"0x{n}"),)) for n in (1, 1, 2)]
    assert [path for path, _ in found(answer(*records))] == ["v"]
    one = Variables((Variable("v", "{0 <repeats 900 times>}"),))
    other = Variables((Variable("v", "{0 <repeats 500 times>...}", digest="0x2"),))
    assert [path for path, _ in found(answer(one, other))] == ["v"]


def test_outputs_of_several_lines() -> None:
    texts = [f"rax 0x{rank} {rank}\nrbx 0x5 5\nrcx 1 1" for rank in (1, 1, 2)]
    assert found(answer(*map(Text, texts))) == [("rax", [("0-1", "0x1 1"), ("2", "0x2 2")])]
    assert found(answer(Text("a b\nc d"), Text("1 2\n3 4"))) == []
    assert found(answer(Text("5"), Text("6"))) == []


def test_numbers_have_no_places_and_long_lists_end() -> None:
    assert found(answer(Value("1"), Value("2"))) == []
    assert found(answer(Value("{a = 1}"))) == []
    fields = [", ".join(f"f{n} = {n + rank}" for n in range(300)) for rank in range(2)]
    many = answer(*(Value(f"{{{each}, g = 0}}") for each in fields))
    assert len(places_of(many)) == MOST_PLACES


def test_places_in_json() -> None:
    said = answer(*(Value(f"{{a = {rank}, b = 4}}") for rank in range(2)))
    line = json.loads(json_lines.encode(json_lines.answer(said, lambda _: "", 1.0)))
    assert line["places"] == [
        {"path": ".a", "texts": [{"ranks": "0", "text": "0"}, {"ranks": "1", "text": "1"}]}
    ]
    same = answer(Value("{a = 1}"), Value("{a = 1}"))
    assert "places" not in json.loads(json_lines.encode(json_lines.answer(same, lambda _: "", 1.0)))
