"""Where the interface differs from PFRL's on purpose, and why. `tests/conformance/test_pfrl_interface.py` reads it.

An absent name is written as its path, an absent parameter, or one at another place, as "path(name)", another default as
"path(name=)", and an additional parameter that must be passed as "path(name has no default)".
"""

from collections.abc import Mapping

_FORWARD = "q_functions.state_action_q_functions:FCLSTMSAQFunction.forward"
_PERSISTENT = "replay_buffers.persistent:Persistent{}ReplayBuffer.{}({})"

#: Reason -> names and parameters.
REASONS: Mapping[str, tuple[str, ...]] = {
    "takes a batch of steps, because actors in other processes and datasets give batches, too; PFRL's arguments are "
    "what its own loop holds, and overrides get them": (
        "agents.a3c:A3C.update(statevar)", "agents.a3c:A3C.update(batch has no default)",
        *(
            f"agents.acer:ACER.update({name})"
            for name in (
                *("t_start", "t_stop", "R", "actions", "rewards", "values", "action_values", "action_distribs"),
                *("action_distribs_mu", "avg_action_distribs"),
            )
        ),
    ),
    "the arguments of DQN are written out": tuple(
        f"agents.{name}.__init__({stars})"
        for name in ("al:AL", "dpp:DPP", "dpp:DPPL", "iqn:IQN", "pal:PAL")
        for stars in ("*args", "**kwargs")
    ),
    "the arguments of the queue are written out": tuple(
        f"collections.random_access_queue:RandomAccessQueue.__init__({stars})" for stars in ("*args", "**kwargs")
    ),
    "agents that no runner numbers have no number of a process": ("agents.a2c:A2C.process_idx",),
    "loggers are private, and named like the module": ("agents.a2c:logger", "agents.a3c:logger", "policy:logger"),
    "is a recurrent module, which takes packed pairs and a state; PFRL's takes no state, and fails": (
        f"{_FORWARD}(x)", f"{_FORWARD}(a)",
        f"{_FORWARD}(sequences has no default)", f"{_FORWARD}(recurrent_state has no default)",
    ),
    "the buffer does write a file, so that its name is not `_`": tuple(
        _PERSISTENT.format(kind, method, name)
        for kind in ("", "Episodic")
        for method in ("save", "load")
        for name in ("_", "filename has no default")
    ),
    "the first argument is `num_experiences`, as that of ReplayBuffer; `n` is accepted by keyword": (
        "replay_buffers.episodic:EpisodicReplayBuffer.sample(n)",
        "replay_buffers.prioritized:PrioritizedReplayBuffer.sample(n)",
    ),
    "names of other modules that PFRL's packages take along with `import *`": (
        "policies:Delta",
        *(
            f"q_functions:{name}"
            for name in (
                *("DiscreteActionValue", "DistributionalDiscreteActionValue", "Lambda", "MLP", "MLPBN"),
                *("QuadraticActionValue", "StateActionQFunction", "StateQFunction", "constant_bias_initializer"),
                *("init_chainer_default", "init_lecun_normal", "lower_triangular_matrix", "scale_by_tanh"),
            )
        ),
    ),
    "a module that may be called as PFRL's function": ("utils:batch_states",),
    "names of types": tuple(f"collections.prioritized:{name}" for name in ("Aggregator", "Node", "V")),
    "PFRL's method only raises NotImplementedError": ("agents.ddpg:DDPG.update_from_episodes",),
    "a vector environment's `reset` has no argument but `mask`": (
        "wrappers.vector_frame_stack:VectorEnvWrapper.reset(**kwargs)",
    ),
    "the queue has no chunks, and belongs to one process": tuple(
        f"collections.persistent_collections:PersistentRandomAccessQueue.{name}"
        for name in ("chunk_size", "comm_rank", "comm_size")
    ),
    "private helpers that no script was seen to import": (
        "collections.persistent_collections:_ChunkReader", "collections.persistent_collections:_ChunkWriter",
        *(f"collections.prioritized:{name}" for name in ("_expand", "_find", "_reduce", "_write")),
        "experiments.evaluator:_batch_run_episodes", "experiments.evaluator:_run_episodes",
        "nn.noisy_chain:_map_modules", "replay_buffer:_is_sorted_desc_by_lengths",
        "utils.pretrained_models:_get_model_directory", "utils.pretrained_models:_reporthook",
        "testing:_as_numpy_recursive", "wrappers.monitor:_StatsRecorder",
    ),
}  # fmt: skip

DEPARTURES: Mapping[str, str] = {path: reason for reason, paths in REASONS.items() for path in paths}
