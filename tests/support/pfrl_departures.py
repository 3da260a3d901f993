"""Where the interface differs from PFRL's on purpose, and why. `tests/conformance/test_pfrl_interface.py` reads it.

A name that is absent is written as its path, an absent parameter, or one at another place, as "path(name)", and another
default as "path(name=)".
"""

from collections.abc import Mapping

#: Reason -> names and parameters.
REASONS: Mapping[str, tuple[str, ...]] = {}

DEPARTURES: Mapping[str, str] = {path: reason for reason, paths in REASONS.items() for path in paths}
