#!/usr/bin/env python3
"""`troupe train`: its options, what it leaves in the run folder, and the configs of the project."""
import csv
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case, root, settings


class Options(Case):
    def test_settings_of_the_command_line_win(self):
        self.train("train.epochs=1", "train.batch_size=32")
        self.assertEqual(self.summary()["steps"], 4)

    def test_the_run_folder_is_made_where_the_caller_stands(self):
        self.write("tiny.toml", TINY)
        done = self.troupe("train", "tiny.toml")
        self.assertEqual(done.returncode, 0, done.stderr)
        (name,) = self.names("runs")
        self.assertRegex(name, r"\Atiny-\d{8}-\d{6}\Z")
        self.assertEqual(done.stdout.splitlines()[-1], f"run folder: runs/{name}")

    def test_an_empty_run_folder_may_exist(self):
        (self.folder / "run").mkdir()
        self.train("train.max_steps=1")

    def test_a_run_folder_that_is_not_empty_is_refused_and_kept(self):
        (self.folder / "run").mkdir()
        self.write("run/mine", "precious")
        done = self.train(exit_code=2)
        self.assertRegex(done.stderr, r"\Aerror: run: the folder is not empty, .*--run-dir.*\n\Z")
        self.assertEqual(self.names("run"), ["mine"])

    def test_the_run_ends_at_max_steps_under_every_policy(self):
        for mode in ("sync", "all_reduce", "ssp(1)", "async"):
            with self.subTest(mode):
                self.train("train.max_steps=5", f"update={mode}", run=mode)
                self.assertEqual((self.summary(mode)["steps"], self.summary(mode)["samples"]), (5, 80))

    def test_the_last_progress_line_is_at_the_last_step(self):
        for mode in ("sync", "async"):  # 50 samples: under sync each epoch ends with a short step
            with self.subTest(mode):
                done = self.train("data.samples=50", f"update={mode}", run=mode)
                self.assertEqual(re.findall(r"step (\d+)/(\d+)  epoch 2/2", done.stdout)[-1],
                                 ("8", "8") if mode == "sync"
                                 else (str(self.summary(mode)["steps"]),) * 2)

    def test_workers_may_take_different_shares(self):
        self.train("parallel.worker_batch=12,4")
        self.assertEqual([worker["samples"] for worker in self.summary()["workers"]], [192, 64])

    def test_a_slow_worker_does_less_of_an_asynchronous_run(self):
        self.train("update=async", "debug.slow_worker=1", "debug.slow_ms=20")
        fast, slow = self.summary()["workers"]
        self.assertLess(slow["samples"], fast["samples"])
        self.assertEqual(slow["samples"] + fast["samples"], 256)

    def test_a_slow_worker_does_its_share_of_a_synchronous_run(self):
        self.train("update=sync", "debug.slow_worker=1", "debug.slow_ms=2")
        self.assertEqual([worker["samples"] for worker in self.summary()["workers"]], [128, 128])

    def test_threads_do_not_change_the_result(self):
        for threads in (1, 2):
            self.train(f"parallel.threads_per_worker={threads}", "model.hidden=64,32", "data.features=64",
                       run=f"t{threads}")
        self.assertEqual(self.summary("t1")["steps"], self.summary("t2")["steps"])
        self.assertAlmostEqual(self.summary("t1")["train_loss"], self.summary("t2")["train_loss"], places=4)

    def test_the_same_run_twice_gives_the_same_bytes(self):
        for mode in ("sync", "all_reduce"):
            with self.subTest(mode):
                for run in ("a", "b"):
                    self.train(f"update={mode}", run=f"{mode}-{run}")
                self.assertEqual(self.weights(f"{mode}-a"), self.weights(f"{mode}-b"))


