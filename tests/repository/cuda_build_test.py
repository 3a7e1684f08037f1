#!/usr/bin/env python3
"""What TROUPE_CUDA decides where there is no toolkit. (Where there is one, this build has made the module.)"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

root = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/support"))
import closing


class WithoutToolkit(unittest.TestCase):
    def configure(self, choice):
        """What tools/cmake/Cuda.cmake says where nothing of CUDA can be found."""
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(["cmake", f"-DTROUPE_CUDA={choice}", f"-DTROUPE_CUDA_ROOT={folder}",
                                   "-P", root / "tools/cmake/Cuda.cmake"], cwd=folder, capture_output=True, text=True,
                                  env={"PATH": "/usr/bin:/bin"})

    def test_auto_builds_without_it_and_says_so(self):
        done = self.configure("AUTO")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"No CUDA backend: .*TROUPE_NVCC.* not found")

    def test_on_is_an_error_that_names_what_is_missing(self):
        done = self.configure("ON")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(" ".join(done.stderr.split()), r"TROUPE_CUDA is ON, but .*TROUPE_NVCC.* could not be found")

    def test_off_looks_for_nothing(self):
        done = self.configure("OFF")
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


closing.run()
