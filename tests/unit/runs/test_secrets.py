"""Secrets are recognised by name and by form; what only looks a little like one is left alone."""

import logging
import random
import string
import sys
import uuid
from collections import namedtuple
from types import MappingProxyType

import pytest

from pfrl_like.errors import CheckpointError
from pfrl_like.runs import secrets
from pfrl_like.runs.run_files import FailedWrites
from pfrl_like.runs.secrets import MASK, masked, masked_command, masked_text

SECRET_NAMES = (
    "WANDB_KEY", "--api-key", "apiKey", "APIkey", "api_keys", "N8N_ENCRYPTION_KEY", "aws_secret_key", "DbPassword",
    "passwd", "MYPWD", "GH_AUTH", "OAUTH_ID", "token", "HF_TOKEN", "wandb.api_key", "credentials", "session_cookie",
    "client-secret", "sshkey", "X-Amz-Signature", "DB_PASS", "accesstoken", "password1", "oauth2",
)  # fmt: skip
OTHER_NAMES = (
    "GIT_AUTHOR_NAME", "tokenizer", "monkey", "keyboard", "obs_key", "compass", "n_passes", "token_file", "auth_method",
    "KeyError", "no-auth", "turkey", "key_name", "authors", "--secretary", "key", "eos_token", "pad_token_id",
    "token_ids", "num_tokens", "maxTokens", "sort-key", "primary_key", "cnn_keys", "token_loss", "forward_pass",
    "test_secrets.py",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_value_is_secret_by_its_name(name):
    assert masked("x", name) == MASK and masked({name: ["x", 5]}) == {name: [MASK, MASK]}
    assert masked_command([f"{name}=x"]) == [f"{name}={MASK}"]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_name_may_look_like_that_of_a_secret(name):
    assert masked("x", name) == "x"
    assert masked_text(f"{name}: x") == f"{name}: x"


@pytest.mark.parametrize("name, value", [("max_tokens", 512), ("--max-tokens", "512"), ("token", None), ("auth", True),
                                         ("password", ""), ("use_token", "false"), ("key_dim", 64)])  # fmt: skip
def test_flags_and_counts_are_no_secrets(name, value):
    assert masked(value, name) == value


@pytest.mark.parametrize(
    "text, expected",
    [
        ("https://me:pw@host/x", f"https://{MASK}@host/x"),
        ("postgres://me:p@ss/w@host", f"postgres://{MASK}@host"),
        ("https://token@host", f"https://{MASK}@host"),
        ("me:pw@host:80", f"{MASK}@host:80"),
        ("https://hooks.slack.com/services/T0/B0/x", f"https://hooks.slack.com/{MASK}"),
        ("sk-proj-abcdefghij0123456789", MASK),
        ("(AKIAIOSFODNN7EXAMPLE)", f"({MASK})"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.dozjgNryP4", MASK),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", MASK),
        ("a Bearer abcdefgh", f"a Bearer {MASK}"),
    ],
)
def test_texts_are_secret_by_their_form(text, expected):
    assert secrets.mask_secret_patterns(text) == masked_text(text) == masked(text) == masked_text(expected) == expected


@pytest.mark.parametrize("text", [
    "https://example.org:8080/@user", "git@github.com:a/b.git", "mailto:me@example.org", "image:1.2@sha256:00",
    "at 12:30:01, a: b", "global-learning-rate-of-all", "task-0123456789abcdefgh", "3 * 4 @ 5",
    "tokens=[1, 2]", "eos_token: '</s>'", "user: Ada: hello", "--user 1000:1000", "the token is invalid", "tokens: []",
    "step 3: loss=0.5 (best: 0.4)", "-u train.py",
])  # fmt: skip
def test_other_texts_stay(text):
    assert secrets.mask_secret_patterns(text) == masked_text(text) == masked(text) == text


@pytest.mark.parametrize(
    "text, expected",
    [
        ("{'token': ['a', 'b'], 'n': 3}", "{'token': ********, 'n': 3}"),
        ("{'token': b'a', 'n': 3}", "{'token': ********, 'n': 3}"),
        ("{'password': {'db': ('a', [1])}}", "{'password': ********}"),
        ("Namespace(api_key=['a'], n=3)", "Namespace(api_key=********, n=3)"),
        ("token=SecretStr('a b'), n=3", "token=********, n=3"),
        (repr({"token": 'it\'s "a"'}), "{'token': '********'}"),
        (repr({"token": "a\\", "n": 3}), "{'token': '********', 'n': 3}"),
        (r'"{\"token\": \"a\\\"b\", \"n\": 3}"', r'"{\"token\": \"********\", \"n\": 3}"'),
        ("{'password': ['a', 'cut off", "{'password': ********"),
        ("{'password': 'cut off, b", "{'password': '********"),
        ("token == 'a' or b", "token == '********' or b"),
        ("API key: a, b", "API key: ********, b"),
        ("--api-keys a,b --cookie sid=a c", "--api-keys ******** --cookie ******** c"),
        ("f(api_keys=a, n=3)", "f(api_keys=********, n=3)"),
        ("['--token', 'a', '--n', '3']", "['--token', '********', '--n', '3']"),
        ("curl -u me:a http://host", "curl -u ******** http://host"),
    ],
)
def test_the_value_of_a_secret_name_is_masked_whole(text, expected):
    assert masked_text(text) == expected == masked_text(expected)


@pytest.mark.parametrize(
    "part", ["token=[", "user='(", "--user (", "token: \\", "'token': 'a", "tokens=(1", "\\\\", "--token "]
)
def test_no_part_of_a_text_is_looked_through_again_and_again(part, monkeypatch):
    marks = secrets._MARK
    seen = []

    class Counting:
        def finditer(self, text, start):
            for mark in marks.finditer(text, start):
                seen.append(mark)
                yield mark

    monkeypatch.setattr(secrets, "_MARK", Counting())
    masked_text(part * 1000)
    assert len(seen) <= 3000


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["a.py", "--token", "x", "b"], ["a.py", "--token", MASK, "b"]),
        (["--passwords", "y", "z", "--seed", "0"], ["--passwords", MASK, MASK, "--seed", "0"]),
        (["--token", "-Ab3_9xQz"], ["--token", MASK]),
        (["--cookie", "sid=a", "lr=3", "--api-keys", "a,b"], ["--cookie", MASK, "lr=3", "--api-keys", MASK]),
        (["-u", "me:a", "--user=me:a"], ["-u", MASK, f"--user={MASK}"]),
        (["--config", '{"token": ["a"]}'], ["--config", f'{{"token": {MASK}}}']),
        (["--x", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVoxMjM0NTY3ODk="], ["--x", f"{MASK}="]),
        (["--no-auth", "c", "-k", "--seed", "0"], None),
        (["--secretary", "Bob", "--user", "1:2", "--key", "reward", "--token", "--lr=3", "--tokens", "1"], None),
        (["ssh://git@github.com/a/b", "lr:0.1,eps:0.2@step=100", "--token-mixer=mlp"], None),
    ],
)
def test_an_option_and_its_value_are_two_arguments(argv, expected):
    assert masked_command(argv) == (expected or argv) == masked_command(expected or argv)


