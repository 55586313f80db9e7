#!/usr/bin/env bash
# Runs every measurement of `results/<gpu>/` on a GPU host, with the programs of `bundle/`.
#
#   crates/trijet-bench/measure.sh OUT
#
# Run it from the root of the repository. It writes one file for each benchmark to OUT. The peers
# need nvcc, and python3 with PyTorch, CuPy, librmm and rapids_logger. If one is missing, the results say so.
set -uo pipefail
out="$1"
bundle="$PWD/bundle"
peers="$PWD/crates/trijet-bench/peers"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

trijet() { # seconds arguments...
    timeout "$1" "$bundle/trijet" "${@:2}"
}

# Prints the device, the driver and the host, as the first benchmark reports them.
facts() {
    sed -n 2p "$out/overlap.csv" | cut -d, -f1-3
}

today() {
    date -u +%Y-%m-%dT%H:%M:%SZ
}

# Adds the first five cells to rows that lack them.
rows() {
    awk -v facts="$(facts),$(today),$(cat "$bundle/COMMIT")" '{ print facts "," $0 }'
}

note() { # what note
    echo "$1,,,,,,,,$2"
}

head_lines() { # what
    echo "# bench: $1"
    facts | awk -F, '{ print "# device: " $1 "\n# driver: " $2 "\n# host: " $3 }'
    echo "# date: $(today)"
    echo "# commit: $(cat "$bundle/COMMIT")"
}

trijet 300 bench overlap --device cuda:0 --csv >"$out/overlap.csv"

trijet 60 bench enqueue --device cuda:0 --csv >"$out/enqueue.csv"
TRIJET_LIBCUDA="$bundle/libempty_cuda.so" trijet 60 bench enqueue --device cuda:0 --csv |
    tail -n +2 >>"$out/enqueue.csv"

trijet 200 bench claims --device cuda:0 --csv >"$out/claims.csv"

trijet 100 bench pitfalls --device cuda:0 --csv >"$out/pitfalls.csv"

trijet 560 bench files --device cuda:0 --csv >"$out/files.csv"

trijet 60 bench staging --device cuda:0 --csv >"$out/staging.csv"

trijet 300 bench tuner --device cuda:0 --csv >"$out/tuner.csv"

trijet 120 bench chains --device cuda:0 --csv >"$out/chains.csv"

trijet 400 bench memory --device cuda:0 --csv >"$out/memory.csv"

trijet 100 bench growth --device cuda:0 --csv >"$out/growth.csv"

trijet 560 bench soak --device cuda:0 --csv >"$out/soak.csv"

trijet 500 bench tasks --device cuda:0 --csv >"$out/tasks.csv"

trijet 300 bench workers --device cuda:0 --csv >"$out/workers.csv"

trijet 560 bench training --device cuda:0 --csv >"$out/training.csv"

trijet 90 bench latency --device cuda:0 --csv >"$out/latency.csv"

trijet 200 bench virtual --device host --csv >"$out/virtual.csv"

trijet 100 bench check --device host --csv >"$out/check.csv"

{
    head_lines "trijet doctor"
    trijet 60 doctor --device cuda:0 2>&1
} >"$out/doctor.txt"

for radius in 1 3 7; do
    head_lines "trijet overlap --size 4GiB --radius $radius"
    trijet 100 overlap --device cuda:0 --size 4GiB --radius "$radius" 2>&1
done >"$out/overlap-4gib.txt"

# A job of 16 MiB, from the start of its process to the end, with its files in the page cache.
head -n 1 "$out/overlap.csv" >"$out/cold-start.csv"
head -c 16777216 /dev/urandom >"$work/in.raw"
{
    programs=(trijet "trijet, 32 hardware queues")
    if nvcc -O2 -arch=sm_90 "$peers/cold_start.cu" -o "$work/cold_start"; then
        programs=(bare "bare, 32 hardware queues" "${programs[@]}")
    else
        note bare "not measured: nvcc failed"
    fi
    for what in "${programs[@]}"; do
        queues=8
        case "$what" in *32*) queues=32 ;; esac
        export CUDA_DEVICE_MAX_CONNECTIONS="$queues"
        for _ in $(seq 12); do
            rm -f "$work/out.raw"
            start=$(date +%s.%N)
            if [ "${what%%,*}" = bare ]; then
                "$work/cold_start" "$work/in.raw" "$work/out.raw"
            else
                trijet 60 map "$work/in.raw" -o "$work/out.raw" --shape 4096x2048 \
                    --dtype u16 --op affine --scale 0.5 --offset 3 --device cuda:0 >/dev/null
            fi
            end=$(date +%s.%N)
            echo "$end - $start" | python3 -c 'print(eval(input()))'
        done | tail -n +3 | sort -n | awk -v w="$what" '{a[NR]=$1}
            END {printf "\"%s\",s,%.4f,%.4f,%.4f,%d,,,\n", w, a[int((NR+1)/2)], a[1], a[NR], NR}'
        cp "$work/out.raw" "$work/${what%%,*}.out"
    done
    unset CUDA_DEVICE_MAX_CONNECTIONS
    if [ ! -e "$work/bare.out" ]; then
        note verified nothing
    elif cmp -s "$work/bare.out" "$work/trijet.out"; then
        note verified "both outputs are equal"
    else
        note verified "WRONG: the outputs differ"
    fi
} | rows >>"$out/cold-start.csv"

{
    head_lines "trijet trace of PyTorch programs: planted defects, their corrected twin, a training loop"
    for program in "trace_planted.py" "trace_planted.py clean" "trace_training.py 8"; do
        echo "== $program"
        # shellcheck disable=SC2086 # the words are the program and its argument
        trijet 60 trace -- python3 "$peers"/$program
        echo "exit code $?"
    done
    echo "== the training loop without a trace and with one, in turn"
    for _ in 1 2 3 4 5; do
        timeout 60 python3 "$peers/trace_training.py" 8
        trijet 60 trace -- python3 "$peers/trace_training.py" 8 2>/dev/null |
            sed 's/^/traced: /'
    done
} >"$out/trace.txt" 2>&1

costs=gpu_only::times::the_cost_of_each_source_is_shown
{
    head_lines "times from pairs of events beside those of CUPTI, costs in a process of their own"
    timeout 60 "$bundle/tests/gpu" "$costs" --nocapture
    timeout 60 "$bundle/tests/gpu" gpu_only::times --skip "$costs" --nocapture --test-threads=1
} >"$out/times.txt" 2>&1

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
