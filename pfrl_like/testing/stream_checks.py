"""What an agent learns from is what its environments did: however many there are, and whoever resets them and when."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from pfrl_like.envs import SerialVectorEnv, VectorStream, as_vector_stream
from pfrl_like.testing.learnt_rows import Door, Record, rows_of
from pfrl_like.testing.play import play_stream
from pfrl_like.testing.recorded_env import RecordedEnv, Step
from pfrl_like.testing.requirement import require
from pfrl_like.utils.spaces import space_kind

#: Who resets the environments, and how many there are: None is the caller.
FORMS: tuple[tuple[AutoresetMode | None, int], ...] = (
    (AutoresetMode.NEXT_STEP, 3),
    (AutoresetMode.SAME_STEP, 2),
    (AutoresetMode.DISABLED, 2),
    (None, 3),
)


def check_streams(
    make_agent: Callable[[], Any],
    env: Any,
    n_steps: int,
    seed: int,
    compare: Callable[[Any, Any, str], str | None],
    state_of: Callable[[Any], Any],
) -> None:
    """Check what reaches the `update` of an agent, and its replay buffer, in several environments of several forms.

    Args:
        make_agent: Makes the same untrained agent every time; its runs have `batch_act`, and `update` or `learn`.
        env: The environment; it is copied.
        n_steps: Steps of each run, of all environments together.
        seed: Seed of the environments.
        compare: Tells where two states differ, given a name for them.
        state_of: Gives the state of an agent.

    Raises:
        AssertionError: Naming the contract that is broken.
    """
    states: dict[int, tuple[str, Any]] = {}
    missing = None
    for mode, n_envs in FORMS:
        envs = [RecordedEnv(env, number, seed) for number in range(n_envs)]
        if mode is not None and not _fits_gymnasium(envs[0]):
            continue
        agent, form = make_agent(), f"{n_envs} environments, autoreset {mode.value if mode else 'by the caller'}"
        door = Door(agent)
        play_stream(agent, stream_of(envs, mode), n_steps)
        require(door.raw or door.features, f"nothing was learnt from in {n_steps} steps of {form}")
        if mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):  # which differ in nothing that the agent sees
            state = state_of(agent)
            other, expected = states.setdefault(n_envs, (form, state))
            found = compare(expected, state, "state")
            require(found is None, f"{form}, gave another agent than {other}: {found}")
        missing = check_rows(agent, door, envs, form) or missing
    require(missing is None, f"a step is not in the replay buffer: {missing}")


def stream_of(envs: list[RecordedEnv], mode: AutoresetMode | None) -> VectorStream:
    """A vector environment of these, in an autoreset mode of gymnasium, or of PFRL's form if that is None."""
    if mode is None:
        return as_vector_stream(SerialVectorEnv(envs))
    makers = [lambda env=env: env for env in envs]
    return as_vector_stream(gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=mode))


def check_rows(agent: Any, door: Door, envs: list[RecordedEnv], form: str = "") -> str | None:
    """Check that what came through a door, and what is in the replay buffer, are steps of these environments.

    Returns:
        A step of an episode that has ended which is not in the buffer; None if there is no such step.

    Raises:
        AssertionError: If something else was there.
    """
    device, gamma = getattr(agent, "device", "cpu"), agent.gamma

    def features(obs: list[Any]) -> Any:
        return agent.batch_states(obs, device, agent.phi)

    raw = [row for learnt in door.raw for row in rows_of(learnt)]
    buffer: Any = getattr(agent, "replay_buffer", None)
    stored = [] if buffer is None else rows_of(everything(agent))
    for name, rows, look in (
        ("update", raw, None),
        ("learn", [row for learnt in door.features for row in rows_of(learnt)], features),
        ("the replay buffer", stored, None),
    ):
        record = Record(envs, gamma, look, getattr(agent, "learn_from_truncated", False))
        found = next((fault for fault in map(record.fault, rows) if fault is not None), None)
        require(found is None, f"what came to {name} is not what happened ({form}): {found}")
        if stored and rows is stored and (buffer.capacity is None or len(buffer) < buffer.capacity):
            seen = {id(record.steps_of(row)[0]) for row in rows}
            return next((f"{step} ({form})" for step in ended_steps(envs) if id(step) not in seen), None)
    return None


def everything(agent: Any) -> Any:
    """All that is in an agent's replay buffer."""
    buffer = agent.replay_buffer
    if getattr(agent, "learns_from_sequences", getattr(agent, "recurrent", False)):
        batch = buffer.sample_sequences(buffer.n_episodes, None, agent.gamma)
    else:
        batch = buffer.sample_batch(len(buffer), agent.gamma)
    if buffer.prioritized:
        buffer.update_priorities(batch.index, np.ones(len(batch.index)))
    return batch


def ended_steps(envs: list[RecordedEnv]) -> Iterator[Step]:
    """The steps of episodes that have ended."""
    for env in envs:
        for episode in env.episodes:
            if env.ended or episode is not env.episodes[-1]:
                yield from episode


def _fits_gymnasium(env: Any) -> bool:
    """Whether gymnasium can make a vector of such environments."""
    kinds = [space_kind(space) for space in (env.observation_space, env.action_space)]
    return all(isinstance(space, gymnasium.Space) for space in (env.observation_space, env.action_space)) and (
        "other" not in kinds
    )
