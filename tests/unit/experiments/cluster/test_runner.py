import functools
import json
import shutil
import sys
import threading

import numpy as np
import pytest
from cluster_parts import cartpole, numbers_of, small_dqn, small_on_policy
from on_policy_parts import make_on_policy
from torch import distributed

from pfrl_like.errors import MissingDependencyError
from pfrl_like.experiments.cluster.runner import _limits, train_agent_distributed
from pfrl_like.experiments.cluster.source import Losses, MessageSize

REINFORCE = functools.partial(make_on_policy, "REINFORCE")


def train(tmp_path, make_agent=small_dqn, make_env=cartpole, **options):
    return train_agent_distributed(make_agent, make_env, steps=10, outdir=tmp_path, **options)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"actors": 0}, ValueError, "actors is 0"),
        ({"order": "random"}, ValueError, "order"),
        ({"rows_per_message": 8}, TypeError, "rows_per_message is 8, expected two numbers"),
        ({"rows_per_message": (9, 8)}, ValueError, r"rows_per_message is \(9, 8\)"),
        ({"answer_timeout": 0}, ValueError, "answer_timeout"),
        ({"cpus_per_actor": -1}, ValueError, "cpus_per_actor"),
        ({"learners": 0}, ValueError, "learners is 0"),
        ({"learners": 3}, ValueError, "actors is 4, expected a multiple of learners, which is 3"),
        ({"learners": 2, "replay": "actor"}, ValueError, 'replay is "actor", expected "learner"'),
        ({"learners": 2, "make_agent": REINFORCE}, TypeError, "agent is REINFORCE, expected an agent with"),
        (
            {"make_agent": lambda index: None},
            TypeError,
            r"make_agent is .* expected a function that is called as make_agent\(\)",
        ),
        (
            {"make_env": lambda index, test: None},
            TypeError,
            r"expected a function that is called as make_env\(actor, index,",
        ),
        ({"make_agent": object}, TypeError, r"make_agent\(\) is .* expected something with observe_chunk"),
    ],
)
def test_mistakes_are_named_before_ray_starts(tmp_path, options, error, text):
    with pytest.raises(error, match=text):
        train(tmp_path, **options)


def test_a_process_that_is_already_in_a_group_cannot_have_learners(tmp_path):
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match="learners is 2, expected 1, because this process is already in a process"):
            train(tmp_path, learners=2)
    finally:
        distributed.destroy_process_group()


def test_the_variable_that_cannot_be_sent_is_named(tmp_path):
    tools = {"lock": threading.Lock()}

    def make_env(actor, index, test):
        tools["lock"].acquire()
        return cartpole(actor, index, test)

    with pytest.raises(TypeError, match=r"tools \(a variable of make_env\)\['lock'\] cannot be sent to an actor"):
        train(tmp_path, make_env=make_env)


def test_the_attribute_of_the_agent_that_cannot_be_sent_is_named(tmp_path):
    def make_agent():
        agent = small_dqn()
        agent.explorer.lock = threading.Lock()
        return agent

    with pytest.raises(TypeError, match=r"agent\.explorer\.lock cannot be sent"):
        train(tmp_path, make_agent=make_agent)


def test_the_extra_is_named_if_ray_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"\[distributed\]"):
        train(tmp_path)


@pytest.mark.parametrize(
    ("make_agent", "options", "texts"),
    [
        (
            small_on_policy,
            {"updates_per_step": 7.0, "requests_in_flight": 3, "minibatches_in_flight": 9, "rows_per_message": (1, 2)},
            ["updates_per_step is 7.0 and has no effect, because the agent has no replay buffer",
             "requests_in_flight is 3 and has no effect, because the agent is trained synchronously",
             'minibatches_in_flight is 9 and has no effect, because replay is "learner"',
             "rows_per_message is (1, 2) and has no effect, because a message is an actor's part of one update"],
        ),
        (
            small_dqn, {"order": "fixed", "seconds_per_message": 0.5, "rows_per_message": (1, 2)},
            ['seconds_per_message is 0.5 and has no effect, because order is "fixed"'],
        ),
        (small_dqn, {"updates_per_step": 7.0, "requests_in_flight": 3, "rows_per_message": (1, 2)}, []),
        (small_on_policy, {"order": "fixed"}, []),
    ],
)  # fmt: skip
def test_arguments_without_effect_are_named(tmp_path, monkeypatch, caplog, make_agent, options, texts):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError):
        train(tmp_path, make_agent=make_agent, **options)
    assert caplog.messages == texts


