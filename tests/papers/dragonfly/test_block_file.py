"""Block files: what a mesh says comes back, each face is seen from both sides, and a damaged file is one line."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topoflow.cli import main
from topoflow.digest import digest
from topoflow.fields import LARGEST_WORLD
from topoflow.papers.dragonfly.motifs import block_file
from topoflow.papers.dragonfly.motifs.block_file import BLOCK, HEADER, MAX_BLOCKS, read_blocks, write_blocks
from topoflow.papers.dragonfly.motifs.mesh import BOUNDARY, MAX_PLACES, NO_BLOCK, DomainBlocks, refined, sphere
from topoflow.papers.dragonfly.motifs.motif import Motif
from topoflow.workload.base import NO_TARGET
from topoflow.workload.gpu import Gpu

GPU = Gpu("none", {"float32": 1.0}, 1.0, 1.0, 1.0)
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "write_blocks.py"

# Two coarse blocks along x, the second cut into eight: (x, y, z) of level 1 has number 2 + x + 4 y + 8 z, x is 2 or 3.
TINY = """9 1 2 1 1
1
0 0 -2 1 -2 -2 -2 -2
8
4 1 0 1 -2 1 -2 1
5 1 1 -2 -2 1 -2 1
8 1 0 1 1 -2 -2 1
9 1 1 -2 1 -2 -2 1
12 1 0 1 -2 1 1 -2
13 1 1 -2 -2 1 1 -2
16 1 0 1 1 -2 1 -2
17 1 1 -2 1 -2 1 -2
"""
COARSE = "2 0 2 1 1\n1\n0 0 -2 0 -2 -2 -2 -2\n1\n1 0 0 -2 -2 -2 -2 -2\n"


def text(blocks: DomainBlocks) -> str:
    number, (levels, _) = blocks.numbers(blocks.level, blocks.place), blocks.neighbours
    lines = [(len(number), blocks.level.max(), *blocks.size)]
    for rank in range(blocks.ranks):
        indices = np.flatnonzero(blocks.rank == rank)
        lines += [(len(indices),), *((number[index], blocks.level[index], *levels[index]) for index in indices)]
    return "".join(" ".join(map(str, line)) + "\n" for line in lines)


def read(folder: Path, content: str | bytes) -> DomainBlocks:
    path = folder / "mesh.amr"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_blocks(path)


def binary(folder: Path, blocks: DomainBlocks) -> bytes:
    write_blocks(folder / "mesh.amr", blocks)
    return (folder / "mesh.amr").read_bytes()


def check_laws(blocks: DomainBlocks) -> None:
    """They fill the domain, differ by one level at most, and see each other."""
    assert sum(8.0**-level for level in blocks.level.tolist()) == pytest.approx(np.prod(blocks.size))
    levels, neighbours = blocks.neighbours
    steps = np.where(levels == BOUNDARY, 0, levels - blocks.level[:, None])
    assert np.abs(steps).max(initial=0) <= 1
    one, other = blocks.faces()
    pairs = list(zip(one.tolist(), other.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) == {(b, a) for a, b in pairs}
    assert ((neighbours != NO_BLOCK).sum(axis=2) == np.where(levels == BOUNDARY, 0, np.where(steps == 1, 4, 1))).all()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ranks=st.integers(1, 60), level=st.integers(0, 3), is_text=st.booleans())
def test_a_file_that_is_written_is_read_as_the_same_blocks_and_faces(
    tmp_path: Path, ranks: int, level: int, is_text: bool
) -> None:
    blocks = sphere(ranks, level)
    check_laws(blocks)
    restored = read(tmp_path, text(blocks) if is_text else binary(tmp_path, blocks))
    assert (restored.ranks, restored.size) == (blocks.ranks, blocks.size)
    for field in ("level", "place", "rank"):
        assert getattr(restored, field).tolist() == getattr(blocks, field).tolist()
    mesh, summed = restored.mesh(), refined(ranks, level)
    assert mesh.blocks.tolist() == summed.blocks.tolist()
    faces = np.zeros((2, ranks, ranks))
    for matrix, domain in zip(faces, (mesh, summed), strict=True):
        np.add.at(matrix, (domain.source, domain.target), domain.faces)
    assert faces[0].tolist() == faces[1].tolist() == faces[0].T.tolist()


def test_text_and_binary_files_have_the_same_mesh(tmp_path: Path) -> None:
    first = read(tmp_path, TINY)
    second = read(tmp_path, binary(tmp_path, first))
    assert text(first) == text(second) == TINY
    assert text(read(tmp_path, TINY.replace("\n", "\r\n") + "\n\n")) == TINY


def test_the_bytes_of_a_file_are_those_that_ember_reads(tmp_path: Path) -> None:
    """Ranks, blocks, the finest level, the size; where ranks begin; of each rank its blocks, of 11 B each."""
    content = binary(tmp_path, read(tmp_path, COARSE))
    expected = struct.pack("<IIBIII", 2, 2, 0, 2, 1, 1) + struct.pack("<QQ", 37, 52)  # 21 + 2 * 8; 37 + 4 + 11
    expected += struct.pack("<IIb6b", 1, 0, 0, -2, 0, -2, -2, -2, -2) + struct.pack("<IIb6b", 1, 1, 0, 0, *[-2] * 5)
    assert content == expected
    assert (HEADER.itemsize, BLOCK.itemsize) == (21, 11)


def test_no_number_of_ranks_is_taken_for_gzip(tmp_path: Path) -> None:
    """0x8b1f ranks begin as gzip does."""
    blocks = sphere(0x8B1F, 0)
    content = binary(tmp_path, blocks)
    assert content[:2] == b"\x1f\x8b"
    assert read_blocks(tmp_path / "mesh.amr").ranks == 0x8B1F


def test_a_face_is_a_message_and_each_of_four_finer_blocks_has_one(tmp_path: Path) -> None:
    """10^2 cells * 40 variables * 8 B = 32,000 B, four times each way; 0 sends in the order of y, then z."""
    (tmp_path / "mesh.amr").write_text(TINY)
    motif = Motif(GPU, "amr3d", blocks=str(tmp_path / "mesh.amr")).build()
    messages = motif.messages(2)
    sent = messages.target != NO_TARGET
    pairs = list(zip(messages.source[sent].tolist(), messages.target[sent].tolist(), strict=True))
    assert sorted(pairs) == [(0, 1)] * 4 + [(1, 0)] * 4
    assert set(messages.bytes[sent].tolist()) == {32_000.0}
    assert motif.mesh is not None
    assert motif.mesh.blocks.tolist() == [1, 8]
    blocks = read_blocks(tmp_path / "mesh.amr")
    _, neighbours = blocks.neighbours
    assert neighbours[0, 1].tolist() == [1, 3, 5, 7]  # of x up: numbers 4, 8, 12, 16


@settings(max_examples=20)
@given(ranks=st.integers(2, 60), level=st.integers(0, 2))
def test_two_ranks_send_each_other_as_much(ranks: int, level: int) -> None:
    mesh = sphere(ranks, level).mesh()
    matrix = np.zeros((ranks, ranks))
    np.add.at(matrix, (mesh.source, mesh.target), mesh.faces)
    assert (matrix == matrix.T).all()
    assert np.trace(matrix) == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("9 1 2 1 1", "9 1 2 1", r"mesh.amr:1: must be 5 whole numbers, blocks, .*, got '9 1 2 1'"),
        ("9 1 2 1 1", "9 1 2 1 x", r"mesh.amr:1: must be 5 whole numbers, .*, got '9 1 2 1 x'"),
        ("9 1 2 1 1", "8 1 2 1 1", r"mesh.amr:1: blocks: must be the 9 that ranks have, got 8"),
        ("9 1 2 1 1", "9 0 2 1 1", r"mesh.amr:5: level: must be within 0\.\.0, got 1"),
        ("9 1 2 1 1", "9 -1 2 1 1", r"mesh.amr:1: finest level: must be at least 0, got -1"),
        ("9 1 2 1 1", "9 1 0 1 1", r"mesh.amr:1: blocks along x, y, z: must be positive, and .*, got 0 1 1"),
        ("9 1 2 1 1", "9 1 65536 65536 2", r"mesh.amr:1: blocks along x, y, z: .* 4294967296 .*, got 65536 65536 2"),
        ("9 1 2 1 1", "9 1 3 1 1", r"mesh.amr:5: block: must not be a part of another one, got 4"),
        ("1\n0 0", "-1\n0 0", r"mesh.amr:2: blocks of rank 0: must be within 0\.\.10, got -1"),
        ("8\n4 1", "4000000000\n4 1", r"mesh.amr:4: blocks of rank 1: must be within 0\.\.8, got 4000000000"),
        ("8\n4 1", "9\n4 1", r"mesh.amr:4: blocks of rank 1: must be within 0\.\.8, got 9"),
        ("0 0 -2 1", "1 0 -2 1", r"mesh.amr:5: block: must not be a part of another one, got 4"),
        ("5 1 1", "4 1 1", r"mesh.amr:6: block: must be in the file once, got 4"),
        ("17 1", "18 1", r"mesh.amr:12: block: must be within the numbers of its level, got 18"),
        ("0 0 -2 1", "0 0 -2 0", r"mesh.amr:3: x up: must be 1, the level of what is there, got 0"),
        ("0 0 -2 1", "0 0 0 1", r"mesh.amr:3: x down: must be -2, the end of the domain, got 0"),
        ("5 1 1 -2 -2 1", "5 1 1 -2 -2 2", r"mesh.amr:6: y up: must be 1, the level of what is there, got 2"),
        ("17 1 1", "17 1 99999999999", r"mesh.amr:12: must be 8 whole numbers, a block's number, level, .* got '17 "),
    ],
)
def test_a_file_that_breaks_a_law_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert TINY.count(old) == 1 or old == "1\n0 0"
    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path))}/{message}"):
        read(tmp_path, TINY.replace(old, new, 1))


@pytest.mark.parametrize(
    ("at", "kind", "value", "message"),
    [
        (0, "<I", 0, r"mesh.amr: byte 0: ranks: must be within 1\.\.10 for a file of 144 bytes, got 0"),
        (0, "<I", 16_000_000, r"mesh.amr: byte 0: ranks: must be within 1\.\.10 for .*, got 16000000"),
        (4, "<I", 2**32 - 1, r"mesh.amr: byte 0: blocks: must be the 9 that ranks have, got 4294967295"),
        (13, "<I", 2**32 - 1, r"mesh.amr: byte 0: blocks along x, y, z: .* 4294967296 blocks together, got .*"),
        (29, "<Q", 2**63, r"mesh.amr: byte 29: begin of rank 1: must be 52, .*, got 9223372036854775808"),
        (37, "<I", 2**32 - 1, r"mesh.amr: byte 37: blocks of rank 0: must be within 0\.\.9, got 4294967295"),
        (52, "<I", 7, r"mesh.amr: byte 133: end: must be that of the last rank's blocks, got 11 bytes more"),
        (60, "<b", -1, r"mesh.amr: byte 56: level: must be within 0\.\.1, got -1"),
        (61, "<b", 1, r"mesh.amr: byte 56: x down: must be 0, the level of what is there, got 1"),
    ],
)
def test_a_binary_file_that_breaks_a_law_is_refused(
    tmp_path: Path, at: int, kind: str, value: int, message: str
) -> None:
    content = bytearray(binary(tmp_path, read(tmp_path, TINY)))
    struct.pack_into(kind, content, at, value)
    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path))}/{message}"):
        read(tmp_path, bytes(content))


def test_a_mesh_with_a_hole_is_refused(tmp_path: Path) -> None:
    """Whatever its neighbours say is there."""
    message = r":5: x up: must be the level of the neighbour, but no block of levels 0\.\.1 is there, got "
    for said in ("-2", "-3", "0"):
        wrong = COARSE.replace("2 0 2 1 1", "2 0 3 1 1").replace("1 0 0 -2 -2 -2 -2 -2", f"1 0 0 {said} -2 -2 -2 -2")
        with pytest.raises(ValueError, match=message + said):
            read(tmp_path, wrong)


def test_a_long_line_is_not_divided_into_all_of_its_words() -> None:
    line = b"11 " * 2**20
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"mesh.amr:1: must be 5 whole numbers, .*, got '11 11 11"):
        block_file._row("mesh.amr:1", line, 5, "the header")
    assert tracemalloc.get_traced_memory()[1] < 2 * len(line)  # all words are 50 MB
    tracemalloc.stop()


def test_a_file_of_more_lines_than_blocks_may_be_is_refused_before_it_is_divided(tmp_path: Path) -> None:
    limit = MAX_BLOCKS + LARGEST_WORLD
    with pytest.raises(ValueError, match=rf"mesh.amr:{limit + 1}: lines: must be at most {limit}, got {limit + 1}"):
        read(tmp_path, b"1\n" * (limit + 1))


def test_a_rank_without_blocks_sends_nothing(tmp_path: Path) -> None:
    (tmp_path / "mesh.amr").write_text("2 0 2 1 1\n2\n0 0 -2 0 -2 -2 -2 -2\n1 0 0 -2 -2 -2 -2 -2\n0\n")
    messages = Motif(GPU, "amr3d", blocks=str(tmp_path / "mesh.amr")).build().messages(2)
    assert (messages.target == NO_TARGET).all()


def check_damaged(folder: Path, content: bytes) -> None:
    """A file that was damaged is one line, or has a mesh that obeys the laws."""
    message = ""
    try:
        check_laws(read(folder, content))
    except ValueError as error:
        message = str(error)
    place = re.escape(str(folder / "mesh.amr")) + r": ?((byte )?\d+: |must be a complete gzip file)"
    assert not message or re.fullmatch(f"{place}.*, got .*", message)


NEARLY = st.sampled_from([-3, -2, -1, 0, 1, 2, 3, 7, 8, 10, 127, 255, 2**31, 2**32 - 1, 2**32, 9_999_999_999])


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ranks=st.integers(1, 9),
    level=st.integers(0, 2),
    changes=st.lists(st.tuples(st.integers(0, 10_000), NEARLY), max_size=3),
    cut=st.one_of(st.none(), st.integers(0, 10_000)),
)
def test_a_damaged_text_is_one_line_or_a_mesh(
    tmp_path: Path, ranks: int, level: int, changes: list[tuple[int, int]], cut: int | None
) -> None:
    words = re.split(r"(\s)", text(sphere(ranks, level)))
    for at, value in changes:
        words[2 * (at % (len(words) // 2))] = str(value)
    content = "".join(words).encode()
    check_damaged(tmp_path, content if cut is None else content[: cut % len(content)])


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ranks=st.integers(1, 9),
    level=st.integers(0, 2),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
    cut=st.one_of(st.none(), st.integers(0, 10_000)),
)
def test_a_damaged_binary_file_is_one_line_or_a_mesh(
    tmp_path: Path, ranks: int, level: int, changes: list[tuple[int, int]], cut: int | None
) -> None:
    content = bytearray(binary(tmp_path, sphere(ranks, level)))
    for at, value in changes:
        content[at % min(len(content), 400)] = value  # most of it in the header and the first blocks
    check_damaged(tmp_path, bytes(content if cut is None else content[: cut % len(content)]))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(max_size=200), st.text("0123456789- \n\t\0x", max_size=200).map(str.encode)))
def test_any_bytes_are_one_line_or_a_mesh(tmp_path: Path, content: bytes) -> None:
    check_damaged(tmp_path, content)


def test_a_job_with_another_file_is_another_job(tmp_path: Path) -> None:
    """Figures keep their points by what they were computed from: a file counts by its content."""
    path = tmp_path / "mesh.amr"
    digests = []
    for content in (COARSE, COARSE, TINY):
        path.write_text(content)
        digests.append(digest(Motif(GPU, "amr3d", blocks=str(path)).build()))
    assert digests[0] == digests[1] != digests[2]


def test_a_file_belongs_to_as_many_servers_as_it_has_ranks(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "mesh.amr"
    path.write_text(TINY)
    words = ["compare", "workload=motif", "workload.name=amr3d", f"workload.blocks={path}", "fabric=ideal_switch"]
    assert main([*words, "servers=2", f"out={tmp_path / 'out'}"]) == 0
    capsys.readouterr()
    assert main([*words, "servers=3"]) == 2
    assert f"servers: must be the 2 ranks of {path}, got 3" in capsys.readouterr().err
    assert main([*words, "servers=2", "workload.level=1"]) == 2
    assert f"workload.level: must be null with workload.blocks={path}, got 1" in capsys.readouterr().err
    assert main([*words, "servers=2", "workload.name=halo3d"]) == 2
    assert "workload.blocks: must be null with workload.name=halo3d, got" in capsys.readouterr().err
    assert main([*words, "servers=2", f"workload.blocks={path}.none"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_example_writes_a_mesh_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "mesh.amr"
    subprocess.run([sys.executable, EXAMPLE, "12", "2", path], check=True)
    assert text(read_blocks(path)) == text(sphere(12, 2))


@pytest.mark.parametrize(("ranks", "level"), [("0", "1"), ("8", "-1"), ("8", "99")])
def test_the_example_refuses_in_one_line(tmp_path: Path, ranks: str, level: str) -> None:
    ran = subprocess.run(
        [sys.executable, EXAMPLE, "--", ranks, level, tmp_path / "mesh.amr"], capture_output=True, text=True
    )
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1)
    assert not list(tmp_path.iterdir())


def test_a_level_beyond_memory_is_refused() -> None:
    assert MAX_PLACES == 8**8
    for ranks, most in ((8, 8), (110_592, 3)):
        with pytest.raises(ValueError, match=rf"^workload.level: must be at most {most} on {ranks} ranks, got 99"):
            sphere(ranks, 99)
