# Targets that call CMake; `make help` lists them. Each builds in its own folder. PREFIX and DESTDIR
# are for install and uninstall, J is the number of jobs. WERROR=ON makes warnings errors, as in `make
# check`, `make lint` and the sanitizers. It is for people who change Etude; other compilers may give
# other warnings.
PREFIX ?= /usr/local
WERROR ?= OFF
J ?= $(shell nproc 2>/dev/null || echo 2)
LIBRARIES = etude etude_shared
PROGRAMS = etude_cli pages
TREE = src include tests bench examples
SOURCES = $(shell find $(TREE) -name '*.[ch]' -o -name '*.cc' -o -name '*.cpp' -o -name '*.hpp')

.PHONY: help setup setup-build setup-dev build demo demo-scratch demo-table test asan ubsan tsan valgrind guard-update \
        kill-test lint format metrics bench bench-growth bench-peers bench-quality bench-roles bench-scale bench-serve quality \
        check install uninstall bundle deb release aarch64 clean

help:             ## this list
	@awk '/^[a-z0-9-]+:.*## / { name = $$0; sub(/:.*/, "", name); sub(/^[^#]*## +/, ""); \
	    printf "  make %-13s %s\n", name, $$0 }' Makefile

setup:            ## install the Debian packages that building and testing need
	@tools/setup build test

setup-build:      ## only those that building needs
	@tools/setup build

setup-dev:        ## and those that lint and the sanitizers need
	@tools/setup build test develop

build: setup-build ## the libraries and the command, build/etude
	@cmake --preset release -DETUDE_WERROR=$(WERROR) --log-level=WARNING >/dev/null
	@cmake --build build -j $(J) --target $(LIBRARIES) $(PROGRAMS)

demo: build       ## fit a published translator to help pages; STEPS=N: N steps
demo-scratch: build ## train a translator in ten minutes; STEPS=N: N steps
demo demo-scratch:
	@tools/setup demo
	@cmake --preset release -DETUDE_WERROR=$(WERROR) --log-level=WARNING >/dev/null
	@cmake --build build -j $(J) --target pair_pages
	@tools/$@ $(STEPS)

demo-table: build ## download a table, train and predict, in under a minute
	@[ -d $(DATA)/tabular ] || tools/setup table
	@tools/demo-table

test: setup       ## build everything and run the tests
	@cmake --preset release -DETUDE_WERROR=$(WERROR) -DETUDE_TESTS=ON --log-level=WARNING >/dev/null
	@cmake --build build -j $(J)
	@tools/run-tests build $(TESTS)

# The same tests in other builds, which find invalid addresses and leaks, undefined behaviour and
# data races.
asan: setup       ## the tests with AddressSanitizer and UBSan
ubsan: setup      ## the tests with UBSan alone, optimised
tsan: setup-dev   ## the tests with ThreadSanitizer (clang, LLVM's OpenMP)
asan ubsan tsan:
	@cmake --preset $@ -DETUDE_TESTS=ON --log-level=WARNING >/dev/null
	@cmake --build build-$@ -j $(J)
	@tools/run-tests build-$@ $(TESTS)

# memcheck makes programs about 30 times slower, so tests that start other programs are left out.
valgrind: setup-dev ## the quick tests under memcheck
	@cmake --preset valgrind -DETUDE_TESTS=ON --log-level=WARNING >/dev/null
	@cmake --build build-valgrind -j $(J)
	@OMP_NUM_THREADS=1 tools/run-tests build-valgrind --label-exclude 'slow|process' $(TESTS)

guard-update: setup ## count the cost of workloads again: tests/guard/counts
	@cmake --preset release -DETUDE_WERROR=$(WERROR) -DETUDE_TESTS=ON --log-level=WARNING >/dev/null
	@cmake --build build -j $(J) --target guard
	@tools/guard update build/tests/guard/guard

kill-test: setup  ## kill a run 200 times, compare the bytes with one run
	@cmake --preset release -DETUDE_WERROR=$(WERROR) -DETUDE_TESTS=ON --log-level=WARNING >/dev/null
	@cmake --build build -j $(J) --target kill-test

lint: setup-dev   ## layers, names, sizes, format, clang-tidy, cppcheck
	@cmake --preset release -DETUDE_WERROR=$(WERROR) --log-level=WARNING >/dev/null
	@cmake --build build -j $(J) --target $(LIBRARIES)
	@tools/lint build

