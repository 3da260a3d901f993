"""Every argument of every runner has an effect: the same run is made twice, with one argument changed, and watched."""

import csv
import inspect
import logging
from pathlib import Path

import pytest
from argument_effects import Effect, Made, changed, held
from experiment_fakes import Counting, Recorder

from pfrl_like import experiments
from pfrl_like.envs import SerialVectorEnv

HERE = "unit/experiments/"
RUNS = HERE + "test_train_agent.py::test_"
BATCH = HERE + "test_train_agent_batch.py::test_"
ASYNC = HERE + "test_train_agent_async.py::test_"
TOLD = HERE + "test_async_agents.py::test_"
RESUME = HERE + "test_resume.py::test_"
OFFLINE = HERE + "test_train_agent_offline.py::test_"
EPOCHS = "unit/algos/test_off_policy_rl_algorithm.py::test_"
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


class Hears(experiments.EvaluationHook):
    """An evaluation hook that writes down the statistics."""

    support_train_agent = support_train_agent_batch = True

    def __init__(self, calls):
        self.calls = calls

    def __call__(self, **told):
        self.calls.append((told["step"], told["eval_stats"]))


def told(kind=Told):
    """One that writes into the run's list of calls."""
    return Made(lambda run: [kind(run["calls"])])


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
    "step_hooks": Effect(told(), "calls", held_by=RUNS + "hooks_get_the_users_own_environment_at_every_step"),
    "eval_during_episode": Effect(
        True, "scores", given={"eval_env": Made(lambda _: Counting(3)), "eval_interval": 2},
        held_by=RUNS + "evaluation_waits_for_the_end_of_the_episode_unless_told_otherwise",
    ),
    "logger": Effect(logging.getLogger("of.a.user"), "log", held_by=RUNS + "logger_gets_the_scores"),
    "progress": Effect(True, "progress", held_by=RUNS + "progress_tells_steps_and_score"),
    "hooks": Effect(told(), "calls", held_by=RUNS + "hooks_see_the_clock_last_of_all_end_training_and_are_closed"),
    "loggers": Effect(told(), "calls", held_by=RUNS + "further_loggers_get_the_same_metrics"),
    "eval_n_steps": Effect(
        9, "evaluated", also={"eval_n_episodes": None}, held_by=BATCH + "evaluation_by_steps_counts_whole_episodes"
    ),
    "eval_n_episodes": Effect(3, "evaluated"),
    "eval_interval": Effect(
        6, "scores", held_by=RUNS + "evaluations_stay_on_multiples_of_the_interval_after_an_offset"
    ),
    "eval_max_episode_len": Effect(2, "scores", held_by=RUNS + LIMIT),
    "eval_env": Effect(Made(lambda _: Counting(4)), "scores"),
    "successful_score": Effect(3.0, "steps"),
    "evaluation_hooks": Effect(told(Hears), "calls"),
    "save_best_so_far_agent": Effect(False, "saved"),
    "use_tensorboard": Effect(True, "files"),
    "eval_success_threshold": Effect(
        3.0, "calls", given={"evaluation_hooks": told(Hears)}, held_by=RUNS + "success_rate_is_told_to_evaluation_hooks"
    ),
    "outdir": Effect(Made(lambda run: run["folder"] / "elsewhere"), "files"),
    "log_interval": Effect(6, "log", held_by=BATCH + "interval_and_window_of_the_log"),
    "return_window_size": Effect(1, "log", given={"log_interval": 6}, held_by=BATCH + "interval_and_window_of_the_log"),
    "resume": Effect(held_by=RESUME + "a_run_that_was_stopped_goes_on_as_if_it_had_not_been"),
    "keep_checkpoints": Effect(
        1, "files", given={"checkpoint_freq": 3}, held_by=RESUME + "so_many_checkpoints_are_kept_and_the_best_agent"
    ),
    "on_checkpoint_failure": Effect(
        held_by=RESUME + "a_checkpoint_that_cannot_be_written_ends_training_or_does_not"
    ),
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
    "success_threshold": Effect(3.0, "calls", given={"evaluation_hooks": told(Hears)}),
    "env_choice": Effect("fresh", "resets"),
}
OF_EVAL_PERFORMANCE = {
    **OF_EVALUATOR,
    "env": Effect(Made(lambda _: Counting(4)), "result"),
    "max_episode_len": Effect(2, "result"),
}
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
    experiments.eval_performance: OF_EVAL_PERFORMANCE,
    experiments.collect_demonstrations: OF_DEMONSTRATIONS,
}
CASES = [(function, name) for function in EFFECTS for name in inspect.signature(function).parameters]


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


# Those whose effect is shown by tests of their own

