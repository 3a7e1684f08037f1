#!/usr/bin/env python3
"""The coordinator of a run of several processes dies and is started again while its nodes go on."""
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from cluster_runs import Cluster

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


closing.run()
