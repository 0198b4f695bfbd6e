#!/bin/sh
# judge_kills.sh [--tries N] SPECDIR KERNEL.so - SIGKILL at random moments: the judge, or its worker
#
# A killed judge leaves no record or a whole one, and no process. A killed worker is no verdict: the
# trial is made again.
tries=20
[ "$1" = --tries ] && { tries=$2; shift 2; }
[ $# = 2 ] || { echo "usage: judge_kills.sh [--tries N] SPECDIR KERNEL.so" >&2; exit 2; }
bin=${BUILD:-build}/bin
dir=$(mktemp -d) || exit 5
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/trials/one" && cp "$1/spec.json" "$dir" && cp "$2" "$dir/trials/one/kernel.so" || exit 5
bad=0 i=0 hits=0
fail() { bad=$((bad + 1)); echo "# $*"; }
# A zombie that its new parent has not looked at yet is dead.
alive() { [ -r "/proc/$1/stat" ] && ! grep -q ') [ZX] ' "/proc/$1/stat" 2>/dev/null; }
while [ $i -lt "$tries" ]; do
    i=$((i + 1))
    rm -f "$dir/facts.json"
    "$bin/ak-judge" -q -o "$dir/facts.json" "$dir" "$dir/trials/one/kernel.so" 2>"$dir/log" &
    judge=$!
    sleep "0.$(od -An -N1 -tu1 /dev/urandom | awk '{printf "%03d", $1 / 2}')"
    worker=$(pgrep -P $judge)
    if [ $((i % 2)) = 0 ]; then
        kill -9 $judge 2>/dev/null
        wait $judge 2>/dev/null
    else
        [ -n "$worker" ] && kill -9 $worker 2>/dev/null && hits=$((hits + 1))
        wait $judge || fail "try $i: the judge ended with $? after its worker was killed: $(cat "$dir/log")"
        grep -q '"verdict":.*"pass"' "$dir/facts.json" || fail "try $i: a killed worker became a verdict"
    fi
    [ ! -e "$dir/facts.json" ] || tail -n1 "$dir/facts.json" | grep -q '^}' || fail "try $i: half a record"
    sleep 0.1
    [ -z "$worker" ] || ! alive $worker || fail "try $i: worker $worker lives on"
done
[ $bad = 0 ] && echo "ok 1 - $tries kills, $hits of them of a worker" || echo "not ok 1 - $bad of $tries kills went wrong"
echo 1..1
[ $bad = 0 ]
