"""The public attributes of agents and buffers, each a decision: what else an object has begins with an underscore.

Public are the arguments of the constructor and what this table names: what PFRL or the documents name, what an
algorithm's author overrides, and what other classes or layers read.
"""

import inspect

from registry import arguments_of

from pfrl_like import agents, replay_buffers

TABLE = """
agent: act acting_copy acting_modules acts_from_memory batch_act batch_last_action batch_last_obs batch_observe
burning_in compiled_parts composition cumulative_steps diagnose dry_run eval_mode export features get_statistics
gradient_steps greedy_actions greedy_copy guard is_compiled learn learner_group load load_state_dict loss observe
observe_chunk predict probe recurrent_memory restore_state rollback save saved_attributes saved_instead saved_state
select_actions settle state_dict stop_episode t test_recurrent_states trailed train_prev_recurrent_states
train_recurrent_states training unsaved update update_step value_type waiting_for

replay: augment averaged_rows averaged_updates bootstraps check_dataset count_step delays_first_update extra_modules
joins_next_states learns_from_sequences load_snapshot optim_t replay_updater sampling save_snapshot sequence_length
setup_actor_learner_training sync_target_network update_from_replay values_of_pairs

DQN: act_deterministically burnin_action_func loss_record model next_action penalty q_record target target_model
update_from_episodes

SoftActorCritic: action_kind batch_select_greedy_action bootstrap burn_in critic_arguments critic_losses critics
critics_step entropy_record evaluates_critics explorer extra_statistics n_policy_updates optimizer policy_learns
policy_loss policy_step q1_record q2_record q_func1_loss_record q_func2_loss_record q_function reported target_critics
target_q_func1 target_q_func2 target_update_interval target_update_method temperature temperature_holder
temperature_optimizer try_parts update_policy_and_temperature update_q_func update_temperature value_of

PPO: burnin_action_func corrects_lag entropy_record explained_variance explorer is_due memory n_updates normalized_anew
policy_loss_record step_collector steps_until_update update_from_rollout value_loss_record value_record

ReplayBuffer: append append_batch append_chunk from_dataset last_n_transitions load load_increment load_state_dict
memory nbytes prioritized sample sample_batch save save_increment stacks_frames state_dict stop_current_episode
stored_steps tells_future update_priorities"""
NAMES = {title: names.split() for title, names in (part.split(": ") for part in TABLE.strip().split("\n\n"))}


def check(made: object, *titles: str) -> None:
    public = {name for name in dir(made) if not name.startswith("_")} - {*inspect.signature(type(made)).parameters}
    assert sorted(public) == sorted(name for title in titles for name in NAMES[title])


def test_a_public_attribute_is_an_argument_or_one_of_the_table() -> None:
    check(agents.DQN(**arguments_of(agents.DQN)), "agent", "replay", "DQN")
    check(agents.SoftActorCritic(**arguments_of(agents.SoftActorCritic)), "agent", "replay", "SoftActorCritic")
    check(agents.PPO(**arguments_of(agents.PPO)), "agent", "PPO")
    check(replay_buffers.ReplayBuffer(10), "ReplayBuffer")
