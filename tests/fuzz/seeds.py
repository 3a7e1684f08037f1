#!/usr/bin/env python3
"""Makes the inputs that fuzzing begins with, a folder a target, out of the repository's own files.

seeds.py FOLDER. Targets without a function here begin with tests/fuzz/seeds/TARGET where that is, else with nothing.
"""
import gzip
import shutil
import struct
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
checkpoints = sorted((root / "tests/fixtures/checkpoint").glob("step-*"))


def config():
    yield from (file.read_bytes() for file in sorted((root / "configs").glob("*.toml")))
    yield b"[train]\nepochs = 2\n\0update=fc1:sync,fc*:ssp(2),*:async"
    yield b'[[update]]\nlayers = "fc*"\nmode = "ssp"\nstaleness = 2\n\n[[update]]\nlayers = "*"\nmode = "all_reduce"\n'


def safetensors():
    yield from (file.read_bytes() for folder in checkpoints for file in sorted(folder.glob("*.safetensors")))
    header = b'{"__metadata__":{"a":"b"},"x":{"dtype":"I32","shape":[2,1],"data_offsets":[0,8]}}'
    yield struct.pack("<Q", len(header)) + header + bytes(range(8))


def manifest():
    yield from ((folder / "manifest.json").read_bytes() for folder in checkpoints)


def checkpoint():
    for folder in checkpoints:
        tensors = [(folder / f"{name}.safetensors").read_bytes() for name in ("parameters", "optimizer")]
        yield struct.pack("<II", *map(len, tensors)) + b"".join(tensors) + (folder / "manifest.json").read_bytes()


def idx():
    images = struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 3) + bytes(range(12))
    labels = struct.pack(">4BI", 0, 0, 8, 1, 3) + bytes([0, 9, 4])
    for plain in (images, labels):
        yield plain
        yield gzip.compress(plain, mtime=0)


def cifar():
    for labels in (b"\3", b"\1\2"):
        yield (labels + bytes(3072)) * 2


def csv():
    yield b"1,2.5,0\n-3e2,+4,1\n"
    yield b'\xef\xbb\xbfheight,"the ""kind""",width\r\n1,7,2\r\n\r\n3,8,4'
    yield b"kind\0kind,x\n1,0.5\n"
    yield gzip.compress(b"1,2,3\n" * 20, mtime=0)


def npy():
    for kind, count, data in (("<f4", "(2, 3)", bytes(24)), ("<i8", "(3,)", bytes(24)), ("|u1", "(1, 2, 2)", b"abcd"),
                              ("<f8", "(2, 1)", bytes(16)), ("<i4", "(2, 1)", bytes(8))):
        header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {count}, }}\n".encode()
        yield b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data
        yield b"\x93NUMPY\2\0" + struct.pack("<I", len(header)) + header + data


def tokens():
    for magic, version, kind in ((20240520, 1, "H"), (20240801, 7, "I")):
        numbers = [3, 1, 4, 1, 5, 9, 2, 6, 50256]
        yield struct.pack("<256i", magic, version, len(numbers), *[0] * 253) + struct.pack(f"<9{kind}", *numbers)
    yield struct.pack("<5H", 1, 2, 3, 4, 5)


def tokenizer():
    yield "#version: 0.2\nl l\nh e\nhe ll\nhell o\na a\n\0hello, aaaaa h\u00e9llo 42's \u65e5\n\n x".encode()
    yield b'{"a": 0}\n\0'


def recording():
    magic = b"TRPREC02"
    dealt = magic + struct.pack("<IB", 0, 0) + struct.pack("<IB", 2, 1)
    server = magic + struct.pack("<BIIq", 0, 1, 3, 7) + struct.pack("<BIIq", 1, 0, 2, 1 << 40)
    yield bytes([len(dealt)]) + dealt + server
    yield bytes([len(magic)]) + magic + magic


def main(out):
    for source in sorted((root / "tests/fuzz").glob("fuzz_*.cc")):
        target = source.stem.removeprefix("fuzz_")
        folder = out / target
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in sorted((root / "tests/fuzz/seeds" / target).glob("*")):
            shutil.copy(file, folder)
        for number, data in enumerate(globals().get(target, list)()):
            (folder / f"seed-{number}").write_bytes(data)


main(Path(sys.argv[1]))
