#!/usr/bin/env bash
# Compiles `memory_replay.cu`, and runs it for each line of a file with jobs: memory_replay.sh FOLDER JOBS REPEATS GRAPHS.
# A job has a trace, a name, allocators and a limit in bytes (0 is none), with tabs between them. GRAPHS is the number of
# graphs with memory nodes. The allocators of rmm are in it if `python3` finds the packages librmm and rapids_logger, and
# are left out otherwise.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
rmm=()
if grep -q rmm "$2"; then
  find='import librmm, rapids_logger; print(librmm.__path__[0]); print(rapids_logger.__path__[0])'
  if python3 -c "$find" >"$work/folders" 2>"$work/why"; then
    { read -r librmm && read -r logger; } <"$work/folders"
    # librmm brings the CCCL that its headers need, which must come before that of the toolkit.
    rmm=(-DWITH_RMM "-I$librmm/include/rapids" "-I$librmm/include" "-I$logger/include"
      "$librmm/lib64/librmm.so" "$logger/lib64/librapids_logger.so")
    export LD_LIBRARY_PATH="$librmm/lib64:$logger/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  else
    echo "the allocators of rmm are left out: $(tail -n 1 "$work/why")" >&2
  fi
fi
nvcc -O2 -std=c++17 -arch=sm_90 "$1/memory_replay.cu" ${rmm[@]+"${rmm[@]}"} -o "$work/memory_replay"
while IFS=$'\t' read -r trace name allocators limit; do
  "$work/memory_replay" "$trace" "$name" "$allocators" "$3" "$limit"
done <"$2"
"$work/memory_replay" graphs "$4"
