"""Bodies: the front end carries out what GDB cannot, on the ranks that reach a line."""

from __future__ import annotations

import pytest

from pgdb.errors import PgdbError
from pgdb.frontend.api.gdb_blocks import parse
from pgdb.frontend.commands.bodies import Checker
from pgdb.frontend.commands.user_commands import UserCommands, split_arguments, with_arguments
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import Console
from pgdb.ranks import RankSet
from pgdb.records import Record, Text
from tests.fakes.session import ALL
from tests.support.typed_lines import Typed


def test_a_command_that_gdb_can_carry_out_is_gdbs(typed: Typed) -> None:
    assert typed("define pp\nprint $arg0\nend") == ["define pp | print $arg0 | end"]
    assert typed("pp x") == ["pp x"]


def test_a_command_with_words_of_ours_is_carried_out_line_by_line(typed: Typed) -> None:
    assert typed("define both\nproc 0 ptype $arg0\n  ptype $arg1\necho $argc\nend") == []
    assert typed("both x 'y z'") == ["[0] ptype x", "ptype 'y z'", "echo 2"]


def test_commands_call_commands(typed: Typed) -> None:
    typed("define one\nproc 1 ptype $arg0\nend\ndefine two\none $arg0\none b\nend")
    assert typed("two a") == ["[1] ptype a", "[1] ptype b"]


def test_a_recursion_without_an_end_is_an_error(typed: Typed) -> None:
    typed("define again\nproc 0 again\nend\nagain")
    assert "does it carry out itself?" in typed.errors
    typed("define deep\nfocus all\ndeep\nend\ndeep")
    assert "'deep' calls itself without an end" in typed.errors


def test_conditions_divide_the_ranks(typed: Typed) -> None:
    typed.session.values = {"$arg0 > 1": [], "x > 1": [{"0-1": "0", "2-3": "1"}]}
    typed(
        "define split\nif $arg0 > 1\nptype yes\nproc 0 ptype p\nelse\nptype no\nend\nptype z\nend"
    )
    assert typed("split x") == [
        "= x > 1",
        "[2-3] ptype yes",
        "[0] ptype p",
        "[0-1] ptype no",
        "ptype z",
    ]


def test_a_loop_goes_on_with_the_ranks_whose_condition_is_true(typed: Typed) -> None:
    typed.session.values = {
        "i": [{"0-3": "1"}, {"0": "0", "1-3": "1"}, {"1-3": "0"}],
        "rank == 1": [{"0-3": "0"}, {"1": "1", "2-3": "0"}],
    }
    lines = typed("while i\nif rank == 1\nloop_break\nend\nproc 3 ptype t\nptype b\nend")
    assert [line for line in lines if "=" not in line] == [
        "[3] ptype t",
        "ptype b",
        "[3] ptype t",
        "[2-3] ptype b",
    ]


def test_loop_continue_leaves_out_the_rest(typed: Typed) -> None:
    typed.session.values = {
        "i": [{"0-3": "1"}, {"0-3": "0"}],
        "rank": [{"0": "0", "1-3": "1"}],
    }
    lines = typed("while i\nif rank\nloop_continue\nend\nproc 3 ptype t\nptype b\nend\nptype z")
    assert [line for line in lines if "=" not in line] == ["[3] ptype t", "[0] ptype b", "ptype z"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("attach 1", "'attach' is refused"),
        ("target remote :1", "'target' is refused"),
        ("file x", "'file' is refused"),
        ("starti", None),
        ("set non-stop on", "refused"),
        ("thread apply all attach 1", "'attach' is refused"),
        ("with print pretty on -- file x", "'file' is refused"),
        ("set follow-fork-mode child", "a rank is one process"),
        ("python gdb.execute('kill')", "'kill' is refused"),
        ("actions", "reads lines"),
        ("compile code", "reads lines"),
    ],
)
@pytest.mark.parametrize("opener", ["define foo", "if 1", "while 1"])
def test_a_body_is_checked_as_lines_are(
    typed: Typed, opener: str, line: str, says: str | None
) -> None:
    lines = typed(f"{opener}\nptype x\n{line}\nend")
    if says is not None:
        assert lines == []
        assert says in typed.errors and "line 2 of '" in typed.errors
        assert typed("ptype y") == ["ptype y"]


