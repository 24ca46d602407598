# Duepost. `make help` lists the targets.
#
# Build flavours: MODE=release (default) | debug | asan | tsan | fuzz | cov, each in a folder of its own, so that they
# never mix. OUT=DIR builds somewhere else than in build/.
MODE     ?= release
OUT      ?= build
BUILD    ?= $(OUT)/$(MODE)
VERSION  := 0.1.0
PREFIX   ?= /usr/local
MAKEFLAGS += --no-print-directory
ifeq ($(origin CC),default)
CC       := gcc
endif
CLANG    ?= clang
PKGS     := libmicrohttpd gnutls hiredis jansson libcurl libcrypto

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
        -Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings \
        -Wformat=2 -Wundef -Wvla -Wswitch-enum -Wimplicit-fallthrough -Wnull-dereference
SAN  := -fno-omit-frame-pointer -fno-sanitize-recover=all
HARD := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
FLAGS_release := -O2 -g $(HARD)
FLAGS_debug   := -O0 -g3
FLAGS_asan    := -O1 -g -fsanitize=address,undefined $(SAN)
FLAGS_tsan    := -O1 -g -fsanitize=thread $(SAN)
FLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined $(SAN)
FLAGS_cov     := -O0 -g --coverage
LDF_release   := -pie -Wl,-z,relro,-z,now

# Silent when pkg-config is not there yet: `make deps` must parse this file too. The rule `libs` says what is missing.
CPPFLAGS += -Isrc -D_GNU_SOURCE -DDUEPOST_VERSION='"$(VERSION)"' $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
CFLAGS   += -std=c11 $(WARN) $(WERROR) -MMD -MP -pthread $(FLAGS_$(MODE))
LDFLAGS  += -pthread $(FLAGS_$(MODE)) $(LDF_$(MODE))
LDLIBS   += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm

