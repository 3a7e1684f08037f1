#!/usr/bin/env python3
"""Runs of several processes: nodes join a coordinator, train what one process trains, and survive each other's end."""
import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from cluster_runs import LONG, Cluster
from program import TINY, inherited_files

class Training(Cluster):
    def test_two_processes_train_bit_for_bit_what_one_does(self):
        self.train(run="alone")
        address = self.coordinate()
        nodes = [self.node(address, place) for place in (0, 1)]
        code, out, err = self.ended(self.coordinator)
        self.assertEqual(code, 0, out + err)
        for node in nodes:
            self.assertEqual(self.ended(node)[0], 0)
        self.assertEqual(self.weights("run"), self.weights("alone"))

    def test_every_policy_trains(self):
        address = self.coordinate("update=fc1:all_reduce,*:async", "train.epochs=3")
        nodes = [self.node(address) for _ in range(2)]
        code, out, err = self.ended(self.coordinator)
        self.assertEqual(code, 0, out + err)
        self.assertEqual([self.ended(node)[0] for node in nodes], [0, 0])
        self.assertEqual(self.summary()["steps"], 3 * 128 / 16)

    def test_status_shows_who_holds_what_and_stop_ends_with_a_checkpoint(self):
        address = self.coordinate(*LONG)
        nodes = [self.node(address, place) for place in (0, 1)]
        status = self.wait_for(lambda: self.status() if self.status()["step"] > 0 else None)
        held = sorted(slot for node in status["nodes"] for slot in node["holds"])
        self.assertEqual(held, ["server 0", "server 1", "worker 0", "worker 1"])
        self.assertEqual([node["state"] for node in status["nodes"]], ["ready", "ready"])
        self.assertEqual([inherited_files(process) for process in (self.coordinator, *nodes)], [[], [], []])
        text = self.troupe("status", "run").stdout
        self.assertRegex(text, r"\A(running|at a step boundary), step \d+ of ")
        self.assertEqual(self.troupe("stop", "run").returncode, 0)
        self.assertEqual(self.ended(self.coordinator)[0], 130)
        self.assertEqual([self.ended(node)[0] for node in nodes], [0, 0])
        self.assertEqual(self.troupe("ckpt", "verify", "run").returncode, 0)


class Failures(Cluster):
    def test_a_killed_worker_process_is_replaced_and_training_goes_on(self):
        address = self.coordinate(*LONG)
        self.node(address, 0, "--takes", "servers")
        worker = self.node(address, 1, "--takes", "workers")
        self.wait_for(lambda: self.status()["step"] > 0)
        worker.kill()
        self.node(address, 1, "--takes", "workers")
        self.wait_for(lambda: self.status()["worker_restarts"] == 2)
        step = self.status()["step"]
        self.wait_for(lambda: self.status()["step"] > step)
        self.troupe("stop", "run")
        self.assertEqual(self.ended(self.coordinator)[0], 130)

    def test_a_stopped_process_is_fenced_and_ends_when_it_goes_on(self):
        address = self.coordinate(*LONG, "network.lease_ms=1500", "elastic.replace_ms=0")
        self.node(address, 0)
        sleeper = self.node(address, 1, "--takes", "workers")
        self.wait_for(lambda: self.status()["step"] > 0)
        sleeper.send_signal(signal.SIGSTOP)
        self.wait_for(lambda: self.status()["worker_restarts"] >= 1)
        step = self.status()["step"]
        self.wait_for(lambda: self.status()["step"] > step)
        sleeper.send_signal(signal.SIGCONT)
        code, _, err = self.ended(sleeper)
        self.assertEqual(code, 2)
        self.assertIn("the run goes on without this process", err)

    def test_a_node_of_another_run_is_refused_and_nothing_happens_to_the_run(self):
        address = self.coordinate(nodes=1)
        self.write("other.toml", TINY.replace("hidden = [8]", "hidden = [9]"))
        code, _, err = self.ended(self.node(address, 5, "other.toml"))
        self.assertEqual(code, 2)
        self.assertRegex(err, r"error: the run at \S+: its config is another: hash \w+, the run's is \w+")
        self.node(address)
        self.assertEqual(self.ended(self.coordinator)[0], 0)

    def test_a_node_whose_connections_differ_from_what_the_config_says_warns(self):
        address = self.coordinate("update=sync", "network.shared_memory=false")
        nodes = [self.node(address, 0), self.node(address, 1, "--set", "network.shared_memory=false")]
        self.assertEqual(self.ended(self.coordinator)[0], 0)
        other, same = (self.ended(node)[2] for node in nodes)
        self.assertIn("warning: [network]: the run has network.shared_memory=false, this node was started with the "
                      "defaults: give it the run's CONFIG, or --set", other)
        self.assertNotIn("warning", same)

    def test_a_node_without_a_config_has_only_connections_of_its_own(self):
        self.assert_refused(self.troupe("node", "--join", "127.0.0.1:1", "--set", "train.epochs=3"),
                            "error: --set train.epochs=3: a node without CONFIG takes the run's; of its own it can have "
                            "network.* alone")

    def test_whoever_is_missing_at_the_start_is_named(self):
        address = self.coordinate("network.start_timeout_s=1")
        node = self.node(address, 1)
        code, _, err = self.ended(self.coordinator)
        self.assertEqual(code, 1)
        self.assertIn("the run did not begin within 1 s: 1 of 2 nodes have joined; missing: node 0", err)
        self.assertEqual(self.ended(node)[0], 0)

    def test_a_node_whose_coordinator_is_gone_gives_up(self):
        address = self.coordinate(*LONG, nodes=1)
        node = self.node(address, 0, "--give-up", "1")
        self.wait_for(lambda: self.status()["step"] > 0)
        self.coordinator.kill()
        code, _, err = self.ended(node)
        self.assertEqual(code, 1)
        self.assertIn("nothing was heard of its coordinator for", err)


