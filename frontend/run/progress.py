"""Progress of ranks: samples of their stacks and of data that a program changes. No I/O.

A rank in a loop that calls MPI_Test for ever returns from MPI again and again, and still makes no
progress. A rank that computes may be at the same line in each sample. So a sample has the places of
the user's code on the stack, and a checksum of the stack's memory and of the registers that the
user's innermost function keeps across calls. A counter of a loop is in one of them.

A loop may keep what it changes elsewhere: in other registers, or in the frames of a library or of
an interpreter. So a sample also has a checksum of these of each thread that is not waiting, that
is: in no system call, MPI call or the like. It counts for ranks that wait in none of many samples;
a loop of Python that polls MPI is seen inside MPI after a few of them. A loop of Python that only
another thread can end looks as if it computes; its source shows that it does not.

A rank can also wait for a process that it has started. CPU time of that process is progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Stack

_CODE = r"""
import os, re, time, zlib
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
KEPT = ('rbx', 'rbp', 'r12', 'r13', 'r14', 'r15', 'x19', 'x20', 'x21', 'x22', 'x23',
        'x24', 'x25', 'x26', 'x27', 'x28', 'x29', 'r30', 'r31')
OWN = ('rax', 'rcx', 'rdx', 'rsi', 'rdi', 'r8', 'r9', 'r10', 'r11',
       *('x%d' % n for n in range(19)),
       *('xmm%d' % n for n in range(16)), *('v%d' % n for n in range(32)))
MPI = re.compile(r'P?MPI_[A-Z]|p?mpi_\w+_$|ompi_|opal_|PMIx_')
WAITS = re.compile(
    r'_*(?:pthread_|lll_|sched_|clock_|vdso_|sem_|futex|time$|gettimeofday$)')
WAITING = re.compile(
    r'/(?:lib(?:p?mpi|open-|pmix|prrte|event|uc[mpst]\b|fabric|psm|ibverbs|cuda|nccl|rccl|amdhip|'
    r'hsa|ze_|g?omp\b|iomp|tbb)|mca_|openmpi/|mpi4py/)')
def _user(is_first):
    last = frame = gdb.newest_frame()
    while frame is not None:
        place = _place(frame)
        if place: return frame, place
        if not (frame.name() or '').startswith(('_start', '__libc_start', 'clone')): last = frame
        frame = _older(frame)
    return (last, str(last.name())) if is_first else (None, '')
def _registers(frame, names):
    total = 0
    for name in names:
        try:
            value = frame.read_register(name)
            total = zlib.crc32(str(int(value)).encode(), total)
        except (gdb.error, ValueError):
            try: total = zlib.crc32(value.format_string(format='x').encode(), total)
            except (gdb.error, ValueError, UnboundLocalError): pass
    return total
def _word(frame):
    total = _registers(frame, KEPT)
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
MEMORY = re.compile(r'_*(?:mmap|munmap|s?brk|mremap|madvise|mprotect)')
def _in_system_call(frame):
    if MEMORY.match(frame.name() or ''): return False
    try:
        memory = gdb.selected_inferior().read_memory(frame.pc() - 4, 4).tobytes()
        return memory[2:] in (b'\x0f\x05', b'\xcd\x80') or memory == b'\x01\x00\x00\xd4'
    except (gdb.error, ValueError): return True
def _own(user):
    # Its data, None where the thread waits: what it changes then is no progress. And whether it is
    # outside MPI.
    newest = frame = gdb.newest_frame()
    waits, outermost, count = _in_system_call(newest), frame, 0
    while frame is not None and frame != user and count < 200:
        name = frame.name() or ''
        if MPI.match(name) or WAITING.search(gdb.solib_name(frame.pc()) or ''): return None, False
        waits = waits or WAITS.match(name)
        outermost, frame, count = frame, _older(frame), count + 1
    if waits: return None, True
    total = _registers(newest, KEPT + OWN)
    try:
        begin = int(newest.read_register('sp'))
        size = int((frame or outermost).read_register('sp')) - begin
        if 0 < size < 1 << 22:
            total = zlib.crc32(gdb.selected_inferior().read_memory(begin, size), total)
    except (gdb.error, ValueError): pass
    return total, True
def _read(path):
    try:
        with open(path) as file: return file.read()
    except (OSError, UnicodeDecodeError): return ''
def _cpu_s(pid, first):
    fields = _read('/proc/%d/stat' % pid).rpartition(')')[2].split()
    return sum(map(int, fields[first:15])) / os.sysconf('SC_CLK_TCK')
def _children_s(pid, depth=0):
    # Ranks that a rank has started, for example by MPI_Comm_spawn, spin while they wait.
    total = 0
    try: tasks = os.listdir('/proc/%d/task' % pid)
    except OSError: tasks = []
    for task in tasks:
        for child in _read('/proc/%d/task/%s/children' % (pid, task)).split():
            if re.search('/lib(mpi|mpich|pmpi)', _read('/proc/%s/maps' % child)): continue
            total += _cpu_s(int(child), 11)
            if depth < 8: total += _children_s(int(child), depth + 1)
    return total
def _thread_s(thread):
    said = _read('/proc/%d/task/%d/schedstat' % thread.ptid[:2]).split()
    return int(said[0]) / 1e9 if said else 0.0
