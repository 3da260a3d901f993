"""What `run.json` says of files that could not be written."""

import logging

from pfrl_like.errors import CheckpointError
from pfrl_like.runs.run_files import FailedWrites
from pfrl_like.runs.secrets import MASK


def test_why_something_is_not_saved_has_no_secrets() -> None:
    writes = FailedWrites(logging.getLogger("test"), stops=False)
    with writes.told("table"):
        raise CheckpointError("run", "cannot be written to https://me:pw@host")
    assert writes.lacking["table"].endswith(f"https://{MASK}@host")
