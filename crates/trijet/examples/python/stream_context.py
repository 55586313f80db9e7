"""A context that moves work to a side stream: the guide's, without order, and one that waits before and after."""
import torch

from common import compare, numbers, product

SIDE = 2048
A, B, VECTOR = [numbers(SIDE, SIDE, seed=k) for k in range(2)], numbers(SIDE, SIDE, seed=2), numbers(SIDE, seed=3)
EXPECTED = [2 * (product(a, B, VECTOR) + VECTOR.sum()) + VECTOR.sum() for a in A]
A, B, VECTOR = [a.cuda() for a in A], B.cuda(), VECTOR.cuda()
X, Y, Z, MAIN, BESIDE = (torch.empty_like(B) for _ in range(5))


class GuidesContext:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def __enter__(self):
        self.caller = torch.cuda.current_stream()
        torch.cuda.set_stream(self.stream)

    def __exit__(self, *error):
        torch.cuda.set_stream(self.caller)


class SideStream:
    """The block starts after all earlier work of the caller's stream, and ends before all later work."""

    def __init__(self, before=True, after=True):
        self.stream, self.before, self.after = torch.cuda.Stream(), before, after

    def __enter__(self):
        self.caller = torch.cuda.current_stream()
        if self.before:
            self.stream.wait_stream(self.caller)
        torch.cuda.set_stream(self.stream)
        return self.stream

    def __exit__(self, *error):
        torch.cuda.set_stream(self.caller)
        if self.after:
            self.caller.wait_stream(self.stream)


def work(a, out):
    for _ in range(8):
        torch.mm(a, B, out=out)


def form(context):
    def run_form(run):
        for buffer in (X, Y, Z, MAIN):
            buffer.zero_()
        torch.cuda.synchronize()
        work(A[run % 2], MAIN)
        torch.add(MAIN, 1, out=X)
        with context:
            torch.mul(X, 2, out=Z)  # needs the wait before
            work(A[run % 2], BESIDE)
            torch.add(Z, 0, out=Y)
        return Y + 1  # needs the wait after
    return run_form


def verify(result, run):
    return torch.equal((result @ VECTOR).cpu(), EXPECTED[run % 2])


others = {"only the wait before": form(SideStream(after=False)), "only the wait after": form(SideStream(before=False))}
compare("stream_context", form(GuidesContext()), form(SideStream()), verify, others, may_be_wrong=["bad", *others])
