"""Which rank a process is, and that all ranks of one start find the same job."""

import os
import time
from unittest import mock

from case import Case, torch
from dashboard import Dashboard

from tidemark_capture import Capture, _launch, _rank_and_world

TORCHRUN = {
    "RANK": "3",
    "LOCAL_RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "8",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}
SRUN = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "16",
    "SLURM_NTASKS": "16",
}


class FakeGroup:
    """A process group whose store answers all with what came first."""

    def __init__(self, rank, world, store):
        self.is_available = self.is_initialized = lambda: True
        self.get_rank, self.get_world_size = lambda: rank, lambda: world
        keep = mock.Mock()
        keep.compare_set = lambda key, _, new: store.setdefault(key, new).encode()
        self.distributed_c10d = mock.Mock(_get_default_store=lambda: keep)


class Places(Case):
    def test_ranks(self):
        for env, expected in (
            ({}, (None, 1)),
            (TORCHRUN, (3, 8)),
            (SRUN, (5, 16)),
            # A batch script, and one task, are alone, however many tasks the job has.
            ({"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_NTASKS": "16"}, (None, 1)),
            ({**SRUN, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, (None, 1)),
            # One torchrun for each node of a step: its own numbers count.
            ({**SRUN, **TORCHRUN}, (3, 8)),
            ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, (1, 2)),
            ({"RANK": "x", "WORLD_SIZE": "²"}, (None, 1)),
        ):
            with self.subTest(env), mock.patch.dict(os.environ, env):
                self.assertEqual(_rank_and_world(torch), expected)

    def test_a_process_group_knows_best(self):
        with mock.patch.object(torch, "distributed", FakeGroup(1, 2, {}), create=True):
            self.assertEqual(_rank_and_world(torch), (1, 2))
        with mock.patch.object(torch, "distributed", FakeGroup(0, 1, {}), create=True):
            self.assertEqual(_rank_and_world(torch), (None, 1))

    def test_a_rank_is_remembered_when_the_process_group_is_gone(self):
        group = FakeGroup(1, 2, {})
        with mock.patch.object(torch, "distributed", group, create=True), Dashboard() as dashboard:
            with Capture(dashboard.url, name="x") as capture:
                capture.step()
                until = time.monotonic() + 30
                while capture._launch is None and time.monotonic() < until:
                    time.sleep(0.001)
                group.is_initialized = lambda: False
                group.distributed_c10d = None
            self.assertEqual(dashboard.names(), ["x-rank1.pickle"])
            self.assertEqual(dashboard.runs[0]["job"], "job_0", self.said())

    def launch(self, **env):
        with mock.patch.dict(os.environ, env):
            return _launch(torch)

    def test_one_start_is_told_from_the_next(self):
        torchrun = self.launch(**TORCHRUN)
        self.assertEqual(torchrun, self.launch(**{**TORCHRUN, "RANK": "4", "LOCAL_RANK": "4"}))
        self.assertNotEqual(torchrun, self.launch(**TORCHRUN, **{"TIDEMARK_JOB": "mine"}))
        again = {**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "1"}
        self.assertNotEqual(torchrun, self.launch(**again))
        with mock.patch("os.getppid", return_value=1):
            self.assertNotEqual(torchrun, self.launch(**TORCHRUN))
        self.assertEqual(self.launch(**SRUN), self.launch(**{**SRUN, "SLURM_PROCID": "6"}))
        self.assertNotEqual(self.launch(**SRUN), self.launch(**{**SRUN, "SLURM_STEP_ID": "1"}))

    def test_hosts_that_nothing_names_are_not_taken_for_one_job(self):
        hosts = {**TORCHRUN, "LOCAL_WORLD_SIZE": "4"}
        self.assertIsNone(self.launch(**hosts))
        named = self.launch(**{**hosts, "TORCHELASTIC_RUN_ID": "tuesday"})
        self.assertEqual(named[:2], ("run", "tuesday"))
        store = {}
        for rank in range(2):
            group = FakeGroup(rank, 2, store)
            with mock.patch.object(torch, "distributed", group, create=True):
                self.assertEqual(self.launch(**hosts), ("store", store["tidemark/launch"]))

    def test_ranks_that_cannot_be_told_to_belong_together_are_uploaded_alone(self):
        os.environ.update(RANK="1", WORLD_SIZE="2")
        with Dashboard() as dashboard, Capture(dashboard.url, name="x", every=1) as capture:
            capture.step()
        self.assertEqual(dashboard.names(), ["x-rank1-step1.pickle", "x-rank1.pickle"])
        self.assertEqual(dashboard.jobs, {})
        self.assertEqual(self.said().count("set TIDEMARK_JOB"), 1)

    def test_a_server_that_knows_no_jobs_gets_the_runs(self):
        os.environ.update(TORCHRUN)
        with Dashboard() as dashboard:
            dashboard.always = {"/api/jobs": 404}
            with Capture(dashboard.url, name="x"):
                pass
            self.assertEqual(dashboard.names(), ["x-rank3.pickle"])
            self.assertNotIn("by itself", self.said())

    def test_a_job_that_the_server_refuses_is_said_once(self):
        os.environ.update(TORCHRUN)
        with Dashboard() as dashboard:
            dashboard.always = {"/api/jobs": 400}
            with Capture(dashboard.url, name="x", every=1) as capture:
                capture.step()
            self.assertEqual(dashboard.names(), ["x-rank3-step1.pickle", "x-rank3.pickle"])
        refused = "each rank is a run by itself: the server refused the job: fault 400"
        self.assertEqual(self.said().count(refused), 1, self.said())

    def test_a_job_is_called_so_that_the_server_takes_it(self):
        os.environ.update(TORCHRUN)
        for name, expected in (
            ("a/b", ["a/b", "a/b-step1"]),
            ("x" * 250, ["x" * 120, "x" * 120 + "-step1"]),
            ("a\u202eb\n", ["a_b_", "a_b_-step1"]),
            (" ", ["snapshot", "snapshot-step1"]),
        ):
            with self.subTest(name), Dashboard() as dashboard:
                with Capture(dashboard.url, name=name, every=1) as capture:
                    capture.step()
                names = sorted(job["name"] for job in dashboard.jobs.values())
                self.assertEqual(names, expected, self.said())


