"""The arguments and the help of every verb. Nothing here imports what a verb needs to run, so that help is fast.

A verb is a function ``_NAME`` here and a module NAME in ``topoflow.cli`` with ``run(arguments)``.
"""

from __future__ import annotations

import argparse
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeAlias

from topoflow.capture import formats
from topoflow.printable import one_line
from topoflow.study.configure.options import experiments


class Parser(argparse.ArgumentParser):
    """An argument that does not exist is one line too: the usage is in ``--help``."""

    def error(self, message: str) -> NoReturn:
        dashed = re.match(r"unrecognized arguments: --(([\w./]+)=\S*)", message)
        if dashed is not None:
            key = f"a key has no dashes, as in {dashed[1]} (in a sweep of W&B ${{args_no_hyphens}} writes it so)"
            message = f"--{dashed[2]}: {key}, got --{dashed[1]}"
        elif (flag := re.match(r"unrecognized arguments: --([\w./]+)$", message)) is not None:
            message = f"--{flag[1]}: no such flag; a key has no dashes, as in {flag[1]}=VALUE"
        elif "invalid choice: 'run'" in message:
            message = "run: a job is recorded by [python | torchrun ...] -m topoflow.capture run"
        self.exit(2, f"{one_line(f'{self.prog}: {message}; see {self.prog} --help')}\n")


Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Arguments: TypeAlias = Callable[[argparse.ArgumentParser], None]  # adds them to the parser of a verb
VERBS: dict[str, Callable[[Subparsers], None]] = {}  # in the order of the functions of this module
VERBS_OF_HYDRA = ("compare", "search", "place")  # applications of Hydra, with its flags


def parse(version: str, words: list[str] | None) -> argparse.Namespace:
    """Return the arguments of a command line; None: of this process. Keys stand before and after options."""
    root_parser = parser(version)
    arguments, rest = root_parser.parse_known_args(words)
    keys: list[str] | None = vars(arguments).get("overrides", vars(arguments).get("settings"))
    unknown = rest if keys is None else [word for word in rest if word.startswith("-")]
    if unknown:
        root_parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if keys is not None:
        keys.extend(rest)
    return arguments


def parser(version: str) -> argparse.ArgumentParser:
    """Return the parser of the command line. ``verb`` of the parsed arguments names the module to run."""
    root_parser: argparse.ArgumentParser = Parser(
        prog="topoflow",
        description="Which network and which way of splitting a training job make an iteration fastest, at what price?",
        epilog="Start with: topoflow compare",
    )
    root_parser.add_argument("--version", action="version", version=f"topoflow {version}")
    subparsers = root_parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for add in VERBS.values():
        add(subparsers)
    return root_parser


def _verb(help: str, description: str | None, epilog: str) -> Callable[[Arguments], Arguments]:
    """Make a verb NAME of a function ``_NAME`` that adds its arguments."""

    def register(add_arguments: Arguments) -> Arguments:
        name = add_arguments.__name__.removeprefix("_")
        VERBS[name] = lambda subparsers: add_arguments(_subparser(subparsers, name, help, description, epilog))
        return add_arguments

    return register


def _subparser(
    subparsers: Subparsers, name: str, help: str, description: str | None, epilog: str
) -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    return subparsers.add_parser(name, help=help, description=description, epilog=epilog, formatter_class=layout)


@_verb(
    "which network runs a job how fast, and at what price",
    "Simulate one training step on every combination of the keys given; without keys, a DLRM on 16 "
    "servers over several fabrics. out=DIR also writes result.json, Parquet tables, pictures and report.html.",
    """\
A comma sweeps a key; all of Hydra's override syntax works (choice(), range(), glob(), quotes). The keys are explained
by `topoflow config compare`, and `topoflow config fabric` (workload, gpu, strategy, ...) lists presets. Examples:

  topoflow compare
  topoflow compare fabric=ideal_switch,fat_tree,topoopt bandwidth_gbps=25,100 out=runs/dlrm
  topoflow compare workload=bert strategy=data_parallel servers=8,16 'fabric=glob(*,exclude=links)'
  topoflow compare workload=captured workload.trace=examples/ddp_4_ranks.jsonl.gz
  topoflow compare fabric=fat_tree,topoopt fail.each=fiber
jobs=FILE compares several jobs on one cluster, alone and together: docs/clusters.md
""",
)
def _compare(parser: argparse.ArgumentParser) -> None:
    _add_keys_and_flags_of_hydra(parser, "compare")


