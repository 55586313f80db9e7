"""``trijet.map`` over sources and targets."""

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import trijet
from trijet import ops


def doubled(x):
    return (x.astype(np.int64) * 2).clip(0, 65535).astype(x.dtype)


def test_an_array_is_mapped_to_an_array(stack):
    assert np.array_equal(trijet.map(stack, [ops.affine(2)]), doubled(stack))


def test_a_target_array_is_written_and_a_report_returned(stack):
    out = np.zeros_like(stack)
    report = trijet.map(stack, out, [ops.affine(2)])
    assert np.array_equal(out, doubled(stack))
    assert report.is_complete and report.rows == 84
    assert report.bytes_in == report.bytes_out == stack.nbytes
    assert report.elapsed > 0 and "affine" in str(report)


def test_the_shape_and_the_type_may_change(stack):
    found = trijet.map(stack, [ops.convert("f4"), ops.bin(2, "sum"), ops.project("max")])
    wanted = stack.astype("f4").reshape(7, 6, 2, 5, 2).sum((2, 4)).max(1)
    assert found.dtype == np.float32 and np.array_equal(found, wanted)


@pytest.mark.parametrize("name", ["out.npy", "out.tif", "out.h5", "out.mrc", "out.zarr"])
def test_files_of_each_format_are_written_and_read(tmp_path, stack, name):
    report = trijet.map(stack, tmp_path / name, ["affine:2"])
    assert report.is_complete
    assert np.array_equal(trijet.map(tmp_path / name, ["affine:1"]), doubled(stack))


def test_big_endian_and_strided_arrays_are_sources(stack):
    assert np.array_equal(trijet.map(stack.astype(">u2"), [ops.affine(2)]), doubled(stack))
    part = stack[:, ::2, 1:9]
    assert np.array_equal(trijet.map(part, [ops.affine(2)]), doubled(part))


def test_the_first_two_axes_are_exchanged_as_swapaxes_does(stack):
    assert np.array_equal(trijet.map(stack, ["affine"], axis=1), stack.swapaxes(0, 1))
    movie = np.arange(2 * 3 * 4 * 5, dtype="i4").reshape(2, 3, 4, 5)
    assert np.array_equal(trijet.map(movie, ["affine"], axis=1), movie.swapaxes(0, 1))


def test_a_slice_has_the_rows_of_the_whole_result(stack, tmp_path):
    whole = trijet.map(stack, [ops.median(1, z=1)])
    assert np.array_equal(trijet.map(stack, [ops.median(1, z=1)], slice=slice(2, 5)), whole[2:5])
    trijet.map(stack, tmp_path / "part.npy", [ops.median(1, z=1)], slice=(2, 5))
    assert np.array_equal(np.load(tmp_path / "part.npy"), whole[2:5])


def test_plain_bytes_are_described_by_the_call(stack, tmp_path):
    path = tmp_path / "in.raw"
    path.write_bytes(b"12345678" + stack.astype(">u2").tobytes())
    found = trijet.map(path, ["affine"], dtype="uint16", shape=stack.shape, header=8, byteorder="big")
    assert np.array_equal(found, stack)


def test_a_memmap_is_a_source(stack, tmp_path):
    np.save(tmp_path / "in.npy", stack)
    memmap = np.load(tmp_path / "in.npy", mmap_mode="r")
    assert np.array_equal(trijet.map(memmap, [ops.affine(2)]), doubled(stack))


