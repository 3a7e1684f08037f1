"""A Slurm of one machine and one user, in a folder: munged, slurmctld and a slurmd a node, with sockets and ports of
their own. Its nodes lab0, lab1, ... are all this machine."""
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")


def missing():
    """Why there can be none here; None where there can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")]
    if absent:
        return f"{', '.join(absent)} not installed (tools/install --test)"
    return None if os.geteuid() == 0 else "slurmd wants to be root"


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Slurm:
    def __init__(self, folder, nodes=1, before=()):
        """`before`: a command that runs another one in the network that the daemons are to live in."""
        self.folder, self.before = Path(folder), list(before)
        self.nodes = [f"lab{n}" for n in range(nodes)]
        self.daemons = []
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))

    def start(self):
        """Why it did not start; None where it did."""
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir(mode=0o700)
        self.daemon("munged", "--foreground", "--force", *self.munge_files())
        controller, *ports = free_ports(1 + len(self.nodes))
        (self.folder / "slurm.conf").write_text(self.config(controller, ports))
        self.daemon("slurmctld", "-D", "-f", self.folder / "slurm.conf")
        for node in self.nodes:
            (self.folder / "spool" / node).mkdir(mode=0o700)
            self.daemon("slurmd", "-D", "-N", node, "-f", self.folder / "slurm.conf")
        for _ in range(150):
            state = subprocess.run([*self.before, "sinfo", "-h", "-N", "-o", "%T"], env=self.environment,
                                   capture_output=True, text=True)
            if state.stdout.split() == ["idle"] * len(self.nodes):
                return None
            if any(daemon.poll() is not None for daemon in self.daemons):
                break
            time.sleep(0.1)
        logs = "\n".join((self.folder / f"{name}.out").read_text()[-500:] for name in ("munged", "slurmctld", "slurmd"))
        return f"Slurm did not start: {logs}"

    def munge_files(self):
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        return [f"--{option}={self.folder}/munge/{name}" for option, name in names.items()]

    def config(self, controller, ports):
        host = socket.gethostname()
        return "\n".join((
            "ClusterName=lab", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={controller}",
            "SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge", "CredType=cred/munge",
            f"AuthInfo=socket={self.folder}/munge/socket", f"StateSaveLocation={self.folder}/state",
            f"SlurmdSpoolDir={self.folder}/spool/%n",f"SlurmctldPidFile={self.folder}/slurmctld.pid",
            f"SlurmdPidFile={self.folder}/slurmd-%n.pid", "ProctrackType=proctrack/pgid", "TaskPlugin=task/none",
            "SwitchType=switch/none", "MpiDefault=none", "SlurmdParameters=config_overrides",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "JobAcctGatherType=jobacct_gather/none",
            *(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 State=UNKNOWN"
              for node, port in zip(self.nodes, ports)),
            f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES State=UP", ""))

    def daemon(self, name, *arguments):
        program = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
        with open(self.folder / f"{name}.out", "w") as out:
            self.daemons.append(subprocess.Popen([*self.before, program, *map(str, arguments)], stdout=out,
                                                 stderr=subprocess.STDOUT,
                                                 stdin=subprocess.DEVNULL, env=self.environment))

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
