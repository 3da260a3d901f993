"""The script of a plan: what `make` and `train` do, written with the parts alone."""

from collections.abc import Iterable

from pfrl_like.zoo.composition import Call, Given, givens_of
from pfrl_like.zoo.names import Import, import_of
from pfrl_like.zoo.plan import SEEDS_PER_RUN, Plan
from pfrl_like.zoo.source import statements

_INDENT = "    "


def script(plan: Plan) -> str:
    """Return the script. It needs no module of `pfrl_like.zoo`."""
    title = f'"""{plan.agent_name} in {plan.env_name}, composed of parts as `pfrl_like.make` composes it.'
    head = "\n".join([title, "", *plan.notes, '"""']) if plan.notes else f'{title}"""'
    functions = [
        _env_function(plan),
        _function("make_agent", ["env", *plan.objects()], statements(plan.agent, "return ")),
        _main(plan),
        *([] if plan.all_objects() else [['if __name__ == "__main__":', f"{_INDENT}main()"]]),
    ]
    blocks = [f"{head}\n\n{_imports(plan)}\n\nSEED = {plan.seed}", *map("\n".join, functions)]
    return "\n\n\n".join(blocks) + "\n"


def _function(name: str, parameters: Iterable[str], body: Iterable[str]) -> list[str]:
    return [f"def {name}({', '.join(parameters)}):", *(_INDENT + line if line else "" for line in body)]


def _env_function(plan: Plan) -> list[str]:
    base = plan.base_env
    if isinstance(base, Call) and not plan.wrappers and not plan.training_wrappers and "env_fn" not in givens_of(base):
        seeded = Call(base._function, base._args, {"seed": Given("seed"), **base._kwargs})
        return _function("make_env", ["seed", "test=False"], statements(seeded, "return "))
    body = [] if base is None else statements(base, "env = ")
    if plan.training_wrappers:
        inner = [line for wrapper in plan.training_wrappers for line in statements(wrapper, "env = ")]
        body += ["if not test:", *(_INDENT + line for line in inner)]
    body += [line for wrapper in plan.wrappers for line in statements(wrapper, "env = ")]
    body.append("return envs.make_env(env, seed=seed)")
    return _function("make_env", [*plan.env_objects(), "seed", "test=False"], body)


def _main(plan: Plan) -> list[str]:
    """Return the function that does what `Made` does, in the same order."""
    first = ", ".join([*plan.env_objects(), f"{SEEDS_PER_RUN} * SEED"])
    many = f"envs.SerialVectorEnv([make_env({first} + i) for i in range({plan.n_envs})])"
    title = ", ".join(f'"{name}"' for name in (plan.env_name, plan.agent_name))
    lines = [
        f'outdir = outdir or experiments.new_run_directory("results", {title}, SEED)',
        f"torch.set_num_threads({plan.threads})",
        "utils.set_random_seed(SEED)",
    ]
    if plan.copies_env():
        lines.append("copied_env = copy.deepcopy(env)")
    lines.append(f"env = {many if plan.n_envs else f'make_env({first})'}")
    if plan.base_env is not None or plan.copies_env():
        own = f"copied_env, {SEEDS_PER_RUN} * SEED" if plan.copies_env() else first
        lines.append(f"eval_env = make_env({own} + {SEEDS_PER_RUN - 1}, test=True)")
    elif plan.dataset is not None:
        lines.append("eval_env = env")
    if isinstance(plan.dataset, Call):
        lines += statements(plan.dataset, "dataset, _ = ")
    lines.append(f"agent = make_agent({', '.join(['env', *plan.objects()])})")
    if "env_of_process" in givens_of(plan.train):
        body = [f"return make_env({first} + index, test)"]
        lines += ["", *_function("env_of_process", ["index", "test"], body)]
    lines += ["", "utils.set_random_seed(SEED)", "eval_interval = max(steps // 10, 1)"]
    lines += [*statements(plan.train, ""), "return agent"]
    numbers = [f"steps={plan.steps:_}", "outdir=None"]
    return _function("main", [*plan.all_objects(), *numbers], lines)


def _imports(plan: Plan) -> str:
    used = {import_of(path) for path in plan.names()}
    used |= {Import("torch", None, ""), Import("pfrl_like", "utils", ""), Import("pfrl_like", "envs", "")}
    groups: dict[bool, list[str]] = {False: [], True: []}
    for module in sorted({each.module for each in used}):
        names = sorted({each.imported for each in used if each.module == module and each.imported}, key=str.lower)
        lines = groups[module.startswith("pfrl_like")]
        if any(each.module == module and each.imported is None for each in used):
            lines.append(f"import {module}")
        if names:
            lines.append(f"from {module} import {', '.join(names)}")
    ordered = sorted(groups[False], key=lambda line: line.startswith("from"))
    standard = ["import copy", ""] if plan.copies_env() else []
    return "\n".join([*standard, *ordered, "", *groups[True]])
