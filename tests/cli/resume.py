#!/usr/bin/env python3
"""`troupe train --resume`, and what a run keeps when it is interrupted, killed or finds its checkpoints damaged."""
import csv
import ctypes
import json
import re
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case, inherited_files, settings

# Would train for hours: what ends it is the test.
ENDLESS = TINY.replace("epochs = 2", "epochs = 1000000") + "[checkpoint]\nevery_steps = 10\n"


class Resume(Case):
    def resume(self, *arguments, run="run", exit_code=0):
        done = self.troupe("train", "--resume", run, *settings(arguments))
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done

    def checkpoints(self, run="run"):
        return self.names(f"{run}/checkpoints")

    def flip(self, file, at=-1):
        data = bytearray(file.read_bytes())
        data[at] ^= 0x40
        file.write_bytes(data)

    def test_a_resumed_run_comes_to_the_same_weights(self):
        self.train("update=sync", "optimizer.momentum=0.9", run="whole")
        self.train("update=sync", "optimizer.momentum=0.9", "train.max_steps=5")
        self.resume("train.max_steps=0")
        self.assertEqual(self.summary()["steps"], 16)
        self.assertEqual(self.weights("run"), self.weights("whole"))

    def test_it_takes_another_number_of_workers_and_servers(self):
        self.train("train.max_steps=5")
        self.resume("train.max_steps=0", "parallel.workers=4", "parallel.servers=3")
        self.assertEqual((self.summary()["steps"], len(self.summary()["workers"])), (16, 4))

    def test_its_summary_is_that_of_the_whole_run(self):
        self.train("train.max_steps=5")
        first = self.summary()
        self.resume("train.max_steps=0")
        whole = self.summary()
        self.assertEqual((first["samples"], whole["samples"]), (80, 256))
        self.assertGreater(whole["seconds"], first["seconds"])

    def test_its_rows_go_on_where_the_first_ones_end(self):
        self.train("metrics.every_steps=2", "train.max_steps=8")
        self.resume("train.max_steps=0")
        with open(self.folder / "run/metrics.csv") as file:
            rows = list(csv.DictReader(file))
        steps = [int(row["step"]) for row in rows]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual((steps[0], steps[-1]), (2, 16))
        for column in ("time_s", "samples"):
            values = [float(row[column]) for row in rows]
            self.assertEqual(values, sorted(values), column)
        self.assertEqual(rows[-1]["samples"], "256")

    def test_the_config_is_kept_as_it_was_unless_it_changes(self):
        self.train("train.max_steps=4")
        before = (self.folder / "run/config.resolved.toml").read_text()
        self.resume()
        self.assertEqual((self.folder / "run/config.resolved.toml").read_text(), before)
        done = self.resume("train.max_steps=6")
        self.assertIn("run/config.until-step-4.toml", done.stdout)
        self.assertEqual((self.folder / "run/config.until-step-4.toml").read_text(), before)
        self.assertRegex((self.folder / "run/config.resolved.toml").read_text(), r"max_steps = 6 +# command line\n")

    def test_another_folder_leaves_the_first_as_it_was(self):
        self.train("train.max_steps=4")
        before = {path: path.read_bytes() for path in (self.folder / "run").rglob("*") if path.is_file()}
        done = self.troupe("train", "--resume", "run", "--run-dir", "more", "--set", "train.max_steps=6")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.summary("more")["steps"], 6)
        self.assertEqual({path: path.read_bytes() for path in (self.folder / "run").rglob("*") if path.is_file()},
                         before)

    def test_nothing_left_to_train_is_said_and_leaves_the_run_as_it_was(self):
        def files(run):
            return {path: path.read_bytes() for path in (self.folder / run).rglob("*")
                    if path.is_file() and path.name != "log.txt"}

        for policy in ("sync", "async"):
            with self.subTest(policy):
                self.train(f"update={policy}", "data.samples=121", run=policy)  # epochs end with half a step
                steps, before = self.summary(policy)["steps"], files(policy)
                done = self.resume(run=policy)
                self.assertIn(f"nothing is left to train: the run ends at step {steps};", done.stdout)
                self.assertIn(f"finished after {steps} steps", done.stdout)
                self.assertEqual(files(policy), before)

    def test_a_run_that_was_over_but_not_concluded_is_concluded(self):
        self.train()
        (self.folder / "run/summary.json").unlink()
        self.resume()
        self.assertEqual((self.summary()["outcome"], self.summary()["steps"]), ("finished", 16))

    def test_a_flipped_byte_falls_back_to_the_checkpoint_before(self):
        self.train("checkpoint.every_steps=4")
        self.flip(self.folder / "run/checkpoints" / self.checkpoints()[-1] / "parameters.safetensors")
        done = self.resume()
        self.assertRegex(done.stderr,
                         r"\Awarning: coordinator: passed over the checkpoint run/checkpoints/step-00000016: "
                                      r".*parameters\.safetensors.*\n\Z")
        self.assertIn("resuming from run/checkpoints/step-00000012 at step 12", done.stdout)
        self.assertEqual(self.summary()["outcome"], "finished")

    def test_a_file_that_was_cut_short_falls_back_too(self):
        for name in ("parameters.safetensors", "optimizer.safetensors", "manifest.json"):
            with self.subTest(name):
                self.train("checkpoint.every_steps=4", "optimizer.momentum=0.9", run=name)
                file = self.folder / name / "checkpoints" / self.checkpoints(name)[-1] / name
                file.write_bytes(file.read_bytes()[:-7])
                self.assertIn("at step 12", self.resume(run=name).stdout)

    def test_no_valid_checkpoint_is_an_error_and_changes_nothing(self):
        self.train("checkpoint.every_steps=4")
        for step in self.checkpoints():
            self.flip(self.folder / "run/checkpoints" / step / "manifest.json", 30)
        before = {path: path.read_bytes() for path in (self.folder / "run").rglob("*") if path.is_file()}
        done = self.resume("train.epochs=3", exit_code=2)
        self.assertRegex(done.stderr, r"\Aerror: cannot resume: run holds no valid checkpoint; .*step-00000016.*\n\Z")
        self.assertEqual({path: path.read_bytes() for path in (self.folder / "run").rglob("*") if path.is_file()},
                         before)

    def test_another_model_is_refused_and_changes_nothing(self):
        self.train("train.max_steps=4")
        before = (self.folder / "run/config.resolved.toml").read_text()
        done = self.resume("model.hidden=9", exit_code=2)
        self.assertIn("fc1", done.stderr)
        self.assertEqual((self.folder / "run/config.resolved.toml").read_text(), before)

    def test_other_data_are_refused(self):
        self.train("train.max_steps=4")
        done = self.resume("data.samples=64", exit_code=2)
        self.assertRegex(done.stderr, r"\Aerror: cannot resume run: .*128.*64|.*64.*128")


