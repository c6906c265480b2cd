"""What the tests stand on: the stand-ins, a folder, an environment and stderr of their own."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

TESTS = pathlib.Path(__file__).resolve().parent
STAND_INS = str(TESTS / "stand_ins")
RECIPES = str(TESTS.parent)
sys.path[:0] = [STAND_INS, RECIPES]

import torch  # noqa: E402, F401

import tidemark_capture  # noqa: E402

#: The variables that tell where a process stands.
PLACES = ("TIDEMARK", "SLURM", "TORCHELASTIC", "MASTER", "RANK", "WORLD_SIZE", "LOCAL_")
PLACES += ("GITHUB_", "GITLAB_", "CI_")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.spool = self.folder / "spool"
        self.snapshot = self.folder / "recorded"
        self.snapshot.write_bytes(b"a snapshot" * 100)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(PLACES)}
        kept.update(TIDEMARK_SPOOL=str(self.spool), FAKE_SNAPSHOT=str(self.snapshot))
        self.patch(mock.patch.dict(os.environ, kept, clear=True))
        self.patch(mock.patch.object(tidemark_capture, "PAUSES", (0.01, 0.01)))
        self.patch(mock.patch.object(tidemark_capture, "LONGEST_PAUSE", 0.01))
        self.patch(mock.patch.object(tempfile, "tempdir", str(self.folder)))
        self.stderr = io.StringIO()
        self.patch(contextlib.redirect_stderr(self.stderr))

    def patch(self, patch):
        patch.__enter__()
        self.addCleanup(patch.__exit__, None, None, None)

    def said(self):
        return self.stderr.getvalue()

    def waiting(self):
        """Names of the snapshots in the spool."""
        return sorted(path.name for path in self.spool.glob("*/*.pickle*"))

    def python(self, *args, **environment):
        """Another Python that has the stand-ins and the recipe."""
        path = os.pathsep.join((STAND_INS, RECIPES))
        env = {**os.environ, "PYTHONPATH": path, **environment}
        command = [sys.executable, *args]
        return subprocess.Popen(
            command,
            env=env,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
