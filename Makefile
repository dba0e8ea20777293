# SPDX-License-Identifier: Apache-2.0
# A thin front over meson: `make help` says what there is.

BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
SUITES ?=
PARTS  ?=
FUZZ   ?= frame
TIME   ?= 60
KERNEL ?=
ACCEL  ?=

.PHONY: all run test test-vm bench lint fuzz install uninstall clean help
all:
	@tools/setup --check build
	@test -e $(BUILD)/build.ninja || meson setup --prefix=$(abspath $(PREFIX)) $(BUILD)
	@ninja -C $(BUILD) -j $(JOBS) product

run: ## install what is missing, build, and show a cell at work
	@tools/setup build
	@$(MAKE) --no-print-directory all
	@tools/demo $(BUILD)/cell

test: ## install what is missing and run the tests; SUITES="unit cli" picks some, V=1 shows each
	@tools/setup test $(if $(filter engines%,$(SUITES)),engines) $(filter images,$(SUITES))
	@tools/run-tests -j $(JOBS) $(if $(V),--verbose) $(SUITES)

test-vm: ## the jail in a virtual machine with Debian's kernel and cgroup2; SUITES=, KERNEL=[RELEASE/]PACKAGE, ACCEL=kvm
	@tools/setup vm
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) -j $(JOBS) --quiet
	@KERNEL='$(KERNEL)' ACCEL='$(ACCEL)' tools/test-vm $(if $(V),--verbose) $(SUITES)

bench: ## measure; PARTS="start parallel" picks some, ARGS="--quick --json"
	@tools/setup bench $(filter engines,$(PARTS))
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) -j $(JOBS) --quiet bench
	@$(BUILD)/bench/cell-bench $(ARGS) $(PARTS)
	@$(if $(ARGS)$(PARTS),,$(BUILD)/bench/net-bench)

lint: ## style, static analysis, layers, banned functions, links; STEPS="tidy docs" picks some
	@tools/setup lint
	@tools/lint -j $(JOBS) $(STEPS)

fuzz: ## fuzz one parser: FUZZ=frame TIME=60 (seconds)
	@tools/setup fuzz
	@tools/fuzz $(FUZZ) $(TIME) $(JOBS)

install: all ## into PREFIX (/usr/local), below DESTDIR when it is set
	@meson configure $(BUILD) --prefix=$(abspath $(PREFIX))
	@ninja -C $(BUILD) -j $(JOBS) --quiet product
	@DESTDIR=$(DESTDIR) meson install --no-rebuild -C $(BUILD)

uninstall: ## what `make install` with the same PREFIX and DESTDIR put there
	@DESTDIR=$(DESTDIR) tools/uninstall $(BUILD) $(abspath $(PREFIX))

clean: ## remove everything that was built
	rm -rf $(BUILD) build-asan build-fuzz build-lint build-analyzer

help:
	@echo 'make            build $(BUILD)/cell'
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1|\2/p' Makefile | \
		while IFS='|' read -r name what; do printf '%-15s %s\n' "$$name" "$$what"; done
