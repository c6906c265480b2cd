"""The spool keeps to its bounds, says what it drops, and is sent by hand."""

import os
import shutil
import signal
import time
import unittest
from unittest import mock

from case import Case
from dashboard import Dashboard

from tidemark_capture import Capture, Spool


def open_files():
    """Paths of what this process has open."""
    for name in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass


class Bounds(Case):
    def fill(self, n):
        """Snapshots that no server takes."""
        with Dashboard() as dashboard:
            dashboard.always = {"/api/": 500}
            with Capture(dashboard.url, name="x", every=1) as capture:
                for _ in range(n - 1):
                    capture.step()

    def test_the_oldest_go_first_and_that_is_said_once(self):
        os.environ["TIDEMARK_SPOOL_FILES"] = "2"
        self.fill(5)
        self.assertEqual(self.waiting(), ["x-step4.pickle", "x.pickle"])
        self.assertEqual(self.said().count("the spool is full"), 1)

    def test_bytes_are_bounded(self):
        os.environ["TIDEMARK_SPOOL_BYTES"] = "3KiB"
        self.fill(5)
        held = sum(path.stat().st_size for path in self.spool.rglob("*") if path.is_file())
        self.assertTrue(1000 < held <= 3072, held)
        self.assertIn("x.pickle", self.waiting())

    def test_without_room_for_one_none_is_kept_and_no_address_of_it_is_given(self):
        os.environ["TIDEMARK_SPOOL_BYTES"] = "100"
        self.fill(1)
        self.assertEqual(self.waiting(), [])
        self.assertIn("the spool is full", self.said())
        self.assertNotIn("later:", self.said())

    def test_one_that_the_server_takes_needs_no_room(self):
        os.environ["TIDEMARK_SPOOL_BYTES"] = "100"
        with Dashboard() as dashboard, Capture(dashboard.url, name="x"):
            pass
        self.assertEqual(dashboard.names(), ["x.pickle"])

    def test_one_that_is_being_sent_neither_counts_nor_is_dropped(self):
        self.fill(3)
        os.environ["TIDEMARK_SPOOL_FILES"] = "1"
        first, second, _ = Spool().waiting()  # As another rank has them.
        for entry in first, second:
            self.assertTrue(entry.claim())
            self.assertTrue(entry.hold())
        Spool().trim()
        self.assertEqual(self.waiting(), ["x-step1.pickle", "x-step2.pickle", "x.pickle"])
        self.assertNotIn("the spool is full", self.said())
        second.release()
        Spool().trim()
        self.assertEqual(self.waiting(), ["x-step1.pickle", "x.pickle"])
        first.release()
        Spool().trim()
        self.assertEqual(self.waiting(), ["x.pickle"])

    def test_one_that_only_waits_for_its_owner_is_dropped(self):
        self.fill(1)
        os.environ["TIDEMARK_SPOOL_FILES"] = "0"
        [entry] = Spool().waiting()
        self.assertTrue(entry.claim())
        Spool().trim()
        self.assertEqual(self.waiting(), [])
        self.assertFalse(entry.hold())
        entry.remove()

    def test_no_other_rank_drops_what_a_program_sends(self):
        with Dashboard() as dashboard:
            with Capture(dashboard.url, name="x", compress=True) as capture:
                with dashboard.lock:  # It does not answer.
                    capture.send("warm")
                    [entry] = Spool().waiting()
                    while not entry.is_held():
                        time.sleep(0.01)
                    os.environ["TIDEMARK_SPOOL_FILES"] = "0"
                    Spool().trim()
            self.assertEqual(dashboard.names(), ["x-warm.pickle.gz", "x.pickle.gz"])
        self.assertEqual(list(self.spool.iterdir()), [])

    def make(self, name, about='{"name": "x"}'):
        folder = self.spool / name
        folder.mkdir(parents=True)
        (folder / "about.json").write_text(about)
        (folder / "x").write_text("a snapshot")
        return folder

    def test_what_was_never_finished_goes_after_a_day(self):
        for n, age in ((1, 90_000), (2, 10)):
            part = self.make(f"{n:019}-7-0123abcd.part")
            os.utime(part, (time.time() - age,) * 2)
        spool = Spool()
        spool.trim()
        self.assertEqual(list(self.spool.iterdir()), [part])
        self.assertEqual(spool.waiting(), [])

    def test_what_is_left_of_one_does_not_count_and_goes_after_a_day(self):
        os.environ["TIDEMARK_SPOOL_FILES"] = "1"
        self.fill(1)
        left = self.spool / f"{1:019}-7-0123abcd"
        left.mkdir()
        (left / ".nfs0001").touch()
        spool = Spool()
        spool.trim()
        self.assertEqual(self.waiting(), ["x.pickle"])
        self.assertEqual(len(spool.waiting()), 1)
        self.assertTrue(left.exists())
        os.utime(left, (0, 0))
        spool.trim()
        self.assertFalse(left.exists())
        self.assertEqual((self.waiting(), self.said().count("is full")), (["x.pickle"], 0))

    @unittest.skipUnless(os.path.isdir("/proc/self/fd"), "nobody says what is open")
    def test_nothing_is_left_where_open_files_are_kept(self):
        remove = shutil.rmtree

        def as_nfs(folder, ignore_errors):
            is_open = any(folder in link for link in open_files())
            remove(folder, ignore_errors)
            if is_open:
                os.mkdir(folder)
                open(os.path.join(folder, ".nfs0001"), "w").close()

        with mock.patch("shutil.rmtree", as_nfs), Dashboard() as dashboard:
            with Capture(dashboard.url, name="x"):
                pass
            self.assertEqual(dashboard.names(), ["x.pickle"])
            self.assertEqual(list(self.spool.iterdir()), [])

    def test_what_is_not_the_spool_s_is_never_touched(self):
        os.environ["TIDEMARK_SPOOL_FILES"] = "0"
        others = [self.make(name) for name in ("2026-data", "x", f"{1:019}-7-0123abcd.bak")]
        mine = self.make(f"{1:019}-7-0123abcd")
        for other in (*others, mine):
            os.utime(other, (0, 0))
        Spool().trim()
        self.assertEqual(sorted(self.spool.iterdir()), sorted(others))

    def test_what_others_left_there_is_not_sent(self):
        (self.folder / "x").write_text("a secret")
        for n, about in enumerate(('{"name": "../../x"}', "nonsense", "[]", "{}")):
            self.make(f"{n:019}-7-0123abcd", about)
        self.assertEqual([entry.claim() for entry in Spool().waiting()], [False] * 4)

    def test_two_senders_do_not_send_the_same(self):
        self.fill(1)
        [one], [two] = Spool().waiting(), Spool().waiting()
        self.assertEqual((one.claim(), two.claim()), (True, False))
        child = os.fork()
        if child == 0:  # A worker that goes on for a while.
            time.sleep(60)
            os._exit(0)
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        one.release()
        self.assertTrue(two.claim())
        two.release()


