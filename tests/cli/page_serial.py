#!/usr/bin/env python3
"""Every command of README.md's page on processes and hosts, as it stands there, in a network in which its addresses are
this machine's: over a real sshd and a real Slurm."""
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
import page
import slurm
from program import FASHION, Case, build, root

COMMANDS = page.commands("Spread it over processes and hosts")
SHORT = {"TROUPE_TRAIN__MAX_STEPS": "20", "TROUPE_NETWORK__START_TIMEOUT_S": "60"}
NAMES = {"node1": "10.0.0.7", "node2": "10.0.0.8", "lab0": "10.0.0.7", "lab1": "10.0.0.8"}


def the(beginning):
    """The page's only command that begins so."""
    (found,) = [command for command in COMMANDS if command.startswith(beginning)]
    return found


class Page(Case):
    @classmethod
    def setUpClass(cls):
        cls.why_not = page.missing() or (None if FASHION.is_dir() else f"{FASHION} is not there (tools/install)")
        if cls.why_not:
            return
        cls.network = page.Network(NAMES)
        cls.addClassCleanup(cls.network.close)
        cls.why_not = cls.network.start()

    def setUp(self):
        super().setUp()
        if self.why_not:
            self.skipTest(self.why_not)
        (self.folder / "build").symlink_to(build)
        (self.folder / "configs").symlink_to(root / "configs")

    def words(self, command):
        return [*self.network.before(), "sh", "-c", "exec " + command]

    def run_command(self, command, environment=SHORT, timeout_s=100):
        return subprocess.run(self.words(command), cwd=self.folder, env=self.environment(environment),
                              timeout=timeout_s,
                              capture_output=True, text=True)

    def begin_command(self, command, name, environment=SHORT):
        """Its output goes to a file of this name."""
        out = open(self.folder / name, "w")
        self.addCleanup(out.close)
        process = subprocess.Popen(self.words(command), cwd=self.folder, env=self.environment(environment), stdout=out,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(self.end, process)
        return process

    def wait_for(self, holds, what, seconds=60):
        until = time.monotonic() + seconds
        while not (answer := holds()):
            self.assertLess(time.monotonic(), until, what)
            time.sleep(0.05)
        return answer

    def assert_well(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def run_folders(self):
        return sorted((self.folder / "runs").glob("*")) if (self.folder / "runs").is_dir() else []

    def make_keys(self):
        self.assert_well(self.run_command(the("build/troupe keys")))
        self.assertEqual((self.folder / "run.keys").stat().st_mode & 0o777, 0o700)


class Here(Page):
    def test_four_processes_are_looked_at_and_stopped(self):
        training = self.begin_command(the("build/troupe train configs/sync.toml --processes"), "training", {})
        folder = self.wait_for(self.run_folders, "no run")[0].name
        here = lambda beginning: the(beginning).replace("sync-<time>", folder)
        self.wait_for(lambda: "server 1" in self.run_command(here("build/troupe status")).stdout, "no server")
        self.wait_for(lambda: re.search(r"^step [1-9]", (self.folder / "training").read_text(), re.MULTILINE),
                      "no step")
        self.assert_well(self.run_command(here("build/troupe stop")))
        self.assertEqual(training.wait(60), 130, (self.folder / "training").read_text())
        self.assertTrue(list((self.folder / "runs" / folder / "checkpoints").iterdir()))

    def test_prometheus_is_told_how_far_it_is(self):
        self.begin_command(the("build/troupe train configs/sync.toml --set metrics.listen"), "training", {})
        read = ("python3 -c 'import urllib.request as u; "
                "print(u.urlopen(\"http://127.0.0.1:9464/metrics\", timeout=5).read().decode())'")
        self.wait_for(lambda: re.search(r"^troupe_step [1-9]", self.run_command(read).stdout, re.MULTILINE), "no steps")

    def test_the_doctor_looks_at_the_keys_and_at_the_address(self):
        self.make_keys()
        done = self.run_command(the("build/troupe doctor"))
        self.assert_well(done)
        self.assertRegex(done.stdout, r"peers would reach this process at tcp://10\.0\.0\.7:\d+")
        self.assertRegex(done.stdout, r"loopback +.*encrypted")


class ByHand(Page):
    def test_nodes_join_the_address_with_the_keys(self):
        self.make_keys()
        training = self.begin_command(the("build/troupe train configs/sync.toml --listen"), "training")
        nodes = [self.begin_command(the("build/troupe node --join"), f"node{n}") for n in range(2)]
        self.assertEqual(training.wait(100), 0, (self.folder / "training").read_text())
        self.assertEqual([node.wait(30) for node in nodes], [0, 0])


class OverSsh(Page):
    def ssh_daemon(self):
        """A real sshd at both addresses, and an `ssh` that knows its key and this user's."""
        for key in ("host_key", "id"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        (self.folder / "authorized_keys").write_text((self.folder / "id.pub").read_text())
        (self.folder / "known_hosts").write_text("lab " + (self.folder / "host_key.pub").read_text())
        self.write("sshd_config", f"ListenAddress 10.0.0.7\nListenAddress 10.0.0.8\nPort 22\n"
                                  f"HostKey {self.folder}/host_key\nAuthorizedKeysFile {self.folder}/authorized_keys\n"
                                  "StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n"
                                  "PermitRootLogin prohibit-password\nMaxStartups 100\n")
        self.write("ssh_config", f"Host *\n  HostKeyAlias lab\n  IdentitiesOnly yes\n  IdentityFile {self.folder}/id\n"
                                 f"  UserKnownHostsFile {self.folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
                                 "  StrictHostKeyChecking yes\n")
        (self.folder / "bin").mkdir()
        (self.folder / "bin/ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.folder}/ssh_config "$@"\n')
        (self.folder / "bin/ssh").chmod(0o755)
        Path("/run/sshd").mkdir(exist_ok=True)  # as Debian's service does before it starts one
        self.begin_command(f"/usr/sbin/sshd -D -e -f {self.folder}/sshd_config", "sshd")
        self.wait_for(lambda: (self.folder / "sshd").read_text().count("listening on") == 2, "no sshd")
        return {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def test_what_would_run_is_shown(self):
        done = self.run_command(the("build/troupe launch configs/sync.toml --hosts"))
        self.assert_well(done)
        self.assertEqual([line.split(" -- ")[1].split()[0] for line in done.stdout.splitlines()[1:]],
                         ["node1", "node1", "node2", "node2"])

    def test_two_hosts_train(self):
        if not Path("/usr/sbin/sshd").exists():
            self.skipTest("openssh-server is not installed (tools/install --test)")
        self.make_keys()
        done = self.run_command(the("build/troupe launch configs/sync.toml -H"), SHORT | self.ssh_daemon())
        self.assert_well(done)
        (folder,) = self.run_folders()
        self.assertEqual(len(list((folder / "logs").glob("node-*.log"))), 4)


class InSlurm(Page):
    def test_the_batch_job_trains(self):
        if why := slurm.missing():
            self.skipTest(why)
        self.make_keys()
        with tempfile.TemporaryDirectory(prefix="troupe-slurm-") as folder:
            lab = slurm.Slurm(folder, nodes=2, before=self.network.before())
            self.addCleanup(lab.stop)
            if why := lab.start():
                self.skipTest(why)
            conf = {"SLURM_CONF": lab.environment["SLURM_CONF"]}
            done = self.run_command(the("sbatch") , SHORT | conf)
            self.assert_well(done)
            job = re.search(r"Submitted batch job (\d+)", done.stdout).group(1)
            output = self.folder / f"slurm-{job}.out"
            self.wait_for(lambda: not self.run_command(f"squeue -h -j {job}", conf).stdout.strip(), "it does not end",
                          100)
            self.assertIn("finished after 20 steps", output.read_text())
            self.assertTrue((self.folder / f"runs/slurm-{job}/summary.json").exists())
            lab.stop()


class Complete(Page):
    def test_every_command_of_the_page_is_run_here(self):
        run = [the(beginning) for beginning in re.findall(r"the\(\"([^\"]+)\"\)", Path(__file__).read_text())
               + re.findall(r"here\(\"([^\"]+)\"\)", Path(__file__).read_text())]
        self.assertEqual(sorted(set(COMMANDS) - set(run)), [])


closing.run()
