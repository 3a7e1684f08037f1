"""Runs of several real processes, for the tests of the command line."""
import json
import tempfile
import time

from program import TINY, Case, settings

LONG = ("train.epochs=100000", "checkpoint.every_steps=500")  # until it is stopped


class Cluster(Case):
    def start(self, *arguments, **options):
        """What it prints goes to files: a process whose pipe nobody empties stands still before long."""
        files = {name: tempfile.TemporaryFile("w+") for name in ("stdout", "stderr")}
        process = super().start(*arguments, **files, **options)
        process.printed = tuple(files.values())
        for file in process.printed:
            self.addCleanup(file.close)
        return process

    def coordinate(self, *arguments, nodes=2, run="run", listen="127.0.0.1:0", config=TINY):
        """A coordinator that listens; its address."""
        self.write("tiny.toml", config)
        self.coordinator = self.start("train", "tiny.toml", "--run-dir", run, "--listen", listen, "--nodes", nodes,
                                      "--announce", "announced", *settings(arguments))
        return self.wait_for(lambda: (self.folder / "announced").read_text().splitlines()[0])

    def wait_for(self, question, seconds=20):
        """The question's first true answer."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                answer = question()
            except (OSError, ValueError, IndexError, KeyError):
                answer = None
            if answer:
                return answer
            time.sleep(0.02)
        self.fail(f"it did not happen within {seconds} s; the coordinator: {self.how_it_is(self.coordinator)}")

    def how_it_is(self, process):
        if process.poll() is None:
            return "runs"
        code, out, err = self.ended(process)
        return f"ended with {code}\n{out}{err}"

    def node(self, address, place=None, *arguments):
        where = [] if place is None else ["--place", place]
        return self.start("node", "--join", address, *where, *arguments)

    def status(self):
        done = self.troupe("status", "run", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def ended(self, process, timeout_s=30):
        process.wait(timeout_s)
        for file in process.printed:
            file.seek(0)
        return (process.returncode, *(file.read() for file in process.printed))
