#!/usr/bin/env python3
"""`troupe launch` under a real srun, of a Slurm that the test starts on this machine."""
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
import slurm
from program import TINY, Case, build


class Srun(Case):
    @classmethod
    def setUpClass(cls):
        cls.why_not = slurm.missing()
        if cls.why_not:
            return
        folder = tempfile.TemporaryDirectory(prefix="troupe-slurm-")
        cls.addClassCleanup(folder.cleanup)
        cls.slurm = slurm.Slurm(folder.name)
        cls.addClassCleanup(cls.slurm.stop)
        cls.why_not = cls.slurm.start()

    def setUp(self):
        super().setUp()
        if self.why_not:
            self.skipTest(self.why_not)
        self.write("tiny.toml", TINY)

    def srun(self, tasks, *arguments):
        return subprocess.run(["srun", "--ntasks", str(tasks), "--chdir", self.folder, *arguments], cwd=self.folder,
                              timeout=100,
                              env=self.environment({"SLURM_CONF": self.slurm.environment["SLURM_CONF"]}),
                              capture_output=True, text=True)

    def test_every_task_finds_its_place(self):
        done = self.srun(3, build / "troupe", "launch", "tiny.toml", "--run-dir", "run")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.summary()["outcome"], "finished")
        for place in range(3):
            self.assertTrue((self.folder / f"run/logs/node-{place}.log").is_file(), place)

    def test_what_would_run_is_shown_for_every_task(self):
        done = self.srun(2, build / "troupe", "launch", "tiny.toml", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(line.split(maxsplit=1)[1] for line in done.stdout.splitlines())
        self.assertRegex(lines[0], r"^node --join 127\.0\.0\.1:\d+ --place 1 ")
        self.assertRegex(lines[1], r"^node --join ADDRESS --place 0 ")
        self.assertRegex(lines[2], r"^train tiny\.toml --nodes 2 --listen 127\.0\.0\.1:\d+ ")

    def test_a_job_that_fails_gives_srun_its_exit_code(self):
        done = self.srun(2, build / "troupe", "launch", "tiny.toml", "--set", "train.epoch=1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean train.epochs?", done.stderr)


closing.run()
