#!/usr/bin/env python3
"""Pipelines: workers that are stages of a replica, in one process and in several."""
import json
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from cluster_runs import Cluster
from program import TINY

DEEP = TINY.replace("hidden = [8]", "hidden = [8, 7, 6, 5, 4]").replace("workers = 2", "")
PROFILE_HEADER = ("layer,layers,forward_s,backward_input_s,backward_weight_s,output_bytes,kept_bytes,kept_input_bytes,"
                  "parameter_bytes")
STAGES = ("parallel.stages=3", "parallel.micro_batches=4")


def parameters(safetensors):
    """Tensor names and their numbers."""
    size = struct.unpack("<Q", safetensors[:8])[0]
    header = json.loads(safetensors[8:8 + size])
    header.pop("__metadata__", None)
    values = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values[name] = struct.unpack(f"<{(end - begin) // 4}f", safetensors[8 + size + begin:8 + size + end])
    return values


class Pipelines(Cluster):
    def setUp(self):
        super().setUp()
        self.write("deep.toml", DEEP)

    def close(self, run, other):
        a, b = parameters(self.weights(run)), parameters(self.weights(other))
        self.assertEqual(a.keys(), b.keys())
        scale = max(abs(x) for values in b.values() for x in values)
        for name in a:
            for x, y in zip(a[name], b[name], strict=True):
                self.assertLess(abs(x - y), 1e-5 * scale, name)

    def test_three_stages_train_what_one_worker_trains(self):
        self.train("parallel.workers=1", run="one", config="deep.toml")
        for schedule in ("gpipe", "1f1b", "zb-h1", "zb-h2"):
            run = f"run-{schedule}"
            self.train(*STAGES, f"parallel.schedule={schedule}", run=run, config="deep.toml")
            self.close(run, "one")
            self.assertEqual(self.summary(run)["samples"], self.summary("one")["samples"])

    def test_two_processes_train_bit_for_bit_what_one_does(self):
        self.train(*STAGES, run="alone", config="deep.toml")
        done = self.troupe("train", "deep.toml", "--run-dir", "run", "--processes", 2,
                           *(word for setting in STAGES for word in ("--set", setting)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.weights("run"), self.weights("alone"))

    def test_an_evaluation_goes_through_many_chunks_a_stage(self):
        config = Path(__file__).resolve().parents[2] / "configs/pipeline.toml"
        widths = ",".join(["32"] * 13)
        self.train("model.kind=mlp", "model.channels=", f"model.hidden={widths}", "parallel.schedule=interleaved",
                   "parallel.chunks=6", "parallel.micro_batches=4", "parallel.stall_s=20", "train.max_steps=2", config=config)
        self.assertIsNotNone(self.summary()["test_accuracy"])

    def test_a_schedule_of_ones_own(self):
        self.write("own.csv", "F0,F1,,,B0,B1\n,F0,F1,B0,B1,\n")
        self.train("parallel.workers=1", run="one", config="deep.toml")
        done = self.train("parallel.stages=2", "parallel.schedule_file=own.csv", "parallel.micro_batches=5",
                          config="deep.toml")
        self.assertIn("parallel.micro_batches = 5 (command line) has no effect with parallel.schedule_file", done.stderr)
        self.close("run", "one")

    def test_such_a_schedule_may_have_chunks_and_cuts_of_its_own(self):
        self.write("own.csv", "0F0,,,2F0,,,2B0,,,0B0\n,1F0,,,3F0,3B0,,1B0\n")
        self.train("parallel.workers=1", run="one", config="deep.toml")
        self.train("parallel.stages=2", "parallel.schedule_file=own.csv", "parallel.cuts=1,2,1,2", config="deep.toml")
        self.close("run", "one")

    def test_stages_that_never_flush_train_the_same_in_two_processes(self):
        for schedule in ("pipedream", "pipedream-2bw"):
            settings = (*STAGES, f"parallel.schedule={schedule}")
            self.train(*settings, run=f"alone-{schedule}", config="deep.toml")
            done = self.troupe("train", "deep.toml", "--run-dir", f"run-{schedule}", "--processes", 2,
                               *(word for setting in settings for word in ("--set", setting)))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(self.weights(f"run-{schedule}"), self.weights(f"alone-{schedule}"))
        steps = [self.summary(f"run-{schedule}")["steps"] for schedule in ("pipedream", "pipedream-2bw")]
        self.assertEqual(steps[0], 4 * steps[1])

    def test_such_a_run_goes_on_from_its_checkpoint(self):
        settings = (*STAGES, "parallel.schedule=pipedream", "checkpoint.every_steps=6")
        self.train(*settings, run="whole", config="deep.toml")
        self.train("train.max_steps=12", *settings, run="half", config="deep.toml")
        done = self.troupe("train", "--resume", "half", "--set", "train.max_steps=0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.weights("half"), self.weights("whole"))

    def test_a_measured_profile_cuts_the_model_in_every_process(self):
        self.write("deep.toml", DEEP)
        lines = [f"fc{k},1,{k},0,0,0,0,0,0" for k in range(1, 7)]  # of 21 the last two layers take 11
        self.write("layers.csv", "\n".join([PROFILE_HEADER, *lines, ""]))
        done = self.troupe("train", "deep.toml", "--run-dir", "run", "--processes", 2, "--set", "parallel.stages=2",
                           "--set", "parallel.profile=layers.csv")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("stage 0: fc1 to fc4; stage 1: fc5, fc6", done.stdout + done.stderr)

    def test_a_killed_stage_is_replaced_with_its_replica_and_the_run_ends_as_it_should(self):
        slow = ("train.epochs=12", "debug.slow_worker=0", "debug.slow_ms=10")
        self.train("train.epochs=12", *STAGES, run="alone", config="deep.toml")
        address = self.coordinate(*slow, *STAGES, nodes=3, config=DEEP)
        nodes = [self.node(address, 0, "--takes", "servers")]
        stages = [self.node(address, place, "--takes", "workers") for place in (1, 2)]
        self.wait_for(lambda: self.status()["step"] > 5)
        stages[0].kill()
        nodes += [stages[1], self.node(address, 1, "--takes", "workers")]
        self.wait_for(lambda: self.status()["worker_restarts"] > 0)
        code, out, err = self.ended(self.coordinator)
        self.assertEqual(code, 0, out + err)
        self.assertEqual([self.ended(node)[0] for node in nodes], [0, 0, 0])
        self.assertEqual(self.summary()["samples"], 12 * 128)
        self.close("run", "alone")


class BadInput(Cluster):
    def refused(self, text, *arguments):
        self.write("deep.toml", DEEP)
        done = self.train(*arguments, config="deep.toml", exit_code=2)
        self.assertIn(text, done.stderr)

    def test_more_stages_than_the_model_has_parts(self):
        self.refused("parallel.stages x parallel.chunks = 9 parts are more than the 6 that the model can be cut into",
                     "parallel.stages=9")

    def test_workers_that_make_up_no_whole_replica(self):
        self.refused("parallel.workers = 3 (command line) is not a multiple of parallel.stages = 2 (command line)",
                     "parallel.stages=2", "parallel.workers=3")

    def test_interleaving_that_does_not_divide(self):
        self.refused("multiple", "parallel.stages=2", "parallel.schedule=interleaved", "parallel.chunks=2",
                     "parallel.micro_batches=3")

    def test_cuts_that_do_not_add_up(self):
        self.refused("parallel.cuts gives out 2 of the model's 6 layers", "parallel.stages=2", "parallel.cuts=[1,1]")

    def test_a_profile_of_another_model_or_none(self):
        self.refused("no.csv: cannot read the profile", "parallel.stages=2", "parallel.profile=no.csv")
        self.write("other.csv", "%s\nconv1,1,1,1,1,0,0,0,0\n" % PROFILE_HEADER)
        self.refused("other.csv (command line): row 1 is of conv1, where this model has fc1", "parallel.stages=2",
                     "parallel.profile=other.csv")

    def test_a_schedule_that_never_ends_or_lacks_a_backward(self):
        self.write("circle.csv", "F0,B1,F1,B0\nF0,B1,F1,B0\n")
        self.refused("circle.csv", "parallel.stages=2", "parallel.schedule_file=circle.csv")
        self.write("missing.csv", "F0,F1,B0\nF0,B0,F1,B1\n")
        self.refused("missing.csv", "parallel.stages=2", "parallel.schedule_file=missing.csv")
        self.refused("no.csv", "parallel.stages=2", "parallel.schedule_file=no.csv")

    def test_check_finds_a_schedule_that_cannot_be(self):
        self.write("deep.toml", DEEP)
        self.write("circle.csv", "F0,B1,F1,B0\nF0,B1,F1,B0\n")
        for text, *settings in (("3 micro-batches are no multiple of 2 stages", "parallel.schedule=interleaved",
                                 "parallel.chunks=2", "parallel.micro_batches=3"),
                                ("schedule 'pipedream' has one chunk a stage, not 2", "parallel.schedule=pipedream",
                                 "parallel.chunks=2"),
                                ("would wait for ever", "parallel.schedule_file=circle.csv")):
            words = [word for setting in ("parallel.stages=2", *settings) for word in ("--set", setting)]
            done = self.troupe("check", "deep.toml", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), settings)
            self.assertIn(text, done.stderr)

    def test_a_replica_that_would_shrink(self):
        self.refused("elastic.on_loss = \"shrink\" (command line): a replica cannot go on without one of its stages",
                     "parallel.stages=2", "elastic.on_loss=shrink")

    def test_a_nan_for_a_worker_that_computes_a_part(self):
        self.refused("debug.nan_at_step = 1 (command line) and parallel.stages = 2 (command line)", "parallel.stages=2",
                     "debug.nan_at_step=1")

    def test_what_an_asynchronous_schedule_cannot_wait_for(self):
        stages = ("parallel.stages=2", "parallel.schedule=pipedream")
        self.refused("[[update]] table 1 (command line) makes * async", *stages, "update=*:async")
        self.refused("train.clip_norm = 1.0 (command line) clips by the norm of the gradients of all stages", *stages,
                     "train.clip_norm=1")
        self.refused("train.on_nonfinite = \"skip\" (command line) is a decision of all stages", *stages,
                     "train.on_nonfinite=skip")
        self.refused("precision.loss_scale = \"dynamic\" (command line) is a decision of all stages on each step", *stages,
                     "precision.activations=f16", "precision.loss_scale=dynamic")
        self.refused("parallel.strict_schedule = true (command line)", *stages, "parallel.strict_schedule=true")
        self.refused("is no multiple of parallel.micro_batches = 5 (command line)", *stages, "parallel.micro_batches=5")

    def test_clipping_of_what_is_pushed_at_once(self):
        self.refused("train.clip_norm = 1.0 (command line) clips by the norm of the whole gradient", "parallel.stages=2",
                     "train.clip_norm=1", "update=*:async")



closing.run()
