"""While a program runs, the dashboard hears of each step, and the training of nothing."""

import json
import os
import time
from unittest import mock

from case import Case, torch
from dashboard import Dashboard
from lightning.pytorch import fit
from test_capture import timed
from test_ranks import TORCHRUN
from transformers import train

import tidemark_capture
import tidemark_huggingface
import tidemark_lightning
from tidemark_capture import Capture


class Live(Case):
    def setUp(self):
        super().setUp()
        self.patch(mock.patch.object(tidemark_capture, "LIVE_PAUSE", 0.02))
        # Longer than it is: a busy host loses nothing here.
        self.patch(mock.patch.object(tidemark_capture, "LIVE_WAIT", 30))
        os.environ["TIDEMARK_RECORD"] = "0"

    def capture(self, url, **settings):
        return Capture(url, name="x", live=True, **{"live_seconds": 0.01, **settings})

    def until(self, is_so):
        end = time.monotonic() + 30
        while not is_so():
            self.assertLess(time.monotonic(), end, self.said())
            time.sleep(0.002)

    def ends(self, *errors, steps=1, **settings):
        """How live runs ended that these errors ended."""
        with Dashboard() as dashboard:
            for error in errors:
                try:
                    with self.capture(dashboard.url, **settings) as capture:
                        for _ in range(steps):
                            capture.step()
                        if error:
                            raise error
                except BaseException as raised:
                    self.assertIs(raised, error)
            self.assertEqual(dashboard.runs, [])
            return [tuple(live["end"].values()) for live in dashboard.lives]


