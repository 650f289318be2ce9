"""Templates: the extracted parts fill the template again, for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.merge.templates import (
    Templated,
    TemplateTable,
    count_placeholders,
    extract_template,
    fill_rows,
    fill_template,
    nothing_common,
)
from pgdb.records import (
    PLACEHOLDER,
    SLOT,
    Failure,
    Frame,
    Stack,
    Text,
    Threads,
    ThreadStack,
    Value,
    Variable,
    Variables,
)
from tests.support.strategies import templated


@given(templated)
def test_the_parts_fill_the_template(record: Templated) -> None:
    template, parts = extract_template(record)
    assert type(template) is type(record)
    assert count_placeholders(template) == len(parts)
    assert fill_template(template, parts) == record


@given(
    st.text(alphabet=f"{PLACEHOLDER}{SLOT}\"'\\0123.xe+-naif_ {{}}=,$\n", max_size=40) | st.text()
)
def test_any_text_can_be_taken_apart(text: str) -> None:
    for record in (Value(text=text), Text(text=text), Failure(message=text)):
        template, parts = extract_template(record)
        assert fill_template(template, parts) == record


@given(templated)
def test_a_template_does_not_take_other_numbers_of_parts(record: Templated) -> None:
    template, parts = extract_template(record)
    with pytest.raises(ValueError, match="more parts than placeholders"):
        fill_template(template, (*parts, "1"))
    if parts:
        with pytest.raises(ValueError, match="fewer parts than placeholders"):
            fill_template(template, parts[:-1])


@pytest.mark.parametrize(
    ("text", "template", "parts"),
    [
        ("42", "□", ["42"]),
        ("-1.5e-07", "□", ["-1.5e-07"]),
        ("0x10", "□", ["0x10"]),
        ("nan(0x8000000000000)", "□", ["nan(0x8000000000000)"]),
        ("-nan(0x8000000000000)", "□", ["-nan(0x8000000000000)"]),
        ("-inf", "□", ["-inf"]),
        ("97 'a'", "□ □", ["97", "'a'"]),
        ("39 '\\''", "□ □", ["39", "'\\''"]),
        ('"a\\"b 3", \'\\000\' <repeats 15 times>', "□, □ <repeats □ times>", None),
        ('{id = 3, x = {1, 2.5}, name = 0x4006 "a"}', "{id = □, x = {□, □}, name = □ □}", None),
        ("{0 <repeats 200 times>, 1...}", None, None),
        (f"(int *) {SLOT} <buf+8>", f"(int *) {SLOT} <buf+□>", ["8"]),
        ("<optimized out>", "<optimized out>", []),
        ("Cannot access memory at address 0x10", "Cannot access memory at address □", ["0x10"]),
        # Digits inside names are not numbers.
        ("x86_64 u8 $1 a.5 step2", "x86_64 u8 $1 a.5 step2", []),
        ("RED", "RED", []),
        ("(RED | 4)", "(RED | □)", ["4"]),
        ("1 + 2i", None, None),
        ("true", "true", []),
    ],
)
def test_texts_as_gdb_prints_them(text: str, template: str | None, parts: list[str] | None) -> None:
    found, taken = extract_template(Value(text=text))
    assert fill_template(found, taken) == Value(text=text)
    assert isinstance(found, Value)
    if template is not None:
        assert found.text == template.replace("□", PLACEHOLDER)
    if parts is not None:
        assert list(taken) == parts


def frame(function: str, value: str) -> Frame:
    return Frame(level=0, function=function, arguments=(Variable(name="n", value=value),), line=7)


def test_names_and_places_are_no_parts() -> None:
    records: list[tuple[Templated, tuple[str, ...]]] = [
        (Stack(frames=(frame("f2", "1"),)), ("1",)),
        (Threads(stacks=(ThreadStack(stack=Stack(frames=(frame("f2", "1"),)), count=3),)), ("1",)),
        (Variables(items=(Variable(name="a1", value="2"), Variable(name="b", value="c3"))), ("2",)),
    ]
    for record, parts in records:
        assert extract_template(record)[1] == parts


def test_what_has_nothing_in_common_has_no_placeholders() -> None:
    for kind in (Stack, Threads, Value, Variables, Text, Failure):
        template = nothing_common(kind)
        assert type(template) is kind and count_placeholders(template) == 0
        assert extract_template(template) == (template, ())


@given(st.lists(templated, min_size=1, max_size=6), st.data())
def test_a_table_takes_and_fills_as_without_it(
    records: list[Templated], data: st.DataObject
) -> None:
    table = TemplateTable()
    for _ in range(8):
        record = data.draw(st.sampled_from(records))
        template, parts = extract_template(record)
        if data.draw(st.booleans()):
            assert table.extract(record) == (template, parts)
        else:
            assert (
                table.fill_rows(template, parts, 2) == fill_rows(template, parts, 2) == [record] * 2
            )


def test_a_table_fills_each_record_once() -> None:
    table = TemplateTable()
    template, _ = extract_template(Value(text="{1, 2}"))
    first = table.fill_rows(template, ["1", ("2", "3")], 2)
    again = table.fill_rows(template, [("1", "1", "4"), ("3", "2", "5")], 3)
    assert [each.text for each in again] == ["{1, 3}", "{1, 2}", "{4, 5}"]  # type: ignore[union-attr]
    assert again[0] is first[1] and again[1] is first[0]
    assert table.extract(again[2]) == (template, ("4", "5"))


@pytest.mark.parametrize("columns", [["1"], ["1", "2", "3"], ["1", ("2", "3", "4")]])
def test_a_table_refuses_parts_that_do_not_fit(columns: list[str | tuple[str, ...]]) -> None:
    template, _ = extract_template(Value(text="{1, 2}"))
    with pytest.raises(ValueError):
        TemplateTable().fill_rows(template, columns, 2)


def _called_from(address: str, argument: str) -> Stack:
    """Return a stack with a frame at an address that no object file holds."""
    caller = Frame(
        level=1, function="main", arguments=(Variable("c", argument, is_argument=True),), line=25
    )
    return Stack(frames=(Frame(level=0, function=address), caller))


@pytest.mark.parametrize("address", ["0xa8", "0", "0x18c4834800890274", PLACEHOLDER])
def test_an_address_for_the_name_of_a_function_is_a_part_of_its_own(address: str) -> None:
    stack = _called_from(address, "<optimized out>")
    for record in (stack, Threads(stacks=(ThreadStack(stack=stack),))):
        template, parts = extract_template(record)
        assert fill_template(template, parts) == record


def test_addresses_for_names_of_functions_differ_from_rank_to_rank() -> None:
    stacks = [_called_from("0xa8", "1"), _called_from("0xb0", "2")]
    (template, first), (same, second) = map(extract_template, stacks)
    assert template == same
    assert fill_rows(template, [*zip(first, second, strict=True)], 2) == stacks
