#!/usr/bin/env python3
"""`troupe doctor` and `troupe bench push-pull|latency`: what they look at and the form in which they say it."""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case


class Doctor(Case):
    def test_a_machine_that_is_well_gives_0_and_a_line_for_everything(self):
        self.write("tiny.toml", TINY)
        done = self.troupe("doctor", "tiny.toml", "--listen", "127.0.0.1:0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for what in ("disk", "loopback", "listen", "config"):
            self.assertRegex(done.stdout, rf"(?m)^\W*\w* *{what}\b")

    def test_keys_that_others_may_read_are_a_finding(self):
        self.assertEqual(self.troupe("keys", "run.keys").returncode, 0)
        for file in (self.folder / "run.keys").iterdir():
            file.chmod(0o644)
        done = self.troupe("doctor", "--keys", "run.keys")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertRegex(done.stdout, r"BAD  keys +run\.keys/node\.key: mode 0644")


class Bench(Case):
    def test_pushes_and_pulls_between_two_processes_are_measured_by_size_and_way(self):
        done = self.troupe("bench", "push-pull", "--sizes", "4096", "--via", "tcp,shm", "--operations", "push,pull",
                           "--seconds", "0.05", "--repetitions", "1", "--plain")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = [line.split() for line in done.stdout.splitlines()]
        measured = {tuple(word for word in line if word in ("push", "pull", "tcp", "shm")) for line in lines}
        self.assertEqual({frozenset(pair) for pair in measured if pair},
                         {frozenset(pair) for pair in (("push", "tcp"), ("pull", "tcp"), ("push", "shm"),
                                                       ("pull", "shm"))})
        for line in lines:
            self.assertTrue(any(re.fullmatch(r"[0-9.]+(e[+-]?\d+)?", word) for word in line), line)

    def test_round_trips_are_measured(self):
        done = self.troupe("bench", "latency", "--via", "shm", "--seconds", "0.05", "--repetitions", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\d us")


closing.run()
