"""The messages that the guide explains are messages of the sources."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FAQ = ROOT / "docs" / "guide" / "faq.md"
# Shorter texts are found in any message; a longer one can end in what the page leaves out.
LEAST, MOST = 12, 24


def fixed_texts() -> set[str]:
    """Return how the texts of the sources begin, those with values in between part by part."""
    found = set()
    for folder in ("pgdb", "frontend", "backend"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value.strip()[:MOST])
    return {text for text in found if len(text) >= LEAST}


def is_of(message: str, texts: set[str]) -> bool:
    """Return whether a part of a message is a text of the sources, or is part of one."""
    parts = [part.strip() for part in message.split("…")]
    parts = [part for part in parts if len(part) >= LEAST]
    return any(text in part or part in text for part in parts for text in texts)


@pytest.mark.slow
def test_questions_are_about_messages_that_there_are() -> None:
    shown = re.findall(r"^\| `([^`]+)` \|", FAQ.read_text("utf-8"), re.M)
    # A line with ranks in front can be all GDB's.
    messages = [message for message in shown if not message.startswith("[")]
    assert len(messages) > 40
    texts = fixed_texts()
    assert [message for message in messages if not is_of(message, texts)] == []
