# The stages of one run, in its folder: make -C RUN -f .root/stages/pipeline.mk STAGE
#
# Names here are relative and knobs are read by the shell, from its environment, so that no path with
# a space or a dollar is ever a word of make's: .root is the project, .build its tools, ../../ the
# WORK folder. A stage leaves its stamp and, only where the result differs, its result: what follows
# reruns when something changed, not when something ran.

MAKEFLAGS += -rR
.DELETE_ON_ERROR:
# Every recipe's shell dies with the make that started it.
SHELL       := setpriv
.SHELLFLAGS := --pdeathsig KILL -- /bin/sh -c
BIN   := .build/bin
RULES := .root/rules
LAUNCH := $(value LAUNCH)
# One measurement at a time, of all the runs in WORK.
MEASURE := $(LAUNCH) $(TIE) flock -F ../../judge.lock

# $(call changed,NAME,COMMAND): COMMAND -o a new file, kept only if it differs from NAME.
changed = $(2) -o $(1).new && { if cmp -s $(1).new $(1); then rm -f $(1).new; else mv -f $(1).new $(1); fi; } && touch $@
# $(call stamped,NAME,STAMP): NAME is what STAMP left; if somebody deleted it, make it again.
stamped = @test -e $(1) || { rm -f $(2); $(MAKE) -f .root/stages/pipeline.mk $(2); }

.PHONY: import profile plan extract search verify report proven next trial
import: graph.json
profile: profile.jsonl
plan: plan.json ; @$(BIN)/ak-rank plan --table profile.jsonl
extract: .extract
verify: verify.json
report: report.html

../../ceilings.json:
	@echo "ceilings: measuring what this machine can do" >&2
	@$(MEASURE) /bin/sh -c '[ -s $@ ] || exec $(BIN)/ak-ceilings -o $@'

.graph: .asked $(BIN)/ak-import $(wildcard .root/models/*.lua)
	@echo "import: $$MODEL" >&2
	@$(call changed,graph.json,$(BIN)/ak-import $${INPUT:+--input "$$INPUT"} $${DTYPE:+--dtype "$$DTYPE"} "$$MODEL")
graph.json: .graph ; $(call stamped,$@,$<)

.profile: graph.json ../../ceilings.json $(RULES)/classify.lua $(RULES)/pattern.lua $(RULES)/kernels.lua
	@echo "profile: each distinct call is timed alone" >&2
	@$(call changed,profile.jsonl,$(MEASURE) $(BIN)/ak-profile -c ../../ceilings.json graph.json)
profile.jsonl: .profile ; $(call stamped,$@,$<)

.rank: profile.jsonl $(BIN)/ak-rank $(RULES)/rank.lua $(RULES)/kernels.lua
	@$(call changed,plan.json,$(BIN)/ak-rank plan profile.jsonl)
plan.json: .rank ; $(call stamped,$@,$<)

.extract: plan.json graph.json $(BIN)/ak-extract $(RULES)/kernels.lua
	@$(BIN)/ak-extract -q -o specs plan.json && touch $@

# ---- the search: propose, build, judge, decide, until rank.lua says that it is over ----

ifneq ($(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),)
search trial: .extract ; @echo would search
else
search trial: .extract
	+@exec .root/stages/search.sh $@
endif

next: .extract
	@exec .root/stages/search.sh $@

# ---- the proof ----

verify.json: graph.json plan.json $(wildcard specs/*/best.hash)
	@echo "verify: the whole model, with and without the kept kernels" >&2
	@rm -f $@; $(MEASURE) $(BIN)/ak-verify --plan plan.json --specs specs -o $@ graph.json || [ $$? = 1 -a -s $@ ]

# verify.json holds a "no" as well as a "yes", and the report shows either; this is where a "no" fails.
proven: verify.json
	@awk -F '[:,[:space:]]+' '$$2 == "\"speedup_high\"" && $$3 < 1 {exit 1}' verify.json || { echo "make: the optimised model is slower: verify.json says more" >&2; exit 1; }
	@grep -Eq '"match":[[:space:]]*true' verify.json || { \
	  echo "make: no faster model is proven: $$(sed -n 's/^[[:space:]]*"reason":[[:space:]]*"\(.*\)",*$$/\1/p' verify.json) (verify.json says more)" >&2; exit 1; }

report.html: verify.json plan.json profile.jsonl $(BIN)/ak-report $(wildcard specs/*/best.hash)
	@$(BIN)/ak-report -o $@ .
