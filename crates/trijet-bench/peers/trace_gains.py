"""The gain that `trijet trace` promises for a planted habit, beside the time that its mended twin saves.

    trace_gains.py TRIJET HABITS_BINARY [NAME...]

Each program runs in both forms, by turns, without a trace. Then both run with one, because a trace makes
calls longer: the promise about a run is compared with what its twin saved directly after it, and the median of
the ratios is the last but two. All times are milliseconds of a step, medians. Prints CSV."""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

TURNS = 5
TRACED = 2
STEPS = 60                                     # of each program
HERE = os.path.dirname(os.path.abspath(__file__))
# The program, and the rules that its twin mends.
PROGRAMS = [
    ("torch-pageable", ["PERF/PAGEABLE"]),
    ("torch-item", ["PERF/OVER-SYNC"]),
    ("torch-synchronize", ["PERF/OVER-SYNC"]),
    ("torch-host-code", ["PERF/GPU-IDLE"]),
    ("torch-launches", ["PERF/GPU-IDLE"]),
    ("cupy-exposed-copy", ["PERF/EXPOSED-COPY"]),
    ("cupy-allocation", ["PERF/SYNC-ALLOC"]),
    ("jax-host-code", ["PERF/GPU-IDLE"]),
    ("cuda-legacy", ["PERF/LEGACY-BARRIER"]),
    ("cuda-sync-copy", ["PERF/SYNC-COPY"]),
    ("cuda-first-load", ["PERF/FIRST-USE-LOAD"]),
    ("torch-pageable+synchronize", ["PERF/PAGEABLE", "PERF/OVER-SYNC"]),
]
LOOP = re.compile(r"(planted|mended) loop ([0-9.]+) s, ([0-9]+) steps, sum (\S+)")


def command(binary, name, form):
    if name.startswith("cuda-"):
        return [binary, name.removeprefix("cuda-"), form]
    return [sys.executable, os.path.join(HERE, "trace_habits.py"), name, form]


def loops(words):
    """The milliseconds per step of each form, and the sums of the results."""
    run = subprocess.run(words, capture_output=True, text=True, timeout=120)
    found = LOOP.findall(run.stdout)
    if run.returncode or not found:
        raise RuntimeError(f"{words}: {run.returncode} {run.stdout[-300:]} {run.stderr[-600:]}")
    return [(form, float(seconds) / int(steps) * 1e3, total) for form, seconds, steps, total in found]


def measured(binary, name):
    """The median milliseconds per step of both forms, and the sums of the results."""
    if name.startswith("cuda-"):           # a process for each, because a kernel is loaded once
        runs = [loops(command(binary, name, form)) for _ in range(TURNS) for form in ("planted", "mended")]
        runs = [one for run in runs for one in run]
    else:
        runs = loops(command(binary, name, "times"))
    median = lambda form: statistics.median(time for one, time, _ in runs if one == form)
    return median("planted"), median("mended"), {total for _, _, total in runs}


def traced(trijet, words, file):
    """The milliseconds per step of a run with a trace."""
    return loops([trijet, "trace", "--overwrite", "-o", file, "--", *words])[0][1]


def promise(trijet, file, rules):
    """The promised milliseconds per step of the fixes of some rules, and the error of the model."""
    read = subprocess.run([trijet, "trace", "--read", file, "--json"], capture_output=True, check=True)
    device = json.loads(read.stdout)["processes"][0]["devices"][0]
    gains, steps = device["gains"], device["steps"]
    alone = {one["key"]: one["gain_ns"] for one in device["findings"]}
    together = {"+".join(sorted(one["keys"])): one["gain_ns"] for one in gains["together"]}
    gain = alone.get(rules[0]) if len(rules) == 1 else together.get("+".join(sorted(rules)))
    if gain is None:
        raise RuntimeError(f"no gain of {rules}: {alone} {together}")
    return gain / (steps["count"] if steps else STEPS) / 1e6, gains["error"]


def main():
    trijet, binary, *names = sys.argv[1:]
    print("program,planted_ms,mended_ms,saved_ms,saved_with_trace_ms,promised_ms,promised_over_saved,"
          "promised_over_saved_with_trace,model_error,rules")
    for name, rules in PROGRAMS:
        if names and name not in names:
            continue
        try:
            planted, mended, sums = measured(binary, name)
            with tempfile.TemporaryDirectory() as folder:
                file, mended_file = (os.path.join(folder, one) for one in ("planted.trijet", "mended.trijet"))
                runs = []
                for _ in range(TRACED):
                    time = traced(trijet, command(binary, name, "planted"), file)
                    gain, error = promise(trijet, file, rules)
                    runs.append((gain, time - traced(trijet, command(binary, name, "mended"), mended_file), error))
            gain, with_trace, error = (statistics.median(one) for one in zip(*runs))
            over = statistics.median(gain / saved for gain, saved, _ in runs)
            note = "/".join(rules)
            cells = [f"{gain:.4f}", f"{gain / (planted - mended):.3f}", f"{over:.3f}"]
            if len(sums) != 1:
                note += f" sums differ: {sorted(sums)}"
            print(name, f"{planted:.4f},{mended:.4f},{planted - mended:.4f},{with_trace:.4f}", *cells, f"{error:.4f}", note,
                  sep=",", flush=True)
        except (RuntimeError, subprocess.SubprocessError, KeyError, IndexError) as error:
            print(f"{name},,,,,,,,,failed: {type(error).__name__} {error}".replace("\n", " "), flush=True)


main()
