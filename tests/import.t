#!/bin/sh
# ak-import as a process: which models it takes, what it says of those it does not, what it leaves behind.
. "${0%/*}/process.sh"

holds() { # text that the last command's output must hold
    n=$((n + 1))
    if grep -q -- "$1" "$dir/out"; then echo "ok $n - it holds '$1'"; else echo "not ok $n - it holds '$1'"; head -c 300 "$dir/out" | sed 's/^/# /'; fi
}

is 0 "--help" "$bin/ak-import" --help
holds "usage: ak-import"
is 0 "--version" "$bin/ak-import" --version
is 2 "no model" "$bin/ak-import"
says "llama-mini"
is 2 "two models" "$bin/ak-import" gpt2 bert
is 2 "an unknown option" "$bin/ak-import" --inputs 1 gpt2
is 3 "a name that is no model" "$bin/ak-import" lama-mini
says "there is no model 'lama-mini'"
says "llama-mini, llama7b"
is 3 "a file that is not there" "$bin/ak-import" "$dir/none.pt2"
says "none.pt2' (no such file)"

is 0 "a model in Lua by name" "$bin/ak-import" llama-mini
holds '"format":"ak-graph"'
says "llama-mini: "
is 0 "quiet" "$bin/ak-import" -q llama-mini
[ -s "$dir/log" ] && echo "# it is not quiet"
is 0 "with a shape" "$bin/ak-import" --input 2,16 gpt2-mini
says "\[2,16\]"
is 0 "the folder of its run" "$bin/ak-import" --run-name llama-mini
holds "llama-mini/cpu-f32-1x128"
is 0 "the folder of a bf16 program's run" "$bin/ak-import" --run-name "$models/hf_llama_tiny_bf16.pt2"
holds "hf_llama_tiny_bf16/cpu-bf16-2x48"

mkdir "$dir/a b"
cp "$models/mlp_dynamic.pt2" "$dir/a b/it's.pt2"
is 0 "a path with spaces, to a file" "$bin/ak-import" -o "$dir/a b/g.json" "$dir/a b/it's.pt2"
is 0 "whose weights are found from elsewhere" sh -c 'b=$(cd "$1" && pwd); cd / && "$b/ak-verify" -q --expect "$2/mlp_dynamic.safetensors" "$3"' - "$bin" "$(cd "$models" && pwd)" "$dir/a b/g.json"
is 0 "another size of a dynamic dimension" "$bin/ak-import" --input 9,32 "$models/mlp_dynamic.pt2"
says "f32\[9,32\]"
is 0 "by the input's name" "$bin/ak-import" --input x=7,32 "$models/mlp_dynamic.pt2"
says "f32\[7,32\]"
is 3 "a size that is out of range" "$bin/ak-import" --input 5000,32 "$models/mlp_dynamic.pt2"
says "range 1 to 4096"
is 3 "a dimension that is fixed" "$bin/ak-import" --input 1,48 "$models/hf_llama_tiny.pt2"
says "fixes dimension 0 to 2"
is 2 "another rank" "$bin/ak-import" --input 9 "$models/mlp_dynamic.pt2"
is 2 "more inputs than there are" "$bin/ak-import" --input '9,32;9,32' "$models/mlp_dynamic.pt2"
is 2 "no shape" "$bin/ak-import" --input 9x32 "$models/mlp_dynamic.pt2"
is 2 "an input of another name" "$bin/ak-import" --input y=9,32 "$models/mlp_dynamic.pt2"
says "no input 'y'"
is 0 "the dtype it has" "$bin/ak-import" --dtype bf16 "$models/hf_llama_tiny_bf16.pt2"
is 3 "another dtype" "$bin/ak-import" --dtype f16 "$models/hf_llama_tiny.pt2"
says "is f32, not f16"
is 2 "no dtype" "$bin/ak-import" --dtype f31 "$models/hf_llama_tiny.pt2"

is 3 "a folder" "$bin/ak-import" "$models"
says "not read yet"
printf 'GGUF\003' >"$dir/x.gguf"
is 3 "a GGUF file" "$bin/ak-import" "$dir/x.gguf"
says "GGUF"
is 3 "weights alone" "$bin/ak-import" "$models/hf_bert_tiny.safetensors"
says "without a graph"
head -c 100000 "$models/hf_bert_tiny.pt2" >"$dir/cut.pt2"
is 3 "a file that is cut short" "$bin/ak-import" -o "$dir/cut.json" "$dir/cut.pt2"
says "cut short"
echo hello >"$dir/text.pt2"
is 3 "a file that is no archive" "$bin/ak-import" "$dir/text.pt2"
says "no zip file"
: >"$dir/empty.pt2"
is 3 "an empty file" "$bin/ak-import" "$dir/empty.pt2"
is 5 "an output that cannot be made" "$bin/ak-import" -o "$dir/none/g.json" "$models/mlp_dynamic.pt2"
is 5 "a full disk" sh -c '"$1" "$2" >/dev/full' - "$bin/ak-import" "$models/mlp_dynamic.pt2"
n=$((n + 1))
left=$(find "$dir" -name '*.tmp.*' -o -name 'cut.json*' | head)
if [ -z "$left" ]; then echo "ok $n - nothing half-written is left"; else echo "not ok $n - left: $left"; fi
echo "1..$n"