def test_data_sets_of_h5py_are_sources_and_targets(stack, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        source = file.create_dataset("scan/data", data=stack, chunks=(2, 12, 10), compression="gzip")
        target = file.create_dataset("out", stack.shape, "u2")
        # The file is open for writing, so its rows come through h5py.
        trijet.map(source, target, [ops.affine(2)], chunk=500)
        assert np.array_equal(target[:], doubled(stack))
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(trijet.map(file["scan/data"], [ops.affine(2)]), doubled(stack))


def test_arrays_of_zarr_are_sources_and_targets(stack, tmp_path):
    zarr = pytest.importorskip("zarr")
    source = zarr.create_array(str(tmp_path / "in.zarr"), data=stack, chunks=(2, 12, 10))
    target = zarr.create_array(str(tmp_path / "out.zarr"), shape=stack.shape, dtype="u2", chunks=(2, 12, 10))
    trijet.map(source, target, [ops.affine(2)])
    assert np.array_equal(target[:], doubled(stack))


def test_arrays_of_dask_are_sources(stack):
    da = pytest.importorskip("dask.array")
    assert np.array_equal(trijet.map(da.from_array(stack, chunks=(3, 12, 10)), [ops.affine(2)]), doubled(stack))


def test_a_target_that_shares_memory_or_a_file_is_refused(stack, tmp_path):
    np.save(tmp_path / "in.npy", stack)
    memmap = np.load(tmp_path / "in.npy", mmap_mode="r+")
    for source, target in [(stack, stack), (stack[:4], stack[3:]), (memmap, memmap), (tmp_path / "in.npy", memmap)]:
        with pytest.raises(ValueError, match="share memory or a file"):
            trijet.map(source, target, [ops.median(1)])
    with pytest.raises(ValueError, match="share memory or a file"):
        trijet.map(memmap, tmp_path / "in.npy", [ops.median(1)], overwrite=True)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("data", data=stack)
        with pytest.raises(ValueError, match="share memory or a file"):
            trijet.map(data, file["data"], [ops.median(1)])


def test_options_of_files_are_refused_for_arrays(stack):
    for name, value in [("shard", (0, 2)), ("claim", True), ("resume", True), ("overwrite", True), ("device", "all")]:
        with pytest.raises(trijet.errors.InvalidValueError, match=f"{name}.*needs a target in files"):
            trijet.map(stack, [ops.affine(2)], **{name: value})


def test_a_shard_of_an_array_of_the_program_is_refused(stack, tmp_path):
    with pytest.raises(trijet.errors.InvalidValueError, match="source in files"):
        trijet.map(stack, tmp_path / "out.npy", [ops.affine(2)], shard=(0, 2))


def test_a_target_of_truth_values_is_refused():
    with pytest.raises(ValueError, match="not bool"):
        trijet.map(np.array([7, 2], "u1"), np.empty(2, bool), ["affine"])


def test_a_remote_array_of_zarr_is_not_read_from_a_local_folder(stack, tmp_path):
    zarr = pytest.importorskip("zarr")
    path = str(tmp_path / "in.zarr")
    zarr.create_array(path, data=np.ones_like(stack), chunks=stack.shape)
    store = zarr.storage.MemoryStore()
    remote = zarr.create_array(store, shape=stack.shape, dtype="u2", chunks=stack.shape)
    remote[:] = stack
    type(store).root = path
    try:
        assert np.array_equal(trijet.map(remote, ["affine"]), stack)
    finally:
        del type(store).root


def test_integers_of_numpy_are_integers_of_kernels():
    kernel = trijet.Kernel("x.cu", "x", a=np.int64(3), b=np.float32(2), c="3u64", d=True)
    assert kernel._args == {"a": 3, "b": 2.0, "c": "3u64", "d": 1}
    assert [type(value) for value in kernel._args.values()] == [int, float, str, int]


def test_empty_arrays_give_empty_arrays():
    assert trijet.map(np.zeros((0, 4, 4), "u1"), [ops.affine(2)]).shape == (0, 4, 4)


def test_a_plan_tells_the_result_and_creates_nothing(stack, tmp_path):
    plan = trijet.plan(stack, tmp_path / "out.npy", [ops.convert("f4")])
    assert (plan.shape, plan.dtype) == (stack.shape, "float32")
    assert (plan.bytes_in, plan.bytes_out) == (stack.nbytes, 2 * stack.nbytes)
    assert not list(tmp_path.iterdir())


def test_shards_write_one_target(stack, tmp_path):
    np.save(tmp_path / "in.npy", stack)
    for index in range(3):
        report = trijet.map_shard((index, 3), tmp_path / "in.npy", tmp_path / "out.npy", [ops.affine(2)], resume=True)
    assert report.is_complete
    assert np.array_equal(np.load(tmp_path / "out.npy"), doubled(stack))


CLAIM = """
import sys, trijet
report = trijet.map(sys.argv[1], sys.argv[2], [trijet.ops.affine(2)], claim=5, chunk=400, device="host")
print(report.is_complete, report.kept_rows)
"""


def test_processes_that_claim_rows_share_one_target(tmp_path):
    stack = np.arange(40 * 16 * 16, dtype="u2").reshape(40, 16, 16) % 30_000
    np.save(tmp_path / "in.npy", stack)
    command = [sys.executable, "-c", CLAIM, str(tmp_path / "in.npy"), str(tmp_path / "out.npy")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    ended = [(*one.communicate(), one.returncode) for one in running]
    assert all(code == 0 for *_, code in ended), ended
    told = [out.split() for out, *_ in ended]
    assert [is_complete for is_complete, _ in told] == ["True"] * 3
    rows = trijet.plan(tmp_path / "in.npy", [ops.affine(2)]).shape[0] * 16
    assert sum(rows - int(kept) for _, kept in told) == rows
    assert np.array_equal(np.load(tmp_path / "out.npy"), 2 * stack)
    again = trijet.map(tmp_path / "in.npy", tmp_path / "out.npy", [ops.affine(2)], claim=True)
    assert (again.is_complete, again.kept_rows) == (True, rows)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.npy", "out.npy"]


def test_an_exception_in_a_claimed_job_keeps_its_rows(tmp_path):
    np.save(tmp_path / "in.npy", np.arange(8 * 4, dtype="u2").reshape(8, 2, 2))
    seen = []

    @trijet.stage(version="1")
    def fails(x, out):
        out[...] = x
        seen.append(len(x))
        if len(seen) == 3:
            raise KeyError("third")

    options = {"claim": True, "chunk": 16, "device": "host"}
    with pytest.raises(KeyError) as raised:
        trijet.map(tmp_path / "in.npy", tmp_path / "out.npy", [fails], **options)
    assert "the same call continues" in raised.value.__notes__[0]
    assert trijet.map(tmp_path / "in.npy", tmp_path / "out.npy", [fails], **options).is_complete
    assert np.array_equal(np.load(tmp_path / "out.npy"), np.load(tmp_path / "in.npy"))


def test_claims_are_refused_where_processes_cannot_share(stack, tmp_path):
    np.save(tmp_path / "in.npy", stack)
    for other in [{"shard": (0, 2)}, {"restart": True}, {"overwrite": True}, {"durable": False}, {"device": "all"}]:
        with pytest.raises(trijet.errors.InvalidValueError, match="choose one of `claim` and"):
            trijet.map(tmp_path / "in.npy", tmp_path / "out.npy", ["affine"], claim=True, **other)
    with pytest.raises(trijet.errors.InvalidValueError, match="source in files"):
        trijet.map(stack, tmp_path / "out.npy", ["affine"], claim=True)
    with pytest.raises(ValueError, match="seconds from 1 to 86400"):
        trijet.map(tmp_path / "in.npy", tmp_path / "out.npy", ["affine"], claim=0)


def test_a_checked_run_is_clean(stack):
    out = np.empty_like(stack)
    report = trijet.map(stack, out, [ops.median(1)], check=True, chunk=300)
    assert report.verdict.startswith("for the calls this run made") and "every conflict is ordered" in report.verdict


def test_progress_counts_all_rows(stack):
    told, is_told = [], threading.Event()

    @trijet.stage
    def waits(x, out):
        out[...] = x
        assert is_told.wait(30), "no progress while a stage runs"

    def progress(done, rows):
        told.append((done, rows))
        is_told.set()

    trijet.map(stack, np.empty_like(stack), [waits], progress=progress, device="host", chunk=240)
    assert told and all(0 <= done <= rows for done, rows in told) and told[-1][1] == 84


def test_a_report_has_the_figures_of_the_command_and_a_page(stack, tmp_path):
    report = trijet.map(stack, np.empty_like(stack), [ops.affine(2)])
    assert report.json()[0]["bytes_in"] == stack.nbytes
    report.save(tmp_path / "run.html")
    assert "<html" in (tmp_path / "run.html").read_text().lower()
    assert "iframe" in report._repr_html_() or "<pre>" in report._repr_html_()


def test_a_report_is_pickled_with_its_facts_and_texts(stack):
    report = trijet.map(stack, np.empty_like(stack), [ops.affine(2)])
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(report))))
    assert str(again) == str(report) and again.json() == report.json() and again.losses == report.losses
    assert again.bytes_in == stack.nbytes and again._repr_html_() == report._repr_html_()


def test_a_failed_target_is_not_complete_and_resume_continues_it(stack, tmp_path):
    np.save(tmp_path / "in.npy", stack)
    broken = True

    @trijet.stage(version="1")
    def once(x, out):
        if broken and float(np.asarray(x)[0, 0, 0]) == float(stack[3, 0, 0]):
            raise RuntimeError("the fourth image")
        out[...] = x

    job = (tmp_path / "in.npy", tmp_path / "out.npy", [once])
    with pytest.raises(RuntimeError, match="the fourth image") as raised:
        trijet.map(*job, chunk=240, device="host")
    assert any("use resume=True" in note or "no row was finished" in note for note in raised.value.__notes__)
    assert not (tmp_path / "out.npy").exists()
    broken = False
    report = trijet.map(*job, chunk=240, resume=True, device="host")
    assert report.is_complete and np.array_equal(np.load(tmp_path / "out.npy"), stack)
