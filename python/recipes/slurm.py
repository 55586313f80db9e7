"""A cluster of Slurm on this machine, for tests: munged, slurmctld and slurmd, as root."""

import os
import socket
import subprocess
import time
from pathlib import Path

SETTINGS = """
ClusterName=trijet
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A context in which `run` calls commands of Slurm."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.daemons = []

    def __enter__(self):
        for name in ["state", "spool", "munge"]:
            (self.folder / name).mkdir(parents=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        text = SETTINGS.format(host=host, folder=self.folder, cpus=os.cpu_count())
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("")
        files = [f"--{name}-file={self.folder}/munged.{name}" for name in ["log", "pid", "seed"]]
        munged = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket"]
        self.start([*munged, *files])
        self.start(["slurmctld", "-D", "-f", f"{self.folder}/slurm.conf"])
        self.start(["slurmd", "-D", "-f", f"{self.folder}/slurm.conf"])
        for _ in range(60):
            if "idle" in self.run("sinfo", "-h", "-o", "%T", check=False):
                return self
            time.sleep(0.5)
        raise RuntimeError((self.folder / "slurmctld.log").read_text())

    def start(self, command):
        log = open(self.folder / f"{command[0]}.out", "w")
        self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log))

    def run(self, *command, check=True):
        variables = {**os.environ, "SLURM_CONF": f"{self.folder}/slurm.conf"}
        ran = subprocess.run(command, env=variables, capture_output=True, text=True)
        if check and ran.returncode != 0:
            raise RuntimeError(ran.stdout + ran.stderr)
        return ran.stdout

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            daemon.wait()
