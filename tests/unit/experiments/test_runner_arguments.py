"""Every argument of every runner has an effect: the same run is made twice, with one argument changed, and watched."""

import csv
import inspect
import logging
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from agent_parts import make_agent
from argument_effects import Effect, Made, changed, held
from async_parts import make_a3c
from epoch_parts import epoch_runner
from experiment_fakes import Counting, Recorder
from resume_parts import noisy_env, small_dqn
from run_parts import Hook, contents

from pfrl_like import experiments
from pfrl_like.dataset import MDPDataset
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments.runner_arguments import check_arguments

HERE = "unit/experiments/"
RUNS = HERE + "test_train_agent.py::test_"
RESUME = HERE + "test_resume.py::test_"
SAVED = RESUME + "nothing_stays_of_what_could_not_be_saved"
HOOKS = HERE + "test_hooks.py::test_"
VIDEOS = HERE + "test_record_video.py::test_"
DIRECTORY = HERE + "test_output_dir.py::test_"


class Told:
    """A hook, an evaluator and a logger of metrics that writes down what it is told."""

    max_score = 0.0

    def __init__(self, calls):
        self.calls = calls

    def __call__(self, *args):
        self.calls.append(args[-1] if isinstance(args[-1], int) else args[0].t)

    def log(self, step, metrics):
        self.calls.append((step, dict(metrics)))

    def evaluate_if_necessary(self, t, episodes):
        return float(t) if t % 3 == 0 else None

    def close(self):
        pass


def told():
    """One that writes into the run's list of calls."""
    return Made(lambda run: [Told(run["calls"])])


#: An evaluation hook that does.
HEARS = Made(lambda run: [Hook(lambda step, eval_stats, **_: run["calls"].append((step, eval_stats)))])


def vector(*lengths):
    return SerialVectorEnv([Counting(length) for length in lengths])


# What runs are made of, and what is seen of them

SERIAL = {"agent": Made(lambda _: Recorder()), "env": Made(lambda _: Counting(3)), "steps": 12}
SEVERAL = {**SERIAL, "env": Made(lambda _: vector(2, 3))}
EVALUATED = {"eval_n_steps": None, "eval_n_episodes": 2, "eval_interval": 3}
BASES = {
    experiments.train_agent: SERIAL,
    experiments.train_agent_batch: SEVERAL,
    experiments.train_agent_with_evaluation: {**SERIAL, **EVALUATED},
    experiments.train_agent_batch_with_evaluation: {**SEVERAL, **EVALUATED, "eval_env": Made(lambda _: Counting(3))},
    experiments.Evaluator: {**SERIAL, "n_steps": None, "n_episodes": 2, "eval_interval": 3},
    experiments.eval_performance: {**SERIAL, "n_steps": None, "n_episodes": 2},
    experiments.collect_demonstrations: {**SERIAL, "steps": None, "episodes": 2},
}


def accepted(function, arguments):
    names = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in names}


def live(function, folder, capsys, caplog, **changes):
    """What is seen of a run."""
    calls = []
    outdir = folder / "run"
    arguments = changed(
        {"calls": calls, "folder": folder}, **{**BASES[function], "outdir": outdir, "progress": False, **changes}
    )
    caplog.clear()
    with caplog.at_level(logging.INFO):
        result = function(**accepted(function, arguments))
        if function is experiments.Evaluator:
            result = [result.evaluate_if_necessary(t, episodes=t) for t in range(1, 13)]
    agent, env = arguments["agent"], arguments["env"]
    scores = outdir / "scores.txt"
    rows = list(csv.reader(scores.open(), delimiter="\t")) if scores.exists() else []
    return {
        "steps": agent.observed,
        "evaluated": agent.evaluated,
        "t": agent.t,
        "saved": [Path(name).name for name in agent.saved],
        "files": sorted(path.name.split(".")[0] for path in outdir.glob("*")),
        "scores": [row[:2] + row[3:] for row in rows],
        "result": result[1] if isinstance(result, tuple) else str(result),
        "resets": getattr(env, "n_resets", 0),
        "log": [(record.name, record.getMessage().replace(str(folder), "")) for record in caplog.records],
        "calls": calls,
        "progress": "12 steps" in capsys.readouterr().err,
    }


