"""What `trijet check --kernels` finds in planted races of kernels, and in their cures.

    kernel_races.py TRIJET RACES_BINARY [NAME...]

RACES_BINARY is `crates/trijet-calls/tests/kernels/kernel_races.cu`, compiled. With CALLS, a folder, the calls of each C++ program are kept. Prints a
row of CSV for each program: what was expected, errors, possible conflicts, launches, those that were seen, launches of
graphs, those that were seen, and whether it is as expected: 1 an error, p an error or a possible conflict, 0 neither
an error nor a possible conflict (in Python: no error), u anything."""
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 6
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = [sys.executable, os.path.join(HERE, "kernel_races_python.py")]


def check(trijet, words, name, expected):
    with tempfile.TemporaryDirectory() as folder:
        keep = os.environ.get("CALLS") if words[0] != sys.executable else None
        file = os.path.join(keep or folder, f"{name}.calls")
        command = [trijet, "check", "--kernels", "-o", file, "--json", "--", *words, name]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=100)
        except subprocess.TimeoutExpired:
            return f"{name},{expected},,,,,,,timeout", False
    try:
        one = json.loads(run.stdout[run.stdout.index("{"):])["processes"][0]
    except (ValueError, LookupError) as error:
        return f"{name},{expected},,,,,,,{error} {run.stderr[-400:]}".replace("\n", " "), False
    errors, possible = len(one["errors"]), len(one["possible"])
    is_right = {
        "1": errors > 0,
        "p": errors + possible > 0,
        "0": errors == 0 and (possible == 0 or words[0] == sys.executable),
        "u": True,
    }[expected] and not one["troubles"]
    counts = [one[key] for key in ("kernels", "kernels_seen", "graphs", "graphs_seen")]
    note = " ".join(one["troubles"]) or (one["errors"] + one["possible"] + [{"text": ""}])[0]["text"].split("\n")[0]
    cells = [name, expected, errors, possible, *counts, "right" if is_right else "WRONG", note.replace(",", ";")]
    return ",".join(map(str, cells)), is_right


def main():
    trijet, binary, *names = sys.argv[1:]
    print("program,expected,errors,possible,kernels,kernels_seen,graphs,graphs_seen,verdict,first_finding", flush=True)
    rows = []
    for words in ([binary], PYTHON):
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            name, expected = line.split()
            if not names or name in names:
                rows.append((trijet, words, name, expected))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda row: check(*row), rows))
    for row, _ in results:
        print(row)
    print(f"{sum(is_right for _, is_right in results)} of {len(results)} as expected")


main()
