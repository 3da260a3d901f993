"""The measurements of agents with a policy: SAC, TD3 and PPO on HalfCheetah-v5, A3C on CartPole-v1.

SAC and TD3 make one update a step, with networks of 256x256 and minibatches of 256. PPO steps 8 environments in one
process and makes 10 epochs of minibatches of 64 over 2,048 steps of them, with networks of 64x64. Every library gets
the same networks, optimisers and hyperparameters; what it computes beside them is its own.
"""

import contextlib
import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from speed_tools import FourValues, OutOfTime, StopWatch
from torch import distributions, nn

ENV = "HalfCheetah-v5"
REPLAY_START = 1_000
ENVS = 8
ROLLOUT = 2_048  # steps, of all environments together
A3C_STEPS = 40_000
A3C_WARM_STEPS = 4_000

Case = Callable[..., dict[str, float]]


def mlp(n_inputs: int, n_outputs: int, *head: nn.Module, width: int = 256, activation: Any = nn.ReLU) -> nn.Sequential:
    hidden = [nn.Linear(n_inputs, width), activation(), nn.Linear(width, width), activation()]
    return nn.Sequential(*hidden, nn.Linear(width, n_outputs), *head)


def sizes(env: Any) -> tuple[int, int]:
    return env.observation_space.shape[0], env.action_space.shape[0]


def cast(obs: Any) -> np.ndarray:
    """HalfCheetah's observations are float64."""
    return np.asarray(obs, dtype=np.float32)


def critic(library: Any, n_obs: int, n_actions: int) -> nn.Module:
    return nn.Sequential(library.nn.ConcatObsAndAction(), *mlp(n_obs + n_actions, 1))


def adam(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters(), lr=3e-4)


def run(library: Any, watch: StopWatch, make_agent: Callable[[Any], Any]) -> dict[str, float]:
    """Steps per second of training on the watched environment."""
    env: Any = FourValues(watch) if library.__name__ == "pfrl" else watch
    agent = make_agent(env)
    with tempfile.TemporaryDirectory() as outdir, contextlib.suppress(OutOfTime):
        library.experiments.train_agent(agent, env, 10**9, outdir)
    return {"rate": watch.rate}


def squashed_gaussian(library: Any) -> Any:
    """A head of [B, 2 n]; PFRL has none and leaves it to its users."""
    if library.__name__ != "pfrl":
        return library.policies.SquashedGaussianHead()

    def head(x: torch.Tensor) -> Any:
        mean, log_scale = x.chunk(2, dim=1)
        normal = distributions.Normal(mean, log_scale.clamp(-20.0, 2.0).exp())
        tanh = distributions.transforms.TanhTransform(cache_size=1)
        return distributions.TransformedDistribution(distributions.Independent(normal, 1), [tanh])

    return library.nn.Lambda(head)


def sac(library: Any, seconds: float, **options: Any) -> dict[str, float]:
    def make_agent(env: Any) -> Any:
        n_obs, n_actions = sizes(env)
        parts = [mlp(n_obs, 2 * n_actions, squashed_gaussian(library))]
        parts += [critic(library, n_obs, n_actions) for _ in range(2)]
        return library.agents.SoftActorCritic(
            *parts, *map(adam, parts), library.replay_buffers.ReplayBuffer(100_000), 0.99,
            replay_start_size=REPLAY_START, minibatch_size=256, burnin_action_func=env.action_space.sample,
            entropy_target=-n_actions, temperature_optimizer_lr=3e-4, phi=cast, **options,
        )  # fmt: skip

    return run(library, StopWatch(gymnasium.make(ENV), seconds), make_agent)


def td3(library: Any, seconds: float, **options: Any) -> dict[str, float]:
    def make_agent(env: Any) -> Any:
        n_obs, n_actions = sizes(env)
        parts = [mlp(n_obs, n_actions, nn.Tanh(), library.policies.DeterministicHead())]
        parts += [critic(library, n_obs, n_actions) for _ in range(2)]
        return library.agents.TD3(
            *parts, *map(adam, parts), library.replay_buffers.ReplayBuffer(100_000), 0.99,
            library.explorers.AdditiveGaussian(0.1, -1.0, 1.0), replay_start_size=REPLAY_START, minibatch_size=256,
            burnin_action_func=env.action_space.sample, phi=cast, **options,
        )  # fmt: skip

    return run(library, StopWatch(gymnasium.make(ENV), seconds), make_agent)


def watched_envs(seconds: float) -> tuple[StopWatch, list[Any]]:
    """Environments that are stepped in turn; the first one is watched, from the second rollout to the end of one."""
    unit = ROLLOUT // ENVS
    watch = StopWatch(gymnasium.make(ENV), seconds, warm_steps=unit, unit=unit)
    return watch, [watch, *(gymnasium.make(ENV) for _ in range(ENVS - 1))]


