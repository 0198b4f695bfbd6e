#!/bin/sh
# The pipeline as its users run it, in a copy of the project whose folder's name is as bad as they come:
# what a second run repeats, what an edit reruns, what is refused, and what is left after a failure.
. "${0%/*}/process.sh"

top="$dir/it's a \$HOME, 100% #1"
built=${BUILD:-build}
mkdir "$top" && cp -a Makefile stages rules models kernels reference tools tests "$top" && mkdir "$top/tests/my \$models" || exit 5
cp -al "$built" "$top/build" 2>/dev/null || { rm -rf "$top/build"; cp -a "$built" "$top/build"; } || exit 5
cp tests/models/tiny.lua "$top/tests/my \$models" || exit 5
cd "$top" || exit 5
run=work/tiny/cpu-f32-16x512
unset MAKEFLAGS MAKELEVEL MFLAGS
mk() { make --no-print-directory BUILD=build BUDGET=3 TOP=2 "MODEL=tests/my \$models/tiny.lua" "$@"; }
tells() { # regular expression that the last command's output or messages must hold
    n=$((n + 1))
    if cat "$dir/out" "$dir/log" | grep -Eq -- "$1"; then echo "ok $n - it says $1"; else echo "not ok $n - it says $1"; cat "$dir/out" "$dir/log" | tail -n 20 | sed 's/^/# /'; fi
}
ok() { # description, command...
    what=$1
    shift
    is 0 "$what" "$@"
}
facts() { find "$run" -name facts.json -exec cksum {} + | sort; }
count() { find "$run" -name facts.json | wc -l; }
kept() { facts >"$dir/now"; ! comm -23 "$dir/facts" "$dir/now" | grep .; } # no facts of before were lost or made again
clean() { ! find "$run" -name '.cc.*' -o -name '*.tmp.*' -o -name '*.new' -o -name .owner | grep .; }
stamp() { stat -c %Y.%y "$1"; }

# ---- all of it, and again ----

ok "make optimize, where every path has a space, a quote and a dollar" mk optimize
ok "it made a report" test -s $run/report.html -a -s $run/verify.json -a -s $run/results.tsv
facts >"$dir/facts"
cp $run/results.tsv "$dir/results.tsv"
before=$(stamp $run/verify.json)
start=$(date +%s%N)
ok "make optimize again" mk optimize
took=$((($(date +%s%N) - start) / 1000000))
ok "ends within a second ($took ms)" test $took -lt 1000
ok "measures nothing" test "$(stamp $run/verify.json)" = "$before" -a "$(count)" = "$(wc -l <"$dir/facts")"
ok "leaves the log as it was" cmp $run/results.tsv "$dir/results.tsv"
for goal in status help import profile plan extract verify report; do ok "make $goal" mk $goal; done
ok "make report again" mk report
is 1 "make next, when nothing is left" sh -c "$(printf '%s' 'make --no-print-directory BUILD=build BUDGET=3 TOP=2 "MODEL=tests/my \$models/tiny.lua" next >&2 || exit 1')"
says "the search is over"

# ---- what an edit reruns ----

sleep 0.1
before=$(stamp $run/plan.json)
touch rules/rank.lua
ok "after rules/rank.lua was touched" mk optimize
ok "the ranking ran alone" test "$(stamp $run/plan.json)" = "$before" -a $run/.rank -nt rules/rank.lua -a "$(count)" = "$(wc -l <"$dir/facts")"
cp -p rules/decide.lua "$dir/decide.lua"
sed 's/ratio = 1.01/ratio = 100/' "$dir/decide.lua" >rules/decide.lua
ok "nothing is good enough for rules/decide.lua now" mk search
ok "so nothing is kept, and nothing is measured" sh -c '! cut -f 17 "$1"/results.tsv | grep -q keep && [ "$(find "$1" -name facts.json | wc -l)" = "$2" ]' - $run "$(wc -l <"$dir/facts")"
ok "every spec has its starter back" sh -c 'for s in "$1"/specs/*/; do cmp "$s/best.so" "$s/trials/$(cat "$s/best.hash")/kernel.so" && grep -q "\"by\":\"start\"" "$s/trials/$(cat "$s/best.hash")/knobs.json" || exit 1; done' - $run
cp -p "$dir/decide.lua" rules/decide.lua
ok "with the old rule again" mk search
ok "the log is as it was" cmp $run/results.tsv "$dir/results.tsv"

sed -i '/knob tier=1/s/values=/values=3,5,/' kernels/c/softmax.c
ok "after a range of a starter was widened" mk search
ok "only new candidates ran" kept
ok "and some did" sh -c '[ "$1" -gt "$2" ]' - "$(count)" "$(wc -l <"$dir/facts")"
facts >"$dir/facts"
sed -i 's/^local mutated_rounds = 12/local mutated_rounds = 13/; $a\
-- an edit' rules/strategy.lua
ok "after rules/strategy.lua was edited" mk search
ok "nothing known ran again" kept
facts >"$dir/facts"

# ---- by hand ----

