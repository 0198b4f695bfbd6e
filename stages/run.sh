#!/bin/sh
# run.sh STAGE... - build the tools, then make stages of a run, one after the other, in the run's
# folder and as the only one that works there. Knobs come in the environment: MODEL INPUT DTYPE ...
#
# The lock is a descriptor that every child inherits: it is free again when the last of them has
# ended, whatever killed the first. $TIE makes a child die with its parent, so a kill anywhere ends
# all that is below; a run that was killed has a few seconds for that before it is called busy.
fail() { code=$1; shift; echo "make: $*" >&2; exit "$code"; }
one_of() { # KNOB VALUE WORD...
    knob=$1 value=$2
    shift 2
    for word; do [ "$value" = "$word" ] && return; done
    fail 2 "$knob='$value' is not known; there are: $*"
}
number() { # KNOB VALUE
    case $2 in
    '' | *[!0-9]* | ?????????*) fail 2 "$1='$2' is not a whole number" ;;
    esac
}
models() { grep -l 'build = ' models/*.lua | sed 's,.*/,,; s,\.lua$,,' | tr '\n' ' ' | sed 's/ $//'; }

# ---- knobs ----

unset CDPATH
home=$PWD
one_of DEVICE "$DEVICE" auto cpu
[ -z "$DTYPE" ] || one_of DTYPE "$DTYPE" f32 f16 bf16
number TOP "$TOP"
[ "$TOP" -gt 0 ] || fail 2 "TOP='$TOP' is no number of kernels"
number JOBS "$JOBS"
[ "$JOBS" -gt 0 ] || fail 2 "JOBS='$JOBS' is no number of compilers"
number BUDGET "$BUDGET"
[ -n "$WORK" ] || fail 2 "WORK is wanted: the folder where everything made goes"
case $WORK in -*) WORK=./$WORK ;; esac
case $RESULTS in '') RESULTS=results.tsv ;; /*) ;; *) RESULTS=$home/$RESULTS ;; esac
case $BUILD in /*) built=$BUILD ;; *) built=$home/$BUILD ;; esac
if [ "$*" != ceilings ]; then
    [ -n "$MODEL" ] || fail 2 "MODEL is wanted: a .pt2 file, or one of $(models)"
    [ -e "$MODEL" ] || [ -e "models/$MODEL.lua" ] || fail 3 "there is no model '$MODEL': give a .pt2 file, or one of $(models)"
fi

# ---- tools ----

flock -n "$BUILD/.lock" true || echo "make: waiting for another make that builds" >&2
case " $MAKEFLAGS " in *" -j"*) j= ;; *) j=-j$JOBS ;; esac
$TIE flock -F "$BUILD/.lock" "$MAKE" --no-print-directory $j ready || fail 4 "the tools cannot be built"

if [ "$*" = ceilings ]; then
    why=$(mkdir -p "$WORK" 2>&1) || fail 5 "cannot make the folder '$WORK': ${why##*: }"
    ( : >>"$WORK/judge.lock" ) 2>/dev/null || fail 5 "cannot write in '$WORK'"
    # shellcheck disable=SC2086
    $LAUNCH $TIE flock -F "$WORK/judge.lock" "$built/bin/ak-ceilings" -o "$WORK/ceilings.json" && exec cat "$WORK/ceilings.json"
    exit
fi

# ---- the run's folder ----

name=$("$built/bin/ak-import" --run-name ${INPUT:+--input "$INPUT"} ${DTYPE:+--dtype "$DTYPE"} -- "$MODEL") || exit
run=$WORK/$name
# To look on needs no lock.
if [ "$*" = status ]; then
    [ -e "$run/.extract" ] || fail 3 "there is nothing in '$run' yet: make extract MODEL='$MODEL'"
    exec "$built/bin/ak-rank" status --env "$built/kernel.env" "$run"
elif [ "$*" = next ] && [ -e "$run/.extract" ]; then
    exec "$built/bin/ak-rank" next --env "$built/kernel.env" --top "$TOP" --budget "$BUDGET" "$run"
fi
why=$(mkdir -p "$run" 2>&1) || fail 5 "cannot make the folder '$run': ${why##*: }"
( : >>"$run/.lock" ) 2>/dev/null || fail 5 "cannot write in '$run'"
exec 9>>"$run/.lock"
tries=0
while ! flock -n 9; do
    owner=$(cat "$run/.owner" 2>/dev/null)
    if [ $tries -ge 50 ] || kill -0 "${owner%% *}" 2>/dev/null; then
        fail 5 "'$run' is in use by process ${owner:-of unknown number}: wait for it, stop it, or give WORK another folder"
    fi
    tries=$((tries + 1))
    sleep 0.2
done
# Who leaves its name behind failed or was killed, and what it was writing may lie about.
if [ -e "$run/.owner" ]; then
    find "$run" \( -name '.cc.*' -o -name 'cc??????.*' -o -name '*.tmp.[0-9]*' -o -name '*.new' \) -type f -exec rm -f {} +
fi
echo "$$ since $(date '+%H:%M:%S')" 2>/dev/null >"$run/.owner" || fail 5 "cannot write '$run/.owner': is the disk full?"

ln -sfn "$home" "$run/.root" && ln -sfn "$built" "$run/.build" || exit 5
model=$MODEL
case $MODEL in
*/*) model=$(readlink -f "$MODEL") ;;
*) [ -e "models/$MODEL.lua" ] || model=$(readlink -f "$MODEL") ;;
esac
# What was asked for, so that another file, or another age of it, is imported again.
asked="$model $(stat -Lc '%s %Y' "$MODEL" 2>/dev/null) input=$INPUT dtype=$DTYPE"
[ "$(cat "$run/.asked" 2>/dev/null)" = "$asked" ] || { echo "$asked" >"$run/.asked.new" && mv "$run/.asked.new" "$run/.asked"; } || exit 5

MODEL=$model
export MODEL RESULTS
for stage; do
    $TIE "$MAKE" --no-print-directory -C "$run" -f .root/stages/pipeline.mk "$stage" || exit
done
rm -f "$run/.owner"
