#!/usr/bin/env python3
"""`metrics.trace`: what workers and servers did when, in a file that Chrome opens, and `troupe trace summary`."""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import Case


# Seven layers of 400 KB, each a bucket, of which the first to come are ready long before the pass is over.
WIDE = """
[data]
format = "synthetic"
samples = 512
features = 320
[model]
hidden = [320, 320, 320, 320, 320, 320]
[train]
epochs = 0
max_steps = 12
batch_size = 128
[parallel]
workers = 2
bucket_bytes = 4096
reduce_threads = 1
[[update]]
mode = "all_reduce"
"""


class Traces(Case):
    def events(self):
        return json.loads((self.folder / "run/trace.json").read_text())["traceEvents"]

    def spans(self, track):
        events = self.events()
        rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        return [e for e in events if e["ph"] == "X" and rows[e["pid"], e["tid"]] == track]

    def test_a_run_has_no_trace_unless_it_wants_one(self):
        self.train()
        self.assertNotIn("trace.json", self.names("run"))

    def test_a_step_is_prepared_forward_and_backward(self):
        self.train("metrics.trace=true", "metrics.trace_first_step=2", "metrics.trace_last_step=3")
        spans = self.spans("worker 1 compute")
        self.assertEqual({e["args"]["step"] for e in spans}, {2, 3})
        names = {e["name"] for e in spans if e["args"]["step"] == 3}
        self.assertTrue({"forward", "backward", "gradient ready"} <= names, names)

    def test_an_arrow_leads_from_every_push_to_where_it_is_applied(self):
        self.train("metrics.trace=true")
        leave = sorted(e["id"] for e in self.events() if e["ph"] == "s")
        arrive = sorted(e["id"] for e in self.events() if e["ph"] == "f")
        self.assertEqual(leave, arrive)
        self.assertEqual(len(leave), len(set(leave)))
        pushes = len(self.spans("worker 0")) + len(self.spans("worker 1"))
        self.assertEqual(len(leave), sum(e["name"] == "push" for w in (0, 1) for e in self.spans(f"worker {w}")))
        self.assertGreater(pushes, 16)

    def test_workers_reduce_what_they_have_computed(self):
        self.train("update=all_reduce", "metrics.trace=true", "parallel.reduce_threads=0")
        rows = [self.spans(f"worker {w} compute") for w in (0, 1)]
        self.assertIn("reduce", {e["name"] for row in rows for e in row})

    def test_early_buckets_are_reduced_while_the_backward_pass_goes_on(self):
        self.write("wide.toml", WIDE)
        self.train("metrics.trace=true", config="wide.toml")
        reduced = self.spans("reduce 0")
        backward = [e for w in (0, 1) for e in self.spans(f"worker {w} compute") if e["name"] == "backward"]
        during = [r for r in reduced for b in backward
                  if b["args"]["step"] == r["args"]["step"] and b["ts"] <= r["ts"] < b["ts"] + b["dur"]]
        self.assertTrue(during, f"{len(reduced)} reductions, none during one of {len(backward)} backward passes")

    def test_a_summary_says_how_busy_every_track_was(self):
        self.train("metrics.trace=true")
        done = self.troupe("trace", "summary", "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        first = [line.split() for line in done.stdout.split("\n\n")[0].splitlines()]
        self.assertEqual(first[0], ["track", "events", "busy", "idle"])
        self.assertIn(["server", "0"], [row[:2] for row in first])
        self.assertIn("longest gaps:", done.stdout)

    def test_a_run_without_a_trace_is_told_how_to_get_one(self):
        self.train()
        self.assert_refused(self.troupe("trace", "summary", "run"),
                            "error: run: holds no trace; train with --set metrics.trace=true to have one")


closing.run()