spec=$(basename $run/specs/softmax*)
best=$(cat $run/specs/$spec/best.hash)
printf '\n/* a comment */\n' >>$run/specs/$spec/kernel.c
ok "a trial of what is known" mk trial KERNEL=softmax NOTE="a comment"
tells "known already"
cp $run/specs/$spec/trials/$best/kernel.c "$dir/kernel.c"
sed -i 's/^int ak_launch(.*/&\n    if (call) return AK_OK;/' $run/specs/$spec/kernel.c
is 2 "a trial of a kernel that does nothing" mk trial KERNEL=softmax "NOTE=it's \$1, \`pwd\` #2"
tells "^verdict: wrong"
ok "is reverted" cmp $run/specs/$spec/kernel.c "$dir/kernel.c"
ok "its note is in the log as it was written" grep -qF "it's \$1, \`pwd\` #2" $run/results.tsv
echo '#error no' >>$run/specs/$spec/kernel.c
is 2 "a trial of one that does not compile" mk trial KERNEL=softmax NOTE=x
tells "^correctness: compile_fail"
ok "the incumbent is the same" test "$(cat $run/specs/$spec/best.hash)" = "$best"
is 2 "a trial of no kernel" mk trial KERNEL=gemm NOTE=x
says "no spec is called 'gemm'; there are:.*$spec"
rm $run/specs/$spec/kernel.c
ok "a kernel.c that was deleted comes back" sh -c 'make BUILD=build BUDGET=3 TOP=2 "MODEL=tests/my \$models/tiny.lua" search && [ -s "$1" ]' - $run/specs/$spec/kernel.c
facts >"$dir/facts"

# ---- what is refused ----

is 2 "no model" make --no-print-directory BUILD=build optimize
says "MODEL is wanted.*llama-mini"
is 2 "a model that there is not" mk optimize MODEL=lama
says "no model 'lama'.*llama-mini.* Error 3\|no model 'lama'"
for knob in DTYPE=f31 DEVICE=tpu TOP=x BUDGET=-1 JOBS=0 INPUT=2x3 MODLE=x WORK=; do
    is 2 "$knob" mk plan "$knob"
    says "${knob%%=*}\|${knob#*=}"
done
is 2 "a compiler that there is not" mk optimize CC=nonexistent
says "no compiler 'nonexistent'"
is 2 "packages that there are not" env PKG_CONFIG_LIBDIR=/nonexistent make BUILD=build
says "packages are missing:.*liblua5.4-dev"
echo >"$dir/file"
is 2 "WORK under a file" mk plan "WORK=$dir/file/x"
says "cannot make the folder"
says "Error 5"
exec 8>>$run/.lock
flock 8
echo "$$ since now" >$run/.owner
is 2 "a run that another has" mk optimize
says "is in use by process $$ since now: wait"
says "Error 5"
ok "but its status is for all" mk status
exec 8>&-
ok "and when the other has gone" mk search
for rule in kernels classify pattern rank strategy decide expr; do
    cp -p rules/$rule.lua "$dir/rule.lua"
    echo 'x = = 1' >>rules/$rule.lua
    is 2 "an error in rules/$rule.lua" mk optimize BUDGET=9
    says "rules/$rule.lua:$(wc -l <rules/$rule.lua): "
    cp -p "$dir/rule.lua" rules/$rule.lua
done
for bad in truncated empty; do
    case $bad in truncated) head -c 3000 tests/models/mlp_dynamic.pt2 >"$dir/bad.pt2" ;; empty) : >"$dir/bad.pt2" ;; esac
    is 2 "a .pt2 that is $bad" mk optimize "MODEL=$dir/bad.pt2" WORK=none
    says "ak-import: "
    says "Error 3"
done
ok "left no folder behind" test ! -e none
trial=$(dirname $run/specs/$spec/trials/*/knobs.json | head -n 1)
rm "$trial/cc.log" "$trial/facts.json"
round=$(basename "$(grep -l "${trial##*/}" $run/specs/$spec/rounds/*)")
printf '#!/bin/sh\nkill -9 $$\n' >killed
printf '#!/bin/sh\necho "cannot write x.s: No space left on device" >&2\nexit 1\n' >full
chmod +x killed full
for cc in nonexistent ../../.root/killed ../../.root/full; do
    is 2 "the compiler of a search is '$cc'" make -C "$run/specs/$spec" -f ../../.root/stages/search.mk "ROUND=$round" "CC=$cc" TIE= JOBS=1 judge
    says "search: '$cc' did not finish"
    ok "which is no verdict" test ! -e "$trial/facts.json" -a ! -e "$trial/cc.log"
done
ok "nothing of all that stays" mk optimize
grep -v "${trial##*/}" "$dir/facts" >"$dir/others" && mv "$dir/others" "$dir/facts"
ok "nothing else ran again" kept
ok "nothing half-written lies about" clean

# ---- tools alone ----

ok "tools compose" sh -c 'build/bin/ak-import -q "$1" | build/bin/ak-profile -q - | build/bin/ak-rank plan -' - tests/models/tiny.lua
tells '"format":.*"ak-plan"'
ok "make -n runs nothing" mk -n optimize WORK=none
ok "not even a folder" test ! -e none

# ---- the judge ----

ok "a kernel is not kept against itself" env BUILD=build tests/identical.sh --tries 20 "$run/specs/$spec" "$run/specs/$spec/best.so"
ok "a killed judge leaves no record or a whole one, a killed worker is no verdict" \
    env BUILD=build tests/judge_kills.sh --tries 6 "$run/specs/$spec" "$run/specs/$spec/best.so"

# ---- kills ----

mkdir w && cp work/ceilings.json w
ok "kills at random moments" env BUILD=build tests/kills.sh 5 w
sed 's/^/# /' "$dir/out"
echo "1..$n"
