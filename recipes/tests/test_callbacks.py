"""The callbacks, called as the libraries call them."""

import pickle

from case import Case, torch
from dashboard import Dashboard
from lightning.pytorch import fit
from transformers import train

import tidemark_huggingface
import tidemark_lightning


class Callbacks(Case):
    def test_hugging_face(self):
        with Dashboard() as dashboard:
            train(tidemark_huggingface.MemoryCallback(dashboard.url, name="x", every=2), 3)
            self.assertEqual(dashboard.names(), ["x-step2.pickle", "x.pickle"])

    def test_lightning(self):
        callback = tidemark_lightning.MemoryCallback
        for batches, expected in (
            (["a", "b", "c"], ["x-step2.pickle", "x.pickle"]),
            (["a", ValueError()], ["x-failed.pickle"]),
            ([torch.cuda.OutOfMemoryError()], ["x-oom.pickle"]),
        ):
            with Dashboard() as dashboard:
                try:
                    fit(callback(dashboard.url, name="x", every=2), batches)
                except (ValueError, RuntimeError) as error:
                    self.assertIs(error, batches[-1])
                self.assertEqual(dashboard.names(), expected)

    def test_lightning_can_take_it_to_another_process(self):
        callback = tidemark_lightning.MemoryCallback("http://h:1", name="x")
        self.assertEqual(pickle.loads(pickle.dumps(callback)).capture.name, "x")

    def test_neither_library_is_needed(self):
        process = self.python("-S", "-c", "import tidemark_capture, sys; print(len(sys.modules))")
        self.assertEqual(process.communicate()[1], "")
        self.assertEqual(process.returncode, 0)
