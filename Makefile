# A thin layer over meson: each target makes sure that its packages are there, configures its own
# build directory once and runs one command. `make help` lists the targets.

PREFIX  ?= /usr/local
DESTDIR ?=
JOBS    ?= $(shell nproc)
WERROR  ?= false

MESON   := meson
export JOBS
.NOTPARALLEL:
SETUP    = $(MESON) setup $(@D) -Dwerror=$(WERROR)

.PHONY: all run test check format asan tsan tiny matrix matrix-sample model model-quick bench \
        install deps deps-run deps-test deps-check deps-tsan deps-model deps-bench deps-aarch64 \
        test-aarch64 clean help

all: deps-run build/build.ninja ## release build in build/
	@ninja -j$(JOBS) -C build

run: deps-run build/build.ninja ## build and run the echo server (ADDRESS=tcp://127.0.0.1:7000)
	@ninja -j$(JOBS) -C build examples/echo
	@build/examples/echo $(ADDRESS)

test: deps-test build/build.ninja ## build and run all tests
	@tools/test-summary build

check: deps-check all ## format, tidy, layers, headers, symbols, sizes, README
	@tools/check/all build

format: deps-check ## rewrite the sources as clang-format wants them
	@tools/check/files '*.c' '*.h' '*.cc' | xargs -r clang-format -i

asan: deps-test build-asan/build.ninja ## tests with gcc's address and undefined-behaviour sanitizers
	@tools/test-summary build-asan

tsan: deps-tsan build-tsan/build.ninja ## tests with clang's thread sanitizer
	@tools/test-summary build-tsan

tiny: deps-test build-tiny/build.ninja ## tests with tiny queues, wheels and caches
	@tools/test-summary build-tiny

matrix: deps-test build/build.ninja ## tests under every policy, poller mode and driver (MATRIX="...": some)
	@tools/matrix build

matrix-sample: deps-test build/build.ninja
	@tools/matrix build --sample

test-aarch64: deps-aarch64 build-aarch64/build.ninja ## cross-compiled tests under qemu-user, epoll only
	@TEST_EMULATED=1 TEST_TIMEOUT=$${TEST_TIMEOUT:-240} tools/test-summary build-aarch64

model: deps-model ## model-check the lock-free protocols, with mutants (model-quick: as CI does)
	@tests/model/run

model-quick: deps-model
	@tests/model/run --quick

bench: deps-bench build/build.ninja ## build and run weft-bench with the peers that Debian packages
	@ninja -j$(JOBS) -C build weft-bench
	@bench/peers/build build/bench-peers
	@build/weft-bench $(BENCH_ARGS)

install: deps-run ## install into $(DESTDIR)$(PREFIX)
	@test -f build-install/build.ninja || $(MESON) setup build-install -Dprefix=$(PREFIX) \
	    -Dtests=false -Dexamples=false -Dbench=false
	@$(MESON) configure build-install -Dprefix=$(PREFIX)
	@DESTDIR=$(DESTDIR) $(MESON) install -C build-install

build/build.ninja:
	@$(SETUP)

build-tiny/build.ninja:
	@$(SETUP) -Dtiny=true

build-asan/build.ninja:
	@$(SETUP) -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1

build-tsan/build.ninja:
	@CC=clang CXX=clang++ $(SETUP) -Db_sanitize=thread -Db_lundef=false -Doptimization=1

build-aarch64/build.ninja:
	@$(SETUP) --cross-file tools/cross/aarch64-linux-gnu.ini -During=disabled

deps: ## install what all targets need (but not the benchmark peers), valgrind and gdb
	@tools/deps run test check tsan model aarch64 dev

deps-run deps-test deps-check deps-tsan deps-model deps-bench deps-aarch64:
	@tools/deps $(patsubst deps-%,%,$@)

clean: ## remove all build directories
	@rm -rf build build-asan build-tsan build-tiny build-aarch64 build-install

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
