"""Laws of nodes: presets, NCCL's topology files, and what is refused."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from topoflow.cli import main
from topoflow.hardware import Device, Link, Node, Port
from topoflow.hardware.presets import PRESETS, preset

FILES = Path(__file__).resolve().parents[3] / "shared" / "data" / "nccl_topo_xml"
HEAD = '<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel">'
GPU = '<pci busid="0000:0{}:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="90">'
NVLINK = '<nvlink target="0000:ff:00.0" count="18" tclass="0x068000"/>'
NIC = '<pci busid="0000:05:00.0" class="0x020700"><nic><net name="mlx5_0" speed="400000"/></nic></pci>'
COMPLETE = (
    HEAD + GPU.format(1) + NVLINK + "</gpu></pci>" + GPU.format(2) + NVLINK + "</gpu></pci>" + NIC + "</cpu></system>"
)


def topology(name: str) -> Node:
    path = FILES / name
    if not path.exists():
        pytest.skip("the topology files of NCCL are not here")
    return Node.from_nccl_xml(path)


@pytest.mark.parametrize("name", PRESETS)
def test_every_gpu_of_a_preset_reaches_every_other_and_a_port(name: str) -> None:
    node = preset(name)
    assert node.name == name
    for gpu in node.gpus:
        assert node.ports_of(gpu)
        assert all(node.path(gpu, other) for other in node.gpus if other != gpu)


@pytest.mark.parametrize("name", PRESETS)
def test_gpus_share_the_ports_of_a_preset_evenly(name: str) -> None:
    node = preset(name)
    users = [sum(port in node.ports_of(gpu) for gpu in node.gpus) for port in node.ports]
    assert max(users) - min(users) == 0


@pytest.mark.parametrize("name", PRESETS)
def test_a_path_is_the_same_in_both_directions(name: str) -> None:
    node = preset(name)
    for gpu in node.gpus[:4]:
        for device in (*node.gpus[::7], *(port.nic for port in node.ports_of(gpu))):
            assert node.path_kind(gpu, device) == node.path_kind(device, gpu)
            assert set(node.path(gpu, device)) == set(node.path(device, gpu))


@pytest.mark.parametrize(
    "path", sorted(FILES.glob("*-topo.xml")) + sorted(FILES.glob("simccl*.xml")), ids=lambda p: p.stem
)
def test_every_topology_file_loads(path: Path) -> None:
    node = Node.from_nccl_xml(path)
    assert len(node.devices) > 2
    assert node.gpus or node.notes


@pytest.mark.parametrize(("file", "name"), [("azure_ndv4-topo.xml", "dgx_a100"), ("azure_ndv5-topo.xml", "hgx_h100")])
def test_the_file_of_a_machine_agrees_with_its_preset(file: str, name: str) -> None:
    """A cloud's file has the PCIe tree; NVLinks and speeds of ports are left to NCCL."""
    read, shipped = topology(file), preset(name)
    for kind in ("GPU", "NIC", "PCI", "CPU"):
        assert len(read.of_kind(kind)) == len(shipped.of_kind(kind))
    for mine, counterpart in zip(read.gpus, shipped.gpus, strict=True):
        assert [port.nic for port in read.ports_of(mine)] == [port.nic for port in shipped.ports_of(counterpart)]
        for nic in read.of_kind("NIC"):
            assert read.path_kind(mine, nic) == shipped.path_kind(counterpart, nic)
            assert [link.bandwidth for link in read.path(mine, nic)] == pytest.approx(
                [link.bandwidth for link in shipped.path(counterpart, nic)]
            )
    assert read.cpu == shipped.cpu


def test_a_dump_of_nccl_agrees_with_the_nvlinks_of_its_preset() -> None:
    read, shipped = topology("simccl_8A100_4CX6.xml"), preset("dgx_a100")
    assert (read.gpu, read.sm, read.switched) == (shipped.gpu, shipped.sm, shipped.switched)
    assert read.nvlink_bandwidth(read.gpus[0]) == shipped.nvlink_bandwidth(shipped.gpus[0])
    assert {port.bandwidth for port in read.ports} == {port.bandwidth for port in shipped.ports}


def test_a_graph_of_channels_is_no_topology() -> None:
    with pytest.raises(ValueError, match=r"azure_ncv4-graph.xml: .*NCCL_GRAPH_FILE"):
        topology("azure_ncv4-graph.xml")


def test_a_file_that_is_cut_off_anywhere_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.xml"
    for length in range(len(COMPLETE) - 1):
        path.write_text(COMPLETE[:length])
        with pytest.raises(ValueError, match=r"cut\.xml") as refused:
            Node.from_nccl_xml(path)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("<system", "<system2", r"<system2>"),
        ("32.0 GT/s", "fast", "link_speed"),
        ('link_width="16"', 'link_width="-1"', "link_width"),
        ('count="18"', 'count="0"', "count"),
        ('count="18"', 'count="1e3"', "count"),
        ('sm="90"', 'sm="ninety"', "sm"),
        ('speed="400000"', 'speed="nan"', "speed"),
        ('tclass="0x068000"', 'tclass="0x030200"', "target"),
        ("0000:01", "0000:02", "busid"),
        (' busid="0000:01:00.0"', "", "busid"),
        ("<cpu ", "<gpu0 ", "XML"),
        (HEAD, "<!DOCTYPE x []>" + HEAD, "document type"),
    ],
)
def test_nonsense_in_a_file_is_named_in_one_line(tmp_path: Path, old: str, new: str, field: str) -> None:
    path = tmp_path / "bad.xml"
    text = COMPLETE.replace(old, new)
    assert text != COMPLETE
    path.write_text(text if new != "<system2" else text.replace("</system>", "</system2>"))
    with pytest.raises(ValueError, match=f"bad.xml.*{re.escape(field)}") as refused:
        Node.from_nccl_xml(path)
    assert "\n" not in str(refused.value)


def test_a_whole_file_has_its_nvlinks_and_the_speed_of_its_port(tmp_path: Path) -> None:
    path = tmp_path / "whole.xml"
    path.write_text(COMPLETE)
    node = Node.from_nccl_xml(path)
    assert node.notes == ()
    assert [node.nvlink_bandwidth(gpu) for gpu in node.gpus] == [450e9, 450e9]
    assert [port.bandwidth for port in node.ports] == [50e9]


def test_a_gpu_without_a_way_to_a_nic_is_refused() -> None:
    gpus = Device("GPU", 0), Device("GPU", 1)
    link, port = Link((gpus[0], gpus[1]), "NVL", 1e9, 0.0), Port(Device("NIC", 0), 0, 1e9)
    with pytest.raises(ValueError, match="node x: GPU 0: must have a way to a NIC"):
        Node("x", "", 0, "", (link,), (port,))


def test_the_command_prints_and_draws_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "node.png"
    assert main(["node", "gh200", "--out", str(picture)]) == 0
    assert "4 GH200" in capsys.readouterr().out
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    assert width > 500
    assert height > 500


@pytest.mark.parametrize("words", [["dgx_h1"], ["missing.xml"], ["gh200", "--out", "node.pdf"]])
def test_the_command_refuses_in_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
