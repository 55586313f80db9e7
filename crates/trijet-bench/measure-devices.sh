#!/usr/bin/env bash
# Measures jobs over all GPUs of a host, with the programs of `bundle/`: memory to memory, and a file of
# 4 GiB on tmpfs by one GPU, by all in one process, and by a process for each, which torchrun starts.
#
#   crates/trijet-bench/measure-devices.sh OUT
#
# Run it from the root of the repository. It writes OUT/devices.csv. The outputs are compared.
set -uo pipefail
out="$1"
trijet="$PWD/bundle/trijet"
work="$(mktemp -d -p /dev/shm)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

timeout 200 "$trijet" bench devices --device cuda:0 --csv >"$out/devices.csv"

facts="$(sed -n 2p "$out/devices.csv" | cut -d, -f1-3)"
row() { # cells from `what` on
    echo "$facts,$(date -u +%Y-%m-%dT%H:%M:%SZ),$(cat bundle/COMMIT),$1" >>"$out/devices.csv"
}

# A gibibyte of noise, four times: not even two images of it are equal.
head -c 1073741824 /dev/urandom >"$work/part.raw"
cat "$work"/part.raw{,,,} >"$work/in.raw"
rm "$work/part.raw"
job=(--shape 512x2048x2048 --dtype u16 --op affine --scale 0.5 --offset 3 --no-sync)

# Runs the job once, and appends its seconds to the file of its name: of the process, and of the slowest
# run in it, set-up included.
once() { # name command...
    local name="$1" start end
    rm -f "$work/out.raw"
    start=$(date +%s.%N)
    timeout 100 "${@:2}" "${job[@]}" --json >"$work/report.json" || row "\"map, $name\",,,,,,,,the command failed"
    end=$(date +%s.%N)
    python3 -c 'print(eval(input()))' <<<"$end - $start" >>"$work/$name.process"
    python3 - "$work/report.json" >>"$work/$name.run" <<'PYTHON'
import json, sys
decoder, text, slowest = json.JSONDecoder(), open(sys.argv[1]).read(), 0
while text.strip():
    value, end = decoder.raw_decode(text.strip())
    text = text.strip()[end:]
    for one in value.get("devices", [value]):
        slowest = max(slowest, (one["wall_ns"] + one["cold_setup_ns"]) * 1e-9)
print(slowest)
PYTHON
    cmp -s "$work/out.raw" "$work/expected.raw" || row "\"map, $name\",,,,,,,,WRONG: the outputs differ"
}

gpus="$(nvidia-smi -L | wc -l)"
"$trijet" map "$work/in.raw" -o "$work/expected.raw" "${job[@]}" --device host >/dev/null
for _ in 1 2 3 4 5 6; do
    once "one GPU" "$trijet" map "$work/in.raw" -o "$work/out.raw" --device cuda:0
    once "all GPUs" "$trijet" map "$work/in.raw" -o "$work/out.raw" --device all
done
if command -v torchrun >/dev/null; then
    for _ in 1 2 3; do
        once "a process for each GPU" torchrun --nproc_per_node "$gpus" --no_python \
            "$trijet" map "$work/in.raw" -o "$work/out.raw"
    done
fi
for name in "one GPU" "all GPUs" "a process for each GPU"; do
    [ -e "$work/$name.run" ] || continue
    for figure in run process; do
        sorted=$(sort -n "$work/$name.$figure")
        cells=$(awk '{a[NR]=$1} END {printf "%.4f,%.4f,%.4f,%d", a[int((NR+1)/2)], a[1], a[NR], NR}' <<<"$sorted")
        row "\"map, tmpfs, new output: $name, $figure\",s,$cells,,,"
    done
done
row "map: verified,,,,,,,,every output was compared with that of the host device"
row "map: GPUs,,,,,,,,$gpus"
