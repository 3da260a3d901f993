"""Trains discrete BCQ on images: a toy robot follows a line that its camera sees, as a clumsy driver has shown.

    python examples/offline/line_tracing.py

The camera gives an image [1, 16, 16] of the floor ahead; actions steer left, straight on or right. The driver of the
recorded drives steers towards the line two times out of five, and at random otherwise; discrete BCQ learns to leave
the mistakes out. Networks take pixels by `encoder_params`, and `scaler="pixel"` brings bytes to [0, 1].
Time: about half a minute on one core.
"""

import common
import gymnasium
import numpy as np

from pfrl_like import algos, metrics
from pfrl_like.dataset import MDPDataset
from pfrl_like.replay_buffers import ReplayBuffer

SIZE = 16


class LineTracer(gymnasium.Env):
    """A line that winds; the robot moves along it, is paid for being near, and loses it at half a view's distance."""

    observation_space = gymnasium.spaces.Box(0, 255, (1, SIZE, SIZE), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)
    length = 60

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        turns = self.np_random.uniform(-0.8, 0.8, self.length + SIZE)
        self.line = np.cumsum(np.convolve(turns, np.ones(5) / 5, "same"))
        self.x, self.t = self.line[0] + self.np_random.uniform(-3, 3), 0
        return self._image(), {}

    def step(self, action):
        self.x += int(action) - 1
        self.t += 1
        distance = abs(self.x - self.line[self.t])
        lost = bool(distance > SIZE / 2)
        return self._image(), max(0.0, 1.0 - distance / 3), lost, self.t == self.length, {}

    def off(self):
        """The distance from the robot to the line on its right, a step ahead."""
        return float(self.line[self.t + 1] - self.x)

    def _image(self):
        columns = np.arange(SIZE) - (SIZE - 1) / 2
        ahead = self.line[self.t : self.t + SIZE, None] - self.x
        image = np.where(np.abs(columns - ahead) < 1.0, 255, 0).astype(np.uint8)
        return image[None, ::-1]  # what is near is at the bottom


def record(env, episodes, seed):
    """Drives of the clumsy driver."""
    rng = np.random.default_rng(seed)
    buffer = ReplayBuffer()
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed + episode)
        over = False
        while not over:
            towards = 1 + int(np.sign(round(env.off())))
            action = towards if rng.random() < 0.4 else int(rng.integers(3))
            next_obs, reward, terminated, truncated, _ = env.step(action)
            buffer.append(obs, action, reward, next_obs, is_state_terminal=terminated)
            obs, over = next_obs, terminated or truncated
        buffer.stop_current_episode()
    return MDPDataset.from_buffer(buffer)


parser = common.make_parser(__doc__, steps=1_500)
parser.add_argument("--episodes", type=int, default=50, help="recorded drives")
args = common.start(parser)

env = LineTracer()
dataset = record(env, args.episodes, args.seed)
print(f"the driver's mean return: {dataset.compute_stats()['return']['mean']:.1f}")
algo = algos.DiscreteBCQ(
    learning_rate=1e-3, batch_size=64, gamma=0.9, target_update_interval=100, action_flexibility=0.5,
    scaler="pixel", encoder_params={"filters": [(8, 4, 2), (16, 3, 1)], "feature_size": 64},
)  # fmt: skip
algo.fit(
    dataset,
    n_steps=args.steps,
    n_steps_per_epoch=args.steps,
    logdir=args.outdir,
    verbose=False,
    show_progress=False,
    tensorboard=False,
)
score = metrics.evaluate_on_environment(env, n_trials=args.eval_n_runs)(algo)
print(f"the robot's mean return: {score:.1f} of {LineTracer.length} at most")
