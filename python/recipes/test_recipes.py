"""The recipes of docs/python-recipes.md and docs/clusters.md with the real engines, on the processors.

`cargo xtask recipes` runs them.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trijet
from slurm import Slurm

CLUSTERS = Path(__file__).parents[2] / "docs" / "clusters.md"
os.environ["TRIJET_DEVICE"] = "host"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a stack, and the command `trijet` on the path."""
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.arange(12 * 16 * 16, dtype="uint16").reshape(12, 16, 16))
    command = tmp_path / "bin" / "trijet"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trijet "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    return tmp_path


def wanted():
    return trijet.map("in.npy", ["median:2"])


def recipe(heading):
    """The programs under a heading of the document that are not run by the other tests."""
    part = re.split(r"^## ", CLUSTERS.read_text(), flags=re.MULTILINE)
    (part,) = [one for one in part if one.startswith(heading)]
    return re.findall(r"```(?:sh|text)\n(.*?)```", part, re.DOTALL)


def test_a_cluster_of_dask_writes_one_target_in_shards(folder):
    from distributed import Client, LocalCluster

    part = functools.partial(trijet.map_shard, source="in.npy", target="out.npy", steps=["median:2"], resume=True)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.gather(client.map(part, [(index, 4) for index in range(4)]))
    assert np.array_equal(np.load("out.npy"), wanted())


def test_an_actor_of_ray_maps_and_a_feed_takes_its_batches(folder):
    import ray

    from trijet._feed import BatchFeed

    class Feed(BatchFeed):
        def _array(self, buffer, dtype):
            return np.from_dlpack(buffer)

    packages = str(Path(trijet.__file__).parents[1])
    ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": {"TRIJET_DEVICE": "host", "PYTHONPATH": packages}})
    try:

        @ray.remote
        class Cleaner:
            def clean(self, source, target):
                return str(trijet.map(source, target, ["median:2"], resume=True))

        told = ray.get(Cleaner.remote().clean.remote(str(folder / "in.npy"), str(folder / "out.npy")))
        assert "median" in told and np.array_equal(np.load("out.npy"), wanted())
        batches = ray.data.range(100).iter_batches(batch_size=32, batch_format="numpy")
        found = [batch["id"] for batch in Feed(batches, device="host")]
        assert np.array_equal(np.sort(np.concatenate(found)), np.arange(100))
    finally:
        ray.shutdown()


def test_the_tasks_of_an_array_of_slurm_share_a_job(folder):
    (script,) = recipe("Slurm")
    script = script.replace("scan.tif", "in.npy")
    tasks = []
    for task in range(3):
        variables = {**os.environ, "SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": str(task)}
        tasks.append(subprocess.Popen(["sh", "-c", script], env=variables))
    assert [task.wait() for task in tasks] == [0, 0, 0]
    assert np.array_equal(np.load("clean.npy"), wanted())


@pytest.mark.skipif(not shutil.which("slurmctld"), reason="the daemons of Slurm are not installed")
def test_the_daemons_of_slurm_run_the_array(folder):
    (script,) = recipe("Slurm")
    lines = script.replace("scan.tif", "in.npy").replace(" --gpus=1", "").replace("0-7", "0-3")
    Path("job.sh").write_text(f"#!/bin/sh\n{lines}")
    with Slurm(folder / "slurm") as slurm:
        slurm.run("sbatch", "--wait", "--export=ALL", "job.sh")
    assert np.array_equal(np.load("clean.npy"), wanted())


def test_a_rule_of_snakemake_is_tried_again(folder):
    (rule,) = recipe("Snakemake")
    rule = rule.replace('"{name}.tif"', '"{name}.npy"')
    Path("Snakefile").write_text(f"{rule}\n")
    call = [sys.executable, "-m", "snakemake", "in.clean.npy", "--cores", "1", "--quiet", "all"]
    # The first try of the rule fails, so it is tried again.
    command = Path("bin/trijet").read_text()
    Path("bin/trijet").write_text(command.replace("exec", "[ -e tried ] || { touch tried; exit 1; }\nexec"))
    subprocess.run(call, check=True)
    assert Path("tried").exists() and np.array_equal(np.load("in.clean.npy"), wanted())


def test_tries_in_other_folders_continue_from_the_state(folder):
    """What Nextflow does with its rule: each try has a work folder, with a link to the input."""
    (rule,) = recipe("Nextflow")
    script = re.search(r'"""\n(.*?)"""', rule, re.DOTALL).group(1)
    script = script.replace("${scan}", "in.npy").replace("${scan.baseName}", "in")
    script = script.replace("${params.state}", str(folder / "state"))
    for number, limit in enumerate(["0.4", "60"]):
        work = folder / f"work-{number}"
        work.mkdir()
        (work / "in.npy").symlink_to(folder / "in.npy")
        ended = subprocess.run(["timeout", "-s", "TERM", limit, "sh", "-c", script], cwd=work)
        assert ended.returncode in (0, 75, 124)
        if ended.returncode == 0:
            break
    assert np.array_equal(np.load(work / "clean.npy"), wanted())


def clean(number):
    """The task of the recipe for Dask and Ray."""
    (text,) = recipe("Dask and Ray")
    space = {"subprocess": subprocess}
    exec(text.replace("scan.tif", "in.npy"), space)
    return space["clean"](number)


def test_tasks_of_dask_share_a_job(folder):
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        assert client.gather(client.map(clean, range(4), retries=3)) == [0] * 4
    assert np.array_equal(np.load("clean.npy"), wanted())


def test_tasks_of_ray_share_a_job(folder):
    import ray

    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(trijet.__file__).parents[1])])
    variables = {"PYTHONPATH": paths, "PATH": os.environ["PATH"], "TRIJET_DEVICE": "host"}
    ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": variables})
    try:
        task = ray.remote(max_retries=3)(in_folder)
        assert ray.get([task.remote(str(folder), number) for number in range(4)]) == [0] * 4
    finally:
        ray.shutdown()
    assert np.array_equal(np.load("clean.npy"), wanted())


def in_folder(folder, number):
    """Runs the task in the folder of the job, because workers of Ray have one of their own."""
    os.chdir(folder)
    return clean(number)


def test_a_notebook_shows_a_report(folder):
    import nbformat
    from nbconvert.preprocessors import ExecutePreprocessor

    code = 'import trijet\nreport = trijet.map("in.npy", "out.npy", ["median:2"])\nreport'
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    ExecutePreprocessor(timeout=120).preprocess(notebook, {"metadata": {"path": str(folder)}})
    (output,) = notebook.cells[0].outputs
    assert "iframe" in output["data"]["text/html"] and "median" in output["data"]["text/plain"]
    assert np.array_equal(np.load("out.npy"), wanted())
