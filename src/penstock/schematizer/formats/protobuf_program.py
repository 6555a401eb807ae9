"""A program that runs protoc within bounds of time and memory: what it compiles comes from strangers.

Started by `protobuf_compiler` as a file, with protoc's own arguments.
"""

import resource
import sys

from grpc_tools import protoc

_CPU_SECONDS = 10
_MEMORY_BYTES = 1 << 30
_FILE_BYTES = 1 << 26

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(protoc.main(sys.argv))
