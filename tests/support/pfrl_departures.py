"""Where the interface differs from PFRL's on purpose, and why. `tests/conformance/test_pfrl_interface.py` reads it.

An absent name is written as its path, an absent parameter, or one at another place, as "path(name)", another default as
"path(name=)", and an additional parameter that must be passed as "path(name has no default)".
"""

from collections.abc import Mapping

_FORWARD = "q_functions.state_action_q_functions:FCLSTMSAQFunction.forward"
_ACTOR = "agents.state_q_function_actor:StateQFunctionActor."
_LAST = ("ddpg:DDPG", "ppo:PPO", "state_q_function_actor:StateQFunctionActor", "td3:TD3", "trpo:TRPO")
_BATCH_LAST = "batch_last_episode batch_last_state last_episode"
_QUEUE = "collections.random_access_queue:RandomAccessQueue"


def _in(owner: str, names: str) -> tuple[str, ...]:
    """Paths of names of a module, "module:", or of a class, "module:Class."."""
    return tuple(f"{owner}{name}" for name in names.split())


#: Reason -> names and parameters.
REASONS: Mapping[str, tuple[str, ...]] = {
    "takes a batch of steps, because actors in other processes and datasets give batches, too; PFRL's arguments are "
    "what its own loop holds, and overrides get them": (
        "agents.a3c:A3C.update(statevar)", "agents.a3c:A3C.update(batch has no default)",
        *_in("agents.acer:ACER.update", "(t_start) (t_stop) (R) (actions) (rewards) (values) (action_values)"),
        *_in("agents.acer:ACER.update", "(action_distribs) (action_distribs_mu) (avg_action_distribs)"),
    ),
    "the arguments of DQN are written out": tuple(
        f"agents.{name}.__init__({stars})"
        for name in ("al:AL", "dpp:DPP", "dpp:DPPL", "iqn:IQN", "pal:PAL")
        for stars in ("*args", "**kwargs")
    ),
    "the arguments of the queue are written out": _in(f"{_QUEUE}.__init__", "(*args) (**kwargs)"),
    "agents that no runner numbers have no number of a process": ("agents.a2c:A2C.process_idx",),
    "loggers are private, and named like the module": ("agents.a2c:logger", "agents.a3c:logger", "policy:logger"),
    "is a recurrent module, which takes packed pairs and a state; PFRL's takes no state, and fails": (
        f"{_FORWARD}(x)", f"{_FORWARD}(a)",
        f"{_FORWARD}(sequences has no default)", f"{_FORWARD}(recurrent_state has no default)",
        *_in(_FORWARD[:-7], "fc lstm n_hidden_channels n_hidden_layers n_input_channels nonlinearity out"),
    ),
    "the buffer does write a file, so that its name is not `_`": tuple(
        f"replay_buffers.persistent:Persistent{kind}ReplayBuffer.{method}({name})"
        for kind in ("", "Episodic") for method in ("save", "load") for name in ("_", "filename has no default")
    ),
    "the first argument is `num_experiences`, as that of ReplayBuffer; `n` is accepted by keyword": tuple(
        f"replay_buffers.{name}ReplayBuffer.sample(n)" for name in ("episodic:Episodic", "prioritized:Prioritized")
    ),
    "names of other modules that PFRL's packages take along with `import *`": (
        "policies:Delta", *_in("q_functions:", "DiscreteActionValue DistributionalDiscreteActionValue Lambda MLP"),
        *_in("q_functions:", "MLPBN QuadraticActionValue StateActionQFunction StateQFunction init_lecun_normal"),
        *_in("q_functions:", "constant_bias_initializer init_chainer_default lower_triangular_matrix scale_by_tanh"),
    ),
    "a module that may be called as PFRL's function": ("utils:batch_states",),
    "names of types": _in("collections.prioritized:", "Aggregator Node V"),
    "PFRL's method only raises NotImplementedError": ("agents.ddpg:DDPG.update_from_episodes",),
    "the only argument is `mask`": ("wrappers.vector_frame_stack:VectorEnvWrapper.reset(**kwargs)",),
    "the queue has no chunks, and belongs to one process": _in(
        "collections.persistent_collections:PersistentRandomAccessQueue.",
        "chunk_size comm_rank comm_size ancestor_meta gen logger meta meta_file tail",
    ),
    "steps wait in columns, or exist as PFRL's attributes only while an override runs": (
        "agents.a2c:A2C.t_start", *_in("agents.a3c:A3C.", "past_action past_obs past_recurrent_state t_start"),
        *_in("agents.acer:ACER.", "last_action last_state shared_recurrent_states"),
        *(f"agents.{agent}.last_{name}" for agent in _LAST for name in ("action", "state")),
        *_in("agents.ppo:PPO.", _BATCH_LAST), *_in("agents.trpo:TRPO.", _BATCH_LAST),
        "replay_buffers.episodic:EpisodicReplayBuffer.current_episode",
        *_in("replay_buffers.prioritized_episodic:PrioritizedEpisodicReplayBuffer.", "capacity_left current_episode"),
    ),
    "the Q-function, or the DQN that acts, has them": (
        *_in(_ACTOR, "logger recurrent test_recurrent_states train_prev_recurrent_states train_recurrent_states"),
    ),
    "parts of how the object works": (
        "collections.prioritized:PrioritizedBuffer.flag_wait_priority",
        "envs.multiprocess_vector_env:MultiprocessVectorEnv.work_remotes",
        *_in("experiments.evaluator:", "AsyncEvaluator.wrote_header Evaluator.env_clear_stats Evaluator.env_get_stats"),
        *_in("replay_buffers.persistent:PersistentEpisodicReplayBuffer.", "episodic_memory_dir memory_dir"),
    ),
    "private helpers that no script was seen to import": (
        *_in("collections.persistent_collections:", "_ChunkReader _ChunkWriter"),
        *_in("collections.prioritized:", "_expand _find _reduce _write"),
        *_in("experiments.evaluator:", "_batch_run_episodes _run_episodes"),
        "nn.noisy_chain:_map_modules", "replay_buffer:_is_sorted_desc_by_lengths",
        *_in("utils.pretrained_models:", "_get_model_directory _reporthook"),
        "testing:_as_numpy_recursive", "wrappers.monitor:_StatsRecorder",
    ),
}  # fmt: skip

DEPARTURES: Mapping[str, str] = {path: reason for reason, paths in REASONS.items() for path in paths}
