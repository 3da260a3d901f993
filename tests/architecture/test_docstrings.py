"""Everything public says what it is; an overriding method may leave that to the method it overrides."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pfrl_like.agent import Agent
from pfrl_like.agents import AL
from pfrl_like.algos import Estimator

PACKAGE = Path(__file__).parents[2] / "pfrl_like"
MODULES = [
    ".".join(("pfrl_like", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__main__.py"
]


def public_members(module: Any) -> Iterator[tuple[str, Any]]:
    """Public functions and classes defined in a module, and the methods of those classes that are no Protocols."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            yield name, value
            for attribute in () if getattr(value, "_is_protocol", False) else vars(value):
                member = getattr(value, attribute)
                is_method = inspect.isroutine(member) or isinstance(member, property)
                if not attribute.startswith("_") and is_method and "<lambda>" not in repr(member):
                    yield f"{name}.{attribute}", member


#: The agents and estimators that are made by their constructors.
KINDS = [
    kind
    for name in MODULES
    if name.split(".")[1:2] in (["agents"], ["algos"], ["dynamics"])
    for _, kind in public_members(importlib.import_module(name))
    if inspect.isclass(kind) and issubclass(kind, Agent | Estimator)
]
#: Arguments, by class, that mean something else than in the classes above, whose text would mislead.
OWN_TEXTS = {
    "APPO": "lambd target_kl",
    "AWR": "batch_size",
    "BEAR": "replay_buffer minibatch_size act_deterministically recurrent episodic_update_len num_steps",
    "CalQL": "replay_buffer minibatch_size recurrent episodic_update_len num_steps",
    "CrossQ": "soft_update_tau recurrent",
    "DiscreteAWR": "policy",
    "DiscreteBC": "policy",
    "DiscreteBCQ": "replay_buffer minibatch_size recurrent episodic_update_len num_steps burn_in",
    "DiscreteFittedQEvaluation": "q_funcs",
    "DiscreteIQL": "policy q_func1",
    "DiscreteSAC": "policy q_func1 entropy_target",
    "REDQ": "compile",
    "TQC": "further_q_funcs",
}


def entries_of(kind: Any) -> dict[str, str]:
    """The arguments in a class's own docstring, each with its text on one line."""
    section = re.search(r"(?<=^Args:\n)( {4}.*\n?)+", inspect.cleandoc(vars(kind)["__doc__"] or ""), re.M)
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section[0] if section else "", re.M)
    return {name: " ".join(text.split()) for name, text in entries}


def own_texts(kind: Any) -> set[str]:
    """The arguments whose text does not begin with that of the nearest class above that has it."""
    above: dict[str, str] = {}
    for base in reversed(kind.__mro__[1:]):
        above |= entries_of(base) if base in KINDS else {}
    texts = entries_of(kind).items()
    return {name for name, text in texts if not text.startswith(above.get(name, "").removesuffix("."))}


def test_every_argument_of_an_agent_and_of_an_estimator_has_an_entry() -> None:
    """In the order of the signature; that of estimators is alphabetical, and ends in keywords that they warn of."""
    for kind in KINDS:
        parameters, order = inspect.signature(kind).parameters, sorted if issubclass(kind, Estimator) else list
        assert order(entries_of(kind)) == order(parameters), kind
        hidden = [each for each in parameters.values() if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        assert issubclass(kind, Estimator) or not hidden, kind


def test_equal_arguments_have_equal_texts() -> None:
    """Texts may add to those of the classes above; the others stand in a table."""
    assert {kind.__name__: own for kind in KINDS if (own := own_texts(kind))} == {
        name: {*arguments.split()} for name, arguments in OWN_TEXTS.items()
    }


def test_a_text_that_differs_is_found() -> None:
    class Changed(AL):
        __doc__ = str(AL.__doc__).replace("Weight of the advantage", "Share of the advantage")

    assert own_texts(Changed) == {"alpha"}


def test_modules_have_docstrings() -> None:
    assert not [name for name in MODULES if not importlib.import_module(name).__doc__]


def test_public_names_have_docstrings() -> None:
    assert not [
        f"{name}.{member}"
        for name in MODULES
        for member, value in public_members(importlib.import_module(name))
        if not inspect.getdoc(value)
    ]


#: Phrases that readers stumble over, and what to write in their place.
AVOID = {
    r"\b(is|are) told of\b": "is logged",
    r"\bgo(es)? on\b": "continues, resumes",
    r"as if it had never": "is rolled back",
    r"none of this program": "True if ...",
    r"seen, done": "observations, actions, rewards",
    r"\bdescends? on\b": "minimises",
    r"\bhanded (in|on|over)\b": "given, passed",
    r"Logger of refused": "Logger for rejected updates",
    r"\bthereafter\b": "after the first update, say what",
    r"[Nn]one for none": "If None, ...",
    r"outside those named": "out of range",
    r"takes (no|the) gradient": "gradients flow (or not) into ...",
    r"broken off": "interrupted",
    r"\bit came as\b": "obs has shape ... and dtype ...",
    r"repeats? itself": "is reproducible",
    r"\b(taken|put) back\b": "rolled back, restored",
    r"sign of life": "heartbeat",
    r"\bcircumstances\b": "versions and settings",
    r"do not fit together": "say which argument does not match which",
    r"belongs to a different object": "say what differs",
    r"with which a\b": "name the subject first",
}


def test_words_are_plain() -> None:
    """In docstrings, comments, errors and logs; a path is named with the phrase and with what to write."""
    odd = {
        (str(path.relative_to(PACKAGE)), found.group(), better)
        for path in sorted(PACKAGE.rglob("*.py"))
        for phrase, better in AVOID.items()
        for found in re.finditer(phrase, path.read_text(encoding="utf-8"))
    }
    assert not odd


def test_a_docstring_begins_with_what_is_returned_or_done() -> None:
    assert not {
        (str(path.relative_to(PACKAGE)), found.group())
        for path in sorted(PACKAGE.rglob("*.py"))
        for found in re.finditer(r'^ *"""(What|Whether|How)\b.*', path.read_text(encoding="utf-8"), re.MULTILINE)
    }
