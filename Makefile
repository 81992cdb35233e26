# `make demo` and `make test` each set up everything they need; a second call starts at once.
PYTHON ?= python3
VENV := .venv
CLIENT := .venv-insightface
READY := $(VENV)/.ready
RUN := $(VENV)/bin
SECONDS ?= 60

.PHONY: demo test test-fast test-processors test-insightface fuzz check format results bench-frames bench-faces bench-eval bench-paper-eval bench-peers clean

demo: $(READY)  ## the whole experiment on rendered faces: runs/demo/report/index.html
	$(RUN)/damnatio demo

test: $(READY)  ## every test, the demo's own experiment included
	$(RUN)/python -m pytest -n 2 --dist loadgroup

test-fast: $(READY)  ## all but the whole runs
	$(RUN)/python -m pytest -n 2 --dist loadgroup -m "not slow"

test-processors: $(READY)  ## the tests as older processors compute, on one thread and on two; MARK="..." TESTS="..." choose some
	$(RUN)/python tests/processors.py --mark '$(or $(MARK),not slow)' $(TESTS)

test-insightface: $(READY)  ## what we export, loaded by InsightFace itself, in an environment of its own
	test -x $(CLIENT)/bin/python || $(PYTHON) -m venv $(CLIENT)
	PIP_CONSTRAINT=constraints.txt $(CLIENT)/bin/pip install --quiet --disable-pip-version-check insightface onnxruntime
	DAMNATIO_INSIGHTFACE_PYTHON=$(CLIENT)/bin/python $(RUN)/python -m pytest -n 0 -rA tests/test_insightface_client.py

fuzz: $(READY)  ## every reader fed damaged files; SECONDS=1800 for half an hour
	$(RUN)/python -m fuzz --seconds $(SECONDS)

check: $(READY)  ## style and types
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy

format: $(READY)
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix .

results: $(READY)  ## run the demo and put its tables and figures where the README shows them
	$(RUN)/damnatio demo
	$(RUN)/python results/collect.py runs/demo results/demo

bench-frames: $(READY)  ## frames at the paper's size: naive greedy, ours, closed form
	$(RUN)/python benchmarks/frames.py

bench-faces: $(READY) bench-peers  ## readers of faces against pillow and webdataset, on one core
	$(RUN)/python benchmarks/faces.py

bench-eval: $(READY) bench-peers  ## exact thresholds, searches and distances beside faiss, scikit-learn and SciPy
	$(RUN)/python benchmarks/evaluation.py

bench-paper-eval: $(READY)  ## the paper's protocol on random embeddings, at a tenth of its size
	$(RUN)/python benchmarks/paper_evaluation.py

bench-peers: $(READY)
	PIP_CONSTRAINT=constraints.txt $(RUN)/pip install --quiet --disable-pip-version-check --editable '.[bench]'

# torch comes first and pinned: whatever asks for it later finds it there.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; this is $$($(PYTHON) --version). Say which: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(RUN)/pip install --quiet --disable-pip-version-check torch
	PIP_CONSTRAINT=constraints.txt $(RUN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

clean:  ## forget the environment; runs/ stays
	rm -rf $(VENV) $(CLIENT)
