"""Whatever a server, a disk or a setting does, training goes on and nothing is lost unsaid."""

import errno
import gzip
import os
from unittest import mock

from case import Case, torch
from dashboard import Dashboard

import tidemark_capture
from tidemark_capture import Capture


class ServerFaults(Case):
    def capture(self, dashboard):
        with Capture(dashboard.url, name="x") as capture:
            pass
        return capture

    def test_what_passes_is_tried_again(self):
        close, half = [None, "close"], [None, "half"]
        for faults in ([500], [503, 429], ["close"], close, half, ["nonsense"], ["other"]):
            with self.subTest(faults), Dashboard() as dashboard:
                dashboard.faults = list(faults)
                capture = self.capture(dashboard)
                self.assertEqual(len(capture.links), 1, self.said())
                self.assertEqual(self.waiting(), [])

    def test_a_server_that_says_when_to_come_again_is_obeyed_within_reason(self):
        for again, least, most in (("7", 7, 10.5), ("3600", 30, 45), ("soon", 0, 1), ("²", 0, 1)):
            with Dashboard() as dashboard, mock.patch("time.sleep") as sleep:
                self.patch(mock.patch.object(tidemark_capture, "LONGEST_PAUSE", 30))
                dashboard.faults = [{"status": 503, "headers": [("Retry-After", again)]}]
                self.assertEqual(len(self.capture(dashboard).links), 1)
                [pause] = [call.args[0] for call in sleep.call_args_list]
                self.assertTrue(least <= pause <= most, pause)

    def test_what_stays_is_kept_and_said(self):
        for fault, tries in ((500, 3), (413, 1), (401, 1), ("close", 3), ("nonsense", 3)):
            with self.subTest(fault), Dashboard() as dashboard:
                dashboard.always = {"/api/": fault}
                self.assertEqual(self.capture(dashboard).links, [])
                self.assertEqual(len(dashboard.requests), tries)
                self.assertEqual(self.waiting(), ["x.pickle"])
                self.assertIn("no snapshot was uploaded", self.said())
                self.assertIn(f"curl -T {self.spool}", self.said())
                if isinstance(fault, int):
                    self.assertIn(f"fault {fault}", self.said())
                for entry in tidemark_capture.Spool().entries():
                    entry.remove()

    def test_a_body_that_is_refused_half_way_is_kept(self):
        self.snapshot.write_bytes(os.urandom(8 << 20))
        with Dashboard() as dashboard:
            dashboard.always = {"/api/uploads/": "close"}
            self.assertEqual(self.capture(dashboard).links, [])
        self.assertEqual(self.waiting(), ["x.pickle"])

    def test_a_server_that_is_away_is_said_once(self):
        dashboard = Dashboard()
        dashboard.start()
        dashboard.stop()
        with Capture(dashboard.url, name="x", every=1) as capture:
            for _ in range(5):
                capture.step()
        self.assertEqual(self.said().count("no snapshot was uploaded"), 1, self.said())
        self.assertEqual(self.said().count("later:"), 1)
        self.assertEqual(len(self.waiting()), 6)

    def test_what_waits_is_sent_once_the_server_is_back(self):
        dashboard = Dashboard()
        dashboard.start()
        port = dashboard.stop()
        with Capture(dashboard.url, name="early"):
            pass
        self.assertEqual(self.waiting(), ["early.pickle"])
        dashboard.start(port)
        self.addCleanup(dashboard.stop)
        with Capture(dashboard.url, name="late") as capture:
            pass
        self.assertEqual(dashboard.names(), ["early.pickle", "late.pickle"])
        self.assertEqual((len(capture.links), self.waiting()), (1, []))

    def test_what_one_server_refused_is_not_sent_by_itself_again_nor_to_another(self):
        with Dashboard() as one, Dashboard() as two:
            one.always = {"/api/uploads": 413}
            self.capture(one)
            one.always = {}
            for dashboard in (one, two):
                with Capture(dashboard.url, name="next"):
                    pass
                self.assertEqual(dashboard.names(), ["next.pickle"])
        self.assertEqual(self.waiting(), ["x.pickle"])

    def test_a_redirect_does_not_take_the_token_along(self):
        with Dashboard() as thief, Dashboard() as dashboard:
            for status in (301, 302, 303, 307, 308):
                headers = [("Location", f"{thief.url}/api/uploads")]
                dashboard.always = {"/api/": {"status": status, "headers": headers}}
                with Capture(dashboard.url, token="tm_secret") as capture:
                    pass
                self.assertEqual(capture.links, [])
            self.assertEqual(thief.requests, [])
            self.assertEqual(dashboard.tokens, {"Bearer tm_secret"})


