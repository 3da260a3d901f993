"""Writes a snapshot and persistent buffers of PFRL 0.4 for `tests/data`: `.peers/pfrl/bin/python FILE FOLDER`."""

import os
import sys

import numpy as np


def transition(i: int) -> dict[str, object]:
    """Return transition i. The episodes have four steps, and the last step of an episode is terminal."""
    return {
        "state": np.full(2, i, np.float32), "action": i % 3, "reward": float(i),
        "next_state": np.full(2, i + 1, np.float32), "next_action": None, "is_state_terminal": i % 4 == 3,
    }  # fmt: skip


def main(folder: str) -> None:
    import pfrl
    import torch

    torch.manual_seed(0)
    model = pfrl.q_functions.FCStateQFunctionWithDiscreteAction(2, 3, n_hidden_channels=4, n_hidden_layers=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    buffer = pfrl.replay_buffers.ReplayBuffer(8)
    agent = pfrl.agents.DQN(
        model, optimizer, buffer, 0.9, pfrl.explorers.Greedy(), replay_start_size=4, minibatch_size=4,
        target_update_interval=4,
    )  # fmt: skip
    for i in range(6):
        agent.act(np.full(2, i, np.float32))
        agent.observe(np.full(2, i + 1, np.float32), 1.0, False, False)

    def set_rate(env: object, agent: object, value: float) -> None:
        optimizer.param_groups[0]["lr"] = value

    pfrl.experiments.LinearInterpolationHook(100, 1e-2, 0, set_rate)(None, agent, 51)
    os.makedirs(os.path.join(folder, "pfrl_0_4_snapshot"))
    agent.save_snapshot(os.path.join(folder, "pfrl_0_4_snapshot"))

    for name in ("PersistentReplayBuffer", "PersistentEpisodicReplayBuffer"):
        kept = getattr(pfrl.replay_buffers, name)(os.path.join(folder, f"pfrl_0_4_{name}"), 100)
        for i in range(8):
            kept.append(**transition(i))
        kept.memory.close()
        if hasattr(kept, "episodic_memory"):
            kept.episodic_memory.close()


if __name__ == "__main__":
    main(sys.argv[1])
