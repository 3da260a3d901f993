"""Random streams are found wherever they are, told by name, and go on where they were."""

import functools
import itertools
import json
import random
from typing import Any

import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest
import torch

from pfrl_like.envs import SerialVectorEnv
from pfrl_like.random_streams import streams as own
from pfrl_like.wrappers import RandomizeAction

MODULE_RNG = np.random.default_rng(0)
LEGACY_RNG = np.random.RandomState(0)


def cart_pole() -> Any:
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    return env


class Holder:
    def __init__(self, rng: Any) -> None:
        self.rng = rng


class Tossing(gymnasium.Wrapper):  # type: ignore[type-arg]
    """An environment with a generator in a list and one in an object."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.coins = [np.random.RandomState(1), random.Random(2)]
        self.part = Holder(torch.Generator())


def drawn(found: Any) -> list[float]:
    numbers = []
    for stream in found.values():
        if isinstance(stream, torch.Generator):
            numbers.append(torch.rand((), generator=stream).item())
        elif isinstance(stream, np.random.BitGenerator):
            numbers.append(float(stream.random_raw()))
        else:
            numbers.append(stream.gauss(0, 1) if isinstance(stream, random.Random) else stream.normal())
    return [*numbers, random.random(), np.random.random(), torch.rand(()).item()]


@pytest.mark.parametrize(
    ("owner", "ends"),
    [
        (cart_pole(), {"action_space._np_random", "env._np_random"}),
        (Tossing(cart_pole()), {"coins[0]", "coins[1]", "part.rng"}),
        (SerialVectorEnv([cart_pole(), cart_pole()]), {"envs[1].env.env.env._np_random"}),
        (gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync"), {"envs[1].env.env.env._np_random"}),
        (cart_pole().action_space.sample, {"__self__._np_random"}),
        (lambda: MODULE_RNG.integers(2), {"MODULE_RNG"}),
        (functools.partial(random.Random(3).choice, [0, 1]), {"func.__self__"}),
        ((lambda space: lambda: space.sample())(cart_pole().action_space), {"space._np_random"}),
        (lambda rng=LEGACY_RNG: rng.rand(), {"__defaults__[0]"}),
        (Holder(np.random.PCG64(3)), {"Holder.rng"}),
        (gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(3)]), {"spaces[0]._np_random"}),
    ],
)
def test_streams_go_on_where_they_were_also_by_way_of_json(owner: Any, ends: set[str]) -> None:
    streams = own.Streams.of(owner)
    assert streams.unknown == []
    assert all(any(name.endswith(end) for name in streams._generators) for end in ends)
    drawn(streams._generators)  # so that second normal numbers are kept
    text = json.dumps(streams.to_plain())
    expected = drawn(streams._generators)
    own.Streams.of(owner).restore(json.loads(text))
    assert drawn(streams._generators) == expected


@pytest.mark.parametrize("function", [random.random, np.random.randint, torch.rand, lambda: np.random.rand(), max])
def test_the_global_streams_have_one_name(function: Any) -> None:
    streams = own.Streams.of(function)
    assert list(streams.to_plain()) == ["global"] and streams.unknown == []


@pytest.mark.parametrize(
    ("owner", "end"),
    [
        (itertools.count().__next__, "__next__.__self__"),
        ((lambda numbers: lambda: next(numbers))(iter([1, 2])), "numbers"),
        (random.SystemRandom().random, "random.__self__"),
        (Holder(random.SystemRandom()), "Holder.rng"),
    ],
)
def test_what_cannot_be_saved_is_named(owner: Any, end: str) -> None:
    [name] = own.Streams.of(owner).unknown
    assert name.endswith(end)


def test_owners_of_one_class_are_told_apart() -> None:
    streams = own.Streams.of(Holder(random.Random(0)), None, Holder(random.Random(1)), with_global=False)
    assert list(streams.to_plain()) == ["Holder.rng", "Holder-2.rng"]


def test_what_is_kept_by_objects_has_the_same_name_in_every_process() -> None:
    def names(number: float) -> set[str]:
        parts = {"a": random.Random(0), torch.full((2,), number): random.Random(1), object(): random.Random(2)}
        return own.Streams.of({**parts, 1: random.Random(3)}, with_global=False).names

    assert names(1.0) == names(2.0) == {"dict['a']", "dict[#1]", "dict[#2]", "dict[1]"}


def test_what_does_not_fit_is_named_and_what_fits_is_restored() -> None:
    one = np.random.default_rng(0)
    plain = own.Streams.of([one, random.Random(0)], with_global=False).to_plain()
    expected = one.random()
    other = np.random.default_rng(1)
    for parts, reason in (
        ([other], r"list\[1\] does not exist"),
        ([other, random.Random(0), random.Random(0)], r"the state of list\[2\] is missing"),
        ([other, np.random.default_rng(0)], r"list\[1\]: ValueError"),
    ):
        with pytest.raises(ValueError, match=reason):
            own.Streams.of(parts, with_global=False).restore(plain)
        assert other.random() == expected
    with pytest.raises(ValueError, match="random streams are list"):
        own.Streams.of(parts).restore([])  # type: ignore[arg-type]


def test_a_generator_that_a_wrapper_gets_later_is_found() -> None:
    env = RandomizeAction(cart_pole(), 0.5)
    env.reset(seed=3)
    assert any(name.endswith("RandomizeAction._rng") for name in own.Streams.of(env).to_plain())


def test_streams_of_missing_gpus_are_told_of_and_all_others_restored() -> None:
    now = own.GlobalStreams.now()
    expected = torch.rand(3).tolist()
    gone = now._replace(cuda=[now.torch] * (torch.cuda.device_count() + 1))
    with pytest.raises(ValueError, match="GPUs exist"):
        gone.restore()
    assert torch.rand(3).tolist() == expected


@pytest.mark.parametrize("data", [[{"obs": [1.0]} for _ in range(40)], [Holder(i) for i in range(1000)]])
def test_of_data_the_first_rows_say_that_there_is_nothing(data: list[Any]) -> None:
    last = [*data, Holder(random.Random(0))]
    streams = own.Streams.of(Holder(last), torch.nn.Linear(1, 1), np.zeros(3), with_global=False)
    assert streams.to_plain() == {} and streams.unknown == []


def test_long_lists_of_what_holds_streams_are_searched_to_their_end() -> None:
    assert len(own.Streams.of([Holder(random.Random(i)) for i in range(1000)], with_global=False).names) == 1000


def test_a_set_may_grow_while_it_is_looked_through() -> None:
    class Growing(Tossing):
        @property
        def action_space(self) -> Any:
            others.add(cart_pole())
            return None

    others: set[Any] = {Growing(cart_pole())}
    assert any(name.endswith("part.rng") for name in own.Streams.of(others).names) and len(others) > 1


@pytest.mark.slow
def test_what_lies_too_deep_or_is_too_much_is_named() -> None:
    deep: Any = Holder(random.Random(0))
    for _ in range(20):
        deep = Holder(deep)
    [name] = own.Streams.of(deep).unknown
    assert name == "Holder" + ".rng" * 13
    many = own.Streams.of([Holder([Holder(random.Random(i)), i]) for i in range(20_000)], with_global=False)
    assert len(many.unknown) == 1


class InModule(torch.nn.Module):
    """Noise of its own generator, below another module."""

    def __init__(self, generator: Any) -> None:
        super().__init__()
        self.generator = generator


class InSlots:
    """Without a dict, and with a slot that nothing was put into."""

    __slots__ = ("__rng", "empty")

    def __init__(self, generator: Any) -> None:
        self.__rng = generator


class InClass:
    """With a generator that all objects share."""

    rng = random.Random(7)


SPACE = gymnasium.spaces.Discrete(5)


class SpaceOfClass:
    """With a space that all environments share."""

    action_space = gymnasium.spaces.Discrete(3)


class SpaceOfModule:
    """An environment with a space that a property gives."""

    reset = step = None

    @property
    def action_space(self) -> Any:
        return SPACE


class DeeperInClass:
    """With what leads to a generator, which all objects share."""

    __holders__ = Holder(random.Random(8))  # what Python itself keeps has names like this
    holders = [Holder(random.Random(9))]

    def method(self) -> None:
        """A function, which is passed over."""


class InOptimizer(torch.optim.SGD):
    """With noise."""

    def __init__(self) -> None:
        super().__init__([torch.zeros(1)], 0.1)
        self.rng = np.random.default_rng(3)
        torch.optim.lr_scheduler.StepLR(self, 1)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (torch.nn.Sequential(torch.nn.Sequential(InModule(torch.Generator()))), "Sequential.0.0.generator"),
        (Holder(InSlots(random.Random(1))), "Holder.rng.__rng"),
        (Holder(InClass()), "Holder.rng.InClass.rng"),
        (InOptimizer(), "InOptimizer.rng"),
        (SpaceOfClass(), "SpaceOfClass.SpaceOfClass.action_space._np_random"),
        (SpaceOfModule(), "SpaceOfModule.action_space._np_random"),
        (lambda: SpaceOfClass.action_space.sample(), "<lambda>.SpaceOfClass.SpaceOfClass.action_space._np_random"),
        (DeeperInClass(), "DeeperInClass.DeeperInClass.holders[0].rng"),
    ],
)
def test_streams_in_modules_optimizers_slots_and_classes_are_found(owner: Any, name: str) -> None:
    streams = own.Streams.of(owner, with_global=False)
    assert [each.replace("_InSlots", "") for each in streams.names] == [name] and streams.unknown == []


def test_what_an_object_has_in_the_place_of_that_of_its_classes_is_told_apart() -> None:
    class Same:
        rng = random.Random(1)

    first, second = Same, type("Same", (Same,), {"rng": random.Random(2), "__qualname__": Same.__qualname__})
    owner = second()
    owner.rng = random.Random(3)
    streams = own.Streams.of(owner, with_global=False)
    assert [*streams._generators.values()] == [owner.rng, second.rng, first.rng]


# What happens in the block leaves no trace in the random streams


def draw(*some_spaces):
    return random.random(), np.random.rand(), torch.rand(1).item(), *(space.sample() for space in some_spaces)


def drawn_twice(during, *sources, of=()):
    """Numbers drawn after a block with `during` in it, and the same without the block."""
    with own.isolated_rng(*sources):
        expected = draw(*of)
    with own.isolated_rng(*sources):
        during()
    with own.isolated_rng(*sources):
        return draw(*of), expected


def test_streams_are_restored_after_an_error():
    with own.isolated_rng():
        expected = draw()
    with pytest.raises(KeyError), own.isolated_rng():
        draw()
        raise KeyError
    assert draw() == expected


def sources(name: str) -> tuple[Any, list[Any], list[Any]]:
    """What draws, the sources named to `isolated_rng`, and the spaces whose draws may not change."""
    space = spaces.Discrete(10**9)
    nest = spaces.Tuple([spaces.Dict(a=space)])
    env = gymnasium.make("Pendulum-v1")
    vector = gymnasium.make_vec("Pendulum-v1", 2, vectorization_mode="sync")
    both = [vector.action_space, vector.single_action_space]
    return {
        "global streams": (draw, [], []),
        "space": (space.sample, [space], [space]),
        "seed of a space": (lambda: space.seed(5), [space], [space]),
        "space of a nest": (nest.sample, [nest], [space]),
        "action space of an env": (env.action_space.sample, [env, None], [env.action_space]),
        "both of a vector env": (lambda: draw(*both), [vector], both),
    }[name]


@pytest.mark.parametrize(
    "name",
    ["global streams", "space", "seed of a space", "space of a nest", "action space of an env", "both of a vector env"],
)
def test_streams_go_on_as_if_nothing_had_been_drawn(name):
    during, named, of = sources(name)
    came, expected = drawn_twice(during, *named, of=of)
    assert [np.asarray(number).tolist() for number in came] == [np.asarray(number).tolist() for number in expected]


def test_stream_of_a_gym_space_is_restored():
    space = pytest.importorskip("gym.spaces").Discrete(10**9)
    came, expected = drawn_twice(lambda: (space.sample(), space.seed(3)), space, of=[space])
    assert came == expected


def test_a_space_with_an_old_random_state_is_restored():
    class Old:
        np_random = np.random.RandomState(0)

        def sample(self):
            return self.np_random.rand()

    space = Old()
    came, expected = drawn_twice(space.sample, space, of=[space])
    assert came == expected


MAKE = [np.random.default_rng, np.random.RandomState, lambda seed: np.random.Generator(np.random.MT19937(seed))]


@pytest.mark.parametrize("make", MAKE)
def test_generator_goes_on_where_it_was(make: Any) -> None:
    rng, other = make(0), make(1)
    rng.normal()  # a RandomState keeps a second number for the next time
    own.set_rng_state(other, own.get_rng_state(rng))
    assert other.normal(size=3).tolist() == rng.normal(size=3).tolist()


def test_the_global_stream_has_no_state_of_its_own() -> None:
    assert own.get_rng_state(None) is None
    own.set_rng_state(None, None)


@pytest.mark.parametrize("state", [{}, {"bit_generator": "PCG64"}, 5, own.get_rng_state(np.random.RandomState(0))])
def test_the_state_of_something_else_is_refused(state: Any) -> None:
    with pytest.raises(ValueError, match="the saved rng does not match"):
        own.set_rng_state(np.random.default_rng(0), state)


@pytest.mark.parametrize(("rng", "state"), [(None, {}), (np.random.default_rng(0), None)])
def test_a_generator_is_not_the_global_stream(rng: Any, state: Any) -> None:
    with pytest.raises(ValueError, match="got .* global stream"):
        own.set_rng_state(rng, state)


def test_the_entropy_of_the_global_stream_depends_on_its_state_alone():
    np.random.seed(0)
    first = own.global_entropy()
    assert first == own.global_entropy() == 8_194_105_198_264_699_850  # in all versions of NumPy
    np.random.rand()
    assert own.global_entropy() != first
