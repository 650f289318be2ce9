"""Values are read from the memory of real interpreters, or the reason why not is given."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pgdb.backend.python import arrays, reader, values
from pgdb.backend.python.objects import UnknownError
from pgdb.backend.python.reader import PythonFrame
from pgdb.backend.python.values import Interpreter
from pgdb.errors import UsageError
from tests.support.programs import ROOT
from tests.support.python_processes import PythonProcess, value
from tests.support.python_processes import running as running_program
from tests.support.pythons import interpreters

pytestmark = pytest.mark.skipif(not reader.program(), reason="py-spy is not installed")
PROGRAM = ROOT / "tests" / "programs" / "python_values.py"


def running(python: str, *words: str) -> AbstractContextManager[PythonProcess]:
    return running_program(python, PROGRAM, *words)


EXPECTED = {
    "TABLE": "{'a': [1, 2.5, None, True, 'h\u00e9', 'xxx'], 3: (1,)}",
    "TABLE['a'][4]": "'h\u00e9'",
    "TABLE[3]": "(1,)",
    "BIG": "-12345678901234567890",
    "EMPTY": "{}",
    "plain.number": "1",
    "plain.items": "[1, 2]",
    "plain.items[-1]": "2",
    "plain.slotted.first": "9",
    "plain.shared": "'class value'",
    "derived.later": "5",
    "derived.number": "1",
    "derived.shared": "'class value'",
    "opened.dynamic": "6",
    "opened.number": "1",
    "mixed": "(1, '\u20acuro', b'by', (3-2j), nan)",
    "zero": "0",
    "least": "-1",
    "argument": "'given'",
    "os.sep": "'/'",
    "pair": "Pair(x=1, y='b')",
    "pair.y": "'b'",
    "color": "<Color.RED: 1>",
    "settings": "Settings(rate=0.5, name='n')",
    "spaces": "Namespace(steps=3)",
    "ordered": "OrderedDict({'a': 1})",
    "grouped": "defaultdict({'k': [1]})",
    "grouped['k'][0]": "1",
    "queue": f"deque([{', '.join(map(str, range(1, 70)))}])",
    "short_queue": "deque([1, 'b'])",
    "short_queue[1]": "'b'",
    "keyed[1, 'x']": "1",
    "keyed[(1, 'x')]": "1",
    "keyed[None]": "2",
    "keyed[2.5]": "3",
    "keyed[b'k']": "4",
    "keyed[-1, (True, 'y')][1]": "6",
    "unsorted": "{None, -1.5, 2.5, (0, 'y'), (1, 'x')}",
    "held_list": "Named([1], unit='K')",
    "chosen": "Chosen([2])",
    "failed": "Failed('text', code=7)",
    "appending": "<built-in method append of [8]>",
    "newer": "<built-in method fromkeys of <class 'dict'>>",
    "queue[-1]": "69",
    "queue[64]": "65",
    "members": "{1, 2, 3}",
    "no_members": "set()",
    "frozen": "frozenset({'a', 'b'})",
    "buffer": "bytearray(b'xyz')",
    "steps": "range(0, 9, 2)",
    "slices": "slice(1, None, None)",
    "error": "ValueError('bad', 3)",
    "day": "datetime.date(2026, 1, 2)",
    "own_day": "Day(2026, 1, 2)",
    "moment": "datetime.datetime(2026, 1, 2, 3, 4, 5, 6)",
    "span": "datetime.timedelta(days=1, seconds=2, microseconds=3)",
    "circle": "[1, [...]]",
    "clock": "datetime.time(1, 2, 3, 4)",
    "zone": "datetime.timezone(datetime.timedelta(seconds=3600))",
    "zoned": "datetime.datetime(2026, 1, 2, 3, 4, "
    "tzinfo=datetime.timezone(datetime.timedelta(seconds=3600)))",
    "level": "<Level.HIGH: 2>",
    "access": "<Access.READ: 1>",
    "whole": "-5",
    "half": "0.5",
    "label": "'h\u00e9\u20ac'",
    "plain_label": "'ab'",
    "sized": str(1 << 70),
    "sized.unit": "'K'",
    "price": "Decimal('-1.50')",
    "tiny": "Decimal('1E-9')",
    "odd_price": "Decimal('NaN')",
    "long_price": "Decimal('123456789012345678901234567890.125')",
    "fraction": "Fraction(1, 3)",
    "number": "UUID('00000000-0000-0000-0000-000000000005')",
    "folder": "PosixPath('/tmp/x')",
    "here": "PosixPath('a/b')",
    "proxy": "mappingproxy({'a': 1})",
    "bound": "functools.partial(<class 'int'>, (), {'base': 2})",
    "expression": "re.compile('a+')",
    "chained": "ChainMap({'a': 1}, {})",
    "numbers_of_c": "array.array of float64, shape (2,) = {1.0, 2.0}",
    "numbers_of_c[1]": "2.0",
    "view": "memoryview of uint8, shape (2,) = {97, 98}",
    "builtin": "<built-in function len>",
    "module": "<module 'enum'>",
    "kind": "<class 'Plain'>",
    "dots": "Ellipsis",
    "nothing": "NotImplemented",
    "deep": "[[[[[[[...]]]]]]]",
    "ended": "<generator counting, ended>",
    "waiting.gi_frame.f_locals['number']": "3",
    "awaiting.cr_frame.f_locals['seconds']": "3",
    "through": "<list_iterator next=1, over=[5, 6]>",
    "backwards": "<list_reverseiterator next=0, over=[5, 6]>",
    "letters": "<tuple_iterator next=1, over=(5, 'a')>",
    "by_key": "<dict_keyiterator left=1, over={'a': 1}>",
    "by_item": "<dict_itemiterator left=1, over={'a': 1}>",
    "keys": "dict_keys(['a', 'b'])",
    "items": "dict_items([('a', 1), ('b', 2)])",
    "held_values": "dict_values([1, 2])",
    "zipped": "<zip over=(<list_iterator next=0, over=[1]>, <tuple_iterator next=0, over=(2,)>)>",
    "mapped": "<map function=<built-in function len>, over=(<list_iterator next=0, over=['x']>,)>",
    "counted": "<enumerate next=4, over=<list_iterator next=1, over=[7]>>",
    "filtered": "<filter function=None, over=<list_iterator next=0, over=[0]>>",
    "few": "<range_iterator left=range(5, 11, 3)>",
    "some": "<set_iterator left=1, over={4}>",
    "linked": "<chain now=<list_iterator next=1, over=[1]>, "
    "over=<tuple_iterator next=1, over=([1], [2])>>",
    "from_three": "<count next=4, step=1>",
    "twice": "<repeat value=5, left=1>",
    "cut": "<islice next=0, stop=1, step=1, over=<list_iterator next=0, over=[1, 2]>>",
    "until": "<callable_iterator function=<class 'int'>, until=1>",
    "exhausted": "<list_iterator, ended>",
    "none_left": "<range_iterator, ended>",
    "record": "Record(step=7, values=c_double_Array_2 of float64, shape (2,) = {1.5, 2.5}, "
    "corner=Corner(x=1, y=2), name=b'xy')",
    "record.step": "7",
    "record.values[1]": "2.5",
    "record.corner.y": "2",
    "whole_of_c": "-3",
    "whole_of_c.value": "-3",
    "text_of_c": "b'abc'",
    "many_of_c": "c_short_Array_2_Array_3 of int16, shape (3, 2) = {{0, 0}, {0, 0}, {0, 9}}",
    "many_of_c[2, 1]": "9",
    "record.corner": "Corner(x=1, y=2)",
    "pointer_of_c": "<LP_c_int to -3>",
    "pointer_of_c.contents": "-3",
    "pointer_of_c[0]": "-3",
    "to_record": "<LP_Record to Record(step=7, values=c_double_Array_2 of float64, shape (2,) = "
    "{1.5, 2.5}, corner=Corner(x=1, y=2), name=b'xy')>",
    "to_record.contents.corner.y": "2",
    "to_record[0].name": "b'xy'",
    "to_nothing": "<LP_Corner; NULL>",
    "to_many[5]": "9",
    "corners": "Corner_Array_2(Corner(x=1, y=2), Corner(x=3, y=4))",
    "corners[1]": "Corner(x=3, y=4)",
    "corners[-1].y": "4",
}
LAST_WITH_BITS = 13
"""Last minor version of Python whose fields of bits are read."""
BITS = {
    "flags": "Flags(lead=1, low=5, signed=-3)",
    "flags.low": "5",
    "flags.signed": "-3",
}


@pytest.mark.slow
@pytest.mark.parametrize("python", interpreters())
def test_values_of_each_interpreter(python: str) -> None:
    with running(python) as process:
        process.look()
        if process.frames[1].name == "numbers":  # it has NumPy
            process.go_on()
            process.look()
        assert {each: value(process, each) for each in EXPECTED} == EXPECTED
        if process.interpreter.objects.minor > LAST_WITH_BITS:
            assert value(process, "flags") == "Flags(lead=1, low=<c_uint>, signed=<c_int>)"
        else:
            assert {each: value(process, each) for each in BITS} == BITS
        # An object in another one has its attributes in the whole value alone.
        assert re.sub("0x[0-9a-f]+", "0x", value(process, "plain")) == (
            "<Plain number=1, items=[1, 2], slotted=<Slotted at 0x>>"
        )
        address = process.interpreter.resolve(values.parse("plain"), process.frames[1])
        assert isinstance(address, int)
        short, whole = (
            process.interpreter.shown_in_part(address, 100, is_whole=is_whole)
            for is_whole in (False, True)
        )
        assert short.is_cut
        assert (whole.text, whole.is_cut) == (
            "<Plain number=1, items=[1, 2], slotted=<Slotted first=9>>",
            False,
        )
        assert value(process, "function").startswith("<function counting at 0x")
        bound = value(process, "method")
        assert bound.startswith("<bound method ") and "__init__ of <Plain at 0x" in bound
        lines = PROGRAM.read_text().splitlines()
        waits_at = lines.index("        yield number") + 1
        waiting = f"<generator counting at python_values.py:{waits_at}"
        assert re.fullmatch(rf"{waiting}, number=\d+>", value(process, "waiting"))
        awaits_at = lines.index("    await pausing(seconds)") + 1
        awaiting = f"<coroutine sleeping at python_values.py:{awaits_at}, seconds=3>"
        assert value(process, "awaiting") == awaiting
        assert value(process, "bare").startswith("<Empty object at 0x")
        chance = r"<Chance gauss_next=None, a=1, super=<_random\.Random at 0x\w+>>"
        assert re.fullmatch(chance, value(process, "chance"))
        assert re.fullmatch(r"<weakref(\.\w+)? to <Plain at 0x\w+>>", value(process, "weak"))
        assert re.fullmatch(r"<weakref(\.\w+)?; dead>", value(process, "dead"))
        assert value(process, "fresh").startswith("<generator counting at python_values.py:")
        shown = value(process, "long_list")
        assert shown.startswith("[0, 1, 2, ")
        assert shown.endswith("199...]")
        # Not each of its million elements is read.
        assert value(process, "cube").count("0") < 10_000
        for text, why in {
            "absent": "No Python variable 'absent' in objects and its module.",
            "plain.absent": "Plain has no attribute 'absent'",
            "plain.computed": "properties have no value",
            "pair.index": "properties have no value",
            "pair.z": "Pair has no attribute 'z'",
            "plain.slotted.second": "Slotted has no attribute 'second'",
            "plain.items[2]": "index 2 is outside of 2 elements",
            "plain.items['x']": "is no number",
            "TABLE['absent']": "no key 'absent'",
            "ended.gi_frame.f_locals['number']": "the generator has ended",
            "waiting.gi_frame.f_locals['other']": "no variable 'other'",
            "to_record[1]": "size of the elements is not known behind a pointer",
            "to_nothing.contents": "the pointer is NULL",
            "corners[2]": "index 2 is outside of 2 elements",
            "record.other": "Record has no field 'other'",
            "plain.gi_frame.f_locals['number']": "Plain has no frame of its own",
            "zero[0]": "int is no list, tuple or dict",
        }.items():
            with pytest.raises(UnknownError, match=why.replace("[", r"\[")):
                value(process, text)


def test_arrays_of_numpy() -> None:
    pytest.importorskip("numpy")
    expected = {
        "straight": "numpy.ndarray of float64, shape (2, 3) = {{0.0, 1.0, 2.0}, {3.0, 4.0, 5.0}}",
        "turned": "numpy.ndarray of float64, shape (3, 2) = {{0.0, 3.0}, {1.0, 4.0}, {2.0, 5.0}}",
        "backwards": "numpy.ndarray of int64, shape (5,) = {9, 7, 5, 3, 1}",
        "single": "1.5",
        "truths": "numpy.ndarray of bool, shape (2,) = {True, False}",
        "empty": "numpy.ndarray of float64, shape (0, 3) = {}",
        "swapped": "numpy.ndarray of int32, shape (2,) = {1, 2}",
        "turned[1]": "numpy.ndarray of float64, shape (2,) = {1.0, 4.0}",
        "turned[-1][1]": "5.0",
        "turned[-1, 0]": "2.0",
        "straight[1, -1]": "5.0",
        "backwards[0]": "9",
        "texts": "numpy.ndarray of str of 1 characters, shape (1,) = {'a'}",
        "things": "numpy.ndarray of object, shape (2, 2) = {{1, 'x'}, {None, (2,)}}",
        "days": "numpy.ndarray of datetime64[D], shape (2,) = {2026-01-01, NaT}",
        "spans": "numpy.ndarray of timedelta64[30s], shape (2,) = {30 s, 60 s}",
        "rows": "numpy.ndarray of (id, at, name), shape (1,) = {(1, 2.5, 'ab')}",
        "in_field": "numpy.ndarray of (a, m), shape (1,) = {(1, [[2.0, 3.0]])}",
        "inner": "numpy.ndarray of (a, b), shape (1,) = {(1, (2, 3))}",
        "in_field[0]['m']": "numpy.ndarray of float32, shape (1, 2) = {{2.0, 3.0}}",
        "row": "(1, (2, 3))",
        "row['b']": "(2, 3)",
        "row['b']['d']": "3",
        "row[-1][0]": "2",
        "one": "(1, 2.5, 'ab')",
        "one.at": "2.5",
        "cells": "[(1, 2.5, 'ab')]",
        "hidden": "MaskedArray of float64, shape (2,) = {1.0, --}",
        "shown": "MaskedArray of float64, shape (2,) = {1.0, 2.0}",
        "held": "{'w': numpy.ndarray of float64, shape (3,) = {0.0, 1.0, 2.0}, 'g': 0.5, 'n': [4], "
        "'t': numpy.ndarray of str of 1 characters, shape (1,) = {'x'}}",
    }
    with running(sys.executable) as process:
        process.look()
        assert {each: value(process, each) for each in expected} == expected
        for text in (
            "straight[2]",
            "straight[0][0][0]",
            "straight['x']",
            "straight[0].T",
            "straight[0, 0, 0]",
        ):
            with pytest.raises(UnknownError):
                value(process, text)


@pytest.mark.slow
def test_tables_of_pandas() -> None:
    pytest.importorskip("pandas")
    expected = {
        "series": "Series of float64, shape (3,) = {1.0, 2.0, 4.0}",
        "series[2]": "4.0",
        "named": "Series of int64, shape (2,) = {1, 2}",
        "texts": "Series = {'a', 'b'}",
        "missing": "Series = {True, <NA>}",
        "table": "DataFrame of 2 rows = {a = {1, 2}, b = {0.5, 1.5}, c = {'x', 'y'}, d = {3, 4}}",
        "table['d']": "numpy.ndarray of int64, shape (2,) = {3, 4}",
        "table['b'][1]": "1.5",
        "table.b": "numpy.ndarray of float64, shape (2,) = {0.5, 1.5}",
        "numbered": "DataFrame of 2 rows = {0 = {1, 3}, 1 = {2, 4}}",
        "numbered[1]": "numpy.ndarray of int64, shape (2,) = {2, 4}",
        "nothing": "DataFrame of no columns = {}",
        "inside": "[Series of int64, shape (2,) = {1, 2}]",
        "stamp": "Timestamp('2026-01-02 03:04:05.000006007')",
        "span": "Timedelta('-1 days 00:01:01')",
        "epoch": "Timestamp('1970-01-01 00:00:00')",
        "second": "Timestamp('1970-01-01 00:00:07')",
        "missing_time": "NaT",
        "precise": "Timedelta('0 days 00:00:00.001000002')",
        "no_span": "Timedelta('0 days 00:00:00')",
        "zoned": "Timestamp('2026-06-01 03:04:00', "
        "tzinfo=datetime.timezone(datetime.timedelta(seconds=7200)))",
        "partly": "DataFrame of 2 rows = {a = {1, 2}, c = {'x', 'y'}, i = {<unknown>}}",
        "kinds": "Categorical = {'x', 'y', <NA>, 'x'}",
        "by_kind": "Series = {'x', 'y', <NA>, 'x'}",
        "index": "Index of int64, shape (2,) = {3, 1}",
        "index[1]": "1",
        "by_name": "Index = {'r', 's'}",
        "counted": "RangeIndex = {1, 4, 7}",
        "pairs": "MultiIndex = {('a', 1), ('b', 2), ('a', 2)}",
        "sorts": "CategoricalIndex = {'b', 'a'}",
        "whole": "IntegerArray = {1, <NA>}",
    }
    with running(sys.executable, "pandas") as process:
        process.look()
        assert {each: value(process, each) for each in expected} == expected
        assert value(process, "days") == "DatetimeIndex = {2026-01-01T00:00:00.000000, NaT}"
        assert value(process, "spans").startswith("TimedeltaIndex = {3600")
        assert value(process, "sparse").startswith("<SparseArray ")
        assert value(process, "dates").startswith("Series = {2026-01-01T00:00:00.000000")
        for text, why in {
            "table['z']": "no column 'z'",
            "named[0]": "labels of the rows are 0, 1, 2",
            "kinds[0]": "no array of numbers: its values are numbers of labels",
            "counted[0]": "no array of numbers",
            "series[3]": "index 3 is outside of 3 elements",
        }.items():
            with pytest.raises(UnknownError, match=why):
                value(process, text)


def test_a_value_says_whether_elements_are_left_out() -> None:
    with running(sys.executable) as process:
        process.look()
        if process.frames[1].name == "numbers":  # it has NumPy
            process.go_on()
            process.look()
        found = process.interpreter
        expected = {"circle": False, "deep": True, "long_list": True, "pair": False, "dots": False}
        for name, is_cut in expected.items():
            place = found.resolve(values.parse(name), process.frames[1])
            assert isinstance(place, int)
            assert found.shown_in_part(place, 200).is_cut is is_cut, name
            assert not found.shown_in_part(place, 5000, is_whole=True).is_cut, name
        table = found.resolve(values.parse("table_of_numbers"), process.frames[1])
        assert isinstance(table, int)
        assert not found.shown_in_part(table, 5000, is_whole=True).is_cut


def has_torch() -> bool:
    line = [
        sys.executable,
        "-c",
        "import importlib.util as u; print(u.find_spec('torch') is not None)",
    ]
    return subprocess.run(line, stdout=subprocess.PIPE, check=True).stdout.strip() == b"True"


@pytest.mark.parametrize(
    ("keys", "is_plain"),
    [
        (0x9400010001, True),
        (0x8000010001, True),  # of torch.inference_mode()
        (0x9480010001, False),  # conjugated
        (0x9500010001, False),  # negated
        (0xB402000001, False),  # nested
        (0, True),  # an unknown layout
    ],
)
def test_tensors_with_other_numbers_than_those_in_memory(keys: int, is_plain: bool) -> None:
    assert arrays.stands_as_it_is(keys) is is_plain


@pytest.mark.skipif(not has_torch(), reason="PyTorch is not installed")
def test_tensors_of_pytorch() -> None:
    expected = {
        "layer.bias": "Parameter of float32, shape (2,) = {0.5, 0.5}",
        "many": "Tensor of float32, shape (2, 1, 2, 1, 2, 1) = "
        "{{{{{{1.0}, {1.0}}}, {{{1.0}, {1.0}}}}}, "
        "{{{{{1.0}, {1.0}}}, {{{1.0}, {1.0}}}}}}",
        "part": "Tensor of int64, shape (3,) = {3, 5, 7}",
        "half": "Tensor of bfloat16, shape (2,) = {1.5, 2.0}",
    }
    with running(sys.executable, "torch") as process:
        process.look()
        assert {each: value(process, each) for each in expected} == expected
        for text in ("conjugated", "negated", "nested"):
            with pytest.raises(UnknownError, match="do not stand in memory as they are"):
                value(process, text)


@pytest.mark.parametrize("text", ["f(x)", "a + b", "", "x.", "a[b]", "[1]", "'x'", "a" * 9 + "("])
def test_expressions_that_need_code_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        values.parse(text)


def test_an_unknown_version_is_refused() -> None:
    for minor in (0, 7, 99):
        with pytest.raises(UnknownError):
            Interpreter(lambda address, size: b"", 0, minor)


def test_damaged_objects_give_errors_and_no_loop(tmp_path: Path) -> None:
    for filler in (b"\0", b"\xff", b"\x41"):
        found = Interpreter(lambda address, size, filler=filler: filler * size, 0x1000, 12)  # type: ignore[misc]
        with pytest.raises(UnknownError):
            found.shown(0x5000)
            found.resolve(values.parse("x.y"), PythonFrame("f", "/f.py", 1, ()))


def test_the_layout_of_an_array_is_that_of_its_computed_attributes() -> None:
    place = arrays.ArrayPlace("Tensor", "<f4", (2, 3), (12, 4), 0)
    texts = [values.layout_text(place, name) for name in ("shape", "ndim", "dtype")]
    assert texts == ["(2, 3)", "2", "float32"]
    assert values.layout_text(place, "shape", "-1") == "3"
    with pytest.raises(UnknownError, match=r"index 2 is outside of the shape \(2, 3\)"):
        values.layout_text(place, "shape", "2")
    assert values.layout_text(place, "ndim", "0") is None
