#!/bin/sh
# ak-verify as a process: recorded models in both backends, and what must not match.
. "${0%/*}/process.sh"

for pt2 in "$models"/*.pt2; do
    name=$(basename "$pt2" .pt2)
    "$bin/ak-import" -q -o "$dir/$name.json" "$pt2" || echo "# cannot import $pt2"
    for backend in reference vendor; do
        is 0 "$name agrees with PyTorch's outputs ($backend)" \
            "$bin/ak-verify" "$dir/$name.json" --expect "$models/$name.safetensors" --backend $backend
    done
done

g=$dir/mlp_dynamic.json
good=$models/mlp_dynamic.safetensors
is 0 "a graph from standard input" sh -c "'$bin/ak-verify' --expect '$good' - < '$g'"
is 0 "the result goes to a file" "$bin/ak-verify" -q --expect "$good" -o "$dir/v.json" "$g"
is 0 "which says match" grep -q '"match":.*true' "$dir/v.json"

# The last four bytes of the file are an element of output.0.
size=$(wc -c <"$good")
alter() {
    cp "$good" "$dir/bad.safetensors"
    chmod u+w "$dir/bad.safetensors"
    printf "$1" | dd of="$dir/bad.safetensors" bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
}
alter '\000\000\310\102' # 100
is 1 "another number is no match" "$bin/ak-verify" --expect "$dir/bad.safetensors" "$g"
says DIFFERS
alter '\000\000\300\177' # NaN
is 1 "a NaN is no match" "$bin/ak-verify" --expect "$dir/bad.safetensors" "$g"
alter '\000\000\200\177' # infinity
is 1 "an infinity is no match" "$bin/ak-verify" --expect "$dir/bad.safetensors" "$g"
sed 's/output\.0/output.1/' "$good" >"$dir/bad.safetensors"
is 3 "a missing output is an error" "$bin/ak-verify" --expect "$dir/bad.safetensors" "$g"
says "has no 'output.0'"
sed 's/input\.0/input.1/' "$good" >"$dir/bad.safetensors"
is 3 "a missing input is an error" "$bin/ak-verify" --expect "$dir/bad.safetensors" "$g"
is 3 "another model's inputs are an error" "$bin/ak-verify" --expect "$models/squeezenet1_1.safetensors" "$g"
is 3 "a file that is not there is an error" "$bin/ak-verify" --expect "$dir/none" "$g"
is 2 "neither --expect nor --plan is misuse" "$bin/ak-verify" "$g"
is 2 "a backend that is not there is misuse" "$bin/ak-verify" --expect "$good" --backend gpu "$g"
is 4 "vendor kernels that were not built are said so" "$bin/ak-verify" --expect "$good" --backend vendor --vendor "$dir" "$g"
says "make kernels"
echo '{"format": "ak-profile", "version": 1}' >"$dir/plan.json"
is 3 "a plan of another format is an error" "$bin/ak-verify" --plan "$dir/plan.json" "$g"
says "ak-rank plan"
printf '{"format": "ak-plan", "version": 1, "specs": []}' >"$dir/plan.json"
is 1 "no kept kernel is no match" "$bin/ak-verify" --plan "$dir/plan.json" --runs 1 -o "$dir/v.json" "$g"
says "0 call sites replaced"
echo "1..$n"
