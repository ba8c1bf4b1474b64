"""C++ protobuf's reader of text, the one in tritonserver, as another process.

grpcio-tools carries it within protoc, which reads one text a run; so each text gets a fork of this
process. A text comes as its length and its bytes; the answer is the length of the message and its
bytes, or -1 where the text is refused.

Its protobuf is newer than the server's. Once, by hand, tritonserver 2.51 itself was given the 480
odd texts and mistakes of test_pbtxt.py as models: it refused exactly those that protoc refuses.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc  # type: ignore[import-untyped]
from tritonclient.grpc import model_config_pb2 as pb


def encode(text: bytes, arguments: list[str]) -> bytes | None:
    """Return the message that a text says; None if it is refused."""
    given, made, ignored = (os.memfd_create(name) for name in ("given", "made", "ignored"))
    os.write(given, text)
    os.lseek(given, 0, os.SEEK_SET)
    child = os.fork()
    if child == 0:
        for number, target in enumerate((given, made, ignored)):
            os.dup2(target, number)
        os._exit(min(protoc.main(arguments), 1))
    _, status = os.waitpid(child, 0)
    os.lseek(made, 0, os.SEEK_SET)
    message = os.read(made, os.fstat(made).st_size)
    for descriptor in (given, made, ignored):
        os.close(descriptor)
    return message if status == 0 else None


def main(folder: Path) -> None:
    """Answer texts until stdin ends; a folder takes what protoc must know of the message."""
    files = FileDescriptorSet()
    pb.DESCRIPTOR.CopyToProto(files.file.add())
    (folder / "descriptors").write_bytes(files.SerializeToString())
    arguments = ["protoc", f"--descriptor_set_in={folder / 'descriptors'}"]
    arguments += [f"--encode={pb.ModelConfig.DESCRIPTOR.full_name}", pb.DESCRIPTOR.name]
    while length := sys.stdin.buffer.read(4):
        message = encode(sys.stdin.buffer.read(*struct.unpack("<i", length)), arguments)
        sys.stdout.buffer.write(struct.pack("<i", -1 if message is None else len(message)))
        sys.stdout.buffer.write(message or b"")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
