#!/bin/sh
# deps.sh - installs what is missing, on Debian and Ubuntu, as root; else says what that is.
wanted="gcc:gcc make:make pkg-config:pkg-config prove:perl gnuplot:gnuplot-nox flock:util-linux cmp:diffutils"
packages=
for w in $wanted; do
    command -v "${w%%:*}" >/dev/null || packages="$packages ${w##*:}"
done
if command -v pkg-config >/dev/null; then
    pkg-config --exists lua5.4 || packages="$packages liblua5.4-dev"
    pkg-config --exists libcjson || packages="$packages libcjson-dev"
    pkg-config --exists zlib || packages="$packages zlib1g-dev"
    pkg-config --exists openblas || packages="$packages libopenblas-openmp-dev"
else
    packages="$packages liblua5.4-dev libcjson-dev zlib1g-dev libopenblas-openmp-dev"
fi
[ -e /usr/include/dlpack/dlpack.h ] || packages="$packages libdlpack-dev"
[ -e /usr/include/stdio.h ] || packages="$packages libc6-dev"
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