@pytest.mark.parametrize(
    "line",
    [
        "run",
        "kill",
        "detach",
        "quit",
        "tree",
        "proc 0 print x",
        "stat x",
        "shell ls",
        "catch death",
    ],
)
@pytest.mark.parametrize("opener", ["commands", "define hook-stop"])
def test_a_body_that_a_rank_carries_out_has_gdbs_commands_only(
    typed: Typed, opener: str, line: str
) -> None:
    assert typed(f"{opener}\nsilent\n{line}\nend") == []
    assert "line 2 of " in typed.errors and f"'{line}'" in typed.errors


@pytest.mark.parametrize("line", ["print py:step", "py-print step", "display py:step"])
def test_values_of_python_are_not_read_in_a_body_of_gdbs(typed: Typed, line: str) -> None:
    assert typed(f"commands\n{line}\nend") == []
    assert "'display py:EXPR' shows a value of Python at each stop" in typed.errors


def test_a_body_of_ours_reads_values_of_python(typed: Typed) -> None:
    assert typed("define step\nprint py:step\nend\nstep") == ["= py:step"]


def test_a_body_that_may_name_no_ranks_shows_how_to_choose_them(typed: Typed) -> None:
    assert typed("commands\nproc 2 print x\nend") == []
    assert "'if $_rank == N' … 'end' chooses ranks in it" in typed.errors


def test_gdb_is_spared_lines_that_end_it(typed: Typed) -> None:
    assert typed("commands\nwhile x\nloop_break\nend\nend") == []
    assert "line 2 of 'commands', 'loop_break': GDB ends with an internal error" in typed.errors


def test_aliases(typed: Typed) -> None:
    assert typed("alias mo = ptype") == ["alias mo = ptype"]
    assert typed("mo x") == ["ptype x"]
    assert typed("alias on0 = proc 0") == []
    assert typed("on0 ptype y") == ["[0] ptype y"]
    assert typed("alias bad = attach") == [] and "'attach' is refused" in typed.errors
    assert typed("alias print = proc 0") == [] and "is a command already" in typed.errors


def test_an_alias_of_several_words(typed: Typed) -> None:
    assert typed("alias i elx y = show print elements") == ["alias i elx y = show print elements"]
    assert typed("info elx y 3") == ["show print elements 3"]
    assert typed("inf  elx  y") == ["show print elements"]
    assert typed("info elx") == ["info elx"]


def test_aliases_of_each_other_are_an_error(typed: Typed) -> None:
    user = UserCommands()
    user.set_alias("aa", "bb", in_gdb=False)
    user.set_alias("bb", "aa", in_gdb=False)
    with pytest.raises(PgdbError, match="stand for each other"):
        user.expanded("aa 1", lambda word: False)


def test_a_users_name_precedes_gdbs_abbreviations_and_our_words(typed: Typed) -> None:
    typed("define go\nptype went\nend\ndefine tree\nptype t\nend")
    assert typed("go") == ["go"]
    assert typed("tree") == ["tree"]
    assert typed("define uniquely\nproc 0 ptype $arg0\nend") == []
    assert typed("uniq x") == ["[0] ptype x"]


@pytest.mark.parametrize(
    ("line", "outer"),
    [
        ("with print elements 3 -- tree", "with"),
        ("thread apply all stat x", "thread"),
        ("faas proc 0 ptype x", "faas"),
        ("frame apply all tree", "frame"),
    ],
)
def test_a_command_of_ours_is_not_for_gdb_to_carry_out(typed: Typed, line: str, outer: str) -> None:
    assert typed(line) == []
    assert "is a command of PGDB's" in typed.errors
    assert f"the command of '{outer}'" in typed.errors


def test_with_has_the_last_command_where_it_has_none(typed: Typed) -> None:
    assert typed("ptype x\nwith language c") == ["ptype x", "with language c -- ptype x"]
    assert typed("w listsize 3 --") == ["with listsize 3 -- ptype x"]


def test_documentation_and_text_of_ours(typed: Typed) -> None:
    typed("define foo\nproc 0 ptype x\nend\ndocument foo\nif you want\n so\nend\nhelp foo")
    assert "if you want\n so" in typed.errors
    typed("show user foo")
    assert 'User command "foo":\n  proc 0 ptype x\n' in typed.errors
    typed("define bar\n# a comment\n\n  proc 0 ptype y\nend\nshow user bar")
    assert 'User command "bar":\n  proc 0 ptype y\n' in typed.errors


