"""Feeds of batches, on the host device: with arrays of NumPy, and with tensors where PyTorch is installed."""

import threading

import numpy as np
import pytest

from trijet._feed import BatchFeed, FeedReport


class NumpyFeed(BatchFeed):
    """A feed that gives arrays of NumPy."""

    def _array(self, buffer, dtype):
        return np.from_dlpack(buffer)


def batches(count=6):
    for number in range(count):
        yield {"x": np.full((4, 3), number, "f4"), "y": [np.arange(number + 1), "name", number]}


def numbers(count):
    return [np.array([n]) for n in range(count)]


def test_batches_arrive_in_order_with_their_structure():
    found = list(NumpyFeed(batches(), device="host", depth=2))
    assert len(found) == 6
    for number, batch in enumerate(found):
        assert np.array_equal(batch["x"], np.full((4, 3), number, "f4"))
        assert np.array_equal(batch["y"][0], np.arange(number + 1)) and batch["y"][1:] == ["name", number]


def test_named_tuples_and_strings_keep_their_types():
    from collections import namedtuple

    Pair = namedtuple("Pair", "x label")
    (found,) = NumpyFeed([Pair(np.ones(2), np.array(["a", "b"]))], device="host")
    assert type(found) is Pair and found.x.sum() == 2 and list(found.label) == ["a", "b"]


def test_batches_that_are_kept_are_not_overwritten():
    feed = NumpyFeed((np.full(1000, n) for n in range(40)), device="host", depth=1)
    assert [int(batch[999]) for batch in list(feed)] == list(range(40))


def test_a_loader_may_use_its_arrays_again():
    def loader():
        own = np.zeros(1000)
        for number in range(20):
            own[:] = number
            yield own

    assert [float(batch[999]) for batch in NumpyFeed(loader(), device="host", depth=3)] == list(range(20))


def test_on_device_changes_a_batch():
    feed = NumpyFeed([(np.ones(2), np.zeros(2))] * 2, device="host", on_device=lambda x, y: (x * 3, y))
    assert [float(x[0]) for x, _ in feed] == [3.0, 3.0]


def test_an_error_of_the_loader_is_raised_after_its_batches():
    def loader():
        yield np.ones(1)
        raise RuntimeError("the second batch")

    seen = []
    with pytest.raises(RuntimeError, match="the second batch"):
        for batch in NumpyFeed(loader(), device="host"):
            seen.append(batch)
    assert len(seen) == 1


def test_a_loop_that_ends_early_leaves_no_thread():
    feed = NumpyFeed((np.ones(1) for _ in range(1000)), device="host", depth=2)
    for _ in feed:
        break
    assert not [thread for thread in threading.enumerate() if thread.name == "trijet feed"]


def test_a_loader_is_continued_at_the_batch_that_the_loop_has_got():
    feed = NumpyFeed(numbers(8), device="host", depth=3)
    for batch in feed:
        if batch[0] == 2:
            state = feed.state_dict()
            break
    again = NumpyFeed(numbers(8), device="host", depth=3)
    again.load_state_dict(state)
    assert [int(batch[0]) for batch in again] == [3, 4, 5, 6, 7]
    assert [int(batch[0]) for batch in again] == list(range(8)), "the next epoch begins at its start"


def test_the_state_of_a_stateful_loader_is_that_of_the_consumed_batch():
    class Stateful:
        def __init__(self):
            self.at = 0

        def __iter__(self):
            while self.at < 6:
                self.at += 1
                yield np.array([self.at - 1])

        def state_dict(self):
            return {"at": self.at}

        def load_state_dict(self, state):
            self.at = state["at"]

    feed = NumpyFeed(Stateful(), device="host", depth=3)
    for batch in feed:
        if batch[0] == 1:
            break
    again = NumpyFeed(Stateful(), device="host")
    again.load_state_dict(feed.state_dict())
    assert [int(batch[0]) for batch in again] == [2, 3, 4, 5]


def test_the_place_in_the_batches_is_right_to_the_end_and_in_the_next_epoch():
    feed = NumpyFeed(numbers(8), device="host", depth=3)
    for _ in range(2):
        assert [feed.state_dict()["batches"] for _ in feed] == list(range(1, 9))
        assert feed.state_dict()["batches"] == 0
    for _ in feed:
        break
    assert feed.state_dict()["batches"] == 1


def test_a_loop_that_ends_does_not_wait_for_its_loader():
    go_on = threading.Event()

    def loader():
        yield np.ones(1)
        go_on.wait()
        yield np.ones(1)

    for _ in NumpyFeed(loader(), device="host", depth=2):
        break
    go_on.set()


def test_truth_values_and_scalars_arrive_as_such():
    class Feed(NumpyFeed):
        def _array(self, buffer, dtype):
            array = super()._array(buffer, dtype)
            return array if dtype is None else array.view(dtype)

    batch = {"mask": np.array([True, False]), "label": np.array(7), "n": np.float64(2.5)}
    (found,) = Feed([batch], device="host")
    assert found["mask"].dtype == bool and found["mask"].tolist() == [True, False]
    assert found["label"].shape == () and found["label"] == 7 and found["n"] == 2.5


def test_a_paused_feed_takes_no_batch():
    taken = []

    def loader():
        for number in range(30):
            taken.append(number)
            yield np.array([number])

    feed = NumpyFeed(loader(), device="host", depth=1)
    found = []
    for batch in feed:
        found.append(int(batch[0]))
        if len(found) == 5:
            with feed.paused():
                before = len(taken)
                # Other work of the loop, while at most the batch that is under way is taken.
                np.linalg.matrix_power(np.ones((200, 200)) / 200, 50)
                assert len(taken) <= before + 1
    assert found == list(range(30))


def test_the_report_names_what_the_loop_waited_for():
    assert FeedReport(elapsed=1.0, waited=0.01).limit == "hidden"
    assert FeedReport(elapsed=1.0, waited=0.5, loading=0.9, uploading=0.1).limit == "loader"
    assert FeedReport(elapsed=1.0, waited=0.5, loading=0.1, uploading=0.9).limit == "upload"
    feed = NumpyFeed(numbers(4), device="host")
    assert len(list(feed)) == len(feed) == feed.report.batches == 4 and "4 batches" in str(feed.report)


class TestTorch:
    """With tensors."""

    torch = None

    @pytest.fixture(autouse=True)
    def _needs_torch(self):
        type(self).torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("name", ["bool", "bfloat16", "float16", "int64", "uint8"])
    def test_every_type_of_tensors_is_kept(self, name):
        from trijet.torch import DeviceFeed

        dtype = getattr(self.torch, name)
        x = self.torch.tensor([[0, 1], [2, 3]]).to(dtype)
        (found,) = DeviceFeed([(x, x[:0])], device="host")
        assert found[0].dtype == dtype and self.torch.equal(found[0], x) and found[1].shape == (0, 2)

    def test_a_data_loader_with_workers_feeds(self):
        from trijet.torch import DeviceFeed

        data = self.torch.utils.data.TensorDataset(self.torch.arange(20).reshape(20, 1))
        loader = self.torch.utils.data.DataLoader(data, batch_size=5, num_workers=1)
        feed = DeviceFeed(loader, device="host")
        assert [int(x.sum()) for (x,) in feed] == [10, 35, 60, 85]
