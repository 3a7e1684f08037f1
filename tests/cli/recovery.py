#!/usr/bin/env python3
"""The coordinator of a run of several processes dies and is started again while its nodes go on."""
import re
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from cluster_runs import LONG, Cluster
from fault_proxy import FaultProxy

SLOW = ("debug.slow_worker=0", "debug.slow_ms=20")  # 128 / 16 steps an epoch, each at least 20 ms


class Recovery(Cluster):
    def recover(self, run="run", *arguments):
        (self.folder / "announced").unlink(missing_ok=True)
        self.coordinator = self.start("train", "--recover", run, "--announce", "announced", *arguments)
        return self.wait_for(lambda: (self.folder / "announced").read_text().splitlines()[0])

    def kill_coordinator(self):
        self.coordinator.kill()
        self.coordinator.wait()

    def both_end_well(self, nodes):
        code, out, err = self.ended(self.coordinator)
        self.assertEqual(code, 0, out + err)
        self.assertEqual([self.ended(node)[0] for node in nodes], [0, 0])
        return out


class Killed(Recovery):
    def test_training_goes_on_and_its_result_is_that_of_a_run_that_nothing_happened_to(self):
        settings = ("train.epochs=12", "checkpoint.every_steps=7", *SLOW)
        self.train(*settings[:2], run="alone")
        address = self.coordinate(*settings)
        nodes = [self.node(address, place) for place in (0, 1)]
        for step in (20, 50):
            self.wait_for(lambda: self.status()["step"] >= step)
            self.kill_coordinator()
            begin = time.monotonic()
            self.assertEqual(self.recover(), address)
            self.wait_for(lambda: self.status()["step"] > step + 1)
            self.assertLess(time.monotonic() - begin, 20)
        status = self.status()
        self.assertEqual(status["coordinator_restarts"], 2)
        self.assertEqual([status["worker_restarts"], status["server_restarts"]], [0, 0])
        self.both_end_well(nodes)
        summary = self.summary()
        self.assertEqual([summary["steps"], summary["outcome"]], [12 * 128 / 16, "finished"])
        self.assertEqual(self.weights("run"), self.weights("alone"))
        steps = [int(line.split(",")[1]) for line in (self.folder / "run/metrics.csv").read_text().splitlines()[1:]]
        self.assertEqual(steps, sorted(steps))
        self.assertIn("the coordinator was started again", (self.folder / "run/log.txt").read_text())
        self.assertFalse(list((self.folder / "run").glob("config.until-*")))
        self.assertNotIn("journal", self.names("run"))


class Superseded(Recovery):
    def test_a_coordinator_that_was_stopped_and_replaced_gives_way_when_it_goes_on(self):
        settings = ("train.epochs=16", "checkpoint.every_steps=7", *SLOW)
        self.train(*settings[:2], run="alone")
        proxy = FaultProxy(("127.0.0.1", 1), seed=1)  # nodes look for the coordinator behind it
        self.addCleanup(proxy.close)
        self.coordinate(*settings, "--advertise", proxy.address)
        proxy.turn_to(("127.0.0.1", self.port_of(self.coordinator)))
        nodes = [self.node(proxy.address, place) for place in (0, 1)]
        self.wait_for(lambda: self.status()["step"] >= 20)
        old = self.coordinator
        old.send_signal(signal.SIGSTOP)
        (self.folder / "run/journal/lock").unlink()  # or a disk that knows no locks
        self.recover("run", "--listen", "127.0.0.1:0", "--advertise", proxy.address)
        proxy.turn_to(("127.0.0.1", self.port_of(self.coordinator)))
        self.wait_for(lambda: self.status()["step"] >= 40)
        old.send_signal(signal.SIGCONT)
        code, out, err = self.ended(old)
        self.assertEqual(code, 1, out + err)
        self.assertIn("another process has gone on as the coordinator of this run", out + err)
        self.assertIn("journal", self.names("run"))  # the other one's
        step = self.status()["step"]
        self.wait_for(lambda: self.status()["step"] > step)
        self.both_end_well(nodes)
        self.assertEqual(self.summary()["outcome"], "finished")
        self.assertEqual(self.weights("run"), self.weights("alone"))

    def port_of(self, process):
        """That it listens on."""
        def find():
            inodes = {re.match(r"socket:\[(\d+)\]", str(path.readlink())) for path in
                      Path(f"/proc/{process.pid}/fd").iterdir()}
            inodes = {found.group(1) for found in inodes if found}
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    return int(fields[1].split(":")[1], 16)
        return self.wait_for(find)