@pytest.mark.slow
def test_a_run_is_the_same_twice(tmp_path, capsys, caplog):
    for i, function in enumerate(BASES):
        one, other = (live(function, tmp_path / f"{i}-{which}", capsys, caplog) for which in "ab")
        one.pop("result"), other.pop("result")
        assert one == other


# What each argument changes

LIMIT = "limit_of_evaluation_episodes_defaults_to_that_of_training"
RUNNING = {
    "agent": Effect(held_by=RUNS + "returns_agent_and_history"),
    "env": Effect(Made(lambda _: Counting(5)), "steps"),
    "steps": Effect(6, "steps", held_by=RUNS + "no_episode_begins_after_the_last_step"),
    "checkpoint_freq": Effect(5, "saved", held_by=RUNS + "checkpoints_and_finish_are_saved"),
    "max_episode_len": Effect(1, "steps", held_by=RUNS + "episode_limit_resets_without_termination"),
    "train_max_episode_len": Effect(1, "steps evaluated", held_by=RUNS + LIMIT),
    "step_offset": Effect(6, "t steps", held_by=RUNS + "step_offset_sets_the_agents_clock_and_shortens_training"),
    "evaluator": Effect(Made(lambda run: Told(run["calls"])), "result"),
    "step_hooks": Effect(told(), "calls", held_by=RUNS + "a_mock_agent_trains_in_a_mock_environment"),
    "eval_during_episode": Effect(
        True, "scores", given={"eval_env": Made(lambda _: Counting(3)), "eval_interval": 2},
        held_by=RUNS + "evaluation_waits_for_the_end_of_the_episode_unless_told_otherwise",
    ),
    "logger": Effect(logging.getLogger("of.a.user"), "log", held_by=RUNS + "logger_gets_the_scores"),
    "progress": Effect(True, "progress", held_by=RUNS + "progress_tells_steps_and_score"),
    "hooks": Effect(told(), "calls", held_by=RUNS + "hooks_see_the_clock_last_of_all_end_training_and_are_closed"),
    "loggers": Effect(told(), "calls", held_by=RUNS + "further_loggers_get_the_same_metrics"),
    "eval_n_steps": Effect(
        9, "evaluated", also={"eval_n_episodes": None}, held_by=RUNS + "evaluation_by_steps_counts_whole_episodes"
    ),
    "eval_n_episodes": Effect(3, "evaluated"),
    "eval_interval": Effect(
        6, "scores", held_by=RUNS + "evaluations_stay_on_multiples_of_the_interval_after_offsets"
    ),
    "eval_max_episode_len": Effect(2, "scores", held_by=RUNS + LIMIT),
    "eval_env": Effect(Made(lambda _: Counting(4)), "scores"),
    "successful_score": Effect(3.0, "steps"),
    "evaluation_hooks": Effect(HEARS, "calls"),
    "save_best_so_far_agent": Effect(False, "saved"),
    "use_tensorboard": Effect(True, "files"),
    "eval_success_threshold": Effect(
        3.0, "calls", given={"evaluation_hooks": HEARS}, held_by=RUNS + "success_rate_is_told_to_evaluation_hooks"
    ),
    "outdir": Effect(Made(lambda run: run["folder"] / "elsewhere"), "files"),
    "log_interval": Effect(6, "log", held_by=RUNS + "interval_and_window_of_the_log"),
    "return_window_size": Effect(1, "log", given={"log_interval": 6}, held_by=RUNS + "interval_and_window_of_the_log"),
    "resume": Effect(held_by=RESUME + "a_run_that_was_stopped_goes_on_as_if_it_had_not_been"),
    "keep_checkpoints": Effect(1, "files", given={"checkpoint_freq": 3}, held_by=SAVED),
    "on_checkpoint_failure": Effect(held_by=SAVED),
}  # fmt: skip
OF_TRAIN = {
    **RUNNING,
    "successful_score": Effect(3.0, "steps", given={"evaluator": Made(lambda run: Told(run["calls"]))}),
    "eval_during_episode": Effect(
        True, "result",
        given={"evaluator": Made(lambda run: Told(run["calls"])), "env": Made(lambda _: Counting(5))},
    ),
}  # fmt: skip
OF_BATCH = {**RUNNING, "env": Effect(Made(lambda _: vector(3, 4)), "steps")}
OF_EVALUATOR = {
    **RUNNING,
    "env": Effect(Made(lambda _: Counting(4)), "scores"),
    "n_steps": Effect(9, "evaluated", also={"n_episodes": None}),
    "n_episodes": Effect(3, "evaluated"),
    "max_episode_len": Effect(2, "scores"),
    "step_offset": Effect(7, "scores"),
    "success_threshold": Effect(3.0, "calls", given={"evaluation_hooks": HEARS}),
    "env_choice": Effect("fresh", "resets"),
}
OF_EVAL = {**OF_EVALUATOR, "env": Effect(Made(lambda _: Counting(4)), "result"), "max_episode_len": Effect(2, "result")}
OF_DEMONSTRATIONS = {
    **RUNNING,
    "env": Effect(Made(lambda _: Counting(4)), "evaluated"),
    "steps": Effect(4, "evaluated", also={"episodes": None}, held_by=DIRECTORY + "demonstrations_can_be_loaded_again"),
    "episodes": Effect(3, "evaluated", held_by=DIRECTORY + "demonstrations_can_be_loaded_again"),
    "max_episode_len": Effect(2, "evaluated"),
}
EFFECTS = {
    experiments.train_agent: OF_TRAIN,
    experiments.train_agent_batch: {**OF_BATCH, "successful_score": OF_TRAIN["successful_score"]},
    experiments.train_agent_with_evaluation: RUNNING,
    experiments.train_agent_batch_with_evaluation: OF_BATCH,
    experiments.Evaluator: OF_EVALUATOR,
    experiments.eval_performance: OF_EVAL,
    experiments.collect_demonstrations: OF_DEMONSTRATIONS,
}
CASES = [(function, name) for function in EFFECTS for name in inspect.signature(function).parameters]


