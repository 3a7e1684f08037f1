#!/usr/bin/env python3
"""Runs over several hosts, network namespaces that the test makes, whose network is cut, one way or both, and loses
packets."""
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
import network_hosts
from cluster_runs import LONG, Cluster
from network_hosts import BOTH, FROM, TO

FENCED = "the run goes on without this process"


class OverHosts(Cluster):
    """The coordinator on host 0, which no test cuts off."""

    @classmethod
    def setUpClass(cls):
        cls.why_not = network_hosts.missing()
        if cls.why_not:
            return
        cls.hosts = network_hosts.Hosts(5)
        cls.addClassCleanup(cls.hosts.close)
        cls.why_not = cls.hosts.start()

    def setUp(self):
        super().setUp()
        if self.why_not:
            self.skipTest(self.why_not)
        self.addCleanup(self.hosts.heal)
        self.assertEqual(self.troupe("keys", "keys").returncode, 0)

    def start(self, *arguments, host=0, **options):
        return super().start(*arguments, "--keys", "keys", before=self.hosts.before(host), **options)

    def coordinate(self, *arguments, nodes):
        return super().coordinate(*arguments, nodes=nodes, listen=f"{self.hosts.address(0)}:0")

    def node(self, address, host, takes="both"):
        return self.start("node", "--join", address, "--listen", f"{self.hosts.address(host)}:0", "--place", host - 1,
                          "--takes", takes, host=host)

    def status(self):
        done = self.troupe("status", "run", "--json", "--keys", "keys", before=self.hosts.before(0))
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def workers_at(self):
        """The host of each worker; 0 for one that is nowhere."""
        return [worker["node"] + 1 for worker in self.status()["workers"]]

    def goes_on(self):
        step = self.wait_for(self.status)["step"]
        self.wait_for(lambda: self.status()["step"] > step)


class Training(OverHosts):
    def test_three_hosts_train_bit_for_bit_what_one_process_does(self):
        self.train(run="alone")
        address = self.coordinate(nodes=3)
        nodes = [self.node(address, host) for host in (1, 2, 3)]
        code, out, err = self.ended(self.coordinator)
        self.assertEqual(code, 0, out + err)
        self.assertEqual([self.ended(node)[0] for node in nodes], [0, 0, 0])
        self.assertEqual(self.weights("run"), self.weights("alone"))


class Partition(OverHosts):
    """The servers on host 1, a worker on each of hosts 2 and 3; host 3 is the one that is cut off."""

    def begin(self, *arguments, spare=False):
        address = self.coordinate(*LONG, *arguments, nodes=3)
        nodes = [self.node(address, host, takes) for host, takes in ((1, "servers"), (2, "workers"), (3, "workers"))]
        self.wait_for(lambda: self.status()["step"] > 0)
        self.assertEqual(self.workers_at(), [2, 3])
        if spare:
            self.node(address, 4, "workers")
            self.wait_for(lambda: len(self.status()["nodes"]) == 4)
        self.cut_off = nodes[2]

    def assert_fenced(self):
        """After the network has healed, the process that was cut off ends by itself, and the run does not mind."""
        self.hosts.heal()
        code, _, err = self.ended(self.cut_off)
        self.assertEqual(code, 2, err)
        self.assertIn(FENCED, err)
        self.goes_on()

    def replaced_when_cut(self, *ways):
        self.begin("network.lease_ms=1000", spare=True)
        self.hosts.cut(3, *ways)
        self.wait_for(lambda: self.workers_at() == [2, 4])
        self.goes_on()
        self.assertIsNone(self.cut_off.poll())
        self.assert_fenced()
        self.assertEqual(self.workers_at(), [2, 4])

    def test_a_spare_host_replaces_one_that_is_cut_off(self):
        self.replaced_when_cut(*BOTH)

    def test_a_host_that_only_hears_is_replaced(self):
        self.replaced_when_cut(FROM)

    def test_a_host_that_is_only_heard_is_replaced(self):
        self.replaced_when_cut(TO)

    def test_the_others_go_on_without_a_host_that_is_cut_off(self):
        self.begin("network.lease_ms=1000", "elastic.on_loss=shrink")
        self.hosts.cut(3, *BOTH)
        self.wait_for(lambda: self.workers_at() == [2, 0])
        self.goes_on()
        self.assert_fenced()

    def test_a_partition_shorter_than_the_lease_costs_nothing(self):
        self.begin("network.lease_ms=5000")
        self.hosts.cut(3, *BOTH)
        time.sleep(1)
        self.hosts.heal()
        self.goes_on()
        self.assert_nobody_was_lost()

    def test_lost_packets_cost_time_alone(self):
        self.begin("network.lease_ms=5000")
        self.hosts.lose(3, percent=10)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            self.goes_on()
        self.hosts.heal()
        self.goes_on()
        self.assert_nobody_was_lost()

    def assert_nobody_was_lost(self):
        status = self.wait_for(self.status)
        self.assertEqual((status["worker_restarts"], status["server_restarts"]), (0, 0))
        self.assertEqual([node["state"] for node in status["nodes"]], ["ready"] * 3)


closing.run()
