import inspect
from types import SimpleNamespace
from typing import Any

from pfrl_like.algos import DQN
from pfrl_like.online.iterators import train


def test_every_argument_is_handed_on() -> None:
    values = {name: object() for name in inspect.signature(train).parameters if name != "algo"}
    called: list[Any] = []
    train(algo=SimpleNamespace(fit_online=lambda *given, **options: called.extend((given, options))), **values)
    positional = tuple(values.pop(name) for name in ("env", "buffer", "explorer"))
    assert called == [positional, values]
    assert values.keys() <= inspect.signature(DQN.fit_online).parameters.keys()


def test_defaults_are_those_of_fit_online_but_for_epsilon() -> None:
    ours, theirs = (inspect.signature(function).parameters for function in (train, DQN.fit_online))
    differ = {name for name in ours if name in theirs and ours[name].default != theirs[name].default}
    assert differ == {"buffer", "eval_epsilon"} and ours["eval_epsilon"].default == 0.05
