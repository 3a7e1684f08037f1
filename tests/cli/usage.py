#!/usr/bin/env python3
"""The command line itself: help, version, explanations, and wrong words."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import Case


class Usage(Case):
    def test_help_lists_the_commands_and_exit_codes(self):
        done = self.troupe("--help")
        self.assertEqual(done.returncode, 0)
        for part in ("check", "config", "Examples:", "Exit codes:", "130"):
            self.assertIn(part, done.stdout)

    def test_the_version_is_one_line(self):
        done = self.troupe("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"\Atroupe \d+\.\d+\.\d+ \(.*\)\n\Z")

    def test_a_setting_is_explained(self):
        done = self.troupe("config", "--explain", "train.epochs")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("train.epochs: an integer (epochs), 0 or more; default 5\n"),
                        done.stdout)
        self.assertIn("TROUPE_TRAIN__EPOCHS", done.stdout)

    def test_all_settings_are_explained(self):
        done = self.troupe("config", "--explain")
        self.assertEqual(done.returncode, 0)
        for key in ("run.name", "data.path", "optimizer.learning_rate", "update.staleness", "debug.slow_worker"):
            self.assertIn(f"{key}: ", done.stdout)

    def test_an_unknown_setting_is_answered_with_its_nearest(self):
        self.assert_refused(self.troupe("config", "--explain", "optimizer.lr"),
                            "error: unknown key optimizer.lr; did you mean optimizer.learning_rate?")

    def test_an_unknown_command_is_answered_with_its_nearest(self):
        self.assert_refused(self.troupe("chek", "x.toml"), "error: unknown command chek; did you mean check?",
                            "See troupe --help.")

    def test_so_is_an_unknown_command_of_a_command(self):
        self.assert_refused(self.troupe("ckpt", "verfy", "run"),
                            "error: unknown command ckpt verfy; did you mean verify?",
                            "See troupe ckpt --help.")

    def test_no_command_is_bad_usage(self):
        self.assert_refused(self.troupe(), "error: A subcommand is required", "See troupe --help.")

    def test_a_missing_argument_is_bad_usage(self):
        self.assert_refused(self.troupe("check"), "error: CONFIG is required", "See troupe --help.")

    def test_an_unknown_option_is_bad_usage(self):
        done = self.troupe("check", "x.toml", "--sett", "a=b")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--sett", done.stderr)

    def test_a_set_without_a_value_is_explained(self):
        self.write("x.toml", "")
        self.assert_refused(self.troupe("check", "x.toml", "--set", "train.epochs"),
                            "error: command line: --set train.epochs: expected KEY=VALUE, as in --set train.epochs=3")

    def test_a_core_that_is_not_there_is_refused(self):
        self.assert_refused(self.troupe("node", "--join", "127.0.0.1:9", "--core", "1023"),
                            "error: cannot run on core 1023 alone: Invalid argument; taskset -p $$ says which there are")


closing.run()