SRC   := $(sort $(shell find src -name '*.c'))
HEADERS := $(shell find src -name '*.h')
LUA   := $(sort $(wildcard lua/*.lua))
LIBO  := $(patsubst %.c,$(BUILD)/%.o,$(filter-out src/main.c,$(SRC))) $(BUILD)/gen/embedded.o
LIB   := $(BUILD)/libduepost.a
PROG  := $(BUILD)/duepost
SUPO  := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/support/store_fake.c,$(wildcard tests/support/*.c)))
SUP   := $(BUILD)/libsupport.a

# The test programs of a suite: $(call programs,unit,test_).
programs = $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/$(1)/$(2)*.c)))
UNIT  := $(call programs,unit,test_)
INTEG := $(call programs,integration,test_)
E2E   := $(call programs,e2e,test_)
TSAN  := $(call programs,tsan,tsan_)
FUZZ  := $(call programs,fuzz,fuzz_)
CHAOS := $(BUILD)/tests/chaos/chaos
TESTS := $(UNIT) $(INTEG) $(E2E) $(TSAN) $(FUZZ)

PACKAGE  := docker/package
FILLED   := $(BUILD)/package/duepost.1 $(BUILD)/package/duepost.bash

DEPS     := sh tests/support/deps.sh
RUN      := sh tests/support/run_tests.sh
# Use all cores unless -j was given.
JOBS      = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))
GATES    := lint format-check tidy openapi metrics api interop clang asan tsan fuzz cov chaos-short
FUZZ_SECONDS ?= 30

# V=1 shows the commands.
Q         = $(if $(filter 1,$(V)),,@)
say       = @echo "  $(1)  $(2)"

.PHONY: all help libs deps deps-build deps-docker docker-e2e deps-gates run programs unit integration e2e test \
        asan tsan tsan-programs fuzz fuzz-programs cov chaos chaos-kills chaos-short \
        bench bench-all bench-memory lint format format-check tidy tidy-files \
        openapi metrics api interop clang check print-gates install install-program install-service uninstall deb clean
.SECONDARY:
.DELETE_ON_ERROR:

all: $(PROG) ## build the gateway: build/duepost
ifeq ($(BUILD),build/release)
	@ln -sf release/duepost build/duepost
endif

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  \1\t/p' Makefile | expand -t 18

# --- building ---------------------------------------------------------------------------------------------------

$(PROG): $(BUILD)/src/main.o $(LIB)
	$(call say,link,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(LIB): $(LIBO)
	@rm -f $@; $(AR) rcs $@ $^
$(SUP): $(SUPO)
	@rm -f $@; $(AR) rcs $@ $^
$(BUILD)/%.o: %.c | libs
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(BUILD)/gen/%.o: $(BUILD)/gen/%.c | libs
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
# The Lua scripts and the OpenAPI file become C arrays inside the binary.
$(BUILD)/gen/embedded.c: $(LUA) api/openapi.yaml lua/embed.sh lua/bundle.awk
	@mkdir -p $(@D)
	@sh lua/embed.sh api/openapi.yaml $(LUA) > $@.tmp && mv $@.tmp $@
libs:
	@pkg-config --exists $(PKGS) 2>/dev/null || { echo "libraries are missing: run 'make deps' first" >&2; exit 1; }

# Test programs. Those of Criterion have their own main(), race tests bring one, libFuzzer links one.
$(TESTS): %: %.o $(SUP) $(LIB)
	$(call say,link,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(SUP) $(LIB) $(LDLIBS)
$(CHAOS): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/chaos/*.c)) $(SUP) $(LIB)
	$(call say,link,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(SUP) $(LIB) $(LDLIBS)
$(UNIT) $(INTEG) $(E2E): LDLIBS += -lcriterion
$(BUILD)/tests/e2e/test_openapi: LDLIBS += -lyaml
# What a test puts before libc in a redis-server; never instrumented.
$(BUILD)/tests/e2e/test_cases_clock: | $(BUILD)/tests/e2e/clock_step.so
$(BUILD)/tests/e2e/clock_step.so: tests/preload/clock_step.c
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) -std=c11 -O2 $(WARN) $(WERROR) -D_GNU_SOURCE -fPIC -shared -o $@ $<
$(FUZZ): LDFLAGS += -fsanitize=fuzzer
# These suites run against a store that is not there: the fake comes before the archive and wins.
$(addprefix $(BUILD)/tests/integration/,test_http test_http_heads test_http_limits): $(BUILD)/tests/support/store_fake.o
programs: all $(UNIT) $(INTEG) $(E2E) $(CHAOS)

# --- what must be installed (Debian, Ubuntu) --------------------------------------------------------------------

deps: ## install what is missing to build and test (as root or through sudo)
	@$(DEPS) build test
deps-build: ## only what is missing to build and run
	@$(DEPS) build
deps-docker: ## what is missing for `make docker-e2e`: an engine, compose, and what makes base images
	@$(DEPS) docker
deps-gates: ## what is missing for `make check` and `make bench` too
	@$(DEPS) build test bench gates

# --- running and testing ----------------------------------------------------------------------------------------
# Make is called again after the installation, because it asks pkg-config while it reads this file.

run: deps-build ## install, build and start a gateway with its Redis and a demo receiver, until Ctrl-C
	@$(MAKE) $(JOBS) all
	@bash tests/support/run_demo.sh $(PROG)

test: deps ## install, build, run the unit, integration and end-to-end tests
	@$(MAKE) $(JOBS) programs
	@$(RUN) $(BUILD) $(UNIT) $(INTEG) $(E2E)
unit: $(UNIT) ## unit tests only
	@$(RUN) $(BUILD) $(UNIT)
integration: all $(INTEG) ## integration tests only (real redis-servers)
	@$(RUN) $(BUILD) $(INTEG)
e2e: all $(E2E) ## end-to-end tests only (the real binary); DUEPOST_TEST_LONG=1: longer and deeper ones
	@$(RUN) $(BUILD) $(E2E)

# Builds that are slow: tests wait longer for what must come, and two programs run at a time.
SLOWLY := DUEPOST_TEST_SLOW=1 TEST_JOBS=2
asan: ## all tests, a short chaos run too, with AddressSanitizer and UBSan
	@$(MAKE) $(JOBS) -k MODE=asan BUILD=$(OUT)/asan programs
	@$(SLOWLY) CHAOS_SECONDS=30 \
	  $(RUN) $(OUT)/asan $(subst $(BUILD)/,$(OUT)/asan/,$(UNIT) $(INTEG) $(E2E) $(CHAOS))
# Criterion does not start under TSan: plain programs, and normal end-to-end drivers with the TSan gateway.
tsan: $(E2E) $(CHAOS) ## race tests; the end-to-end tests and a short chaos run on a gateway with ThreadSanitizer
	@$(MAKE) $(JOBS) -k MODE=tsan BUILD=$(OUT)/tsan all tsan-programs
	@DUEPOST_BIN=$(abspath $(OUT)/tsan/duepost) $(SLOWLY) CHAOS_SECONDS=30 \
	  $(RUN) $(OUT)/tsan $(subst $(BUILD)/,$(OUT)/tsan/,$(TSAN)) $(E2E) $(CHAOS)
tsan-programs: $(TSAN)
fuzz: ## fuzz each input edge: its corpus, then FUZZ_SECONDS (30)
	@$(MAKE) $(JOBS) -k MODE=fuzz BUILD=$(OUT)/fuzz CC=$(CLANG) fuzz-programs
	@sh tests/fuzz/run.sh $(FUZZ_SECONDS) $(subst $(BUILD)/,$(OUT)/fuzz/,$(FUZZ))
fuzz-programs: $(FUZZ)
cov: ## coverage of src/ by all tests, against the floor in tests/lint/coverage.sh
	@find $(OUT)/cov -name '*.gcda' -delete 2>/dev/null || true
	@$(MAKE) $(JOBS) -k MODE=cov BUILD=$(OUT)/cov programs
	@$(SLOWLY) $(RUN) $(OUT)/cov $(subst $(BUILD)/,$(OUT)/cov/,$(UNIT) $(INTEG) $(E2E))
	@sh tests/lint/coverage.sh $(OUT)/cov
chaos: all $(CHAOS) ## faults at random for CHAOS_SECONDS (600): nothing may be lost; CHAOS_HELP=1 says what can be chosen
	@DUEPOST_BIN="$${DUEPOST_BIN:-$(abspath $(PROG))}" $(CHAOS) $(if $(CHAOS_HELP),--help)
chaos-kills: all $(CHAOS) ## the same with killed gateways only, hundreds in fifteen minutes
	@CHAOS_SECONDS="$${CHAOS_SECONDS:-900}" CHAOS_FAULTS=gateway_killed CHAOS_PAUSE_MS=1500 $(MAKE) chaos
chaos-short: all $(CHAOS) ## the same for a minute
	@CHAOS_SECONDS=60 $(MAKE) chaos
bench: ## measure create, deliver, end to end and lateness on this machine, in some minutes
	@$(DEPS) build bench
	@$(MAKE) $(JOBS) all
	@DUEPOST_BIN=$(abspath $(PROG)) BENCH_OUT=$(OUT)/bench LATE_RATES="$${LATE_RATES:-1000}" bash tests/bench/run.sh
bench-all: ## every part, beside the limits and the peers of tests/bench/peers, in about half an hour
	@$(DEPS) build bench peers
	@$(MAKE) $(JOBS) all
	@DUEPOST_BIN=$(abspath $(PROG)) BENCH_OUT=$(OUT)/bench \
	  BENCH_PARTS="$${BENCH_PARTS:-idle create deliver e2e lateness pending burst slow}" \
	  BENCH_SYSTEMS="$${BENCH_SYSTEMS:-duepost bullmq bee-queue}" bash tests/bench/run.sh
bench-memory: ## does Redis give back what TASKS (ten million) tasks took?
	@$(DEPS) build bench
	@$(MAKE) $(JOBS) all
	@DUEPOST_BIN=$(abspath $(PROG)) bash tests/bench/memory.sh

docker-e2e: ## build the images, run the composed systems on a Docker engine, kill every container
	@bash docker/e2e.sh

# --- gates ------------------------------------------------------------------------------------------------------

check: deps-gates ## test and all the gates
	@for gate in test $(GATES); do echo "== $$gate"; $(MAKE) $(JOBS) $$gate || exit 1; done
print-gates:
	@echo $(GATES)
lint: $(PROG) $(FILLED) ## structural rules, Lua and shell scripts, the settings in README, man page and completion
	@CC=$(CC) CPPFLAGS="$$(pkg-config --cflags $(PKGS))" sh tests/lint/lint.sh
	@sh tests/lint/readme.sh $(PROG)
	@bash tests/lint/package.sh $(PROG) $(BUILD)/package
format: ## rewrite the C files by .clang-format
	clang-format -i $$(find src tests -name '*.[ch]')
format-check:
	@clang-format --dry-run -Werror $$(find src tests -name '*.[ch]')
tidy: ## clang-tidy on src/
	@$(MAKE) $(JOBS) -k tidy-files
tidy-files: $(SRC:%.c=$(BUILD)/%.tidy)
$(BUILD)/%.tidy: %.c .clang-tidy $(HEADERS)
	@mkdir -p $(@D)
	$(call say,tidy,$<)
	$(Q)clang-tidy --quiet $< -- -std=c11 $(CPPFLAGS) 2>$@.log || { cat $@.log; exit 1; }
	@touch $@
openapi: ## lint api/openapi.yaml
	@sh tests/lint/openapi.sh $(OUT)/openapi
metrics: $(PROG) ## ask promtool about the metrics and the alerts
	@sh tests/lint/metrics.sh $(PROG)
api: $(PROG) ## property-based tests of the API against api/openapi.yaml
	@sh tests/api/run.sh $(PROG) $(OUT)/schemathesis
interop: $(PROG) ## signatures by a library that is not ours and by the README's code
	@sh tests/interop/run.sh $(PROG) $(OUT)/interop
clang: ## build everything with clang, warnings as errors
	@$(MAKE) $(JOBS) -k BUILD=$(OUT)/clang CC=$(CLANG) WERROR=-Werror programs

# --- installing and packaging -----------------------------------------------------------------------------------
# `make install PREFIX=/usr DESTDIR=/tmp/root`; each folder can be given too, as GNU's conventions name them.

bindir        ?= $(PREFIX)/bin
mandir        ?= $(PREFIX)/share/man
completiondir ?= $(PREFIX)/share/bash-completion/completions
libdir        ?= $(PREFIX)/lib

# The settings in them are those of the program.
$(BUILD)/package/duepost.1: FORM := mdoc
$(BUILD)/package/duepost.bash: FORM := bash
$(FILLED): $(BUILD)/package/%: $(PACKAGE)/% $(PACKAGE)/fill.sh $(PROG)
	@mkdir -p $(@D)
	@sh $(PACKAGE)/fill.sh $(FORM) $< $(PROG) > $@

install: install-program install-service ## install under $(DESTDIR)$(PREFIX): program, man page, completion, service
install-program: all $(FILLED)
	install -D -m 755 $(PROG) $(DESTDIR)$(bindir)/duepost
	install -D -m 644 $(BUILD)/package/duepost.1 $(DESTDIR)$(mandir)/man1/duepost.1
	install -D -m 644 $(BUILD)/package/duepost.bash $(DESTDIR)$(completiondir)/duepost
# Settings that are there stay as they are.
install-service:
	install -d $(DESTDIR)$(libdir)/systemd/system
	sed 's|/usr/bin/|$(bindir)/|' $(PACKAGE)/duepost.service > \
	  $(DESTDIR)$(libdir)/systemd/system/duepost.service
	install -D -m 644 $(PACKAGE)/duepost.sysusers $(DESTDIR)$(libdir)/sysusers.d/duepost.conf
	install -D -m 644 $(PACKAGE)/duepost.tmpfiles $(DESTDIR)$(libdir)/tmpfiles.d/duepost.conf
	[ -e $(DESTDIR)/etc/duepost/duepost.json ] || \
	  install -D -m 644 $(PACKAGE)/duepost.json $(DESTDIR)/etc/duepost/duepost.json
uninstall: ## remove what `make install` has installed, but no settings and no tasks
	rm -f $(DESTDIR)$(bindir)/duepost $(DESTDIR)$(mandir)/man1/duepost.1 $(DESTDIR)$(completiondir)/duepost \
	  $(DESTDIR)$(libdir)/systemd/system/duepost.service \
	  $(DESTDIR)$(libdir)/sysusers.d/duepost.conf $(DESTDIR)$(libdir)/tmpfiles.d/duepost.conf
deb: ## build a Debian package: build/deb/duepost_*.deb
	@$(DEPS) build deb
	@sh $(PACKAGE)/deb.sh $(OUT)/deb
clean: ## remove what was built
	rm -rf $(OUT)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
