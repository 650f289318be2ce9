"""The commands of the PGDB of 2014 become GDB's."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.commands.old_names import translated


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("list break", "info breakpoints"),
        ("continue --reverse", "reverse-continue"),
        ("c --all", "continue"),
        ("c --thread-group i1 3", "continue 3"),
        ("next --reverse 2", "reverse-next 2"),
        ("si --reverse", "reverse-stepi"),
        ("finish --reverse", "reverse-finish"),
        ("interrupt --all", "interrupt"),
        ("run --all", "run"),
        ("step --all --lockstep 3", "step --lockstep 3"),
        ("finish --lockstep", "finish --lockstep"),
        ("c --thread-group=1 --all 2", "continue 2"),
        ("run -- --all", "run -- --all"),
        ("tvariables", "info tvariables"),
        ("tvariable $n 3", "tvariable $n = 3"),
        ("tvariable $n = 3", "tvariable $n = 3"),
        ("tfind frame-number 3", "tfind 3"),
        ("tfind tracepoint-number 2", "tfind tracepoint 2"),
        ("tfind pc-inside-range 0x1 0x9", "tfind range 0x1, 0x9"),
        ("tfind pc-outside-range 0x1, 0x9", "tfind outside 0x1, 0x9"),
        ("tfind none", "tfind none"),
        ("tfind line 3", "tfind line 3"),
        ("dir -r /a /b", "directory|directory /a /b"),
        ("dir -r", "directory"),
        ("directory /a", "directory /a"),
        ("watch -a x.y", "awatch x.y"),
        ("watch -r x", "rwatch x"),
        ("watch -l x", "watch -l x"),
        ("bt 1 3", "frame apply level 1-3 echo"),
        ("bt 3", "bt 3"),
        ("bt -full 3", "bt -full 3"),
        ("x -o 4 buf 16", "x/16xb (char *)(buf) + (4)"),
        ("x buf 16", "x/16xb buf"),
        ("x/x 3", "x/x 3"),
        ("x/4x buf", "x/4x buf"),
        ("x buf", "x buf"),
        ("exec file a.out", "exec-file a.out"),
        ("symbol file a.out", "symbol-file a.out"),
        ("add inferior", "add-inferior"),
        ("interpreter exec console print 1", "interpreter-exec console print 1"),
        ("set inferior tty /dev/null", "set inferior-tty /dev/null"),
        ("enable pretty printing", "enable pretty-printer"),
        ("enable timings", "set timings on"),
        ("enable timings no", "set timings off"),
        ("disable timings", "set timings off"),
        ("break -t main", "tbreak main"),
        ("b -h f", "hbreak f"),
        ("b -h -t f", "thbreak f"),
        ("b -a f", "trace f"),
        ("b -d f", "break f|disable $bpnum"),
        ("b -f libfoo.c:3", "with breakpoint pending on -- break libfoo.c:3"),
        ("b -c 'x > 1' -i 2 -p 1 f", "break f thread 1 if x > 1|ignore $bpnum 2"),
        ("b -c x f", "break f if x"),
        ("b -t", "tbreak"),
        ("b -source a.c -line 3", "b -source a.c -line 3"),
        ("b -function f", "b -function f"),
        ("b -q f", "b -q f"),
        ("step 2", "step 2"),
        ("print -1", "print -1"),
        ("zzz --all", "zzz --all"),
    ],
)
def test_old_forms_become_gdbs_and_gdbs_stay(line: str, lines: str) -> None:
    assert "|".join(translated(line)) == lines


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("step --back", "step: no option '--back'; there are --lockstep, --all and --thread-group"),
        ("continue --lockstep", "continue: no option '--lockstep'; there are --all and --thread"),
        ("continue --thread-group i2", "a rank has the thread group i1 only"),
        ("interrupt --reverse", "no option '--reverse'"),
        ("run --foo", "run: no option '--foo'; there are --all and --thread-group i1"),
        ("step --ranks 1", "; 'proc SET step' chooses the ranks"),
        ("step --thread-group", "step: --thread-group needs a value"),
        ("b -a -t f", "-a is a tracepoint"),
        ("b -c", "-c needs a value"),
        ("b -i x f", "-i needs a number, not 'x'"),
        ("tfind pc-inside-range 1", "needs two addresses"),
    ],
)
def test_wrong_options_are_named(line: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        translated(line)
