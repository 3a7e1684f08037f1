#!/usr/bin/env python3
"""`troupe train --processes` and `troupe launch`: the processes of a run, how they end, and what is said about it."""
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case, build, settings

LONG = ("train.epochs=100000", "checkpoint.every_steps=100")


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    except OSError:
        return []


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Launch(Case):
    def setUp(self):
        super().setUp()
        self.write("tiny.toml", TINY)

    def wait_until(self, holds, what, seconds=60):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def begin(self, *arguments, processes=2, run="run"):
        """A long run that takes steps; its launcher."""
        process = self.start("train", "tiny.toml", "--processes", processes, "--run-dir", run,
                             *settings(LONG + arguments),
                             stdout=open(self.folder / "out", "w"), stderr=open(self.folder / "err", "w"))
        self.wait_until(lambda: process.poll() is not None or re.search(r"^step [1-9]", self.said(), re.MULTILINE),
                        "no step")
        self.assertIsNone(process.poll(), self.said())
        return process

    def said(self):
        return (self.folder / "out").read_text() + (self.folder / "err").read_text()

    def children(self, process):
        """The launcher's processes: {"train": [pid], "node": [pid, pid]}, its guard among none of them."""
        found = {"train": [], "node": []}
        for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            words = command_line(pid)
            if len(words) > 1 and words[1] in found and "--death-fd" in words:
                found[words[1]].append(int(pid))
        return found

    def assert_nobody_is_left(self, pids):
        self.wait_until(lambda: not any(map(runs, pids)), f"still running: {[p for p in pids if runs(p)]}", seconds=10)


class Processes(Launch):
    def test_four_processes_train(self):
        done = self.troupe("train", "tiny.toml", "--processes", "4", "--run-dir", "run")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.summary()["outcome"], "finished")
        self.assertEqual(self.names("run/logs"), ["coordinator.log", *(f"node-{i}.log" for i in range(4))])

    def test_the_result_is_that_of_one_process(self):
        for name, extra in {"one": (), "four": ("--processes", "4")}.items():
            done = self.troupe("train", "tiny.toml", "--run-dir", name, *extra)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.weights("one"), self.weights("four"))

    def test_a_killed_node_is_in_the_table_and_nobody_is_left(self):
        launcher = self.begin("parallel.servers=1", processes=3)  # the last node has the server
        pids = self.children(launcher)
        victim = next(pid for pid in pids["node"] if command_line(pid)[command_line(pid).index("--place") + 1] == "0")
        os.kill(victim, signal.SIGKILL)
        self.wait_until(lambda: "[node 0] joined as node 0 (incarnation 2)" in self.said(), "not started again")
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual(launcher.wait(60), 130, self.said())
        self.assertRegex(self.said(), rf"node 0 +\S+ +{victim} +signal 9 \(Killed\) +started again")
        self.assert_nobody_is_left([*pids["train"], *pids["node"]])

    def test_a_killed_launcher_leaves_nobody(self):
        launcher = self.begin()
        pids = self.children(launcher)
        launcher.kill()
        launcher.wait()
        self.assert_nobody_is_left([*pids["train"], *pids["node"]])

    def test_ctrl_c_ends_the_run_with_a_checkpoint(self):
        launcher = self.begin()
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(launcher.wait(60), 130, self.said())
        self.assertEqual(self.summary()["outcome"], "interrupted")
        self.assertTrue(self.names("run/checkpoints"))

    def test_nodes_take_what_the_config_says_of_their_connections(self):
        for shared in ("true", "false"):
            with self.subTest(shared_memory=shared):
                launcher = self.begin(f"network.shared_memory={shared}", run=f"run-{shared}")
                rings = ["memfd:" in Path(f"/proc/{pid}/maps").read_text() for pid in self.children(launcher)["node"]]
                launcher.send_signal(signal.SIGINT)
                self.assertEqual(launcher.wait(60), 130, self.said())
                self.assertEqual(rings, [shared == "true"] * 2)
                self.assertNotIn("warning", self.said())

    def test_a_mistake_in_the_config_starts_nobody(self):
        self.assert_refused(self.troupe("train", "tiny.toml", "--processes", "2", "--set", "train.epoch=1"),
                            "error: command line: unknown key train.epoch; did you mean train.epochs?")
        self.assertEqual(self.names(), ["tiny.toml"])


class Environment(Launch):
    def test_two_processes_find_their_places(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        ranks = [subprocess.Popen([build / "troupe", "launch", "tiny.toml", "--run-dir", "run"], cwd=self.folder,
                                  env=self.environment({"TROUPE_RANK": str(rank), "TROUPE_SIZE": "2",
                                                        "TROUPE_COORDINATOR": f"127.0.0.1:{port}"}),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in (0, 1)]
        for rank in ranks:
            self.addCleanup(self.end, rank)
        for rank in ranks:
            output, _ = rank.communicate(timeout=60)
            self.assertEqual(rank.returncode, 0, output)
        self.assertEqual(self.summary()["outcome"], "finished")

    def test_the_command_line_stands_above_the_environment(self):
        done = self.troupe("launch", "tiny.toml", "--rank", "1", "--size", "3", "--coordinator", "n1:9", "--dry-run",
                           "--insecure-network", environment={"TROUPE_RANK": "0", "TROUPE_SIZE": "2"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\A\S+ node --join n1:9 --place 1 .*\n\Z")

    def test_no_place_and_no_hosts_is_refused(self):
        done = self.troupe("launch", "tiny.toml", environment={"SLURM_JOB_ID": ""})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"\Aerror: no hosts \(--hosts FILE, .*--processes N\n\Z")

    def test_a_network_without_keys_is_refused(self):
        done = self.troupe("launch", "tiny.toml", "--rank", "0", "--size", "2", "--coordinator", "n1:9")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr,
                         r"\Aerror: the coordinator would listen at \*:9, .*troupe keys .*--insecure-network.*\n\Z")

    def test_a_mistake_in_a_hostfile_has_its_line(self):
        self.write("hosts.txt", "a slots=2\nb slots=x\n")
        self.assert_refused(self.troupe("launch", "tiny.toml", "--hosts", "hosts.txt"),
                            "error: hosts.txt:2: slots=x: must be from 1 to 65536")

    def test_what_would_run_over_ssh_is_shown(self):
        done = self.troupe("launch", "tiny.toml", "-H", "a:2,ada@b", "--listen", "10.0.0.1:0", "--keys", "k",
                           "--dry-run",
                           "--ssh", "ssh -F cfg", "--remote-troupe", "/opt/troupe", "--remote-dir", "/data")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertIn("--nodes 3 --listen 10.0.0.1:0 --announce", lines[0])
        for place, host in enumerate(("a", "a", "ada@b")):
            self.assertTrue(re.match(rf"ssh -F cfg .* -- {host} '.*cd /data .*exec /opt/troupe node --join ADDRESS "
                                     rf"--place {place} ", lines[place + 1]), lines[place + 1])


closing.run()
