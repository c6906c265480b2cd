"""Record a Hugging Face training for Tidemark, with a callback of its `Trainer`.

    from tidemark_huggingface import MemoryCallback

    Trainer(..., callbacks=[MemoryCallback("http://tidemark:7878", every=100)])

It takes what `tidemark_capture.Capture` takes. A step is one of the optimizer. The end of the
training is recorded, and an out-of-memory error while everything is still alive.
"""

from transformers import TrainerCallback

from tidemark_capture import Capture


class MemoryCallback(TrainerCallback):
    """Captures from the beginning of a training to its end."""

    def __init__(self, *args, **settings):
        self.capture = Capture(*args, **settings)

    def on_train_begin(self, args, state, control, **kwargs):
        """Begin to record."""
        self.capture.start()

    def on_step_end(self, args, state, control, **kwargs):
        """A step of the optimizer is done."""
        self.capture.step()

    def on_train_end(self, args, state, control, **kwargs):
        """Record the end."""
        self.capture.close()
