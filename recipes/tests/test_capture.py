"""What is recorded when, under which name, and what it costs."""

import json
import os
import pickle
import shutil
import time
from unittest import mock

from case import TESTS, Case, torch
from dashboard import Dashboard

from tidemark_capture import Capture, _number, _size, upload


class Moments(Case):
    def names(self, body, **settings):
        """Names of what a program sends."""
        with Dashboard() as dashboard:
            try:
                with Capture(dashboard.url, name="x", **settings) as capture:
                    body(capture)
            except BaseException:
                pass
            self.assertFalse(torch.cuda.memory.recording)
            return dashboard.names()

    def test_each_end_has_its_name(self):
        def fail(error):
            def body(_):
                raise error

            return body

        for body, expected in (
            (lambda _: None, "x.pickle"),
            (fail(SystemExit()), "x.pickle"),
            (fail(SystemExit(0)), "x.pickle"),
            (fail(SystemExit(1)), "x-failed.pickle"),
            (fail(ValueError()), "x-failed.pickle"),
            (fail(KeyboardInterrupt()), "x-failed.pickle"),
            (fail(torch.cuda.OutOfMemoryError()), "x-oom.pickle"),
            (lambda _: torch.run_out_of_memory(), "x-oom.pickle"),
        ):
            self.assertEqual(self.names(body), [expected])

    def test_every_n_steps(self):
        def steps(capture):
            for _ in range(7):
                capture.step()

        expected = ["x-step3.pickle", "x-step6.pickle", "x.pickle"]
        self.assertEqual(self.names(steps, every=3), expected)
        os.environ["TIDEMARK_EVERY"] = "3"
        self.assertEqual(self.names(steps), expected)

    def test_pinned_memory_is_recorded_on_request_where_torch_can(self):
        def body(_):
            recorded.append((torch.cuda.memory.recording, torch.cuda.memory.records_pinned))

        for setting, given, expected in (
            ("", None, False), ("", True, True), ("1", None, True), ("1", False, False)
        ):
            recorded = []
            os.environ["TIDEMARK_PINNED"] = setting
            self.assertEqual(self.names(body, pinned=given), ["x.pickle"])
            self.assertEqual(recorded, [(True, expected)])

        known = torch.cuda.memory._record_memory_history

        def older(enabled="all", max_entries=None):
            known(enabled, max_entries)

        recorded = []
        with mock.patch.object(torch.cuda.memory, "_record_memory_history", older):
            self.assertEqual(self.names(body, pinned=True), ["x.pickle"])
        self.assertEqual(recorded, [(True, False)])
        self.assertIn("pinned memory is not recorded: that takes torch 2.14", self.said())

    def test_an_error_that_is_caught_is_recorded_beside_the_end(self):
        def body(_):
            for _ in range(2):
                try:
                    torch.run_out_of_memory()
                except torch.cuda.OutOfMemoryError:
                    pass

        self.assertEqual(self.names(body), ["x-oom.pickle", "x.pickle"])

    def test_it_decorates_and_begins_again(self):
        with Dashboard() as dashboard:

            @Capture(dashboard.url, name="x")
            def train():
                self.assertTrue(torch.cuda.memory.recording)

            train()
            train()
            self.assertEqual(dashboard.names(), ["x.pickle"] * 2)

    def test_settings_come_from_the_environment(self):
        with Dashboard() as dashboard:
            os.environ.update(
                TIDEMARK_SERVER=dashboard.url + "/", TIDEMARK_NAME="a/b", TIDEMARK_COMPRESS="1"
            )
            os.environ["TIDEMARK_PROJECT"] = "vision"
            with Capture() as capture:
                pass
            self.assertEqual(dashboard.names(), ["a_b.pickle.gz"])
            self.assertEqual(capture.links, [f"{dashboard.url}/runs/run_1?project=vision"])
            self.assertEqual(dashboard.projects, {"vision"})
            os.environ["TIDEMARK_EVERY"] = "5"
            self.assertEqual((Capture().every, Capture(every=0).every), (5, 0))

    def test_an_output_is_whole_and_one_for_each_rank(self):
        output = self.folder / "out.pickle"
        with Capture(output=str(output)):
            pass
        self.assertEqual(output.read_bytes(), self.snapshot.read_bytes())
        os.environ.update(RANK="1", WORLD_SIZE="2")
        with Dashboard() as dashboard, Capture(dashboard.url, output=str(output)):
            pass
        self.assertTrue((self.folder / "out-rank1.pickle").exists())

    def test_an_output_that_does_not_fit_leaves_the_one_before(self):
        output = self.folder / "out.pickle"
        output.write_bytes(b"before")

        copy = shutil.copyfile

        def half(source, to):
            copy(source, to)
            if "out.pickle" in str(to):
                raise OSError("No space left on device")

        with Dashboard() as dashboard, mock.patch("shutil.copyfile", half):
            with Capture(dashboard.url, output=str(output)):
                pass
            self.assertEqual(dashboard.names(), ["snapshot.pickle"])
        self.assertIn("no snapshot was written: No space left", self.said())
        self.assertEqual(output.read_bytes(), b"before")
        self.assertEqual(list(self.folder.glob("*.part")), [])

    def test_nothing_begins_to_use_cuda_before_the_program_does(self):
        self.patch(mock.patch.multiple(torch.cuda, is_ready=False, queued=[]))
        self.patch(mock.patch.object(torch._C, "observer", None))

        def body(capture):
            capture.send("before")
            self.assertEqual((torch.cuda.memory.recording, torch._C.observer), (False, None))
            torch.cuda.init()
            self.assertTrue(torch.cuda.memory.recording)
            torch._C.observer()

        self.assertEqual(self.names(body), ["x-oom.pickle", "x.pickle"])
        self.assertEqual(self.said().count("before this process uses CUDA"), 1)

    def test_a_program_that_never_uses_cuda_is_told_so(self):
        self.patch(mock.patch.multiple(torch.cuda, is_ready=False, queued=[]))
        dump = mock.Mock()  # It would begin to use CUDA.
        with mock.patch.object(torch.cuda.memory, "_dump_snapshot", dump):
            self.assertEqual(self.names(lambda _: None), [])
        dump.assert_not_called()
        self.assertIn("nothing is recorded before this process uses CUDA", self.said())
        torch.cuda.init()  # After its end.
        self.assertFalse(torch.cuda.memory.recording)

    def test_a_recorder_that_fails_late_does_not_fail_the_program(self):
        self.patch(mock.patch.multiple(torch.cuda, is_ready=False, queued=[]))
        broken = mock.Mock(side_effect=RuntimeError("no recorder"))
        with mock.patch.object(torch.cuda.memory, "_record_memory_history", broken):
            self.assertEqual(self.names(lambda _: torch.cuda.init()), [])
        self.assertIn("nothing is recorded: no recorder", self.said())

    def test_a_torch_that_keeps_no_calls_for_later_records_at_once(self):
        with mock.patch.object(torch.cuda, "_lazy_call"):
            del torch.cuda._lazy_call
            self.assertEqual(self.names(lambda _: None), ["x.pickle"])

    def test_a_forked_worker_uses_cuda_by_itself(self):
        self.patch(mock.patch.multiple(torch.cuda, is_ready=False, queued=[]))

        def body(_):
            child = os.fork()
            if child == 0:
                torch.cuda.init()
                os._exit(1 if torch.cuda.memory.recording else 0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            torch.cuda.init()

        self.assertEqual(self.names(body), ["x.pickle"])

    def test_a_capture_can_go_to_another_process_before_it_begins(self):
        self.assertEqual(pickle.loads(pickle.dumps(Capture("http://h:1", name="x"))).name, "x")

    def test_a_forked_worker_records_and_ends_nothing(self):
        with Dashboard() as dashboard:
            with Capture(dashboard.url, name="x", every=1) as capture:
                capture.step()
                child = os.fork()
                if child == 0:
                    capture.step()
                    capture.close()
                    os._exit(0)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(dashboard.names(), ["x-step1.pickle", "x.pickle"])

    def test_a_file_is_uploaded_by_hand(self):
        with Dashboard() as dashboard:
            answer = upload(str(self.snapshot), dashboard.url)
            self.assertEqual((answer["run"]["id"], dashboard.names()), ("run_1", ["recorded"]))

    def test_numbers_have_units(self):
        for text, expected in (("7", 7), ("2k", 2048), ("4GiB", 4 << 30), ("1 MB", 1_000_000)):
            os.environ["TIDEMARK_X"] = text
            self.assertEqual(_number("X", 0), expected)
        for text in ("-5", "0.5", "often"):
            os.environ["TIDEMARK_X"] = text
            self.assertEqual(_number("X", 3), 3)
            self.assertIn(f"TIDEMARK_X is not a number: {text!r}; it is 3 now", self.said())

    def test_sizes_are_read_as_the_binary_reads_them(self):
        # trace/src/units/size.rs is tested by the same table.
        table = json.loads((TESTS.parents[1] / "tests/fixtures/sizes.json").read_text("utf-8"))
        self.assertTrue(table["read"] and table["refused"])
        for text, expected in table["read"]:
            with self.subTest(text):
                self.assertEqual(_size(text), expected)
        for text in table["refused"]:
            with self.subTest(text), self.assertRaises(ValueError):
                _size(text)


class Programs(Case):
    def test_a_program_that_ends_without_closing_sends_what_it_has(self):
        script = (
            "import sys, torch\n"
            "from tidemark_capture import Capture\n"
            "Capture(sys.argv[1], name='x').start()\n"
            "torch.run_out_of_memory()\n"
        )
        with Dashboard() as dashboard:
            process = self.python("-c", script, dashboard.url)
            _, log = process.communicate()
            self.assertEqual(process.returncode, 1)
            self.assertIn("CUDA out of memory", log)
            self.assertEqual(dashboard.names(), ["x-oom.pickle"])

    def test_a_program_that_is_killed_while_it_sends_loses_nothing(self):
        script = (
            "import sys, time\n"
            "from tidemark_capture import Capture\n"
            "with Capture(sys.argv[1], name='x') as capture:\n"
            "    capture.send('before')\n"
            "    print('taken', flush=True)\n"
            "    time.sleep(60)\n"
        )
        with Dashboard() as dashboard:
            with dashboard.lock:  # It does not answer.
                process = self.python("-c", script, dashboard.url)
                self.assertEqual(process.stdout.readline(), "taken\n")
                process.kill()
                process.communicate()
            self.assertEqual((self.waiting(), dashboard.runs), (["x-before.pickle"], []))
            with Capture(dashboard.url, name="next"):
                pass
            self.assertEqual(dashboard.names(), ["next.pickle", "x-before.pickle"])
            self.assertEqual(self.waiting(), [])

    def test_around_a_script(self):
        (self.folder / "train.py").write_text("import sys\nsys.exit(len(sys.argv) - 2)\n")
        with Dashboard() as dashboard:
            process = self.python(
                "-m", "tidemark_capture", "--server", dashboard.url, "train.py", "--lr"
            )
            self.assertEqual((process.communicate()[0], process.returncode), ("", 0))
            self.assertEqual(dashboard.names(), ["train.pickle"])

    def test_around_a_script_every_n_steps_of_an_optimizer(self):
        script = "import torch\nsgd = torch.optim.SGD()\nfor _ in range(5): sgd.step()\n"
        (self.folder / "train.py").write_text(script)
        with Dashboard() as dashboard:
            args = ("-m", "tidemark_capture", "--server", dashboard.url, "train.py")
            process = self.python(*args, TIDEMARK_EVERY="2")
            self.assertEqual((process.communicate()[0], process.returncode), ("", 0))
            expected = ["train-step2.pickle", "train-step4.pickle", "train.pickle"]
            self.assertEqual(dashboard.names(), expected)

    def test_around_a_script_its_first_line_comes_before_cuda(self):
        script = (
            "import torch\n"
            "before = torch.cuda.memory.recording, torch._C.observer\n"
            "torch.cuda.init()\n"
            "print(before, torch.cuda.memory.recording, torch._C.observer is not None)\n"
        )
        (self.folder / "train.py").write_text(script)
        all_names = ["train.pickle"]
        for options, recording, names in (((), True, all_names), (("--no-record",), False, [])):
            with Dashboard() as dashboard:
                args = ("-m", "tidemark_capture", "--server", dashboard.url, "--live", *options)
                process = self.python(*args, "train.py", FAKE_IS_UNUSED="1")
                expected = f"(False, None) {recording} True\n"
                self.assertEqual((process.communicate()[0], process.returncode), (expected, 0))
                self.assertEqual(dashboard.names(), names)

    def test_training_does_not_wait_for_the_server(self):
        with Dashboard() as dashboard:
            with Capture(dashboard.url, name="x", every=1) as capture:
                with dashboard.lock:  # It does not answer.
                    for _ in range(3):
                        capture.step()
            self.assertEqual(len(dashboard.runs), 4)


class Cost(Case):
    def test_a_step_with_nothing_to_do_takes_less_than_five_microseconds(self):
        with Dashboard() as dashboard, Capture(dashboard.url, every=10**9) as capture:
            capture.step()
            each = min(timed(capture.step, 10_000) for _ in range(20))
        self.assertLess(each, 5e-6)


def timed(function, times):
    begin = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - begin) / times
