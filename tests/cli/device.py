#!/usr/bin/env python3
"""`[parallel] device` and the benchmarks of devices, on machines with GPUs and without."""
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import Case, build

# How the program says that there is nothing to compute on but the CPU: no module, no driver, or no device.
MISSING = r"no CUDA device can be used: .*(libtroupe_cuda\.so|driver|nvidia-smi)"


class Device(Case):
    def has_gpu(self):
        return self.troupe("bench", "h2d", "--device", "cuda").returncode == 0

    def test_cuda_without_a_device_says_what_is_missing_and_who_asked(self):
        if self.has_gpu():
            self.skipTest("there is a GPU")
        done = self.train("parallel.device=cuda", exit_code=2)
        self.assertRegex(done.stderr, r'\Aerror: parallel\.device = "cuda" \(command line\): ' + MISSING)
        self.assertEqual(self.names("run") if (self.folder / "run").exists() else [], [])

    def test_auto_without_a_device_trains_on_the_cpu_and_says_so(self):
        if self.has_gpu():
            self.skipTest("there is a GPU")
        self.train("parallel.device=auto", "train.max_steps=2")
        self.assertEqual(self.summary()["steps"], 2)
        log = (self.folder / "run/log.txt").read_text()
        self.assertRegex(log,
                         r'parallel\.device = "auto" \(command line\): workers compute on the CPU, since ' + MISSING)

    def test_a_program_without_the_module_says_where_it_looked(self):
        alone = self.folder / "alone"
        alone.mkdir()
        program = alone / "troupe"
        program.write_bytes((build / "troupe").read_bytes())
        program.chmod(0o755)
        done = subprocess.run([program, "bench", "h2d", "--device", "cuda"], capture_output=True, text=True, timeout=60,
                              env=self.environment())
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{alone}/libtroupe_cuda.so", done.stderr)

    def test_servers_on_a_device_that_is_not_there_are_an_error_that_says_who_asked(self):
        if self.has_gpu():
            self.skipTest("there is a GPU")
        done = self.train("parallel.server_device=cuda", exit_code=2)
        self.assertRegex(done.stderr, r'\Aerror: parallel\.server_device = "cuda" \(command line\): ' + MISSING)

    def test_who_convolves_is_told_where_the_module_is_there(self):
        if not (build / "libtroupe_cuda.so").exists():
            self.skipTest("built without CUDA")
        told = r"convolutions by (cuDNN \d+\.\d+\.\d+|patches and products)"
        self.assertRegex(self.troupe("doctor").stdout, told)

    def test_graphs_of_launches_are_told_to_have_no_effect_on_the_cpu(self):
        done = self.train("parallel.launch_graphs=true", "train.max_steps=1")
        self.assertRegex(done.stdout + done.stderr, r"parallel\.launch_graphs = .* has no effect with parallel\.device")

    def test_a_precision_of_gpus_is_told_to_have_no_effect_on_the_cpu(self):
        done = self.train("precision.matmul=tf32", "train.max_steps=1")
        self.assertRegex(done.stdout + done.stderr, r"precision\.matmul = .* has no effect with parallel\.device")


class Bench(Case):
    def bench(self, *arguments):
        done = self.troupe("bench", *arguments, "--device", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_products_are_compared_with_the_best(self):
        out = self.bench("gemm", "--size", "64", "--size", "128")
        self.assertRegex(out, r"(?m)^ +128 +128 +128 +[\d.]+ +\d+ %$")
        self.assertIn("100 %", out)

    def test_ops_are_compared_with_a_copy(self):
        out = self.bench("ops", "--rows", "64", "--width", "100")
        self.assertRegex(out, r"(?m)^  layer norm  +[\d.]+ +[\d.]+ +\d+ %$")

    def test_copies_are_measured(self):
        self.assertEqual(len(re.findall(r"(?m) \d+ %$", self.bench("h2d"))), 6)

    def test_steps_are_measured_alone_and_as_a_runs_and_compared(self):
        out = self.bench("step", "--model", "mlp", "--batch", "8", "--steps", "3", "--against", "1e-3")
        self.assertRegex(out, r"forward and backward pass +[\d.]+ us, +[\d.]+ samples/s")
        self.assertRegex(out, r"a step of a run +[\d.]+ us, +[\d.]+ samples/s")
        self.assertRegex(out, r"(?m)of eager PyTorch's speed [\d.]+, target at least 1\.00: met$")

    def test_an_all_reduce_of_threads_is_measured(self):
        self.assertRegex(self.bench("all-reduce", "--ranks", "2"), r"2 ranks on CPU")


closing.run()
