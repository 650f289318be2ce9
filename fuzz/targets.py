"""The targets: each reads bytes as PGDB would, and raises documented errors only."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fuzz.mutation import Mutate, bytes_mutator, tree_mutator
from pgdb import elf, elf_symbols, process_maps
from pgdb.backend.gdb import breakpoint_decode, decode, mi, mi_lines
from pgdb.backend.zygote import index_cache
from pgdb.errors import (
    CommandError,
    DiscoveryError,
    GdbError,
    InternalError,
    LinkError,
    PgdbError,
    ProtocolError,
    RankSetError,
    UsageError,
)
from pgdb.files.delivery import Delivery
from pgdb.frontend.analysis import values
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import gdb_blocks, gdb_commands
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.settings_journal import SettingsJournal
from pgdb.frontend.commands import host
from pgdb.frontend.commands.dispatch import Dispatcher, Quit
from pgdb.frontend.commands.table import Call, Outcome
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.discovery import mpir
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.show.text import render
from pgdb.frontend.store import recording_file, saved_files, settings
from pgdb.frontend.store.recorder import Recorder
from pgdb.frontend.ui.arguments import parse
from pgdb.jobs import launch_lines, launchers
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.merge.graph import from_graph, to_graph
from pgdb.merge.rankset_codec import pack, unpack
from pgdb.overlay import channel
from pgdb.overlay.message_codec import decode as decode_message
from pgdb.overlay.message_codec import encode
from pgdb.overlay.messages import (
    Announce,
    AnyMessage,
    Deliveries,
    Events,
    FilePart,
    FilesAre,
    Found,
    Hello,
    Joined,
    Reply,
    Setup,
    Table,
    WantFiles,
    WantPart,
)
from pgdb.overlay.rendezvous import Rendezvous
from pgdb.overlay.topology import Topology
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Event

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


# -- what GDB says -----------------------------------------------------------------------------


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


# -- what comes over the links -----------------------------------------------------------------

_ALL = RankSet.range(0, 64)


def run_wire(data: bytes) -> None:
    """Decode a message, and process it as a node does."""
    message = decode_message(data)
    match message:
        case Reply(graph=graph):
            classes, missing = from_graph(graph)
            merger: Merger[Any] = Merger()
            merger.add_classes(classes)
            merger.add_classes(each.part(_ALL) for each in classes)
            again = Reply(request_id=1, graph=to_graph(merger.classes, missing))
            encode(again)
            show(merger.classes, missing)
        case Events(classes=reported) | Announce(classes=reported):
            events: Merger[Event] = Merger()
            for each in reported:
                events.add(each.ranks, each.record, each.slots)
            encode(Events(classes=events.classes))
            for each in events.classes:
                each.filled  # noqa: B018  # is put together now
            run_state(reported)
        case Table(node=node, count=count, fan_out=fan_out):
            topology = Topology(count=count, fan_out=fan_out)
            topology.ancestors(node)
            topology.levels_below(node)
        case Setup(shares=shares):
            for share in shares:
                share.ranks, share.pids  # noqa: B018  # are unpacked now
            encode(message)
        case Found(jobs=jobs):
            for job in jobs:
                len(job.ranks)
            encode(message)
        case Hello(below=packed) | Joined(nodes=packed):
            for each in packed:
                Hello.unpack(each).pack()
            encode(message)
        case _:
            encode(message)


def show(classes: tuple[EquivalenceClass[Any], ...], missing: Any) -> None:
    """Render an answer as text and JSON, as the front end does."""
    if sum(len(each.ranks) for each in classes) > 1000 or len(classes) > 20:
        return
    ranks = RankSet.union(each.ranks for each in classes)
    answer = Answer(command="x", ranks=ranks | missing.ranks, classes=classes, missing=missing)
    render.answer(answer)
    json_lines.encode(json_lines.answer(answer, str, 0.0))


def run_state(reported: tuple[EquivalenceClass[Event], ...]) -> None:
    """Process events as the front end does."""
    state = JobState(_ALL)
    state.apply(reported)
    state.latest(_ALL)


WIRE_WORDS = tuple(
    b"0-3|0-16777216/2|0,5|0-1/9999999999|R|G|B|value|stack|text|various|error|block|lines|whole|"
    b"\xc2\xb2|\xef\xbf\xbc|\xef\xbf\xb9|\0\xef\xbf\xbc\0|0x5555555592a0|late|running|<f8|-1|nan|0f0f0f".split(
        b"|"
    )
)


def run_rankset(data: bytes) -> None:
    """Unpack a rank set in any encoding."""
    found = unpack(data if data[:1] in (b"R", b"G", b"B") else data.decode("utf-8", "replace"))
    if len(found) < 5000:
        assert unpack(pack(found)) == found


class _Writer:
    """The writing end of a link that discards everything."""

    class transport:  # asyncio's name
        @staticmethod
        def get_write_buffer_size() -> int:
            return 0

        @staticmethod
        def abort() -> None:
            return None

    @staticmethod
    def get_extra_info(name: str) -> None:
        return None

    @staticmethod
    def is_closing() -> bool:
        return False

    def write(self, data: bytes) -> None:
        return None

    def close(self) -> None:
        return None


def run_channel(data: bytes) -> None:
    """Receive messages from a link until it has an end."""

    async def receive() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        link = channel.Channel(reader, _Writer())  # type: ignore[arg-type]
        try:
            while True:
                await link.receive()
        finally:
            link.close()

    run_coroutine(receive())


_loop: list[asyncio.AbstractEventLoop] = []


def run_coroutine(coroutine: Any) -> Any:
    """Run a coroutine in a loop that is kept: a new loop takes ten times as long."""
    if not _loop:
        _loop.append(asyncio.new_event_loop())
    return _loop[0].run_until_complete(coroutine)


def close_loop() -> None:
    """Close the loop of :func:`run_coroutine`."""
    while _loop:
        _loop.pop().close()


def run_delivery(data: bytes) -> None:
    """Send messages to a node that delivers files, alternately from below and from above."""

    async def take() -> None:
        sent: list[AnyMessage] = []

        def no_cache() -> Any:
            raise OSError(28, "no room")

        def down(child: int, message: AnyMessage) -> None:
            sent.append(message)

        delivery = Delivery(
            1, "host", open_cache=no_cache, up=sent.append, down=down, notice=lambda text: None
        )
        try:
            for number, each in enumerate(framed(data)):
                message = decode_message(each)
                if not isinstance(message, WantFiles | FilesAre | WantPart | FilePart | Deliveries):
                    continue
                if number % 2:
                    delivery.from_above(message)
                else:
                    delivery.from_child(number % 5, message)
                await asyncio.sleep(0)
            delivery.new_parent()
            delivery.lose_child(2)
        finally:
            await delivery.close()
        for each in sent:
            encode(each)

    run_coroutine(take())


def framed(data: bytes) -> Iterator[bytes]:
    """Yield the pieces of *data*, each of which follows two bytes with its length."""
    at = 0
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        yield data[at + 2 : at + 2 + size]
        at += 2 + size


def run_rendezvous(data: bytes) -> None:
    """Read the rendezvous that an aggregator gets before it has a link."""
    Rendezvous.parse(data).dump()


# -- what users write --------------------------------------------------------------------------


def run_ranks(data: bytes) -> None:
    """Read a rank set as users write it."""
    text = data.decode("utf-8", "replace")
    found = RankSet.parse(text, everything=_ALL, named={"a": RankSet([1]), "": _ALL}.get)
    if found.run_count < 5000:
        assert RankSet.parse(str(found)) == found if found else str(found) == ""


class _Nobody:
    """A stand-in for a session: a job of which no rank answers."""

    def __init__(self) -> None:
        self.set = _ALL
        self.state = JobState(_ALL)
        self.sets: dict[str, RankSet] = {}
        ranks = tuple(RankProcess(rank, "node1", 4711 + rank, "/bin/app") for rank in _ALL)
        self.table = ProcTable(ranks, "nobody")
        self.options = SessionOptions()
        self.settings = SettingsJournal()
        self.recorder = Recorder()

    def named_set(self, name: str) -> RankSet | None:
        return self.sets.get(name) or self.state.named(name)

    def numbered_on(self, text: str) -> str:
        return text

    def subscribe(self, take: object) -> Callable[[], None]:
        return lambda: None

    def check_restart(self) -> None:
        raise CommandError("nobody restarts this job")

    def ranks(self, which: str | RankSet) -> _Nobody:
        found = which
        if isinstance(which, str):
            found = RankSet.parse(which, everything=_ALL, named=self.named_set)
        if unknown := found - _ALL:
            raise RankSetError(f"no rank {unknown}")
        return self

    def __getitem__(self, which: int) -> _Nobody:
        return self

    def one_call(self, line: str) -> contextlib.AbstractContextManager[None]:
        """Log no call for a script."""
        return contextlib.nullcontext()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _NoCall(name)


class _NoCall:
    """A stand-in for a method of the session, or for a part of it with methods: it fails."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _NoCall:
        if name.startswith("_"):
            raise AttributeError(name)
        return _NoCall(f"{self._name}.{name}")

    async def __call__(self, *arguments: object, **options: object) -> Any:
        raise CommandError(f"{self._name}: nobody answers")


