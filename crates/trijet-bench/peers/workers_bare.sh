#!/usr/bin/env bash
# Compiles and runs `workers_bare.cu`: workers_bare.sh FOLDER REPEATS
# Neither the device nor the host may contract a product and a sum into one operation, or their counts would differ.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
nvcc -O3 -std=c++17 -arch=sm_90 --fmad=false -Xcompiler=-ffp-contract=off "$1/workers_bare.cu" -o "$work/workers_bare"
"$work/workers_bare" "$2"
