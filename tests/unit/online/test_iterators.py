import inspect
from typing import Any

from pfrl_like.algos import DQN
from pfrl_like.online.iterators import train


class Recorder:
    """Keeps what its training was called with."""

    def fit_online(self, *arguments: Any, **options: Any) -> None:
        self.arguments, self.options = arguments, options


def test_every_argument_is_handed_on() -> None:
    algo, names = Recorder(), [*inspect.signature(train).parameters]
    values = {name: object() for name in names if name != "algo"}
    train(algo=algo, **values)
    assert algo.arguments == (values["env"], values["buffer"], values["explorer"])
    assert algo.options == {name: value for name, value in values.items() if name not in ("env", "buffer", "explorer")}
    assert values.keys() <= inspect.signature(DQN.fit_online).parameters.keys()


def test_defaults_are_those_of_fit_online_but_for_epsilon() -> None:
    ours, theirs = (inspect.signature(function).parameters for function in (train, DQN.fit_online))
    differ = {name for name in ours if name in theirs and ours[name].default != theirs[name].default}
    assert differ == {"buffer", "eval_epsilon"} and ours["eval_epsilon"].default == 0.05