class Secrets(Case):
    def test_a_token_is_sent_and_is_nowhere_else(self):
        os.environ["TIDEMARK_TOKEN"] = "tm_secret\n"
        with Dashboard() as dashboard:
            dashboard.always = {"/api/uploads/": 500}
            with Capture(dashboard.url, name="x"):
                pass
            self.assertEqual(dashboard.tokens, {"Bearer tm_secret"})
        texts = [path.read_bytes() for path in self.spool.rglob("*") if path.is_file()]
        texts += [str(path).encode() for path in self.spool.rglob("*")]
        self.assertEqual(len(self.waiting()), 1)
        self.assertFalse([text for text in texts if b"secret" in text])
        self.assertNotIn("secret", self.said())

    def test_what_cannot_be_a_token_or_an_address_is_said_without_it(self):
        for url, token in (
            ("http://h:1", "tm\nsecret"),
            ("http://h:1", "tmsecret€"),
            ("http://me:secret@h:1", None),
            ("secret", None),
        ):
            with self.subTest(url), Capture(url, token=token) as capture:
                capture.step()
            self.assertIn("nothing is recorded", self.said())
            self.assertNotIn("secret", self.said())

    def test_the_spool_is_for_its_owner(self):
        with Dashboard() as dashboard:
            dashboard.always = {"/api/": 500}
            with Capture(dashboard.url):
                pass
        for path in (self.spool, *self.spool.iterdir()):
            self.assertEqual(path.stat().st_mode & 0o777, 0o700)


class LocalFaults(Case):
    def trains(self, *args, **settings):
        """A capture with which training goes on; how many snapshots were sent."""
        with Capture(*args, **{"every": 1, **settings}) as capture:
            capture.step()
        return len(capture.links)

    def test_a_full_disk_is_said_once_and_leaves_nothing(self):
        def full(path):
            with open(path, "wb") as file:
                file.write(b"half a snap")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with Dashboard() as dashboard, mock.patch.object(torch.cuda.memory, "_dump_snapshot", full):
            self.assertEqual(self.trains(dashboard.url), 0)
            self.assertEqual(self.trains(output=str(self.folder / "out.pickle")), 0)
        self.assertEqual(self.said().count("no snapshot was taken"), 2)
        left = [path for path in self.folder.rglob("*") if path.is_file()]
        self.assertEqual(left, [self.snapshot])

    def test_where_nothing_can_wait_it_waits_elsewhere(self):
        self.spool.write_text("a file is in the way")
        with Dashboard() as dashboard:
            self.assertEqual(self.trains(dashboard.url), 2)
            self.assertEqual(list(self.folder.glob("tidemark-spool-*")), [])
            dashboard.always = {"/api/": 500}
            self.assertEqual(self.trains(dashboard.url), 0)
        self.assertEqual(self.said().count("nothing can wait in"), 2, self.said())
        self.assertEqual(len(list(self.folder.glob("tidemark-spool-*/*/*.pickle"))), 2)

    def test_a_file_system_without_locks_will_do(self):
        for lock in (mock.Mock(side_effect=OSError(errno.ENOSYS, "no locks")), None):
            module = mock.Mock(flock=lock, LOCK_EX=2, LOCK_NB=4) if lock else None
            with Dashboard() as dashboard, mock.patch.object(tidemark_capture, "fcntl", module):
                self.trains(dashboard.url, name="x")
                self.assertEqual(dashboard.names(), ["x-step1.pickle", "x.pickle"])
                self.assertEqual(self.waiting(), [])

    def test_a_disk_too_full_to_pack_sends_the_snapshot_as_it_is(self):
        def full(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with Dashboard() as dashboard, mock.patch.object(gzip.GzipFile, "write", full):
            self.assertEqual(self.trains(dashboard.url, compress=True), 2)
            dashboard.always = {"/api/": 500}
            self.assertEqual(self.trains(dashboard.url, compress=True), 0)
        self.assertEqual({run["body"] for run in dashboard.runs}, {self.snapshot.read_bytes()})
        self.assertEqual(self.waiting(), ["snapshot-step1.pickle", "snapshot.pickle"])

    def test_a_torch_that_cannot_record_is_said(self):
        broken = mock.Mock(side_effect=RuntimeError("no CUDA here"))
        with mock.patch.object(torch.cuda.memory, "_record_memory_history", broken):
            self.assertEqual(self.trains("http://h:1"), 0)
        self.assertIn("nothing is recorded: no CUDA here", self.said())

    def test_without_a_server_nothing_is_recorded(self):
        self.assertEqual(self.trains(), 0)
        self.assertIn("neither TIDEMARK_SERVER nor", self.said())
        self.assertFalse(torch.cuda.memory.recording)

    def test_a_setting_that_is_no_number_is_said_and_not_used(self):
        os.environ.update(TIDEMARK_EVERY="often", TIDEMARK_SPOOL_BYTES="-")
        with Dashboard() as dashboard:
            self.assertEqual(self.trains(dashboard.url, every=None), 1)
        self.assertIn("TIDEMARK_EVERY is not a number", self.said())
