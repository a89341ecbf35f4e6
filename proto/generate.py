"""Generates Python code from every .proto file beside this script: `python proto/generate.py ROOT`.

ROOT is the folder that receives `raftbatch/v1/error_pb2.py` and its like: the repository for
`make proto`, a temporary folder for the test that compares. Type stubs come with each module;
gRPC code only where a file declares a service.
"""

import re
import sys
from pathlib import Path

from grpc_tools import protoc

SOURCES = Path(__file__).parent


def generate(root: Path) -> None:
    """Write the code of every source under `root`, and raise RuntimeError if protoc refuses one."""
    for source in sorted(SOURCES.rglob("*.proto")):
        outputs = [f"--python_out={root}", f"--pyi_out={root}"]
        if re.search(r"^service\s", source.read_text(encoding="utf-8"), re.MULTILINE):
            outputs.append(f"--grpc_python_out={root}")
        name = str(source.relative_to(SOURCES))
        if protoc.main(["protoc", f"--proto_path={SOURCES}", *outputs, name]) != 0:
            raise RuntimeError(f"protoc refused {name}")


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
