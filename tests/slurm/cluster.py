"""A Slurm cluster of one node in a folder: munged, slurmctld and slurmd as root, ended and removed with the block.

Two partitions share the node. Jobs of `high` preempt those of `low`, which Slurm then queues again.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CONFIGURATION = """\
ClusterName=damnatio
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SchedulerParameters=sched_interval=2,bf_interval=2,preempt_send_user_signal
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
"""


@dataclass(frozen=True)
class Cluster:
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *words: str) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(
            words, env={**os.environ, **self.environment}, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    def states(self) -> dict[str, str]:
        """The state of each job that has not ended, by its id."""
        lines = self.run("squeue", "-r", "-h", "-o", "%i %T").splitlines()
        return dict(line.split() for line in lines)

    def restarts(self, job: str) -> int:
        """How often Slurm has started a job anew."""
        shown = self.run("scontrol", "show", "job", job)
        return int(next(word.split("=")[1] for word in shown.split() if word.startswith("Restarts=")))


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster that takes jobs. Its folder must have a short path: it holds sockets."""
    folder.mkdir(parents=True)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    found = Cluster(folder)
    environment = {**os.environ, **found.environment}
    text = CONFIGURATION.format(host=socket.gethostname(), ports=_free_ports(2), folder=folder, cpus=os.cpu_count())
    (folder / "slurm.conf").write_text(text)
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    munge = [
        *("munged", "--foreground", "--force", "--key-file", f"{folder}/munge.key"),
        *("--socket", f"{folder}/munge.socket", "--pid-file", f"{folder}/munged.pid"),
        *("--log-file", f"{folder}/munged.log", "--seed-file", f"{folder}/munged.seed"),
    ]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in (munge, ["slurmctld", "-D"], ["slurmd", "-D", "-N", socket.gethostname()]):
            with (folder / f"{command[0]}.out").open("wb") as log:
                running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            time.sleep(1)
        _wait_for_the_node(found, running)
        yield found
    finally:
        for process in reversed(running):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_the_node(found: Cluster, running: list["subprocess.Popen[bytes]"]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        ended = [process.args for process in running if process.poll() is not None]
        if ended:
            logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(found.folder.glob("*.out")))
            raise RuntimeError(f"{ended} ended:\n{logs}")
        done = subprocess.run(
            ["sinfo", "-h", "-o", "%t"],
            env={**os.environ, **found.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if "idle" in done.stdout:
            return
        time.sleep(1)
    raise RuntimeError(f"The node is not ready: {done.stdout} {done.stderr}")


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