def test_secrets_of_the_command_line_are_masked_wherever_they_stand(monkeypatch):
    argv = [
        "train.py", "--token", 'X"secret', "--api-keys=first-key,second-key", "--cookie", "sid=third-key",
        "--pin-token", "12345", "--config", '{"token": ["fourth-key"]}', "--db=x://me:fifth-key@host", "--header",
        "Authorization: Bearer sixth-key", "--seed", "314159", "--auth-token", "271828",
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", argv)
    for secret in ('X"secret', r"X\"secret", "X%22secret", "first-key", "second-key", "third-key", "fourth-key",
                   "fifth-key", "sixth-key", "271828"):  # fmt: skip
        assert masked_text(f"cannot log in with <{secret}>") == masked(f"cannot log in with <{secret}>")
        assert masked_text(f"cannot log in with <{secret}>") == f"cannot log in with <{MASK}>"
    harmless = "12345 314159 42718281 train.py sid"
    assert masked_text(harmless) == harmless


def test_variables_of_secret_names_are_masked_wherever_they_stand(monkeypatch):
    given = {"WANDB_API_KEY": "0123-abc", "PWD": "/data/me", "EOS_TOKEN": "</sentence>", "TOKEN": "true"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert masked_text("no run 0123-abc in /data/me </sentence> true") == f"no run {MASK} in /data/me </sentence> true"
    monkeypatch.delenv("WANDB_API_KEY")  # as programs do once they have read it
    assert masked_text("0123-abc") == MASK


def test_secrets_of_arguments_are_masked_wherever_they_stand():
    arguments = {"api": {"token": ["from-a-file"]}, "note": "login from-a-file"}
    assert secrets.masked_arguments(arguments) == {"api": {"token": [MASK]}, "note": f"login {MASK}"}
    assert masked_text("login from-a-file") == f"login {MASK}"


@pytest.mark.parametrize(
    ("letters", "length"),
    [
        ("0123456789abcdef", 32),
        (string.digits + string.ascii_lowercase, 32),
        (string.ascii_letters + string.digits, 32),
        (string.ascii_letters + string.digits + "_-", 43),
        (string.ascii_letters + string.digits + "+/", 40),
    ],
)
def test_long_random_strings_of_arguments_are_secret(letters, length):
    generator = random.Random(0)
    texts = ["".join(generator.choices(letters, k=length)) for _ in range(300)]
    assert sum(masked(text) != text for text in texts) > 0.93 * len(texts)


@pytest.mark.parametrize("text", [
    "HalfCheetahBulletEnv20240101v5", "Walker2dBulletEnv0Seed12Run3", "CartPole-v1-dqn-lr3e-4-bs32-seed0-h64",
    "MyDQNAgentWithPERAndNStepReturns", "results/StarCraft2/20240101T120000.123456/best", "hyperparameter_optimization",
    str(uuid.UUID(int=2**127 - 1)), "commit=" + "3e44dcb0" * 5, f"sha256:{'3e44dcb0' * 8}",
    "3e44dcb0" * 5 + "-1a2b3c4d" * 2,
    "/var/lib/overlay2/" + "3e44dcb0" * 8, "SpaceInvadersNoFrameskip-v4", "1234567890" * 3,
])  # fmt: skip
def test_names_paths_and_digests_are_not_random(text):
    assert masked(text) == text


def test_a_digest_is_one_by_the_name_of_its_option():
    digest = "3e44dcb0" * 5
    told = ["--commit", digest, f"--run-id={digest}"]
    assert masked_command([*told, digest]) == [*told, MASK]


def test_nested_values_keep_their_form():
    Pair = namedtuple("Pair", ["token", "n"])
    value = {"a": MappingProxyType({"token": "x", 1: 2.5}), "b": Pair("x", 3), "c": ("x", [None]), "token": 123456}
    assert masked(value) == {"a": {"token": MASK, 1: 2.5}, "b": (MASK, 3), "c": ("x", [None]), "token": MASK}


def test_a_digest_tells_command_lines_apart_that_are_masked_alike():
    one, other = ("a.py", "--token=x"), ("a.py", "--token=y")
    assert masked_command(one) == masked_command(other)
    assert secrets.command_digest(one) != secrets.command_digest(other) == secrets.command_digest(("a.py", "--token=y"))


def test_variables_that_nobody_knows_are_left_out(monkeypatch):
    given = {"MY_API_TOKEN": "1", "PLAIN": "1", "PWD": "/tmp", "SLURM_JWT": "1", "PYTHONPATH": "https://me:pw@host/x"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    told = secrets.harmless_environment()
    assert told["PWD"] == "/tmp" and told["SLURM_JWT"] == MASK and told["PYTHONPATH"] == f"https://{MASK}@host/x"
    assert not {"MY_API_TOKEN", "PLAIN"} & {*told}


def test_sets_and_bytes_are_masked_as_lists_and_texts_are():
    assert masked({"x": {"https://u:planted1@h"}, "y": b"password=planted2", "token": b"planted3", "z": b"plain"}) == {
        "x": {f"https://{MASK}@h"}, "y": MASK, "token": MASK, "z": b"plain",
    }  # fmt: skip


def test_only_what_stands_before_a_random_string_is_asked_for_its_name():
    hashes = [f"{i:064x}" for i in range(0xABCDEF0, 0xABCDEF0 + 2_000)]
    assert masked(f"sha256 {hashes[0]} " + "x" * 50 + f" {hashes[1]}") == f"sha256 {hashes[0]} " + "x" * 50 + f" {MASK}"


# What `run.json` says of files that could not be written


def test_why_something_is_not_saved_has_no_secrets():
    writes = FailedWrites(logging.getLogger("test"), stops=False)
    with writes.handling("table"):
        raise CheckpointError("run", "cannot be written to https://me:pw@host")
    assert writes.unsaved_files["table"].endswith(f"https://{MASK}@host")
