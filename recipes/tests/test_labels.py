"""Which labels a run gets, and that a server's no to them costs nothing else."""

import os
from unittest import mock

from case import Case
from dashboard import Dashboard
from transformers import train

from tidemark_capture import Capture, Spool, upload
from tidemark_huggingface import MemoryCallback

PULL_REQUEST = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_HEAD_REF": "fix/leak",
    "GITHUB_REF_NAME": "7/merge",
    "GITHUB_SHA": "1f2e",
}
PUSH = {**PULL_REQUEST, "GITHUB_HEAD_REF": "", "GITHUB_REF_NAME": "main"}
MERGE_REQUEST = {
    "GITLAB_CI": "true",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "fix",
    "CI_COMMIT_REF_NAME": "refs",
    "CI_COMMIT_SHA": "9a",
}
GITLAB_PUSH = {"GITLAB_CI": "true", "CI_COMMIT_REF_NAME": "trunk", "CI_COMMIT_SHA": "9a"}

# What is no label: the key, the value.
WRONG = (
    ("", "a"),
    ("ключ", "1"),
    ("a b", "1"),
    ("k\n", ""),
    ("k" * 65, "x"),
    ("k", ""),
    ("k", " "),
    ("k", "x" * 201),
    ("k", "a\nb"),
    ("k", "a\x9bb"),
    ("k", "a\u202eb"),
    ("k", "a\u200bb"),
    ("k", "a\u2028b"),
    ("k", "a\U000e0041b"),
    ("k", "a\udc80b"),  # What a variable has that is not UTF-8.
)


class Labels(Case):
    def of(self, given, env):
        """The labels of a capture's run, with these variables set."""
        with mock.patch.dict(os.environ, env), Dashboard() as dashboard:
            with Capture(dashboard.url, name="x", labels=given):
                pass
            [run] = dashboard.runs
            return run["labels"]

    def test_what_is_given_decides_over_the_environment_and_that_over_ci(self):
        named = {"TIDEMARK_LABELS": "config=qlora, team = a b=c ,branch=mine,"}
        of_named = {"config": "qlora", "team": "a b=c", "branch": "mine"}
        for given, env, expected in (
            (None, {}, {}),
            ({" config ": " a b, c=d "}, {}, {"config": "a b, c=d"}),
            ({"ml.team/stage": "pre-train"}, {}, {"ml.team/stage": "pre-train"}),
            ({"k" * 64: "é" * 200}, {}, {"k" * 64: "é" * 200}),
            (None, PULL_REQUEST, {"branch": "fix/leak", "commit": "1f2e"}),
            (None, PUSH, {"branch": "main", "commit": "1f2e"}),
            (None, MERGE_REQUEST, {"branch": "fix", "commit": "9a"}),
            (None, GITLAB_PUSH, {"branch": "trunk", "commit": "9a"}),
            # Both are set: it is GitHub's.
            (None, {**GITLAB_PUSH, **PUSH}, {"branch": "main", "commit": "1f2e"}),
            (None, {"GITHUB_SHA": "1f2e", "CI_COMMIT_SHA": "9a"}, {}),
            (None, {**PUSH, "GITHUB_ACTIONS": "1"}, {}),
            (None, {**GITLAB_PUSH, "GITLAB_CI": "1"}, {}),
            # What CI says and cannot be a label is nobody's wish.
            (None, {**PUSH, "GITHUB_REF_NAME": "x" * 201}, {"commit": "1f2e"}),
            (None, named, of_named),
            (None, {**named, **PUSH}, {**of_named, "commit": "1f2e"}),
            (
                {"branch": "given", "config": "given"},
                {**named, **PUSH},
                {**of_named, "branch": "given", "config": "given", "commit": "1f2e"},
            ),
            (None, {"TIDEMARK_LABELS": "k=1, ,k=2"}, {"k": "2"}),
        ):
            with self.subTest(given=given, env=env):
                self.assertEqual(self.of(given, env), expected)
        self.assertNotIn("left out", self.said())

    def test_what_is_no_label_is_a_mistake_of_the_program(self):
        many = {f"k{n}": "v" for n in range(33)}
        others = ({"k": 7}, {7: "k"}, {"k": None}, ["k=v"], "k=v", many)
        for labels in (*({key: value} for key, value in WRONG), *others):
            with self.subTest(labels):
                for make in (Capture, MemoryCallback):
                    with self.assertRaises(ValueError):
                        make("http://h:1", labels=labels)
                with Dashboard() as dashboard, self.assertRaises(ValueError):
                    upload(str(self.snapshot), dashboard.url, labels=labels)
                self.assertEqual(dashboard.requests, [])

    def test_what_is_no_label_in_the_environment_is_left_out_and_said_once(self):
        texts = [f"{key}={value}" for key, value in WRONG]
        for text in (*texts, "branch", "=", ",".join(texts)):
            with self.subTest(text):
                self.stderr.truncate(0)
                labels = self.of({"config": "a"}, {"TIDEMARK_LABELS": f"team=b,{text},z=c"})
                self.assertEqual(labels, {"config": "a", "team": "b", "z": "c"})
                self.assertEqual(self.said().count("\n"), 2, self.said())  # That, and the link.
                self.assertEqual(self.said().count("are left out"), 1)

    def test_of_too_many_those_of_the_program_stay(self):
        given = {f"k{n}": "v" for n in range(31)}
        env = {**PUSH, "TIDEMARK_LABELS": "a=1,b=2,k0=w"}
        self.assertEqual(self.of(given, env), {**given, "a": "1"})
        [line] = [line for line in self.said().splitlines() if "are left out" in line]
        for key in ("'b'", "'branch'", "'commit'"):
            self.assertIn(key, line)
        self.assertNotIn("k0", line)

    def test_callbacks_and_uploads_by_hand_label_too(self):
        os.environ["TIDEMARK_LABELS"] = "team=b"
        expected = {"config": "a", "team": "b"}
        with Dashboard() as dashboard:
            train(MemoryCallback(dashboard.url, every=2, labels={"config": "a"}), 3)
            upload(str(self.snapshot), dashboard.url, labels={"config": "a"})
            self.assertEqual([run["labels"] for run in dashboard.runs], [expected] * 3)

    def test_each_rank_labels_its_run(self):
        with Dashboard() as dashboard:
            for rank in "01":
                place = {"RANK": rank, "WORLD_SIZE": "2", "TIDEMARK_JOB": "j"}
                with mock.patch.dict(os.environ, place):
                    with Capture(dashboard.url, name="x", labels={"config": "a"}):
                        pass
            found = [(run["rank"], run["labels"]) for run in dashboard.runs]
            self.assertEqual(found, [(0, {"config": "a"}), (1, {"config": "a"})])

    def test_without_labels_nothing_is_asked(self):
        with Dashboard() as dashboard:
            with Capture(dashboard.url, name="x"):
                pass
            upload(str(self.snapshot), dashboard.url)
            asked = [request for request in dashboard.requests if "PATCH" in request]
            self.assertEqual((len(dashboard.runs), asked), (2, []))


