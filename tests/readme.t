#!/bin/sh
# README.md, program.md and docs/ name only what there is, and the kernel type that docs/kernel-type.md adds works.
. "${0%/*}/process.sh"

unset MAKEFLAGS MAKELEVEL MFLAGS
mk() { make "BUILD=$dir/build" "$@"; } # make leaves a stamp of its flags where it builds
pages="README.md program.md docs/formats.md docs/kernel-type.md"
all() { # description, words of the pages, the words that there are: every one of the first is one of the second
    n=$((n + 1))
    missing=$(printf '%s\n' $2 | sort -u | grep -vxF -e "$(printf '%s\n' $3)")
    if [ "$2" ] && [ ! "$missing" ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; printf '# there is no %s\n' $missing; fi
}

goals=$(grep -ohE '(`|^ {4}(\$ )?)make( [a-z]+)+' $pages | sed 's/.*make //' | tr ' ' '\n')
all "every goal of make is one" "$goals" "$(mk -pqrR help 2>/dev/null | sed -n 's/^\([a-z]*\):.*/\1/p') deps"
all "every knob is one" "$(grep -ohE '\b[A-Z]{2,}=' $pages | tr -d =)" "$(sed -n 's/^KNOBS := //p' stages/run.mk)"
all "every knob is in make help" "$(sed -n 's/^KNOBS := //p' stages/run.mk)" "$(mk help | grep -oE '\b[A-Z]+\b') BUILD CC"
all "every tool is one" "$(grep -ohE '\bak-(bench|ceil|check|extr|imp|jud|prof|prop|rank|rep|ver|exp)[a-z]*' $pages)" "$(ls "$bin")"
all "every file that is named is there" "$(grep -ohE '\b(rules|models|kernels|tools|tests|docs|reference)/[a-z0-9_/.-]*[a-z0-9_]' $pages | grep -vE '^(kernels/c/max_pool\.c|models/mine\.lua)$')" \
    "$(ls -d rules reference tools kernels models tests docs */* */*/* | sort)"
all "every model is one" "$(grep -ohE 'MODEL=[a-z0-9-]+( |`|$)' $pages | sed 's/MODEL=//; s/[` ]//' | grep -vx mine)" "$(ls models | sed 's/\.lua$//')"

is 0 "the tools compose" sh -c '"$1/ak-import" gpt2-mini | "$1/ak-profile" -n 3 - | "$1/ak-rank" plan - >"$2"' - "$bin" "$dir/plan.json"
is 0 "and print a plan" grep -q '"format":"ak-plan"' "$dir/plan.json"
is 0 "a model is checked against PyTorch's outputs" \
    sh -c '"$1/ak-import" -q tests/models/mlp_dynamic.pt2 | "$1/ak-verify" --expect tests/models/mlp_dynamic.safetensors -' - "$bin"

# ---- docs/kernel-type.md ----

part() { sed -n "/^\`\`\`[a-z]* $1\$/,/^\`\`\`\$/{/^\`\`\`/!p}" docs/kernel-type.md; }
mkdir "$dir/kernels" && cp -R rules "$dir/rules" || exit 5
for name in kernels.lua classify.lua max_pool.c; do part $name >"$dir/$name"; done
awk -v add="$dir/kernels.lua" '/^types.softmax = /{while ((getline line < add) > 0) print line} {print}' rules/kernels.lua >"$dir/rules/kernels.lua"
sed "/^local patterns = {/r $dir/classify.lua" rules/classify.lua >"$dir/rules/classify.lua"
mv "$dir/max_pool.c" "$dir/kernels"
is 0 "a model with max pools is profiled by its entry and pattern" sh -c '"$1/ak-import" -q -o "$2/graph.json" tests/models/squeezenet1_1.pt2 &&
    "$1/ak-profile" -q -n 3 --classify "$2/rules/classify.lua" --kernels "$2/rules/kernels.lua" -o "$2/profile.jsonl" "$2/graph.json"' - "$bin" "$dir"
is 0 "planned" "$bin/ak-rank" plan --rank "$dir/rules/rank.lua" -o "$dir/plan.json" "$dir/profile.jsonl"
is 0 "and extracted" "$bin/ak-extract" -q --kernels "$dir/rules/kernels.lua" --starters "$dir/kernels" -g "$dir/graph.json" -o "$dir/specs" "$dir/plan.json"
flags=$(sed -n 's/^KFLAGS *:= //p' Makefile)
is 0 "its starter compiles without a warning" ${CC:-cc} $flags -Wall -Wextra -Werror -o "$dir/max_pool.so" "$dir/kernels/max_pool.c" -lm
for spec in "$dir"/specs/max-pool-*; do is 0 "and is right for ${spec##*/}" "$bin/ak-check" -q "$spec" "$dir/max_pool.so"; done
sed '1s/types /&max_pool /; s/strcmp(call->type, "aten.max_pool2d.default") == 0/strstr(call->type, "max_pool") != NULL/' kernels/vendor/pool.c >"$dir/pool.c"
is 0 "its opponent compiles" ${CC:-cc} $flags -o "$dir/pool.so" "$dir/pool.c" -lm
for spec in "$dir"/specs/max-pool-*; do is 0 "and is right for ${spec##*/}" "$bin/ak-check" -q "$spec" "$dir/pool.so"; done
is 0 "its first line names the type" grep -q '^/\* ak: types max_pool ' "$dir/pool.c"
echo "1..$n"