class ByHand(Case):
    def spool_of(self, dashboard, name):
        dashboard.always = {"/api/": 500}
        os.environ.update(RANK="1", WORLD_SIZE="2", TIDEMARK_JOB="j")
        with Capture(dashboard.url, name=name):
            pass
        dashboard.always = {}

    def run_spool(self, *args):
        process = self.python("-m", "tidemark_capture", "spool", *args)
        out, err = process.communicate()
        return process.returncode, out, err

    def test_it_is_listed_and_sent_to_its_own_server(self):
        with Dashboard() as one, Dashboard() as two:
            self.spool_of(one, "a")
            self.spool_of(two, "b")
            code, out, _ = self.run_spool()
            self.assertEqual((code, len(out.splitlines())), (0, 2))
            self.assertIn(f"a-rank1.pickle 0 MiB for {one.url}", out)
            code, out, err = self.run_spool("--send", "--server", one.url + "/")
            self.assertEqual((code, out), (0, f"{one.url}/runs/run_1\n"), err)
            self.assertEqual((one.names(), two.names()), (["a-rank1.pickle"], []))
            self.assertEqual((one.runs[0]["job"], one.runs[0]["rank"]), ("job_0", 1))
            self.assertEqual(self.waiting(), ["b-rank1.pickle"])

    def test_it_is_sent_to_the_project_that_it_was_taken_for(self):
        with Dashboard() as dashboard:
            os.environ["TIDEMARK_PROJECT"] = "vision"
            self.spool_of(dashboard, "a")
            self.assertIn(f"for {dashboard.url}, project vision", self.run_spool()[1])
            del os.environ["TIDEMARK_PROJECT"]
            dashboard.projects.clear()
            self.assertEqual(self.run_spool("--send", "--server", dashboard.url)[0], 0)
            self.assertEqual(dashboard.projects, {"vision"})
            # Nor does a program of another project take it along into its own.
            self.spool_of(dashboard, "b")
            os.environ["TIDEMARK_PROJECT"] = "speech"
            dashboard.projects.clear()
            with Capture(dashboard.url, name="c"):
                pass
            self.assertEqual(dashboard.names(), [f"{name}-rank1.pickle" for name in "abc"])
            self.assertEqual(dashboard.projects, {"speech", None})

    def test_what_cannot_be_sent_is_said_and_stays(self):
        with Dashboard() as dashboard:
            self.spool_of(dashboard, "a")
            dashboard.always = {"/api/": 413}
            code, out, err = self.run_spool("--send", "--server", dashboard.url)
            self.assertEqual((code, out), (1, ""))
            self.assertIn("a-rank1.pickle was not sent: fault 413", err)
            self.assertIn("was refused: fault 413", self.run_spool()[1])
        self.assertEqual(self.run_spool("--send")[0], 2)
