"""What the installed package must hold, and what the border of topoflow._C refuses."""

from __future__ import annotations

import importlib.resources
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from topoflow import _C
from topoflow.engine.fluid.batch import pack
from topoflow.engine.packet import Packet

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def packed(make_world):
    return pack([make_world([{"path": [0], "bytes": 100}], [50])])


def launch(packed, **other):
    _C.simulate({**packed.arrays, **other}, 2**20, 0, 0.0, 0)


def test_the_kernels_need_no_torch(tmp_path):
    code = "import sys, topoflow.engine.fluid; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=240).returncode == 0


def test_configs_are_part_of_the_package():
    configs = importlib.resources.files("topoflow.configs")
    assert (configs / "compare.yaml").is_file()
    assert (configs / "fabric" / "fat_tree.yaml").is_file()
    paper = importlib.resources.files("topoflow.papers.topoopt")
    assert (paper / "experiment" / "base" / "topoopt.yaml").is_file()


def test_cuda_is_built_only_where_nvcc_is():
    # Whether a GPU is there plays no part; TOPOFLOW_CUDA=OFF may leave CUDA out even so.
    assert _C.has_cuda in {False, shutil.which("nvcc") is not None}


@pytest.mark.parametrize(
    ("gpus", "compiled"),
    [
        (["9.0"], "90-real"),
        (["9.0", "9.0", "8.0"], "90-real;80-real"),
        (["7.0"], "80"),  # nvcc 13 does not know it
        (["8.0", "7.0"], "80"),
        (["No devices were found"], "80"),
        (None, "80"),  # no driver
    ],
)
def test_cuda_is_compiled_for_the_gpus_of_the_machine_or_with_ptx_for_all(gpus, compiled, tmp_path):
    architectures = "\n".join(f"compute_{number}" for number in (75, 80, 86, 90, 100))
    programs = {"nvcc": architectures, "nvidia-smi": None if gpus is None else "\n".join(gpus)}
    for name, text in programs.items():
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n" if text is None else f"#!/bin/sh\ncat <<END\n{text}\nEND\n")
        (tmp_path / name).chmod(0o755)
    script = tmp_path / "print.cmake"
    script.write_text(
        f"include({ROOT / 'csrc' / 'architectures.cmake'})\nset(CMAKE_CUDA_COMPILER {tmp_path / 'nvcc'})\n"
        'find_architectures(found)\nmessage("${found}")\n'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(["cmake", "-P", script], env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, compiled)


def test_the_kernel_writes_into_the_arrays_it_is_given(packed):
    launch(packed)
    assert packed.arrays["finish"].tolist() == [2.0]  # 100 B / 50 B/s
    assert packed.arrays["status"].tolist() == [_C.DONE]


def test_torch_tensors_cross_the_border_without_a_copy(packed):
    torch = pytest.importorskip("torch")
    finish = torch.zeros(1, dtype=torch.float64)
    launch(packed, finish=finish)
    assert finish.tolist() == [2.0]


@pytest.mark.parametrize(
    ("name", "array", "error", "message"),
    [
        ("delay", np.zeros(1, np.float32), TypeError, "delay: expected dtype float64"),
        ("bytes", np.zeros(2), ValueError, r"bytes: expected \[1\], got \[2\]"),
        ("finish", np.zeros((1, 1)), ValueError, "finish: expected one contiguous dimension"),
        ("order", np.zeros(4, np.int32)[::2], ValueError, "order: expected one contiguous dimension"),
    ],
)
def test_the_border_names_the_array_that_is_wrong(packed, name, array, error, message):
    with pytest.raises(error, match=message):
        launch(packed, **{name: array})


def test_the_border_names_the_array_that_is_missing(packed):
    del packed.arrays["latency"]
    with pytest.raises(ValueError, match="latency: array is missing"):
        launch(packed)


@pytest.mark.parametrize("name", [name for name, *_ in _C.FIELDS["simulate"]])
def test_every_array_of_the_table_is_packed_and_is_asked_for(packed, name):
    """The table of fields says what the kernel takes: its dtype is what Python packs, and none may be missing."""
    (dtype,) = [dtype for field, dtype, *_ in _C.FIELDS["simulate"] if field == name]
    assert str(packed.arrays[name].dtype) == dtype
    del packed.arrays[name]
    with pytest.raises(ValueError, match=f"^{name}: array is missing$"):
        launch(packed)


def test_what_is_packed_is_in_the_table(packed):
    assert set(packed.arrays) == {name for name, *_ in _C.FIELDS["simulate"]}


def test_the_packet_fidelity_gives_the_settings_of_the_table():
    assert sorted(Packet().kernel()) == sorted(name for name, *_ in _C.PACKET_SETTINGS)


@pytest.mark.parametrize(("name", "type", "about"), _C.PACKET_SETTINGS)
def test_every_setting_of_packets_has_a_type_and_is_required(name, type, about):
    assert type in {"bool", "int32", "int64", "float64"}
    assert about
    settings = {key: value for key, value in Packet().kernel().items() if key != name}
    with pytest.raises(ValueError, match=f"^{name}: setting is missing$"):
        _C.packets({}, settings, 0, 0, 1, 1)


def test_a_setting_that_the_kernel_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"^colour: the kernel has no such setting$"):
        _C.packets({}, {**Packet().kernel(), "colour": 1}, 0, 0, 1, 1)


def test_the_border_names_the_setting_of_another_type():
    with pytest.raises(TypeError, match=r"^flit: must be int32, got '64'$"):
        _C.packets({}, {**Packet().kernel(), "flit": "64"}, 0, 0, 1, 1)


@pytest.mark.parametrize("function", _C.FIELDS)
def test_a_field_has_a_dtype_a_shape_and_says_what_it_is(function):
    for name, dtype, shape, about in _C.FIELDS[function]:
        assert dtype in {"float64", "int32", "int64"}, name
        assert re.fullmatch(r"(\d+|[A-Z](\+1)?)(,(\d+|[A-Z](\+1)?))*", shape), name
        assert about, name


def test_a_pause_needs_a_place_for_what_is_left(packed):
    with pytest.raises(ValueError, match="left: must be there with `until`"):
        launch(packed, until=np.zeros(1))
