#!/usr/bin/env bash
# Measures everything that a record file stands for, on a GPU host, with the programs of `bundle/`.
#
#   crates/trijet-bench/measure.sh OUT     from the root of the tree; OUT takes the record files.
#
# Needs nvcc and python3 with PyTorch for the peers; a missing one is said in its record file.
set -uo pipefail
out="$1"
bundle="$PWD/bundle"
peers="$PWD/crates/trijet-bench/peers"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

head_lines() { # what
    echo "# bench: $1"
    echo "# device: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
    echo "# date: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
    echo "# commit: $(cat "$bundle/COMMIT")"
}

{
    timeout 150 "$bundle/trijet" bench overlap --device cuda:0
    echo "# peer in the same hold of the machine:"
    timeout 60 python3 "$peers/overlap_torch.py" || echo "# peer failed: status $?"
} >"$out/overlap.csv" 2>&1

{
    timeout 60 "$bundle/trijet" bench enqueue --device cuda:0
    TRIJET_LIBCUDA="$bundle/libempty_cuda.so" timeout 60 "$bundle/trijet" bench enqueue --device cuda:0
} >"$out/enqueue.csv" 2>&1

timeout 100 "$bundle/trijet" bench pitfalls --device cuda:0 >"$out/pitfalls.csv" 2>&1

timeout 200 "$bundle/trijet" bench virtual --device host >"$out/virtual.csv" 2>&1

for radius in 1 3 7; do
    {
        head_lines "trijet overlap --size 4GiB --radius $radius"
        timeout 100 "$bundle/trijet" overlap --device cuda:0 --size 4GiB --radius "$radius" 2>&1
    } >"$out/overlap-4gib-radius-$radius.txt"
done

{
    head_lines "cold start: a 16 MiB job, process start to end, files in page cache, seconds of wall time"
    head -c 16777216 /dev/urandom >"$work/in.raw"
    nvcc -O2 -arch=sm_90 "$peers/cold_start.cu" -o "$work/cold_start" || echo "# no nvcc"
    echo "what,unit,median,min,max,samples"
    for what in bare trijet; do
        for _ in $(seq 12); do
            rm -f "$work/out.raw"
            start=$(date +%s.%N)
            if [ "$what" = bare ]; then
                "$work/cold_start" "$work/in.raw" "$work/out.raw"
            else
                "$bundle/trijet" map "$work/in.raw" -o "$work/out.raw" --shape 4096x2048 \
                    --dtype u16 --op affine --scale 0.5 --offset 3 --device cuda:0 >/dev/null
            fi
            end=$(date +%s.%N)
            echo "$end - $start" | python3 -c 'print(eval(input()))'
        done | tail -n +3 | sort -n | awk -v w="$what" '{a[NR]=$1}
            END {printf "%s,s,%.4f,%.4f,%.4f,%d\n", w, a[int((NR+1)/2)], a[1], a[NR], NR}'
        cp "$work/out.raw" "$work/$what.out"
    done
    if cmp -s "$work/bare.out" "$work/trijet.out"; then
        echo "# verified: both outputs are equal"
    else
        echo "# WRONG: the outputs differ"
    fi
} >"$out/cold-start.csv" 2>&1

{
    head_lines "trijet trace of PyTorch programs: planted habits, their corrected twin, a training loop"
    for program in "trace_planted.py" "trace_planted.py clean" "trace_training.py 8"; do
        echo "== $program"
        # shellcheck disable=SC2086 # the words are the program and its argument
        timeout 60 "$bundle/trijet" trace -- python3 "$peers"/$program
        echo "exit code $?"
    done
    echo "== the training loop without the recording and with it, in turn"
    for _ in 1 2 3 4 5; do
        timeout 60 python3 "$peers/trace_training.py" 8
        timeout 60 "$bundle/trijet" trace -- python3 "$peers/trace_training.py" 8 2>/dev/null |
            sed 's/^/traced: /'
    done
} >"$out/trace.txt" 2>&1

"$bundle/trijet" overlap --device cuda:0 --drop-wait 1 --picture "$out/damaged.png"

{
    head_lines "GPU tests and examples"
    timeout 200 bash "$bundle/run.sh" cuda:0 2>&1
    echo "map --op median of one random file on the GPU and on the host device:"
    head -c 67108864 /dev/urandom >"$work/noise.raw"
    for radius in 1 2 5; do
        for device in cuda:0 host; do
            "$bundle/trijet" map "$work/noise.raw" -o "$work/$device-$radius.raw" --shape 8x2048x2048 \
                --dtype u16 --op median --radius "$radius" --device "$device" >/dev/null
        done
        cmp "$work/cuda:0-$radius.raw" "$work/host-$radius.raw" && echo "radius $radius: equal bytes"
    done
    echo "the same job on the GPU and on the host device, 32 MiB, four schedules each:"
    for radius in 1 2 3 4 5 6 7; do
        digests=$(for device in cuda:0 host; do
            "$bundle/trijet" overlap --device "$device" --size 32MiB --radius "$radius" --repeats 1 --json
        done | grep -A4 '"hashes"' | grep -o '"[0-9a-f]\{16\}"' | sort | uniq -c | tr -s ' ')
        echo "radius $radius: results by digest$digests"
    done
} >"$out/gpu-tests.txt"
tail -n 3 "$out/gpu-tests.txt"
