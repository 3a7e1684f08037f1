#!/usr/bin/env python3
"""`[precision] activations` and `loss_scale`: what is taken, what is refused, and what a run says of them."""
import csv
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case


class Precision(Case):
    def rows(self):
        with open(self.folder / "run/metrics.csv", newline="") as file:
            return list(csv.DictReader(file))

    def test_a_run_in_f16_begins_too_high_and_says_where_it_came_to(self):
        self.train("precision.activations=f16", "precision.loss_scale=dynamic", "precision.init_scale=1099511627776",
                   "train.epochs=0", "train.max_steps=40", "metrics.every_steps=1")
        rows = self.rows()
        scales = [float(row["loss_scale"]) for row in rows if row["test_loss"] == ""]
        skipped = sum(int(row["skipped_steps"]) for row in rows)
        self.assertEqual(scales[0], 2**40)
        self.assertGreater(skipped, 5)
        self.assertEqual(scales[-1], 2**40 / 2**skipped)
        summary = self.summary()
        self.assertEqual(summary["skipped_steps"], skipped)
        self.assertEqual(summary["loss_scale"], scales[-1])
        self.assertRegex((self.folder / "run/log.txt").read_text(),
                         r"step 0: the gradient overflowed \(layer fc\d, worker \d\), the step is skipped; "
                         r"the loss scale goes from 1\.09951e\+12 to 5\.49756e\+11")

    def test_a_checkpoint_keeps_the_scale(self):
        self.train("precision.activations=f16", "precision.loss_scale=dynamic", "precision.growth_interval=3",
                   "train.epochs=0", "train.max_steps=5")
        manifest = next((self.folder / "run/checkpoints").glob("*/manifest.json"))
        self.assertEqual(json.loads(manifest.read_text())["loss_scale"], {"value": 131072.0, "good_steps": 2})

    def test_a_number_is_a_fixed_scale(self):
        for i, text in enumerate(["1024", "1024.0", '"1024"']):
            with self.subTest(text):
                self.write("fixed.toml", TINY + f"[precision]\nloss_scale = {text}\n")
                self.train("train.max_steps=1", config="fixed.toml", run=f"run{i}")
                self.assertIn('loss_scale = "1024.0"', (self.folder / f"run{i}/config.toml").read_text())
                self.assertEqual(self.summary(f"run{i}")["loss_scale"], 1024)

    def test_values_that_mean_nothing_are_refused_with_what_is_possible(self):
        for setting, said in [
            ("precision.activations=fp8", "must be one of f32, bf16, f16"),
            ("precision.loss_scale=sometimes", "must be one of none, dynamic, or a number, 1 or more"),
            ("precision.loss_scale=0.5", "must be 1 or more"),
            ("precision.loss_scale=nan", "must be 1 or more"),
            ("precision.backoff_factor=1", "must be at least 0.001 and below 1"),
            ("precision.growth_factor=0.5", "must be 1 or more"),
            ("precision.growth_interval=0", "must be 1 or more"),
        ]:
            with self.subTest(setting):
                self.assertIn(said, self.train(setting, exit_code=2).stderr)

    def test_a_dynamic_scale_needs_layers_that_wait_for_all(self):
        self.write("mixed.toml", TINY + '[[update]]\nlayers = "fc2"\nmode = "async"\n[[update]]\nlayers = "*"\nmode = "sync"\n')
        done = self.train("precision.loss_scale=dynamic", config="mixed.toml", exit_code=2)
        self.assertRegex(done.stderr, r'precision\.loss_scale = "dynamic" .* is a decision of all workers on each step, and '
                                      r"\[\[update\]\] table 1 .* has mode async")
        done = self.train("precision.loss_scale=dynamic", "precision.min_scale=131072", exit_code=2)
        self.assertRegex(done.stderr, r"precision\.init_scale = 65536\.0 .* is below precision\.min_scale = 131072\.0")

    def test_what_only_a_dynamic_scale_reads_is_told_to_have_no_effect(self):
        done = self.train("precision.growth_interval=5", "train.max_steps=1")
        self.assertRegex(done.stdout + done.stderr, r"precision\.growth_interval = 5 .* has no effect with "
                                                    r'precision\.loss_scale = "none"')

    def test_explained(self):
        out = self.troupe("config", "--explain", "precision").stdout
        for key in "activations", "loss_scale", "init_scale", "growth_factor", "growth_interval", "backoff_factor", "min_scale":
            self.assertIn(key, out)


closing.run()