@pytest.mark.representatives(15)
@pytest.mark.parametrize(("function", "name"), CASES, ids=lambda part: getattr(part, "__name__", part))
def test_argument_has_its_effect(function, name, tmp_path, capsys, caplog):
    effect = EFFECTS[function][name]
    if effect.held_by:
        assert held(effect.held_by)
    if not effect.shows:
        return
    if name == "use_tensorboard":
        pytest.importorskip("tensorboard")
    before = live(function, tmp_path / "before", capsys, caplog, **effect.given)
    after = live(function, tmp_path / "after", capsys, caplog, **{**effect.given, name: effect.value, **effect.also})
    for each in effect.shows.split():
        assert before[each] != after[each], f"{name} changes nothing of the {each}"


# Those whose effect is shown by tests of their own, in these files

ASYNC = HERE + "test_train_agent_async.py::test_"
HANGS = HERE + "test_async_hangs.py::test_"
OFFLINE = HERE + "test_train_agent_offline.py::test_"
CLUSTER = "unit/experiments/cluster/test_"
EPOCHS = "unit/algos/test_off_policy_rl_algorithm.py::test_"
#: Tests of `train_agent_distributed`, and the options whose effects each of them checks.
DISTRIBUTED = {
    CLUSTER + "runner_options.py::test_hooks_loggers_and_evaluations_follow_their_options": (
        "updates_per_step max_episode_len eval_interval eval_n_steps eval_max_episode_len eval_success_threshold "
        "evaluation_hooks save_best_so_far_agent use_tensorboard log_interval return_window_size step_hooks loggers "
        "logger progress"
    ),
    CLUSTER + "runner_options.py::test_an_evaluation_has_a_number_of_episodes": "eval_n_episodes",
    CLUSTER + "runner_options.py::test_a_message_has_the_steps_of_some_seconds": "seconds_per_message",
    CLUSTER + "runner_options.py::test_the_seed_decides_the_steps_of_all_actors": "seed",
    CLUSTER + "runner_options.py::test_minibatches_in_flight_are_sampled_before_the_newest_priorities_are_known": (
        "minibatches_in_flight"
    ),
    CLUSTER + "runner_options.py::test_older_checkpoints_are_deleted": "checkpoint_freq keep_checkpoints",
    CLUSTER + "runner_options.py::test_a_checkpoint_that_cannot_be_saved_ends_training_or_is_logged": (
        "on_checkpoint_failure"
    ),
    CLUSTER + "source.py::test_a_run_ends_at_a_successful_score": "successful_score",
    CLUSTER + "source.py::test_a_busy_learner_reads_all_actors_in_turn": "actors rows_per_message",
    CLUSTER + "source.py::test_synchronous_training_equals_the_local_runner": "envs_per_actor",
    CLUSTER + "source.py::test_an_actor_that_dies_again_and_again_ends_the_run": "max_early_deaths",
    CLUSTER + "source.py::test_an_actor_that_hangs_is_replaced": "answer_timeout",
    CLUSTER + "source.py::test_actors_that_cannot_be_scheduled_are_named": "cpus_per_actor start_timeout",
    CLUSTER + "source.py::test_a_run_in_fixed_order_that_stops_and_resumes_equals_a_run_that_does_not_stop": (
        "hooks resume"
    ),
    CLUSTER + "source.py::test_an_agent_that_corrects_for_old_policies_learns_while_the_actors_step": "order",
    CLUSTER + "source.py::test_two_requests_in_flight_give_older_weights": "requests_in_flight",
    CLUSTER + "remote_buffer.py::test_a_replay_actor_in_fixed_order_gives_the_numbers_of_a_buffer_in_the_learner": (
        "replay"
    ),
    CLUSTER + "actors.py::test_a_lost_node_is_told_from_a_lost_process_and_has_its_own_limit": (
        "address replace_timeout"
    ),
    CLUSTER + "evaluation.py::test_an_evaluation_that_hangs_is_repeated_in_another_process": "eval_timeout",
    CLUSTER + "learners.py::test_two_learners_of_synchronous_agents_learn_what_one_learns_from_all_environments": (
        "learners"
    ),
}
#: Tests that give the options of the others, each by its name.
HELD = {
    experiments.train_agent_async: [
        ASYNC + "every_step_up_to_the_last_is_made_once_and_told_to_the_hooks",
        ASYNC + "every_evaluation_has_its_row_whatever_process_makes_it",
        ASYNC + "what_is_told_of_a_run_reaches_whom_it_is_for",
        ASYNC + "seeds_and_episode_limit_reach_each_process",
        ASYNC + "profiles_and_checkpoints_are_written",
        ASYNC + "without_shared_memory_the_agent_of_process_0_is_saved",
        ASYNC + "processes_learn_shared_parameters_with_shared_statistics",
        ASYNC + "a_run_goes_on_from_its_newest_agent",
        ASYNC + "a_good_score_ends_training_in_all_processes",
        ASYNC + "stop_event_ends_training_and_is_set_at_the_end",
        ASYNC + "exception_event_ends_training_with_an_error_and_the_agent_is_saved",
        HANGS + "a_process_that_hangs_while_training_goes_on_ends_it",
    ],
    experiments.train_agent_actor_learner: [
        ASYNC + "actors_and_learner_are_told_how_to_keep_step",
        ASYNC + "the_agent_that_learnt_is_the_one_that_was_saved_last",
    ],
    experiments.train_agent_offline: [
        OFFLINE + "a_run_leaves_what_other_runs_leave",
        OFFLINE + "what_is_told_of_a_run_reaches_whom_it_is_for",
        RESUME + "a_run_that_was_stopped_goes_on_as_if_it_had_not_been",
        SAVED,
    ],
    experiments.train_agent_distributed: [*DISTRIBUTED],
    experiments.EpochRunner: [
        EPOCHS + "another_environment_and_loggers_of_ones_own_are_used",
        EPOCHS + "evaluation_has_a_limit_of_its_own",
        EPOCHS + "snapshots_are_made_at_their_interval_and_at_the_end",
        EPOCHS + "a_snapshot_that_cannot_be_written_ends_training_or_does_not",
        EPOCHS + "a_hook_may_end_training",
    ],
    experiments.generate_exp_id: [DIRECTORY + "id_follows_commit_changes_arguments_and_prefix"],
    experiments.prepare_output_dir: [
        DIRECTORY + "files_of_a_run_under_git", DIRECTORY + "older_run_of_the_same_id_is_kept_aside"
    ],
    experiments.run_directory_name: [DIRECTORY + "the_name_of_a_run_says_when_who_and_where"],
    experiments.new_run_directory: [DIRECTORY + "every_run_gets_a_directory_of_its_own"],
    experiments.LinearInterpolationHook: [DIRECTORY + "linear_interpolation_reaches_and_keeps_its_end"],
    experiments.replay_crash: [
        "unit/debug/test_crash_replay.py::test_the_update_is_made_again_from_streams_before_it"
    ],
    experiments.OptunaPrunerHook: [DIRECTORY + "pruned_trial_ends_the_run"],
    experiments.ScheduleHook: [HOOKS + "a_curve_bends_a_schedule", HOOKS + "a_schedule_may_hold_its_first_value"],
    experiments.StopAfter: [HOOKS + "a_run_stops_after_a_time_that_counts_on_when_it_resumes"],
    experiments.SaveEvery: [HOOKS + "a_checkpoint_is_saved_when_its_time_has_come"],
    experiments.StopWithoutImprovement: [HOOKS + "a_run_stops_when_it_no_longer_improves"],
    experiments.record_video: [VIDEOS + "a_video_shows_the_episodes_that_are_returned"],
    experiments.RecordVideoEvery: [VIDEOS + "videos_of_training_change_nothing_and_begin_alike"],
}  # fmt: skip


