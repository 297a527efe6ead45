# Every target is thin: tools/setup.py makes the environment, the Snakefile is the graph, the engine runs it.
#   make book            the quick book in _build/html           make full       the full one in _build/full/html
#   make test            the quick book, then every check        make test-slow  kill storms, drift reruns
#   make figures         figures, CSV and ledger, no pages       make serve      the quick book on a local port
# Options: PROFILE=full (figures), CORES=n, WORKERS=n (tests), CLUSTER=profiles/slurm, PORT=8000.

# The code that a build runs is this clone's and its environment's, whatever a shell has set for other projects.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP

PROFILE ?= quick
PORT ?= 8000
WORKERS ?= 2

# Prints the path of this project's Python after making sure that its environment is in order. Quoted wherever it is
# used, for the path may hold a space.
BOOK_PYTHON = py="$$(python3 tools/setup.py book)"
TEST_PYTHON = py="$$(python3 tools/setup.py test)"
ENGINE = "$$py" -m attention_companion.execution.engine
OPTIONS = $(if $(CORES),--cores $(CORES)) $(if $(CLUSTER),--cluster "$(CLUSTER)")

.DEFAULT_GOAL := book
# book/ is also a folder.
.PHONY: book full figures test test-slow lint pair serve clean constraints models

book:
	@$(BOOK_PYTHON) && $(ENGINE) book $(OPTIONS)

full:
	@$(BOOK_PYTHON) && $(ENGINE) full $(OPTIONS)

figures:
	@$(BOOK_PYTHON) && $(ENGINE) figures --profile "$(PROFILE)" $(OPTIONS)

# The book first, by the same graph: what is tested below is the book that was built.
test:
	@$(TEST_PYTHON) && $(ENGINE) book $(OPTIONS)
	@$(TEST_PYTHON) && "$$py" -m ruff check .
	@$(TEST_PYTHON) && "$$py" -m mypy
	@$(TEST_PYTHON) && "$$py" -m attention_companion.execution.pairing
	@$(TEST_PYTHON) && "$$py" -m pytest -q -n $(WORKERS) --dist loadfile
	@$(TEST_PYTHON) && "$$py" tools/check_browser.py "$$py" -m pytest -q -m browser

test-slow:
	@$(TEST_PYTHON) && $(ENGINE) book $(OPTIONS)
	@$(TEST_PYTHON) && "$$py" -m pytest -q -m slow

lint:
	@$(TEST_PYTHON) && "$$py" -m ruff check . && "$$py" -m mypy

# Writes the .ipynb beside each text notebook (one way: the text is the source).
pair:
	@$(BOOK_PYTHON) && "$$py" -m attention_companion.execution.pairing --write

serve: book
	@$(BOOK_PYTHON) && "$$py" -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

# Products only; the environment and the data in the user's cache stay.
clean:
	rm -rf _build results .snakemake

# The optional model for the chapter on a trained layer, where it could not be had when the environment was made.
models:
	@python3 tools/setup.py models

# Exact versions for every platform and Python 3.11-3.13. Needs uv; run it to take newer versions, then `make test`.
constraints:
	@python3 tools/constraints.py
