"""IQN with networks of the user's own, and with an `update` that counts."""

from parts import Walk, dqn, files, keys, pfrl, report, scores, train
from torch import nn


class OwnIQN(pfrl.agents.IQN):
    calls, shapes = 0, ()

    def update(self, experiences, errors_out=None):
        self.calls += 1
        self.shapes = sorted({*self.shapes, *map(len, experiences)})
        super().update(experiences, errors_out)


def trained(kind, outdir):
    q_func = pfrl.agents.iqn.ImplicitQuantileQFunction(
        psi=nn.Sequential(nn.Linear(4, 16), nn.ReLU()),
        phi=nn.Sequential(pfrl.agents.iqn.CosineBasisLinear(8, 16), nn.ReLU()),
        f=nn.Linear(16, 3),
    )
    agent = dqn(
        kind,
        pfrl.replay_buffers.ReplayBuffer(500, num_steps=2),
        q_func=q_func,
        minibatch_size=16,
        update_interval=2,
        target_update_interval=20,
        quantile_thresholds_N=6,
        quantile_thresholds_N_prime=5,
        quantile_thresholds_K=4,
        act_deterministically=True,
    )
    return train(agent, Walk(), steps=100, eval_interval=50, outdir=outdir)[0]


first, second = trained(OwnIQN, "iqn"), trained(pfrl.agents.IQN, "second")
report(
    first,
    stored=[len(each.replay_buffer) for each in (first, second)],
    updates=[first.optim_t, second.optim_t],
    calls=first.calls,
    shapes=first.shapes,
    scores=[scores("iqn"), scores("second")],
    files=files("iqn"),
    last=keys(second.get_statistics()),
)