@pytest.mark.parametrize("function", HELD)
def test_tests_of_the_others_give_every_option(function):
    options = [each for each in inspect.signature(function).parameters.values() if each.default is not each.empty]
    assert not [each.name for each in options if not any(held(test, each.name) for test in HELD[function])]
    assert all(held(test) and "::test_" in test for test in HELD[function])


def test_each_option_of_distributed_training_is_in_the_test_that_checks_its_effect():
    parameters = inspect.signature(experiments.train_agent_distributed).parameters.values()
    named = [(test, name) for test, names in DISTRIBUTED.items() for name in names.split()]
    assert {name for _, name in named} == {each.name for each in parameters if each.default is not each.empty}
    assert all(held(test, name) for test, name in named)


def test_every_public_function_of_a_run_is_looked_at():
    public = {each for each in vars(experiments).values() if inspect.isfunction(each) or inspect.isclass(each)}
    without_arguments = {each for each in public if not inspect.signature(each).parameters}
    assert public - without_arguments == {*EFFECTS, *HELD}


# What is no argument is refused by its name before anything is moved, made or trained


def function(*_):
    """Is no list."""


def in_epochs(outdir, **options):
    epoch_runner(outdir, **options).train(1)


def data(_):
    rows = np.zeros((40, 4), np.float32)
    return MDPDataset.from_arrays(rows, np.zeros(40, np.int64), rows[:, 0], np.arange(40) % 8 == 7)