@pytest.mark.parametrize("line", ["$arg0 1", "at$arg0 1", "with print pretty on -- $arg0 1"])
def test_a_command_in_an_argument_is_checked_at_the_call(typed: Typed, line: str) -> None:
    assert typed(f"define foo\n{line}\nptype x\nend") == []
    assert typed(f"foo {'tach' if line.startswith('at') else 'attach'}") == []
    assert "line 1 of 'foo': 'attach' is refused" in typed.errors
    assert typed("define bar\n$arg0 x\nend\nbar ptype") == ["ptype x"]


def test_a_command_that_is_defined_later_is_found(typed: Typed) -> None:
    typed("define outer\ninner $arg0\nend\ndefine inner\nproc 0 ptype $arg0\nend")
    assert typed("outer x") == ["[0] ptype x"]
    typed("define inner\nptype $arg0\nend")
    assert typed("outer x") == ["outer x"]


def test_commands_that_call_each_other_are_checked_once(typed: Typed) -> None:
    typed("define ping\npong\nend\ndefine pong\nping\nend")
    assert typed("ping") == ["ping"]  # GDB ends it at its own limit


@pytest.mark.parametrize(
    "line",
    [
        "with print pretty on -- detach",
        "thread apply all kill",
        "frame apply 1 quit",
        'eval "detach"',
        'eval "kill inferiors %d", 1',
        'thread apply 1 eval "detach"',
    ],
)
def test_commands_inside_others_do_not_end_ranks(typed: Typed, line: str) -> None:
    assert typed(line) == []
    assert "is refused inside another command: give it alone" in typed.errors


def test_eval_has_the_arguments_of_the_command(typed: Typed) -> None:
    typed('define sum\nproc 0 ptype x\neval "ptype $arg%d", $i\nend')
    typed.session.texts['printf "ptype $arg%d", $i'] = "ptype $arg1"
    assert typed("sum a b")[1:] == ['printf "ptype $arg%d", $i', "ptype b"]
    typed.session.texts['printf "ptype $arg%d", $i'] = "ptype $arg7"
    typed("sum a b")
    assert "$arg7 is missing: there are 2 arguments" in typed.errors
    typed.session.failing = {'printf "ptype $arg%d", $i': RankSet.parse("0-3")}
    typed("sum a b")
    assert "it fails" in typed.errors
    # Outside of a command of the front end GDB formats it.
    assert typed('eval "ptype $arg%d", $i') == ['eval "ptype $arg%d", $i']


def test_an_eval_that_differs_by_rank_is_carried_out_once(typed: Typed) -> None:
    typed('define sum\nproc 0 ptype x\neval "ptype $arg%d + %p", $i++, $sp\nend')
    asked = 'printf "ptype $arg%d + %p", $i++, $sp'
    typed.session.full_texts[asked] = {
        "0,2": "ptype $arg1 + 0x7ffd1000",
        "1": "ptype $arg1 + 0x7ffd2000",
    }
    assert typed("sum a b")[1:] == [
        asked,
        "[0,2] ptype b + 0x7ffd1000",
        "[1] ptype b + 0x7ffd2000",
    ]
    assert "[3] left 'sum'" in typed.errors, "its answer is not kept any longer"


def test_eval_has_one_line(typed: Typed) -> None:
    assert typed('eval "define x%d\\nprint 1\\nend", 3\nptype y') == ["ptype y"]
    assert "'eval' gives GDB one line: the lines of 'define' and their 'end' follow" in typed.errors
    assert typed('eval "define x%d", 3\nprint 1\nend') == ['eval "define x%d", 3 | print 1 | end']


def test_conditions_without_a_number(typed: Typed) -> None:
    body = "\nproc 0-3 ptype yes\nelse\nproc 0-3 ptype no\nend"
    typed.session.values = {
        "$unset": [{"0-3": "void"}],
        "letters": [{"0-3": '"abc"'}],
        "record": [{"0-1": "{p = 0x0, n = 1}", "2": "0", "3": "5"}],
    }
    assert typed(f"if $unset{body}") == ["= $unset", "ptype no"]
    asked = "if letters | echo 1\\n | else | echo 0\\n | end"
    typed.session.texts[asked] = "1"
    assert typed(f"if letters{body}") == ["= letters", asked, "ptype yes"]
    asked = asked.replace("letters", "record")
    typed.session.texts[asked] = "0"
    assert typed("if record\nptype yes\nproc 3 ptype z\nelse\nptype no\nend") == [
        "= record",
        f"[0-1] {asked}",
        "[3] ptype yes",
        "[3] ptype z",
        "[0-2] ptype no",
    ]


