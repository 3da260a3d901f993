"""Downloads of files. After a broken connection a download is resumed.

Downloads are resumed as in RFC 9110, sections 13.1.5 (If-Range) and 14 (Range requests).
"""

import hashlib
import http.client
import logging
import os
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import filelock

from pfrl_like.errors import CheckpointError, DownloadError

_LOGGER = logging.getLogger(__name__)
_CHUNK = 1 << 20
_SECONDS = 30.0  # a connection is broken if it returns no data for this time
_ATTEMPTS = 5  # maximum number of consecutive attempts that return no data
_PAUSE = 0.5
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+)")
_CLIENT_ERRORS = range(400, 500)
_TEMPORARY = (408, 425, 429)


def download_file(url: str, path: Path, sha256: str | None = None) -> Path:
    """Download a file unless it exists. If several processes need the file, one process downloads it.

    A broken download is resumed, in this call or in a later call. `<path>.part` contains the received bytes.

    Args:
        url: Address of the file, with http or https.
        path: Path of the downloaded file. Its directory is created if it does not exist.
        sha256: Checksum of the file, 64 hexadecimal digits. If None, only the length is checked.

    Returns:
        `path`.

    Raises:
        DownloadError: If the file cannot be downloaded, for instance because there is no network.
        CheckpointError: If the file has a different checksum. The file is removed.
        ValueError: If `url` does not begin with http:// or https://, or `sha256` is no checksum.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url: got {url!r}, expected an address that begins with http:// or https://")
    path.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(_with_suffix(path, ".lock")):
        check_file(path, sha256)
        if not path.exists():
            part = _with_suffix(path, ".part")
            _fetch(url, part, path)
            _with_suffix(part, ".version").unlink(missing_ok=True)
            check_file(part, sha256)
            os.replace(part, path)
    return path


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _fetch(url: str, part: Path, path: Path) -> None:
    """Download the whole file to `part`. Reconnect as long as connections return data."""
    failures = 0
    while True:
        size = _size(part)
        try:
            if _connection(url, part):
                return
            reason: object = "the connection ended early"
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"the server returned {error.code} {error.reason}"
            if error.code in _CLIENT_ERRORS and error.code not in _TEMPORARY:
                raise DownloadError(url, str(path), reason) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
        failures = 0 if _size(part) > size else failures + 1
        if failures >= _ATTEMPTS:
            raise DownloadError(url, str(path), str(reason) or type(reason).__name__)
        _LOGGER.info("%s: %s; resuming at byte %d", url, reason, _size(part))
        time.sleep(_PAUSE * failures)


def _connection(url: str, part: Path) -> bool:
    """Download the missing bytes through one connection. Return True if the file is then complete."""
    start, version = _size(part), _with_suffix(part, ".version")
    headers = {"Accept-Encoding": "identity"}
    if start and version.exists():
        headers |= {"Range": f"bytes={start}-", "If-Range": version.read_text()}
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        whole = start == _range(error.headers, 2)
        if not whole:
            part.unlink()  # `part` is longer than the whole file
        return whole
    with answer:
        resumes = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumes and _range(answer.headers, 1) != start:
            raise http.client.HTTPException(f"requested bytes from {start}, got {answer.headers['Content-Range']}")
        if not resumes:
            _LOGGER.info("downloading %s", url)
            # The tag identifies the version of the file. Without a tag, the download cannot be resumed.
            version.unlink(missing_ok=True)
            tags = (answer.headers["ETag"], answer.headers["Last-Modified"])
            if strong := [tag for tag in tags if tag and not tag.startswith("W/")]:
                version.write_text(strong[0])
        length = answer.headers["Content-Length"]
        with part.open("ab" if resumes else "wb") as file:
            while content := answer.read(_CHUNK):
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
    return length is None or _size(part) == int(length) + (start if resumes else 0)


def _range(headers: Any, group: int) -> int | None:
    """Return the first byte (group 1) or the total size (group 2) in the header Content-Range. None if missing."""
    match = _RANGE.fullmatch(headers["Content-Range"] or "")
    return int(match[group]) if match and match[group] else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def check_file(path: Path, sha256: str | None) -> None:
    """Check the checksum of a file, if the file exists and `sha256` is not None.

    Args:
        path: Path of the file.
        sha256: Checksum, 64 hexadecimal digits. If None, nothing is checked.

    Raises:
        ValueError: If `sha256` does not have 64 hexadecimal digits.
        CheckpointError: If the file has a different checksum. The file is removed.
    """
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise ValueError(f"sha256 is {sha256!r}, expected 64 hexadecimal digits")
    if sha256 is None or not path.exists():
        return
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    if checksum != sha256.lower():
        path.unlink()
        raise CheckpointError(path, f"has the checksum {checksum}, expected sha256 {sha256}; the file was removed")
