#!/usr/bin/env python3
"""A full disk costs checkpoints and lines, which are counted, and never the run."""
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case, build, settings

# A mount namespace of the test's own: what is mounted goes with its last process, whatever happens.
NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]


def may_mount():
    tool = shutil.which("unshare")
    return tool and subprocess.run([*NAMESPACE, "sh", "-c", "mount -t tmpfs -o size=4k none /mnt"],
                                   capture_output=True).returncode == 0


@unittest.skipUnless(may_mount(), "mounting a small file system is not permitted here")
class FullDisk(Case):
    def train_on(self, size_k, *arguments, used_k=0):
        """Trains into a file system of so many kB; copies what is left in it to `kept`."""
        self.write("tiny.toml", TINY)
        (self.folder / "small").mkdir()
        script = ('mount -t tmpfs -o size=$1k none small; head -c $2k /dev/zero >small/other; shift 2; "$@"; code=$?; '
                  'cp -r small kept; exit $code')
        return self.troupe("train", "tiny.toml", "--run-dir", "small/run", *settings(arguments),
                           before=[*NAMESPACE, "sh", "-c", script, "sh", str(size_k), str(used_k)])

    def test_training_goes_on_and_what_failed_is_counted(self):
        # Room for the first checkpoint of 17 kB with what else a run writes, and never for a second one.
        done = self.train_on(56, "model.hidden=512", "checkpoint.every_steps=4")
        summary = json.loads((self.folder / "kept/run/summary.json").read_text())
        self.assertEqual((summary["outcome"], summary["steps"]), ("finished", 16))
        self.assertEqual(summary["checkpoints_written"], 1)
        self.assertEqual(summary["checkpoints_failed"], 3)
        self.assertIn("trouble: 3 checkpoints that could not be written", done.stdout)
        self.assertRegex(done.stderr, r"warning: coordinator: checkpoint of step 8 not saved: the disk of "
                                      r"small/run/checkpoints has \d+ bytes left, a checkpoint takes \d+; "
                                      r"training goes on\n")
        # The last parameters are not on disk: that is said last, and by the exit code.
        self.assertEqual((done.returncode, summary["exit_code"]), (1, 1), done.stderr)
        self.assertRegex(done.stderr,
                         r"\nerror: coordinator: the last parameters are not saved: checkpoint of step 16 .*\n\Z")
        names = self.names("kept/run/checkpoints")
        self.assertEqual(names, ["step-00000004"])
        self.assertEqual(self.troupe("ckpt", "verify", "kept/run").returncode, 0)

    def test_a_run_that_cannot_begin_says_so_and_leaves_nothing(self):
        done = self.train_on(64, used_k=64)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertRegex(done.stderr, r"\Aerror: small/run.* No space left on device\n\Z")
        self.assertEqual(self.names("kept"), ["other"])


class LimitedFile(Case):
    def test_lines_that_could_not_be_written_are_counted(self):
        self.write("tiny.toml", TINY)
        # A limit on the size of each file, in blocks of 512 bytes: config and checkpoints fit, the metrics do not.
        script = 'trap "" XFSZ; ulimit -f 16; exec "$@"'
        done = self.troupe("train", "tiny.toml", "--run-dir", "run",
                           *settings(["metrics.every_steps=1", "train.epochs=20", "metrics.csv=false"]),
                           before=["sh", "-c", script, "sh"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(self.summary()["lines_lost"], 0)
        self.assertRegex(done.stdout, r"trouble: \d+ lines of metrics or log that could not be written")
        for line in (self.folder / "run/metrics.jsonl").read_text().splitlines():
            json.loads(line)  # those that are there are whole


closing.run()
