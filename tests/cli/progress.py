#!/usr/bin/env python3
"""What a run prints, and to whom: a terminal, a pipe, or nobody."""
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case, build


class Output(Case):
    def setUp(self):
        super().setUp()
        self.write("tiny.toml", TINY)

    def on_terminal(self, *arguments, columns=80):
        """What a terminal receives, and the exit code."""
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = self.start("train", "tiny.toml", "--run-dir", "run", *arguments, stdout=side, stderr=side)
        os.close(side)
        received = b""
        try:
            while chunk := os.read(main, 4096):
                received += chunk
        except OSError:  # the program has ended
            pass
        os.close(main)
        return received.decode(), process.wait(60)

    def test_a_pipe_gets_plain_lines(self):
        done = self.train()
        self.assertNotIn("\r", done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^step 16/16  epoch 2/2  loss \d\.\d{4}  [\d,]+ samples/s  staleness \d+  "
                                      r"test accuracy \d\.\d{4}  ETA 0\.0 s$")
        self.assertEqual(done.stderr, "")

    def test_a_terminal_gets_one_line_that_is_drawn_over(self):
        received, code = self.on_terminal("--set", "train.epochs=200")
        self.assertEqual(code, 0)
        drawn = [piece for piece in received.split("\r\x1b[K") if piece.startswith("step ")]
        self.assertGreater(len(drawn), 1)
        for line in drawn:
            self.assertLessEqual(len(line.split("\r\n")[0]), 80, line)
        # No drawn line is left behind, but the last.
        self.assertEqual(sum("\r\n" in line for line in drawn), 1)
        self.assertTrue(drawn[-1].startswith("step 1600/1600"), drawn[-1])

    def test_a_narrow_terminal_is_not_overrun(self):
        received, _ = self.on_terminal(columns=30)
        for piece in received.split("\r\x1b[K"):
            if piece.startswith("step "):
                self.assertLessEqual(len(piece.split("\r\n")[0]), 30)

    def test_a_reader_that_goes_does_not_end_the_run(self):
        process = self.start("train", "tiny.toml", "--run-dir", "run", "--set", "train.epochs=20")
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(self.summary()["outcome"], "finished")

    def test_a_run_without_standard_streams_keeps_its_files_clean(self):
        done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", build / "troupe", "train", "tiny.toml",
                               "--run-dir",
                               "run"], cwd=self.folder, env=self.environment(), timeout=60)
        self.assertEqual(done.returncode, 0)
        for name in ("log.txt", "metrics.csv", "metrics.jsonl"):
            self.assertNotIn("run folder:", (self.folder / "run" / name).read_text(), name)

    def test_a_full_output_does_not_end_the_run(self):
        with open("/dev/full", "w") as full:
            process = self.start("train", "tiny.toml", "--run-dir", "run", stdout=full)
            self.assertEqual(process.wait(60), 0)
        self.assertEqual(self.summary()["outcome"], "finished")


class StandingStill(Case):
    def test_a_reader_that_stands_still_does_not_stop_the_training(self):
        self.write("endless.toml", TINY.replace("epochs = 2", "epochs = 1000000"))
        process = self.start("train", "endless.toml", "--run-dir", "run", "--set", "metrics.every_steps=1000",
                             "--set", "train.evaluate_every_epochs=0")
        # A line an epoch of 8 steps would have filled the pipe by then.
        until = time.monotonic() + 60
        steps = 0
        while steps < 40000 and time.monotonic() < until and process.poll() is None:
            time.sleep(0.1)
            rows = (self.folder / "run/metrics.csv")
            last = rows.read_text().splitlines()[-1].split(",") if rows.exists() else []
            steps = int(last[1]) if len(last) > 1 and last[1].isdigit() else 0
        self.assertGreaterEqual(steps, 40000)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted", out)


closing.run()
