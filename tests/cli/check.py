#!/usr/bin/env python3
"""`troupe check`: what is wrong with a config is said with its place, all at once, and nothing is begun."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import Case, root


class Configs(Case):
    def test_every_config_of_the_project_is_right(self):
        for config in sorted((root / "configs").glob("*.toml")):
            with self.subTest(config.name):
                done = self.troupe("check", config)
                self.assertEqual(done.stderr, f"{config}: ok\n")
                self.assertEqual(done.returncode, 0)

    def test_the_resolved_config_says_where_values_come_from(self):
        self.write("x.toml", "[train]\nepochs = 3\n")
        done = self.troupe("check", "x.toml", "--set", "train.batch_size=64", environment={"TROUPE_TRAIN__SEED": "7"})
        self.assertEqual(done.returncode, 0)
        lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
        self.assertIn("epochs = 3 # x.toml:2", lines)
        self.assertIn("batch_size = 64 # command line", lines)
        self.assertIn("seed = 7 # environment (TROUPE_TRAIN__SEED)", lines)
        self.assertIn("max_steps = 0 # default", lines)

    def test_the_resolved_config_is_a_config(self):
        self.write("x.toml", "[[update]]\nmode = \"ssp\"\nstaleness = 4\n")
        first = self.troupe("check", "x.toml")
        self.write("y.toml", first.stdout)
        second = self.troupe("check", "y.toml")
        self.assertEqual(second.stderr, "y.toml: ok\n")
        values = lambda text: [line.split("#")[0].rstrip() for line in text.splitlines()]
        self.assertEqual(values(second.stdout), values(first.stdout))

    def test_check_opens_and_leaves_nothing(self):
        self.write("x.toml", "data.path = \"/nowhere\"\n")
        self.assertEqual(self.troupe("check", "x.toml").returncode, 0)
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["x.toml"])

    def test_a_setting_without_effect_is_a_warning(self):
        self.write("x.toml", "optimizer.name = \"adam\"\noptimizer.momentum = 0.9\n")
        done = self.troupe("check", "x.toml")
        self.assertEqual(done.stderr, "warning: optimizer.momentum = 0.9 (x.toml:2) has no effect with "
                                      "optimizer.name = \"adam\" (x.toml:1)\nx.toml: ok\n")
        self.assertEqual(done.returncode, 0)


class Mistakes(Case):
    def refused(self, text, *lines, arguments=(), environment=()):
        self.write("x.toml", text)
        self.assert_refused(self.troupe("check", "x.toml", *arguments, environment=environment), *lines)

    def test_an_unknown_key_is_named_with_its_nearest(self):
        self.refused("[train]\nepoch = 3\n", "error: x.toml:2:1: unknown key train.epoch; did you mean train.epochs?")

    def test_all_problems_are_reported_together(self):
        self.refused("[train]\nepoch = 3\nbatch_size = \"many\"\n[modle]\nkind = \"mlp\"\n",
                     "error: x.toml:2:1: unknown key train.epoch; did you mean train.epochs?",
                     "error: x.toml:3:14: train.batch_size = \"many\": takes an integer, not a text",
                     "error: x.toml:4:2: unknown table [modle]; did you mean [model]?",
                     "error: command line: unknown key run.nme; did you mean run.name?",
                     arguments=("--set", "run.nme=x"))

    def test_zero_workers_are_refused(self):
        self.refused("", "error: command line: parallel.workers = 0: must be from 1 to 65536",
                     arguments=("--set", "parallel.workers=0"))

    def test_an_inconsistent_product_prints_every_term_and_its_source(self):
        self.refused("[train]\nbatch_size = 64\n",
                     "error: parallel.worker_batch = [32, 16] (command line) has 2 entries, but parallel.workers = 3 "
                     "(environment (TROUPE_PARALLEL__WORKERS)): give one entry a worker",
                     "error: parallel.worker_batch = [32, 16] (command line) adds up to 48, but "
                     "train.batch_size = 64 (x.toml:2): change one of them, or leave train.batch_size out",
                     arguments=("--set", "parallel.worker_batch=32,16"), environment={"TROUPE_PARALLEL__WORKERS": "3"})

    def test_more_workers_than_the_batch_has_samples_are_refused(self):
        self.refused("train.batch_size = 2\nparallel.workers = 4\n",
                     "error: train.batch_size = 2 (x.toml:1) leaves some of the workers without a sample, "
                     "parallel.workers = 4 (x.toml:2): use a batch of at least 4 or fewer workers")

    def test_a_misspelled_variable_is_not_ignored(self):
        self.refused("", "error: environment (TROUPE_TRAIN_EPOCHS): unknown; did you mean TROUPE_TRAIN__EPOCHS?",
                     environment={"TROUPE_TRAIN_EPOCHS": "3"})

    def test_text_that_is_not_toml_has_a_place(self):
        self.write("x.toml", "[train\nepochs = 3\n")
        done = self.troupe("check", "x.toml")
        self.assertRegex(done.stderr, r"^error: x\.toml:1:\d+: not valid TOML: ")
        self.assertEqual(done.returncode, 2)

    def test_a_key_set_twice_has_a_place(self):
        self.write("x.toml", "[train]\nepochs = 3\nepochs = 4\n")
        done = self.troupe("check", "x.toml")
        self.assertRegex(done.stderr, r"^error: x\.toml:3:\d+: not valid TOML: .*epochs")
        self.assertEqual(done.returncode, 2)

    def test_bytes_that_are_not_text_are_refused(self):
        (self.folder / "x.toml").write_bytes(bytes(range(256)))
        done = self.troupe("check", "x.toml")
        self.assertRegex(done.stderr, r"^error: x\.toml:1:\d+: not valid TOML: ")
        self.assertEqual(done.returncode, 2)

    def test_a_missing_config_is_named(self):
        self.assert_refused(self.troupe("check", "nowhere.toml"),
                            "error: nowhere.toml: cannot read the config file: No such file or directory")

    def test_a_folder_is_no_config(self):
        self.assert_refused(self.troupe("check", "."), "error: .: is a folder; name a TOML file")


closing.run()