class Replay(Case):
    def record(self, *arguments):
        self.train("update=async", "debug.record=true", "parallel.workers=3", "parallel.worker_batch=8,4,4",
                   "debug.slow_worker=2", "debug.slow_ms=2", *arguments, run="recorded")

    def test_a_recorded_run_is_repeated_bit_for_bit(self):
        self.record("train.epochs=3")
        done = self.troupe("train", "--replay", "recorded", "--run-dir", "again")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.weights("again"), self.weights("recorded"))

    def test_ssp_and_mixed_layers_are_repeated_too(self):
        for name, update in {"ssp": "ssp(1)", "mixed": "fc1:sync,fc2:async"}.items():
            with self.subTest(name):
                self.train(f"update={update}", "debug.record=true", run=name)
                done = self.troupe("train", "--replay", name, "--run-dir", name + "-again")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.weights(name + "-again"), self.weights(name))

    def test_a_run_that_was_not_recorded_cannot_be_repeated(self):
        self.train("train.max_steps=1")
        done = self.troupe("train", "--replay", "run", "--run-dir", "again")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Aerror: cannot replay run: .*debug\.record.*\n\Z")
        self.assertNotIn("again", self.names())

    def test_a_recording_that_was_cut_short_is_an_error(self):
        self.record("train.epochs=1")
        file = self.folder / "recorded/record/server-0"
        file.write_bytes(file.read_bytes()[:-3])
        done = self.troupe("train", "--replay", "recorded", "--run-dir", "again")
        self.assertEqual(done.returncode, 2)
        self.assertIn("record/server-0", done.stderr)
        self.assertNotIn("again", self.names())

    def test_a_replay_under_other_settings_is_refused(self):
        self.record("train.epochs=1")
        for setting, was in {"parallel.workers=4": "3", "parallel.servers=1": "2", "train.seed=9": "1"}.items():
            with self.subTest(setting):
                done = self.troupe("train", "--replay", "recorded", "--run-dir", "again", "--set", setting,
                                   *settings(["parallel.worker_batch=4,4,4,4"] if "workers" in setting else []))
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, rf"cannot replay recorded: {setting.split('=')[0]} = \d \(command line\) "
                                              rf"was {was} when it was recorded")
                self.assertNotIn("again", self.names())
        done = self.troupe("train", "--replay", "recorded", "--run-dir", "again", "--set", "update=ssp(1)")
        self.assertIn("[[update]] was another when it was recorded", done.stderr)

    def test_a_missing_run_is_named(self):
        for option in ("--replay", "--resume"):
            self.assert_refused(self.troupe("train", option, "nowhere"),
                                f"error: {option} nowhere: there is no such folder; name a run's, as in "
                                "runs/NAME-<time>")

    def test_a_folder_that_is_no_run_is_named(self):
        (self.folder / "empty").mkdir()
        self.assert_refused(self.troupe("train", "--resume", "empty"),
                            "error: --resume empty: is not a run's folder: it has no config.resolved.toml")

    def test_resume_and_replay_exclude_each_other(self):
        self.assert_refused(self.troupe("train", "--resume", "a", "--replay", "b"),
                            "error: --resume and --replay exclude each other")


class RunFolder(Case):
    def setUp(self):
        super().setUp()
        self.out = self.train("update=fc1:ssp(2),*:async", "metrics.every_steps=4", "checkpoint.every_steps=4").stdout

    def test_everything_is_there(self):
        self.assertEqual(self.names("run"), ["checkpoints", "config.resolved.toml", "log.txt", "metrics.csv",
                                             "metrics.jsonl", "summary.json"])
        self.assertEqual(len(self.names("run/checkpoints")), 3)  # checkpoint.keep

    def test_the_summary_has_every_key_that_scripts_rely_on(self):
        summary = self.summary()
        for key in ("test_accuracy", "train_loss", "steps", "samples", "seconds", "samples_per_second"):
            self.assertIsInstance(summary[key], (int, float), key)
        self.assertEqual((summary["outcome"], summary["exit_code"], summary["error"]), ("finished", 0, None))
        self.assertEqual((summary["steps"], summary["samples"]), (16, 256))
        self.assertGreaterEqual(summary["checkpoints_written"], 4)
        self.assertEqual([(layer["name"], layer["policy"]) for layer in summary["layers"]],
                         [("fc1", "ssp(2)"), ("fc2", "async")])
        for layer in summary["layers"]:
            for key in ("bytes_pushed", "bytes_pulled", "pushes", "updates", "parameters", "shards"):
                self.assertGreater(layer[key], 0, key)
            for key in ("p50", "p95", "max", "histogram"):
                self.assertIn(key, layer["staleness"])

    def test_staleness_keeps_its_bound(self):
        self.assertLessEqual(self.summary()["layers"][0]["staleness"]["max"], 2)

    def test_both_files_of_metrics_hold_the_same_rows(self):
        with open(self.folder / "run/metrics.csv") as file:
            table = list(csv.DictReader(file))
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertEqual([int(row["step"]) for row in table], [row["step"] for row in lines])
        self.assertEqual(lines[-1]["step"], 16)
        self.assertEqual(lines[-1]["samples"], 256)
        self.assertEqual(sorted(row["step"] for row in lines if row["test_accuracy"] is not None), [8, 16])

    def test_the_log_has_a_time_and_a_level_a_line(self):
        for line in (self.folder / "run/log.txt").read_text().splitlines():
            self.assertRegex(line, r"\A\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (info|warning|error) \w+")

    def test_the_resolved_config_is_what_check_prints(self):
        done = self.troupe("check", "tiny.toml", *settings(["update=fc1:ssp(2),*:async", "metrics.every_steps=4",
                                                            "checkpoint.every_steps=4"]))
        self.assertEqual((self.folder / "run/config.resolved.toml").read_text(), done.stdout)

    def test_the_layers_are_shown_with_policy_size_and_traffic(self):
        lines = [line.split() for line in self.out.splitlines()]
        self.assertEqual(lines[:3], ["layer policy parameters shards bytes a step".split(),
                                     "fc1 ssp(2) 40 1 640 B".split(), "fc2 async 27 1 432 B".split()])

    def test_the_end_names_accuracy_and_folder(self):
        self.assertRegex(self.out, r"test accuracy \d\.\d{4}, test loss \d\.\d{4}\nrun folder: run\n\Z")


class Configs(Case):
    def test_every_config_of_the_project_trains(self):
        for config in sorted((root / "configs").glob("*.toml")):
            with self.subTest(config.name):
                self.train("data.train_limit=512", "data.test_limit=64", "train.epochs=1", "train.max_steps=2",
                           "optimizer.warmup_steps=0",
                           config=config, run=config.stem)
                self.assertEqual(self.summary(config.stem)["outcome"], "finished")


closing.run()
