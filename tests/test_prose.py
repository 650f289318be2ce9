"""Prose rules for docstrings, comments, pages and names: retired words, and sentences without a
subject.

CONTRIBUTING.md says how sentences are written. A word list cannot judge a sentence; it only keeps
the worst from coming back.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

FOLDERS = ("pgdb", "frontend", "backend", "tests", "bench", "fuzz", "examples", "scripts", "docs")

PRODUCT = ("pgdb", "frontend", "backend")
"""Folders whose strings are messages to the user; tests quote the words of GDB and of programs."""

BARE_RELATIVE = "What|Who|Whose|Whom|Whoever|Whatever|Whichever"

SENTENCES: tuple[tuple[str, str], ...] = (
    (rf"\A(?:{BARE_RELATIVE}|Those|How|Take that|Have a)\b", "text begins with no subject"),
    (rf"(?:(?<=[.!?;:] )|(?<=\n))(?:{BARE_RELATIVE}) ", "sentence begins with a bare relative"),
    (r"(?:(?<=[.!?] )|(?<=\n))Those (?:that|who|which) ", "sentence begins with a bare relative"),
    (r"\b(?:[Nn]or|and neither) (?:is|are|was|do|does|did|has|have|can|will)\b", "inversion"),
    (
        r"(?:[;,:]|\band)\s+so\s+(?:is|are|was|do|does|did|has|have|can|will|may|must)\b(?! that)",
        "inversion",
    ),
)
"""Pattern and remedy of each rule for sentences."""

WORDS: tuple[tuple[str, str], ...] = (
    (r"\btak(?:e|es|en|ing) (?:\w+ )?hold\b|\bhold of\b", "say: attach to, acquire"),
    (r"\b(?:had|have|has) again\b", "say: reattached"),
    (r"\blet(?:s|ting)? (?:\w+ ){0,2}go\b(?! on)", "say: detach, release"),
    (r"\bget(?:s|ting)? on\b(?! with)|\bon (?:its|their) way\b", "say: progresses, in flight"),
    (r"\b(?:mend|mends|mended|mending)\b", "say: restore, repair"),
    (r"\b(?:[Tt]ell|[Tt]ells|[Tt]elling|[Tt]old)\b", "say: report, notify, show, say"),
    (r"\b(?:lookout|uncut|reviving|reviver|breakin|headstart)\b", "a module's former name"),
    (r"\bhead start\b", "say: symbol prefetch"),
    (r"\b(?:ladder|rungs?)\b", "say: discovery, step"),
    (r"\bby hand\b", "say: explicit"),
    (r"\b[Ff]light[\s-]recorders?\b", "say: recorder of MPI calls; flight records are PyTorch's"),
)
"""Pattern and remedy of each rule for words, which names keep as well."""

VERBS = frozenset(
    """accepts acquire ask asks attach attaches bring brings build builds carry carries check checks
    collect collects connect connects delete detach detaches disable disables ends evaluate
    evaluates explore find finds follow follows forget get gets give gives has have holds interrupts
    keep keeps kill knows list lists let lets look make makes measures merge merges normalizes open
    opens pass passes print prints put puts read reads reattach receive receives remove return
    returns resume select selects send sends show shows splits stands store stores suspends
    take takes try tries watches write writes""".split()
)
"""Words that begin no noun phrase; some nouns with the spelling of a verb are left out."""

FUNCTION_VERBS = VERBS - {"build", "checks", "ends", "open"} | frozenset(
    "deletes delivers executes launches receives refuses releases selects starts".split()
)
"""Words that begin no docstring of an attribute or a property."""

NO_OPENINGS = frozenset(("Which", "Where", "It", "Its", "Their"))
"""Words that begin no docstring."""

OLD_NAMES = {"Told"}
"""Names that the Python API keeps for scripts of earlier versions."""

OLD_MESSAGES = {*OLD_NAMES, "cannot tell", "told"}
"""Strings that the API, JSON and recordings keep, such as how sure a verdict of ``why`` is."""

EXCEPTIONS = {"CHANGELOG.md", "tests/test_prose.py"}
"""Files that name retired words on purpose."""


def findings(text: str, rules: tuple[tuple[str, str], ...] = SENTENCES + WORDS) -> Iterator[str]:
    """Yield each match of a rule in *text*, with its remedy."""
    for pattern, remedy in rules:
        for match in re.finditer(pattern, text):
            yield f"{match[0]!r}: {remedy}"


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each docstring and comment block."""
    for node in ast.walk(ast.parse(source)):
        for child in ast.iter_child_nodes(node):
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                yield child.lineno, child.value.value
    block: list[str] = []
    begin = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if block and line != last + 1:
            yield begin, "\n".join(block)
            block = []
        if not block:
            begin = line
        block.append(token.string[1:].strip())
        last = line
    if block:
        yield begin, "\n".join(block)


def python_messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each string."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value not in OLD_MESSAGES:
                yield node.lineno, node.value


def python_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield line number and words of the name of each function, class and variable."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                name = node.name
            case ast.Name(ctx=ast.Store()):
                name = node.id
            case _:
                continue
        if name not in OLD_NAMES:
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ")
            yield node.lineno, words.strip().lower()


