#!/bin/sh
# run.sh TARGET SECONDS [libFuzzer's options]: fuzzes a reader (zip, pt2, safetensors, graph) with
# clang's libFuzzer, ASan and UBSan. Finds go to build-fuzz/finds/, the corpus it builds stays in build-fuzz/corpus/.
cd "$(dirname "$0")/../.." || exit
[ $# -ge 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
target=$1 seconds=$2
shift 2
command -v clang >/dev/null || { echo "run.sh: clang is not installed" >&2; exit 4; }
mkdir -p build-fuzz/obj build-fuzz/corpus/"$target" build-fuzz/finds
san="-std=c11 -g -O1 -w -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
inc="-D_GNU_SOURCE -Ikernels -Ireference -Itools/lib -Itools/import $(pkg-config --cflags libcjson lua5.4)"
for c in tools/lib/*.c tools/import/*.c reference/*.c; do
    o=build-fuzz/obj/$(echo "$c" | tr / _).o
    [ "$o" -nt "$c" ] || echo "$c $o"
done | xargs -r -P "$(nproc)" -n 2 sh -c "clang $san $inc -fsanitize=fuzzer-no-link -c -o \"\$1\" \"\$0\"" || exit
rm -f build-fuzz/lib.a && ar rcs build-fuzz/lib.a build-fuzz/obj/*.o || exit
# shellcheck disable=SC2086,SC2046
clang $san $inc -DFUZZ_MUTATE -fsanitize=fuzzer -o build-fuzz/"$target" tests/fuzz/fuzz_"$target".c build-fuzz/lib.a \
    $(pkg-config --libs libcjson lua5.4 zlib) -lm -ldl -lpthread || exit
exec nice build-fuzz/"$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -artifact_prefix=build-fuzz/finds/"$target"- \
    "$@" build-fuzz/corpus/"$target" tests/fuzz/corpus/"$target"
