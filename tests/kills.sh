#!/bin/sh
# kills.sh [COUNT [WORK]] - SIGKILL at random moments of make optimize: make, a shell of a recipe, the
# judge, its worker, the compiler, anything; or Ctrl-C, or SIGTERM for make
#
# After each nothing goes on running; after all of them the run goes to its end, with every file whole,
# no finished trial made again, no row of the log lost or doubled, and an incumbent that is what it
# says. WORK keeps what it holds (ceilings.json spares measuring the machine).
LC_ALL=C
export LC_ALL
count=${1:-50} work=$2 model=tests/models/tiny.lua
[ "$work" ] || { work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT; } || exit 5
run=$work/tiny/cpu-f32-16x512
mkdir -p "$work" || exit 5
n=0 bad=0 killed=
ok() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else bad=1; echo "not ok $n - $2"; fi; }
random() { od -An -N2 -tu2 /dev/urandom | tr -d ' '; }
optimize() { make --no-print-directory optimize "MODEL=$model" "WORK=$work" BUDGET="$1" TOP=2; }
facts() { find "$run" -name facts.json -exec cksum {} + 2>/dev/null | sort; }
# Of one session, by name or all; zombies that nobody has looked at are dead.
of_session() { ps -s "$1" -o pid=,stat=,comm= | awk -v want="$2" '$2 !~ /^Z/ && (want == "" || $3 ~ want) {print $1}'; }
known=$(mktemp) && missing=$(mktemp) || exit 5

i=0 orphans=0 torn=0 again=0
while [ $i -lt "$count" ]; do
    i=$((i + 1))
    # What to kill where it is found in the moment; a worker is called as its judge.
    signal=KILL
    case $((i % 8)) in
    0) what=^make ;; 1) what=^sh\$ ;; 2) what=^ak-judge ;; 3) what=^cc1 ;; 4) what=^exe\$ ;; 5) what= ;; 6) signal=INT ;; 7) signal=TERM ;;
    esac
    # Mostly it searches; at times it verifies, or profiles.
    budget=600
    [ $((i % 5)) != 4 ] || { budget=1; rm -f "$run/verify.json"; }
    [ $((i % 10)) != 7 ] || rm -f "$run/.profile"
    setsid env --default-signal=INT sh -c 'exec make --no-print-directory optimize "$@"' - "MODEL=$model" "WORK=$work" BUDGET=$budget TOP=2 >"$known.log" 2>&1 &
    session=$!
    sleep "$(($(random) % 3)).$(($(random) % 900 + 100))"
    tries=0 victims=
    while [ $signal = KILL ] && [ $tries -lt 20 ]; do
        victims=$(of_session $session "$what")
        [ -z "$victims" ] || break
        tries=$((tries + 1))
        sleep 0.05
    done
    if [ "$victims" ]; then
        victim=$(echo "$victims" | awk -v r="$(random)" '{p[NR] = $1} END {print p[r % NR + 1]}')
        killed="$killed $(ps -p "$victim" -o comm= 2>/dev/null)"
        kill -9 "$victim" 2>/dev/null
        sleep 0.2
    fi
    case $signal in
    KILL) kill -9 $session 2>/dev/null ;; # a killed worker or compiler need not end the search: then make goes, too
    INT) kill -INT -$session && killed="$killed INT" ;;
    TERM) kill -TERM $session && killed="$killed TERM" ;;
    esac 2>/dev/null
    wait $session 2>/dev/null
    tries=0
    while [ "$(of_session $session '')" ] && [ $tries -lt 30 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    if [ "$(of_session $session '')" ]; then
        orphans=$((orphans + 1))
        ps -s $session -o pid=,args= | sed 's/^/# still running: /'
    fi
    for f in $(find "$run" -name facts.json -o -name verify.json -o -name plan.json -o -name graph.json 2>/dev/null); do
        case $(tail -c 2 "$f") in *[]}]) ;; *) torn=$((torn + 1)); echo "# torn: $f" ;; esac
    done
    facts >"$missing"
    comm -23 "$known" "$missing" | grep -q . && again=$((again + 1))
    mv "$missing" "$known"
done
echo "# killed:$(echo "$killed" | tr ' ' '\n' | sort | uniq -c | awk 'NF > 1 {printf " %s %s", $1, $2}')"
ok $orphans "$count kills, and nothing goes on running"
ok $torn "no file is torn"
ok $again "no facts were lost or made again"

optimize 1 >"$known.log" 2>&1
ok $? "the run goes on to its end"
[ $bad = 0 ] || sed 's/^/# /' "$known.log"
facts >"$missing"
comm -23 "$known" "$missing" | grep -q .
ok $((! $?)) "what was known stays as it was"
awk 'FNR > 1' "$run"/specs/*/rounds/* | sort | uniq -d | grep -q .
ok $((! $?)) "no trial is in two rounds"
awk -F '\t' 'NR > 1 {print $18}' "$run/results.tsv" | sort >"$known.rows"
find "$run" -name facts.json | sed 's,/facts.json$,,; s,.*/,,' | sort | cmp -s - "$known.rows"
ok $? "the log has one row for each experiment"
find "$run" -name '.cc.*' -o -name '*.tmp.*' -o -name '*.new' -o -name .owner | grep .
ok $((! $?)) "nothing half-written lies about"
wrong=0
for best in "$run"/specs/*/best.hash; do
    dir=${best%/*} hash=$(cat "$best")
    grep -q '"verdict":.*"pass"' "$dir/trials/$hash/facts.json" || wrong=1
    cmp -s "$dir/best.so" "$dir/trials/$hash/kernel.so" || wrong=1
    decided=$(awk -F '\t' -v s="${dir##*/}" '$2 == s && ($17 == "keep" || $17 == "start") {h = $18} END {print h}' "$run/results.tsv")
    [ "$decided" = "$hash" ] || { wrong=1; echo "# $dir: the log's last kept is $decided, best.hash $hash"; }
done
ok $wrong "incumbents are what they say"
cp "$run/results.tsv" "$known.rows"
optimize 1 >"$known.log" 2>&1 && cmp -s "$run/results.tsv" "$known.rows"
ok $? "once more does nothing"
echo "1..$n"
rm -f "$known" "$known".* "$missing"
[ $bad = 0 ]