@_verb(
    "how to split a job, and how to wire its network, so that it runs fastest",
    "Search strategy and network together (TopoOpt's alternating optimization). out=DIR gets "
    "plan.json, result.json and report.html.",
    """\
A comma makes several searches; search.objective then chooses. A search that is stopped (Ctrl-C) continues with the same
command and out=DIR, and finds what it would have found. Examples:

  topoflow search workload=dlrm servers=8 degree=4 bandwidth_gbps=100 seed=7 out=runs/dlrm8
  topoflow search workload=bert servers=4 fabric=topoopt,fat_tree search.proposals=200 out=runs/bert
  topoflow search workload=transformer strategy=parallel servers=8
  topoflow search servers=4 bandwidth_gbps=25,100 search.objective=pareto search.proposals=200 out=runs/front
""",
)
def _search(parser: argparse.ArgumentParser) -> None:
    _add_keys_and_flags_of_hydra(parser, "search")


@_verb(
    "what a run has left, also one that was cut off, and what a dataset of a sweep says",
    "Of a folder of a run: whether it is finished, works or was cut off, what is missing and how to continue; where it "
    "has no report.html, one is written of what there is, which the run replaces when it is continued. Of a dataset "
    "that `topoflow compare out=NAME.parquet` writes, also before it is complete: the front, the best of each factor, "
    "an explorer, as one page.",
    """\
A dataset needs DuckDB (pip install 'topoflow[dataset]'), and its rows are never all read into memory. Examples:

  topoflow compare fabric=ring,torus servers=4 out=runs/small
  topoflow report runs/small
  topoflow compare 'bandwidth_gbps=range(1,1001)' 'latency_us=range(0,50)' fidelity=bound out=runs/worlds.parquet
  topoflow compare fabric=fat_tree,torus servers=64,128 executor=processes   (docs/executors.md)
  topoflow report runs/worlds.parquet
""",
)
def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of a run, as out= named it, or NAME.parquet")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="of the page (default: report.html in the folder; of a dataset NAME.html next to it)",
    )


@_verb(
    "a figure of a paper, drawn from its own simulations",
    "Simulate all points of a published figure, and draw it. Figures: " + ", ".join(experiments()) + ".",
    """\
Keys are those of `topoflow compare` but fail; a comma sweeps one. What is not given is as in the paper.
`series` chooses among the lines of the figure; search.KEY=VALUE, as of `topoflow search`, searches the strategy of each
point. Each point is stored in DIR/checkpoint.jsonl when it is done: the same command continues where it was stopped.

  topoflow experiment topoopt_fig13 servers=16 workload.tables=16 workload.batch_per_gpu=64,2048 out=runs/fig13
  topoflow experiment topoopt_fig11 servers=8 workload=vgg16 seed=0 series=TopoOpt,Fat-tree out=runs/fig11
""",
)
def _experiment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="FIGURE", help="a file of topoflow/papers/PAPER/experiment")
    parser.add_argument(
        "overrides",
        nargs="*",
        default=[],  # else argparse calls them required where there is no figure
        metavar="KEY=VALUE",
        help="out=DIR, keys of configs/compare.yaml, search.KEY, and experiment.KEY: fields of the figure",
    )


