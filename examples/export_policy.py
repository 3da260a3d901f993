"""Trains Double DQN on CartPole, exports its policy, and lets a process that has the file alone play an episode.

    python examples/export_policy.py

That process knows neither this library nor, with onnxruntime (extra `export`), PyTorch.
Time: about a minute on one core.
"""

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

import gymnasium
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils

#: What a program needs to run the policy, by the ending of the file.
RUNTIMES = {
    ".onnx": """
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
def policy(observations):
    return session.run(None, {"input_0": observations})[0]
""",
    ".pt": """
import torch
module = torch.jit.load(sys.argv[1])
def policy(observations):
    return module(torch.from_numpy(observations)).numpy()
""",
}
EPISODE = """
import gymnasium
env = gymnasium.make("CartPole-v1")
obs, _ = env.reset(seed=int(sys.argv[2]))
total, over = 0.0, False
while not over:
    obs, reward, terminated, truncated, _ = env.step(int(policy(obs[None])[0]))
    total, over = total + reward, terminated or truncated
print(total, "without pfrl_like" if "pfrl_like" not in sys.modules else "")
"""

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
has_onnx = all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))
parser.add_argument("--outdir", default="results/export", help="folder of the run, and of the exported policy")
parser.add_argument("--format", default=".onnx" if has_onnx else ".pt", choices=RUNTIMES, help="ending of the file")
parser.add_argument("--seed", type=int, default=0, help="of all random streams")
parser.add_argument("--steps", type=int, default=15_000, help="environment steps of training")
args = parser.parse_args()

torch.set_num_threads(1)  # networks this small are slower on several threads
utils.set_random_seed(args.seed)
env = gymnasium.make("CartPole-v1")
env.reset(seed=args.seed)
env.action_space.seed(args.seed)

q_function = nn.Sequential(
    nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, env.action_space.n), q_functions.DiscreteActionValueHead()
)
agent = agents.DoubleDQN(
    q_function,
    torch.optim.Adam(q_function.parameters(), lr=1e-3),
    replay_buffers.ReplayBuffer(50_000, num_steps=3),
    gamma=0.99,
    explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.05, 5_000, env.action_space.sample),
    replay_start_size=500,
    target_update_interval=200,
)
experiments.train_agent(agent, env, args.steps, args.outdir)

path = Path(args.outdir) / f"policy{args.format}"
signature = agent.export(path, example_obs=env.observation_space)
for side, ports in (("takes", signature.inputs), ("gives", signature.outputs)):
    print(side, ", ".join(f"{port.name} {port.dtype} {port.shape}" for port in ports))
program = f"import sys\n{RUNTIMES[args.format]}{EPISODE}"
command = [sys.executable, "-W", "ignore", "-c", program, str(path), str(args.seed)]
print("return", subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
