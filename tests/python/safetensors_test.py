"""Opens packs with the safetensors library, which knows nothing of Varde, and compares every byte of every tensor.

tests/tools/make_pack writes the packs; what their tensors hold is computed here anew, from rank, name and offset.
"""

import json
import math
import os
import subprocess

import numpy
import pytest
import safetensors
from safetensors.numpy import load_file

BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}


def expected_bytes(rank, name, size):
    """What tests/tools/pack_bytes.h put into the tensor."""
    mix = 2166136261 ^ rank
    for letter in name.encode():
        mix = ((mix ^ letter) * 16777619) & 0xFFFFFFFF
    offset = numpy.arange(size, dtype=numpy.uint64)
    return ((mix >> 8) + offset * 31 + (offset >> 8)).astype(numpy.uint8).tobytes()


def check_pack(path):
    """Returns names and types of all tensors that the ranks saved."""
    with open(path, "rb") as file:
        whole = file.read()
    tensors = dict(safetensors.deserialize(whole))
    assert len(whole) % 4096 == 0
    saved = {}
    for name, tensor in tensors.items():
        size = math.prod(tensor["shape"]) * BITS[tensor["dtype"]] // 8
        assert len(tensor["data"]) == size, name
        if name == "varde.seal":
            assert bytes(tensor["data"]) == whole[-size:], "the seal is not the end of the file"
        elif name.startswith("varde.pad/"):
            assert bytes(tensor["data"]) == bytes(size), name
        else:
            rank, own_name = name.removeprefix("rank").split("/", 1)
            assert bytes(tensor["data"]) == expected_bytes(int(rank), own_name, size), name
            saved[name] = tensor["dtype"]
    assert "varde.seal" in tensors
    return saved


def check_metadata(path, saved):
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        assert set(file.keys()) >= set(saved)
    assert metadata["varde.format"] == "1"
    assert metadata["varde.ranks"] == "3,4,70000"
    split = json.loads(metadata["varde.split"])
    assert set(split) == {name for name in saved if "/split" in name}
    assert split['rank00003/split "rows"'] == {"shape": [100, 3], "offset": [6, 0]}


def make_pack(folder, *arguments):
    path = os.path.join(folder, "pack.safetensors")
    build = os.environ.get("VARDE_BUILD", "build/release")
    subprocess.run([os.path.join(build, "tests/tools/make_pack"), path, *arguments], check=True)
    return path


def test_every_element_type_is_read_by_the_safetensors_library(tmp_path):
    path = make_pack(tmp_path)
    saved = check_pack(path)
    assert set(saved.values()) == set(BITS), "an element type is missing: %s" % (set(BITS) ^ set(saved.values()))
    assert "rank00003/line\nbreak\ttab\x01" in saved and "rank70000/na\u00efve \u26f0 \U0001f5ff" in saved
    check_metadata(path, saved)


def test_many_tensors_are_read_as_a_program_would_that_knows_nothing_but_the_format(tmp_path):
    arrays = load_file(make_pack(tmp_path, "100000"))
    count = 0
    for name, array in arrays.items():
        if name.startswith("rank"):
            assert array.dtype == numpy.float32
            assert array.tobytes() == expected_bytes(3, name.split("/", 1)[1], array.nbytes), name
            count += 1
    assert count == 100000


def test_a_changed_byte_is_found_or_the_comparisons_mean_nothing(tmp_path):
    path = make_pack(tmp_path)
    with open(path, "r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        file.seek(8 + length + 100)
        byte = file.read(1)[0]
        file.seek(8 + length + 100)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(AssertionError):
        check_pack(path)
