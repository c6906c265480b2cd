"""Of transformers what a callback is: the hooks of a training, called as its `Trainer` does."""


class TrainerCallback:
    pass


def train(callback, steps):
    """What `Trainer.train()` tells a callback."""
    state = {"args": object(), "state": object(), "control": object()}
    callback.on_train_begin(**state, model=None, optimizer=None)
    for step in range(steps):
        callback.on_step_end(**state, model=None, optimizer=None)
    callback.on_train_end(**state, model=None, optimizer=None)