def test_words_that_gdb_looks_for_are_no_abbreviations(typed: Typed) -> None:
    typed("define silentish\nproc 0 ptype x\nend\ndefine loop_breaker\nproc 0 ptype x\nend")
    typed("break f\ncommands 1\nsilent\nprint 1\nend")
    assert "is PGDB's" not in typed.errors
    assert typed("define hook-stop\nwhile 1\nloop_break\nend\nend") == [
        "define hook-stop | while 1 | loop_break | end | end"
    ]


def test_the_limit_of_calls_is_gdbs(typed: Typed) -> None:
    typed("define deep\nproc 0-3 ptype x\ndeep\nend")
    done = EquivalenceClass[Record](ALL, Text(text=""))
    operation = Console(command="set max-user-call-depth 3")
    typed.session.settings.take(operation.command, operation, [done])
    assert typed("deep") == ["ptype x"] * 3
    assert "3 user-defined commands are open; 'deep' calls itself without an end" in typed.errors


def test_prefixes(typed: Typed) -> None:
    typed("define abc def\nproc 0 ptype x\nend")
    assert "'define-prefix abc' makes it one" in typed.errors
    typed("define-prefix abc\ndefine abc def\nproc 0 ptype $arg0\nend")
    assert typed("abc def y") == ["[0] ptype y"]


@pytest.mark.parametrize("line", ["define", "document", "if", "while"])
def test_a_multi_line_command_needs_its_argument(typed: Typed, line: str) -> None:
    assert typed(f"{line}\nptype x") == ["ptype x"]
    assert f"'{line}' needs" in typed.errors


def test_a_new_focus_holds_for_the_lines_behind_it(typed: Typed) -> None:
    assert typed("define one\nptype a\nfocus 1\nptype b\nend\none") == ["ptype a", "[1] ptype b"]


def test_missing_arguments_name_the_line(typed: Typed) -> None:
    typed("define foo\nproc 0 ptype $arg1\nend\nfoo a")
    assert "line 1 of 'foo': $arg1 is missing: there is 1 argument" in typed.errors


def test_an_interrupt_ends_a_body(typed: Typed) -> None:
    typed.session.values = {"1": [{"0-3": "1"}]}
    count = 0

    async def execute(line: str) -> object:
        nonlocal count
        count += 1
        typed.dispatcher.was_interrupted = count == 3
        return typed.session._note(line)

    typed.session.execute_plain = execute  # type: ignore[assignment]
    lines = typed("while 1\nproc 0 ptype x\nend\nptype y")
    assert [line for line in lines if "=" not in line] == ["[0] ptype x"] * 3 + ["ptype y"]
    assert "(Ctrl-C)" in typed.errors


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a b", ["a", "b"]),
        ("'a b' \"c d\"", ["'a b'", '"c d"']),
        (r"a\ b c", [r"a\ b", "c"]),
        ("x+'a b'+y z", ["x+'a b'+y", "z"]),
        ("", []),
    ],
)
def test_arguments_are_divided_as_gdb_divides_them(text: str, found: list[str]) -> None:
    assert split_arguments(text) == found


def test_arguments_take_their_places() -> None:
    assert with_arguments("p $arg0[$arg1] + $argc$argx", "a b") == "p a[b] + 2$argx"
    assert with_arguments("p $arg10", " ".join("abcdefghijk")) == "p k"


def test_a_block_that_gdb_can_carry_out_goes_to_gdb() -> None:
    checker = Checker(UserCommands(), "if", for_gdb=False)
    assert not checker.check([parse("if x", ["print x", "set $y = 1", "else", "info locals"])])
    assert checker.check([parse("if x", ["next"])])
    assert checker.check([parse("if x", ["break f"])])
    assert checker.check([parse("if x", ["else", "while y", "tree", "end"])])


@pytest.mark.parametrize("message", ['Undefined command: "nosuch".', "Not a user command."])
def test_a_command_that_is_not_the_users_is_refused_before_its_text_is_read(
    typed: Typed, message: str
) -> None:
    typed.session.failing["show user nosuch"] = ALL
    typed.session.messages["show user nosuch"] = message
    assert typed("document nosuch\nptype x") == ["show user nosuch", "ptype x"]
    assert ("built-in" in typed.errors) == (message == "Not a user command.")