@_verb(
    "which servers of a cluster requests for machines get, and how local their network is",
    "Place requests as they arrive and end, on every combination of the keys given; without keys, the two clusters "
    "and policies of MOTION's Figure 3. out=DIR gets result.json, rows.csv, placements.jsonl, utilization.csv, "
    "pictures and report.html.",
    """\
docs/place.md has the format of a file of requests. Examples:

  topoflow place
  topoflow place policy=first_fit,fewest_groups seed=0,1,2 out=runs/place
  topoflow place requests=csv requests.file=examples/requests.csv cluster=motion cluster.gpus=8 out=runs/mine
""",
)
def _place(parser: argparse.ArgumentParser) -> None:
    _add_keys_and_flags_of_hydra(parser, "place")


@_verb(
    "when every task of a world in a file runs",
    "Simulate the links and tasks of world=FILE.json. out=DIR gets flows.csv (id, start and finish of "
    "every task, s) and links.csv (bytes and utilization of every link). device=cpu (default), cuda, cuda:N, auto. "
    "fluid.merge=0.001 ends transfers in one event that would end within that share of their duration, 0 is exact; "
    "the default, auto, is 0 in a world of at most 131,072 concurrent sends.",
    """\
docs/world_files.md has the format of a world. Example:

  topoflow simulate world=examples/two_flows.json out=runs/two_flows
  cat runs/two_flows/flows.csv
""",
)
def _simulate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "settings", nargs="*", metavar="KEY=VALUE", help="world, out, or a key of configs/simulate.yaml"
    )


CAPTURE_EXAMPLES = """\
example (examples/ is in the repository):
  topoflow capture import examples/ddp_4_ranks.jsonl.gz --out runs/trace.jsonl.gz
  topoflow inspect runs/trace.jsonl.gz

Give the files of all ranks, or their folders. Where a profile has no sizes, give the PyTorch execution traces of
the same steps as well: they are matched rank by rank. To record a job instead of importing a profile of it:
  torchrun --nproc-per-node 4 -m topoflow.capture run --out DIR train.py
"""


def _one_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--one-group",
        action="store_true",
        help="the job had one process group, of all ranks: for files of PyTorch 2.2 and earlier, which do not say",
    )


@_verb("import the traces of a real job", None, CAPTURE_EXAMPLES)
def _capture(parser: argparse.ArgumentParser) -> None:
    names = sorted(module.name for module in pkgutil.iter_modules(formats.__path__))
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    importer = _subparser(
        actions,
        "import",
        "read the profiles of a job's ranks into one trace",
        f"Read traces of a job into one file, checking that ranks agree: {', '.join(names)}.",
        CAPTURE_EXAMPLES,
    )
    importer.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a trace, or a folder of traces")
    importer.add_argument(
        "--out", type=Path, required=True, metavar="TRACE", help="where to write, e.g. trace.jsonl.gz"
    )
    _one_group(importer)
    importer.add_argument(
        "--layout",
        metavar="AXES_OR_FILE",
        help="the mesh of the job, the axis that varies fastest first, as tp=8,dp=16, or a file with the arguments of "
        "Megatron-LM or torchtitan: recorded ranks stand for others",
    )
    importer.add_argument("--rank", type=int, metavar="R", help="take what the files have of this rank alone")
    predictor = _subparser(
        actions,
        "predict",
        "predict the trace of a PyTorch script on many GPUs, without any",
        "Run a training script on tensors without values, with a fake process group, as one rank for each kind of "
        "position in its mesh, and write what all ranks would send and compute.",
        """\
  topoflow capture predict --world-size 1024 --out runs/fsdp.jsonl.gz examples/train_fsdp.py
  topoflow compare workload=captured workload.trace=runs/fsdp.jsonl.gz gpu=h100 strategy.ranks_per_server=8
""",
    )
    predictor.add_argument("--world-size", type=int, required=True, metavar="N", help="number of ranks of the job")
    predictor.add_argument(
        "--out", type=Path, required=True, metavar="TRACE", help="where to write, e.g. trace.jsonl.gz"
    )
    predictor.add_argument(
        "--ranks-per-node", type=int, default=8, metavar="N", help="as LOCAL_WORLD_SIZE says to the script (default 8)"
    )
    predictor.add_argument(
        "--iterations",
        type=int,
        default=4,
        metavar="N",
        help="to run at most; the trace has the first that communicates as the one before, or the last (default 4)",
    )
    predictor.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module, as of python -m")
    predictor.add_argument("script", metavar="SCRIPT", help="the training script, or a module after -m")
    predictor.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="what the script gets")
    exporter = _subparser(
        actions,
        "export",
        "write a trace for ASTRA-sim",
        "Write the iteration that stands for a job as Chakra's protobuf, one file per rank, as ASTRA-sim reads it.",
        """\
  topoflow capture export examples/ddp_4_ranks.jsonl.gz --out runs/et
  AstraSim --workload-configuration=runs/et/ddp_4_ranks --comm-group-configuration=runs/et/ddp_4_ranks.groups.json ..
""",
    )
    exporter.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a trace, or a folder of traces")
    exporter.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write NAME.RANK.et")


