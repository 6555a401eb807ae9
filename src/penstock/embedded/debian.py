"""Programs of another Debian release, run from a private directory; the machine's own packages stay as they are.

apt fetches a package and all that it needs, from the C library on, with its
state in a scratch directory (apt.conf(5), "Directories"). dpkg-deb unpacks the
files without installing anything. A program is then run by the dynamic linker
that came with it (ld.so(8), `--library-path`).

Optional by nature: it takes a Debian or a relative of it and a package mirror,
and the version is whatever the release has on the day of the fetch. It stays in
the cache from then on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import PenstockError, UsageError
from penstock.embedded.cache import cache_directory, locked
from penstock.embedded.processes import run_to_end

_FETCH_SECONDS = 600.0
_UNPACK_SECONDS = 120.0
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRROR_VARIABLE = "PENSTOCK_DEBIAN_MIRROR"
_MIRROR = "http://deb.debian.org/debian"

# The machine's own settings are read first (a proxy, say); what would touch the machine is replaced.
_SETTINGS = """\
Dir::State "{scratch}/state";
Dir::State::status "{scratch}/state/status";
Dir::Cache "{scratch}/cache";
Dir::Etc::sourcelist "{scratch}/sources.list";
Dir::Etc::sourceparts "{scratch}/none";
Dir::Etc::preferences "{scratch}/none/preferences";
Dir::Etc::preferencesparts "{scratch}/none";
#clear APT::Default-Release;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::Contents-deb;
APT::Install-Recommends "false";
APT::Sandbox::User "";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "15";
Acquire::https::Timeout "15";
"""


@dataclass(frozen=True, slots=True)
class DebianPackage:
    """A package of a Debian release, as the archive calls both."""

    release: str
    name: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """An unpacked package with all that it needs; `usr` is its /usr."""

    usr: Path

    def command(self, program: str) -> list[str]:
        """How to run a program, given by its path below usr: its arguments follow."""
        linker = next(self.usr.glob("lib/*/ld-linux*.so.*"))
        return [str(linker), "--library-path", str(linker.parent), str(self.usr / program)]


def ensure_prefix(package: DebianPackage) -> Prefix:
    """The package's files, fetched first if they are not in the cache; safe for parallel callers.

    Raises UsageError where this machine has no apt, no keys of Debian or no way
    to a mirror, and where the release has no such package.
    """
    directory = prefix_directory(package)
    if not directory.exists():
        with locked(directory.with_suffix(".lock")):
            if not directory.exists():
                _fetch(package, directory)
    return Prefix(directory / "usr")


def prefix_directory(package: DebianPackage) -> Path:
    """Where the package's files are, if they have been fetched."""
    return cache_directory("debian") / f"{package.name}-{package.release}"


def _fetch(package: DebianPackage, directory: Path) -> None:
    """Bring the package into `directory`, which appears only when all of it is there."""
    require_apt(package)
    log = directory.with_suffix(".log")
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{directory.name}-", dir=directory.parent) as scratch_name:
        scratch = Path(scratch_name)
        settings = _prepare(package, scratch)
        apt = ["apt-get", f"--config-file={settings}", "--quiet=2"]
        try:
            run_to_end("apt-get update", [*apt, "update"], log, _FETCH_SECONDS)
            install = [*apt, "--yes", "--download-only", "install", package.name]
            run_to_end(f"apt-get install {package.name}", install, log, _FETCH_SECONDS)
            for archive in sorted((scratch / "cache" / "archives").glob("*.deb")):
                unpack = ["dpkg-deb", "--extract", str(archive), str(scratch / "prefix")]
                run_to_end("dpkg-deb", unpack, log, _UNPACK_SECONDS)
        except PenstockError as error:
            raise _unavailable(package, error.message, f"check the way to {_mirror()}, see {log}") from error
        (scratch / "prefix").rename(directory)


def require_apt(package: DebianPackage) -> None:
    """Raise UsageError unless this machine can fetch packages of Debian and verify them."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise _unavailable(package, f"there is no {program} on this machine", "do without this server")
    if not _KEYRING.exists():
        why = f"Debian's keys are not in {_KEYRING}"
        raise _unavailable(package, why, "type: sudo apt-get install -y debian-archive-keyring")


def _prepare(package: DebianPackage, scratch: Path) -> Path:
    """Make apt's private directories; the path of its settings."""
    for part in ("state/lists/partial", "cache/archives/partial", "none", "prefix"):
        (scratch / part).mkdir(parents=True)
    # Nothing is installed here: so everything that the package needs comes with it.
    (scratch / "state" / "status").touch()
    (scratch / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {_mirror()} {package.release} main\n")
    settings = scratch / "apt.conf"
    settings.write_text(_SETTINGS.format(scratch=scratch))
    return settings


def _mirror() -> str:
    return os.environ.get(_MIRROR_VARIABLE) or _MIRROR


def _unavailable(package: DebianPackage, why: str, remedy: str) -> UsageError:
    """It is optional, and a machine without it is no broken one: whoever asked for it must do without."""
    message = f"{package.name} of Debian {package.release} cannot be had on this machine: {why}"
    return UsageError(message, f"{remedy}; {_MIRROR_VARIABLE} names another mirror")