def ppo(library: Any, seconds: float, **options: Any) -> dict[str, float]:
    watch, envs = watched_envs(seconds)
    n_obs, n_actions = sizes(watch)
    gaussian = library.policies.GaussianHeadWithStateIndependentCovariance(
        action_size=n_actions, var_type="diagonal", var_func=lambda x: torch.exp(2 * x), var_param_init=0
    )
    form = {"width": 64, "activation": nn.Tanh}
    model = library.nn.Branched(mlp(n_obs, n_actions, gaussian, **form), mlp(n_obs, 1, **form))
    agent = library.agents.PPO(
        model, adam(model), phi=cast, update_interval=ROLLOUT, minibatch_size=64, epochs=10, gamma=0.99, lambd=0.95,
        clip_eps=0.2, clip_eps_vf=None, entropy_coef=0.0, value_func_coef=0.5, max_grad_norm=0.5,
        standardize_advantages=True, **options,
    )  # fmt: skip
    if library.__name__ == "pfrl":
        envs = [FourValues(env) for env in envs]
        for env in envs:
            env.spec = None
    env = library.envs.SerialVectorEnv(envs)
    with tempfile.TemporaryDirectory() as outdir, contextlib.suppress(OutOfTime):
        library.experiments.train_agent_batch(agent, env, 10**9, outdir, max_episode_len=1_000)
    return {"rate": ENVS * watch.rate}


def a3c(library: Any, seconds: float) -> dict[str, float]:
    """Steps per second of two processes; the time for a number of steps, whatever `seconds` is."""
    with tempfile.TemporaryDirectory() as outdir:
        marks = {t: Path(outdir, str(t)) for t in (A3C_WARM_STEPS, A3C_STEPS)}

        def mark(env: Any, agent: Any, t: int) -> None:
            if t in marks:
                marks[t].write_text(repr(time.monotonic()))  # the same clock in every process

        def make_env(process_idx: int, test: bool) -> Any:
            env = gymnasium.make("CartPole-v1")
            return FourValues(env) if library.__name__ == "pfrl" else env

        model = library.nn.Branched(mlp(4, 2, library.policies.SoftmaxCategoricalHead(), width=64), mlp(4, 1, width=64))
        optimizer = library.optimizers.SharedRMSpropEpsInsideSqrt(model.parameters(), lr=7e-4, eps=0.1, alpha=0.99)
        agent = library.agents.A3C(model, optimizer, t_max=5, gamma=0.99, beta=1e-2, phi=cast, max_grad_norm=40.0)
        library.experiments.train_agent_async(
            outdir, 2, make_env, steps=A3C_STEPS + 1_000, eval_interval=None, agent=agent, global_step_hooks=[mark],
            save_best_so_far_agent=False, random_seeds=[0, 1],
        )  # fmt: skip
        start, end = (float(path.read_text()) for path in marks.values())
    return {"rate": (A3C_STEPS - A3C_WARM_STEPS) / (end - start)}


def sb3_train(watch: StopWatch, agent: Any) -> dict[str, float]:
    with contextlib.suppress(OutOfTime):
        agent.learn(10**9)
    return {"rate": watch.rate}


def sb3_sac(library: Any, seconds: float) -> dict[str, float]:
    watch = StopWatch(gymnasium.make(ENV), seconds)
    agent = library.SAC(
        "MlpPolicy", watch, learning_rate=3e-4, buffer_size=100_000, learning_starts=REPLAY_START, batch_size=256,
        train_freq=1, gradient_steps=1, policy_kwargs={"net_arch": [256, 256]}, device="cpu",
    )  # fmt: skip
    return sb3_train(watch, agent)


def sb3_ppo(library: Any, seconds: float) -> dict[str, float]:
    watch, envs = watched_envs(seconds)
    vector = library.common.vec_env.DummyVecEnv([lambda env=env: env for env in envs])
    agent = library.PPO(
        "MlpPolicy", vector, learning_rate=3e-4, n_steps=ROLLOUT // ENVS, batch_size=64, n_epochs=10, gamma=0.99,
        gae_lambda=0.95, clip_range=0.2, ent_coef=0.0, vf_coef=0.5, max_grad_norm=0.5,
        policy_kwargs={"net_arch": [64, 64], "activation_fn": nn.Tanh}, device="cpu",
    )  # fmt: skip
    return {"rate": ENVS * sb3_train(watch, agent)["rate"]}


CASES: dict[str, Case] = {
    "sac": sac,
    "sac-compiled": functools.partial(sac, compile=True),
    "td3": td3,
    "td3-compiled": functools.partial(td3, compile=True),
    "ppo": ppo,
    "ppo-compiled": functools.partial(ppo, compile=True),
    "a3c": a3c,
}
SB3_CASES: dict[str, Case] = {"sac": sb3_sac, "ppo": sb3_ppo}
