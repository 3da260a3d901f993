"""Whatever is done to an environment, its tape brings another one to the same place."""

import json
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tape_parts import ENVS

from pfrl_like.envs.episode_tape import EpisodeTape
from pfrl_like.random_streams.streams import GlobalStreams

RESET = -1


def lived(tape: EpisodeTape, doings: list[int], draws: bool) -> list[Any]:
    came = []
    for doing in doings:
        if draws:
            np.random.random(), torch.rand(1)
        result = tape.reset() if doing == RESET else tape.step(tape.action_space.sample())
        obs, *rest = result if isinstance(result, tuple) else (result,)
        came.append([np.array(obs).tolist(), *rest])
    return came


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(ENVS)), st.lists(st.integers(RESET, 20), max_size=25), st.integers(0, 25), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_a_tape_brings_another_environment_to_the_same_place(
    name: str, doings: list[int], at: int, draws: bool, seed: int
) -> None:
    tape, other = (EpisodeTape(ENVS[name]()) for _ in range(2))
    np.random.seed(seed)
    lived(tape, [RESET, *doings[:at]], draws)
    state = json.loads(json.dumps(tape.saved_state(), allow_nan=False))
    streams = GlobalStreams.now()
    expected = lived(tape, doings[at:], draws)
    np.random.seed(seed + 1)
    arrival = other.restore_state(state)
    streams.restore()
    assert arrival.exact, arrival.reason
    assert lived(other, doings[at:], draws) == expected