class Reports(Live):
    def test_it_is_called_so_that_the_server_takes_it(self):
        with Dashboard() as dashboard:
            name = "a\u202eb" + "x" * 250
            with Capture(dashboard.url, name=name, live=True, live_seconds=0.01) as capture:
                capture.step()
            self.assertEqual(dashboard.lives[0]["name"], ("a_b" + "x" * 250)[:120])

    def test_each_step_arrives_once_and_in_order(self):
        with Dashboard() as dashboard:
            before = int(time.time() * 1000)
            with self.capture(dashboard.url, labels={"config": "qlora"}) as capture:
                for n in range(1, 2501):
                    counters = (n, 2 * n, 3 * n, 4, 5)
                    with mock.patch.object(torch.cuda, "counters", counters):
                        capture.step()
            [live] = dashboard.lives
            moments = [before, *(row.pop(1) for row in live["steps"]), time.time() * 1000]
            expected = [[n, n, 2 * n, 3 * n, 4, 5] for n in range(1, 2501)]
            wrong = [pair for pair in zip(live["steps"], expected) if pair[0] != pair[1]]
            self.assertEqual((len(live["steps"]), wrong[:1]), (2500, []))
            self.assertTrue(moments == sorted(moments), moments[:1] + moments[-1:])
            self.assertEqual(live.pop("end"), {"outcome": "done", "what": None})
            del live["steps"]
            about = {"name": "x", "rank": None, "ranks": None, "job": None, "device": 3}
            self.assertEqual(live, {**about, "limit": 40 << 30, "labels": {"config": "qlora"}})
            self.assertEqual(dashboard.requests.count("POST /api/live/live_1/end"), 1)
            self.assertEqual(self.said(), f"tidemark: live: {dashboard.url}/live/live_1\n")

    def test_they_arrive_while_the_program_runs(self):
        with Dashboard() as dashboard, self.capture(dashboard.url, token="tm_secret") as capture:
            for n in range(1, 4):
                capture.step()
                self.until(lambda: dashboard.lives and len(dashboard.lives[0]["steps"]) == n)
            self.assertEqual(dashboard.tokens, {"Bearer tm_secret"})
        self.assertNotIn("secret", self.said())

    def test_each_start_is_a_live_run(self):
        os.environ["TIDEMARK_LIVE"] = "1"
        with Dashboard() as dashboard:
            capture = Capture(dashboard.url)
            for _ in range(2):
                with capture:
                    capture.step()
            capture.start()
            capture.step()
            capture.start()  # Without an end: the first did not come to it.
            capture.close()
            numbers = [[row[0] for row in live["steps"]] for live in dashboard.lives]
            self.assertEqual(numbers, [[1], [1], [1], []])
            ends = [live["end"]["outcome"] for live in dashboard.lives]
            self.assertEqual(ends, ["done", "done", "failed", "done"])

    def test_it_is_off_unless_it_is_wished_for(self):
        os.environ.pop("TIDEMARK_RECORD")
        with Dashboard() as dashboard, Capture(dashboard.url) as capture:
            capture.step()
        self.assertEqual(dashboard.lives, [])

    def test_an_end_has_its_outcome(self):
        out_of_memory = torch.cuda.OutOfMemoryError("tried to allocate a secret")
        for steps in (0, 1):
            ends = self.ends(
                None, SystemExit(0), SystemExit(2), ValueError("secret"), out_of_memory, steps=steps
            )
            self.assertEqual(
                ends,
                [
                    ("done", None),
                    ("done", None),
                    ("failed", "SystemExit"),
                    ("failed", "ValueError"),
                    ("out_of_memory", "OutOfMemoryError"),
                ],
            )
        self.assertNotIn("secret", self.said())

    def test_a_program_that_does_not_close_tells_its_end(self):
        script = (
            "import sys, torch\n"
            "from tidemark_capture import Capture\n"
            "capture = Capture(sys.argv[1], live=True)\n"
            "capture.start()\n"
            "capture.step()\n"
        )
        fails = "raise KeyError('secret')"
        for last, expected in (
            ("", ("done", None)),
            (fails, ("failed", "KeyError")),
            ("torch.run_out_of_memory()", ("out_of_memory", "OutOfMemoryError")),
        ):
            with Dashboard() as dashboard:
                self.python("-c", script + last, dashboard.url).communicate()
                [live] = dashboard.lives
                self.assertEqual((len(live["steps"]), *live["end"].values()), (1, *expected))

    def test_ranks_say_which_and_find_the_job_of_their_snapshots(self):
        os.environ.update(TORCHRUN, TIDEMARK_RECORD="1")
        with Dashboard() as dashboard, self.capture(dashboard.url) as capture:
            capture.step()
        [live] = dashboard.lives
        self.assertEqual((live["rank"], live["ranks"]), (3, 8))
        self.assertEqual([live["job"]], list(dashboard.jobs))

    def test_around_a_script_each_step_of_an_optimizer_counts(self):
        script = "import torch\nsgd = torch.optim.SGD()\nfor _ in range(5): sgd.step()\n"
        (self.folder / "train.py").write_text(script)
        with Dashboard() as dashboard:
            options = ("--server", dashboard.url, "--live", "--no-record")
            process = self.python("-m", "tidemark_capture", *options, "train.py")
            self.assertEqual((process.communicate()[0], process.returncode), ("", 0))
            [live] = dashboard.lives
            self.assertEqual([row[0] for row in live["steps"]], [1, 2, 3, 4, 5])
            self.assertEqual((live["end"]["outcome"], dashboard.runs), ("done", []))

    def test_callbacks_take_it(self):
        with Dashboard() as dashboard:
            settings = {"live": True, "record": False}
            train(tidemark_huggingface.MemoryCallback(dashboard.url, **settings), 3)
            fit(tidemark_lightning.MemoryCallback(dashboard.url, **settings), ["a", "b"])
            try:
                callback = tidemark_lightning.MemoryCallback(dashboard.url, **settings)
                fit(callback, ["a", ValueError()])
            except ValueError:
                pass
            ends = [(len(live["steps"]), live["end"]["outcome"]) for live in dashboard.lives]
            self.assertEqual(ends, [(3, "done"), (2, "done"), (1, "failed")])


