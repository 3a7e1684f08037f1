#!/usr/bin/env python3
"""What `troupe train` refuses: one paragraph says what, where, why and what to do, and nothing is left behind."""
import gzip
import os
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case, settings


def idx(dims, data, element=8):
    return struct.pack(f">4B{len(dims)}I", 0, 0, element, len(dims), *dims) + data


class Refused(Case):
    def refuse(self, *arguments, config=TINY):
        """The one line on standard error; no run folder is left."""
        self.write("x.toml", config)
        before = self.names()
        done = self.troupe("train", "x.toml", *settings(arguments))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("error: "), lines[0])
        self.assertEqual(self.names(), before)
        return lines[0].removeprefix("error: ")


class Settings(Refused):
    def test_a_mistyped_key(self):
        self.assertEqual(self.refuse(config=TINY + "[checkpoints]\nkeep = 2\n"),
                         f"x.toml:{TINY.count(chr(10)) + 1}:2: unknown table [checkpoints]; did you mean [checkpoint]?")
        self.assertEqual(self.refuse(config="[train]\nbatchsize = 2\n"),
                         "x.toml:2:1: unknown key train.batchsize; did you mean train.batch_size?")

    def test_an_inconsistent_product_names_every_term_and_its_source(self):
        text = self.refuse("parallel.worker_batch=8,4")
        for part in ("parallel.worker_batch = [8, 4] (command line)", "adds up to 12",
                     "train.batch_size = 16 (x.toml:"):
            self.assertIn(part, text)

    def test_no_workers_or_servers(self):
        for key in ("parallel.workers", "parallel.servers"):
            self.assertEqual(self.refuse(f"{key}=0"), f"command line: {key} = 0: must be from 1 to 65536")

    def test_a_batch_smaller_than_the_workers(self):
        self.assertRegex(self.refuse("train.batch_size=1"), r"train\.batch_size = 1 \(command line\) .*"
                         r"parallel\.workers = 2 \(x\.toml:\d+\): use a batch of at least 2 or fewer workers")

    def test_a_batch_larger_than_the_samples(self):
        self.assertRegex(self.refuse("data.samples=8"),
                         r"train\.batch_size = 16 \(x\.toml:\d+\) is more than .*data\.samples = 8 \(command line\)")

    def test_more_workers_than_samples(self):
        self.assertRegex(self.refuse("data.samples=16", "parallel.workers=17", "train.batch_size=17"),
                         r"train\.batch_size = 17 \(command line\) is more than there are samples, data\.samples = 16")

    def test_a_rule_for_a_layer_that_is_not_there(self):
        self.assertRegex(self.refuse(config=TINY + '[[update]]\nlayers = "conv*"\n'),
                         r'\[\[update\]\] table 1 \(x\.toml:\d+\): layers = "conv\*" matches no layer of the model, '
                         'fc1, fc2')

    def test_layers_that_no_rule_names(self):
        self.assertIn("no [[update]] table matches layer fc2", self.refuse("update=fc1:sync"))

    def test_a_layer_to_spoil_that_is_not_there(self):
        self.assertEqual(self.refuse("debug.nan_at_step=1", "debug.nan_layer=fc9"),
                         'debug.nan_layer = "fc9" (command line) is no layer of the model, which has fc1, fc2')

    def test_a_model_that_does_not_fit_the_data(self):
        self.assertIn("cnn", self.refuse("model.kind=cnn", "model.channels=4,4"))


