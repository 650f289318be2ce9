"""Names of the files that GDB commands write, for one rank and for several."""

from __future__ import annotations

import pytest

from pgdb.written_files import HOST, PROCESS, RANK, file_of, filled, for_ranks


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        ("gcore", "gcore core.{rank}.{host}.{pid}"),
        ("generate-core-file a b", "generate-core-file a b.{rank}"),
        ("gcore c.%p", "gcore c.%p"),
        ("gcore {rank}/core", "gcore {rank}/core"),
        ("gcore {host}/core", "gcore {host}/core.{rank}"),
        ("dump memory m 1 2", "dump memory m.{rank} 1 2"),
        ("dump bin val m x", "dump bin val m.{rank} x"),
        ("dump binary value m x%rho", "dump binary value m.{rank} x%rho"),
        ("append memory m.%r 1 2", "append memory m.%r 1 2"),
        ("record save log", "record save log.{rank}"),
        ("rec sa log.%p", "rec sa log.%p"),
        ("record save", "record save gdb_record.{rank}.{host}.{pid}"),
        ("tsave -r t", "tsave -r t.{rank}"),
        ("tsave -ctf d", "tsave -ctf d.{rank}"),
        ("save tracepoints f", "save tracepoints f.{rank}"),
        ("save-tracepoints f", "save-tracepoints f.{rank}"),
        ("save gdb-index -dwarf-5 /d", "save gdb-index -dwarf-5 /d.{rank}"),
        ("maint print symbols -objfile a.so -- f", "maint print symbols -objfile a.so -- f.{rank}"),
        ('mt print msymbols "a b"', 'mt print msymbols "a b.{rank}"'),
        ("maintenance print registers f", "maintenance print registers f.{rank}"),
        ("thread apply all dump value m x", "thread apply all dump value m.{rank} x"),
        ("frame apply 2 -q dump value m x", "frame apply 2 -q dump value m.{rank} x"),
        ("with print pretty on -- gcore f", "with print pretty on -- gcore f.{rank}"),
        ("thread apply 1 $mine 2.* gcore f", "thread apply 1 $mine 2.* gcore f.{rank}"),
        ("frame apply level 0 1 gcore f", "frame apply level 0 1 gcore f.{rank}"),
        ("maint with worker-threads 0 -- gcore f", "maint with worker-threads 0 -- gcore f.{rank}"),
        ("taa gcore f", "taa gcore f.{rank}"),
        (f"{'w a -- ' * 20}gcore f", f"{'w a -- ' * 20}gcore f.{{rank}}"),
    ],
)
def test_each_of_several_ranks_has_a_file(line: str, sent: str) -> None:
    assert for_ranks(line, 2) == sent


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        ("gcore", "gcore core.{pid}"),
        ("gcore f", "gcore f"),
        ("dump value m x", "dump value m x"),
        ("record save", "record save gdb_record.{pid}"),
    ],
)
def test_one_rank_writes_the_file_that_was_named(line: str, sent: str) -> None:
    assert for_ranks(line, 1) == sent


@pytest.mark.parametrize(
    "line",
    [
        "print gcore",
        "record stop",
        "record",
        "maint print symbols",
        "maint print objfiles f",
        "maint print type x",
        "dump u u.npz",
        "dump value m",
        "save breakpoints f",
        "echo {rank}",
        'printf "%r\\n", 3',
    ],
)
def test_other_commands_stay(line: str) -> None:
    assert file_of(line) is None
    assert for_ranks(line, 2) == line


def test_appended_files_and_directories_are_known() -> None:
    kinds = {"append value f x": "append", "save gdb-index d": "directory", "gcore f": "file"}
    for line, kind in kinds.items():
        found = file_of(line)
        assert found is not None and found.kind == kind


def test_placeholders_are_filled_under_both_names() -> None:
    values = {RANK: "5", HOST: "n1", PROCESS: "77"}
    assert filled("{host}/%h.{rank}.%r.{pid}.%p.%%r.{x}", values) == "n1/n1.5.5.77.77.%r.{x}"
    assert filled("%r.{pid}", {}) == "{rank}.{pid}"
