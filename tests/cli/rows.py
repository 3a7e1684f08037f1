#!/usr/bin/env python3
"""A layer by rows: workers pull and push the rows of the embedding that their batches name. Such runs over several
processes end with the parameters of a dense run in one process, whatever was lost on the way."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from cluster_runs import Cluster

CONFIG = """
[run]
name = "rows"
[data]
format = "text"
path = "."
train_text = "text.txt"
test_share = 0.2
[model]
kind = "gpt"
layers = 1
heads = 2
width = 16
context = 8
vocabulary = 2000
tied = false
sparse_embedding = true
[train]
epochs = 2
batch_size = 8
[optimizer]
name = "sgd"
learning_rate = 0.1
[parallel]
workers = 2
servers = 2
[[update]]
layers = "*"
mode = "sync"
[metrics]
sample_tokens = 0
"""
TEXT = "the quick brown fox jumps over the lazy dog\n" * 40
DENSE = "model.sparse_embedding=false"


class Rows(Cluster):
    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)
        self.write("rows.toml", CONFIG)

    def ends_well(self):
        code, out, err = self.ended(self.coordinator)
        self.assertEqual(code, 0, out + err)
        self.assertEqual(self.summary()["outcome"], "finished")

    def test_two_processes_train_by_rows_what_one_trains_densely_bit_for_bit(self):
        self.train(DENSE, run="dense", config="rows.toml")
        address = self.coordinate(config=CONFIG)
        nodes = [self.node(address, 0, "--takes", "servers"), self.node(address, 1, "--takes", "workers")]
        self.ends_well()
        self.assertEqual([self.ended(node)[0] for node in nodes], [0, 0])
        self.assertEqual(self.weights("run"), self.weights("dense"))

    def test_a_server_that_is_lost_and_had_a_replica_changes_nothing(self):
        self.lose_a_server("replicated")

    def test_a_server_that_is_lost_and_had_a_log_changes_nothing(self):
        self.lose_a_server("logged")

    def lose_a_server(self, durability):
        self.train("train.epochs=12", DENSE, run="dense", config="rows.toml")
        address = self.coordinate("train.epochs=12", "debug.slow_worker=0", "debug.slow_ms=15",
                                  f"checkpoint.durability={durability}", nodes=3, config=CONFIG)
        self.node(address, 0, "--takes", "workers")
        servers = [self.node(address, place, "--takes", "servers") for place in (1, 2)]
        self.wait_for(lambda: self.status()["step"] >= 30)
        servers[0].kill()
        self.node(address, 1, "--takes", "servers")
        self.ends_well()
        self.assertGreaterEqual(self.summary()["restarts"], 1)
        self.assertEqual(self.weights("run"), self.weights("dense"))

    def test_an_asynchronous_run_is_repeated_bit_for_bit(self):
        self.train("update=async", "debug.record=true", run="recorded", config="rows.toml")
        done = self.troupe("train", "--replay", "recorded", "--run-dir", "again")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.weights("again"), self.weights("recorded"))


class Refused(Cluster):
    def refused(self, *settings):
        self.write("text.txt", TEXT)
        self.write("rows.toml", CONFIG)
        done = self.troupe("check", "rows.toml", *(word for setting in settings for word in ("--set", setting)))
        self.assertEqual(done.returncode, 2, done.stdout)
        return done.stderr

    def test_what_cannot_be_by_rows_is_said_before_the_run_begins(self):
        for setting, why in {
            "model.tied=true": "the head reads every row of a tied embedding",
            "optimizer.momentum=0.9": "set optimizer.lazy_rows = true",
            "optimizer.name=adam": "set optimizer.lazy_rows = true",
            "optimizer.weight_decay=0.1": "by weight decay",
            "optimizer.name=lamb": "norm of the whole tensor",
            "update=all_reduce": "which all-reduces the embedding",
            "parallel.stages=2": "use one stage",
        }.items():
            with self.subTest(setting):
                self.assertIn(why, self.refused(setting))

    def test_lazy_rows_are_taken(self):
        self.write("text.txt", TEXT)
        self.write("rows.toml", CONFIG)
        self.train("optimizer.name=adamw", "optimizer.weight_decay=0.1", "optimizer.lazy_rows=true",
                   "train.clip_norm=1", config="rows.toml")
        self.assertEqual(self.summary()["outcome"], "finished")


closing.run()