def _text_in(node: ast.stmt) -> str | None:
    """Return the text that a statement consists of."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value if isinstance(node.value.value, str) else None
    return None


def openings(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number, owner and first line of each docstring.

    The owner is a ``module``, ``class``, ``function``, ``property`` or ``attribute``.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Module():
                owner = "module"
            case ast.ClassDef():
                owner = "class"
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                decorators = [ast.unparse(each) for each in node.decorator_list]
                is_property = any(each.endswith("property") for each in decorators)
                owner = "property" if is_property else "function"
            case _:
                continue
        for number, child in enumerate(node.body):
            if text := _text_in(child):
                line = text.strip().split("\n")[0]
                yield child.lineno, "attribute" if number else owner, line


def why_not_opening(owner: str, opening: str) -> str:
    """Return why a docstring does not begin so; empty if it can."""
    word = re.split(r"\W", opening, maxsplit=1)[0]
    if word in NO_OPENINGS:
        return f"a docstring does not begin with {word}"
    if word == "Whether" and owner not in ("property", "attribute"):
        return "say: Return whether"
    if owner == "class" and word.lower() in VERBS:
        return "begins with a verb; a class is a noun phrase"
    if owner in ("property", "attribute") and word.lower() in FUNCTION_VERBS:
        return f"begins with a verb; a {owner} is a noun phrase"
    return ""


def page_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each paragraph of a Markdown page, code blocks left out."""
    is_code = False
    block: list[str] = []
    begin = 0
    for number, line in enumerate([*source.split("\n"), ""], 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and line.strip():
            if not block:
                begin = number
            block.append(re.sub(r"`[^`]*`", "`…`", line.strip()))
            continue
        if block:
            yield begin, "\n".join(block)
            block = []


def files() -> list[Path]:
    """Return the Python files and Markdown pages of the project."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder in FOLDERS:
        for pattern in ("*.py", "*.md"):
            found += sorted((ROOT / folder).rglob(pattern))
    return [
        path
        for path in found
        if path.is_file()
        and not any(part.is_symlink() for part in path.parents)
        and str(path.relative_to(ROOT)) not in EXCEPTIONS
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_sentences_keep_the_rules(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    texts = python_texts(source) if path.suffix == ".py" else page_texts(source)
    found = [f"{path.name}:{line}: {each}" for line, text in texts for each in findings(text)]
    if path.suffix == ".py":
        found += [
            f"{path.name}:{line}: the name {name!r}: {each}"
            for line, name in python_names(source)
            for each in findings(name, WORDS)
        ]
        if path.relative_to(ROOT).parts[0] in PRODUCT:
            found += [
                f"{path.name}:{line}: the text {text!r}: {each}"
                for line, text in python_messages(source)
                for each in findings(text, WORDS)
            ]
        found += [
            f"{path.name}:{line}: {text!r}: {why}"
            for line, owner, text in openings(source)
            if (why := why_not_opening(owner, text))
        ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "What is asked when a command's time is over.",
        "It ends. Whoever reads it waits.",
        "It is not checked, and neither is its part.",
        "A daemon ends; so does its anchor.",
        "A daemon ends, and so\ndoes its anchor.",
        "Take hold of a rank.",
        "The rank is let go.",
        "It tells the user.",
        "Tell the user.",
        "the head start",
        "which the flight\nrecorder counts",
    ],
)
def test_rules_find(text: str) -> None:
    assert [*findings(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Timeout for state-changing requests sent after the command's deadline.",
        "Reattach ranks whose debugger died. The session goes on.",
        "Return what the rank printed.",
    ],
)
def test_rules_allow(text: str) -> None:
    assert not [*findings(text)]


def test_openings_of_docstrings_are_found() -> None:
    source = '''"""Module."""
class A:
    """Reader of lines.

    More."""
    x: int
    """Number."""
    @property
    def y(self):
        """The sum."""
def f():
    """Read a line."""
'''
    assert sorted(openings(source)) == [
        (1, "module", "Module."),
        (3, "class", "Reader of lines."),
        (7, "attribute", "Number."),
        (10, "property", "The sum."),
        (12, "function", "Read a line."),
    ]


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        ("class", "Reads lines."),
        ("class", "Make breakpoints."),
        ("attribute", "Returns the ranks."),
        ("attribute", "Selects a frame."),
        ("property", "Return the type."),
        ("function", "Whether it ends."),
        ("module", "Which ranks wait."),
        ("attribute", "It differs."),
        ("attribute", "Its exit status."),
    ],
)
def test_a_docstring_does_not_begin_so(owner: str, text: str) -> None:
    assert why_not_opening(owner, text)


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        ("class", "Reader of lines."),
        ("attribute", "Function that returns the ranks."),
        ("attribute", "Ends of the runs."),
        ("property", "Whether it ends."),
        ("function", "Return whether it ends."),
    ],
)
def test_a_docstring_begins_so(owner: str, text: str) -> None:
    assert not why_not_opening(owner, text)


def test_names_of_a_file_are_found() -> None:
    source = "class HeadStart:\n    def _let_go(self):\n        TOLD_LATER = 1\nTold = 2\n"
    names = [*python_names(source)]
    assert sorted(names) == [(1, "head start"), (2, "let go"), (3, "told later")]
    assert all([*findings(name, WORDS)] for _, name in names)


def test_texts_of_a_file_are_found() -> None:
    source = '"""Module."""\n# one\n# two\nx = 1  # three\n"""Attribute."""\n'
    assert sorted(python_texts(source)) == [
        (1, "Module."),
        (2, "one\ntwo\nthree"),
        (5, "Attribute."),
    ]
    page = "# Title\n\n```\nWhat is code\n```\nText\n`told`\n"
    assert [*page_texts(page)] == [(1, "# Title"), (6, "Text\n`…`")]
