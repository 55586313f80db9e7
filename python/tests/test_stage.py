"""Functions of the program as stages."""

import pickle

import numpy as np
import pytest

import trijet

scipy_ndimage = pytest.importorskip("scipy.ndimage")


@pytest.fixture(params=[None, 300])
def chunk(request):
    """The bytes of a chunk: chosen by the run, or one image of the stack at a time."""
    return request.param


def test_a_stage_sees_whole_images_and_writes_out(stack, chunk):
    seen = []

    @trijet.stage
    def negative(x, out):
        seen.append(x.shape)
        out[...] = 4095 - x

    assert np.array_equal(trijet.map(stack, [negative], chunk=chunk, device="host"), 4095 - stack)
    assert all(shape[1:] == (12, 10) for shape in seen)
    assert sum(shape[0] for shape in seen) >= 7


def test_a_stage_may_return_its_result(stack, chunk):
    @trijet.stage(arrays="cupy", out_dtype="f4")
    def scaled(x):
        return x.astype("f4") / 2

    assert np.array_equal(trijet.map(stack, [scaled], chunk=chunk, device="host"), stack.astype("f4") / 2)


@pytest.mark.parametrize("edges", ["nearest", "reflect", "mirror", "constant", "wrap"])
@pytest.mark.parametrize("halo", [1, 3, 8])
def test_a_halo_gives_the_images_around_and_edges_beyond_the_ends(stack, edges, halo, chunk):
    @trijet.stage(arrays="cupy", halo=halo, edges=edges, out_dtype="f8")
    def summed(x):
        count = x.shape[0] - 2 * halo
        return sum(x[k : k + count].astype("f8") for k in range(2 * halo + 1))

    wanted = scipy_ndimage.correlate1d(stack.astype("f8"), np.ones(2 * halo + 1), axis=0, mode=edges, cval=0.0)
    assert np.array_equal(trijet.map(stack, [summed], chunk=chunk, device="host"), wanted)


