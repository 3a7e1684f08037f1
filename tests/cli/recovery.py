#!/usr/bin/env python3
"""The coordinator of a run of several processes dies and is started again while its nodes go on."""
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from cluster_runs import LONG, Cluster

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
        self.assertNotIn("journal", self.names("run"))


class Refused(Recovery):
    def refused(self, *lines, arguments=()):
        done = self.troupe("train", "--recover", "run", *arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        for line in lines:
            self.assertRegex(done.stderr, line)

    def test_while_the_coordinator_lives_though_it_is_stopped(self):
        address = self.coordinate(*LONG, nodes=1)
        node = self.node(address)
        self.wait_for(lambda: self.status()["step"] > 0)
        self.coordinator.send_signal(signal.SIGSTOP)
        self.refused(rf"the run's coordinator lives \(process {self.coordinator.pid}\), though it may be stopped")
        self.coordinator.send_signal(signal.SIGCONT)
        self.wait_for(lambda: self.status()["step"] > 0)
        self.troupe("stop", "run")
        self.assertEqual(self.ended(self.coordinator)[0], 130)
        self.assertEqual(self.ended(node)[0], 0)

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
