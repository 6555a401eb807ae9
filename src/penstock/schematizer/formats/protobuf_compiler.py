"""From a .proto text to its descriptor: protoc does it, in a process of its own, which may be ended.

Source: Protocol Buffers, "Techniques" (self-describing messages) and protoc's
`--help`: imports are looked for in a directory first, then in a descriptor set.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECONDS_MAX = 20
_PROGRAMS_MAX = 2
_ERROR_CHARACTERS_MAX = 2_000
_PROGRAM = Path(__file__).with_name("protobuf_program.py")
# No import can be called so: protoc refuses names with two dots.
_MAIN = "the..schema.proto"
_MISTAKE = re.compile(rf"(?:.*/)?{re.escape(_MAIN)}:(\d+):(\d+): (?:error: )?(.*)")
_NOT_SAID = re.compile(r"WARNING: |[IW]\d{4} |.*: warning: |\s*$")
_turns = threading.BoundedSemaphore(_PROGRAMS_MAX)


def compile_protobuf(text: str, used: Iterable[FileDescriptorProto]) -> FileDescriptorProto:
    """Compile a text that may import the files in `used`, by their names, and those of google/protobuf.

    Raises ValueError with the line and column of every mistake.
    """
    with _turns, TemporaryDirectory(prefix="penstock-protoc-") as directory, as_file(files("grpc_tools")) as tools:
        place = Path(directory)
        (place / _MAIN).write_text(text, encoding="utf-8")
        (place / "used").write_bytes(FileDescriptorSet(file=used).SerializeToString())
        command = [sys.executable, "-I", str(_PROGRAM), f"-I{place}", f"-I{tools / '_proto'}", "--error_format=gcc"]
        command += [f"--descriptor_set_in={place / 'used'}", f"--descriptor_set_out={place / 'compiled'}", _MAIN]
        _run(command, place)
        compiled = FileDescriptorSet.FromString((place / "compiled").read_bytes())
    return compiled.file[0]


def _run(command: list[str], place: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - our own program, with names of our own
            command, cwd=place, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired as error:
        message = f"protoc was not done with it after {_SECONDS_MAX} s"
        raise ValueError(message) from error
    if done.returncode < 0:
        message = f"protoc could not bear it (signal {-done.returncode})"
        raise ValueError(message)
    if done.returncode:
        raise ValueError(_explain(done.stderr.decode(errors="replace")))


def _explain(said: str) -> str:
    lines = [line for line in said.splitlines() if not _NOT_SAID.match(line)]
    found = [(_MISTAKE.fullmatch(line), line) for line in lines]
    mistakes = [f"line {m[1]}, column {m[2]}: {m[3]}" if m else line for m, line in found]
    return "; ".join(dict.fromkeys(mistakes))[:_ERROR_CHARACTERS_MAX] or "protoc does not say why"