class _NoDisplay:
    width = 80

    def error(self, error: PgdbError, command: str) -> None:
        """Re-raise errors that are not the user's."""
        if isinstance(error, InternalError):
            raise AssertionError(f"{command!r}: {error}") from error

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: None


def run_commands(data: bytes) -> None:
    """Read typed lines, up to the requests to the ranks."""
    lines = [line for line in data.decode("utf-8", "replace").split("\n") if line.strip()]
    # No input may touch a file: no rank answers, and no line names a file in a folder.
    if any(bad in word for line in lines for word in line.split()[1:] for bad in ("/", "..")):
        return

    async def read() -> None:
        left = iter(lines)

        async def next_line(prompt: str) -> str | None:
            return next(left, None)

        dispatcher = Dispatcher(Workspace(_Nobody()), _NoDisplay(), read_line=next_line)  # type: ignore[arg-type]
        for line in left:
            gdb_blocks.reads_lines(line)
            if gdb_commands.first_word(line) in _TOUCHING:
                dispatcher._call(line, _ALL) if line.strip()[:1] != "@" else None
                continue
            with contextlib.suppress(Quit):
                await dispatcher.run_line(line)
                await dispatcher.dispatch(line, _ALL)

    # No input may run a command of the shell.
    with patch.object(host, "_run", _refuse_to_run):
        run_coroutine(read())


