"""The emulator against the processor: functions of a library in this process, called both ways."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdb.backend.gdb.rank_image import ProcessImage
from pgdb.backend.mpi_calls.emulator import Emulator
from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.memory import Images, Memory

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the emulator carries out x86-64 code"
)

SOURCE = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

long arithmetic(long a, long b)
{
    int small = (int)a - (int)b;
    unsigned half = (unsigned)a * 3u ^ (unsigned)b >> 5;
    long shifted = (a << 3) + (b >> 2) - (a & b) + (a | 7);
    short word = (short)(a + b);
    signed char byte = (signed char)(a ^ b);

    return shifted + small + half + word + byte + (b ? a % (((b & 0xffff) - 0x8000) * 4 + 5) : 0)
        + (int)a / ((((int)b & 0xffff) - 0x8000) * 4 + 5); /* a divisor of -1 would overflow */
}

long conditions(long a, long b)
{
    long found = 0;

    found |= (a < b) << 0 | (a <= b) << 1 | (a == b) << 2 | (a > b) << 3;
    found |= ((unsigned long)a < (unsigned long)b) << 4 | ((int)a < (int)b) << 5;
    found |= (((unsigned)a >= (unsigned)b) << 6) | ((a ? b : a) > 0) << 7;
    return found + (a > b ? a : b) - ((int)a > 5 ? 100 : (int)b);
}

long locks_for_ever(volatile long *lock, long b)
{
    *lock = 1;
    while (*lock)
        b++;
    return b;
}

struct pair { long x, y; int many[6]; };

static struct pair shift(struct pair given, long by)
{
    for (int at = 0; at < 6; at++)
        given.many[at] += (int)by * at;
    given.x += by;
    return given;
}

long structures(long a, long b)
{
    struct pair one = {a, b, {1, 2, 3, 4, 5, 6}}, other = shift(one, b);
    long sum = other.x ^ other.y;

    for (int at = 0; at < 6; at++)
        sum = sum * 31 + other.many[at];
    return sum;
}

long cases(long a, long b)
{
    switch (a & 7) {
    case 0: return b + 1;
    case 1: return b * 2;
    case 2: return b - 3;
    case 3: return ~b;
    case 4: return -b;
    case 5: return b ^ 5;
    default: return a;
    }
}

long memory(long a, long b)
{
    long *made = malloc(8 * sizeof *made), sum = 0;
    char text[32];

    memset(made, 0, 8 * sizeof *made);
    for (int at = 0; at < 8; at++)
        made[at] = a + at * b;
    memcpy(text, made, sizeof text);
    strncpy(text, "forty-two", sizeof text);
    for (int at = 0; at < 8; at++)
        sum += made[at];
    free(made);
    return sum + (long)strlen(text);
}

typedef unsigned long number;

long carries(long a, long b)
{
    number low = (number)a, high = (number)b, borrow, one = (number)a, three = (number)a;
    long found;

    __asm__("addq %2, %0\n\tadcq %3, %1" : "+r"(low), "+r"(high) : "r"(b), "r"(a) : "cc");
    __asm__("cmpq %2, %1\n\tsbbq %0, %0" : "=r"(borrow) : "r"(a), "r"(b) : "cc");
    __asm__("btsq %1, %0\n\tsbbq $3, %0" : "+r"(one) : "r"(b) : "cc");
    __asm__("btrq $7, %0\n\tadcq $0, %0\n\tbtcq $61, %0" : "+r"(three) : : "cc");
    __asm__("cld\n\tbtl $3, %k1\n\tsbbl %k0, %k0" : "=r"(found) : "r"(a) : "cc");
    return (long)(low ^ high * 3 ^ borrow ^ one * 5 ^ three * 7) + (int)found;
}

long exchanges(long a, long b)
{
    number pair[2] __attribute__((aligned(16))) = {(number)a, (number)b};
    number low = (number)a, high = (number)(b & ~1L);
    unsigned char done;

    __asm__("lock cmpxchg16b %1\n\tsetz %0"
            : "=q"(done), "+m"(pair), "+a"(low), "+d"(high) : "b"(a + 1), "c"(b + 2) : "cc");
    return (long)(pair[0] * 3 ^ pair[1] * 5 ^ low * 7 ^ high * 11) + done;
}

long halves(long a, long b)
{
    number low = (number)a, other = (number)b;

    __asm__("andb $0x7f, %%dh\n\taddb %%ch, %%dh\n\tmovb %%dl, %%ch\n\tsetc %%cl"
            : "+d"(low), "+c"(other) : : "cc");
    return (long)(low * 3 ^ other);
}

long stacked(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}

static struct {
    pthread_mutex_t mutex;
    pthread_t holder;
    int count;
} own = {PTHREAD_MUTEX_INITIALIZER, 0, 0};

void hold(void)
{
    pthread_mutex_lock(&own.mutex);
    own.holder = pthread_self();
    own.count = 1;
}

/* As MPICH takes its lock: the caller may not have it, and nobody has it then. */
long checked(long a, long b)
{
    pthread_t myself = pthread_self();

    if (pthread_equal(own.holder, myself) || pthread_mutex_lock(&own.mutex) || own.count)
        return -1;
    own.holder = myself;
    own.count = 1;
    return a + b;
}

long endless(long a, long b)
{
    volatile long turns = a + b;

    for (;;)
        turns++;
    return turns;
}

long wild(long a, long b)
{
    return *(volatile long *)a + b;
}
"""
FUNCTIONS = (
    "arithmetic",
    "conditions",
    "structures",
    "cases",
    "memory",
    "carries",
    "exchanges",
    "halves",
)
numbers = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-4, 4)


