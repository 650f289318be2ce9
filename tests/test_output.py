"""Modules of the front end that write to the standard streams: few, as texts are returned."""

from __future__ import annotations

import pytest

from tests.support.imports import sources, writes_to_streams

WRITERS = {
    # Texts for the user, the reports of `pgdb run`, and the output of the job of a script.
    "pgdb.frontend.show.display",
    "pgdb.frontend.run.publishing",
    "pgdb.frontend.startup.sync",
    # The agent on another host answers on its standard output.
    "pgdb.frontend.startup.remote",
    # Programs that write generated pages.
    "pgdb.frontend.commands.__main__",
    "pgdb.frontend.report.model",
    "pgdb.frontend.show.json.json_lines",
}
"""Modules outside `frontend/ui/` that write."""


@pytest.mark.slow
def test_few_modules_write_to_the_standard_streams() -> None:
    found = {
        module
        for module, source in sources().items()
        if module.startswith("pgdb.frontend.")
        and not module.startswith("pgdb.frontend.ui.")
        and writes_to_streams(source)
    }
    assert found == WRITERS


def test_writing_is_found() -> None:
    assert writes_to_streams("def f():\n    print(1)")
    assert writes_to_streams("import sys\nout = sys.stderr")
    assert not writes_to_streams("def f():\n    self.print(done.stdout)")
