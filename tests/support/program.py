"""Runs build/troupe for the tests of the command line; the test script's first argument is the build folder."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

root = Path(__file__).resolve().parents[2]
build = Path(sys.argv[1]).resolve()


# A model and a data set so small that starting the program takes longer than training.
TINY = """
[run]
name = "tiny"
[data]
format = "synthetic"
samples = 128
features = 4
classes = 3
[model]
hidden = [8]
[train]
epochs = 2
batch_size = 16
[optimizer]
learning_rate = 0.05
[parallel]
workers = 2
servers = 2
"""
FASHION = Path("/usr/share/datasets/fashion-mnist")


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

    def troupe(self, *arguments, environment=(), timeout_s=120, before=()):
        """What `troupe ARGUMENTS` ended with and wrote: returncode, stdout, stderr. `before`: a command that runs
        it."""
        return subprocess.run([*before, build / "troupe", *map(str, arguments)], cwd=self.folder, timeout=timeout_s,
                              env=self.environment(environment), capture_output=True, text=True)

    def environment(self, more=()):
        return {name: value for name, value in os.environ.items() if not name.startswith("TROUPE_")} | dict(more)

    def start(self, *arguments, before=(), **options):
        """`troupe ARGUMENTS` as a process of its own, its standard output a pipe. `before` as for `troupe`."""
        process = subprocess.Popen([*before, build / "troupe", *map(str, arguments)], cwd=self.folder,
                                   env=self.environment(),
                                   **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options))
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def train(self, *arguments, run="run", config="tiny.toml", exit_code=0):
        """Trains TINY, or what `config` says, in the folder `run`; its output. Each argument with '=' is a --set."""
        if not (self.folder / "tiny.toml").exists():
            self.write("tiny.toml", TINY)
        done = self.troupe("train", config, "--run-dir", run, *settings(arguments))
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done

    def summary(self, run="run"):
        return json.loads((self.folder / run / "summary.json").read_text())

    def weights(self, run="run"):
        """The bytes of the exported parameters."""
        done = self.troupe("ckpt", "export", run, f"{run}.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.folder / f"{run}.safetensors").read_bytes()

    def names(self, folder="."):
        return sorted(entry.name for entry in (self.folder / folder).iterdir())

    def assert_refused(self, done, *lines):
        """Exit code 2, nothing on stdout, and exactly these lines on stderr."""
        self.assertEqual(done.stderr.splitlines(), list(lines))
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.returncode, 2)


def inherited_files(process):
    """What programs that the process started would hold open, beside the three standard streams."""
    found = []
    for file in Path(f"/proc/{process.pid}/fdinfo").iterdir():
        try:
            flags = int(file.read_text().split("flags:")[1].split()[0], 8)
            if int(file.name) > 2 and not flags & os.O_CLOEXEC:
                found.append(os.readlink(f"/proc/{process.pid}/fd/{file.name}"))
        except FileNotFoundError:
            pass  # closed since
    return found


def settings(arguments):
    """--set before each argument of the form key=value."""
    return [word for argument in arguments for word in (["--set", argument] if "=" in argument else [argument])]
