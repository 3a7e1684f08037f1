"""Hosts for tests: network namespaces of this machine, joined by a router on which links are cut and made lossy.

Host n has the address 10.77.n.2 and, as a machine of its own would, sees only processes that run on it. All of it is
gone with `close`; nothing outside the namespaces is touched.
"""
import itertools
import os
import re
import shutil
import subprocess

PROGRAMS = {"ip": "iproute2", "nft": "nftables", "unshare": "util-linux"}
# As seen from the host: what it sends to the others, and what they send to it.
FROM, TO = "iifname", "oifname"
BOTH = (FROM, TO)

numbers = itertools.count()


def missing(programs=PROGRAMS):
    """Why there can be no namespaces here, made by these programs (each with its package); None where there can."""
    path = os.environ["PATH"] + ":/usr/sbin"
    absent = sorted(package for name, package in programs.items() if not shutil.which(name, path=path))
    if absent:
        return f"{', '.join(absent)} not installed (tools/install --test)"
    return None if os.geteuid() == 0 else "network namespaces want root"


class Hosts:
    def __init__(self, count):
        prefix = f"troupe-{os.getpid()}-{next(numbers)}"
        self.router = f"{prefix}-router"
        self.names = [f"{prefix}-host{n}" for n in range(count)]

    def start(self):
        """Why it did not start; None where it did. To be closed in any case."""
        remove_forgotten()
        made = [run("ip", "netns", "add", name) for name in (self.router, *self.names)]
        for n, name in enumerate(self.names):
            made.append(run("ip", "-n", self.router, "-batch", "-", text=(
                f"link add host{n} type veth peer name uplink netns {name}\n"
                f"addr add 10.77.{n}.1/24 dev host{n}\nlink set host{n} up\n")))
            made.append(run("ip", "-n", name, "-batch", "-", text=(
                f"addr add {self.address(n)}/24 dev uplink\nlink set uplink up\nlink set lo up\n"
                f"route add default via 10.77.{n}.1\n")))
        made.append(run(*self.at_router(), "sysctl", "-qw", "net.ipv4.ip_forward=1"))
        made.append(self.rules("add table ip faults",
                               "add chain ip faults forward { type filter hook forward priority 0 ; }"))
        made.append(run(*self.before(0), "true"))
        return next((why for why in made if why), None)

    def close(self):
        for name in (*self.names, self.router):
            run("ip", "netns", "del", name)

    def address(self, host):
        return f"10.77.{host}.2"

    def before(self, host):
        """The command that runs another one on this host, and ends it when it is ended itself."""
        return ["ip", "netns", "exec", self.names[host], "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]

    def cut(self, host, *ways):
        """From now on nothing goes these ways: FROM the host, TO it."""
        self.must(*(f"add rule ip faults forward {way} host{host} drop" for way in ways))

    def lose(self, host, percent):
        """Of what goes to and from the host, packet by packet, so many are lost."""
        self.must(*(f"add rule ip faults forward {way} host{host} numgen random mod 100 < {percent} drop"
                    for way in BOTH))

    def heal(self):
        self.must("flush chain ip faults forward")

    def at_router(self):
        return ["ip", "netns", "exec", self.router]

    def rules(self, *lines):
        return run(*self.at_router(), "nft", "-f", "-", text="\n".join(lines) + "\n")

    def must(self, *lines):
        why = self.rules(*lines)
        if why:
            raise OSError(why)


def remove_forgotten():
    """Those of test programs that were killed."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, timeout=30).stdout
    for name, pid in re.findall(r"^(troupe-(\d+)-\S+)", listed, re.MULTILINE):
        if not os.path.exists(f"/proc/{pid}"):
            run("ip", "netns", "del", name)


def run(*command, text=""):
    """Why it failed; None where it did not."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    done = subprocess.run(command, input=text, env=dict(os.environ, PATH=path), capture_output=True, text=True,
                          timeout=30)
    return f"{' '.join(command)}: {done.stderr.strip()}" if done.returncode else None
