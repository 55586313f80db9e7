#!/usr/bin/env bash
# Runs the GPU cases whose kernels synchronise inside under NVIDIA's compute-sanitizer, with few repetitions over
# small sizes. The tests use the first GPU. Prints a line for each tool and case, and fails if a tool finds an error or
# a case fails.
set -u
cd "$(dirname "$0")" || exit 1
export TRIJET_TURNS="${TRIJET_TURNS:-3}"
limit_s=60
cases=(
    warps_with_roles
    clusters_of_each
    producers_and_consumers
    the_blocks_of_a_cluster_share
    boxes_are_read_and_written
    a_graph_copies_boxes
    blocks_of_a_cluster
    chains_of_dependent
    products_of_bf16_have
    chains_of_products
)
command -v compute-sanitizer > /dev/null || {
    echo "compute-sanitizer is not in PATH; it comes with the CUDA toolkit" >&2
    exit 2
}
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
failed=0
for tool in memcheck racecheck synccheck; do
    for case in "${cases[@]}"; do
        # The library queries parameters until the driver refuses a query, so refused calls are not errors here.
        timeout "$limit_s" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
            tests/gpu "$case" --test-threads=1 > "$log" 2>&1
        status=$?
        if [ "$status" -eq 0 ] && grep -q "test result: ok. [1-9]" "$log"; then
            echo "PASS $tool $case"
        else
            failed=$((failed + 1))
            echo "FAIL $tool $case (status $status)"
            grep -E "=====|panicked|test result" "$log" | head -12
        fi
    done
done
echo "$failed failed"
[ "$failed" -eq 0 ]
