"""Runs build/troupe for the tests of the command line; the test script's first argument is the build folder."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

root = Path(__file__).resolve().parents[2]
build = Path(sys.argv[1]).resolve()


class Case(unittest.TestCase):
    """A test with a folder of its own, in which the program runs."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="troupe-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return name

    def troupe(self, *arguments, environment=(), timeout_s=120):
        """What `troupe ARGUMENTS` ended with and wrote: returncode, stdout, stderr."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TROUPE_")}
        return subprocess.run([build / "troupe", *map(str, arguments)], cwd=self.folder, timeout=timeout_s,
                              env=clean | dict(environment), capture_output=True, text=True)

    def assert_refused(self, done, *lines):
        """Exit code 2, nothing on stdout, and exactly these lines on stderr."""
        self.assertEqual(done.stderr.splitlines(), list(lines))
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.returncode, 2)
