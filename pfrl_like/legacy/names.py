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
}
