#!/bin/sh
# run.sh STAGE... - make stages of a run, one after the other, in the run's folder and as the only
# one that works there. Knobs come in the environment: MODEL INPUT DTYPE DEVICE WORK BUILD ...
#
# The lock is a descriptor that every child inherits: it is free again when the last of them has
# ended, whatever killed the first. Children of a killed run get a few seconds to notice.
fail() { code=$1; shift; echo "make: $*" >&2; exit "$code"; }

[ -n "$MODEL" ] || fail 2 "MODEL is wanted, such as make $1 MODEL=llama-mini; make help lists what there is"
home=$PWD
mkdir -p "$WORK" && AK_WORK=$(cd "$WORK" && pwd) || fail 5 "cannot make the folder '$WORK'"
set -- "$@"
IMPORT="${INPUT:+--input $INPUT} ${DTYPE:+--dtype $DTYPE}"
# shellcheck disable=SC2086
name=$("$BUILD/bin/ak-import" --run-name $IMPORT "$MODEL") || exit
run=$AK_WORK/$name
mkdir -p "$run" 2>/dev/null || fail 5 "cannot make the folder '$run'"
ln -sfn "$home" "$run/.root" || exit 5
case $MODEL in
    */* | *.pt2 | *.lua) AK_MODEL=$(readlink -f "$MODEL"); ln -sfn "$AK_MODEL" "$run/.model" || exit 5 ;;
    *) AK_MODEL=$MODEL ;;
esac

exec 9>>"$run/.lock" || exit 5
tries=0
while ! flock -n 9; do
    owner=$(cat "$run/.lock.owner" 2>/dev/null)
    if kill -0 "${owner%% *}" 2>/dev/null || [ $tries -ge 50 ]; then
        fail 5 "'$run' is in use by process ${owner:-of unknown number}: wait for it, stop it, or give WORK another folder"
    fi
    tries=$((tries + 1))
    sleep 0.2
done
echo "$$ since $(date '+%H:%M:%S')" > "$run/.lock.owner"

export AK_WORK AK_HOME="$home" AK_MODEL IMPORT RESULTS="${RESULTS:-results.tsv}"
for stage; do
    ${MAKE:-make} --no-print-directory -C "$run" -f .root/stages/pipeline.mk "$stage" || exit
done
