#!/usr/bin/env bash
# Compiles and runs `small_jobs.cu`: small_jobs.sh FOLDER REPEATS
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
nvcc -O2 -arch=native "$1/small_jobs.cu" -o "$work/small_jobs"
"$work/small_jobs" "$2"