async def _refuse_to_run(call: Call, command: str, given: bytes | None = None) -> Outcome:
    raise CommandError(f"{call.word}: {command!r} is not run ({given!r})")


# Without a session they would look for files.
_TOUCHING = frozenset({"decompose", "help", "h"})


def run_launch(data: bytes) -> None:
    """Parse a launcher's line, as for each family of launchers whose options are known."""
    words = ["mpirun", *data.decode("utf-8", "replace").split("\n")]
    for family in launch_lines.TABLES:
        launcher = launchers.Launcher(Path("/nonexistent/mpirun"), family, "1")
        list(launch_lines.options_of(launcher, words))
        with contextlib.suppress(UsageError):
            launch_lines.parse_line_of(launcher, words, {})


def run_values(data: bytes) -> None:
    """Parse a value as GDB prints it; no text may be lost."""
    text = data.decode("utf-8", "replace")
    assert values.unparse(values.parse(text)) == text


def run_saved(data: bytes) -> None:
    """Read a file with an answer."""
    with scratch_file(data) as path:
        saved_files.read(path)


def run_recording(data: bytes) -> None:
    """Read the messages of a recorded session, and encode them again."""
    loaded = recording_file.decode(
        b"pgdb-recording %d\n%s" % (recording_file.VERSION, zlib.compress(data, 1))
    )
    assert loaded.file.table is not None


def run_settings(data: bytes) -> None:
    """Read a file of settings."""
    with scratch_file(data) as path:
        settings.read_settings(path).change(SessionOptions())


def run_options(data: bytes) -> None:
    """Read a command line; words that begin with PGDB_ are environment variables."""
    words = data.decode("utf-8", "surrogateescape").replace("\0", "").split("\n")
    variables = [each.partition("=") for each in words if each.startswith("PGDB_")]
    kept, stdin = dict(os.environ), sys.stdin
    try:
        sys.stdin = io.StringIO("4711,node2:812")
        os.environ.update({name: value for name, _, value in variables})
        with contextlib.redirect_stdout(io.StringIO()):
            parse([each for each in words if not each.startswith("PGDB_")])
    except SystemExit as end:  # --help, --version
        assert not end.code
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(kept)


# -- what processes and files of the user's hold -------------------------------------------------


@contextlib.contextmanager
def scratch_file(data: bytes) -> Iterator[Path]:
    """Yield a file in memory with these bytes."""
    file = os.memfd_create("pgdb-fuzz")
    try:
        os.write(file, data)
        yield Path(f"/proc/self/fd/{file}")
    finally:
        os.close(file)


