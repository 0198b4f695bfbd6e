# From knobs to stages of a run; run.sh does the work.

# A knob on the command line that there is not is a typo.
KNOBS := MODEL DEVICE INPUT DTYPE TOP BUDGET JOBS WORK RESULTS LAUNCH KERNEL NOTE BUILD CC SAN V
GIVEN := $(foreach v,$(.VARIABLES),$(if $(filter command line,$(origin $(v))),$(v)))
$(foreach v,$(filter-out $(KNOBS) MAKEFLAGS MAKEOVERRIDES,$(GIVEN)),$(error there is no knob $(v); there are: $(KNOBS)))

# The words of a user are no make text: '$' and '#' reach the shell as they are, through the
# environment, and makes below read them there.
$(foreach v,MODEL DEVICE INPUT DTYPE TOP BUDGET WORK RESULTS LAUNCH KERNEL NOTE,$(eval override $(v) := $$(value $(v))))
MAKEOVERRIDES :=
# Starts a command that dies with what started it.
TIE := setpriv --pdeathsig KILL --
export MODEL INPUT DTYPE DEVICE TOP BUDGET JOBS WORK RESULTS LAUNCH KERNEL NOTE BUILD CC SAN V KFLAGS TIE MAKE

STAGES := import profile plan extract search verify report status next trial ceilings
.PHONY: optimize ready $(STAGES)
ready: $(TOOLS) $(VENDOR) $(BUILD)/lib/vendor/INDEX $(BUILD)/kernel.env ; @:

# `make -n` shows the line, it does not run it.
RUN := $(if $(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),,+)@exec $(TIE) stages/run.sh
optimize:
	$(RUN) search verify report proven
$(STAGES):
	$(RUN) $@
