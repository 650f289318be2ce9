"""The mark of ``info sharedlibrary`` for libraries without debug information.

GDB prints it only where its top level is the command line, not GDB/MI. So a script in GDB names the
libraries: those in which neither the file nor a separate file of GDB's has debug information. A GDB
without Python marks none.
"""

from __future__ import annotations

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.patterns import pattern

_COMMAND = pattern(r"i(?:nfo)?\s+(?:sh[aredlibrary]*|dll)(?:\s|\Z)")
_ROW = pattern(r"(\S+ +\S+ +Yes)    ( +)(/.*)\Z")
_FOOTER = "(*): Shared library is missing debugging information."
_SCRIPT = """
import struct
def sections(name):
    with open(name, 'rb') as file:
        head = file.read(64)
        big, wide = head[5:6] == b'\\2', head[4:5] == b'\\2'
        order = '>' if big else '<'
        at = struct.unpack_from(order + ('Q' if wide else 'I'), head, 40 if wide else 32)[0]
        size, count, names = struct.unpack_from(order + 'HHH', head, 58 if wide else 46)
        file.seek(at)
        table = file.read(size * count)
        place = order + ('QQ' if wide else 'II'), 24 if wide else 16
        start, length = struct.unpack_from(place[0], table, size * names + place[1])
        file.seek(start)
        return file.read(length)
found = gdb.objfiles()
owners = [each.owner.filename for each in found if each.owner is not None]
for each in found:
    if each.owner is None and each.filename not in owners:
        try:
            if b'debug_info' not in sections(each.filename):
                print(each.filename)
        except Exception:
            pass
"""


def lists_libraries(command: str) -> bool:
    """Return whether a command is ``info sharedlibrary``."""
    return _COMMAND.match(command) is not None


async def with_marks(gdb: GdbSession, text: str) -> str:
    """Return the table of libraries with GDB's mark for missing debug information.

    :raises GdbError: if GDB ends.
    """
    (asked,) = gdb.ask_together(console(f"python exec({_SCRIPT!r})"))
    bare = set((await asked).text.split("\n"))
    lines, has_mark = [], False
    for line in text.split("\n"):
        row = _ROW.match(line)
        if row is not None and row[3] in bare:
            line, has_mark = f"{row[1]} (*){row[2]}{row[3]}", True
        lines.append(line)
    if has_mark:
        lines.insert(len(lines) - (not lines[-1]), _FOOTER)
    return "\n".join(lines)
