"""Figures of the tapered dragonfly, small, and what they say at the published size."""

from __future__ import annotations

from typing import Any

import pytest

from tests.papers.small import DRAGONFLY
from topoflow.papers.dragonfly.motifs.motif import MOTIFS
from topoflow.study.figures.base import where
from topoflow.study.figures.load import load

pytestmark = pytest.mark.usefixtures("without_pixels")


def test_ports_of_a_dragonfly_are_counted_once_and_their_shares_are_of_the_whole_run(figure: Any) -> None:
    rows = figure("dragonfly_fig4", *DRAGONFLY)["rows"]
    sizes = {"local": 24, "group": 3 * 4 * 3, "global": {1: 6, 3: 18}}  # of 3 groups of 4 routers with 2 servers each
    for cables in (1, 3):
        for kind, size in sizes.items():
            selected = where(rows, kind=kind, **{"fabric.global_links": cables, "workload.name": "halo3d"})
            for series in {row["series"] for row in selected}:
                ports = where(selected, series=series)
                assert sum(row["ports"] for row in ports) == (size if isinstance(size, int) else size[cables])
                assert all(0 <= row["active_cell"] + row["stalled_cell"] <= 51 for row in ports)
                assert ports[0]["active"] + ports[0]["stalled"] + ports[0]["idle"] == pytest.approx(1)


def test_the_median_port_and_long_intervals_are_counted_over_all_kinds_of_ports(figure: Any) -> None:
    result = figure("dragonfly_table1", *DRAGONFLY)
    assert len(result["summary"]) == 2 * 2 * 2 * 2  # motifs, cables, bandwidths, models
    for line in result["summary"]:
        where_from = {"workload.name": line["motif"], "fabric.global_links": line["cables"], "series": line["series"]}
        kinds: dict[Any, Any] = {row["kind"]: row for row in where(result["rows"], **where_from)}
        switches = [kinds[kind] for kind in ("local", "group", "global")]
        assert line["idle_intervals"] == sum(row["idle_intervals"] for row in switches)
        assert line["over_1us"] * line["idle_intervals"] == pytest.approx(sum(row["idle_1us"] for row in switches))
        assert line["over_1ms"] * line["idle_intervals"] == pytest.approx(sum(row["idle_1ms"] for row in switches))
        assert 0 <= line["over_1ms"] <= line["over_1us"] <= 1
        medians = [row["idle_median"] for row in switches]
        assert min(medians) <= line["idle_median"] <= max(medians)


PUBLISHED = {"local_ports": 110_592, "group_ports": 96 * 48 * 47, "nics": 110_592}  # at 24 x 48 x 96


def of_published(cables: int, idle: float, motif: str) -> list[dict[str, Any]]:
    """Rows of a network of the published size whose ports are idle for this share of the run."""
    fields = {"series": "S", "fabric.global_links": cables, "workload.name": motif, "runtime": 1.0, **PUBLISHED}
    fields |= {"global_ports": cables * 95 * 96, "idle": idle, "idle_intervals": 200, "idle_1us": 50}
    return [{**fields, "kind": kind} for kind in ("local", "group", "global", "all", "nic")]


def test_savings_are_those_of_the_paper_at_its_size() -> None:
    """IV-C.3 and 4: 164, 246, 300 kW; 0.36 MW or 1.8 % of the machine, 0.60 MW or 3 %."""
    experiment: Any = load("dragonfly_savings")
    rows = [row for cables in (1, 3, 6, 12) for idle in (0.9, 0.75) for row in of_published(cables, idle, f"{idle}")]
    by_saving = {row["saving"]: row for row in experiment.summary(rows)}
    expected = {"tapered to 6": 164e3, "tapered to 3": 246e3, "tapered to 1": 300e3}
    expected |= {"narrow": 0.36e6, "narrow, models": 0.60e6}
    for name, watts in expected.items():
        assert by_saving[name]["power"] == pytest.approx(watts, rel=0.01)
    assert by_saving["narrow"]["of_budget"] == pytest.approx(0.018, rel=0.01)
    assert by_saving["narrow, models"]["of_budget"] == pytest.approx(0.03, rel=0.01)
    every = 4 * 0.5 * (327_168 + 110_592) + 3 * 109_440  # W of all ports
    assert by_saving["proportional"]["power"] == pytest.approx(0.75 * every)  # of the motif that leaves the least idle
    assert by_saving["proportional"]["motif"] == "0.75"
    assert by_saving["dynamic"]["power"] == pytest.approx(0.75 * every - by_saving["narrow, models"]["power"])
    assert by_saving["dynamic"]["over_1us"] == 0.25


def test_shares_of_what_is_saved_do_not_depend_on_the_size_of_the_network() -> None:
    experiment: Any = load("dragonfly_savings")
    rows = [row for cables in (1, 12) for row in of_published(cables, 0.9, "halo3d")]
    counts = (*PUBLISHED, "global_ports")
    small = [{**row, **{key: row[key] // 96 for key in counts}} for row in rows]
    for full, part in zip(experiment.summary(rows), experiment.summary(small), strict=True):
        for share in ("of_links", "of_budget"):
            assert part[share] == pytest.approx(full[share])


def test_a_figure_of_all_motifs_is_of_the_papers_88_simulations() -> None:
    """III-C: 11 motifs x 1, 3, 6, 12 cables x 12.5 and 25 GB/s, which are the series by the model of the study."""
    experiment = load("dragonfly_fig3")
    names, cables = (experiment.grid[key].split(",") for key in ("workload.name", "fabric.global_links"))
    assert {*MOTIFS} - {*names} == {"alltoall", "barrier", "incast"}  # others that Ember has
    assert cables == ["1", "3", "6", "12"]
    assert [series for series in experiment.series if "hardware" not in series] == ["12.5 GB/s", "25 GB/s"]
    assert (experiment.grid["packet.model"], experiment.grid["workload.library"]) == ("sst", "firefly")
    assert len(names) * 4 * 2 == 88


def test_the_published_size_is_one_setting() -> None:
    assert load("dragonfly_fig3").grid["servers"] == 504
    full = load("dragonfly_fig3", ["experiment.scale=full"]).grid
    sizes = [full[key] for key in ("fabric.nodes", "fabric.routers", "fabric.groups")]
    assert (full["servers"], sizes) == (110_592, [24, 48, 96])
    with pytest.raises(ValueError, match=r"experiment.scale: must be one of small, full, got 'large'"):
        load("dragonfly_fig3", ["experiment.scale=large"])


def test_power_of_links_is_that_of_the_paper_at_its_size() -> None:
    """IV-C: 0.65 MW with 4X links, 0.76 MW of NICs, 0.33 MW of optical links with 12 cables between groups."""
    experiment: Any = load("dragonfly_fig9")
    counts = PUBLISHED
    assert counts["local_ports"] + counts["group_ports"] == 327_168
    for cables, megawatts in ((12, 0.33), (6, 0.164), (3, 0.082)):
        optical = {**counts, "global_ports": cables * 95 * 96}
        of_links = experiment.power(optical) - experiment.power({**counts, "global_ports": 0})
        assert of_links == pytest.approx(megawatts * 1e6, rel=0.01)
    assert experiment.power({**counts, "nics": 0, "global_ports": 0}) == pytest.approx(0.65e6, rel=0.01)
    assert experiment.power({**counts, "global_ports": 12 * 95 * 96}) == pytest.approx(1.73e6, rel=0.01)
    nics = experiment.power({**counts, "global_ports": 0}) - experiment.power({**counts, "nics": 0, "global_ports": 0})
    assert nics == pytest.approx(0.76e6, rel=0.01)
