"""Scripts that complete commands and options in a shell."""

import argparse
from collections.abc import Mapping

SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "pfrl-like"
#: Starts the completion of zsh, if the user's configuration has not, and then that of bash in it.
_ZSH_HEAD = """autoload -U compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
"""


def completion_script(shell: str, commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the script of a shell.

    Args:
        shell: One of `SHELLS`.
        commands: Parsers of the commands, by name.
    """
    words = {name: _words(command) for name, command in commands.items()}
    if shell == "fish":
        before = f"complete -c {_PROGRAM} -n"
        lines = [f"{before} __fish_use_subcommand -f -a '{' '.join(words)}'"]
        for name, each in words.items():
            lines += [f"{before} '__fish_seen_subcommand_from {name}' {_fish(word)}" for word in each]
        return "\n".join(lines)
    cases = "\n".join(f'    {name}) words="{" ".join(each)}" ;;' for name, each in words.items())
    head = _ZSH_HEAD if shell == "zsh" else ""
    return f"""{head}_pfrl_like() {{
  local words="{" ".join(words)}"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _pfrl_like {_PROGRAM}"""


def _words(command: argparse.ArgumentParser) -> list[str]:
    """Return the options of a command, and the values of arguments that allow only some."""
    options = [action.option_strings[-1] for action in command._actions if action.option_strings]
    return options + [str(value) for action in command._actions for value in action.choices or ()]


def _fish(word: str) -> str:
    return f"-l {word.removeprefix('--')}" if word.startswith("--") else f"-f -a {word}"