class CommandLine(Case):
    def run_script(self, *args, **env):
        (self.folder / "train.py").write_text("print('trained')\n")
        process = self.python("-m", "tidemark_capture", *args, "train.py", **env)
        out, err = process.communicate()
        return process.returncode, out, err

    def test_labels_are_options(self):
        with Dashboard() as dashboard:
            options = ("--label", "config=a=b", "--label", " team = a b")
            env = {"TIDEMARK_LABELS": "config=c,z=1"}
            code, out, err = self.run_script("--server", dashboard.url, *options, **env)
            self.assertEqual((code, out), (0, "trained\n"), err)
            [run] = dashboard.runs
            self.assertEqual(run["labels"], {"config": "a=b", "team": "a b", "z": "1"})

    def test_what_is_none_is_said_before_the_script_runs(self):
        many = [f"--label=k{n}=v" for n in range(33)]
        wrong = (["--label=config"], ["--label=a b=c"], ["--label", "k="], many)
        for options in wrong:
            code, out, err = self.run_script("--server", "http://h:1", *options)
            self.assertEqual((code, out), (2, ""), err)
            self.assertNotIn("Traceback", err)
            self.assertIn("label", err)


class Refusals(Case):
    LABELS = {"config": "a"}

    def count(self, dashboard, part):
        return sum(part in request for request in dashboard.requests)

    def test_a_refusal_is_said_once_and_loses_nothing(self):
        # How often a server is asked: an old one knows no labels, or not this method.
        for status, tries in ((404, 1), (405, 1), (400, 1), (403, 1), (413, 1), (422, 1), (500, 3)):
            for fault in (status, {"status": status, "headers": []}):
                with self.subTest(fault), Dashboard() as dashboard:
                    self.stderr.truncate(0)
                    dashboard.always = {"/labels": fault}
                    settings = {"token": "tm_secret", "labels": self.LABELS, "every": 1}
                    with Capture(dashboard.url, **settings) as capture:
                        capture.step()
                    self.assertEqual((len(dashboard.runs), len(capture.links)), (2, 2))
                    self.assertEqual(self.count(dashboard, "PUT"), 2)
                    self.assertEqual(self.count(dashboard, "PATCH"), 2 * tries)
                    self.assertEqual(self.waiting(), [])
                    self.assertEqual(self.said().count("is without its labels"), 1, self.said())
                    self.assertNotIn("no snapshot was uploaded", self.said())
                    self.assertNotIn("secret", self.said())
                    self.assertEqual(dashboard.tokens, {"Bearer tm_secret"})

    def test_what_passes_is_tried_again_without_the_file(self):
        for faults in ([500], [503, 429], ["close"], ["half"], ["nonsense"]):
            with self.subTest(faults), Dashboard() as dashboard:
                dashboard.faults = [None, None, *faults]
                with Capture(dashboard.url, labels=self.LABELS):
                    pass
                self.assertEqual([run["labels"] for run in dashboard.runs], [self.LABELS])
                self.assertEqual(self.count(dashboard, "PATCH"), 1 + len(faults))
        self.assertNotIn("is without its labels", self.said())

    def test_an_upload_by_hand_is_answered_all_the_same(self):
        with Dashboard() as dashboard:
            dashboard.always = {"/labels": 404}
            answer = upload(str(self.snapshot), dashboard.url, labels=self.LABELS)
            self.assertEqual(answer["run"]["id"], "run_1")
        self.assertIn("runs/run_1 is without its labels: fault 404", self.said())

    def test_a_redirect_does_not_take_the_token_along(self):
        with Dashboard() as thief, Dashboard() as dashboard:
            headers = [("Location", f"{thief.url}/api/runs/run_1/labels")]
            dashboard.always = {"/labels": {"status": 307, "headers": headers}}
            with Capture(dashboard.url, token="tm_secret", labels=self.LABELS):
                pass
            self.assertEqual((thief.requests, len(dashboard.runs)), ([], 1))