format:           ## rewrite the sources in our format
	@clang-format -i $(SOURCES)

metrics:          ## sizes of files and functions, comment, assertions
	@tools/metrics

bench: build      ## speed and memory; writes build/bench.jsonl
	@cmake --build build -j $(J)
	@bench/run build

# PAIRS is the largest corpus made: 10000000 takes 6 GB of disk and half an hour.
PAIRS ?= 1000000
bench-growth: build ## cost by corpus, length, vocabulary; build/growth.jsonl
	@cmake --build build -j $(J) --target bench_growth bench_growth_corpus
	@rm -f build/growth.jsonl
	@BENCH_JSON=$(CURDIR)/build/growth.jsonl build/bench/bench_growth
	@cd build && BENCH_JSON=$(CURDIR)/build/growth.jsonl bench/bench_growth_corpus etude $(PAIRS)

# Text to train on, line by line translations: SOURCE=train.en TARGET=train.de
SOURCE ?= ../shared/data/multi30k/train.lc.norm.tok.en.gz
TARGET ?= ../shared/data/multi30k/train.lc.norm.tok.de.gz
bench-peers: build ## compare with PyTorch, TensorFlow, Marian, CTranslate2
	@cmake --build build -j $(J)
	@bench/peers/setup build/peers/venv $(PEERS)
	@PYTHONDONTWRITEBYTECODE=1 build/peers/venv/bin/python bench/peers/compare.py build \
	    $(SOURCE) $(TARGET) --data $(DATA) $(ARGUMENTS)

# RUN is a translation run, TEXT lines of its source language.
bench-serve: build ## speed of `etude serve`: RUN=runs/a TEXT=test.en
	@cmake --build build -j $(J) --target bench_serve
	@build/bench/bench_serve build/etude $(RUN) $(TEXT)

bench-scale: build ## ranks, threads, messages: doc/reference/scale.md
	@cmake --build build -j $(J)
	@rm -f build/scale.jsonl
	@BENCH_JSON=$(CURDIR)/build/scale.jsonl bench/scale build $(ARGUMENTS)

# ONLY=digits takes those whose name has that word, ROUNDS=3 each three times.
bench-quality: build ## time to a given quality: PyTorch, LightGBM, Model Garden
	@cmake --build build -j $(J) --target mnist_loop mnist_cnn charlm_orbit \
	    quality_digits quality_characters
	@bench/peers/setup build/peers/venv torch tables tensorflow
	@bench/quality/run build $(DATA)

# BATCHES=600 so many for each side, PEAK=0.001 the learning rate at the end of the warm-up, SEED=1.
bench-roles: build ## compare a cluster of roles with one process
	@BATCHES=$(BATCHES) PEAK=$(PEAK) SEED=$(SEED) bench/quality/roles build $(DATA)

# The data sets: text/tinyshakespeare.txt, mnist/*-ubyte.gz. VAE_EPOCHS=3000 trains that one longer.
DATA ?= ../shared/data
quality: build    ## train the examples in full; fails if a goal is missed
	@cmake --build build -j $(J) --target mnist_loop mnist_cnn vae_loop charlm_orbit gan_orbit own_task classifier gan
	@tools/quality build $(DATA)
	@ETUDE_MNIST=$(abspath $(DATA))/mnist KILLS_LONG=1 sh tests/examples/test_kills.sh $(CURDIR)/build/examples

check lint: WERROR = ON
check: lint test  ## lint and all tests, before a change is merged

install: build    ## to PREFIX (/usr/local), below DESTDIR
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

# Removes the files that `make install` with the same PREFIX and DESTDIR installs.
uninstall: build  ## remove what `make install` installed
	@DESTDIR="$(DESTDIR)" tools/uninstall build "$(PREFIX)"

bundle: build     ## archive with all libraries, in build/bundle
	@tools/setup bundle
	@tools/make-bundle build build/bundle

deb:              ## Debian packages, in build/deb
	@tools/setup package
	@J=$(J) tools/make-deb build/deb

release: build    ## source, bundle, Debian packages, checksums: build/release
	@tools/setup bundle package
	@J=$(J) tools/make-release build build/release

# TESTS names programs, such as engine.kernel.test_norm; without it the script's own choice.
aarch64: build    ## cross-compile and test under qemu-user
	@J=$(J) tools/aarch64 $(TESTS)

clean:            ## remove what was built
	@rm -rf build build-debug build-asan build-ubsan build-tsan build-valgrind build-aarch64