STARTED = {**EVALUATED, "make_env": lambda index, test: Counting(), "steps": 12, "start_method": "fork"}
RUNNERS = {
    **BASES,
    experiments.train_agent_offline: {
        **EVALUATED, "agent": Made(lambda _: small_dqn(noisy_env(0))), "dataset": Made(data), "steps": 12,
        "eval_env": Made(lambda _: Counting()),
    },
    experiments.train_agent_async: {**STARTED, "agent": Made(lambda _: make_a3c()), "processes": 1},
    experiments.train_agent_actor_learner: {**STARTED, "agent": Made(lambda _: make_agent()), "n_actors": 1},
    in_epochs: {},
}  # fmt: skip
PUT = "expected a list of functions: put it in a list"
REFUSED = {
    "outdir": [
        (None, TypeError, r"outdir is None \(NoneType\), expected the path of a directory"),
        ("", ValueError, "outdir is '', expected the path of a directory"),
    ],
    "steps": [
        (-1, ValueError, "steps is -1, expected an integer from 0 on"),
        (1.5, TypeError, r"steps is 1.5 \(float\), expected an integer"),
    ],
    "step_offset": [(-1, ValueError, "step_offset is -1"), (500, ValueError, "step_offset is 500 and steps is 12")],
    "agent": [(3, TypeError, r"^agent is 3 \(int\), expected"), ("DQN", TypeError, r"agent is .*\(str\), expected")],
    "dataset": [([], TypeError, r"dataset is \[\] \(list\), .* MDPDataset.from_episodes")],
    "make_env": [(3, TypeError, "^make_env is ")],
    "processes": [(0, ValueError, "processes")],
    "stop_event": [(True, TypeError, "^stop_event is ")],
    "exception_event": [(1, TypeError, "^exception_event is ")],
    "random_seeds": [
        ([], ValueError, "random_seeds"), ([-1], ValueError, r"random_seeds\[0\] is -1"),
        ([2**32], ValueError, "random_seeds contains 4294967296"), (3, TypeError, "^random_seeds is "),
    ],
    "grace": [
        (0.0, ValueError, "grace is 0.0"), (np.nan, ValueError, "grace is nan"), ("long", TypeError, "^grace is "),
    ],
    "log_interval": [(0, ValueError, "log_interval is 0")],
    "return_window_size": [(0, ValueError, "return_window_size is 0")],
    "env": [(3, TypeError, r"^env is 3 \(int\), expected an environment id, or an environment: an object with")],
    "eval_env": [
        (3, TypeError, r"eval_env is 3 \(int\), expected an environment"), (Counting, TypeError, "eval_env is <class"),
    ],
    "evaluator": [(3, TypeError, r"evaluator is 3 \(int\), expected an object with the method evaluate_if_necessary")],
    "logger": [("mine", TypeError, r"logger is 'mine' \(str\), expected a logging.Logger, or None")],
    "progress": [("yes", TypeError, "progress is 'yes'")],
    "successful_score": [("9", TypeError, r"successful_score is '9' \(str\), expected a number, or None")],
    "eval_success_threshold": [("9", TypeError, "eval_success_threshold is '9'")],
    "eval_n_episodes": [
        (1.5, TypeError, r"^eval_n_episodes is 1.5 \(float\)"), (0, ValueError, "n_episodes is 0"),
        (None, ValueError, "eval_n_steps is None and eval_n_episodes is None, expected exactly one of them"),
    ],
    "n_episodes": [(1.5, TypeError, r"^n_episodes is 1.5 \(float\)")],
    "n_steps": [
        (3, ValueError, "^n_steps is 3 and n_episodes is 2, expected exactly one"), (0, ValueError, "n_steps is 0"),
    ],
    "eval_n_steps": [(3, ValueError, "^eval_n_steps is 3 and eval_n_episodes is 2, expected exactly one of them")],
    "eval_interval": [(0, ValueError, "eval_interval is 0")],
    "eval_max_episode_len": [(2.5, TypeError, "eval_max_episode_len is 2.5")],
    "hooks": [
        (3, TypeError, r"^hooks is 3 \(int\), expected a list of functions$"),
        (function, TypeError, rf"^hooks is <function .*> \(function\), {PUT}$"),
    ],
    "loggers": [
        (3, TypeError, r"^loggers is 3 \(int\), expected a list of loggers of metrics"),
        ([3], TypeError, r"^loggers\[0\] is 3 \(int\), expected an object with the method log"),
    ],
    "evaluation_hooks": [(function, TypeError, rf"^evaluation_hooks is .*{PUT}")],
    "step_hooks": [
        (function, TypeError, rf"^step_hooks is .*{PUT}"),
        ([function, 3], TypeError, r"^step_hooks\[1\] is 3 \(int\), expected a function"),
        ((step for step in [function]), TypeError, "^step_hooks is <generator"),
    ],
    "global_step_hooks": [
        (function, TypeError, rf"^global_step_hooks is .*{PUT}"), ([print, 3], TypeError, r"^global_step_hooks.1. is"),
    ],
    "use_tensorboard": [("no", TypeError, "use_tensorboard is 'no'")],
    "save_best_so_far_agent": [("no", TypeError, "save_best_so_far_agent is 'no'")],
    "eval_during_episode": [("no", TypeError, "eval_during_episode is 'no'")],
    "use_shared_memory": [("no", TypeError, "use_shared_memory is 'no'")],
    "profile": [("no", TypeError, "profile is 'no'")],
    "resume": [("yes", TypeError, r"resume is 'yes' \(str\), expected True or False")],
    "keep_checkpoints": [("2", TypeError, "^keep_checkpoints is '2'"), (0, ValueError, "keep_checkpoints")],
    "keep_snapshots": [("2", TypeError, "^keep_snapshots is '2'")],
    "on_checkpoint_failure": [("ignore", ValueError, "expected one of 'raise', 'warn'")],
    "on_snapshot_failure": [("ignore", ValueError, "on_snapshot_failure is 'ignore'")],
    "checkpoint_freq": [(0, ValueError, "checkpoint_freq is 0, expected an integer from 1 on, or None")],
    "max_episode_len": [("9", TypeError, "max_episode_len is '9'"), (0, ValueError, "max_episode_len is 0")],
    "train_max_episode_len": [(0, ValueError, "max_episode_len is 0")],
    "start_method": [("thread", ValueError, "start_method is 'thread', expected one of")],
}  # fmt: skip


