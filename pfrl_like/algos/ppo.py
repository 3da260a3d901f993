"""Estimator of Proximal Policy Optimization, which learns in an environment."""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import nn

from pfrl_like import agents
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.networks import adam, categorical_policy, value_function
from pfrl_like.algos.fitting.online import online_training, train_online
from pfrl_like.algos.fitting.unsupported import NoFit, NoValues
from pfrl_like.env import as_gymnasium
from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.learning.model_outputs import allowed
from pfrl_like.learning.statistics import Record
from pfrl_like.nn import Branched
from pfrl_like.policies import GaussianHeadWithStateIndependentCovariance
from pfrl_like.runs.loop import Clock
from pfrl_like.utils.contexts import evaluation_mode
from pfrl_like.utils.env_values import mask_keyword


class PPO(NoFit, NoValues, Estimator):
    """Estimator for Proximal Policy Optimization; the agent is a `pfrl_like.agents.PPO`.

    PPO learns only from steps of its current policy. Therefore `fit_online` trains it, and `fit` raises an error.
    Continuous actions are clipped to the bounds of the action space.

    Args:
        discrete_action: True for discrete actions.
        learning_rate: Learning rate of policy and value function.
        gamma: Discount factor per step.
        lambd: lambda of generalised advantage estimation, between 0 and 1.
        clip_eps: Maximum relative change of a probability in the policy's loss.
        entropy_coef: Weight of the entropy in the loss.
        value_func_coef: Weight of the value function's error in the loss.
        update_interval: Number of steps between updates.
        epochs: Number of passes over these steps in an update.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        eps: Epsilon of Adam.
        batch_size: Number of transitions per minibatch.
        n_frames: Number of consecutive images that are stacked along the channel axis into one observation. Must be 1:
            use an environment that stacks frames.
        use_batch_norm: True to apply batch normalisation after each layer of the networks.
        use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        compile: True to compile the update of the agent, and the greedy actions of Q-learning. The second call
            compiles, which takes about 30 s. Results differ by rounding.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`. `observation_scaler` is
            another name of this argument. The first call of `fit` fits the scalers of observations, actions and rewards
            that are not fitted yet.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent `impl` learns from
            scaled actions and returns scaled actions. "min_max" scales actions to [-1, 1], the output range of the
            policies. Explorers, replay buffers and the methods of the estimator use unscaled actions. `fit_online` fits
            "min_max" to the bounds of the action space.
        reward_scaler: Scaler of the rewards in training: "min_max", "standard", "return", "multiply", or a `Scaler` of
            rewards such as `ClipRewardScaler(-1.0, 1.0)`. Predicted returns are then returns of scaled rewards.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation. Must be empty.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies. Must be 1.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer.
        dynamics: Dynamics model, such as `MOPO`. At the beginning of each epoch it generates additional transitions for
            this epoch. If None, the estimator uses recorded transitions only. Must be None.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000. PPO has no
            `fit`, and `fit_online` has its own argument `n_epochs`.
        impl: Agent to use. If None, the estimator builds an agent.
    """

    fit_advice = "does not learn from recorded data: use fit_online"
    builders = "fit_online, build_with_dataset, build_with_env, create_impl or load_model"
    ignores_unknown = False
    loss_names: ClassVar[Any] = {"critic_loss": "value_loss", "actor_loss": "policy_loss"}

    discrete_action: bool = False  # type: ignore[misc]  # other estimators have one kind of actions
    batch_size = 64
    learning_rate: float = 3e-4
    gamma: float = 0.99
    lambd: float = 0.95
    clip_eps: float = 0.2
    entropy_coef: float = 0.0
    value_func_coef: float = 0.5
    update_interval: int = 2048
    epochs: int = 10
    max_grad_norm: float | None = 0.5
    eps: float = 1e-5

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        encoder = self._encoder(observation_shape)
        if self.discrete_action:
            policy = categorical_policy(encoder, action_size)
        else:
            head = GaussianHeadWithStateIndependentCovariance(action_size, "diagonal")
            policy = nn.Sequential(encoder, nn.Linear(encoder.feature_size, action_size), head)
        model = Branched(policy, value_function(self._encoder(observation_shape)))
        return agents.PPO(
            model, adam(model, self.learning_rate, self.eps), gamma=self.gamma, lambd=self.lambd, phi=None,
            clip_eps=self.clip_eps, entropy_coef=self.entropy_coef, value_func_coef=self.value_func_coef,
            update_interval=self.update_interval, minibatch_size=self.batch_size, epochs=self.epochs,
            max_grad_norm=self.max_grad_norm, act_deterministically=True, device=self._device, compile=self.compile,
        )  # fmt: skip

    def _augment(self) -> None:
        """Raise an error if a hyperparameter has a value that PPO does not support: nothing is augmented."""
        for name, value in {"n_frames": 1, "n_augmentations": 1, "dynamics": None}.items():
            if (given := getattr(self, name)) != value:
                raise ValueError(f"{name} is {given!r:.80}, but PPO needs {value}")
        if len(self.augmentation):
            raise ValueError(f"augmentation is {self.augmentation!r:.80}, but PPO needs an empty list")

    @accept_env_ids("env", "eval_env")
    def fit_online(  # type: ignore[override]  # there is no replay buffer, and the policy explores
        self,
        env: Any,
        buffer: None = None,
        *,
        n_epochs: int = 1000,
        n_steps_per_epoch: int = 4000,
        n_steps: int | None = None,
        eval_env: Any = None,
        eval_epsilon: float = 0.0,
        eval_interval: int = 1,
        experiment_name: str | None = None,
        with_timestamp: bool = True,
        logdir: str = "d3rlpy_logs",
        verbose: bool = True,
        show_progress: bool = True,
        tensorboard: bool = True,
        save_interval: int = 1,
        save_metrics: bool = True,
        callback: Callable[[Any, int, int], Any] | None = None,
        tensorboard_dir: str | None = None,
        resume: bool = False,
    ) -> Self:
        """Train in an environment. If the agent is already built, its training continues.

        Args:
            env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id such as "Pendulum-v1".
            buffer: Must be None: PPO has no replay buffer.
            n_epochs: Number of epochs of the log.
            n_steps_per_epoch: Number of steps per epoch. There is an update every `update_interval` steps.
            n_steps: Total number of steps. If not None, `n_epochs` is ignored.
            eval_env: Environment for evaluations, or its id. It must not be `env`. None disables evaluation.
            eval_epsilon: Probability of a random action during evaluation.
            eval_interval: Number of epochs between evaluations.
            experiment_name: Name of the folder. If None, the class name plus "_online" is used.
            with_timestamp: True to append the current time to the name.
            logdir: Directory in which the folder is created.
            verbose: True to print hyperparameters and metrics.
            show_progress: True to show a progress bar.
            tensorboard: True to also write metrics for TensorBoard to the directory `runs`.
            save_interval: Number of epochs between saved models.
            save_metrics: True to write metrics and models to disk.
            callback: Function called as (estimator, epoch, steps so far) at the end of every epoch.
            tensorboard_dir: Directory in which the directory `runs` is created. If None, the current directory.
            resume: True to save a checkpoint after each epoch, and to continue a run that was stopped from its newest
                checkpoint. Then `with_timestamp` must be False, because the run is found by the name of its folder, and
                `save_metrics` must be True.

        Returns:
            The estimator itself.

        Raises:
            ValueError: If a number is out of range, a hyperparameter has a value that PPO does not support,
                observations of the environment are not arrays, `eval_env` is `env`, or `resume` is True and another
                argument does not allow it.
            CheckpointError: If no checkpoint of the run can be loaded, or if another training writes to the folder.
            TypeError: If the environment has the wrong kind of actions, an argument is not an environment, function
                or path, or `buffer` is not None.
            NonFiniteError: If observations, rewards or losses contain NaN or infinity.
        """
        given = dict(locals())
        if buffer is not None:
            raise TypeError(f"buffer is {buffer!r:.80}, but PPO learns only from steps of its own policy: pass None")
        self._augment()
        training = online_training(self, given)
        actor: Any = RolloutActor(self, as_gymnasium(env).action_space)
        updates: Any = RolloutUpdates(self)
        train_online(training, SerialSource(actor, env), updates, eval_env, eval_epsilon, eval_interval)
        return self

    def sample_action(self, x: Any, *, action_mask: Any = None) -> Any:
        """Return actions sampled from the policy. Arguments and errors are the same as in `predict`."""
        model = self._agent.model
        with torch.no_grad(), evaluation_mode(model):
            distribution, _ = model(self._features(x))
            actions = allowed(distribution, action_mask).sample()
        return self._unscaled(actions.cpu().numpy())