def image(data: bytes, base: int = 0) -> elf.Read:
    """Return a reader of *data* as memory from *base* on."""

    def read(at: int, size_bytes: int) -> bytes:
        at -= base
        return data[at : at + max(0, size_bytes)] if 0 <= at < len(data) else b""

    return read


def run_elf(data: bytes) -> None:
    """Read an object from a file and from memory, and the linker's list of loaded objects."""
    base = 0x10000
    with contextlib.suppress(elf.ElfError):
        assert len(elf.build_id_of_file(image(data))) <= 2 * elf.MAX_NOTES_BYTES
    with contextlib.suppress(elf.ElfError):
        elf.debug_link(image(data))
    with contextlib.suppress(elf.ElfError):
        elf.build_id_in_memory(image(data, base), base)
    head = elf.header(image(data))
    for is_64 in (True, False):
        elf.link_map(
            image(data, base),
            base + head.segments_at,
            head.segment_count,
            is_64=is_64,
            order=head.order,
        )


class _Image(mpir.Memory):
    """A made-up memory of a launcher."""

    def __init__(self, data: bytes, base: int) -> None:
        super().__init__(-1)
        self._read = image(data, base)

    def read(self, address: int, size_bytes: int) -> bytes:
        return self._read(address, size_bytes)


_IMAGE_BASE = 0x5555_5555_0000


def run_proctable(data: bytes) -> None:
    """Read the proctable of a launcher whose memory is *data*; it begins with pointer and size."""
    memory = _Image(data, _IMAGE_BASE)
    with contextlib.suppress(DiscoveryError):
        mpir.table_at(memory, _IMAGE_BASE, _IMAGE_BASE + 8, "mpirun 1")
    area = process_maps.Mapping(_IMAGE_BASE, _IMAGE_BASE + len(data), "rw-p", 0, "")
    mpir.search([area], [area], memory, {1, 2, 3, 4711})


def run_symbols(data: bytes) -> None:
    """Look for a launcher's symbols in an object that may be torn."""
    with scratch_file(data) as path:
        mapping = process_maps.Mapping(0x400000, 0x500000, "r-xp", 0, str(path))
        elf_symbols.symbol_values(path, mapping, ("MPIR_proctable", "MPIR_proctable_size"))


def run_maps(data: bytes) -> None:
    """Read /proc/PID/maps."""
    process_maps.parse_mappings(data)


def run_index(data: bytes) -> None:
    """Read an index of GDB's."""
    with scratch_file(data) as path:
        index_cache.is_whole(path)


TEXT_WORDS = tuple(
    b"0|3|-|..|/|,|!|&|^|all|@a|@|[|]| |0-31/2|16777216|2147483647|99999999999999999999|\n".split(
        b"|"
    )
)
COMMAND_WORDS = (
    *b"proc |focus |print |p/x |bt |tree |stat |save |compare |assert |expand |break |delete |"
    b"defset a |commands 1\n|end\n|thread apply all |with |--|-o |--by |-n |@1 |0-3 |all |(|)|"
    b"\"|'|$_|==| < |set |show |info |x/4i |frame |up |define f\n|python\n|&|\0|\xc3\xa9|99999999"
    b"99999999999|@bp|\xc2\xb2|ranks |wait |plot |dump |array ".split(b"|"),
    b"9" * 5000,
    b"delete 1-",
)
LAUNCH_WORDS = (
    *b"mpirun\n|-n\n|4\n|-np\n|--\n|:\n|./app\n|--mca\n|a\n|-x\n|-genv\n|A=1\n|--host\n|h:2,h2:3\n"
    b"|-H\n|--map-by\n|ppr:2:node\n|-N4\n|-c|--nodes=1-3\n|-wdir\n|=|-env\n|--ntasks=\n|\xd9\xa3\n|-"
    b"".split(b"|"),
    b"9" * 5000 + b"\n",
)
OPTION_WORDS = (
    *b"attach\n|launch\n|replay\n|report-bug\n|jobs\n|doctor\n|-p\n|--pid=1\n|--\n|--ranks\n|0-3\n|"
    b"--timeout\n|-1\n|1e999\n|nan\n|0\n|--sbd-cache-size\n|--grace\n|--pids\n|0:host:1\n|-ex\n|bt\n|"
    b"-x\n|--host\n|--ssh\n|ssh -o 'a\n|--listen\n|999.0.0.1\n|--aggregators\n|2\n|--wire-up\n|"
    b"mpi\n|--gdb\n|--log\n|--help\n|--batch\n|--json\n|--settle\n|mpirun\n|-n\n|PGDB_SSH=ssh 'a\n|"
    b"PGDB_SSH=\n|PGDB_SBD_CACHE=/tmp/%h%\n|=|\xff|\xc2\xb2|-o\n|--output\n|@a\n|4711\n".split(
        b"|"
    ),
    b"9" * 5000,
)
VALUE_WORDS = tuple(
    b"{|}| = |, |0x1234|\"a\"|'b'| <repeats 20 times>|...|<error: x>|@0x12: |[0] = |std::vector of "
    b"length 2, capacity 2 = |members of A:\n|(|)|operator->|<incomplete sequence \\303>|\\|1.5e-3|"
    b"nan(0x8)|\n|  ".split(b"|")
)
ELF_WORDS = (
    b"\x7fELF\2\1\1", b"\x7fELF\1\2\1", b"GNU\0", b".gnu_debuglink\0", b".symtab\0", b".dynsym\0",
    b"MPIR_proctable\0", b"MPIR_proctable_size\0", struct.pack("<III", 4, 20, 3),
    struct.pack("<QQ", 21, 0x10000), struct.pack("<IIQQ", 2, 6, 64, 64),
)  # fmt: skip
TABLE_WORDS = (
    struct.pack("<QQi4x", _IMAGE_BASE + 64, _IMAGE_BASE + 80, 4711), b"node1\0", b"/bin/app\0",
    struct.pack("<Q", _IMAGE_BASE + 16), struct.pack("<i", 2), struct.pack("<i", -1),
)  # fmt: skip
MAPS_WORDS = tuple(
    b"7f00-7f10|r-xp|rw-p| |00000000|08:01|1234|/usr/bin/mpirun| (deleted)|\n|-|\xff".split(b"|")
)

