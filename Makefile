# AutoKernel: `make help` says what there is, `make optimize MODEL=llama-mini` does it.

# ---- knobs: set them on the command line ----
MODEL   ?=
DEVICE  ?= auto
INPUT   ?=
DTYPE   ?=
TOP     ?= 4
BUDGET  ?= 60
JOBS    ?= $(shell nproc)
WORK    ?= work
RESULTS ?=
LAUNCH  ?=
KERNEL  ?=
NOTE    ?=
BUILD   ?= build
ifeq ($(origin CC),default)
CC      := cc
endif
SAN     ?=
V       ?=

define HELP
make optimize MODEL=M   profile, plan, search, prove, report: all of it
make import|profile|plan|extract|search|verify|report MODEL=M   up to that stage
make status MODEL=M     how far the search has come
make next MODEL=M       which kernel the next experiment should go to, and why
make trial MODEL=M KERNEL=SPEC NOTE="what you changed"   judge an edited specs/SPEC/kernel.c
make ceilings           measure what this machine can do at most
make test               all tests that need no GPU        make clean   remove what was built
make deps ...           install what is missing (Debian and Ubuntu, as root), then make the rest

MODEL    a model in models/ ($(sort $(filter-out nn %_body,$(notdir $(basename $(wildcard models/*.lua)))))), or a .pt2 file
DEVICE   auto or cpu (default auto)
INPUT    the input's shape, such as 1,128 (default: the model's own)
DTYPE    f32, f16 or bf16, for models in models/ (default: the model's own)
TOP      how many kernels to search (default 4)
BUDGET   seconds of search, building and judging (default 60)
JOBS     how many compilers at once (default: the number of cores)
WORK     where everything made goes (default work)
RESULTS  the log of experiments (default: results.tsv in the run's folder)
LAUNCH   words put before a command that measures, such as srun -N1
SAN=1    build with address and undefined-behaviour sanitizers; V=1 shows commands
endef
export HELP

# ---- nothing to set below ----
ifneq ($(filter deps,$(MAKECMDGOALS)),)
# `make deps GOAL...`: install, then make the goals in a make that sees what was installed.
REST := $(filter-out deps,$(MAKECMDGOALS))
.PHONY: deps rest $(REST)
ifneq ($(REST),)
$(REST): rest ; @:
endif
rest: deps
	+@$(if $(REST),$(MAKE) --no-print-directory $(REST))
deps: ; @stages/deps.sh
else
MAKEFLAGS += -rR
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all
AT := $(if $(V),,@)
ifneq ($(strip $(words $(BUILD)) $(foreach c,% : ; ' " $$,$(findstring $c,$(value BUILD)))),1)
$(error BUILD='$(value BUILD)': make wants a folder's name without spaces, quotes, or any of % : ; $$)
endif
ifneq ($(filter-out help clean,$(or $(MAKECMDGOALS),all)),)
ifeq ($(shell command -v '$(firstword $(CC))';),)
$(error there is no compiler '$(CC)': name one by CC=..., or install gcc (as root: make deps))
endif
MISSING := $(shell stages/deps.sh --missing)
ifneq ($(MISSING),)
$(error these packages are missing: $(MISSING); as root on Debian or Ubuntu: make deps, or apt-get install $(MISSING))
endif
endif

PKGS     := lua5.4 libcjson zlib
WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
comma    := ,
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
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
FUZZ    := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/%,$(wildcard tests/fuzz/fuzz_*.c))

.PHONY: all tools kernels unit clean help
help: ; @printf '%s\n' "$$HELP"
.SECONDARY:
all: tools kernels
tools: $(TOOLS)
kernels: $(VENDOR) $(STARTER) $(BUILD)/lib/vendor/INDEX
unit: $(UNIT)

# A stamp that changes when the flags do.
FLAGS := $(CC) $(CPPFLAGS) $(CFLAGS) $(REFFLAGS) $(KFLAGS) $(LDLIBS)
$(shell mkdir -p $(BUILD); printf '%s\n' '$(FLAGS)' | cmp -s - $(BUILD)/flags || printf '%s\n' '$(FLAGS)' > $(BUILD)/flags)

$(BUILD)/obj/reference/%.o: EXTRA = $(REFFLAGS)
# A ceiling is what the widest vectors reach, and no sanitizer stands in their way.
$(BUILD)/obj/tools/lib/ceilings.o: EXTRA = -O3 -march=native -fno-sanitize=all
$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(AT),@echo "  CC   $<")
	$(AT)$(CC) $(CPPFLAGS) $(CFLAGS) $(EXTRA) -MMD -MP -c -o $@ $<

$(BUILD)/libak.a: $(LIBOBJ)
	$(AT)rm -f $@ && ar rcs $@ $^

$(BUILD)/bin/%: $(BUILD)/obj/tools/%.o $(BUILD)/libak.a
	@mkdir -p $(@D)
	$(if $(AT),@echo "  LD   $@")
	$(AT)$(CC) $(CFLAGS) -o $@ $< $(BUILD)/libak.a $(LDLIBS)

$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/libak.a
	@mkdir -p $(@D)
	$(AT)$(CC) $(CFLAGS) -o $@ $< $(BUILD)/libak.a $(LDLIBS)

# Fuzz targets over their corpora; tests/fuzz/run.sh looks for more.
$(FUZZ): $(BUILD)/tests/%: $(BUILD)/obj/tests/fuzz/%.o $(BUILD)/obj/tests/fuzz/main.o $(BUILD)/libak.a
	@mkdir -p $(@D)
	$(AT)$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/lib/vendor/%.so: kernels/vendor/%.c kernels/ak_kernel.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(AT),@echo "  KC   $<")
	$(AT)$(CC) $(KFLAGS) $(WARN) $(shell pkg-config --cflags openblas) -o $@ $< $(shell pkg-config --libs openblas) -lm

$(BUILD)/lib/c/%.so: kernels/c/%.c kernels/ak_kernel.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(AT),@echo "  KC   $<")
	$(AT)$(CC) $(KFLAGS) $(WARN) -o $@ $< -lm

# Which library serves which kernel type or op, from the first comment of each source.
$(BUILD)/lib/vendor/INDEX: $(wildcard kernels/vendor/*.c)
	@mkdir -p $(@D)
	$(AT)awk '/^\/\* ak: types/ {f = FILENAME; sub(".*/", "", f); sub("\\.c$$", ".so", f); for (i = 4; i < NF; i++) print $$i, f; nextfile}' $^ > $@

# All tests that need no GPU: TAP, run by prove, which fails if one does.
.PHONY: test
test: $(TOOLS) $(VENDOR) $(STARTER) $(BUILD)/lib/vendor/INDEX $(UNIT) $(FUZZ)
	LC_ALL=C BUILD=$(BUILD) prove --exec '' $(UNIT) $(FUZZ) tests/import.t tests/readme.t tests/pipeline.t tests/verify.t

# The command line of kernels and the compiler behind it: a trial's facts depend on both.
$(BUILD)/kernel.env: $(BUILD)/flags kernels/ak_kernel.h
	$(AT){ echo "flags $(KFLAGS)"; echo "threads wait $${OMP_WAIT_POLICY:-} $${GOMP_SPINCOUNT:-}"; $(CC) --version | sed -n '1s/^/compiler /p'; \
	  $(CC) $(KFLAGS) -Q --help=target 2>/dev/null | awk '/^  -march=/ {print "march", $$2}'; \
	  echo "ak_kernel.h $$(cksum < kernels/ak_kernel.h)"; } > $@.new && mv $@.new $@

clean:
	rm -rf $(BUILD)

include stages/run.mk

-include $(LIBOBJ:.o=.d) $(patsubst $(BUILD)/bin/%,$(BUILD)/obj/tools/%.d,$(TOOLS)) $(patsubst $(BUILD)/tests/%,$(BUILD)/obj/tests/unit/%.d,$(UNIT))
endif
