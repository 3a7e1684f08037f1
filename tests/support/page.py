"""The commands of README.md, as a reader would copy them, and a network in which the page's addresses and names are
this machine."""
import os
import re
import subprocess
import tempfile
from pathlib import Path

import network_hosts
from program import root

PROGRAMS = {"ip": "iproute2", "nsenter": "util-linux"}


def commands(heading):
    """The indented lines under `## heading` that run a program, without their comments."""
    text = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", (root / "README.md").read_text(),
                     re.MULTILINE | re.DOTALL).group(1)
    lines = [line[4:].split(" #")[0].rstrip() for line in text.splitlines() if re.match(r"    \S", line)]
    return [line for line in lines if re.match(r"(build|tools)/|sbatch ", line)]


def missing():
    """Why there can be no such network here; None where there can."""
    return network_hosts.missing(PROGRAMS)


class Network:
    """A namespace with these addresses and names, each name one of the addresses. Gone with `close`."""

    def __init__(self, names):
        self.names = names
        self.name = f"troupe-page-{os.getpid()}"
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-page-")
        self.hosts = Path(self.folder.name) / "hosts"

    def start(self):
        """Why it did not start; None where it did. To be closed in any case."""
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in self.names.items())]
        self.hosts.write_text("\n".join(lines) + "\n")
        for words in (["netns", "add", self.name], ["-n", self.name, "link", "set", "lo", "up"],
                      *(["-n", self.name, "addr", "add", f"{address}/32", "dev", "lo"]
                        for address in sorted(set(self.names.values())))):
            done = subprocess.run(["ip", *words], capture_output=True, text=True)
            if done.returncode:
                return f"ip {' '.join(words)}: {done.stderr.strip()}"
        return None

    def close(self):
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)
        self.folder.cleanup()

    def before(self):
        """The command that runs another one in it. Of what is mounted only /etc/hosts is another there: `ip netns exec`
        would hide the control groups, which a slurmd wants."""
        return ["nsenter", f"--net=/run/netns/{self.name}", "unshare", "--mount", "sh", "-c",
                f'mount --bind {self.hosts} /etc/hosts && exec "$@"', "sh"]
