"""A torch that has no GPU: it hands out a recorded snapshot, and fails on request."""

import os
import shutil


class _C:
    observer = None

    @staticmethod
    def _cuda_attach_out_of_memory_observer(observer):
        _C.observer = observer


class cuda:
    class OutOfMemoryError(RuntimeError):
        pass

    class memory:
        recording = False

        @staticmethod
        def _record_memory_history(enabled="all", max_entries=None, **_):
            cuda.memory.recording = enabled is not None

        @staticmethod
        def _dump_snapshot(path):
            assert cuda.memory.recording, "nothing was recorded"
            shutil.copyfile(os.environ["FAKE_SNAPSHOT"], path)


def run_out_of_memory():
    _C.observer(0, 1, 2, 3)
    raise cuda.OutOfMemoryError("CUDA out of memory")
