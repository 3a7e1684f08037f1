#!/usr/bin/env python3
"""`troupe keys`: a run's keys appear as files for their owner alone, once, and no secret is printed."""
import os
import stat
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import Case

SECRETS = ["client.key", "coordinator.key", "node.key"]


class Keys(Case):
    def secret_in(self, name):
        words = dict(line.split() for line in (self.folder / "keys" / name).read_text().splitlines() if line[0] != "#")
        return words["secret"]

    def mode(self, name):
        return stat.S_IMODE(os.stat(self.folder / name).st_mode)

    def test_keys_are_made_for_each_role(self):
        done = self.troupe("keys", "keys")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.names("keys"), sorted(SECRETS + ["public.keys"]))
        self.assertEqual(self.mode("keys"), 0o700)
        for name in SECRETS:
            self.assertEqual(self.mode(f"keys/{name}"), 0o600)

    def test_no_secret_is_printed(self):
        done = self.troupe("keys", "keys")
        for name in SECRETS:
            self.assertEqual(len(self.secret_in(name)), 40)
            self.assertNotIn(self.secret_in(name), done.stdout + done.stderr)
            self.assertNotIn(self.secret_in(name), (self.folder / "keys" / "public.keys").read_text())

    def test_keys_are_not_overwritten(self):
        self.troupe("keys", "keys")
        before = self.secret_in("node.key")
        self.assert_refused(self.troupe("keys", "keys"),
                            "error: keys/public.keys: is there already, and a run may use it: name another folder, or "
                            "delete it")
        self.assertEqual(self.secret_in("node.key"), before)

    def test_a_folder_that_cannot_be_made_is_named(self):
        self.assert_refused(self.troupe("keys", "no/such/keys"),
                            "error: no/such/keys: cannot be made: No such file or directory")


closing.run()
