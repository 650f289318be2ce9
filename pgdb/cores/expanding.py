"""Expansion of compressed core files, by the programs that compress them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from pgdb.cores.core_file import COMPRESSIONS, CoreFileError

_BLOCK_BYTES = 1 << 20


def expand(path: str, folder: Path, number: int) -> str:
    """Expand a compressed core file into *folder*; return the name of the new file.

    Blocks of zeros take no space there.

    :param number: distinguishes the files of a folder.
    :raises CoreFileError: if that fails.
    """
    with open(path, "rb") as file:
        start = file.read(8)
    found = next((COMPRESSIONS[each] for each in COMPRESSIONS if start.startswith(each)), None)
    if found is None:
        raise CoreFileError("is not compressed")
    name, command = found
    if shutil.which(command[0]) is None:
        raise CoreFileError(
            f"is compressed, and there is no program {command[0]} here to expand it with"
        )
    target = folder / f"core-{number}"
    try:
        with open(path, "rb") as source, open(target, "xb") as out:
            process = subprocess.Popen(
                command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            with process:
                assert process.stdout is not None and process.stderr is not None
                while block := process.stdout.read(_BLOCK_BYTES):
                    if block.count(0) == len(block):
                        out.seek(len(block), os.SEEK_CUR)
                    else:
                        out.write(block)
                out.truncate(out.tell())
                words = process.stderr.read().decode("utf-8", "replace").strip()
    except OSError as error:
        target.unlink(missing_ok=True)
        raise CoreFileError(
            f"is compressed ({name}), and cannot be expanded into {folder}: {error.strerror}; "
            "TMPDIR names another folder"
        ) from None
    if process.returncode and not target.stat().st_size:
        target.unlink(missing_ok=True)
        why = words.splitlines()[-1] if words else f"exit status {process.returncode}"
        raise CoreFileError(f"is compressed ({name}), and is damaged: {why}")
    # A compressed file that is cut off gives a truncated core, which its reader notices.
    return str(target)
