"""Whatever becomes of files that the library writes, its loaders read them or refuse them with an error of its own."""

import functools
import tempfile
import traceback
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("h5py")

from lab.corpus import seal  # noqa: E402
from lab.mutations import changed  # noqa: E402
from lab.subjects import LOADED, SLOWLY_MADE, WRITERS, files_of  # noqa: E402

import pfrl_like  # noqa: E402
from pfrl_like.errors import PfrlLikeError  # noqa: E402

SUBJECTS = {name: subject for name, subject in (WRITERS | LOADED).items() if name not in SLOWLY_MADE}
#: More than 100 as the profile "long" has it.
EXAMPLES = settings.default.max_examples if settings.default.max_examples > 100 else 40
LIBRARY = str(Path(pfrl_like.__file__).parent)


pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@functools.cache
def example(name: str) -> dict[str, bytes]:
    """The files of a subject."""
    with tempfile.TemporaryDirectory() as folder:
        for number in (0, 1):
            SUBJECTS[name].write(Path(folder), number)
        return {file: (Path(folder) / file).read_bytes() for file in files_of(Path(folder))}


def load(name: str, folder: Path) -> None:
    """Read a folder; what the reader of the test makes of another state is not the library's business."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            SUBJECTS[name].read(folder)
    except PfrlLikeError:
        pass
    except Exception as error:
        if any(frame.filename.startswith(LIBRARY) for frame in traceback.extract_tb(error.__traceback__)):
            raise


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_changed_files_are_read_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(SUBJECTS)))
    files = dict(example(name))
    place = data.draw(st.sampled_from([file for file in files if files[file]]))
    files[place] = changed(data.draw, files[place])
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent)
        for file, content in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        path = folder / place
        if place.startswith("agent/") and "-" in place and data.draw(st.booleans()):
            seal(path)
        load(name, folder)
