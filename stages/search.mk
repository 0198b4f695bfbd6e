# One round of trials, run in a spec's folder: make -C SPEC -f .../search.mk judge
# (The list is that of the last round alone: old rounds cost nothing.)
#
# Variables: CC KFLAGS KINC JUDGE LAUNCH, the judge's command up to its operands.

MAKEFLAGS += -rR
.DELETE_ON_ERROR:
ROUND := $(file <$(lastword $(sort $(wildcard rounds/[0-9]*))))
HASH  := $(wordlist 9,9999,$(ROUND))
FACTS := $(HASH:%=trials/%/facts.json)
LOGS  := $(HASH:%=trials/%/cc.log)
.PRECIOUS: $(FACTS) $(LOGS)
.PHONY: judge
judge: $(FACTS)

# A compiler that fails leaves its log and no library: that is a verdict. One that was killed from
# outside leaves nothing: gcc says so with exit status 1 and a line about signal 9.
define compile
t=$*/.cc.$$$$; trap 'rm -f $$t.so $$t.log' EXIT; \
( ulimit -S -t 60 -f 200000; exec $(CC) $(KFLAGS) -I$(KINC) -o $$t.so $< -lm ) >/dev/null 2>$$t.log; s=$$?; \
if [ $$s -gt 128 ] || grep -qE 'Killed signal|with signal 9|signal terminated' $$t.log; then exit 1; fi; \
if [ $$s = 0 ]; then mv -f $$t.so $*/kernel.so || exit; else rm -f $*/kernel.so; fi; mv -f $$t.log $@
endef

$(LOGS): %/cc.log: %/kernel.c
	@$(compile)

# On the CPU nothing builds while anything is timed: every log of the round comes first.
$(FACTS): %/facts.json: | %/cc.log $(LOGS)
	@$(LAUNCH) $(JUDGE) --cc-log $*/cc.log -o $@ . $*/kernel.so

# An incumbent by a changed decision, whose library was deleted as a loser's.
trials/%/kernel.so: trials/%/kernel.c
	@t=$(@D)/.cc.$$$$; trap 'rm -f $$t.so' EXIT; $(CC) $(KFLAGS) -I$(KINC) -o $$t.so $< -lm && mv -f $$t.so $@
