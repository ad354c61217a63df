"""Settings with which a figure takes a second or two."""

from __future__ import annotations

FLOWS = ("servers=192", "workload.count=400", "workload.load=0.5")

APPLICATION = ("seed=0", "experiment.available=[16]", "experiment.mappings=[opm]", "experiment.volume=2e5")

DRAGONFLY = (
    *("servers=24", "fabric.nodes=2", "fabric.routers=4", "fabric.groups=3", "fabric.global_links=1,3"),
    *("workload.name=halo3d,allpingpong", "workload.iterations=2"),
)

SMALL = {
    **{f"dragonfly_fig{number}": DRAGONFLY for number in range(3, 10)},
    "dragonfly_table1": DRAGONFLY,
    "dragonfly_savings": DRAGONFLY,
    "fosquare_fig4": (),
    **{f"fosquare_fig{number}": (*APPLICATION, "experiment.warmup=1e-6") for number in range(6, 10)},
    "motion_bill": (),
    "motion_fig4": ("servers=96,192",),
    "motion_fig5": ("servers=96", "experiment.sizes=[256,8192]"),
    "motion_fig6": ("servers=96", "experiment.sizes=[256,8192]"),
    "motion_fig7": ("servers=96", "experiment.sizes=[256,8192]"),
    "sirius_fig2a": (),
    "sirius_fig6a": ("servers=128",),
    "sirius_fig6b": ("servers=128",),
    "sirius_fig9": FLOWS,
    "sirius_fig10": FLOWS,
    "sirius_fig11": FLOWS,
    "sirius_fig12": FLOWS,
    "sirius_fig13": (*FLOWS, "workload.mean=4096,100e3"),
    "sirius_sensitivity": FLOWS,
    "topoopt_fig1": ("workload.batch_per_gpu=4",),
    "topoopt_fig10": ("servers=16", "degree=4"),
    "topoopt_fig11": (
        "servers=6",
        "workload=bert",
        "workload.layers=1",
        "strategy=hybrid",
        "seed=0",
        "bandwidth_gbps=25",
    ),
    "topoopt_fig12": ("servers=8", "workload.tables=8", "workload.batch_per_gpu=64", "degree=2", "seed=0,1"),
    "topoopt_fig13": ("servers=8", "workload.tables=8", "workload.batch_per_gpu=32,2048"),
    "topoopt_fig14": ("servers=16", "workload.tables=16"),
    "topoopt_fig15": ("servers=16", "workload.tables=16"),
    "topoopt_fig16": (
        "servers=16",
        "degree=4",
        "seed=0",
        "experiment.servers_per_job=4",
        "experiment.jobs=[2,4]",
        "experiment.kinds.candle.feature_layers=1",
        "experiment.kinds.candle.feature_size=512",
        "experiment.rounds=5",
    ),
    "topoopt_fig17": ("servers=8", "workload=bert", "workload.layers=1", "strategy=hybrid", "fabric.pause=1e-5,1e-2"),
    "topoopt_fig27": (
        "servers=10",
        "workload=bert",
        "workload.layers=1",
        "strategy=hybrid",
        "seed=0",
        "bandwidth_gbps=25",
    ),
    "topoopt_fig28": ("servers=4", "workload=dlrm", "workload.tables=4", "degree=2", "seed=0"),
}
