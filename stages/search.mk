# One round of trials, run in a spec's folder: make -C SPEC -f ../../.root/stages/search.mk ROUND=0007 judge
#
# From the environment: CC KFLAGS LAUNCH TIE.

MAKEFLAGS += -rR
.DELETE_ON_ERROR:
SHELL       := setpriv
.SHELLFLAGS := --pdeathsig KILL -- /bin/sh -c
LAUNCH := $(value LAUNCH)
LOCK   := ../../../../judge.lock
# Without the words of its first line.
HASH   := $(if $(ROUND),$(wordlist 9,9999,$(file <rounds/$(ROUND))))
FACTS  := $(HASH:%=trials/%/facts.json)
LOGS   := $(HASH:%=trials/%/cc.log)
.PRECIOUS: $(FACTS) $(LOGS)
.PHONY: judge
judge: $(FACTS)

# Nobody builds while another run of this WORK measures; CC's own children die of their limits, and its
# files are where run.sh sweeps.
BUILD_KERNEL = ulimit -S -t 60; ulimit -S -f 200000; export TMPDIR=$(@D); exec $(TIE) flock -s -F $(LOCK) $(CC) $(KFLAGS) -I../../.root/kernels -o $$t.so $< -lm

# What is no word on the candidate: a compiler that is missing or was killed, a full disk. (Lines that
# quote the candidate may say what they like.)
NO_VERDICT := (Killed|Terminated|Interrupt|Hangup) signal|with signal (1|2|9|15)\b|command: (Killed|Terminated)|No space left|cannot execute|failed to execute|Cannot allocate|memory exhausted

# A compiler that fails leaves its log and no library: that is a verdict.
define compile
t=$*/.cc.$$$$; trap 'rm -f $$t.so $$t.log' EXIT; ( $(BUILD_KERNEL) ) >/dev/null 2>$$t.log; s=$$?; \
why=$$(grep -vE '^(trials/| *[0-9]* *\|)' $$t.log | grep -m 1 -E '$(NO_VERDICT)') || [ $$s = 69 ] || [ $$s -gt 125 ] && { \
  echo "search: '$(firstword $(CC))' did not finish: $${why:-$$(tail -n 1 $$t.log)}" >&2; exit 5; }; \
if [ $$s = 0 ]; then mv -f $$t.so $*/kernel.so || exit 5; else rm -f $*/kernel.so; fi; mv -f $$t.log $@ || exit 5
endef

$(LOGS): %/cc.log: %/kernel.c
	@$(compile)

# On the CPU nothing builds while anything is timed: every log of the round comes first.
number = $(words $(call upto,$(notdir $(1)),$(HASH)))
upto = $(if $(2),x $(if $(filter-out $(1),$(firstword $(2))),$(call upto,$(1),$(wordlist 2,9999,$(2)))))
$(FACTS): %/facts.json: | %/cc.log $(LOGS)
	@said=$$($(LAUNCH) ../../.build/bin/ak-judge --lock $(LOCK) --ceilings ../../../../ceilings.json --cc-log $*/cc.log -o $@ . $*/kernel.so 2>&1); s=$$?; \
	printf '%s/%s %s\n' $(call number,$*) $(words $(HASH)) "$$said" >&2; exit $$s

# An incumbent by a changed decision, whose library was deleted as a loser's.
trials/%/kernel.so: trials/%/kernel.c
	@t=$(@D)/.cc.$$$$; trap 'rm -f $$t.so' EXIT; ( $(BUILD_KERNEL) ) && mv -f $$t.so $@
