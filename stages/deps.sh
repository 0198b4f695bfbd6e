#!/bin/sh
# deps.sh [--missing] - installs what is missing, on Debian and Ubuntu, as root; else says what that is.
# With --missing it only prints the packages without which nothing builds.
for pair in make:make pkg-config:pkg-config flock:util-linux setpriv:util-linux cmp:diffutils awk:mawk ar:binutils; do
    command -v "${pair%%:*}" >/dev/null || packages="$packages ${pair##*:}"
done
if ! pkg-config --exists lua5.4 libcjson zlib openblas 2>/dev/null; then
    for pair in lua5.4:liblua5.4-dev libcjson:libcjson-dev zlib:zlib1g-dev openblas:libopenblas-openmp-dev; do
        pkg-config --exists "${pair%%:*}" 2>/dev/null || packages="$packages ${pair##*:}"
    done
fi
[ -e /usr/include/dlpack/dlpack.h ] || packages="$packages libdlpack-dev"
[ -e /usr/include/stdio.h ] || packages="$packages libc6-dev"
[ "$1" = --missing ] && { echo $packages; exit 0; }

for pair in gcc:gcc prove:perl gnuplot:gnuplot-nox; do
    command -v "${pair%%:*}" >/dev/null || packages="$packages ${pair##*:}"
done
[ -n "$packages" ] || exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing$packages" >&2
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages; } >/dev/null && exit 0
    echo "make: apt-get could not install$packages" >&2
    exit 4
fi
echo "make: these packages are missing:$packages" >&2
echo "run as root on Debian or Ubuntu: apt-get install$packages" >&2
exit 4
