"""Record a Lightning training for Tidemark, with a callback of its `Trainer`.

    from tidemark_lightning import MemoryCallback

    Trainer(..., callbacks=[MemoryCallback("http://tidemark:7878", every=100)])

It takes what `tidemark_capture.Capture` takes. A step is a batch of the training. The end of the
training is recorded, or what ends it, and an out-of-memory error while everything is still alive.
"""

import sys

from tidemark_capture import Capture

# Of two names of one library the one that the program uses.
if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback


class MemoryCallback(Callback):
    """Captures from the beginning of a training to its end."""

    def __init__(self, *args, **settings):
        self.capture = Capture(*args, **settings)

    def on_fit_start(self, trainer, pl_module):
        """Begin to record."""
        self.capture.start()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        """A batch is done."""
        self.capture.step()

    def on_exception(self, trainer, pl_module, exception):
        """Record what ends the training."""
        self.capture.close(exception)

    def on_fit_end(self, trainer, pl_module):
        """Record the end."""
        self.capture.close()
