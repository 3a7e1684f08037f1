#!/usr/bin/env python3
"""build/troupe-sim: no seed violates what is promised, and every fault made on purpose is found."""
import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import build

SEEDS = 5000
SEEDS_A_BUG = 2000
# They take a worker that is dropped while another is a step ahead, and one that is lost between a sum and its answer.
RARE = {"rebase_after_resize": 12000, "sum_said_again": 6000}
REPLICATION_SEEDS = 3000
REPLICATION_BUGS = {"ack_before_replica"}


def simulate(program, *arguments):
    return subprocess.run([build / program, *map(str, arguments)], capture_output=True, text=True, timeout=500)


class Seeds(unittest.TestCase):
    def test_no_seed_violates_a_rule(self):
        done = simulate("troupe-sim", "--seeds", f"0..{SEEDS - 1}", "--jobs", 2)
        self.assertEqual(done.returncode, 0, done.stdout[-20000:])
        self.assertIn(f"{SEEDS} seeds, 0 violating", done.stdout)

    def test_no_take_over_loses_or_doubles_what_was_acknowledged(self):
        done = simulate("troupe-sim", "--replication", "--seeds", f"0..{REPLICATION_SEEDS - 1}", "--jobs", 2)
        self.assertEqual(done.returncode, 0, done.stdout[-20000:])
        self.assertIn(f"{REPLICATION_SEEDS} seeds, 0 violating", done.stdout)

    def test_a_trace_tells_the_scenario_and_every_message(self):
        done = simulate("troupe-sim", "--seeds", 7, "--trace")
        self.assertEqual(done.returncode, 0)
        for text in ("network: loss", "Membership generation 1", "WorkDone number", "1 seeds, 0 violating"):
            self.assertIn(text, done.stdout)

    def test_a_crash_names_its_seed(self):
        simulator = subprocess.Popen([build / "troupe-sim", "--seeds", "0..100000000", "--jobs", "2"],
                                     stdout=subprocess.PIPE, text=True)
        children = []
        while len(children) < 2:
            self.assertIsNone(simulator.poll())
            children = Path(f"/proc/{simulator.pid}/task/{simulator.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        output, _ = simulator.communicate(timeout=60)
        self.assertEqual(simulator.returncode, 1, output)
        for seed, again in re.findall(r"seed (\d+) crashed .*\(signal 9, Killed\).*\nreplay: .* --seeds (\d+)\.\.", output):
            self.assertEqual(seed, again)
        self.assertEqual(len(re.findall(r"^seed \d+ crashed", output, re.MULTILINE)), 2, output)

    def test_wrong_arguments_are_refused(self):
        for arguments in ([], ["--seeds", "x"], ["--seeds", "5..3"], ["--jobs", "0"], ["--seeds", "1", "--bug", "none"]):
            with self.subTest(arguments):
                self.assertEqual(simulate("troupe-sim", *arguments).returncode, 2)


class Bugs(unittest.TestCase):
    def test_the_simulator_hands_a_fault_to_the_program_that_has_it(self):
        done = simulate("troupe-sim", "--bug", "no_dedup", "--seeds", f"0..{SEEDS_A_BUG - 1}", "--stop-after", 1)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("replay: build/troupe-sim-bugs --bug no_dedup ", done.stdout)

    def test_every_bug_is_found(self):
        names = simulate("troupe-sim-bugs", "--seeds", 0, "--bug", "?").stderr.split("there are ")[1].split()
        self.assertGreaterEqual(len(names), 30)
        for name in names:
            with self.subTest(name):
                world = ["--replication"] if name in REPLICATION_BUGS else []
                seeds = RARE.get(name, SEEDS_A_BUG)
                done = simulate("troupe-sim-bugs", *world, "--seeds", f"0..{seeds - 1}", "--jobs", 2,
                                "--stop-after", 1, "--bug", name)
                self.assertEqual(done.returncode, 1, f"{name} is not found in {seeds} seeds")
                self.assertRegex(done.stdout, rf"seed \d+ violates (.|\n)*replay: build/troupe-sim-bugs --bug {name} ")

    def test_without_a_bug_the_same_program_finds_nothing(self):
        self.assertEqual(simulate("troupe-sim-bugs", "--seeds", "0..199").returncode, 0)


closing.run()
