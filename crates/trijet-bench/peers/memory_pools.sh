#!/usr/bin/env bash
# Compiles and runs `memory_pools.cu`: memory_pools.sh FOLDER REPEATS
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
nvcc -O2 -std=c++17 "$1/memory_pools.cu" -o "$work/memory_pools"
"$work/memory_pools" "$2"
