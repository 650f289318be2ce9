# make demo       find the bug of a hanging MPI program, all set-up included
# make test       all checks and tests, all set-up included
# make test-fast  the tests without real jobs, but for slow ones
#
# Needed: Python 3.11 or newer with venv, and a C compiler. GDB and MPI are those of the machine;
# where it has none, pip installs wheels in this folder. Nothing outside of this folder changes.
# PYTHON=, MPIRUN= and MPICC= choose others; PYTEST_ARGS= goes to pytest (tests/README.md).

export PYTHON MPIRUN MPICC PYTEST_ARGS

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast check docs clean

help:
	@sed -n 's/^# make /make /p' Makefile
	@echo 'make check      only the style, the types and the site of docs/'
	@echo 'make docs       build the site of docs/ into build/site'
	@echo 'make clean      remove the virtual environments and what was built'

demo:
	@sh scripts/demo.sh

test:
	@sh scripts/test.sh

test-fast:
	@sh scripts/test.sh fast

check:
	@sh scripts/test.sh check

docs:
	@sh scripts/test.sh docs

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
