#!/usr/bin/env python3
"""`troupe plan` and `troupe profile`: what a run would need and take, said before it begins."""
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import Case, root

PIPELINE = """
[data]
format = "synthetic"
samples = 256
features = 16
classes = 3
[model]
hidden = [32, 32, 32]
[train]
batch_size = 64
[parallel]
workers = 2
stages = 2
micro_batches = 4
schedule = "1f1b"
"""
LAPTOP = root / "configs" / "hardware" / "laptop.toml"


class Planner(Case):
    def setUp(self):
        super().setUp()
        self.write("x.toml", PIPELINE)

    def plan(self, *arguments):
        done = self.troupe("plan", "x.toml", *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def refused(self, *arguments, says):
        done = self.troupe("plan", "x.toml", *arguments)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(says, done.stderr)


class Drawing(Planner):
    def test_the_schedule_is_drawn_as_in_papers(self):
        self.assertIn("stage 0 | F0 F1 .  .  I0 W0 F2 I1 W1 F3 I2 W2 .  I3 W3\n"
                      "stage 1 | .  F0 I0 W0 F1 I1 W1 F2 I2 W2 F3 I3 W3 .  .\n", self.plan("--draw"))

    def test_the_picture_is_xml_with_every_action(self):
        self.plan("--svg", "x.svg", "--set", "parallel.schedule=zb-h1")
        rectangles = xml.parse(self.folder / "x.svg").getroot().iter("{http://www.w3.org/2000/svg}rect")
        self.assertEqual(sum(1 for each in rectangles), 1 + 2 * 4 * 3)

    def test_a_schedule_of_ones_own_is_drawn(self):
        self.write("s.csv", "F0,B0,F1,B1\nF0,B0,F1,B1\n")
        self.assertIn("stage 0 | F0 .  .  .  I0 W0 F1", self.plan("--draw", "--set", "parallel.schedule_file=s.csv"))


class Planning(Planner):
    def test_every_question_is_answered(self):
        text = self.plan("--hardware", LAPTOP)
        for label in ("model", "hardware", "spread", "chunks", "memory", "step", "bubble", "stages", "gradients",
                      "transfers", "limit"):
            self.assertRegex(text, f"(?m)^{label} +\\S")
        self.assertIn("1 x 2 x 1, 1f1b, 4 micro-batches of 16", text)
        self.assertIn("; it fits", text)
        self.assertRegex(text, r"% of total time, [\d.]+ % of ideal time")

    def test_a_model_too_large_is_told_by_how_much(self):
        small = LAPTOP.read_text().replace("memory_gb = 4 ", "memory_gb = 0.00001 ")
        self.write("small.toml", small)
        text = self.plan("--hardware", "small.toml")
        self.assertIn("it does NOT fit", text)
        self.assertRegex(text, "(?m)^limit +memory$")

    def test_a_resnet_for_large_images_is_planned_without_images(self):
        done = self.troupe("plan", root / "configs/planned/resnet50_224.toml",
                           "--hardware", root / "configs/hardware/node_8gpu.toml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^model +resnet, 25,557,032 parameters")
        self.assertIn("8 x 1 x 1", done.stdout)
        self.assertIn("; it fits", done.stdout)

    def test_all_compositions_are_compared(self):
        text = self.plan("--hardware", LAPTOP, "--search")
        self.assertIn("2 x 1 x 1", text)
        self.assertIn("1 x 2 x 1", text)

    def test_measured_times_are_planned_with(self):
        done = self.troupe("profile", "x.toml", "--out", "layers.csv", "--seconds", "0.05")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("The best cut into 2: --set parallel.cuts=", done.stdout)
        lines = (self.folder / "layers.csv").read_text().splitlines()
        self.assertEqual([line.split(",")[0] for line in lines[3:]], ["fc1", "fc2", "fc3", "fc4"])
        text = self.plan("--hardware", LAPTOP, "--profile", "layers.csv")
        self.assertIn("computation as measured", text)


class Mistakes(Planner):
    def test_a_plan_needs_something_to_plan_for(self):
        self.refused(says="--hardware FILE (configs/hardware has some)")

    def test_hardware_is_checked_with_its_place(self):
        self.write("h.toml", LAPTOP.read_text().replace("peak_tflops", "peak_tflop"))
        self.refused("--hardware", "h.toml", says="unknown key peak_tflop; did you mean peak_tflops?")
        self.write("h.toml", "name = \"mine\"\n")
        self.refused("--hardware", "h.toml", says="also needs devices, devices_per_node, memory_gb")
        self.write("h.toml", LAPTOP.read_text().replace("efficiency = 0.6", "efficiency = 60"))
        self.refused("--hardware", "h.toml", says="efficiency must be more than 0 and at most 1, not 60")
        self.refused("--hardware", "nowhere.toml", says="nowhere.toml: cannot read the hardware file")

    def test_more_stages_than_layers_are_refused(self):
        self.refused("--hardware", LAPTOP, "--set", "parallel.workers=8", "--set", "parallel.stages=8",
                     says="needs 8 devices, laptop, two workers has 2")
        self.write("h.toml", LAPTOP.read_text().replace("devices = 2", "devices = 8"))
        self.refused("--hardware", "h.toml", "--set", "parallel.workers=8", "--set", "parallel.stages=8",
                     says="8 stages are more than the model's 4 layers")

    def test_what_does_not_divide_is_refused(self):
        self.refused("--draw", "--set", "parallel.schedule=interleaved", "--set", "parallel.chunks=2",
                     "--set", "parallel.micro_batches=5", says="5 micro-batches are no multiple of 2 stages")

    def test_a_schedule_with_a_cycle_is_refused(self):
        self.write("s.csv", "F0,B0,F1,B1\nF0,F1,B0,B1\n")
        self.refused("--draw", "--set", "parallel.schedule_file=s.csv",
                     says="would wait for ever: stage 0 waits at I0 for W0, which stage 1 has only after F1")

    def test_a_schedule_without_a_backward_is_refused(self):
        self.write("s.csv", "F0,B0,F1\nF0,B0,F1,B1\n")
        self.refused("--draw", "--set", "parallel.schedule_file=s.csv", says="stage 0 never runs I1, the backward pass")

    def test_a_profile_that_is_none_is_refused(self):
        self.write("p.csv", "fc1,1\n")
        self.refused("--hardware", LAPTOP, "--profile", "p.csv", says="p.csv:1: the header should be")


closing.run()