@pytest.mark.parametrize(
    ("make_agent", "order", "seconds"),
    [(small_dqn, "arrival", 30), (small_dqn, "fixed", 1200), (small_on_policy, "arrival", 600)],
)
def test_a_checkpoint_that_resumes_exactly_waits_for_all_actors(make_agent, order, seconds):
    names = dict.fromkeys(("start_timeout", "replace_timeout", "max_early_deaths"), 1)
    arguments = {**names, "agent": make_agent(), "answer_timeout": 600, "requests_in_flight": 2, "order": order}
    assert _limits(arguments).save == seconds


def test_messages_contain_the_steps_of_a_time_within_their_bounds():
    size = MessageSize(0.05, 4, 64)
    assert [size.ticks(4, seconds) for seconds in (float("inf"), 1.0, 0.01, 1e-6, 0.0)] == [1, 1, 5, 16, 16]
    assert MessageSize(0.05, 8, 64).ticks(4, 1.0) == 2
    assert MessageSize(0.05, 1, 2).ticks(8, 0.0) == 1


def test_the_next_part_of_a_run_reads_the_losses(tmp_path):
    losses = Losses(tmp_path, resume=False)
    losses.write(asked=10**12, lost_steps=3)
    losses.write(asked=5, lost_steps=4)  # no part of the longer numbers is left, although the file is still open
    assert Losses(tmp_path, resume=True).earlier == {"asked": 5, "lost_steps": 4}
    losses.close()
    assert Losses(tmp_path, resume=False).earlier == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"asked": null}', b'{"asked": "many"}', b"\xff"])
def test_damaged_losses_are_not_read(tmp_path, content):
    (tmp_path / "losses.json").write_bytes(content)
    assert Losses(tmp_path, resume=True).earlier == {}


@pytest.mark.slow
@pytest.mark.parametrize("order", ["fixed", "arrival"])
def test_a_run_resumes_from_a_url_with_the_steps_that_were_lost(ray, tmp_path, monkeypatch, order):
    pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = {
        "steps": 160, "actors": 2, "envs_per_actor": 2, "order": order, "seed": 0, "cpus_per_actor": 0,
        "rows_per_message": (4, 4), "start_timeout": 300, "checkpoint_freq": 80, "eval_interval": 40,
    }  # fmt: skip

    def stop(clock):
        if clock.t >= 120:
            raise LookupError

    url, shared = f"file://{tmp_path}/shared", tmp_path / "shared"
    with pytest.raises(LookupError):
        train_agent_distributed(small_dqn, cartpole, outdir=url, hooks=[stop], **options)
    shutil.rmtree(tmp_path / "cache")
    asked = json.loads((shared / "losses.json").read_text())["asked"]
    parts, scores = train_agent_distributed(small_dqn, cartpole, outdir=url, resume=True, **options)
    resumed = json.loads((shared / "run.json").read_text())["resumed"]
    assert (parts.t, resumed["checkpoint"]) == (160, "80_checkpoint") and scores and (shared / "best").is_dir()
    lost = json.loads((shared / "losses.json").read_text())["lost_steps"]
    if order == "arrival":
        assert asked - 80 - 16 <= lost <= asked - 80
        assert f"up to {lost} steps that were made or on their way after the checkpoint are lost" in resumed["reasons"]
    else:
        whole, _ = train_agent_distributed(small_dqn, cartpole, outdir=tmp_path / "whole", **options)
        assert (resumed["resume"], lost) == ("exact", 0) and np.array_equal(numbers_of(whole), numbers_of(parts))