class RolloutActor:
    """Acts in an environment with an on-policy agent, whose actions and rewards are scaled.

    Args:
        algo: The estimator.
        action_space: Action space of the environment. Continuous actions are clipped to its bounds.
    """

    def __init__(self, algo: Any, action_space: Any) -> None:
        self.algo, self.agent, self.action_space = algo, algo.impl, action_space

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """Return a training action."""
        action = self.agent.act(obs, **mask_keyword(action_mask))
        if not isinstance(self.action_space, Box):
            return action
        unscaled = self.algo._unscaled(np.asarray(action)[None])[0]
        return np.clip(unscaled, self.action_space.low, self.action_space.high)

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Store the step, and update the agent after `update_interval` steps."""
        scaler = self.algo.reward_scaler_
        reward = reward if scaler is None else float(scaler.transform(torch.tensor([float(reward)]))[0])
        self.agent.observe(obs, reward, done, reset, **mask_keyword(action_mask))

    def stop_episode(self) -> None:
        """Truncate the running episode; the next step begins a new episode."""
        self.agent.stop_episode()


class RolloutUpdates:
    """Callback of the training loop that records the returns of episodes and the losses of an on-policy agent.

    Args:
        algo: The estimator.

    Attributes:
        returns: Returns of the episodes that ended in the current epoch.
    """

    def __init__(self, algo: Any) -> None:
        self.algo, agent = algo, algo.impl
        updates = agent.epochs * -(-agent.update_interval // agent.minibatch_size)  # gradient steps of a rollout
        for name in algo.loss_names.values():
            record = getattr(agent, f"{name}_record")
            if record.maxlen is not None and record.maxlen < updates:
                setattr(agent, f"{name}_record", Record(record, updates))

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch."""
        self.returns: list[float] = []
        self._n_updates = self.algo.impl.n_updates
        self._losses: dict[str, list[float]] = {name: [] for name in self.algo.loss_names}

    def __call__(self, clock: Clock) -> None:
        """Record the returns of the episodes that ended, and the losses of an update."""
        if clock.between_episodes:  # False for an episode that ends because training ends
            self.returns += [episode.total_reward for episode in clock.ended]
        agent = self.algo.impl
        if new := agent.n_updates - self._n_updates:
            self._n_updates = agent.n_updates
            for name, key in self.algo.loss_names.items():
                self._losses[name] += [*getattr(agent, f"{key}_record")][-new:]

    @property
    def source(self) -> Self:
        """The object itself, which has the losses."""
        return self

    def __len__(self) -> int:
        """Return the number of updates of the current epoch."""
        return min(map(len, self._losses.values()))

    def metrics(self, last: int = 0) -> dict[str, float]:
        """Return mean losses over the `last` updates (0: over all updates) of the current epoch."""
        return {name: float(np.mean(losses[-last:])) for name, losses in self._losses.items()}
