"""Model-based Offline Policy Optimization (Yu et al. 2020, arXiv:2005.13239)."""

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np
import torch
from torch import Tensor

from pfrl_like.algos import Estimator
from pfrl_like.algos.fitting.hyperparameters import LATER_NAMES
from pfrl_like.algos.fitting.online import sample_or_predict
from pfrl_like.algos.fitting.spaces import check_equal_lengths
from pfrl_like.batch import Batch
from pfrl_like.dataset import Transition
from pfrl_like.dynamics.dynamics_model import DynamicsModel, ProbabilisticEnsemble
from pfrl_like.dynamics.rollouts import check_rollouts, imagine


def not_supported(reason: str) -> Any:
    """Return a method that raises an error. It replaces a method of `Estimator` that dynamics models do not support."""

    def raise_error(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise a NotImplementedError."""
        raise NotImplementedError(f"{type(self).__name__} is a model of an environment and {reason}")

    return raise_error


class MOPO(Estimator):
    """Estimator of a dynamics model.

    First fit the model to data. Then pass it as `dynamics` to another estimator. That estimator learns from recorded
    and imagined transitions. The reward of an imagined transition is the predicted reward minus `lam` times the
    variance of the prediction. Therefore a policy avoids states in which the model is uncertain. Observations must be
    vectors.

    Args:
        learning_rate: Learning rate of Adam.
        eps: Epsilon of Adam.
        weight_decay: Weight decay of Adam. It is not applied to the bounds of the variances.
        n_ensembles: Number of members of the ensemble.
        n_transitions: Number of rollouts. Each rollout starts from a recorded observation. The hyperparameters
            `n_transitions`, `horizon` and `lam` can be changed after fitting.
        horizon: Number of steps of a rollout.
        lam: Factor of the variance of the prediction. The product is subtracted from the reward.
        discrete_action: True if actions are discrete.
        batch_size: Number of transitions per minibatch.
        n_frames: Number of consecutive images that are stacked along the channel axis into one observation.
        use_batch_norm: True to apply batch normalisation after each layer of the networks.
        use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        compile: True to compile the update of the agent, and the greedy actions of Q-learning. The second call
            compiles, which takes about 30 s. Results differ by rounding. Must be False.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`. `observation_scaler` is
            another name of this argument. The first call of `fit` fits the scalers of observations, actions and rewards
            that are not fitted yet.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent `impl` learns from
            scaled actions and returns scaled actions. "min_max" scales actions to [-1, 1], the output range of the
            policies. Explorers, replay buffers and the methods of the estimator use unscaled actions. `fit_online` fits
            "min_max" to the bounds of the action space. For `MOPO` it must be None.
        reward_scaler: Scaler of the rewards in training: "min_max", "standard", "return", "multiply", or a `Scaler` of
            rewards such as `ClipRewardScaler(-1.0, 1.0)`. Predicted returns are then returns of scaled rewards. For
            `MOPO` it must be None.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer.
        dynamics: Dynamics model, such as `MOPO`. At the beginning of each epoch it generates additional transitions for
            this epoch. If None, the estimator uses recorded transitions only. For `MOPO` it must be None.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
        kwargs: Unknown hyperparameters. They are ignored with a warning. Hyperparameters of later d3rlpy versions raise
            a TypeError that names the equivalent in this library.
    """

    loss_names: ClassVar[Any] = {"loss": "loss"}
    learns_next_observations = True
    read_when_used = Estimator.read_when_used | {"n_transitions", "horizon", "lam"}
    later_names = {
        **LATER_NAMES,
        **dict.fromkeys(
            ["actor_learning_rate", "critic_learning_rate", "temp_learning_rate", "gamma", "tau", "n_critics",
             "initial_temperature", "update_actor_interval", "real_ratio", "generated_maxlen", "rollout_interval",
             "rollout_horizon", "rollout_batch_size", "n_initial_transitions", "n_steps", "generator"],
            "MOPO is only the model: train a policy with SAC(dynamics=MOPO(n_transitions=..., horizon=..., lam=...))",
        ),
    }  # fmt: skip
    predict_value = not_supported("has no values")
    builders = "fit, create_impl or load_model"
    sample_action = save_policy = fit_online = collect = not_supported("does not act")

    learning_rate: float = 1e-3
    eps: float = 1e-8
    weight_decay: float = 1e-4
    n_ensembles: int = 5
    n_transitions: int = 400
    horizon: int = 5
    lam: float = 1.0
    discrete_action: bool = False  # type: ignore[misc]  # a hyperparameter here, a class variable in `Estimator`

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        if len(observation_shape) != 1:
            raise ValueError(f"observation_shape is {observation_shape}, expected (n,): vectors only")
        for name in ("action_scaler", "reward_scaler"):
            if (scaler := getattr(self, name)) is not None:
                advice = f"{type(self).__name__} predicts unscaled values: pass the scaler to the algorithm"
                raise ValueError(f"{name} is {scaler!r:.80}, but {advice}")
        if self.dynamics is not None:
            raise ValueError(f"dynamics is {self.dynamics!r}, but {type(self).__name__} has no dynamics: expected None")
        encoders = [self._encoder(observation_shape, action_size) for _ in range(self.n_ensembles)]
        network = ProbabilisticEnsemble(encoders, encoders[0].feature_size, observation_shape[0] + 1)
        groups: list[dict[str, Any]] = [
            {"params": [*network.layers()], "weight_decay": self.weight_decay},
            {"params": [*network.bounds()]},
        ]
        return DynamicsModel(
            network, torch.optim.Adam(groups, lr=self.learning_rate, eps=self.eps),
            n_actions=action_size if self.discrete_action else None, scaler=self.scaler_, device=self._device,
        )  # fmt: skip

    def predict(self, x: Any, action: Any, with_variance: bool = False) -> tuple[Any, ...]:  # type: ignore[override]
        """Return expected next observations and rewards.

        Args:
            x: Observations, [n, ...].
            action: Actions, [n, action_size], or [n] if discrete.
            with_variance: True to also return the variance of the prediction.

        Returns:
            Next observations, [n, ...], and rewards, [n, 1]. If `with_variance` is True, also the uncertainty, [n, 1]:
            the norm of the predicted variances in units of the scaled observations, maximum over the members.

        Raises:
            NotFittedError: If the model is not built yet.
            ValueError: If observations or actions have the wrong shape, or the numbers of observations and actions
                differ.
        """
        model: DynamicsModel = self._agent
        obs, actions = self._tensor(self._observations(x)), self._actions(action)
        check_equal_lengths(obs, actions)
        step = model.predict(obs, actions)
        next_obs, reward, variance = (part.reshape(len(part), *part.shape[1:] or (1,)).cpu().numpy() for part in step)
        return (next_obs, reward, variance) if with_variance else (next_obs, reward)

    def generate(self, algo: Any, transitions: Sequence[Transition]) -> list[Transition]:
        """Return the transitions of imagined rollouts.

        Each rollout has `horizon` steps and starts from a recorded observation.

        The model does not predict terminal states, so no state is terminal.

        Args:
            algo: Algorithm that chooses the actions with `sample_action`, or with `predict` if `sample_action` is not
                supported.
            transitions: Recorded transitions. `n_transitions` of them are sampled with replacement; rollouts start
                there.

        Returns:
            `n_transitions` times `horizon` transitions, linked within each imagined episode.

        Raises:
            NotFittedError: If the model or the algorithm is not built yet.
            TypeError: If one of model and algorithm has discrete actions, and the other has continuous actions.
            ValueError: If a number is out of range, or observations have the wrong shape.
        """
        check_rollouts(self.n_transitions, self.horizon, self.lam)
        if getattr(algo, "discrete_action", self.discrete_action) != self.discrete_action:
            raise TypeError(f"discrete_action is {self.discrete_action}, but {type(algo).__name__} has other actions")
        start = [transitions[i].observation for i in np.random.randint(len(transitions), size=self.n_transitions)]
        obs = self._tensor(self._observations(np.stack(start)))

        def choose(obs: Tensor) -> Tensor:
            return self._actions(sample_or_predict(algo, obs.cpu().numpy()))

        steps = [*imagine(self._agent, obs, choose, self.horizon, self.lam)]
        return self._link_transitions(steps, choose(steps[-1].next_obs))

    def _link_transitions(self, steps: Sequence[Batch], last_action: Tensor) -> list[Transition]:
        """Return the transitions of several imagined episodes, linked within each episode.

        `steps[t]` contains step t of all episodes. `last_action` contains the actions that follow the last steps.
        """
        obs, action, reward, next_obs = (
            [getattr(step, name).cpu().numpy() for step in steps] for name in ("obs", "action", "reward", "next_obs")
        )
        next_action = [*action[1:], last_action.cpu().numpy()]
        transitions: list[Transition] = []
        for t in range(len(steps)):
            previous = transitions[-len(obs[t]) :] if t else [None] * len(obs[t])
            transitions += [
                Transition(
                    obs[t].shape[1:], self.action_size_ or 0, obs[t][i], self._plain(action[t][i]),
                    0.0 if last is None else last.next_reward, next_obs[t][i], self._plain(next_action[t][i]),
                    reward[t][i], terminal=0, prev_transition=last,
                )
                for i, last in enumerate(previous)
            ]  # fmt: skip
        return transitions

    def _plain(self, action: Any) -> Any:
        return int(action) if self.discrete_action else action