def names_of(runner):
    """The arguments of a runner, those that it hands on included."""
    names = {*inspect.signature(runner).parameters}
    if runner is experiments.train_agent_actor_learner:
        names |= {*inspect.signature(experiments.train_agent_async).parameters}
        names -= {"processes", "stop_event", "exception_event"}
    if runner is in_epochs:
        names |= {*inspect.signature(experiments.EpochRunner).parameters} - {"env", "eval_env", "eval_n_episodes"}
    if runner in (experiments.Evaluator, experiments.collect_demonstrations):
        names &= {"agent", "env", "outdir", "n_steps", "n_episodes"}
    return names & {"n_steps", "n_episodes"} if runner is experiments.eval_performance else names


REFUSALS = [
    pytest.param(runner, name, *case, id=f"{runner.__name__}-{name}-{i}")
    for runner in RUNNERS
    for name in sorted(names_of(runner) & REFUSED.keys())
    for i, case in enumerate(REFUSED[name])
]


@pytest.mark.representatives(71)
@pytest.mark.parametrize(("runner", "name", "value", "error", "message"), REFUSALS)
def test_nothing_has_happened_to_the_run_before(runner, name, value, error, message, tmp_path):
    (tmp_path / "5_finish").mkdir()
    for path in ("run.json", "scores.txt", "metrics.csv", "5_finish/manifest.json"):
        (tmp_path / path).write_text("earlier")
    arguments = changed({"outdir": tmp_path}, **RUNNERS[runner]) | {name: value}
    before = contents(tmp_path)
    with pytest.raises(error, match=message):
        runner(**(accepted(runner, arguments) if runner in BASES else arguments))
    assert contents(tmp_path) == before


def test_make_env_may_be_a_specification():
    spec = gymnasium.spec("CartPole-v1")
    assert check_arguments({"make_env": spec}) == {"make_env": spec}
