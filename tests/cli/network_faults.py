#!/usr/bin/env python3
"""Real processes over a network that loses, doubles, delays and reorders messages: every update counts once."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from cluster_runs import Cluster
from fault_proxy import FaultProxy


def host_port(address):
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return host, int(port)


class Faults(Cluster):
    def proxy(self, address, seed, **faults):
        proxy = FaultProxy(host_port(address), seed, **faults)
        self.addCleanup(proxy.close)
        return proxy

    def test_over_a_lossy_network_two_processes_train_bit_for_bit_what_one_does(self):
        self.train("update=sync", run="alone")
        for seed, faults in enumerate(({"loss": 0.01}, {"loss": 0.1, "doubling": 0.1, "delay_s": 0.02})):
            with self.subTest(faults):
                run = f"run{seed}"
                address = self.coordinate("update=sync", "network.shared_memory=false", run=run)
                proxy = self.proxy(address, seed, **faults)
                nodes = [self.node(proxy.address, place) for place in (0, 1)]
                code, out, err = self.ended(self.coordinator, timeout_s=60)
                self.assertEqual(code, 0, out + err)
                for node in nodes:
                    self.assertEqual(self.ended(node)[0], 0)
                self.assertEqual(self.weights(run), self.weights("alone"))
                self.assertGreater(proxy.counts["lost"], 0)
                (self.folder / "announced").unlink()

    def test_the_proxy_injects_what_it_says(self):
        address = self.coordinate("update=sync", "train.epochs=20", "network.shared_memory=false")
        proxy = self.proxy(address, 7, loss=0.1, doubling=0.2, delay_s=0.005)
        for place in (0, 1):
            self.node(proxy.address, place)
        self.assertEqual(self.ended(self.coordinator, timeout_s=90)[0], 0)
        counts = proxy.counts
        self.assertGreater(counts["messages"], 500)
        self.assertAlmostEqual(counts["lost"] / counts["messages"], 0.1, delta=0.05)
        self.assertAlmostEqual(counts["doubled"] / counts["messages"], 0.2, delta=0.07)
        self.assertGreater(counts["overtaken"], 0)


closing.run()