class LostServer(Cluster):
    def test_it_goes_on_from_the_newest_checkpoint_and_what_it_lost_is_reported(self):
        address = self.coordinate("train.epochs=60", "checkpoint.every_steps=8", "update=fc1:sync,*:async", *SLOW,
                                  nodes=3)
        self.node(address, 0, "--takes", "workers")
        servers = [self.node(address, place, "--takes", "servers") for place in (1, 2)]
        self.wait_for(lambda: self.status()["step"] >= 20)
        servers[0].kill()
        self.node(address, 1, "--takes", "servers")
        self.wait_for(lambda: self.status()["server_restarts"] == 1)
        step = self.status()["step"]
        status = self.wait_for(lambda: self.status() if self.status()["step"] > step + 2 else None)
        self.assertTrue(status["lost"])
        for lost in status["lost"]:
            self.assertEqual(lost["from_step"] % 8, 0)
            self.assertGreaterEqual(lost["from_step"], 16)
            self.assertGreaterEqual(lost["to_step"], lost["from_step"])
        sentence = r"layer fc\d \[\d+, \d+\) of server \d is as before step \d+ \(\d+ updates\)"
        self.assertRegex(self.troupe("status", "run").stdout, "\nlost: " + sentence)
        self.troupe("stop", "run")
        code, out, err = self.ended(self.coordinator)
        self.assertEqual(code, 130, out + err)
        self.assertRegex(out, "\nlost: " + sentence)
        log = (self.folder / "run/log.txt").read_text()
        self.assertRegex(log, r"server \d goes on from the checkpoint run/checkpoints/step-\d+")
        self.assertRegex(log, sentence)
        summary = self.summary()
        self.assertEqual(summary["lost"], status["lost"])
        self.assertEqual(summary["updates_lost"], sum(lost["updates_lost"] for lost in status["lost"]))

    def test_without_a_checkpoint_it_begins_anew_and_says_so(self):
        address = self.coordinate("train.epochs=60", "update=async", *SLOW)
        self.node(address, 0, "--takes", "workers")
        server = self.node(address, 1, "--takes", "servers")
        self.wait_for(lambda: self.status()["step"] >= 5)
        server.kill()
        self.node(address, 1, "--takes", "servers")
        step = self.wait_for(lambda: self.status()["server_restarts"] == 2 and self.status()["step"])
        self.wait_for(lambda: self.status()["step"] > step + 2)
        self.assertEqual({lost["from_step"] for lost in self.status()["lost"]}, {0})
        self.assertIn("there is no checkpoint yet", (self.folder / "run/log.txt").read_text())
        self.troupe("stop", "run")
        self.assertEqual(self.ended(self.coordinator)[0], 130)


class Refused(Recovery):
    def refused(self, *lines, arguments=()):
        done = self.troupe("train", "--recover", "run", *arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        for line in lines:
            self.assertRegex(done.stderr, line)

    def test_while_the_coordinator_lives_though_it_is_stopped(self):
        address = self.coordinate("train.epochs=100000", "checkpoint.every_steps=2", nodes=1)
        node = self.node(address)
        self.wait_for(lambda: self.status()["checkpoints"] > 0)
        self.coordinator.send_signal(signal.SIGSTOP)
        self.refused(rf"the run's coordinator lives \(process {self.coordinator.pid} on \S+\), though it may be stopped")
        done = self.troupe("train", "--resume", "run", "--set", "train.max_steps=1")
        self.assertRegex(done.stderr, r"the run's coordinator lives")
        self.assertEqual(done.returncode, 2)
        self.coordinator.send_signal(signal.SIGCONT)
        self.wait_for(lambda: self.status()["step"] > 0)
        self.troupe("stop", "run")
        self.assertEqual(self.ended(self.coordinator)[0], 130)
        self.assertEqual(self.ended(node)[0], 0)

    def test_on_another_machine_than_the_coordinators(self):
        address = self.coordinate("train.epochs=100000", "checkpoint.every_steps=2", nodes=1)
        self.node(address)
        self.wait_for(lambda: self.status()["checkpoints"] > 0)
        pid = self.coordinator.pid
        self.kill_coordinator()
        lock = self.folder / "run/journal/lock"
        lock.write_text(f"{pid}\nanother-boot\nnode7\n")
        self.refused(rf"the run's coordinator was process {pid} on node7, and this is another machine",
                     r"Make sure that it has ended, and delete run/journal/lock")
        done = self.troupe("train", "--resume", "run")
        self.assertRegex(done.stderr, r"the run's coordinator was process \d+ on node7")
        self.assertEqual(done.returncode, 2)
        lock.unlink()
        self.recover("run")
        self.wait_for(lambda: self.status()["coordinator_restarts"] == 1)

    def test_a_run_that_is_over_or_lived_in_one_process(self):
        self.train(run="run")
        self.refused("holds no journal to go on from: the run is over, or has lived in one process")

    def test_other_settings_than_the_runs(self):
        self.refused("takes neither CONFIG", arguments=("--set", "train.epochs=3"))

    def test_a_damaged_journal(self):
        address = self.coordinate(*LONG, nodes=1)
        self.node(address)
        self.wait_for(lambda: self.status()["step"] > 20)
        self.kill_coordinator()
        segment = self.folder / "run/journal/segment-000001"
        kept = bytearray(segment.read_bytes())
        kept[len(kept) // 2] ^= 1
        segment.write_bytes(kept)
        self.refused(r"from its last checkpoint \(--resume\): run/journal/segment-000001: .* at byte \d+")
        self.assertEqual(segment.read_bytes(), kept)


closing.run()
