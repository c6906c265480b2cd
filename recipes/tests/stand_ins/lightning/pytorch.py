"""Of Lightning what a callback is: the hooks of a training, called as its `Trainer` does."""


class Callback:
    pass


def fit(callback, batches):
    """What `Trainer.fit()` tells a callback; a batch that is an exception is raised."""
    trainer, module = object(), object()
    callback.on_fit_start(trainer, module)
    try:
        for n, batch in enumerate(batches):
            if isinstance(batch, BaseException):
                raise batch
            callback.on_train_batch_end(trainer, module, {"loss": 0.0}, batch, n)
        callback.on_fit_end(trainer, module)
    except BaseException as error:
        callback.on_exception(trainer, module, error)
        raise
