#!/usr/bin/env python3
"""`troupe sample`: a transformer learns a small text, and continues it."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case

# Learns to repeat a line of its text in a second or two. 25 and the 44 characters of the line have no common divisor: a
# sample begins anywhere in it.
CONFIG = """
[run]
name = "writer"
[data]
format = "text"
path = "."
train_text = "text.txt"
test_share = 0.2
[model]
kind = "gpt"
layers = 1
heads = 2
width = 32
positions = "rotary"
context = 25
[train]
epochs = 30
batch_size = 8
[optimizer]
name = "adamw"
learning_rate = 1e-2
[parallel]
workers = 2
[metrics]
sample_tokens = 30
"""
LINE = "the quick brown fox jumps over the lazy dog\n"


class Samples(Case):
    def setUp(self):
        super().setUp()
        self.write("text.txt", LINE * 60)
        self.write("config.toml", CONFIG)

    def train(self):
        done = self.troupe("train", "config.toml", "--run-dir", "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def sample(self, *arguments):
        return self.troupe("sample", *arguments)

    def test_a_trained_model_continues_its_text(self):
        self.assertIn("the model goes on from a new line", self.train())
        done = self.sample("run", "--prompt", "the quick br", "--tokens", "20", "--temperature", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, LINE[:32] + "\n")

    def test_the_same_seed_writes_the_same_text(self):
        self.train()
        first, again, other = (self.sample("run", "--temperature", "3", "--seed", seed).stdout for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_a_checkpoint_is_taken_as_well_as_a_run(self):
        self.train()
        newest = sorted((self.folder / "run/checkpoints").iterdir())[-1]
        done = self.sample(newest, "--tokens", "5", "--temperature", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "\nthe q\n")

    def test_a_prompt_with_unknown_characters_is_refused(self):
        self.train()
        done = self.sample("run", "--prompt", "the Q")
        self.assertEqual(done.returncode, 2)
        self.assertIn("the prompt: the character Q at byte 4", done.stderr)

    def test_a_model_that_writes_no_text_is_refused(self):
        self.write("tiny.toml", TINY)
        self.assertEqual(self.troupe("train", "tiny.toml", "--run-dir", "other").returncode, 0)
        done = self.sample("other")
        self.assertEqual(done.returncode, 2)
        self.assertIn("writes no text", done.stderr)

    def test_what_is_no_run_is_refused(self):
        done = self.sample("text.txt")
        self.assertEqual(done.returncode, 2)
        self.assertIn("are a run's", done.stderr)

    def test_a_text_for_another_kind_of_model_is_refused(self):
        done = self.troupe("check", "config.toml", "--set", "model.kind=mlp")
        self.assertEqual(done.returncode, 2)
        self.assertIn("gpt is for text and tokens", done.stderr)


closing.run()
