#!/usr/bin/env python3
"""`troupe ckpt`: checkpoints are listed, verified to the byte, and exported from the newest that is sound."""
import shutil
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import Case, root


class Checkpoints(Case):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"
        shutil.copytree(root / "tests/fixtures/checkpoint", self.run_folder / "checkpoints",
                        ignore=shutil.ignore_patterns("*.md"))
        self.newest = self.run_folder / "checkpoints/step-00000020"

    def flip_last_byte(self, file):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)

    def test_checkpoints_are_listed_oldest_first(self):
        done = self.troupe("ckpt", "ls", "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(rows[0], ["checkpoint", "step", "epoch", "size", "state"])
        self.assertEqual([(row[1], row[2], row[-1]) for row in rows[1:]], [("10", "0", "ok"), ("20", "1", "ok")])

    def test_sound_checkpoints_are_verified(self):
        done = self.troupe("ckpt", "verify", "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("verified"), 2)

    def test_a_flipped_byte_is_found_and_named(self):
        self.flip_last_byte(self.newest / "parameters.safetensors")
        done = self.troupe("ckpt", "verify", "run")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.count("verified"), 1)
        self.assertEqual(done.stdout.count("damaged"), 1)
        self.assertIn("step-00000020/parameters.safetensors", done.stderr)

    def test_a_truncated_file_is_found(self):
        file = self.newest / "optimizer.safetensors"
        file.write_bytes(file.read_bytes()[:-1])
        self.assertEqual(self.troupe("ckpt", "verify", "run").returncode, 1)

    def test_the_newest_checkpoint_is_exported(self):
        done = self.troupe("ckpt", "export", "run", "out.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        data = (self.folder / "out.safetensors").read_bytes()
        floats = struct.unpack("<16f", data[-64:])  # sorted by name: fc1.bias before fc1.weight
        self.assertEqual(floats, tuple(range(32, 36)) + tuple(range(20, 32)))

    def test_export_falls_back_to_the_newest_sound_one(self):
        self.flip_last_byte(self.newest / "parameters.safetensors")
        done = self.troupe("ckpt", "export", "run", "out.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stderr.startswith("warning: passed over "), done.stderr)
        self.assertIn("step-00000010", done.stdout)

    def test_nothing_sound_exports_nothing(self):
        for step in ("10", "20"):
            self.flip_last_byte(self.run_folder / f"checkpoints/step-000000{step}/parameters.safetensors")
        done = self.troupe("ckpt", "export", "run", "out.safetensors")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no valid checkpoint", done.stderr)
        self.assertFalse((self.folder / "out.safetensors").exists())

    def test_nothing_to_verify_is_not_verified(self):
        (self.folder / "empty").mkdir()
        self.assert_refused(self.troupe("ckpt", "verify", "empty"), "error: empty holds no checkpoint")

    def test_a_missing_folder_is_named(self):
        done = self.troupe("ckpt", "ls", "nowhere")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nowhere", done.stderr)

    def test_a_command_without_its_word_is_bad_usage(self):
        self.assert_refused(self.troupe("ckpt"), "error: A subcommand is required", "See troupe --help.")


closing.run()
