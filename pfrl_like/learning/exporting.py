"""Agents' `export`: a copy that acts greedily, and observations to try it with."""

import copy
import os
from typing import Any, Self

import torch
from torch import nn

from pfrl_like.errors import ExportError
from pfrl_like.export import NoiseMode, Signature, export_policy
from pfrl_like.learning.recurrent_memory import RecurrentMemory
from pfrl_like.preprocessing.features import FeatureExtractor
from pfrl_like.utils.copy_param import frozen_copy

#: At most so many observations are taken from a replay buffer.
_MOST = 256


class ExportingMixin:
    """Lets an agent's greedy policy be written into a file; the agent has `greedy_actions`."""

    acting_attributes: tuple[str, ...]
    memory: RecurrentMemory | None
    features: FeatureExtractor
    batch_last_obs: Any
    acting_hook: str
    overridden_hooks: frozenset[str]

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        example_obs: Any = None,
        action_mask: Any = None,
        noise: NoiseMode = "fixed",
        format: str | None = None,
    ) -> Signature:
        """Write the greedy policy into a file that runs without this library.

        The file takes raw observations, as `batch_act` does, in batches of any size: `phi` is inside, with a cast, a
        scale or other axes, and so are the normalisation of observations, which learns no more, and the choice of the
        action. What wrappers do with observations is outside: with frames stacked by a wrapper, the file is given the
        stacks, the newest frame last. Before anything is written, its actions are compared with the agent's for 1,000
        observations: numbers to 1e-5, discrete actions wherever the best two are further apart than that.

        Inputs are called `input_0` and so on, one for each part of a nested observation, of dicts by sorted keys; then
        come `action_mask`, if one is given here; the recurrent state as `state_0` and so on, zeros [layers, B, ...]
        where an episode begins; and `noise_0` and so on. Outputs are `action`, and `next_state_0` and so on.

        Args:
            path: The file. `.pt` is TorchScript, for `torch.jit.load`; `.onnx` a graph with its weights, for instance
                for onnxruntime; `.pt2` is for `torch.export.load`. A file that is there is replaced in one instant.
            example_obs: Observations to trace and compare with: a list of them, an array or dict of stacked ones, or
                a space to draw from. None takes those in the replay buffer, or those that were acted on last. The
                file takes observations of the same dtype: give those of the environment itself, such as
                `env.unwrapped.observation_space`, and float64 is cast inside where a wrapper does it in training.
            action_mask: True where an action is allowed, [n_actions], as an example: the file then takes masks, too.
                Masks in observations, under the key "action_mask", are inputs by themselves.
            noise: What is done where acting greedily draws random numbers, as IQN, BCQ, BEAR and noisy networks do.
                "fixed": nothing is random; quantile fractions are evenly spaced, weights are without noise, and other
                numbers are drawn once, the same for every observation. "input": the file is given them.
            format: One of these endings, where the name of the file has another.

        Returns:
            Names, shapes and dtypes of inputs and outputs, which also stand in the file as JSON ("signature.json").

        Raises:
            ExportError: If the policy cannot be put into such a file, if what was exported acts in another way than the
                agent, or if the agent has seen no observation and none is given.
            CheckpointError: If the file cannot be written; an older one stays.
            MissingDependencyError: If a package for the format is not installed.
            NonFiniteError: If the agent's own actions are NaN or infinite.
            ValueError: If the ending or `noise` is another one.
        """
        if self.acting_hook in self.overridden_hooks:
            raise ExportError(
                f"{type(self).__name__} overrides {self.acting_hook}, which no file can hold: override "
                "greedy_actions(obs, action_mask, active), torch operations on features, instead"
            )
        if example_obs is None:
            example_obs = self._observations_seen()
        return export_policy(self.greedy_copy, path, example_obs, action_mask, noise, format)

    def greedy_copy(self) -> Self:
        """A copy on the CPU that acts as this agent in evaluation, and by itself does nothing but that."""
        acting = object.__new__(type(self))
        names = (*self.acting_attributes, "obs_normalizer")
        for name, value in list(vars(self).items()):
            if name in names and isinstance(value, nn.Module):
                vars(acting)[name] = frozen_copy(value).cpu()
            elif not isinstance(value, nn.Module | torch.optim.Optimizer):
                vars(acting)[name] = value
        memory = None if self.memory is None else RecurrentMemory(None)
        vars(acting).update(training=False, device=torch.device("cpu"), memory=memory, _compiled_greedy=None)
        acting.features = copy.deepcopy(self.features)
        return acting

    def _observations_seen(self) -> Any:
        """Some raw observations of the past.

        Raises:
            ExportError: If there are none.
        """
        items = getattr(getattr(self, "replay_buffer", None), "memory", ())
        if len(items):
            chosen = range(0, len(items), -(-len(items) // _MOST))
            return [items[i][0]["state"] for i in chosen]
        if self.batch_last_obs is not None:
            return list(self.batch_last_obs)
        raise ExportError(
            f"this {type(self).__name__} has seen no observation yet, which it needs to trace its policy and to "
            "compare the file with it: give some as example_obs, such as env.observation_space or dataset.observations"
        )
