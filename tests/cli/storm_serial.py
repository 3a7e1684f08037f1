#!/usr/bin/env python3
"""A short storm of kills: tools/storm with both durabilities. The long form is tools/storm itself."""
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import build, root


class Storm(unittest.TestCase):
    def storm(self, *arguments):
        seconds = float(os.environ.get("TROUPE_STORM_SECONDS", "60")) / 2
        done = subprocess.run([root / "tools/storm", "--build", build, "--seconds", str(seconds), *arguments],
                              capture_output=True, text=True, timeout=seconds + 240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r" 0 violations\n")
        print(done.stdout, end="")

    def test_nothing_acknowledged_is_lost_or_doubled_with_replicas(self):
        self.storm("--durability", "replicated", "--mode", "sync", "--seed", "1")

    def test_nothing_acknowledged_is_lost_or_doubled_with_logs(self):
        self.storm("--durability", "logged", "--mode", "async", "--seed", "2")


closing.run()
