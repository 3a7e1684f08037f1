#!/usr/bin/env python3
"""tools/gpu_run.sh, which runs a GPU bundle: with a loader and programs that only say what they were asked."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

root = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/support"))
import closing

LOADER = '#!/bin/bash\n[[ $1 == --library-path ]] || exit 9\nshift 2\nexec "$@"\n'
PROGRAMS = {
    "cublas_alone": "echo 7e+14",
    "test_kernels": "echo 'error: in gemm'; exit 201",
    "test_actors": "echo '12 passed'",
    "troupe": 'echo "troupe $*"\n'
              'case "$2 $*" in\n'
              '  gemm*--alone*) echo "bf16 products of 4096 reach 93.00 %, target at least 90.00 %: met" ;;\n'
              '  ops*) echo "fused adamw reaches, of a copy 71.00 %, target at least 80.00 %: missed" ;;\n'
              '  h2d*) exit 4 ;;\n'
              'esac',
}


class GpuRun(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.add("lib/ld-linux-x86-64.so.2", LOADER)
        self.add("run.sh", (root / "tools/gpu_run.sh").read_text())
        self.add("path/python3", "#!/bin/bash\necho \"No module named 'torch'\" >&2\nexit 1\n")
        for name, body in PROGRAMS.items():
            self.add(f"bin/{name}", f"#!/bin/bash\n{body}\n")

    def add(self, name, text):
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def run_all(self):
        environment = {"PATH": f"{self.folder}/path:{os.environ['PATH']}"}
        done = subprocess.run([self.folder / "run.sh"], capture_output=True, text=True, timeout=60, env=environment)
        kept = list(self.folder.glob("results-*.txt"))
        self.assertEqual(len(kept), 1)
        return done, kept[0].read_text()

    def test_everything_is_run_though_tests_and_a_benchmark_fail(self):
        done, table = self.run_all()
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: in gemm", table)
        for part in ("bench gemm --device cuda --alone 7e+14", "bench ops", "bench all-reduce",
                     "bench step --device cuda --model gpt --graphs", "--set parallel.device=cuda"):
            self.assertIn(f"troupe {part}" if part.startswith("bench") else part, table)

    def test_the_table_ends_with_the_targets_and_what_failed(self):
        _, table = self.run_all()
        end = table.split("== targets\n")[1]
        self.assertIn("target at least 90.00 %: met", end)
        self.assertIn("target at least 80.00 %: missed", end)
        self.assertIn("PyTorch, cnn: not measured: No module named 'torch'", end)
        self.assertIn("FAILED: test_kernels (exit code 201)", end)
        self.assertIn("FAILED: troupe bench h2d --device cuda (exit code 4)", end)

    def test_pytorch_is_compared_with_where_it_is(self):
        self.add("path/python3", "#!/bin/bash\necho 1234.5\n")
        _, table = self.run_all()
        self.assertIn("troupe bench step --device cuda --model mlp --against 1234.5", table)

    def test_without_failures_it_ends_well(self):
        for name in ("test_kernels", "troupe"):
            self.add(f"bin/{name}", "#!/bin/bash\n")
        done, _ = self.run_all()
        self.assertEqual(done.returncode, 0, done.stdout)


closing.run()
