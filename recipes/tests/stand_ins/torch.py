"""A torch that has no GPU: it hands out a recorded snapshot, and fails on request."""

import os
import shutil
import sys
import types

TIMES = ("current", "peak", "allocated", "freed")
POOLS = ("all", "small_pool", "large_pool")
KINDS = ("allocation", "segment", "active", "inactive_split")
KINDS += (*(f"{kind}_bytes" for kind in ("allocated", "reserved", "active", "requested")),)


class _C:
    observer = None

    @staticmethod
    def _cuda_attach_out_of_memory_observer(observer):
        _C.observer = observer

    @staticmethod
    def _cuda_isHistoryEnabled():
        return cuda.memory.recording


class cuda:
    class OutOfMemoryError(RuntimeError):
        pass

    is_ready = "FAKE_IS_UNUSED" not in os.environ
    queued = []
    fraction = 0.5
    # What the counters say: bytes allocated, their peak, bytes reserved, retries, OOMs.
    counters = (1 << 20, 2 << 20, 4 << 20, 0, 0)

    @staticmethod
    def is_initialized():
        return cuda.is_ready

    @staticmethod
    def _lazy_call(call):
        if cuda.is_ready:
            call()
        else:
            cuda.queued.append(call)

    @staticmethod
    def init():
        """As PyTorch does it: nobody is told that it is ready before all that waited was called."""
        for call in cuda.queued:
            call()
        cuda.is_ready = True

    @staticmethod
    def current_device():
        return 3

    @staticmethod
    def get_device_properties(device):
        return types.SimpleNamespace(total_memory=80 << 30)

    @staticmethod
    def get_per_process_memory_fraction(device):
        return cuda.fraction

    @staticmethod
    def memory_stats_as_nested_dict(device):
        """As much as torch 2.11 says, most of it 0."""
        allocated, peak, reserved, retries, ooms = cuda.counters
        stats = {kind: {pool: dict.fromkeys(TIMES, 0) for pool in POOLS} for kind in KINDS}
        stats["allocated_bytes"]["all"].update(current=allocated, peak=peak)
        stats["reserved_bytes"]["all"].update(current=reserved)
        return {"num_alloc_retries": retries, "num_ooms": ooms, **stats}

    class memory:
        recording = False
        records_pinned = False

        @staticmethod
        def _record_memory_history(
            enabled="all", max_entries=None, record_pinned_host_memory=False
        ):
            cuda.memory.recording = enabled is not None
            cuda.memory.records_pinned = record_pinned_host_memory

        @staticmethod
        def _dump_snapshot(path):
            assert cuda.memory.recording, "nothing was recorded"
            shutil.copyfile(os.environ["FAKE_SNAPSHOT"], path)


def run_out_of_memory():
    _C.observer(0, 1, 2, 3)
    raise cuda.OutOfMemoryError("CUDA out of memory")


class optim:
    hooks = []

    class SGD:
        def step(self):
            for hook in optim.hooks:
                hook(self, (), {})


# As in torch 2.11: a module that can be imported, and is no attribute of `torch.optim`.
optimizer = types.ModuleType("torch.optim.optimizer")
optimizer.register_optimizer_step_post_hook = optim.hooks.append
sys.modules[optimizer.__name__] = optimizer
