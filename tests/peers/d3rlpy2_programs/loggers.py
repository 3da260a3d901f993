"""Logs in files, in TensorBoard and of one's own, by epochs and by steps."""

import sys

import d3rlpy
import numpy as np
from d3rlpy.logging import (
    CombineAdapterFactory,
    FileAdapterFactory,
    LoggerAdapter,
    LoggerAdapterFactory,
    NoopAdapterFactory,
    TensorboardAdapterFactory,
)

calls = []


class MemoryAdapter(LoggerAdapter):
    """Keeps what it is given."""

    def write_params(self, params):
        calls.append(("params", *sorted(params)))

    def before_write_metric(self, epoch, step):
        calls.append(("before", epoch, step))

    def write_metric(self, epoch, step, name, value):
        calls.append(("metric", epoch, step, name, type(float(value)).__name__))

    def after_write_metric(self, epoch, step):
        calls.append(("after", epoch, step))

    def save_model(self, epoch, algo):
        calls.append(("model", epoch, type(algo).__name__))

    def close(self):
        calls.append(("close",))

    def watch_model(self, epoch, step):
        calls.append(("watch", epoch, step))


class MemoryAdapterFactory(LoggerAdapterFactory):
    """Makes the adapter."""

    def create(self, algo, experiment_name, n_steps_per_epoch):
        calls.append(("create", type(algo).__name__, experiment_name, n_steps_per_epoch))
        return MemoryAdapter()


seed = int(sys.argv[1])
d3rlpy.seed(seed)
rng = np.random.default_rng(seed)
dataset = d3rlpy.dataset.MDPDataset(
    observations=rng.normal(size=(90, 3)).astype(np.float32), actions=rng.integers(2, size=90),
    rewards=rng.normal(size=90), terminals=np.arange(1, 91) % 30 == 0,
)  # fmt: skip
config = d3rlpy.algos.DQNConfig(batch_size=8, encoder_factory=d3rlpy.models.VectorEncoderFactory([16]))
evaluators = {"td_error": d3rlpy.metrics.TDErrorEvaluator()}

results = config.create().fit(
    dataset, n_steps=7, n_steps_per_epoch=3, experiment_name="combined", with_timestamp=False, evaluators=evaluators,
    save_interval=2,
    logger_adapter=CombineAdapterFactory(
        [
            FileAdapterFactory(root_dir="files"), TensorboardAdapterFactory(root_dir="board"), NoopAdapterFactory(),
            MemoryAdapterFactory(),
        ]
    ),
)  # fmt: skip
by_steps = config.create().fit(
    dataset, n_steps=8, n_steps_per_epoch=4, logging_strategy=d3rlpy.LoggingStrategy.STEPS, logging_steps=2,
    experiment_name="steps", with_timestamp=False, evaluators=evaluators,
    logger_adapter=CombineAdapterFactory([FileAdapterFactory(), MemoryAdapterFactory()]),
)  # fmt: skip
config.create().fit(dataset, n_steps=2, n_steps_per_epoch=2, show_progress=False, logger_adapter=FileAdapterFactory())
config.create().fit(dataset, n_steps=2, n_steps_per_epoch=2, logger_adapter=NoopAdapterFactory())

# A test reads this
result = {
    "values": {
        "calls": np.array(["/".join(map(str, call)) for call in calls]),
        "epochs": np.array([epoch for epoch, _ in results + by_steps]),
        "names": np.array(["/".join(sorted(metrics)) for _, metrics in results + by_steps]),
    },
    "metrics": results[-1][1],
}
