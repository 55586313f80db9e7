#!/usr/bin/env bash
# Compiles and runs `tasks_stf.cu`: tasks_stf.sh FOLDER REPEATS
# CCCL names a folder with the headers of github.com/NVIDIA/cccl (cudax/include, libcudacxx/include and, where there are
# any, cub and thrust); CCCL_COMMIT, if set, is printed as a note.
set -euo pipefail
if [ "$#" -ne 2 ]; then
    echo "usage: tasks_stf.sh FOLDER REPEATS" >&2
    exit 2
fi
if [ -z "${CCCL:-}" ]; then
    echo "tasks_stf.sh: CCCL is unset; it must name a folder with the headers of cccl" >&2
    exit 1
fi
if [ ! -f "$CCCL/cudax/include/cuda/experimental/stf.cuh" ]; then
    echo "tasks_stf.sh: there is no cudax/include/cuda/experimental/stf.cuh in CCCL=$CCCL" >&2
    exit 1
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# CUDASTF needs both flags and the driver library; NDEBUG takes its assertions and its count of finished tasks out.
nvcc -O2 -std=c++17 -DNDEBUG --expt-relaxed-constexpr --extended-lambda -arch=sm_90 \
    -I"$CCCL/cudax/include" -I"$CCCL/libcudacxx/include" -I"$CCCL/cub" -I"$CCCL/thrust" \
    "$1/tasks_stf.cu" -o "$work/tasks_stf" -lcuda >&2
"$work/tasks_stf" "$2"
