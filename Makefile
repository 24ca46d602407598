# Build flavours: MODE=release (default) | debug | asan | tsan | cov, each in a folder of its own.
MODE     ?= release
BUILD    ?= build/$(MODE)
VERSION  := 0.1.0
ifeq ($(origin CC),default)
CC       := gcc
endif
CLANG    ?= clang
PKGS     := libmicrohttpd hiredis jansson libcurl libcrypto

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
        -Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings \
        -Wformat=2 -Wundef -Wvla -Wswitch-enum -Wimplicit-fallthrough -Wnull-dereference
SAN  := -fno-omit-frame-pointer -fno-sanitize-recover=all
HARD := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
FLAGS_release := -O2 -g $(HARD)
FLAGS_debug   := -O0 -g3
FLAGS_asan    := -O1 -g -fsanitize=address,undefined $(SAN)
FLAGS_tsan    := -O1 -g -fsanitize=thread $(SAN)
FLAGS_cov     := -O0 -g --coverage
LDF_release   := -pie -Wl,-z,relro,-z,now

CPPFLAGS += -Isrc -D_GNU_SOURCE -DDUEPOST_VERSION='"$(VERSION)"' $(shell pkg-config --cflags $(PKGS))
CFLAGS   += -std=c11 $(WARN) $(WERROR) -MMD -MP -pthread $(FLAGS_$(MODE))
LDFLAGS  += -pthread $(FLAGS_$(MODE)) $(LDF_$(MODE))
LDLIBS   += $(shell pkg-config --libs $(PKGS)) -lm

SRC  := $(sort $(shell find src -name '*.c'))
LUA  := $(sort $(wildcard lua/*.lua))
LIBO := $(patsubst %.c,$(BUILD)/%.o,$(filter-out src/main.c,$(SRC))) $(BUILD)/gen/embedded.o
LIB  := $(BUILD)/libduepost.a
UNIT := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))

.PHONY: all unit clean
all: $(BUILD)/duepost

$(BUILD)/duepost: $(BUILD)/src/main.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(LIB): $(LIBO)
	@rm -f $@; $(AR) rcs $@ $^
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
# The Lua scripts and the OpenAPI file become C arrays inside the binary.
$(BUILD)/gen/embedded.c: $(LUA) api/openapi.yaml lua/embed.sh
	@mkdir -p $(@D)
	sh lua/embed.sh api/openapi.yaml $(LUA) > $@.tmp && mv $@.tmp $@

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lcriterion
.SECONDARY:

unit: $(UNIT)
	@rc=0; for t in $(UNIT); do $$t --timeout 30 || rc=1; done; exit $$rc

clean:
	rm -rf build
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
