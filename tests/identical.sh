#!/bin/sh
# identical.sh [--tries N] SPECDIR KERNEL.so - how often is a kernel kept against itself?
#
# The same library under two names is judged as a search would, and counted as kept where decide.lua
# would keep it: the low ends of both intervals at least 1.01. At most 1 of 200 may be.
# (BUILD says where the tools are; best.so of a copy of the spec's folder is the incumbent.)
tries=100
while [ $# -gt 2 ]; do
    case $1 in
    --tries) tries=$2; shift 2 ;;
    *) echo "usage: identical.sh [--tries N] SPECDIR KERNEL.so" >&2; exit 2 ;;
    esac
done
[ $# = 2 ] || { echo "usage: identical.sh [--tries N] SPECDIR KERNEL.so" >&2; exit 2; }
bin=${BUILD:-build}/bin
dir=$(mktemp -d) || exit 5
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/trials/same" && cp "$1/spec.json" "$dir" && cp "$2" "$dir/best.so" && cp "$2" "$dir/trials/same/kernel.so" || exit 5
echo incumbent > "$dir/best.hash"
i=0
while [ $i -lt "$tries" ]; do
    i=$((i + 1))
    "$bin/ak-judge" -q ${LOCK:+--lock "$LOCK"} -o "$dir/$i.json" "$dir" "$dir/trials/same/kernel.so" || exit
done
grep -h "\"why\":" "$dir"/[0-9]*.json | grep -v "\"\"" | sort | uniq -c >&2
cat "$dir"/[0-9]*.json | awk '
    /"verdict":/ { total++; pass += /"pass"/; again = 0 }
    /"again":/ { again = 1 }
    /"vs_incumbent":/ { ours = 1 }
    /"vs_opponent":/ { ours = 0 }
    /"speedup":/ && ours && !again { v = $2 + 0; far = far > (v > 1 ? v - 1 : 1 - v) ? far : (v > 1 ? v - 1 : 1 - v) }
    /"low":/ && ours { low = $2 + 0; if (!again) { once += low >= 1.01; above += low > 1; first = low } else kept += first >= 1.01 && low >= 1.01 }
    /"high":/ && ours && !again { below += $2 + 0 < 1 }
    END { printf "%d tries, %d pass; interval above 1: %d, below 1: %d; low >= 1.01: %d, and again: %d; farthest median %.4f\n", total, pass, above, below, once, kept, far
          exit total == 0 || pass < total || kept * 200 > total }'