class Waiting(Case):
    LABELS = {"config": "a", "team": "b"}

    def leave(self, dashboard, name):
        """Has a snapshot wait, with labels of the program and of its environment."""
        dashboard.always = {"/api/uploads": 500}
        with mock.patch.dict(os.environ, TIDEMARK_LABELS="team=b"):
            with Capture(dashboard.url, name=name, labels={"config": "a"}):
                pass
        dashboard.always = {}

    def send(self, dashboard):
        """Another process, with labels of its own, sends what waits."""
        args = ("spool", "--send", "--server", dashboard.url)
        env = {"TIDEMARK_LABELS": "team=another,z=1"}
        process = self.python("-m", "tidemark_capture", *args, **env)
        out, err = process.communicate()
        return process.returncode, out, err

    def test_what_waits_keeps_its_labels(self):
        with Dashboard() as dashboard:
            self.leave(dashboard, "x")
            self.assertEqual(self.send(dashboard), (0, f"{dashboard.url}/runs/run_1\n", ""))
            self.leave(dashboard, "x")
            with Capture(dashboard.url, name="late", labels={"config": "late"}):
                pass
            found = [(run["name"], run["labels"]) for run in dashboard.runs]
            late = ("late.pickle", {"config": "late"})
            self.assertEqual(found, [("x.pickle", self.LABELS), late, ("x.pickle", self.LABELS)])
            self.assertEqual(self.waiting(), [])

    def test_a_refusal_of_what_waited_is_said_once(self):
        with Dashboard() as dashboard:
            for name in "ab":
                self.leave(dashboard, name)
            dashboard.always = {"/labels": 404}
            code, out, err = self.send(dashboard)
            self.assertEqual((code, len(out.splitlines())), (0, 2), err)
            self.assertEqual(err.count("\n"), 1, err)
            self.assertIn("is without its labels: fault 404", err)
        self.assertEqual((len(dashboard.runs), self.waiting()), (2, []))

    def test_a_process_that_ends_between_file_and_labels_leaves_only_these_to_others(self):
        script = (
            "import os, sys, tidemark_capture\n"
            "tidemark_capture.Server.label = lambda *_: os._exit(9)\n"
            "with tidemark_capture.Capture(sys.argv[1], name='x', labels={'config': 'a'}): pass\n"
        )
        with Dashboard() as dashboard:
            process = self.python("-c", script, dashboard.url)
            process.communicate()
            self.assertEqual((process.returncode, self.waiting()), (9, ["x.pickle"]))
            code, out, err = self.send(dashboard)
            self.assertEqual((code, out), (0, f"{dashboard.url}/runs/run_1\n"), err)
            self.assertEqual([run["labels"] for run in dashboard.runs], [{"config": "a"}])
        self.assertEqual(self.waiting(), [])

    def test_what_is_in_the_spool_is_not_trusted(self):
        for about, names in (
            ({"labels": None}, ["x.pickle"]),  # As this file left it before it knew labels.
            ({"labels": 7}, ["x.pickle"]),
            ({"run": "../../x"}, []),
        ):
            with self.subTest(about), Dashboard() as dashboard:
                self.leave(dashboard, "x")
                [entry] = Spool().waiting()
                self.assertTrue(entry.claim())
                entry.note(**about)
                entry.release()
                dashboard.requests.clear()
                dashboard.always = {"/labels": 422}
                self.send(dashboard)
                self.assertEqual(dashboard.names(), names)
                self.assertFalse([path for path in dashboard.requests if ".." in path])
