"""Texts that `--help` prints about the commands."""

#: Commands: the line in the list of commands, the description, and examples.
TEXTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "train": (
        "train an agent in an environment",
        """Trains an agent with the settings of its preset. Without --new, the command continues the newest unfinished
        run in --outdir that has the same settings, from its newest checkpoint. If all runs with these settings have
        finished, nothing is trained. --stop-at-score and --stop-after are no such settings: a run that they have ended
        continues under other ones. Exit status: 0 if all seeds finish, 1 if training fails, 2 for invalid options,
        130 after Ctrl-C, when each seed has saved a checkpoint.""",
        (
            "train --agent dqn --env CartPole-v1",
            "train --agent sac --env Pendulum-v1 --steps 10000 --seeds 3 --set lr=1e-3 --set 'hidden_sizes=[64, 64]'",
            "train --agent dqn --env CartPole-v1 --stop-at-score 475 --stop-after 30",
            "train --config results/20261123-2212-dqn-cartpole-seed0/run.toml --seed 1",
            "train --agent sac --env Pendulum-v1 --seeds 20 --on ray --address auto",
        ),
    ),
    "fit": (
        "train an offline agent from recorded data",
        """Trains an agent from a dataset. Options and results are those of `train`. The environment only evaluates the
        agent. For the datasets cartpole and pendulum, --env may be missing.""",
        (
            "fit --agent cql --dataset pendulum",
            "fit --agent discrete_bc --dataset data.npz --env CartPole-v1 --steps 5000",
        ),
    ),
    "evaluate": (
        "print the score of a saved agent",
        """Prints mean, standard deviation and 95 % interval (Student's t) of the returns of a saved agent. DIR is a run
        directory (its best agent is evaluated, or else its newest), or the directory of an agent. The spaces of --env
        must be those in which the agent was trained.""",
        ("evaluate results/20261123-2212-dqn-cartpole-seed0", "evaluate my_agent --env CartPole-v1 --episodes 100"),
    ),
    "watch": (
        "show a saved agent in a window, or record a video",
        """Shows episodes of a saved agent in a window, which needs a display, or writes them to a GIF or MP4 file. DIR
        is a run directory (its best agent is shown, or else its newest), or the directory of an agent.""",
        ("watch results/20261123-2212-dqn-cartpole-seed0", "watch my_agent --gif agent.gif --episodes 3"),
    ),
    "ope": (
        "estimate the return of a saved agent from recorded data",
        """Estimates the discounted return of a saved agent by off-policy evaluation: fitted Q evaluation, importance
        sampling and doubly robust estimates. No environment is used.""",
        ("ope results/20261123-2212-cql-pendulum-seed0 --dataset pendulum --steps 5000 --estimators fqe",),
    ),
    "export": (
        "write the policy of a saved agent as ONNX, TorchScript or torch.export file",
        """Writes the greedy policy of a saved agent to a file that runs without this library. The end of FILE selects
        the format: .onnx, .pt (TorchScript) or .pt2 (torch.export).""",
        ("export results/20261123-2212-dqn-cartpole-seed0 policy.onnx",),
    ),
    "report": (
        "print a table of runs and write their reports",
        """Prints a line for each run: its last and its best score, and how it ended. Writes report.html and
        learning_curve.svg into its directory. RUN is a run directory, or a directory of run directories.""",
        ("report results", "report results/20261123-2212-dqn-cartpole-seed0"),
    ),
    "show": (
        "print the script that makes and trains the same agent from its parts",
        """Prints a Python script that composes the agent from its parts and trains it, with the numbers of `train`.
        AGENT and ENV may be missing with --config, ENV also if the dataset has an environment.""",
        (
            "show sac Pendulum-v1", "show dqn CartPole-v1 --set lr=1e-4 > train_dqn.py",
            "show --config results/20261123-2212-dqn-cartpole-seed0/run.toml",
        ),
    ),
    "list": (
        "list agents, presets, datasets, installed environments, or the settings of an agent",
        """Lists the agents, the presets, the datasets, the environments whose packages are installed, or the names of
        the settings of AGENT: those of its parts, its constructor and the training. The line of an
        agent says how it learns (online: in an environment; asynchronous: in several processes; offline: from a
        dataset), and which actions it takes (discrete: Discrete; continuous: Box; any: also MultiDiscrete and
        MultiBinary). The settings of a tuned preset have scores of several seeds; those of an untuned one do not.""",
        ("list agents", "list presets", "list envs", "list settings dqn"),
    ),
    "replay-crash": (
        "repeat an update that was rejected because of NaN or infinity",
        """Starts the program of a run again, and repeats the rejected update with the agent that the program makes. The
        state of the agent, the minibatch and the random streams are loaded from the crash record. This library writes
        nothing into the run directory, but the program itself may. Exit status: 0 if the update is rejected again, 1 if
        not.""",
        ("replay-crash results/20261123-2212-dqn-cartpole-seed0/crash-1200",),
    ),
    "diff-runs": (
        "show the first step and the tensors in which two runs differ, and possible causes",
        """Compares the traces and the run.json of two runs. A trace contains checksums of observations, actions,
        rewards and losses at every step, and of the agent's tensors at every checkpoint. If losses are the first
        difference, or if tensors first differ between two checkpoints, both programs are started again, to find the
        step and the tensors. They start from the last checkpoint at which all checksums are equal, or from step 0 if
        there is no such checkpoint. This library writes nothing into the run directories during the rerun. Exit status:
        0 if the traces are equal over their common length, 1 if not.""",
        ("diff-runs results/a results/b",),
    ),
    "keep-running": (
        "run a training script, and start it again when it fails",
        """Runs PROGRAM, and starts it again if it ends with an exit status other than 0, or by a signal. It is not
        started again after Ctrl-C, after SIGTERM, or after a status of --final. SIGINT and SIGTERM are passed to it.
        The waiting time doubles with each failure in the window. PROGRAM should train with `resume=True`, so that each
        try resumes from the newest checkpoint. Exit status: that of the last try, and 128 + n after the signal n.""",
        ("keep-running -- python train.py --outdir run", "keep-running --tries 3 --final 2 --final 3 -- ./train.sh"),
    ),
    "completion": (
        "print a script that completes commands and options in a shell",
        "Prints a script for a shell, which then completes the commands and options of pfrl-like.",
        (
            "completion bash >> ~/.bashrc",
            "completion zsh >> ~/.zshrc",
            "completion fish > ~/.config/fish/completions/pfrl-like.fish",
        ),
    ),
}  # fmt: skip
