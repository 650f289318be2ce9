"""Readers of GDB's output: lines of GDB/MI, and values as GDB prints them."""

from __future__ import annotations

import contextlib

from pgdb.backend.gdb import breakpoint_decode, decode, mi, mi_lines
from pgdb.errors import GdbError
from pgdb.frontend.analysis import values


def run_mi(data: bytes) -> None:
    """Read lines of GDB, whole and in pieces, and decode their results."""
    lines = mi_lines.Lines()
    cut_at = data[0] * len(data) >> 8 if data else 0
    for piece in (data[:cut_at], data[cut_at:], b"\n"):
        for line in lines.feed(piece):
            assert isinstance(line, bytes)
            part = mi.cut(line)
            if part.kind in ("^", "*", "="):
                decode_all(part)
                part.payload  # noqa: B018  # is put together now
    size = 3 + cut_at % 61
    if len(data) < 2000:
        first = data.partition(b"\n")[0]
        pieces = [first[at : at + size] for at in range(0, len(first), size)]
        mi_lines.cut_pieces(pieces)


def decode_all(line: mi.Line) -> None:
    """Decode a line as the answer to each command that could have it."""
    payload = line.payload
    decode.arguments_of(line)
    decode.threads(payload)
    decode.only_instruction(payload)
    with contextlib.suppress(GdbError):
        decode.memory(payload)
    decode.stop(payload, run=1)
    decode.exit_of(payload, run=1)
    frames, addresses = decode.frames_of(line)
    decode.place(frames)
    decode.with_arguments(frames, {0: ()})
    assert len(frames) == len(addresses)
    for bkpt in payload.values():
        if isinstance(bkpt, dict):
            breakpoint_decode.breakpoint_of(bkpt)
            decode.frame(bkpt)


MI_WORDS = tuple(
    b'^done|^error,msg="|*stopped,|=breakpoint-modified,bkpt={|~"|&"|"|,|={|=[|}|]|{|[|\\|\\"|\\n'
    b'|\\303\\244|\\000|\\377|0x7ffff7a05b97|0x|(LWP 4711)|script={"|number="1"|addr="|level="'
    b'|frame={|args=[|stack=[|stack-args=[|threads=[|memory=[{begin="0x10",offset="0x0",contents="'
    b'|reason="exited",exit-code="|reason="|wpt={|value={old="|locations=[|line="|\x01|\x02|\n|\r'
    b"|9999999999|\xff|\xef\xbf\xbc".split(b"|")
)


def run_values(data: bytes) -> None:
    """Parse a value as GDB prints it; no text may be lost."""
    text = data.decode("utf-8", "replace")
    assert values.unparse(values.parse(text)) == text


VALUE_WORDS = tuple(
    b"{|}| = |, |0x1234|\"a\"|'b'| <repeats 20 times>|...|<error: x>|@0x12: |[0] = |std::vector of "
    b"length 2, capacity 2 = |members of A:\n|(|)|operator->|<incomplete sequence \\303>|\\|1.5e-3|"
    b"nan(0x8)|\n|  ".split(b"|")
)
