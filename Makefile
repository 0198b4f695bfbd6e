# AutoKernel: `make help` says what there is.

BUILD ?= build
CC    ?= cc
JOBS  ?= $(shell nproc)
SAN   ?=
V     ?=

# ---- nothing to set below ----
MAKEFLAGS += -rR
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all
Q := $(if $(V),,@)

PKGS     := lua5.4 libcjson zlib
WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
comma    := ,
OPT      := $(if $(SAN),-O1 -g,-O2 -g)
CPPFLAGS := -D_GNU_SOURCE -Ikernels -Ireference -Itools/lib -Itools/import $(shell pkg-config --cflags $(PKGS))
CFLAGS   := -std=c11 $(OPT) $(WARN) $(SANFLAGS) -fopenmp
LDLIBS   := $(shell pkg-config --libs $(PKGS)) -lm -ldl -lpthread
# Truth is double arithmetic on whole rows: it wants the widest vectors there are.
REFFLAGS := $(if $(SAN),,-O3 -march=native)
# A kernel's command line is part of what its trial's facts depend on.
KFLAGS   := -std=gnu11 -O3 -march=native -ffp-contract=fast -fno-math-errno -fopenmp -fPIC -shared -fvisibility=hidden -nostartfiles -Ikernels

LIBSRC  := $(wildcard tools/lib/*.c tools/import/*.c reference/*.c)
LIBOBJ  := $(LIBSRC:%.c=$(BUILD)/obj/%.o)
TOOLS   := $(patsubst tools/%.c,$(BUILD)/bin/%,$(wildcard tools/ak-*.c))
VENDOR  := $(patsubst kernels/vendor/%.c,$(BUILD)/lib/vendor/%.so,$(wildcard kernels/vendor/*.c))
STARTER := $(patsubst kernels/c/%.c,$(BUILD)/lib/c/%.so,$(wildcard kernels/c/*.c))
UNIT    := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))

.PHONY: all tools kernels unit clean help
.SECONDARY:
all: tools kernels
tools: $(TOOLS)
kernels: $(VENDOR) $(STARTER) $(BUILD)/lib/vendor/INDEX
unit: $(UNIT)

# A stamp that changes when the flags do.
FLAGS := $(CC) $(CPPFLAGS) $(CFLAGS) $(REFFLAGS) $(KFLAGS) $(LDLIBS)
$(shell mkdir -p $(BUILD); printf '%s\n' '$(FLAGS)' | cmp -s - $(BUILD)/flags || printf '%s\n' '$(FLAGS)' > $(BUILD)/flags)

$(BUILD)/obj/reference/%.o: EXTRA = $(REFFLAGS)
$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC   $<")
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(EXTRA) -MMD -MP -c -o $@ $<

$(BUILD)/libak.a: $(LIBOBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/bin/%: $(BUILD)/obj/tools/%.o $(BUILD)/libak.a
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD   $@")
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(BUILD)/libak.a $(LDLIBS)

$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/libak.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(BUILD)/libak.a $(LDLIBS)

$(BUILD)/lib/vendor/%.so: kernels/vendor/%.c kernels/ak_kernel.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(Q),@echo "  KC   $<")
	$(Q)$(CC) $(KFLAGS) $(WARN) $(shell pkg-config --cflags openblas) -o $@ $< $(shell pkg-config --libs openblas) -lm

$(BUILD)/lib/c/%.so: kernels/c/%.c kernels/ak_kernel.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(Q),@echo "  KC   $<")
	$(Q)$(CC) $(KFLAGS) $(WARN) -o $@ $< -lm

# Which library serves which kernel type or op, from the first comment of each source.
$(BUILD)/lib/vendor/INDEX: $(wildcard kernels/vendor/*.c)
	@mkdir -p $(@D)
	$(Q)awk '/^\/\* ak: types/ {f = FILENAME; sub(".*/", "", f); sub("\\.c$$", ".so", f); for (i = 4; i < NF; i++) print $$i, f; nextfile}' $^ > $@

clean:
	rm -rf $(BUILD)

-include $(LIBOBJ:.o=.d) $(patsubst $(BUILD)/bin/%,$(BUILD)/obj/tools/%.d,$(TOOLS)) $(patsubst $(BUILD)/tests/%,$(BUILD)/obj/tests/unit/%.d,$(UNIT))
