"""Whether ranks make progress: samples of their stacks and of data that a program changes. No I/O.

A rank in a loop that calls MPI_Test for ever returns from MPI again and again, and still makes no
progress. A rank that computes may be at the same line in each sample. So a sample has the places of
the user's code on the stack, and a checksum of the stack's memory and of the registers that the
user's innermost function keeps across calls. A counter of a loop is in one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Stack

_CODE = r"""
import os, zlib
MAINS = ('main', 'MAIN__')
def _place(frame):
    try:
        sal = frame.find_sal()
        if sal.symtab is not None and sal.line and os.path.exists(sal.symtab.fullname()):
            return '%s:%s:%d' % (frame.name(), os.path.basename(sal.symtab.filename), sal.line)
    except gdb.error: pass
    return str(frame.name()) if frame.name() in MAINS else ''
def _older(frame):
    try: return frame.older()
    except gdb.error: return None
def _user(is_first):
    last = frame = gdb.newest_frame()
    while frame is not None:
        place = _place(frame)
        if place: return frame, place
        if not (frame.name() or '').startswith(('_start', '__libc_start', 'clone')): last = frame
        frame = _older(frame)
    return (last, str(last.name())) if is_first else (None, '')
def _word(frame):
    total = 0
    for name in ('rbx', 'rbp', 'r12', 'r13', 'r14', 'r15', 'x19', 'x20', 'x21', 'x22', 'x23',
                 'x24', 'x25', 'x26', 'x27', 'x28', 'x29', 'r30', 'r31'):
        try: total = zlib.crc32(str(int(frame.read_register(name))).encode(), total)
        except (gdb.error, ValueError): pass
    try:
        begin, outer, count = int(frame.read_register('sp')), frame, 0
        while outer.name() not in MAINS and _older(outer) is not None and count < 64:
            outer, count = _older(outer), count + 1
        outer = _older(outer) or outer
        size = int(outer.read_register('sp')) - begin
        if 0 < size < 1 << 22:
            total = zlib.crc32(gdb.selected_inferior().read_memory(begin, size), total)
    except (gdb.error, ValueError): pass
    return total
def _all():
    chosen, kept, out = gdb.selected_thread(), gdb.selected_frame(), []
    for thread in sorted(gdb.selected_inferior().threads(), key=lambda each: each.num):
        try:
            thread.switch()
            frame, place = _user(thread.num == 1)
            if frame is not None: out.append('%s:%08x' % (place, _word(frame)))
        except (gdb.error, RuntimeError): pass
    if chosen is not None: chosen.switch()
    try: kept.select()
    except gdb.error: pass
    print('progress ' + '|'.join(out))
_all()
"""
COMMAND = f"python exec({_CODE!r})"
"""GDB's command that prints the sample of a rank."""
PREFIX = "progress "
_CALLER = r"""
import re
_call = re.compile(r'P?MPI_[A-Z]|ompi_mpi_|MPI[A-Z]*_|p?mpi_\w+_$')
_frame = gdb.selected_frame()
while _frame.older() is not None and _call.match(_frame.name() or ''): _frame = _frame.older()
_frame.select()
"""
SELECT_CALLER = f"python exec({_CALLER!r})"
"""GDB's command that selects the caller where a function of MPI is selected.

Where no caller has source, the debugger has selected a function of MPI. Inside of it, MPI_Finalize
of Open MPI returns from a short sleep again and again.
"""


class Sample(msgspec.Struct, frozen=True):
    """The activity of the ranks at one moment."""

    words: dict[int, str]
    """By rank: a text that is the same if the rank has made no progress."""
    ranks: RankSet
    """The ranks of which a sample was taken."""


_POLLING = pattern(r"P?MPI_(?:Test|Iprobe|Improbe|Request_get_status)|.*(?:_test|_iprobe)_")
"""Calls that come back at once, with or without progress."""
_CALL = pattern(r"P?MPI_[A-Z]|p?mpi_\w+_\Z")


def in_blocking_calls(stacks: Iterable[tuple[RankSet, Stack]]) -> RankSet:
    """Return the ranks whose innermost frame of interest is an MPI call that waits."""
    return RankSet.union(
        ranks
        for ranks, stack in stacks
        if stack.frames
        and _CALL.match(name := stack.frames[0].function.partition("(")[0])
        and not _POLLING.match(name)
    )


def sample_of(texts: Mapping[int, str], ranks: RankSet) -> Sample:
    """Return the sample of *ranks* in their answers to :data:`COMMAND`."""
    words: dict[int, str] = {}
    for rank, text in texts.items():
        line = next((each for each in text.splitlines() if each.startswith(PREFIX)), "")
        if line.removeprefix(PREFIX):
            words[rank] = line
    return Sample(words, ranks)


def moving(before: Sample, after: Sample) -> RankSet:
    """Return the ranks that have made progress between two samples, or of which that is unknown."""
    return RankSet(
        rank
        for rank in before.ranks | after.ranks
        if rank not in before.words or before.words[rank] != after.words.get(rank)
    )
