#!/usr/bin/env bash
# Runs the scripts of this folder on a GPU, each with both of its forms.
#
#   measure.sh [TRIJET]
#
# With the path of the `trijet` program, it also traces each form alone and prints the summary. Traces stay in
# $TMPDIR or /tmp. After a failure it goes on; the last line has the number of failures.
set -uo pipefail
# A relative path of the program is one from the folder of the caller.
trijet="${1:+$(realpath "$1")}"
traces="${TMPDIR:-/tmp}"
cd "$(dirname "$0")" || exit 1
failures=0

# Runs a command for at most two minutes, and counts its failure.
attempt() { # what command...
    local what="$1" status=0
    shift
    timeout 120 "$@" || status=$?
    if [ "$status" -ne 0 ]; then
        echo "FAIL $what: status $status"
        failures=$((failures + 1))
    fi
}

for script in loader stream_context issue_order staged cuda_graph buckets allocators pinned over_sync concurrency; do
    echo "== $script"
    attempt "$script" python3 "$script.py" 2>&1
    [ -n "$trijet" ] || continue
    for form in bad good; do
        rm -f "$traces/trace-$script-$form.trijet"
        echo "-- $script $form"
        attempt "trace of $script $form" "$trijet" trace -o "$traces/trace-$script-$form.trijet" \
            -- python3 "$script.py" "$form" 2>&1
    done
done
echo "failures: $failures"
[ "$failures" -eq 0 ]
