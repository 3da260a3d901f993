"""Nothing secret that a user gives stands in any file of a run, what is harmless does, and the run goes on exactly."""

import argparse
import json
import logging
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from resume_parts import noisy_env, small_dqn

from pfrl_like.experiments import prepare_output_dir, train_agent
from pfrl_like.loggers import FileAdapter

#: Secrets by the way in which they come; `{}` is where they stand.
COMMAND = {
    "--api-key={}": "abc123",
    "--token {}": "hunter2",
    "--wandb {}": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "--db=postgres://me:{}@db.example.org:5432/runs": "pa55word",
    "--tracking http://127.0.0.1:5000/?token={}&page=2": "f00ba4",
    "logger.mlflow.password={}": "correct-horse",
    "{}": "sk-proj-Zx81kQpL0vYtB3nM5rWc",
    "--github {}": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "--aws {}": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "--header": "",  # the next one belongs to it
    "Authorization: Bearer {}": "tQ9zLk3Vw",
    "--jwt {}": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "--slack https://hooks.slack.com/services/{}": "T00000000/B00000000/XyZ123",
    "--discord https://discord.com/api/webhooks/{}": "1234/AbCd-ef",
    "--session-cookie {}": "chocolate",
    "--cookie sid={}": "secret13",
    "--api-keys first:A1,{}": "second:B2",
    "-u me:{}": "curl-pass",
    "--user=me:{}": "user-pass",
    "--sentry={{\"token\": [\"{}\", \"other\"]}}": "Zsecret81",
    "--extra={{\"client_secret\": \"{}\"}}": "s3cr3t",
}  # fmt: skip
ARGUMENTS: dict[str, tuple[Any, str]] = {
    "api_key": ("{}", "k-1234"),
    "wandb": ({"entity": "us", "apiKey": "{}"}, "wandb-4711"),
    "tokens": (["{}", "none"], "first-token"),
    "db_passwd": ("{}", "dbpass1"),
    "url": ("https://{}@example.org/data", "user:p@ss"),
    "aws": (("eu-west-1", "{}"), "AKIAIOSFODNN7EXAMPLE"),
    "huggingface": ("{}", "hf_abcdefghijklmnopqrstuvwxyz"),
    "auth": ({"user": "{}"}, "auth-user"),
    "sweep": ("{}", "mJ4tK8vQx2LpR7wZs9Yb"),
    "options": (argparse.Namespace(dataset_token="{}", seed=1), "inner-token"),
    "notebook": ("http://localhost:8888/notebooks/a.ipynb?token={}", "c8de56fa4dee4adb"),
    "credentials": ("{}", "me/mine"),
    "login": ({"password": {"db": b"{}"}}, "Qs6"),
    "trackers": ("Namespace(api_key=['{}'], n=3)", "Qs11"),
    "quoted": ("{'token': 'it\\'s \"{}\"'}", "Qs16"),
}
ENVIRONMENT = {
    "WANDB_API_KEY": ("{}", "w4ndb"),
    "MY_DATABASE": ("{}", "sqlite-secret-file"),
    "AWS_SECRET_ACCESS_KEY": ("{}", "aws-secret"),
    "SLURM_JWT": ("{}", "slurm-web-token"),
    "HTTPS_PROXY": ("http://proxy:{}@proxy:3128", "proxypass"),
    "JUPYTER_TOKEN": ("{}", "jupyter-token"),
    "CUDA_REGISTRY": ("https://cuda:{}@nvcr.io", "cudapass"),
    "PYTHON_KEYRING_PASSWORD": ("{}", "keyring-pass"),
}
SETTINGS = {
    "mlflow_tracking_password": ("{}", "mlflow-pass"),
    "tracking_uri": ("https://ml:{}@host", "mlpass"),
    "run_token": ("{}", "tb-token"),
}
#: What is logged, by secrets that stand nowhere else.
LOGGED: dict[str, Any] = {
    "b0tpass": "https://bot:{}@example.org",
    "Qs1": {"token": ["{}", "Qs2"]},
    "Qs3": {"token": b"{}"},
    "Qs4": {"password": {"db": ("{}", 1)}},
    "Qs5": argparse.Namespace(api_key=["{}"]),
    "Qs7": {"token": 'it\'s "{}"'},
    "Qs8": ["--token", "{}"],
    "Qs9": 'curl -u me:{} --data \'{"apiKey": "x"}\'',
}
RAISED_SECRET = "raised-pass"
SECRETS = [*filter(None, COMMAND.values()), *LOGGED, "Qs2", RAISED_SECRET]
SECRETS += [secret for table in (ARGUMENTS, ENVIRONMENT, SETTINGS) for _, secret in table.values()]