@_verb(
    "what a trace says: shares of time, stragglers, collectives and their bandwidth, groups, traffic",
    "Read a trace (or a folder with the traces of all ranks) of any supported format and count it. Two files or "
    "folders that cannot be of one job, as both have the same rank, are shown side by side.",
    """\
Examples (examples/ is in the repository; profiles of several ranks are given together):

  topoflow inspect examples/ddp_4_ranks.jsonl.gz
  topoflow inspect examples/ddp_4_ranks.jsonl.gz --json
  topoflow inspect examples/ddp_4_ranks.jsonl.gz --bandwidth-gbps 10 --out runs/pictures
  topoflow inspect examples/ddp_4_ranks.jsonl.gz examples/ddp_4_ranks.jsonl.gz
""",
)
def _inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trace", nargs="+", type=Path, metavar="TRACE_OR_DIR", help="files of one job, or a folder; or two jobs"
    )
    _one_group(parser)
    parser.add_argument("--json", action="store_true", help="print JSON for a program: bytes, seconds, per rank")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write inspect.html, its pictures and inspect.json")
    parser.add_argument(
        "--bandwidth-gbps",
        type=float,
        metavar="GBPS",
        help="the rate of a rank's link, beside which collectives are set",
    )


@_verb(
    "a plan as tables of optical switches and scripts of hosts",
    "Write cross-connect tables of the plan's optical switches, the moves that set them up, and for every host of "
    "HOSTS a shell script that forwards as the plan routes.",
    """\
docs/apply.md has the ports and the file of hosts. Examples:

  topoflow apply runs/dlrm8/plan.json --out runs/applied
  topoflow apply runs/next/plan.json --before runs/applied/circuits.json --hosts hosts.json --out runs/next_applied
""",
)
def _apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", help="plan.json of a search")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    parser.add_argument(
        "--ports", type=int, default=384, help="in, and as many out, of a switch (default: %(default)s)"
    )
    parser.add_argument("--before", type=Path, metavar="CIRCUITS", help="circuits.json that the switches have now")
    parser.add_argument("--look-ahead", metavar="SIDE", help="a or b: set up the panels of that side for the next job")
    parser.add_argument("--adapter", default="polatis_tl1", help="the form of the moves (default: %(default)s)")
    parser.add_argument("--hosts", type=Path, metavar="HOSTS", help="addresses and interfaces of the servers, JSON")
    parser.add_argument("--forwarding", default="kernel", help="how hosts forward: kernel (default) or flower")