class Data(Refused):
    """IDX files of 40 training and 20 test images of 4 x 4."""

    CONFIG = TINY[:TINY.index("[data]")] + '[data]\nformat = "idx"\npath = "data"\n' + TINY[TINY.index("[model]"):]

    def setUp(self):
        super().setUp()
        (self.folder / "data").mkdir()
        for part, count in {"train": 40, "t10k": 20}.items():
            self.put(f"{part}-images-idx3-ubyte", idx([count, 4, 4], bytes(range(16)) * count))
            self.put(f"{part}-labels-idx1-ubyte", idx([count], bytes(i % 3 for i in range(count))))

    def put(self, name, data):
        (self.folder / "data" / name).write_bytes(data)

    def refuse(self, *arguments):
        return super().refuse(*arguments, config=self.CONFIG)

    def test_files_that_are_right_train(self):
        self.write("x.toml", self.CONFIG)
        self.train(config="x.toml")

    def test_compressed_files_train(self):
        for file in (self.folder / "data").iterdir():
            Path(f"{file}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
        self.write("x.toml", self.CONFIG)
        self.train(config="x.toml")

    def test_a_missing_folder(self):
        self.assertEqual(self.refuse("data.path=nowhere"),
                         "data.path = nowhere does not exist; set data.path to the folder that holds the data files")

    def test_a_missing_file(self):
        for name in ("train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
            with self.subTest(name):
                self.setUp()
                (self.folder / "data" / name).unlink()
                text = self.refuse()
                self.assertTrue(text.startswith(f"cannot open data/{name}: No such file or directory; put "), text)
                self.assertIn("data.train_labels" if name.startswith("train") else "data.test_labels", text)

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_folder_that_must_not_be_read(self):
        (self.folder / "data").chmod(0)
        self.addCleanup((self.folder / "data").chmod, 0o700)
        self.assertIn("Permission denied", self.refuse())

    def test_a_folder_in_place_of_a_file(self):
        (self.folder / "data/train-images-idx3-ubyte").unlink()
        (self.folder / "data/train-images-idx3-ubyte").mkdir()
        self.assertEqual(self.refuse(), "data/train-images-idx3-ubyte is a folder, a data file is needed")

    def test_a_file_that_was_cut_short(self):
        self.put("train-labels-idx1-ubyte", idx([40], bytes(30)))
        self.assertEqual(self.refuse(), "data/train-labels-idx1-ubyte announces 40 bytes of data, but 30 follow its "
                                        "header: the file is damaged or cut short; fetch it again")

    def test_a_compressed_file_that_was_cut_short(self):
        (self.folder / "data/train-images-idx3-ubyte").unlink()
        self.put("train-images-idx3-ubyte.gz", gzip.compress(idx([40, 4, 4], os.urandom(640)))[:300])
        self.assertRegex(self.refuse(), r"data/train-images-idx3-ubyte\.gz is cut short: .*; fetch it again")

    def test_a_header_that_announces_more_than_there_is_memory(self):
        self.put("train-images-idx3-ubyte", idx([2000000000, 28, 28], bytes(640)))
        self.assertIn("announces 2000000000 x 28 x 28 = 1568000000000 bytes of data, but 640 follow", self.refuse())

    def test_a_header_whose_product_has_no_number(self):
        self.put("train-images-idx3-ubyte", idx([4294967295] * 3, bytes(640)))
        self.assertIn("announces 4294967295 x 4294967295 x 4294967295 bytes of data, but 640 follow", self.refuse())

    def test_a_file_with_more_than_it_announces(self):
        self.put("train-labels-idx1-ubyte", idx([40], bytes(50)))
        self.assertIn("announces 40 bytes of data, but 50 follow", self.refuse())

    def test_files_that_do_not_belong_together(self):
        self.put("train-labels-idx1-ubyte", idx([39], bytes(39)))
        self.assertEqual(self.refuse(),
                         "data/train-images-idx3-ubyte holds 40 samples, but data/train-labels-idx1-ubyte "
                                        "holds 39 labels: the two files do not belong together; fetch them again")

    def test_an_empty_file(self):
        self.put("train-labels-idx1-ubyte", b"")
        self.assertIn("data/train-labels-idx1-ubyte is cut short", self.refuse())

    def test_something_else(self):
        self.put("train-labels-idx1-ubyte", b"<html>not found</html>")
        self.assertIn("data/train-labels-idx1-ubyte is not an IDX file", self.refuse())

    def test_no_samples_at_all(self):
        self.put("train-images-idx3-ubyte", idx([0, 4, 4], b""))
        self.put("train-labels-idx1-ubyte", idx([0], b""))
        self.assertIn("train-images-idx3-ubyte", self.refuse())

    def test_more_workers_than_samples(self):
        self.assertRegex(self.refuse("parallel.workers=41", "train.batch_size=41"),
                         r"parallel\.workers = 41 \(command line\) is more than .*40 .*data; use fewer workers")

    def test_a_batch_larger_than_an_epoch(self):
        self.assertRegex(self.refuse("train.batch_size=64"),
                         r"train\.batch_size = 64 \(command line\) is more than an epoch: there are 40 training samples "
                         r"in data")


class Places(Refused):
    def test_a_file_where_the_run_folder_should_be(self):
        self.write("run", "precious")
        self.write("tiny.toml", TINY)
        done = self.troupe("train", "tiny.toml", "--run-dir", "run")
        self.assert_refused(done, "error: run: is a file, not a folder for a run; name another with --run-dir")

    def test_a_file_in_the_place_of_runs(self):
        self.write("runs", "precious")
        self.assertRegex(self.refuse(), r"runs: cannot create the folder of runs: .*")
        self.assertEqual((self.folder / "runs").read_text(), "precious")

    def test_a_place_that_cannot_be_written(self):
        self.write("tiny.toml", TINY)
        done = self.troupe("train", "tiny.toml", "--run-dir", "/proc/run")  # nor by root
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Aerror: /proc/run: cannot create the run's folder: .*\n\Z")


class NotANumber(Case):
    def test_stop_names_layer_worker_and_step(self):
        for layer in ("fc1", "fc2"):  # one aggregated, one applied at once
            with self.subTest(layer):
                done = self.train("update=fc1:sync,*:async", "debug.nan_at_step=3", "debug.nan_worker=1",
                                  f"debug.nan_layer={layer}", run=layer, exit_code=1)
                self.assertRegex(done.stderr,
                                 rf"\Aerror: coordinator: the gradient of layer {layer} on worker 1 in step 3 "
                                              r"holds NaN or Inf; .*train\.on_nonfinite.*\n\Z")
                summary = self.summary(layer)
                self.assertEqual((summary["outcome"], summary["exit_code"]), ("failed", 1))
                # The other worker's report of step 2 may have been on its way when the run ended.
                self.assertIn(summary["steps"], (2, 3))
                self.assertIn(f"layer {layer} on worker 1 in step 3", summary["error"])

    def test_stop_works_under_every_policy(self):
        for mode in ("sync", "all_reduce", "ssp(1)", "async"):
            with self.subTest(mode):
                done = self.train(f"update={mode}", "debug.nan_at_step=3", run=mode, exit_code=1)
                self.assertIn("layer fc1 on worker 0 in step 3", done.stderr)

    def test_skip_goes_on_and_counts(self):
        for mode in ("sync", "all_reduce", "ssp(1)", "async", "fc1:async,fc2:sync"):
            # Work is dealt on demand where all is asynchronous: a slow worker may come to no more than its first step.
            step = 0 if mode == "async" else 3
            with self.subTest(mode):
                done = self.train(f"update={mode}", f"debug.nan_at_step={step}", "train.on_nonfinite=skip", run=mode)
                self.assertIn(f"step {step}, worker 0: the gradient of layer fc1 holds NaN or Inf; the step is skipped",
                              done.stderr)
                self.assertIn("trouble: 1 step skipped", done.stdout)
                summary = self.summary(mode)
                self.assertEqual((summary["outcome"], summary["skipped_steps"], summary["steps"]), ("finished", 1, 16))
                self.assertIsNotNone(summary["train_loss"])
                self.assertNotIn(struct.pack("<f", float("nan")), self.weights(mode))

    def test_a_stopped_run_keeps_its_checkpoints(self):
        self.train("debug.nan_at_step=6", "checkpoint.every_steps=2", exit_code=1)
        done = self.troupe("train", "--resume", "run", "--set", "debug.nan_at_step=-1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.summary()["steps"], 16)


closing.run()
