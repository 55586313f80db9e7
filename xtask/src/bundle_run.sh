#!/usr/bin/env bash
# Runs the programs of the bundle: all examples, all lessons, then the GPU tests.
#
#   run.sh [cuda:N | host]     default: cuda:0, which fails without a GPU
#
# The exit status is 1 if anything failed. With `host`, the GPU tests are counted as skipped.
set -uo pipefail
cd "$(dirname "$0")"

device="${1:-cuda:0}"
# An example takes seconds. The limit ends an example that hangs.
example_limit_s=120
passed=0 failed=0 skipped=0

report() { # name status seconds
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "PASS $1 (${3}s)"
    else
        failed=$((failed + 1))
        echo "FAIL $1 (status $2, ${3}s)"
    fi
}

echo "commit $(cat COMMIT), device $device"
for example in examples/*; do
    [ -x "$example" ] || continue
    start=$SECONDS
    timeout "$example_limit_s" "$example" "$device"
    report "$example" $? $((SECONDS - start))
done
for lesson in $(./trijet lesson --json | sed -n 's/^ *"name": "\(.*\)",*$/\1/p'); do
    start=$SECONDS
    echo "== $lesson"
    timeout "$example_limit_s" ./trijet lesson "$lesson" --device "$device" 2> /dev/null
    report "lesson $lesson" $? $((SECONDS - start))
done
for tests in tests/*; do
    [ -x "$tests" ] || continue
    if [ "$device" = host ]; then
        skipped=$((skipped + 1))
        echo "SKIP $tests (needs a GPU)"
        continue
    fi
    start=$SECONDS
    "$tests" --test-threads=1
    report "$tests" $? $((SECONDS - start))
done

echo "size $(du -sh . | cut -f1)"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