@_verb(
    "run a real job on a plan, as a network of this machine",
    "Build the circuits of PLAN on this machine, from network namespaces with links of a given rate, run a job of "
    "torchrun on them, and compare bytes and times with the prediction. Needs Linux, root, iproute2 and torch; "
    "changes nothing outside its own namespaces, and leaves nothing.",
    """\
docs/emulate.md says what is built. Examples:

  topoflow emulate runs/dlrm8/plan.json
  topoflow emulate runs/dlrm8/plan.json --transfer 3:4 --fail 0,1
  topoflow emulate runs/dlrm8/plan.json --switch --own-order
  topoflow emulate runs/dlrm8/plan.json --job 'train.py --steps 4' --trace runs/trace
""",
)
def _emulate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", help="plan.json of a search")
    parser.add_argument(
        "--job", metavar="SCRIPT", help="a script of PyTorch, quoted with its arguments; else --megabytes are reduced"
    )
    parser.add_argument("--trace", type=Path, metavar="TRACE", help="of that script, to predict what it takes")
    parser.add_argument("--mbps", type=float, default=20.0, help="Mbit/s of an interface (default: %(default)s)")
    parser.add_argument("--megabytes", type=float, default=20.0, help="gradients of the job (default: %(default)s)")
    parser.add_argument(
        "--transfer",
        action="append",
        default=[],
        metavar="SHIFT:MB",
        help="before the all-reduce every server i sends MB megabytes to server i + SHIFT; may be repeated",
    )
    parser.add_argument("--iterations", type=int, default=3, help="that are measured (default: %(default)s)")
    parser.add_argument("--own-order", action="store_true", help="DDP without the plan's rings")
    parser.add_argument("--switch", action="store_true", help="one switch of the same interfaces, not the circuits")
    parser.add_argument("--fail", metavar="I,J", help="without the circuits from server I to server J")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write flows.csv, links.csv, what ranks noted and said")


@_verb(
    "browse, compare and watch runs, in the browser of this machine",
    "Serve the runs of a folder, those in folders of it included: a list to sort and filter, the report of each, two "
    "next to each other, and how a search goes while it works. Only who has the printed address, on this machine, is "
    "answered; nothing is written.",
    """\
Ctrl-C ends it. Examples:

  topoflow serve runs
  topoflow serve runs --port 0
  ssh -L 8765:localhost:8765 MACHINE topoflow serve runs     (then open the address that it prints)
""",
)
def _serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a folder of folders that out= named")
    parser.add_argument("--port", type=int, default=8765, help="of this machine; 0 for any (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="127.0.0.1 or localhost (default: %(default)s)")


@_verb(
    "the presets of a group, and the keys of a verb or a preset; a schema for editors",
    "Print the presets of a group (fabric, workload, gpu, ...) with a line about each; or a file of configurations, of "
    "a verb (compare, search, place, simulate) or of a preset: its values, comments and sources. --schema prints a "
    "JSON schema of a verb's keys, by which editors complete and check them.",
    """\
A YAML file of yours has the schema by its first line: # yaml-language-server: $schema=topoflow.json. Examples:

  topoflow config fabric
  topoflow config compare
  topoflow config gpu/h100
  topoflow config --schema > topoflow.json
""",
)
def _config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        default="compare",
        metavar="NAME",
        help="a verb, a group or GROUP/PRESET (default: %(default)s)",
    )
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the verb's keys")


@_verb(
    "the devices and links of a node: GPUs, NVLink, PCIe, NICs, rails",
    "Print a node of the presets, or of a topology file that NCCL writes (NCCL_TOPO_DUMP_FILE), and draw it.",
    """\
Examples:

  topoflow node hgx_h100
  topoflow node gh200 --out gh200.png
  NCCL_TOPO_DUMP_FILE=mine.xml all_reduce_perf -g 8   (on a machine: topoflow node mine.xml then shows it)
""",
)
def _node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NAME|FILE.xml", help="a preset, or a topology file of NCCL")
    parser.add_argument("--out", type=Path, metavar="FILE.png", help="draw the node")


