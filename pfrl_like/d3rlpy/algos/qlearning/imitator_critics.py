"""Algorithms with a policy, critics, and a generative model of recorded actions."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from pfrl_like import agents
from pfrl_like.d3rlpy.algos.configs import BCQConfig, BEARConfig, PLASConfig, PLASWithPerturbationConfig
from pfrl_like.d3rlpy.algos.qlearning.actor_critics import ActorCritic
from pfrl_like.d3rlpy.algos.qlearning.max_entropy import SAC
from pfrl_like.d3rlpy.models.heads import Perturbation, encoder_and_size
from pfrl_like.d3rlpy.models.policies import conditional_vae
from pfrl_like.d3rlpy.types import Shape


class ImitatorCritic(ActorCritic):
    """Base class of algorithms whose policy changes or selects the actions of a variational autoencoder.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    has_target_policy = True
    metrics = {**ActorCritic.metrics, "vae_loss": "imitator_loss"}
    arguments = {**ActorCritic.arguments, "lam": "lam", "beta": "beta"}

    def other_networks(self, observation_shape: Shape, action_size: int) -> dict[str, Any]:
        return {"vae": conditional_vae(self.config.imitator_encoder_factory, observation_shape, action_size)}

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        return with_vae(self, others)

    def report(self, error: Tensor, statistics: Mapping[str, Tensor]) -> dict[str, float]:
        metrics = super().report(error, statistics)
        return metrics if "policy_loss" in statistics else {"vae_loss": metrics["vae_loss"]}

    def _sample(self, obs: Any) -> Any:
        return self._greedy(obs)


class BCQ(ImitatorCritic, config_class=BCQConfig):
    """Batch-Constrained Q-Learning; the agent is a `pfrl_like.agents.BCQ`. d3rlpy ignores `update_actor_interval`.

    In d3rlpy the target policy starts with parameters of its own. Here it starts with those of the policy.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.BCQ
    arguments = {
        **ImitatorCritic.arguments, "n_action_samples": "n_action_samples", "action_flexibility": "action_flexibility",
        "rl_start_step": "rl_start_step",
    }  # fmt: skip

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        return {**super().agent_options(policy, others), "imitates_first": True}

    def _policy(self, observation_shape: Shape, action_size: int) -> Any:
        parts = encoder_and_size(self.config.actor_encoder_factory, observation_shape, action_size)
        return Perturbation(*parts, action_size, takes_action=True)


class PLAS(ImitatorCritic, config_class=PLASConfig):
    """Policy in the Latent Action Space; the agent is a `pfrl_like.agents.PLAS`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class: ClassVar[Any] = agents.PLAS
    arguments = {**ImitatorCritic.arguments, "warmup_steps": "rl_start_step"}
    #: As in d3rlpy, `critic_optim_factory` makes the autoencoder's optimiser, too.
    factories = {"imitator_": "critic_"}

    def _policy(self, observation_shape: Shape, action_size: int) -> Any:
        parts = encoder_and_size(self.config.actor_encoder_factory, observation_shape)
        return Perturbation(*parts, 2 * action_size)


class PLASWithPerturbation(PLAS, config_class=PLASWithPerturbationConfig):
    """PLAS with a perturbation of the actions; the agent is a `pfrl_like.agents.PLASWithPerturbation`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.PLASWithPerturbation
    arguments = {**PLAS.arguments, "action_flexibility": "action_flexibility"}
    trained_with_policy = ("perturbation",)

    def other_networks(self, observation_shape: Shape, action_size: int) -> dict[str, Any]:
        parts = encoder_and_size(self.config.actor_encoder_factory, observation_shape, action_size)
        others = super().other_networks(observation_shape, action_size)
        return {**others, "perturbation": Perturbation(*parts, action_size, takes_action=True)}

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        return {**super().agent_options(policy, others), "perturbation": others["perturbation"]}

    def parts_of(self, agent: Any) -> dict[str, Any]:
        return {"targ_perturbation": agent.target_perturbation}


class BEAR(SAC, config_class=BEARConfig):
    """Bootstrapping Error Accumulation Reduction; the agent is a `pfrl_like.agents.BEAR`.

    As in d3rlpy, `actor_learning_rate` is the learning rate of alpha too, and `alpha_learning_rate` is ignored.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.BEAR
    optimizes_constants = True
    arguments = {
        **SAC.arguments, "initial_alpha": "initial_alpha", "alpha_threshold": "alpha_threshold", "lam": "lam",
        "n_action_samples": "n_action_samples", "n_target_samples": "n_target_samples",
        "n_mmd_action_samples": "n_mmd_action_samples", "mmd_kernel": "mmd_kernel", "mmd_sigma": "mmd_sigma",
        "vae_kl_weight": "beta", "warmup_steps": "warmup_steps",
    }  # fmt: skip
    metrics = {**SAC.metrics, "imitator_loss": "imitator_loss", "mmd_loss": "mmd_loss"}

    def other_networks(self, observation_shape: Shape, action_size: int) -> dict[str, Any]:
        return {"vae": conditional_vae(self.config.imitator_encoder_factory, observation_shape, action_size)}

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        options = super().agent_options(policy, others) | with_vae(self, others)
        del options["elementwise"]
        options["multiplier_optimizers"]["alpha"] = self._optimizer_of_multiplier("alpha", others, "actor")
        return options | {
            "imitates_first": True, "unsquashed_mmd": True, "penalises_policy": False, "log_alpha_bounds": (-5.0, 10.0),
        }  # fmt: skip

    def parts_of(self, agent: Any) -> dict[str, Any]:
        return {**super().parts_of(agent), "log_alpha": agent.alpha_holder}

    def report(self, error: Tensor, statistics: Mapping[str, Tensor]) -> dict[str, float]:
        if "mmd_loss" not in statistics:  # in the warm-up
            return ActorCritic.report(self, error, statistics)
        return super().report(error, statistics) | {"alpha": float(self._built.agent.alpha)}


def with_vae(algo: Any, others: dict[str, Any]) -> dict[str, Any]:
    """Return the agent's options of the autoencoder.

    Args:
        algo: The algorithm.
        others: Result of `other_networks`. The function replaces "vae" by the encoder, the decoder and their optimiser.
    """
    vae = others.pop("vae")
    wrapper = algo.optimizer("imitator_", vae.encoder, vae.decoder)
    others |= {"vae_encoder": vae.encoder, "vae_decoder": vae.decoder, "vae_optim": wrapper}
    return {"imitator": vae, "imitator_optimizer": wrapper.optim}
