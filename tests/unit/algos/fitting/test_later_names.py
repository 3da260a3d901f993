"""Constructor arguments of other versions of d3rlpy: they work, or are refused by the name of what works here."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import ALL, built, make, vectors

from pfrl_like import algos
from pfrl_like.algos.fitting.base import ESTIMATORS
from pfrl_like.algos.fitting.hyperparameters import LATER_NAMES
from pfrl_like.dynamics import MOPO
from pfrl_like.preprocessing import StandardScaler

#: Arguments of the constructors of algorithms and dynamics models, in d3rlpy 0.1 to 2.8.1.
_NAMES = """
    action_flexibility action_scaler activation_type actor_beta actor_encoder_factory actor_learning_rate
    actor_optim_factory actor_weight_decay advantage_type alpha alpha_learning_rate alpha_optim_factory
    alpha_threshold attn_dropout augmentation batch_size batch_size_per_update beta bootstrap clip_grad_norm compile
    compile_graph config conservative_weight context_size critic_beta critic_encoder_factory critic_learning_rate
    critic_optim_factory device discrete_action distribution dynamics embed_activation_type embed_dropout enable_ddp
    encoder_factory encoder_params eps expectile final_tokens gamma generated_maxlen generator horizon
    imitator_encoder_factory imitator_learning_rate imitator_optim_factory impl initial_alpha initial_temperature
    lam latent_size learning_rate max_q_backup max_timestep max_weight mmd_kernel mmd_sigma momentum
    n_action_samples n_actor_updates n_augmentations n_critic_updates n_critics n_ensembles n_epochs n_frames
    n_initial_transitions n_mmd_action_samples n_steps n_target_samples n_transitions normal_std num_heads
    num_layers observation_scaler optim_factory policy_type position_encoding_type q_func_factory q_func_type
    real_ratio reguralizing_rate resid_dropout reward_scaler rl_start_epoch rl_start_step rollout_batch_size
    rollout_horizon rollout_interval scaler share_encoder soft_q_backup target_reduction_type target_smoothing_clip
    target_smoothing_sigma target_update_interval target_update_type tau temp_learning_rate temp_optim_factory
    update_actor_interval use_batch_norm use_gpu vae_kl_weight value_encoder_factory value_learning_rate
    value_optim_factory variance_type warmup_epochs warmup_steps warmup_tokens weight_decay weight_temp weight_type
