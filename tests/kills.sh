#!/bin/sh
# kills.sh [COUNT [WORK]] - SIGKILL at random moments of make optimize: make, a shell of a recipe, the
# judge, its worker, the compiler, anything; or Ctrl-C, or SIGTERM for make
#
# After each nothing goes on running; then the run goes to its end, with every file whole, no finished
# trial made again, no row of the log lost or doubled, and an incumbent that is what it says. A search
# that comes to its end begins anew, until COUNT kills have hit. WORK keeps what it holds
# (ceilings.json spares measuring the machine).
LC_ALL=C
export LC_ALL
count=${1:-50} work=$2 model=tests/models/tiny.lua
[ "$work" ] || { work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT; } || exit 5
tmp=$(mktemp -d) || exit 5
run=$work/tiny/cpu-f32-16x512
mkdir -p "$work" || exit 5
random() { od -An -N2 -tu2 /dev/urandom | tr -d ' '; }
facts() { find "$run" -name facts.json -exec cksum {} + 2>/dev/null | sort; }
# Of one session; zombies that nobody has looked at are dead.
of_session() { ps -s "$1" -o pid=,stat= | awk '$2 !~ /^Z/ {print $1}'; }
optimize() { make --no-print-directory optimize "MODEL=$model" "WORK=$work" "BUDGET=$1" TOP=2 >"$tmp/log" 2>&1; }
wrong() { # COUNTER DESCRIPTION
    eval "$1=\$(($1 + 1))"
    echo "# $2"
    sed 's/^/#     /' "$tmp/log" | tail -n 20
}
orphans=0 torn=0 again=0 ends=0 rounds=0 rows=0 left=0 best=0 idle=0 finished=0

# The last facts are those of $tmp/known, or more.
nothing_lost() {
    facts >"$tmp/now"
    comm -23 "$tmp/known" "$tmp/now" | grep . && wrong again "facts were lost or made again"
    mv "$tmp/now" "$tmp/known"
}

to_the_end() {
    finished=$((finished + 1))
    optimize 1 || wrong ends "the run does not go on to its end"
    nothing_lost
    awk 'FNR > 1' "$run"/specs/*/rounds/* | sort | uniq -d | grep . && wrong rounds "a trial is in two rounds"
    awk -F '\t' 'NR > 1 {print $18}' "$run/results.tsv" | sort >"$tmp/rows"
    find "$run" -name facts.json | sed 's,/facts.json$,,; s,.*/,,' | sort | cmp - "$tmp/rows" || wrong rows "the log is not of the experiments"
    find "$run" -name '.cc.*' -o -name 'cc??????.*' -o -name '*.tmp.*' -o -name '*.new' -o -name .owner | grep . && wrong left "something half-written lies about"
    for hash in "$run"/specs/*/best.hash; do
        d=${hash%/*} h=$(cat "$hash")
        kept=$(awk -F '\t' -v s="${d##*/}" '$2 == s && ($17 == "keep" || $17 == "start") {h = $18} END {print h}' "$run/results.tsv")
        [ "$kept" = "$h" ] && grep -q '"verdict":.*"pass"' "$d/trials/$h/facts.json" && cmp "$d/best.so" "$d/trials/$h/kernel.so" ||
            wrong best "$d: the log's last kept is $kept, best.hash $h"
    done
    cp "$run/results.tsv" "$tmp/rows"
    optimize 1 && cmp "$run/results.tsv" "$tmp/rows" || wrong idle "once more does something"
}

i=0
: >"$tmp/known"
while [ $i -lt "$count" ]; do
    i=$((i + 1))
    signal=KILL
    case $((i % 8)) in
    0) what=^make ;; 1) what='^(/bin/)?sh ' ;; 2) what='^[^ ]*/ak-judge ' ;; 3) what='^[^ ]*/cc1 ' ;; 4) what=^ak-worker ;; 5) what=. ;;
    6) signal=INT ;; 7) signal=TERM ;;
    esac
    # Mostly it searches; at times it verifies, or profiles.
    budget=600
    [ $((i % 5)) != 4 ] || { budget=1; rm -f "$run/verify.json"; }
    [ $((i % 10)) != 7 ] || rm -f "$run/.profile"
    setsid env --default-signal=INT make --no-print-directory optimize "MODEL=$model" "WORK=$work" BUDGET=$budget TOP=2 >"$tmp/log" 2>&1 &
    session=$!
    sleep "$(($(random) % 2)).$(($(random) % 900 + 100))"
    victim=
    looks=0
    while [ $signal = KILL ] && [ -z "$victim" ]; do
        looks=$((looks + 1))
        victim=$(pgrep -f -s $session "$what" | shuf -n 1)
        [ $((looks % 20)) != 0 ] || [ "$(of_session $session)" ] || break
    done
    if [ "$victim" ]; then
        kill -9 "$victim" 2>/dev/null && echo "$what" | sed 's,.*/,,; s,[^a-z1-],,g; s,^$,any,' >>"$tmp/killed"
        sleep 0.2
    fi
    # A killed worker or compiler need not end the search: then make goes, too.
    over=
    [ "$victim$(of_session $session)" ] || over=yes
    case $over$signal in
    KILL) kill -9 $session ;;
    INT) kill -INT -$session && echo "Ctrl-C" >>"$tmp/killed" ;;
    TERM) kill -TERM $session && echo "TERM" >>"$tmp/killed" ;;
    esac 2>/dev/null
    wait $session 2>/dev/null
    tries=0
    while [ "$(of_session $session)" ] && [ $tries -lt 30 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    [ -z "$(of_session $session)" ] || wrong orphans "still running: $(ps -s $session -o pid=,args=)"
    for f in $(find "$run" -name facts.json -o -name verify.json -o -name plan.json -o -name graph.json 2>/dev/null); do
        case $(tail -c 2 "$f") in *[]}]) ;; *) wrong torn "'$f' is torn" ;; esac
    done
    nothing_lost
    if [ "$over" ]; then
        to_the_end
        rm -rf "$run/specs" "$run/.extract"
        : >"$tmp/known"
        i=$((i - 1))
        [ $finished -lt $((count + 3)) ] || break
    fi
done
to_the_end

n=0 bad=0
tap() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else bad=1 && echo "not ok $n - $2"; fi; }
echo "# killed:$(sort "$tmp/killed" | uniq -c | awk 'NF > 1 {printf " %s %s", $1, $2}')"
tap $orphans "$i kills, and nothing goes on running"
tap $torn "no file is torn"
tap $again "no facts are lost or made again"
tap $ends "the run goes on to its end ($finished times)"
tap $rounds "no trial is in two rounds"
tap $rows "the log has one row for each experiment"
tap $left "nothing half-written lies about"
tap $best "incumbents are what they say"
tap $idle "once more does nothing"
echo "1..$n"
rm -rf "$tmp"
[ $bad = 0 ]