class TwoRanks(Case):
    SCRIPT = (
        "import sys, torch\n"
        "from tidemark_capture import Capture\n"
        "for name in ('a', 'a'):\n"
        "    with Capture(sys.argv[1], name=name, every=2) as capture:\n"
        "        for _ in range(2): capture.step()\n"
        "        if sys.argv[2] == '1' and capture._nth == 2: torch.run_out_of_memory()\n"
    )

    def start(self, dashboard):
        env = {**TORCHRUN, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        ranks = []
        for rank in "01":
            place = {**env, "RANK": rank, "LOCAL_RANK": rank}
            ranks.append(self.python("-c", self.SCRIPT, dashboard.url, rank, **place))
        for process in ranks:
            process.communicate()
        return [process.returncode for process in ranks]

    def test_at_once_are_one_job_for_each_moment(self):
        with Dashboard() as dashboard:
            self.assertEqual(self.start(dashboard), [0, 1])
            jobs = {}
            for run in dashboard.runs:
                jobs.setdefault(run["job"], set()).add((run["rank"], run["name"]))
            together = [
                {(0, "a-rank0-step2.pickle"), (1, "a-rank1-step2.pickle")},
                {(0, "a-rank0.pickle"), (1, "a-rank1.pickle")},
                {(0, "a-rank0-step2.pickle"), (1, "a-rank1-step2.pickle")},
                # One ended, the other ran out of memory: that is one moment.
                {(0, "a-rank0.pickle"), (1, "a-rank1-oom.pickle")},
            ]
            self.assertCountEqual(jobs.values(), together)
            names = sorted(job["name"] for job in dashboard.jobs.values())
            self.assertEqual(names, ["a", "a", "a-step2", "a-step2"])
