#!/usr/bin/env python3
"""`troupe bench`: each measurement of the page runs, in a short form. What it says is tested where
speed has no part in it."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case


class Bench(Case):
    def bench(self, *arguments):
        done = self.troupe("bench", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_a_push_is_compared_with_reading_memory(self):
        out = self.bench("push", "--seconds", 0.01, "--repetitions", 1)
        self.assertRegex(out, r"(?m)^  of each of two workers, aggregated [\d.]+ %, target at least 60\.00 %: (met|missed)$")

    def test_a_pull_copies_nothing(self):
        self.assertIn("copies of the weights 1.00, target at most 1.00: met", self.bench("pull", "--seconds", 0.01))

    def test_no_mailbox_outgrows_its_credit(self):
        out = self.bench("many", "--workers", 50, "--servers", 3, "--steps", 4)
        self.assertIn("50 workers, 3 servers, async: 200 worker steps", out)
        self.assertIn("no mailbox grew past its credit", out)

    def test_actors_are_compared_with_a_plain_loop(self):
        self.write("tiny.toml", TINY)
        out = self.bench("overhead", "tiny.toml", "--steps", 4, "--repetitions", 1)
        self.assertRegex(out, r"(?m)^plain loop +\d+ +[\d.]+$")
        self.assertRegex(out, r"(?m)^actors +\d+ +[\d.]+$")

    def test_policies_are_compared_where_a_worker_is_slow(self):
        out = self.bench("policies", "--step-ms", 1, "--steps", 12, "--repetitions", 1)
        for policy in ("sync", "all_reduce", r"ssp\(3\)", "async"):
            self.assertRegex(out, rf"(?m)^{policy} +\d+ +\d+ +\d+ % +[\d.]+ %$")

    def test_rows_are_pushed_and_pulled_between_two_processes(self):
        out = self.bench("push-pull", "--rows", 50, "--width", 8, "--table", 1000, "--via", "shm,tcp", "--seconds",
                         0.01, "--repetitions", 1)
        for via in ("shm", "tcp"):
            self.assertRegex(out, rf"(?m)^50 of 8 +push-pull +{via} +[\d.]+ us +4 +\d+ +[\d.]+$")

    def test_two_workers_are_compared_with_one(self):
        self.write("tiny.toml", TINY)
        out = self.bench("scaling", "tiny.toml", "--steps", 4, "--repetitions", 1)
        self.assertRegex(out, r"two workers are as fast as one, times [\d.]+, target at least 1\.70: (met|missed)")


closing.run()