class Elastic(Cluster):
    def three_nodes(self, *arguments):
        """One for the servers, two for a worker each."""
        address = self.coordinate(*LONG, *arguments, nodes=3)
        nodes = [self.node(address, place, "--takes", takes)
                 for place, takes in enumerate(("servers", "workers", "workers"))]
        self.wait_for(lambda: self.status()["step"] > 0)
        return address, nodes

    def goes_on(self):
        step = self.wait_for(self.status)["step"]
        self.wait_for(lambda: self.status()["step"] > step)

    def test_the_others_go_on_without_a_lost_worker_until_a_node_comes(self):
        for mode in ("sync", "async"):
            with self.subTest(mode):
                address, nodes = self.three_nodes("elastic.on_loss=shrink", f"update={mode}")
                nodes[2].kill()
                self.wait_for(lambda: [w["node"] for w in self.status()["workers"]].count(-1) == 1)
                self.goes_on()
                self.node(address, 2, "--takes", "workers")
                self.wait_for(lambda: -1 not in [w["node"] for w in self.status()["workers"]])
                self.goes_on()
                self.troupe("stop", "run")
                code, out, err = self.ended(self.coordinator)
                self.assertEqual(code, 130, out + err)
                self.assertRegex(out + err, r"1 go on without it")
                self.assertRegex(out + err, r"worker [01] works again")
                self.doCleanups()
                self.setUp()

    def test_a_node_that_leaves_is_relieved_first(self):
        address, nodes = self.three_nodes()
        nodes[2].terminate()
        self.assertEqual(self.ended(nodes[2])[0], 0)
        self.assertEqual({w["node"] for w in self.status()["workers"]}, {1})
        self.goes_on()
        self.node(address, 2, "--takes", "workers")  # and takes a part again
        self.wait_for(lambda: {w["node"] for w in self.status()["workers"]} == {1, 2})
        self.goes_on()

    def test_when_the_last_that_takes_workers_leaves_the_run_ends_with_a_checkpoint(self):
        address = self.coordinate(*LONG, nodes=2)
        nodes = [self.node(address, place, "--takes", takes) for place, takes in enumerate(("servers", "workers"))]
        self.wait_for(lambda: self.status()["step"] > 0)
        nodes[1].terminate()
        self.assertEqual(self.ended(self.coordinator)[0], 130)
        self.assertEqual([self.ended(node)[0] for node in nodes], [0, 0])
        self.assertEqual(self.troupe("ckpt", "verify", "run").returncode, 0)

    def test_when_all_leave_at_once_the_run_ends_with_a_checkpoint(self):
        address = self.coordinate(*LONG, "checkpoint.durability=replicated", nodes=4)
        nodes = [self.node(address, place) for place in range(4)]
        self.wait_for(lambda: self.status()["step"] > 0)
        for node in nodes:
            node.terminate()
        code, out, err = self.ended(self.coordinator)
        self.assertEqual(code, 130, out + err)
        self.assertEqual([self.ended(node)[0] for node in nodes], [0, 0, 0, 0])
        self.assertEqual(self.troupe("ckpt", "verify", "run").returncode, 0)

    def test_the_run_ends_when_fewer_workers_are_left_than_it_needs(self):
        address, nodes = self.three_nodes("elastic.on_loss=shrink", "elastic.min_workers=2")
        nodes[2].kill()
        code, _, err = self.ended(self.coordinator)
        self.assertEqual(code, 1)
        self.assertIn("1 workers are left, and elastic.min_workers = 2", err)


class Arguments(Cluster):
    def test_listening_needs_a_number_of_nodes(self):
        self.write("tiny.toml", TINY)
        done = self.troupe("train", "tiny.toml", "--listen", "127.0.0.1:0")
        self.assert_refused(done, "error: --listen needs --nodes N, how many the run begins with")

    def test_another_address_than_loopback_needs_keys(self):
        self.write("tiny.toml", TINY)
        done = self.troupe("train", "tiny.toml", "--listen", "0.0.0.0:0", "--nodes", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--insecure-network", done.stderr.replace("insecure_network", "--insecure-network"))
        self.assertEqual(self.names(), ["tiny.toml"])

    def test_a_port_in_use_is_said(self):
        address = self.coordinate(nodes=1)
        port = re.search(r":(\d+)$", address).group(1)
        done = self.troupe("train", "tiny.toml", "--run-dir", "second", "--listen", f"127.0.0.1:{port}", "--nodes", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn(port, done.stderr)

    def test_status_of_a_folder_that_is_not_there(self):
        self.assert_refused(self.troupe("status", "runs/typo"), "error: runs/typo: there is no such folder; name a run's "
                                                                "folder, or its coordinator's HOST:PORT")

    def test_status_of_a_run_that_does_not_answer(self):
        done = self.troupe("status", "127.0.0.1:9", "--timeout", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did not answer within 1 s", done.stderr)


closing.run()