HARMLESS_COMMAND = shlex.split("""
train.py CartPole-v1 --lr=3e-4 --max-tokens 512 --tokenizer bpe --obs-key pixels --key-frames 3 --n-passes=2 --no-auth
--commit 3e44dcb0f2a1b5c6d7e8f9a0b1c2d3e4f5a6b7c8 --secretary Bob
--checksum=sha256:9f86d081884c7d659a2feaa0c55ad015
--load runs/3e44dcb0f2a1b5c6d7e8f9a0b1c2d3e4f5a6b7c8-1a2b3c4d-5e6f7a8b/best --token-file /run/token
--profile HalfCheetahBulletEnv20240101v5 -f /tmp/jupyter/runtime/kernel-1b4e28ba-2fa1-11d2-883f-0016d3cca427.json
https://example.org:8080/@user/data git@github.com:me/monkey.git --author me@example.org
""")
HARMLESS_ARGUMENTS: dict[str, Any] = {
    "env": "SpaceInvadersNoFrameskip-v4", "gamma": 0.99, "keyboard": "qwertz", "hidden_sizes": [256, 255],
    "tokens_per_batch": 4096, "outdir": "results/dqn-lr3e-4-bs256-seed12/20240101T120000.123456", "sha": "0f1e2d3c",
    "dataset": "D4RL/hopper/medium-v2", "notes": "a: b, c = d", "monitor": "keep", "author": "Ada", "password": None,
    "eos_token": "</s>", "pad_token_id": 0, "token_ids": [1, 2, 3], "key": "harmless-name", "sort_key": "length",
    "num_tokens": "many",
}  # fmt: skip
HARMLESS_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0,1", "LANG": "C.UTF-8", "SLURM_JOB_ID": "47"}
HARMLESS_LOGGED = "eos_token: '</s>', token_ids: [1, 2, 3], key: 'harmless-name', num_tokens=4, --secretary Bob"
HARMLESS_SETTINGS = {"batch_size": 257, "encoder": "pixel-encoder"}


def filled(value: Any, secret: str) -> Any:
    """A value with the secret in its place."""
    if isinstance(value, Mapping):
        return {name: filled(item, secret) for name, item in value.items()}
    if isinstance(value, argparse.Namespace):
        return argparse.Namespace(**filled(vars(value), secret))
    if isinstance(value, list | tuple):
        return type(value)(filled(item, secret) for item in value)
    if isinstance(value, bytes):
        return value.replace(b"{}", secret.encode())
    return value.replace("{}", secret) if isinstance(value, str) else value


def all_filled(table: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    return {name: filled(value, secret) for name, (value, secret) in table.items()}


def planted_command() -> list[str]:
    """The command line, secrets and harmless ones in turn."""
    secret = [filled(text, secret).replace("{{", "{").replace("}}", "}") for text, secret in COMMAND.items()]
    parts = [text if text.startswith(("Authorization", "--extra", "--sentry")) else text.split(" ") for text in secret]
    return [*HARMLESS_COMMAND, *(word for part in parts for word in ([part] if isinstance(part, str) else part))]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a run with everything planted: broken off by an error, and gone on with to its end."""
    for name, value in {**all_filled(ENVIRONMENT), **HARMLESS_ENVIRONMENT}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)  # away from this file, whose changes git-diff.txt would show
    argv = planted_command()
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, *argv])
    outdir = prepare_output_dir({**all_filled(ARGUMENTS), **HARMLESS_ARGUMENTS}, basedir=tmp_path, exp_id="run")
    FileAdapter(f"{outdir}/settings").write_params({**all_filled(SETTINGS), **HARMLESS_SETTINGS})
    broken = []

    def tell(env: Any, agent: Any, t: int) -> None:
        if t == 20 and not broken:
            broken.append(t)
            logger = logging.getLogger("pfrl_like")
            for secret, value in LOGGED.items():
                logger.warning("config %s", filled(value, secret))
            logger.warning(HARMLESS_LOGGED)
            logger.warning("the token is hunter2, the account's %s", os.environ["AWS_SECRET_ACCESS_KEY"])
            raise ConnectionError(f"ftp://me:{RAISED_SECRET}@host does not answer hunter2, called by {sys.argv}")

    for _ in range(2):
        env = noisy_env(1)
        try:
            train_agent(small_dqn(env), env, 30, outdir, checkpoint_freq=10, resume=True, step_hooks=[tell])
        except ConnectionError:
            continue
    return Path(outdir)


def test_no_planted_secret_is_written_and_harmless_strings_are(run: Path) -> None:
    assert len(SECRETS) >= 40
    written = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    found = [(secret, path.name) for secret in SECRETS for path in written if secret.encode() in written[path]]
    assert not found
    command = (run / "command.txt").read_text().split(" ")
    record = json.loads((run / "run.json").read_text())
    arguments = json.loads((run / "args.txt").read_text())
    settings = json.loads((run / "settings" / "params.json").read_text())
    environ = json.loads((run / "environ.txt").read_text())
    assert command[: len(HARMLESS_COMMAND)] == HARMLESS_COMMAND == record["command"][: len(HARMLESS_COMMAND)]
    assert HARMLESS_ARGUMENTS.items() <= arguments.items() and HARMLESS_ENVIRONMENT.items() <= environ.items()
    assert HARMLESS_LOGGED in (run / "run.log").read_text()
    assert HARMLESS_SETTINGS.items() <= settings.items()
    report = (run / "report.html").read_text()
    assert all(word in report for word in HARMLESS_COMMAND) and "db.example.org:5432/runs" in report
    harmless = [HARMLESS_COMMAND, HARMLESS_ARGUMENTS, HARMLESS_ENVIRONMENT, HARMLESS_SETTINGS]
    assert sum(map(len, harmless)) >= 40


def test_a_run_with_masked_secrets_goes_on_exactly_and_keeps_its_digests(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    assert record["outcome"] == "finished" and record["resumed"]["resume"] == "exact"
    assert record["same_command"] and record["command_digest"].startswith("pbkdf2:")
    assert all(part["command_digest"] == record["command_digest"] for part in record["earlier_parts"])
    manifest = json.loads((run / "30_finish" / "manifest.json").read_text())
    digests = [entry["sha256"] for entry in manifest["files"].values()]
    digests += [digest.removeprefix("sha256:") for digest in record["files"].values()]
    assert digests and all(len(digest) == 64 and int(digest, 16) for digest in digests)