@pytest.fixture(scope="module", params=["-O0", "-O2", "-O2 -fPIC -fno-plt"])
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    directory: Path = tmp_path_factory.mktemp("emulated")
    source, made = directory / "emulated.c", directory / "libemulated.so"
    source.write_text(SOURCE)
    flags = [*request.param.split(), "-fwrapv", "-fno-tree-vectorize"]
    subprocess.run(["cc", *flags, "-shared", "-fPIC", "-pthread", "-o", made, source], check=True)
    return ctypes.CDLL(str(made))


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    memory = Memory(ProcessImage(os.getpid()))
    try:
        yield Emulator(memory, Images(memory), 0)
    finally:
        memory.close()


def address(library: ctypes.CDLL, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_processor(library: ctypes.CDLL, name: str) -> None:
    function = getattr(library, name)
    function.restype, function.argtypes = ctypes.c_long, (ctypes.c_long, ctypes.c_long)
    place = address(library, name)
    memory = Memory(ProcessImage(os.getpid()))
    images = Images(memory)

    @settings(max_examples=60, deadline=None)
    @given(numbers, numbers)
    def compare(a: int, b: int) -> None:
        emulator = Emulator(memory, images, place)
        # The guard of the stack is a word of the thread's memory: any word that stays as it is.
        assert ctypes.c_long(emulator.call(place, a, b)).value == function(a, b), (a, b)

    try:
        compare()
    finally:
        memory.close()


def test_arguments_beyond_the_registers_are_on_the_stack(
    library: ctypes.CDLL, emulator: Emulator
) -> None:
    values = (7, 1, 8, 2, 9, 3, 10, 4, 11)
    found = emulator.call(address(library, "stacked"), *values)
    assert found == sum(number * value for number, value in enumerate(values, 1))


def test_a_lock_that_a_stopped_thread_holds_is_free(
    library: ctypes.CDLL, emulator: Emulator
) -> None:
    library.hold()
    assert emulator.call(address(library, "checked"), 3, 4) == 7
    library.checked.restype, library.checked.argtypes = ctypes.c_long, (ctypes.c_long,) * 2
    assert library.checked(3, 4) == -1, "the process holds its lock still"


def test_code_without_an_end_is_given_up(library: ctypes.CDLL, emulator: Emulator) -> None:
    with pytest.raises(EmulationError, match="no end after 5000"):
        emulator.call(address(library, "endless"), 1, 2, most_steps=5000)


def test_memory_that_is_not_there_is_an_error(library: ctypes.CDLL, emulator: Emulator) -> None:
    with pytest.raises(EmulationError, match="no memory at"):
        emulator.call(address(library, "wild"), 64, 1)


def test_code_that_fails_in_its_middle_has_written_nothing(
    library: ctypes.CDLL, emulator: Emulator
) -> None:
    place = emulator.allocate(16)
    with pytest.raises(EmulationError, match="no end"):
        emulator.call(address(library, "locks_for_ever"), place, 1, most_steps=5000)
    assert emulator.number(place, 8) == 0
    emulator.write(place, b"\5")
    with pytest.raises(EmulationError, match="no end"):
        emulator.call(address(library, "locks_for_ever"), place, 1, most_steps=5000)
    assert emulator.number(place, 8) == 5


def test_nothing_is_written_into_the_process(emulator: Emulator) -> None:
    data = ctypes.create_string_buffer(b"as it was")
    place = ctypes.addressof(data)
    emulator.write(place, b"changed!!")
    assert emulator.read(place, 9) == b"changed!!"
    assert data.value == b"as it was"