@_verb(
    "what nccl-tests would print on a cluster: algorithm, protocol, channels, time and limit of a collective by size",
    "Predict a collective of NCCL for 8 B to 8 GiB, and say which limit binds at each size. Keys: node (a preset or "
    "FILE.xml), gpus, gpus_per_node, fabric (as of topoflow compare), network (infiniband, slingshot), "
    "dtype, nccl.version, calibration, NCCL_ALGO, NCCL_PROTO, NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS, "
    "NCCL_PXN_DISABLE, NCCL_COLLNET_ENABLE.",
    """\
docs/accuracy.md says how far it can be trusted. Examples:

  topoflow nccl all_reduce node=hgx_h100 gpus=64
  topoflow nccl all_gather node=gb200_nvl72 gpus=72 nccl.version=2.28.9 --csv all_gather.csv
  topoflow nccl all_reduce node=hgx_h100 gpus=16 --measured examples/all_reduce_perf.log
""",
)
def _nccl(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operation", metavar="OPERATION", help="all_reduce, all_gather, reduce_scatter or all_to_all")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="the cluster, and what NCCL is told")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--measured", type=Path, metavar="LOG", help="what nccl-tests printed on the cluster")


@_verb(
    "latencies and rates of NCCL on a cluster of your own, fitted to what nccl-tests measured there",
    "Fit the coefficients of NCCL's times to logs of nccl-tests (text, or JSON of -J FILE), starting from those that "
    "are shipped, and write a file for calibration=FILE of topoflow nccl, nccl.calibration=FILE of topoflow compare. "
    "Every second row is held out: the file says how well these are predicted. Keys: node, gpus and nccl.version "
    "(where a log does not say), gpus_per_node, network.",
    """\
Example:

  topoflow calibrate nccl examples/all_reduce_perf.log node=hgx_h100 gpus=16 --out cluster.json
  topoflow nccl all_gather node=hgx_h100 gpus=64 calibration=cluster.json
""",
)
def _calibrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["nccl"], help="what is calibrated")
    parser.add_argument("logs", nargs="+", metavar="LOG|KEY=VALUE", help="logs of nccl-tests, and the cluster")
    parser.add_argument(
        "--out", type=Path, default=Path("nccl_calibration.json"), metavar="FILE", help="nccl_calibration.json"
    )


@_verb(
    "what this installation and machine can do, as one page to paste into an issue",
    "Print what was built, which extras are installed, what a GPU, NCCL and the rights of this user allow, and where "
    "configurations and runs are. Each line was checked just now; nothing is written or sent.",
    """\
Example:

  topoflow doctor
""",
)
def _doctor(parser: argparse.ArgumentParser) -> None:
    """Take no arguments."""


def _add_keys_and_flags_of_hydra(parser: argparse.ArgumentParser, verb: str) -> None:
    """Keys, and flags with the names and meanings that they have in every application of Hydra."""
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=f"a key of configs/{verb}.yaml")
    group = parser.add_argument_group("Hydra (docs/hydra.md)")
    group.add_argument("-m", "--multirun", action="store_true", help="a job for every point, each with its own folder")
    group.add_argument(
        "-r", "--run", action="store_true", help="one job of Hydra, with .hydra/ and a log in its folder"
    )
    group.add_argument(
        "-c", "--cfg", choices=["job", "hydra", "all"], help="print the configuration instead of running"
    )
    group.add_argument("--resolve", action="store_true", help="of --cfg: with the values of what is interpolated")
    group.add_argument("-p", "--package", help="of --cfg: this part of it")
    group.add_argument("-cd", "--config-dir", metavar="DIR", help="a folder of your own with fabric/, gpu/, ...")
    group.add_argument(
        "-cn", "--config-name", metavar="NAME", help="a configuration of that folder in place of the verb's"
    )
    group.add_argument("-i", "--info", nargs="?", const="all", help="print what Hydra knows: searchpath, defaults, ...")
    group.add_argument("-sc", "--shell-completion", action="store_true", help="install=SHELL, uninstall=SHELL")
    group.add_argument("--hydra-help", action="store_true", help="print the help of Hydra itself")