"""
D3RLPY = _NAMES.split()
OBS = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)


def known_names() -> set[str]:
    kinds = [ESTIMATORS[name] for name in (*ALL, "MOPO")]
    return {name for kind in kinds for name in (*kind.defaults(), *kind.spellings)}


@pytest.mark.parametrize("name", D3RLPY)
def test_each_name_of_d3rlpy_works_or_is_refused_by_what_works_here(name: str) -> None:
    assert name in known_names() or name in LATER_NAMES


@pytest.mark.parametrize("name", sorted(LATER_NAMES))
def test_what_is_refused_is_refused_of_all_estimators(name: str) -> None:
    for kind in (algos.CQL, algos.DQN, MOPO):
        with pytest.raises(TypeError, match=f"{kind.__name__} has no hyperparameter '{name}', which other versions"):
            kind(**{name: object()})
    made = algos.CQL()
    with pytest.raises(TypeError, match=f"'{name}'"):
        made.set_params(gamma=0.5, **{name: object()})
    assert made.gamma == 0.99


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("q_func_factory", "qr", "q_func_type is 'mean', 'qr', 'iqn' or 'fqf'"),
        ("actor_encoder_factory", object(), "encoder_params sizes all networks"),
        ("critic_optim_factory", object(), "learning rates and eps"),
        ("n_steps", 3, r"ReplayBuffer\(capacity, num_steps=n\)"),
        ("compile_graph", True, "use compile"),
        ("real_ratio", 0.5, r"dynamics=MOPO\("),
        ("device", "cuda:0", "use_gpu"),
        ("expectile", 0.9, "the estimator IQL"),
        ("rl_start_step", 3, "the estimators BCQ and BEAR have rl_start_epoch, PLAS has warmup_steps"),
        ("context_size", 3, "the estimator DecisionTransformer has context_size"),
        ("normal_std", 3, "the estimator RandomPolicy has distribution and normal_std"),
    ],
)
def test_an_error_names_what_does_the_same(name: str, value: Any, instead: str) -> None:
    with pytest.raises(TypeError, match=instead):
        algos.CQL(**{name: value})


@pytest.mark.parametrize(
    ("kind", "name", "instead"),
    [
        ("PLAS", "rl_start_step", "warmup_steps is the number"),
        ("PLASWithPerturbation", "rl_start_epoch", "warmup_steps is the number"),
        ("DiscreteDecisionTransformer", "gamma", "returns-to-go are sums without a discount"),
        ("RandomPolicy", "gamma", "random actions have no values"),
        ("DiscreteRandomPolicy", "gamma", "random actions have no values"),
    ],
)
def test_an_error_says_what_an_estimator_has_instead(kind: str, name: str, instead: str) -> None:
    with pytest.raises(TypeError, match=f"{kind} has no hyperparameter '{name}', .*: {instead}"):
        ESTIMATORS[kind](**{name: 3})


@pytest.mark.parametrize("name", ["gamma", "n_critics", "real_ratio", "actor_learning_rate"])
def test_a_model_of_an_environment_is_told_from_the_algorithm_of_that_name(name: str) -> None:
    with pytest.raises(TypeError, match=rf"MOPO has no hyperparameter '{name}'.*SAC\(dynamics=MOPO\("):
        MOPO(**{name: 0.5})


def test_values_that_ask_for_what_is_done_anyway_are_taken() -> None:
    same = {"n_steps": 1, "q_func_factory": "mean", "encoder_factory": "default", "compile_graph": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = algos.DQN(target_reduction_type="min", generator=None, device=None, **same)
    assert repr(made) == repr(algos.DQN())
    with pytest.raises(TypeError, match="'n_steps'"):
        algos.DQN(n_steps=2)


def test_observation_scaler_is_scaler() -> None:
    scaler = StandardScaler(mean=[0.0] * 4, std=[2.0] * 4)
    made = make("DQN", observation_scaler=scaler)
    assert made.scaler is made.observation_scaler is scaler and made.get_params(deep=False)["scaler"] is scaler
    made.observation_scaler = "min_max"
    assert made.get_params()["scaler"] == "min_max"


def learnt(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    made = built(name, **options)
    rng = np.random.default_rng(0)
    data = vectors(made.discrete_action).sample_batch(16, 0.99, rng=rng, **made.impl.sampling)
    return made, made.update(0, 0, data)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("CQL", {"conservative_weight": 5.0}),
        ("CQL", {"soft_q_backup": False}),
        ("DiscreteCQL", {"alpha": 5.0}),
        ("BEAR", {"mmd_kernel": "laplacian"}),
        ("BEAR", {"n_mmd_action_samples": 7}),
        ("BEAR", {"vae_kl_weight": 5.0}),
        ("COMBO", {"conservative_weight": 5.0}),
        ("CRR", {"advantage_type": "max"}),
        ("CRR", {"weight_type": "binary"}),
        ("CalQL", {"conservative_weight": 1.0}),
        ("EDAC", {"eta": 0.0}),
        ("IQL", {"expectile": 0.9}),
        ("IQL", {"weight_temp": 10.0}),
        ("ReBRAC", {"actor_beta": 5.0}),
        ("ReBRAC", {"critic_beta": 5.0}),
        ("TD3PlusBC", {"alpha": 5.0}),
    ],
)
def test_names_that_work_change_the_losses(name: str, option: Any) -> None:
    assert learnt(name, **option)[1] != learnt(name)[1]


def test_the_weight_of_the_conservative_term_is_that_of_d3rlpy() -> None:
    """alpha * (w * gap - t) is (alpha * w) * (gap - t / w)."""
    weighted, losses = learnt("CQL", conservative_weight=4.0, initial_alpha=2.0, alpha_threshold=8.0)
    plain, same = learnt("CQL", initial_alpha=8.0, alpha_threshold=2.0)
    assert losses == pytest.approx(same, rel=1e-5) and weighted.impl.alpha == pytest.approx(plain.impl.alpha / 4)
