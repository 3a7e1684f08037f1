#!/usr/bin/env python3
"""all_reduce over several processes: each sums what its workers computed, says it once, and fetches weights once."""
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from cluster_runs import LONG, Cluster

FOUR = ("parallel.workers=4", "parallel.servers=1", "update=all_reduce")


class Hierarchy(Cluster):
    def floats(self, run):
        """The exported parameters, without their header."""
        data = self.weights(run)
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        return struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])

    def traffic(self, run):
        """Bytes that the server was pushed and that were pulled from it."""
        layers = self.summary(run)["layers"]
        return [sum(layer[key] for layer in layers) for key in ("bytes_pushed", "bytes_pulled")]

    def two_by_two(self, *arguments):
        """A node for the server, and two that hold two workers each."""
        address = self.coordinate(*FOUR, *arguments, nodes=3)
        nodes = [self.node(address, place, "--takes", takes)
                 for place, takes in enumerate(("servers", "workers", "workers"))]
        return address, nodes

    def test_two_processes_of_two_workers_train_what_one_of_four_does(self):
        self.train(*FOUR, run="alone")
        _, nodes = self.two_by_two()
        code, out, err = self.ended(self.coordinator)
        self.assertEqual(code, 0, out + err)
        self.assertEqual([self.ended(node)[0] for node in nodes], [0, 0, 0])
        for one, other in zip(self.floats("run"), self.floats("alone"), strict=True):
            self.assertLessEqual(abs(one - other), 1e-5 * max(abs(one), abs(other), 1e-3))

    def test_each_process_pushes_and_pulls_once_a_step(self):
        traffic = {}
        for mode in ("all_reduce", "sync"):
            address = self.coordinate(*FOUR[:2], f"update={mode}", "train.epochs=10", nodes=3, run=mode)
            nodes = [self.node(address, place, "--takes", takes)
                     for place, takes in enumerate(("servers", "workers", "workers"))]
            code, out, err = self.ended(self.coordinator)
            self.assertEqual(code, 0, out + err)
            for node in nodes:
                self.ended(node)
            traffic[mode] = self.traffic(mode)
            (self.folder / "announced").unlink()
        steps = self.summary("sync")["steps"]
        model = traffic["sync"][0] // (4 * steps)
        # A worker's first push goes for itself; then one of each process says the sum.
        self.assertEqual(traffic["all_reduce"][0], model * (4 + 2 * (steps - 1)), traffic)
        self.assertLess(traffic["all_reduce"][1], 0.6 * traffic["sync"][1], traffic)

    def test_a_killed_process_is_replaced_and_training_goes_on(self):
        address, nodes = self.two_by_two(*LONG)
        self.wait_for(lambda: self.status()["step"] > 0)
        nodes[2].kill()
        self.node(address, 2, "--takes", "workers")
        self.wait_for(lambda: self.status()["worker_restarts"] >= 2)
        step = self.status()["step"]
        self.wait_for(lambda: self.status()["step"] > step + 10)
        self.troupe("stop", "run")
        self.assertEqual(self.ended(self.coordinator)[0], 130)


closing.run()