HELD = {
    experiments.train_agent_async: {
        "eval_n_steps save_best_so_far_agent use_tensorboard": TOLD + "what_is_told_of_a_run_reaches_whom_it_is_for",
        "logger progress hooks loggers": TOLD + "what_is_told_of_a_run_reaches_whom_it_is_for",
        "eval_interval eval_n_episodes evaluation_hooks": ASYNC + "process_0_evaluates_and_saves_the_best",
        "eval_success_threshold": ASYNC + "process_0_evaluates_and_saves_the_best",
        "make_env random_seeds max_episode_len": ASYNC + "seeds_and_episode_limit_reach_each_process",
        "profile checkpoint_freq": ASYNC + "profiles_and_checkpoints_are_written",
        "steps step_offset global_step_hooks": ASYNC + "every_step_up_to_the_last_is_made_once_and_told_to_the_hooks",
        "outdir": ASYNC + "every_step_up_to_the_last_is_made_once_and_told_to_the_hooks",
        "agent use_shared_memory": ASYNC + "shared_attributes_are_the_same_in_all_processes",
        "processes start_method": TOLD + "processes_start_as_they_are_told",
        "grace": HERE + "test_async_hangs.py::test_a_process_that_hangs_is_named_once_the_others_have_ended",
        "step_timeout": HERE + "test_async_hangs.py::test_a_process_that_hangs_while_training_goes_on_ends_it",
        "resume": ASYNC + "a_run_goes_on_from_its_newest_agent",
        "make_agent": HERE + "test_async_agents.py::test_agents_that_each_process_makes_share_those_of_the_first",
        "successful_score": ASYNC + "a_good_score_ends_training_in_all_processes",
        "stop_event": ASYNC + "stop_event_ends_training_and_is_set_at_the_end",
        "exception_event": ASYNC + "exception_event_ends_training_with_an_error_and_the_agent_is_saved",
    },
    experiments.train_agent_actor_learner: {
        "make_env outdir n_actors n_updates": TOLD + "actors_and_learner_are_told_how_to_keep_step",
        "actor_update_interval updates_per_step options": TOLD + "actors_and_learner_are_told_how_to_keep_step",
        "agent steps": ASYNC + "the_agent_that_learnt_is_the_one_that_was_saved_last",
    },
    experiments.train_agent_offline: {
        "agent dataset steps outdir checkpoint_freq eval_env": OFFLINE + "a_run_leaves_what_other_runs_leave",
        "eval_n_episodes eval_interval eval_max_episode_len step_hooks": OFFLINE + "a_run_leaves_what_other_runs_leave",
        "step_offset eval_n_steps successful_score": OFFLINE + "what_is_told_of_a_run_reaches_whom_it_is_for",
        "evaluation_hooks save_best_so_far_agent": OFFLINE + "what_is_told_of_a_run_reaches_whom_it_is_for",
        "use_tensorboard minibatch_size log_interval logger": OFFLINE + "what_is_told_of_a_run_reaches_whom_it_is_for",
        "progress hooks loggers": OFFLINE + "what_is_told_of_a_run_reaches_whom_it_is_for",
        "resume": RESUME + "a_run_that_was_stopped_goes_on_as_if_it_had_not_been",
        "keep_checkpoints": RESUME + "so_many_checkpoints_are_kept_and_the_best_agent",
        "on_checkpoint_failure": RESUME + "a_checkpoint_that_cannot_be_written_ends_training_or_does_not",
        "sampling": OFFLINE + "the_same_seed_gives_the_same_numbers",
    },
    experiments.EpochRunner: {
        "algorithm env outdir": EPOCHS + "an_epoch_has_so_many_iterations_of_so_many_paths_and_gradient_steps",
        "eval_env logger loggers": EPOCHS + "another_environment_and_loggers_of_ones_own_are_used",
        "eval_n_episodes": EPOCHS + "evaluation_has_a_limit_of_its_own",
        "snapshot_interval": EPOCHS + "snapshots_are_made_at_their_interval_and_at_the_end",
        "hooks": EPOCHS + "a_hook_may_end_training",
        "keep_snapshots": EPOCHS + "so_many_snapshots_are_kept",
        "on_snapshot_failure": EPOCHS + "a_snapshot_that_cannot_be_written_ends_training_or_does_not",
    },
    experiments.generate_exp_id: {
        "prefix argv": DIRECTORY + "id_follows_commit_changes_arguments_and_prefix",
    },
    experiments.prepare_output_dir: {
        "args basedir argv": DIRECTORY + "files_of_a_run_under_git",
        "exp_id time_format make_backup": DIRECTORY + "older_run_of_the_same_id_is_kept_aside",
    },
    experiments.LinearInterpolationHook: {
        "total_steps start_value stop_value setter": DIRECTORY + "linear_interpolation_reaches_and_keeps_its_end",
    },
    experiments.replay_crash: {
        "agent directory": "unit/debug/test_crash_replay.py::test_the_update_is_made_again_from_the_streams_before_it",
    },
    experiments.OptunaPrunerHook: {
        "trial": DIRECTORY + "pruned_trial_ends_the_run",
    },
}


def test_every_argument_of_the_others_has_a_test():
    for function, pointers in HELD.items():
        assert {*" ".join(pointers).split()} >= inspect.signature(function).parameters.keys(), function
        assert all(map(held, pointers.values()))


def test_every_public_function_of_a_run_is_looked_at():
    public = {each for each in vars(experiments).values() if inspect.isfunction(each) or inspect.isclass(each)}
    without_arguments = {each for each in public if not inspect.signature(each).parameters}
    assert public - without_arguments == {*EFFECTS, *HELD}
