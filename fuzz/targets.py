"""The targets: each reads bytes as PGDB would, and raises documented errors only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz import files, gdb_output, links, typed
from fuzz.mutation import Mutate, bytes_mutator, tree_mutator
from pgdb import elf
from pgdb.errors import (
    CommandError,
    DiscoveryError,
    LinkError,
    PgdbError,
    ProtocolError,
    RankSetError,
    UsageError,
)

CORPUS = Path(__file__).parent / "corpus"
CRASHES = Path(__file__).parent / "crashes"


@dataclass(frozen=True, slots=True)
class Target:
    """One reader of foreign data."""

    name: str
    what: str
    run: Callable[[bytes], object]
    errors: tuple[type[BaseException], ...]
    """Errors that it may raise; any other error is a crash."""
    words: tuple[bytes, ...] = ()
    """Words that such inputs consist of."""
    mutator: Callable[[Sequence[bytes], Sequence[bytes]], Mutate] = bytes_mutator
    slow_s_per_byte: float = 20e-6
    """Most seconds per byte of an input, besides a fifth of a second; a longer time is a crash."""

    @property
    def corpus(self) -> list[bytes]:
        """The inputs to begin with, former crashes included."""
        folders = (CORPUS / self.name, CRASHES / self.name)
        paths = sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir())
        return [path.read_bytes() for path in paths]

    def mutate(self) -> Mutate:
        """Return a function that makes inputs."""
        # Long inputs are only replayed: they would take most of the time.
        return self.mutator([each for each in self.corpus if len(each) < 4096], self.words)


_TARGETS = (
    Target("mi", "lines of GDB/MI and what they hold", gdb_output.run_mi, (), gdb_output.MI_WORDS),
    Target("wire", "messages, answers, events", links.run_wire, (ProtocolError,), links.WIRE_WORDS,
           tree_mutator),
    Target("rankset", "rank sets on the wire", links.run_rankset, (ProtocolError, RankSetError),
           links.WIRE_WORDS),
    Target("channel", "the framing of links", links.run_channel, (LinkError, ProtocolError),
           links.WIRE_WORDS),
    Target("delivery", "files that are handed on", links.run_delivery, (ProtocolError,),
           links.WIRE_WORDS),
    Target("rendezvous", "the first data of aggregators", links.run_rendezvous, (ValueError,),
           (b"{", b"}", b'"', b"[", b"]", b'"hosts":', b"1e999", b"\\u0000", b"null")),
    Target("ranks", "rank sets as users write them", typed.run_ranks, (RankSetError,),
           typed.TEXT_WORDS),
    # A user types lines: a tenth of a second for thousands of letters is quick enough.
    Target("commands", "typed lines", typed.run_commands, (PgdbError,), typed.COMMAND_WORDS,
           slow_s_per_byte=500e-6),
    Target("launch", "launchers' lines", typed.run_launch, (UsageError,), typed.LAUNCH_WORDS),
    # Each input builds the parser anew, which takes milliseconds.
    Target("options", "command lines and variables of the environment", typed.run_options,
           (UsageError,), typed.OPTION_WORDS, slow_s_per_byte=1e-3),
    Target("values", "values as GDB prints them", gdb_output.run_values, (),
           gdb_output.VALUE_WORDS),
    Target("saved", "files of saved answers", files.run_saved, (CommandError,),
           (b"{", b"}", b'"', b"[", b"]", b"0-3", b'"type":"stack"', b"1e999", b"null", b",")),
    Target("recording", "recorded sessions", files.run_recording, (ProtocolError,),
           links.WIRE_WORDS, tree_mutator),
    Target("settings", "settings that are kept", files.run_settings, (CommandError,),
           (b"{", b"}", b'"', b"[", b"1e999", b"null", b"NaN", b",", b"-1", b"9" * 400)),
    Target("elf", "objects of ranks, in files and in memory", files.run_elf, (elf.ElfError,),
           files.ELF_WORDS),
    Target("proctable", "a launcher's memory", files.run_proctable, (), files.TABLE_WORDS),
    Target("symbols", "a launcher's object files", files.run_symbols, (), files.ELF_WORDS),
    Target("maps", "/proc/PID/maps", files.run_maps, (DiscoveryError,), files.MAPS_WORDS),
    Target("index", "GDB's index cache", files.run_index, (), files.ELF_WORDS),
)  # fmt: skip
TARGETS = {target.name: target for target in _TARGETS}
