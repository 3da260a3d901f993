"""Downloads of PFRL's pretrained agents, into the cache that PFRL also uses.

The cache is the directory in the environment variable `PFRL_MODELS_ROOT`, or `~/.pfrl/models`. An agent is in the
folder `<algorithm>/<environment>/<best or final>`; `agent.load` reads it.
"""

import hashlib
import os
import posixpath
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path

from pfrl_like.errors import CheckpointError, DownloadError

#: Kinds of agents that PFRL offers: name of the algorithm -> "best", the agent with the best evaluation, and "final".
MODELS = {name: ["best", "final"] for name in ("DQN", "IQN", "Rainbow", "A3C", "DDPG", "TRPO", "PPO", "TD3", "SAC")}
MODELS["PPO"] = ["final"]

download_url = "https://pfrl-assets.preferred.jp/"

#: Maximum number of bytes of an unpacked archive.
_LARGEST = 1 << 33


def download_model(alg: str, env: str, model_type: str = "best", *, sha256: str | None = None) -> tuple[str, bool]:
    """Download a pretrained agent of PFRL, unless it is in the cache.

    Args:
        alg: Name of the algorithm, a key of `MODELS`.
        env: Id of the environment, such as "BreakoutNoFrameskip-v4" or "Hopper-v2".
        model_type: "best" or "final".
        sha256: Checksum of the archive, 64 hexadecimal digits. If None, only the checksums in the archive are checked.
            Otherwise an agent that is in the cache without its archive is downloaded again.

    Returns:
        Path of the agent's directory, and True if the agent was already in the cache.

    Raises:
        ValueError: If PFRL offers no such agent, or `sha256` is no checksum.
        DownloadError: If the archive cannot be downloaded, for instance because there is no network. The message
            contains the address, and the path where a copy of the archive can be put.
        CheckpointError: If the archive is damaged or has another checksum. It is removed.
    """
    for name, value, allowed in (("alg", alg, [*MODELS]), ("model_type", model_type, MODELS.get(alg, []))):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}, expected one of {', '.join(map(repr, allowed))}")
    return download_and_store_model(alg, download_url, env.replace("NoFrameskip-v4", ""), model_type, sha256=sha256)


def download_and_store_model(
    alg: str, url: str, env: str, model_type: str, *, sha256: str | None = None
) -> tuple[str, bool]:
    """Download an archive from `<url>/<alg>/<env>/<model_type>.zip` and unpack it, unless it is in the cache.

    If several processes need the agent, one process downloads it.

    Args:
        alg: Name of the algorithm.
        url: Address of the server.
        env: Name of the environment, without "NoFrameskip-v4".
        model_type: "best" or "final".
        sha256: Checksum of the archive, 64 hexadecimal digits. If None, only the checksums in the archive are checked.
            Otherwise an agent that is in the cache without its archive is downloaded again.

    Returns:
        Path of the agent's directory, and True if the agent was already in the cache.

    Raises:
        ValueError: If a name contains "..", if `url` does not begin with http:// or https://, or if `sha256` is no
            checksum.
        DownloadError: If the archive cannot be downloaded.
        CheckpointError: If the archive is damaged or has another checksum. It is removed.
    """
    import filelock  # takes a while to import

    from pfrl_like.utils.download import check_file

    if os.pardir in Path(alg, env, model_type).parts or Path(alg, env, model_type).is_absolute():
        raise ValueError(f"alg, env and model_type are {alg!r}, {env!r} and {model_type!r}, expected names without ..")
    with filelock.FileLock(_directory(".lock") / "models.lock"):
        directory = _directory(alg, env)
        target, archive = directory / model_type, directory / f"{model_type}.zip"
        check_file(archive, sha256)
        if target.is_dir() and (sha256 is None or archive.exists()):
            return str(target), True
        if not archive.exists():
            address = posixpath.join(url, alg, env, archive.name)
            try:
                os.replace(cached_download(address, sha256=sha256), archive)
            except DownloadError as error:
                raise DownloadError(address, str(archive), error.reason) from error
        _unpack(archive, target)
    return str(target), False


def cached_download(url: str, *, sha256: str | None = None) -> str:
    """Download a file unless it is in the folder `_dl_cache` of the cache. A broken download is resumed.

    Args:
        url: Address of the file, with http or https.
        sha256: Checksum of the file, 64 hexadecimal digits. If None, only the length is checked.

    Returns:
        Path of the file.

    Raises:
        ValueError: If `url` does not begin with http:// or https://, or `sha256` is no checksum.
        DownloadError: If the file cannot be downloaded.
        CheckpointError: If the file has another checksum. It is removed.
    """
    from pfrl_like.utils.download import download_file  # urllib takes a while to import

    name = hashlib.md5(url.encode(), usedforsecurity=False).hexdigest()
    return str(download_file(url, _directory("_dl_cache") / name, sha256))


def _directory(*names: str) -> Path:
    """Return a directory in the cache. It is created if it does not exist."""
    root = os.environ.get("PFRL_MODELS_ROOT") or Path.home() / ".pfrl" / "models"
    path = Path(root, *names)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _unpack(archive: Path, target: Path) -> None:
    """Replace `target` by the folder `target.name` of an archive. If the archive is damaged, remove it."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        with zipfile.ZipFile(archive) as file:
            members = [member for member in file.infolist() if Path(member.filename).parts[:1] == (target.name,)]
            size = sum(member.file_size for member in members)
            outside = any(os.pardir in Path(member.filename).parts for member in members)
            if not members or outside or size > _LARGEST:
                got = f"{len(members)} files of {size:,} bytes{outside * ', some with .. in their names'}"
                raise ValueError(f"folder {target.name} has {got}, expected files of at most {_LARGEST:,} bytes in all")
            file.extractall(temporary, members)  # checks their checksums; a link becomes an ordinary file
        if not (temporary / target.name).is_dir():
            raise ValueError(f"folder {target.name} has no files")
        shutil.rmtree(target, ignore_errors=True)
        os.replace(temporary / target.name, target)
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        archive.unlink()
        raise CheckpointError(archive, f"is no archive of an agent: {error}; the file was removed") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