def test_stages_and_operations_are_mixed(stack, chunk):
    @trijet.stage(out_shape=lambda shape: (shape[0] // 2, shape[1]), out_dtype="i4")
    def pairs(x, out):
        out[...] = x[:, ::2].astype("i4") + x[:, 1::2]

    steps = [trijet.ops.median(1), pairs, trijet.ops.affine(2)]
    median = scipy_ndimage.median_filter(stack, (1, 3, 3), mode="nearest").astype("i4")
    wanted = 2 * (median[:, ::2] + median[:, 1::2])
    assert np.array_equal(trijet.map(stack, steps, chunk=chunk, device="host"), wanted)


def test_one_value_for_each_image(stack, chunk):
    @trijet.stage(out_shape=(), out_dtype="f8")
    def mean(x, out):
        out[...] = x.mean((1, 2))

    assert np.array_equal(trijet.map(stack, [mean], chunk=chunk, device="host"), stack.mean((1, 2)))


def test_an_exception_of_a_stage_is_raised_as_it_is(stack):
    class Own(Exception):
        pass

    @trijet.stage
    def fails(x, out):
        raise Own("why")

    with pytest.raises(Own, match="why") as raised:
        trijet.map(stack, [fails], device="host")
    assert any("Own: why" in note for note in raised.value.__notes__)


def test_the_input_of_a_stage_is_not_written(stack):
    @trijet.stage
    def writes(x, out):
        x[...] = 0

    with pytest.raises(ValueError, match="read-only"):
        trijet.map(stack, [writes], device="host")


def test_a_wrong_shape_is_refused_with_both_shapes(stack):
    @trijet.stage(arrays="cupy")
    def wrong(x):
        return x[:, :2]

    with pytest.raises(ValueError, match=r"2, 10.*12, 10"):
        trijet.map(stack, [wrong], device="host", chunk=240)


def test_a_plain_function_is_answered_with_the_decorator(stack):
    with pytest.raises(TypeError, match="@trijet.stage"):
        trijet.map(stack, [lambda x: x])


def test_arrays_that_a_program_keeps_stay_valid(stack):
    kept = []

    @trijet.stage
    def keeps(x, out):
        kept.append((x, out))
        out[...] = x

    assert np.array_equal(trijet.map(stack, [keeps], device="host", chunk=240), stack)
    assert all(np.array_equal(x, out) for x, out in kept)

    @trijet.stage
    def fails(x, out):
        raise ValueError("why")

    with pytest.raises(ValueError, match="why") as raised:
        trijet.map(stack, [fails], device="host")
    frames = raised.value.__traceback__
    while frames.tb_next:
        frames = frames.tb_next
    assert frames.tb_frame.f_locals["x"].sum() >= 0


def scaled_by(factor):
    @trijet.stage
    def scaled(x, out):
        out[...] = x * factor

    return scaled


class Method:
    """An object whose values a later run cannot compare."""

    def double(self, x):
        return x * 2


def test_the_identity_of_a_function_has_everything_that_it_uses():
    import functools

    def partial(x, k):
        return x * k

    def with_default(x, *, k=1):
        return x * k

    def other_default(x, *, k=2):
        return x * k

    pairs = [
        (scaled_by(2), scaled_by(3)),
        (trijet.stage(functools.partial(partial, k=2)), trijet.stage(functools.partial(partial, k=3))),
        (trijet.stage(with_default), trijet.stage(other_default)),
        (trijet.stage(lambda x: x * np.uint16(2)), trijet.stage(lambda x: x * np.uint16(3))),
        (trijet.stage(out_shape=lambda s: s)(partial), trijet.stage(out_shape=lambda s: s[:1])(partial)),
    ]
    for one, other in pairs:
        assert one.identity and other.identity and one.identity != other.identity
    assert scaled_by(2).identity == scaled_by(2).identity
    assert trijet.stage(lambda x: (lambda y: y + 1)(x)).identity == trijet.stage(lambda x: (lambda y: y + 1)(x)).identity
    assert trijet.stage(lambda x: x in {"a", "b", "c"}).identity is not None
    assert trijet.stage(Method().double).identity is None


def test_a_function_without_an_identity_is_not_continued_without_a_version(stack, tmp_path):
    np.save(tmp_path / "in.npy", stack)
    job = (tmp_path / "in.npy", tmp_path / "out.npy")
    with pytest.raises(ValueError, match="Method.*version="):
        trijet.map(*job, [trijet.stage(arrays="cupy")(Method().double)], resume=True, device="host")
    named = trijet.stage(arrays="cupy", version="1")(Method().double)
    trijet.map(*job, [named], resume=True, device="host")
    assert np.array_equal(np.load(tmp_path / "out.npy"), stack * 2)


def test_a_closure_with_another_value_does_not_take_the_old_result(stack, tmp_path):
    np.save(tmp_path / "in.npy", stack)
    job = (tmp_path / "in.npy", tmp_path / "out.npy")
    trijet.map(*job, [scaled_by(2)], device="host", resume=True)
    with pytest.raises(trijet.TrijetError):
        trijet.map(*job, [scaled_by(3)], device="host", resume=True)


def test_a_halo_that_is_too_large_is_refused(stack):
    with pytest.raises(trijet.errors.InvalidValueError, match="halo"):
        trijet.map(stack, [trijet.stage(halo=2**40)(lambda x, out: None)], device="host")


def test_a_changed_function_does_not_continue_the_run_of_another(stack, tmp_path):
    np.save(tmp_path / "in.npy", stack)
    one = trijet.stage(lambda x: x + 1)
    two = trijet.stage(lambda x: x + 2)
    assert one._native is not None
    for stage, fine in [(one, True), (one, True), (two, False)]:
        call = dict(resume=True, device="host")
        stage._options["arrays"] = "cupy"
        if fine:
            trijet.map(tmp_path / "in.npy", tmp_path / "out.npy", [stage], **call)
        else:
            with pytest.raises(trijet.TrijetError):
                trijet.map(tmp_path / "in.npy", tmp_path / "out.npy", [stage], **call)


def test_dasks_names_are_accepted(stack):
    for depth in ((1, 0, 0), {0: 1, 1: 4}, 1):

        @trijet.stage(arrays="cupy", depth=depth, boundary="periodic")
        def moved(x):
            return x[:-2]

        assert np.array_equal(trijet.map(stack, [moved], device="host"), np.roll(stack, 1, 0))


def test_operations_and_kernels_are_pickled(stack):
    steps = pickle.loads(pickle.dumps([trijet.ops.median(2), trijet.ops.flatfield(stack[0], stack[1])]))
    assert trijet.map(stack, steps).dtype == np.float32


def test_a_torch_stage_gets_tensors(stack):
    torch = pytest.importorskip("torch")

    @trijet.stage(arrays="torch", out_dtype="f4")
    def halved(x):
        assert isinstance(x, torch.Tensor)
        return x.to(torch.float32) / 2

    assert np.array_equal(trijet.map(stack, [halved], device="host"), stack.astype("f4") / 2)


def test_shards_of_a_stage_have_whole_images(tmp_path):
    """Three images of two processes: an edge in the middle of an image would be computed by both."""
    np.save(tmp_path / "in.npy", np.arange(3 * 4 * 5, dtype="u2").reshape(3, 4, 5))

    @trijet.stage(version="1")
    def negative(x, out):
        out[...] = 1000 - x

    def run(index):
        return trijet.map_shard((index, 2), tmp_path / "in.npy", tmp_path / "out.npy", [negative], resume=True, device="host")

    assert [run(0).rows, run(1).rows] == [4, 8]
    assert np.array_equal(np.load(tmp_path / "out.npy"), 1000 - np.load(tmp_path / "in.npy"))