class Asked(Live):
    def steps(self, dashboard, capture, number, more):
        """Steps until the capture with this number is asked for, and some more."""
        dashboard.asked = {"id": number, "steps": 3}
        before = len(dashboard.runs)
        capture.step()
        self.until(lambda: capture._live.asked)
        for _ in range(more):
            capture.step()
        return dashboard.runs[before:]

    def test_a_snapshot_arrives_with_its_label(self):
        with Dashboard() as dashboard:
            with self.capture(dashboard.url, labels={"a": "b"}) as capture:
                self.steps(dashboard, capture, 7, more=1)
                self.assertTrue(torch.cuda.memory.recording)
                for _ in range(2):
                    capture.step()
                self.assertEqual(capture._live.asked, (7, 3))
                capture.step()  # The third since it records.
                self.assertFalse(torch.cuda.memory.recording)
                self.until(lambda: capture.links)
                for _ in range(5):  # It is asked for once, however often that is said.
                    capture.step()
                    time.sleep(0.02)
                self.steps(dashboard, capture, 8, more=4)
            self.assertEqual(dashboard.names(), ["x-live7.pickle", "x-live8.pickle"])
            labels = {"a": "b", "live": "live_1"}
            self.assertEqual([run["labels"] for run in dashboard.runs], [labels] * 2)

    def test_what_records_already_goes_on(self):
        for record in (True, False):
            with Dashboard() as dashboard:
                torch.cuda.memory.recording = True  # The program may by itself.
                with self.capture(dashboard.url, record=record) as capture:
                    self.steps(dashboard, capture, 1, more=4)
                    self.assertTrue(torch.cuda.memory.recording)
                expected = ["x-live1.pickle"] + ["x.pickle"] * record
                self.assertEqual(dashboard.names(), expected)
                torch.cuda.memory.recording = False

    def test_an_end_before_the_last_step_sends_what_there_is(self):
        with Dashboard() as dashboard:
            with self.capture(dashboard.url) as capture:
                self.steps(dashboard, capture, 1, more=2)
            self.assertEqual(dashboard.runs[0]["labels"], {"live": "live_1"})
            self.assertFalse(torch.cuda.memory.recording)

    def test_it_waits_in_the_spool_with_its_label(self):
        with Dashboard() as dashboard:
            dashboard.always = {"/api/uploads": 500}
            with self.capture(dashboard.url) as capture:
                self.steps(dashboard, capture, 1, more=4)
            self.assertEqual(self.waiting(), ["x-live1.pickle"])
            [about] = self.spool.glob("*/about.json")
            self.assertEqual(json.loads(about.read_text())["labels"], {"live": "live_1"})

    def test_labels_make_room_for_it(self):
        labels = {f"key{n}": "x" for n in range(tidemark_capture.MOST_LABELS)}
        with Dashboard() as dashboard:
            with self.capture(dashboard.url, labels=labels) as capture:
                self.steps(dashboard, capture, 1, more=4)
            [run] = dashboard.runs
            self.assertEqual((len(run["labels"]), run["labels"]["live"]), (len(labels), "live_1"))

    def test_what_is_no_question_is_none(self):
        nothing = ({"id": 1}, {"id": True, "steps": 1}, {"id": "1", "steps": 1}, [1], "x", 7)
        for asked in (*nothing, {"id": 1, "steps": 0}):
            with Dashboard() as dashboard:
                dashboard.asked, dashboard.warnings = asked, {"a": 1}
                with self.capture(dashboard.url) as capture:
                    capture.step()
                    self.until(lambda: dashboard.lives and dashboard.lives[0]["steps"])
                    capture.step()
                self.assertEqual(len(dashboard.lives[0]["steps"]), 2)
                self.assertEqual(dashboard.runs, [])

    def test_a_recorder_that_fails_is_said(self):
        broken = mock.Mock(side_effect=RuntimeError("no recorder"))
        with mock.patch.object(torch.cuda.memory, "_record_memory_history", broken):
            with Dashboard() as dashboard, self.capture(dashboard.url) as capture:
                self.steps(dashboard, capture, 1, more=4)
        self.assertIn("no snapshot was taken: no recorder", self.said())
        self.assertEqual(len(dashboard.lives[0]["steps"]), 5)

    def test_warnings_are_said_once(self):
        with Dashboard() as dashboard, self.capture(dashboard.url) as capture:
            dashboard.warnings = ["it grows\x1b[2J", "it is nearly full"]
            for n in range(1, 4):
                capture.step()
                self.until(lambda: dashboard.lives and len(dashboard.lives[0]["steps"]) == n)
        self.assertEqual(self.said().count("tidemark: live: it grows [2J\n"), 1)
        self.assertEqual(self.said().count("nearly full"), 1)

    def test_a_warning_whose_numbers_change_is_said_once(self):
        with Dashboard() as dashboard, self.capture(dashboard.url) as capture:
            for n in range(1, 4):
                grows = f"Memory grows by {n}.00 MiB a step: it is full in about {90 - n} steps."
                dashboard.warnings = [grows, f"The peak ({n} GiB) is close to the limit."]
                capture.step()
                self.until(lambda: dashboard.lives and len(dashboard.lives[0]["steps"]) == n)
        self.assertEqual(self.said().count("Memory grows by"), 1)
        self.assertEqual(self.said().count("The peak"), 1)


