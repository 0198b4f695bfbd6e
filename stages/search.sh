#!/bin/sh
# search.sh search|trial|next - experiments, in a run's folder; pipeline.mk calls it.
#
# A round is a list of candidates on disk. Whoever comes next finishes the round that a kill left
# half judged: nothing here is remembered but in files.
bin=.build/bin env=.build/kernel.env

record() { # what is known; builds an incumbent whose library is gone, and records again
    "$bin/ak-rank" record --env "$env" --results "$RESULTS" . >.rebuild || exit
    [ -s .rebuild ] || return 0
    while read -r _ dir hash; do
        $TIE "$MAKE" --no-print-directory -C "$dir" -f ../../.root/stages/search.mk "trials/$hash/kernel.so" || exit 5
    done <.rebuild
    "$bin/ak-rank" record --env "$env" --results "$RESULTS" . >.rebuild || exit
}

judge() { # SPEC ROUND, and how long that took, in milliseconds: what the budget counts
    case " $MAKEFLAGS " in *" -j"*) j= ;; *) j=-j$JOBS ;; esac
    took=specs/$1/rounds/$2.ms
    start=$(date +%s%3N)
    $TIE "$MAKE" --no-print-directory $j -C "specs/$1" -f ../../.root/stages/search.mk "ROUND=$2" judge || exit 5
    echo $(($(cat "$took" 2>/dev/null || echo 0) + $(date +%s%3N) - start)) >"$took.new" && mv "$took.new" "$took" || exit 5
}

next() { "$bin/ak-rank" next --env "$env" --top "$TOP" --budget "$BUDGET" "$@" .; }

search() {
    tab=$(printf '\t')
    while :; do
        line=$(next --batch)
        case $? in
        0) ;;
        1) return 0 ;;
        *) exit ;;
        esac
        spec=${line%%"$tab"*}
        batch=${line##*"$tab"} line=${line%"$tab"*}
        round=$("$bin/ak-propose" --env "$env" --batch "$batch" "specs/$spec")
        case $? in
        0) echo "search: $spec: ${line#*"$tab"}" >&2; judge "$spec" "${round% *}"; record ;;
        1) ;;
        *) exit ;;
        esac
    done
}

# One experiment by hand. The first answer names the text as its author left it: before that come
# the round that a killed search left, and the starter if it was never measured.
trial() {
    spec=$("$bin/ak-rank" find --spec "$KERNEL" .) || exit
    edited= judged=
    while :; do
        round=$("$bin/ak-propose" --env "$env" --hand --note "$NOTE" "specs/$spec")
        case $? in
        0) ;;
        1) break ;;
        *) exit ;;
        esac
        edited=${edited:-${round#* }} judged=yes
        judge "$spec" "${round% *}"
        record
    done
    [ "$judged" ] || { echo "make: specs/$spec/kernel.c is known already" >&2; record; }
    exec "$bin/ak-rank" verdict --env "$env" --spec "$spec" --trial "${edited:-${round#* }}" .
}

case $1 in
search) record; search ;;
trial) trial ;;
next) next ;;
esac
