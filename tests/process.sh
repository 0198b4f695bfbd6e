# What tests of tools as processes share; they source it.
LC_ALL=C
ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0} # tools leave what they hold to their end
export LC_ALL ASAN_OPTIONS
bin=${BUILD:-build}/bin
models=${0%/*}/models
dir=$(mktemp -d) || exit 5
trap 'rm -rf "$dir"' EXIT
n=0
is() { # expected status, description, command...
    want=$1 what=$2
    shift 2
    "$@" >"$dir/out" 2>"$dir/log"
    got=$? n=$((n + 1))
    if [ $got = "$want" ]; then
        echo "ok $n - $what"
    else
        echo "not ok $n - $what (status $got, not $want)"
        sed 's/^/# /' "$dir/log"
    fi
}
says() { # text that the last command's messages must hold
    n=$((n + 1))
    if grep -q -- "$1" "$dir/log"; then echo "ok $n - it says '$1'"; else echo "not ok $n - it says '$1'"; sed 's/^/# /' "$dir/log"; fi
}
