# The stages of one run, in its folder: make -C RUN -f .root/stages/pipeline.mk STAGE
# Names here are relative, so that no path with a space is ever a target: .root is the project,
# .model the model's file, ../../ the WORK folder.
#
# A stage leaves its stamp and, only where the result differs, its result: what follows reruns when
# something changed, not when something ran.

MAKEFLAGS += -rR
.DELETE_ON_ERROR:
BIN   := .root/$(BUILD)/bin
RULES := .root/rules

# $(call changed,NAME,COMMAND): COMMAND -o a new file, kept only if it differs from NAME.
changed = $(2) -o $(1).new && { if cmp -s $(1).new $(1); then rm -f $(1).new; else mv -f $(1).new $(1); fi; } && touch $@
# $(call stamped,NAME,STAMP): NAME is what STAMP left; if somebody deleted it, make it again.
stamped = @test -e $(1) || { rm -f $(2); $(MAKE) -f .root/stages/pipeline.mk $(2); }

.PHONY: import profile plan extract search verify report proven status next trial
import: graph.json
profile: profile.jsonl
plan: plan.json
extract: .extract
verify: verify.json
report: report.html

../../ceilings.json:
	@echo "measuring what this machine can do" >&2
	@$(LAUNCH) $(BIN)/ak-ceilings -o $@

.graph: $(wildcard .model) $(wildcard .root/models/*.lua)
	@echo "import: $$AK_MODEL" >&2
	@$(call changed,graph.json,$(BIN)/ak-import $(IMPORT) "$$AK_MODEL")
graph.json: .graph ; $(call stamped,$@,$<)

.profile: graph.json ../../ceilings.json $(RULES)/classify.lua $(RULES)/pattern.lua $(RULES)/kernels.lua
	@echo "profile: each distinct call is timed alone" >&2
	@$(call changed,profile.jsonl,$(LAUNCH) $(BIN)/ak-profile -c ../../ceilings.json graph.json)
profile.jsonl: .profile ; $(call stamped,$@,$<)

.rank: profile.jsonl $(RULES)/rank.lua $(RULES)/kernels.lua
	@$(call changed,plan.json,$(BIN)/ak-rank plan profile.jsonl)
plan.json: .rank ; $(call stamped,$@,$<)

.extract: plan.json graph.json $(RULES)/kernels.lua
	@$(BIN)/ak-extract -q -o specs plan.json && touch $@

# ---- the search: propose, build, judge, decide, until rank.lua says that it is over ----

PROPOSE = $(BIN)/ak-propose --env .root/$(BUILD)/kernel.env
JUDGE   = $(AK_HOME)/$(BUILD)/bin/ak-judge --lock "$(AK_WORK)/judge.lock" --ceilings ../../../../ceilings.json
ROUND   = $(MAKE) -C "specs/$$spec" -f "$(AK_HOME)/stages/search.mk" -j$(JOBS) JUDGE='$(JUDGE)' KINC="$(AK_HOME)/kernels"
# Records what is known; builds an incumbent whose library is gone, and records again.
RECORD  = $(BIN)/ak-rank record --results "$(RESULTS)" . | while read -r what dir hash; do \
            $(MAKE) -C "$$dir" -f "$(AK_HOME)/stages/search.mk" KINC="$(AK_HOME)/kernels" "trials/$$hash/kernel.so" || exit; \
          done && $(BIN)/ak-rank record --results "$(RESULTS)" . >/dev/null
NEXT    = $(BIN)/ak-rank next --top $(TOP) --budget $(BUDGET) .

ifneq ($(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),)
search: .extract ; @echo would search
else
search: .extract
	+@$(RECORD) || exit; tab=$$(printf '\t'); \
	while line=$$($(NEXT)); do spec=$${line%%"$$tab"*}; \
	  $(PROPOSE) "specs/$$spec"; s=$$?; [ $$s -le 1 ] || exit $$s; \
	  [ $$s = 1 ] || { echo "search: $$spec: $${line#*"$$tab"}" >&2; $(ROUND) judge || exit; $(RECORD) || exit; }; \
	done; s=$$?; [ $$s = 1 ] || exit $$s
endif

# One experiment by hand: SPEC's kernel.c was edited.
trial: .extract
	+@spec=$$($(BIN)/ak-rank find --spec "$(KERNEL)" .) || exit; \
	$(PROPOSE) --hand --note "$(NOTE)" "specs/$$spec"; s=$$?; [ $$s -le 1 ] || exit $$s; \
	if [ $$s = 0 ]; then $(ROUND) judge || exit; else echo "specs/$$spec/kernel.c is known already" >&2; fi; \
	$(RECORD) && $(BIN)/ak-rank verdict --spec "$$spec" .

next: .extract
	@$(NEXT)
status: plan.json
	@$(BIN)/ak-rank status .

# ---- the proof ----

verify.json: graph.json plan.json $(wildcard specs/*/best.hash)
	@echo "verify: the whole model, with and without the kept kernels" >&2
	@$(LAUNCH) $(BIN)/ak-verify --plan plan.json --specs specs -o $@ graph.json || [ $$? = 1 -a -s $@ ]

# verify.json holds a "no" as well as a "yes", and the report shows either; this is where a "no" fails.
proven: verify.json
	@grep -Eq '"match":[[:space:]]*true' verify.json || { echo "make: the optimised model does not match: verify.json says why" >&2; exit 1; }

report.html: verify.json plan.json profile.jsonl $(wildcard specs/*/best.hash)
	@$(BIN)/ak-report -o $@ .