def _all():
    chosen, kept, out, own, cpu = gdb.selected_thread(), gdb.selected_frame(), [], [], []
    for thread in sorted(gdb.selected_inferior().threads(), key=lambda each: each.num):
        try:
            thread.switch()
            frame, place = _user(thread.num == 1)
            if frame is not None: out.append('%s:%08x' % (place, _word(frame)))
            # An interpreter's main has no source.
            user = frame if frame is not None and frame.find_sal().symtab else None
            word, is_outside = _own(user)
            if word is not None: own.append('%d:%08x' % (thread.num, word))
            if is_outside: cpu.append('%d:%.6f' % (thread.num, _thread_s(thread)))
        except (gdb.error, RuntimeError): pass
    if chosen is not None: chosen.switch()
    try: kept.select()
    except gdb.error: pass
    print('progress ' + '|'.join(out))
    print('own ' + ' '.join(own))
    print('cpu ' + ' '.join(cpu))
    pid = gdb.selected_inferior().pid
    print('children %.2f %.2f' % (_cpu_s(pid, 13) + _children_s(pid), time.monotonic()))
_all()
"""
COMMAND = f"python exec({_CODE!r})"
"""GDB's command that prints the sample of a rank."""
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


class RankSample(msgspec.Struct, frozen=True):
    """The activity of one rank at one moment."""

    word: str
    """A text that is the same if the rank has made no progress in its own functions."""
    own: Mapping[str, str] = {}
    """By thread that did not wait: a checksum of all that it can change without its memory."""
    cpu_s: Mapping[str, float] = {}
    """By thread outside MPI: its CPU time so far."""
    children_s: float = 0.0
    """CPU time of the processes that the rank has started."""
    time_s: float = 0.0
    """Monotonic time of its host."""

    def has_moved(self, after: RankSample) -> bool:
        """Return whether the rank has made progress until *after*."""
        return self.word != after.word or after.children_s - self.children_s > _BUSY * max(
            after.time_s - self.time_s, 1.0
        )

    def threads_at_work(self, after: RankSample) -> frozenset[str]:
        """Return the threads outside MPI that have used CPU time until *after*."""
        least_s = _BUSY * (after.time_s - self.time_s)
        return frozenset(
            thread
            for thread in self.cpu_s.keys() & after.cpu_s.keys()
            if after.cpu_s[thread] - self.cpu_s[thread] > least_s
        )


class Sample(msgspec.Struct, frozen=True):
    """The activity of the ranks at one moment."""

    of: Mapping[int, RankSample]
    """By rank."""
    ranks: RankSet
    """The ranks of which a sample was taken."""


_BUSY = 0.02
"""Share of a core from which on the processes that a rank has started compute, or a thread."""
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
    found = {rank: _rank_sample(text) for rank, text in texts.items()}
    return Sample({rank: each for rank, each in found.items() if each is not None}, ranks)


def _rank_sample(text: str) -> RankSample | None:
    parts = dict(line.partition(" ")[::2] for line in text.splitlines())
    if not (word := parts.get("progress", "")):
        return None
    own = dict(each.partition(":")[::2] for each in parts.get("own", "").split())
    used = (each.partition(":") for each in parts.get("cpu", "").split())
    cpu_s = {thread: float(seconds) for thread, _, seconds in used}
    children_s, time_s = map(float, parts.get("children", "0 0").split())
    return RankSample(word, own, cpu_s, children_s, time_s)


def moving(before: Sample, after: Sample) -> RankSet:
    """Return the ranks that have made progress between two samples, or of which that is unknown.

    Threads that compute are not looked at; see :func:`computing`.
    """
    return RankSet(
        rank
        for rank in before.ranks | after.ranks
        if (first := before.of.get(rank)) is None
        or (second := after.of.get(rank)) is None
        or first.has_moved(second)
    )


def may_compute(samples: Sequence[Sample]) -> bool:
    """Return whether a rank has, at each sample, a thread that does not wait."""
    return any(
        all(rank in each.of for each in samples)
        and _is_most(bool(each.of[rank].own) for each in samples)
        and all(_at_work([each.of[rank] for each in samples]))
        for rank in samples[0].of
    )


def _is_most(found: Iterable[bool]) -> bool:
    all_found = list(found)
    return 2 * sum(all_found) > len(all_found)


def _at_work(samples: Sequence[RankSample]) -> list[frozenset[str]]:
    """Return the threads of a rank that do not wait, at each sample.

    A thread that waits in the moment of a sample, as the threads of Python do where one hands their
    lock to another, is at work if it has used CPU time outside MPI just before or after.
    """
    between = [one.threads_at_work(other) for one, other in pairwise(samples)]
    none = frozenset[str]()
    return [
        frozenset(each.own) | before | after
        for each, before, after in zip(samples, (none, *between), (*between, none), strict=True)
    ]


def computing(samples: Sequence[Sample]) -> dict[int, frozenset[str]]:
    """Return the ranks that compute, with the threads that do: their data changes, and in each
    sample one of them does not wait.

    Threads of Python take turns, since an interpreter has one lock: one computes, others wait. A
    thread that was seen once can be one of them.
    """
    found = {}
    for rank in samples[0].of:
        if any(rank not in each.of for each in samples):
            continue
        seen = [each.of[rank].own for each in samples]
        words: dict[str, list[str]] = {}
        for each in seen:
            for thread, word in each.items():
                words.setdefault(thread, []).append(word)
        changing = frozenset(thread for thread, some in words.items() if len({*some}) > 1)
        once = {thread for thread, some in words.items() if len(some) == 1}
        present = _at_work([each.of[rank] for each in samples])
        working = changing | once
        if (
            changing
            and _is_most(not working.isdisjoint(each) for each in seen)
            and all(not working.isdisjoint(each) for each in present)
        ):
            found[rank] = changing
    return found