_TARGETS = (
    Target("mi", "lines of GDB/MI and what they hold", run_mi, (), MI_WORDS),
    Target("wire", "messages, answers, events", run_wire, (ProtocolError,), WIRE_WORDS,
           tree_mutator),
    Target("rankset", "rank sets on the wire", run_rankset, (ProtocolError, RankSetError),
           WIRE_WORDS),
    Target("channel", "the framing of links", run_channel, (LinkError, ProtocolError), WIRE_WORDS),
    Target("delivery", "files that are handed on", run_delivery, (ProtocolError,), WIRE_WORDS),
    Target("rendezvous", "the first data of aggregators", run_rendezvous, (ValueError,),
           (b"{", b"}", b'"', b"[", b"]", b'"hosts":', b"1e999", b"\\u0000", b"null")),
    Target("ranks", "rank sets as users write them", run_ranks, (RankSetError,), TEXT_WORDS),
    # A user types lines: a tenth of a second for thousands of letters is quick enough.
    Target("commands", "typed lines", run_commands, (PgdbError,), COMMAND_WORDS,
           slow_s_per_byte=500e-6),
    Target("launch", "launchers' lines", run_launch, (UsageError,), LAUNCH_WORDS),
    # Each input builds the parser anew, which takes milliseconds.
    Target("options", "command lines and variables of the environment", run_options,
           (UsageError,), OPTION_WORDS, slow_s_per_byte=1e-3),
    Target("values", "values as GDB prints them", run_values, (), VALUE_WORDS),
    Target("saved", "files of saved answers", run_saved, (CommandError,),
           (b"{", b"}", b'"', b"[", b"]", b"0-3", b'"type":"stack"', b"1e999", b"null", b",")),
    Target("recording", "recorded sessions", run_recording, (ProtocolError,), WIRE_WORDS,
           tree_mutator),
    Target("settings", "settings that are kept", run_settings, (CommandError,),
           (b"{", b"}", b'"', b"[", b"1e999", b"null", b"NaN", b",", b"-1", b"9" * 400)),
    Target("elf", "objects of ranks, in files and in memory", run_elf, (elf.ElfError,), ELF_WORDS),
    Target("proctable", "a launcher's memory", run_proctable, (), TABLE_WORDS),
    Target("symbols", "a launcher's object files", run_symbols, (), ELF_WORDS),
    Target("maps", "/proc/PID/maps", run_maps, (DiscoveryError,), MAPS_WORDS),
    Target("index", "GDB's index cache", run_index, (), ELF_WORDS),
)  # fmt: skip
TARGETS = {target.name: target for target in _TARGETS}
