"""Times, checks and the result line of the scripts in this folder.

A script calls `compare`. Without arguments it runs all forms; the argument `bad` or `good` runs one form alone, for
`trijet trace`."""
import statistics
import sys
import time

import torch

WARM_UP, RUNS = 2, 5


def numbers(*shape, seed):
    """Whole numbers from -2 to 2 as 32-bit floats. Sums of their products are exact in any order, so results can be
    compared bit by bit."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator, dtype=torch.float32)


def product(x, *factors):
    """`x` times the factors in turn, the last one a vector: on the host, from right to left, in double precision."""
    right = factors[-1].double()
    for factor in reversed(factors[:-1]):
        right = factor.double() @ right
    return (x.double() @ right).float()


def milliseconds(form, verify):
    """The median time of `form(run)`, and the number of runs with a wrong result. `run` counts the calls, so that
    each call can use other data: stale memory of the call before is then wrong."""
    times, wrong = [], 0
    for run in range(WARM_UP + RUNS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        result = form(run)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
        wrong += not verify(result, run)
        del result
    return statistics.median(times[WARM_UP:]), wrong


def note_of(label, time, wrong):
    """The time of a form, with the number of wrong results, if any."""
    return f"{label} {time:.2f} ms" + (f" (wrong in {wrong} of {WARM_UP + RUNS} runs)" if wrong else "")


def line(name, times):
    """The result line. `times` has the time and the wrong results of each form, by its name."""
    notes = [note_of(label, *times[label]) for label in times if label in ("bad", "good")]
    if "bad" in times and "good" in times:
        notes.append(f"{times['bad'][0] / times['good'][0]:.2f} times")
    others = [note_of(label, *times[label]) for label in times if label not in ("bad", "good")]
    return "; ".join([f"PASS {name}: " + ", ".join(notes), *others])


def compare(name, bad, good, verify, others=None, may_be_wrong=()):
    """Times the forms and prints the result line. Raises an error if a form is wrong that must be right."""
    forms = {"bad": bad, "good": good, **(others or {})}
    chosen = sys.argv[1:] or list(forms)
    times = {}
    for label in chosen:
        times[label] = milliseconds(forms[label], verify)
        wrong = times[label][1]
        if wrong and label not in may_be_wrong:
            raise RuntimeError(f"{name}: {label} was wrong in {wrong} of {WARM_UP + RUNS} runs")
    print(line(name, times), flush=True)
