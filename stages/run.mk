# From knobs to stages of a run.

DEVICES := auto cpu
DTYPES  := f32 f16 bf16
ifeq ($(filter $(DEVICE),$(DEVICES)),)
$(error DEVICE=$(DEVICE) is not known; there are: $(DEVICES))
endif
ifneq ($(filter-out $(DTYPES),$(DTYPE)),)
$(error DTYPE=$(DTYPE) is not known; there are: $(DTYPES))
endif
$(foreach k,TOP BUDGET JOBS,$(if $(shell printf '%s' '$($(k))' | grep -Ex '[0-9]+(\.[0-9]+)?'),,$(error $(k)=$($(k)) is not a number)))

# A knob on the command line that there is not is a typo.
KNOBS := MODEL DEVICE INPUT DTYPE TOP BUDGET JOBS WORK RESULTS LAUNCH KERNEL NOTE BUILD CC SAN V
GIVEN := $(foreach v,$(.VARIABLES),$(if $(filter command line,$(origin $(v))),$(v)))
$(foreach v,$(filter-out $(KNOBS) MAKEFLAGS MAKEOVERRIDES,$(GIVEN)),$(error there is no knob $(v); there are: $(KNOBS)))

export MODEL INPUT DTYPE DEVICE TOP BUDGET JOBS WORK RESULTS LAUNCH KERNEL NOTE BUILD CC KFLAGS

STAGES := import profile plan extract search verify report status next trial
.PHONY: optimize ceilings $(STAGES)
READY := $(TOOLS) $(VENDOR) $(BUILD)/lib/vendor/INDEX $(BUILD)/kernel.env

optimize: $(READY)
	+@stages/run.sh search verify report proven
$(STAGES): $(READY)
	+@stages/run.sh $@
ceilings: $(READY)
	@mkdir -p "$(WORK)" && $(LAUNCH) $(BUILD)/bin/ak-ceilings -o "$(WORK)/ceilings.json" && cat "$(WORK)/ceilings.json"
