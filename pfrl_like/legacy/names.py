"""Table of the functions in `legacy`."""

from collections.abc import Mapping

#: Path of PFRL's module -> name -> module that contains the function, both below the package. A module in this table
#: ends with the line `__getattr__ = old_names(__name__)`.
OLD_NAMES: Mapping[str, Mapping[str, str]] = {
    "agents.ddpg": {"_mean_or_nan": "legacy.statistics"},
    "agents.dqn": {"_mean_or_nan": "legacy.statistics"},
    "agents.ppo": {"_mean_or_nan": "legacy.statistics"},
    "agents.soft_actor_critic": {"_mean_or_nan": "legacy.statistics"},
    "agents.td3": {"_mean_or_nan": "legacy.statistics"},
    "agents.trpo": {"_mean_or_nan": "legacy.statistics"},
    "collections.prioritized": dict.fromkeys(("MinTreeQueue", "SumTreeQueue", "TreeQueue"), "legacy.tree_queues"),
    "experiments.evaluator": dict.fromkeys(
        (
            "AsyncEvaluator", "create_tb_writer", "record_stats", "record_tb_stats", "record_tb_stats_loop",
            "write_header",
        ),
        "legacy.evaluation",
    ),
    "experiments.train_agent": dict.fromkeys(
        ("ask_and_save_agent_replay_buffer", "save_agent_replay_buffer"), "legacy.training"
    ),
    "experiments.train_agent_async": dict.fromkeys(("kill_all", "train_loop"), "legacy.training"),
    "explorers.epsilon_greedy": {"select_action_epsilon_greedily": "legacy.parts"},
    "q_functions.state_q_functions": {"scale_by_tanh": "legacy.parts"},
    "utils.batch_states": {"_to_recursive": "legacy.parts"},
}  # fmt: skip