class Faults(Live):
    def test_a_server_that_was_away_gets_all(self):
        for away in (range(1, 20), range(20, 40), [*range(1, 5), *range(30, 35)]):
            with self.subTest(away), Dashboard() as dashboard:
                with self.capture(dashboard.url) as capture:
                    for n in range(1, 61):
                        dashboard.always = {"/api/live": 500 + n % 5} if n in away else {}
                        capture.step()
                        time.sleep(0.002)
                [live] = dashboard.lives
                self.assertEqual([row[0] for row in live["steps"]], [*range(1, 61)])
                self.assertEqual(live["end"]["outcome"], "done")
                self.assertLessEqual(self.said().count("live: the server is away"), 1)
            self.stderr.truncate(0)

    def test_pauses_grow_up_to_a_minute(self):
        self.patch(mock.patch.object(tidemark_capture, "LIVE_PAUSE", 60))
        live = mock.Mock(_ending=None, _seconds=2)
        for failures, again, most in ((0, 0, 2), (1, 0, 4), (2, 0, 8), (9, 0, 60), (1, 30, 30)):
            tidemark_capture._Live._pause(live, failures, again)
            [pause] = live._wake.wait.call_args.args
            self.assertTrue(0.7 * most <= pause <= most, (failures, again, pause))
        tidemark_capture._Live._pause(live, 2000, 10**9)
        self.assertLessEqual(live._wake.wait.call_args.args[0], 60)

    def test_a_server_that_starts_late_gets_all(self):
        dashboard = Dashboard()
        dashboard.start()
        port = dashboard.stop()
        with self.capture(dashboard.url) as capture:
            for _ in range(10):
                capture.step()
            self.until(lambda: "live: the server is away" in self.said())
            dashboard.start(port)
            self.addCleanup(dashboard.stop)
            self.until(lambda: dashboard.lives)
        self.assertEqual(len(dashboard.lives[0]["steps"]), 10)
        self.assertEqual(len(self.said().splitlines()), 2, self.said())

    def test_a_server_that_is_away_at_the_end_is_not_waited_for_long(self):
        for fault in ("refuses", "hangs"):
            with self.subTest(fault):
                dashboard = Dashboard()
                dashboard.start()
                with mock.patch.object(tidemark_capture, "LIVE_WAIT", 0.5):
                    capture = self.capture(dashboard.url)
                    capture.start()
                    capture.step()
                    self.until(lambda: dashboard.lives and dashboard.lives[0]["steps"])
                    if fault == "hangs":
                        dashboard.lock.acquire()
                        self.addCleanup(dashboard.lock.release)
                        self.addCleanup(dashboard.stop)
                    else:
                        dashboard.stop()
                    capture.step()
                    begin = time.monotonic()
                    capture.close()
                    self.assertLess(time.monotonic() - begin, 2)
                text = "does not know of the end, nor of 1 of 2 steps (0 were dropped"
                self.assertIn(text, self.said())

    def test_a_last_snapshot_takes_nothing_of_the_time_for_the_last_steps(self):
        os.environ["TIDEMARK_RECORD"] = "1"
        self.patch(mock.patch.object(tidemark_capture, "LIVE_WAIT", 0.5))
        dump = torch.cuda.memory._dump_snapshot

        def slow(path):
            end = time.monotonic() + 1
            while time.monotonic() < end:  # As torch does, it lets no other thread run.
                sum(range(10_000_000))
            dump(path)

        with Dashboard() as dashboard:
            dashboard.faults = ["close"]  # The first try, from before the snapshot.
            with mock.patch.object(torch.cuda.memory, "_dump_snapshot", slow):
                with self.capture(dashboard.url, live_seconds=60) as capture:
                    capture.step()
            self.assertEqual([len(live["steps"]) for live in dashboard.lives], [1], self.said())
            self.assertEqual(dashboard.names(), ["x.pickle"])

    def test_the_oldest_go_where_there_are_too_many_and_that_is_said(self):
        self.patch(mock.patch.object(tidemark_capture, "LIVE_ROWS", 100))
        self.patch(mock.patch.object(tidemark_capture, "LIVE_BATCH", 30))
        self.patch(mock.patch.object(tidemark_capture, "LIVE_PAUSE", 0.02))
        for slowly in (True, False):
            with Dashboard() as dashboard:
                dashboard.always = {"/api/live": 503}
                with self.capture(dashboard.url) as capture:
                    for n in range(350):
                        capture.step()
                        if slowly and n % 50 == 0:
                            time.sleep(0.05)
                    # A request that was on its way before the last step may hold older ones: the
                    # server comes back after it.
                    asked = len(dashboard.requests)
                    self.until(lambda: len(dashboard.requests) >= asked + 2)
                    dashboard.always = {}
                [live] = dashboard.lives
                self.assertEqual([row[0] for row in live["steps"]], [*range(251, 351)])
            self.assertIn("250 of 350 steps (250 were dropped, the oldest)", self.said())

    def test_a_server_that_knows_of_no_live_runs_is_not_asked_again(self):
        for status, part in ((404, "/api/live"), (410, "/steps"), (401, "/api/live")):
            with self.subTest(status), Dashboard() as dashboard:
                dashboard.always = {part: status}
                with self.capture(dashboard.url) as capture:
                    for _ in range(10):
                        capture.step()
                        time.sleep(0.01)
                asked = [request for request in dashboard.requests if part in request]
                self.assertEqual(len(asked), 1)
                self.assertEqual(self.said().count("live: it stopped"), 1, self.said())
            self.stderr.truncate(0)

    def test_nothing_that_a_server_says_reaches_the_training(self):
        for fault in ("close", "half", "nonsense", "other", 500, 302, 400, 429):
            with self.subTest(fault), Dashboard() as dashboard:
                self.patch(mock.patch.object(tidemark_capture, "LIVE_WAIT", 0.1))
                dashboard.always = {"/api/live": fault}
                with self.capture(dashboard.url) as capture:
                    for _ in range(3):
                        capture.step()
                        time.sleep(0.02)
        self.assertNotIn("Traceback", self.said())

    def test_an_end_whose_answer_was_lost_is_an_end(self):
        with Dashboard() as dashboard:
            take = dashboard.take_live

            def loses(path, document):
                is_first = path[1:] == ["end"] and not dashboard.lives[0]["end"]
                status, answer = take(path, document)
                return (503, {}) if is_first else (status, answer)

            with mock.patch.object(dashboard, "take_live", loses):
                with self.capture(dashboard.url) as capture:
                    capture.step()
            self.assertEqual(dashboard.requests.count("POST /api/live/live_1/end"), 2)
        self.assertEqual(len(self.said().splitlines()), 1, self.said())

    def test_a_page_that_is_no_address_is_not_said(self):
        with Dashboard() as dashboard:
            answer = (201, {"live": "live_9", "page": ["\x1b"]})
            with mock.patch.object(dashboard, "take_live", lambda *_: answer):
                with self.capture(dashboard.url) as capture:
                    capture.step()
            self.assertIn(f"live: {dashboard.url}/live/live_9\n", self.said())

    def test_counters_that_cannot_be_read_end_it_and_nothing_else(self):
        for broken in (mock.Mock(side_effect=RuntimeError("no counters")), lambda _: {}):
            name = "memory_stats_as_nested_dict"
            with mock.patch.object(torch.cuda, name, broken), Dashboard() as dashboard:
                with self.capture(dashboard.url, record=True) as capture:
                    for _ in range(3):
                        capture.step()
                self.assertEqual(dashboard.names(), ["x.pickle"])
                self.assertEqual(dashboard.lives[0]["end"]["outcome"], "done")
        self.assertEqual(self.said().count("live: no more steps: "), 2)

    def test_a_recorder_that_is_not_there_leaves_the_reports(self):
        broken = mock.Mock(side_effect=RuntimeError("no recorder"))
        with mock.patch.object(torch.cuda.memory, "_record_memory_history", broken):
            with Dashboard() as dashboard, self.capture(dashboard.url, record=True) as capture:
                capture.step()
        [live] = dashboard.lives
        self.assertEqual((len(live["steps"]), live["end"]["outcome"]), (1, "done"))
        self.assertIn("nothing is recorded: no recorder", self.said())
        self.assertEqual(dashboard.runs, [])

    def test_what_is_not_there_is_said_once(self):
        with mock.patch.object(torch.cuda, "is_ready", False), Dashboard() as dashboard:
            with self.capture(dashboard.url) as capture:
                for _ in range(3):
                    capture.step()
            self.assertEqual(dashboard.requests, [])
        self.assertEqual(self.said().count("before the program uses CUDA"), 1)
        with self.capture(None, output=str(self.folder / "out.pickle")) as capture:
            capture.step()
        self.assertIn("live: it is off: no server is set", self.said())
        with mock.patch.dict("sys.modules", torch=None), self.capture("http://h:1") as capture:
            capture.step()
        self.assertEqual(self.said().count("nothing is recorded: "), 1)
        self.assertEqual(len(self.said().splitlines()), 3, self.said())

    def test_a_thread_that_cannot_start_is_said(self):
        broken = mock.Mock(side_effect=RuntimeError("can't start new thread"))
        with mock.patch("threading.Thread.start", broken), self.capture("http://h:1") as capture:
            capture.step()
        self.assertIn("live: it is off: can't start new thread", self.said())

    def test_a_limit_that_is_not_known_is_left_open(self):
        for name, limit in (("get_per_process_memory_fraction", 80), ("get_device_properties", 0)):
            with mock.patch.object(torch.cuda, name), Dashboard() as dashboard:
                delattr(torch.cuda, name)
                with self.capture(dashboard.url) as capture:
                    capture.step()
            self.assertEqual(dashboard.lives[0]["limit"], limit << 30 or None)

    def test_a_forked_worker_reports_and_ends_nothing(self):
        with Dashboard() as dashboard:
            with self.capture(dashboard.url) as capture:
                capture.step()
                child = os.fork()
                if child == 0:
                    capture._live.asked = (1, 1)
                    for _ in range(3):
                        capture.step()
                    capture.close()
                    os._exit(0)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
                capture.step()
            self.assertEqual([row[0] for row in dashboard.lives[0]["steps"]], [1, 2])
            self.assertEqual((dashboard.runs, self.waiting()), ([], []))


class LiveCost(Live):
    def test_a_step_takes_less_than_fifty_microseconds(self):
        self.patch(mock.patch.object(tidemark_capture, "LIVE_WAIT", 0.1))
        for is_there in (True, False):
            with Dashboard() as dashboard:
                dashboard.always = {} if is_there else {"/api/live": 503}
                with self.capture(dashboard.url, live_seconds=2) as capture:
                    capture.step()
                    each = min(timed(capture.step, 500) for _ in range(20))
            self.assertLess(each, 50e-6)