class Interrupted(Case):
    def begin(self, *arguments):
        """A run that has written checkpoints and goes on."""
        self.write("endless.toml", ENDLESS)
        process = self.start("train", "endless.toml", "--run-dir", "run", *settings(arguments))
        deadline = time.monotonic() + 60
        while not list((self.folder / "run").glob("checkpoints/step-????????")):
            self.assertIsNone(process.poll(), process.communicate() if process.poll() is not None else "")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return process

    def finish(self):
        """Resumes the run until soon after where it is."""
        steps = max(int(name[5:13]) for name in self.names("run/checkpoints")
                    if re.fullmatch(r"step-\d{8}(\.\d+)?", name))
        done = self.troupe("train", "--resume", "run", "--set", f"train.max_steps={steps + 5}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual((self.summary()["outcome"], self.summary()["steps"]), ("finished", steps + 5))

    def test_one_signal_ends_the_run_with_a_checkpoint(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number.name):
                self.setUp()
                process = self.begin()
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130, err)
                self.assertIn("stopping at the next step boundary, with a checkpoint; once more: at once", out)
                summary = self.summary()
                self.assertEqual((summary["outcome"], summary["exit_code"]), ("interrupted", 130))
                self.assertIn(f"step-{summary['steps']:08}", self.names("run/checkpoints"))
                self.finish()

    def test_a_signal_counts_whichever_thread_the_system_gives_it_to(self):
        process = self.begin()
        tasks = Path(f"/proc/{process.pid}/task")
        (thread,) = [int(task.name) for task in tasks.iterdir() if (task / "comm").read_text() == "interrupts\n"]
        ctypes.CDLL(None).tgkill(process.pid, thread, signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("stopping at the next step boundary", out)

    def test_no_program_that_a_run_would_start_inherits_its_files(self):
        self.assertEqual(inherited_files(self.begin("debug.record=true")), [])

    def test_two_signals_end_it_at_once(self):
        self.write("endless.toml", ENDLESS)
        process = self.start("train", "endless.toml", "--run-dir", "run",
                             *settings(["debug.slow_worker=1", "debug.slow_ms=60000"]))
        while "run folder" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)  # the step waits for the slow worker
        while "stopping" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)

    def test_steps_that_a_killed_run_took_after_its_checkpoint_have_one_row(self):
        process = self.begin("metrics.every_steps=1", "checkpoint.every_steps=50")
        process.kill()
        process.communicate()
        self.finish()
        with open(self.folder / "run/metrics.csv") as file:
            rows = [(int(row["step"]), bool(row["test_accuracy"])) for row in csv.DictReader(file)]
        with open(self.folder / "run/metrics.jsonl") as file:
            lines = [(row["step"], row.get("test_accuracy") is not None) for row in map(json.loads, file)]
        self.assertEqual(lines, rows)
        steps = [step for step, evaluated in rows if not evaluated]  # an evaluation has a row of its own
        self.assertEqual(steps, list(range(1, steps[-1] + 1)))

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self):
        process = self.begin()
        process.kill()
        process.communicate()
        self.assertFalse((self.folder / "run/summary.json").exists())
        self.finish()

    def test_an_interrupted_asynchronous_run_goes_on(self):
        process = self.begin("update=async")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        done = self.troupe("train", "--resume", "run", "--set", f"train.max_steps={self.summary()['steps'] + 5}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.summary()["outcome"], "finished")


closing.run()
