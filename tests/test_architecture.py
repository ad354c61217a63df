"""The few rules of the house that are law: who may import whom, configs are modules, kernels name their source."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "topoflow"

# A stage may import itself and the stages named here. traffic and fabric do not see each other: demand is between them.
SHARED = {"arrays", "memory", "npz", "operations", "progress", "digest", "fields", "files", "printable", "units"}
BEFORE_ENGINE = {"hardware", "collectives", "demand", "traffic", "fabric", "strategy", "workload", "capture"} | SHARED
MAY_IMPORT = {
    "digest": set(),
    "fields": set(),
    "files": set(),
    "printable": set(),
    "progress": {"fields", "files"},
    "units": set(),
    "arrays": set(),
    "memory": {"units"},
    "npz": {"files", "memory"},
    "operations": set(),
    "hardware": {"files", "units"},
    "collectives": {"arrays", "hardware", "fields", "files", "memory", "operations", "units"},
    "scheduling": {"arrays", "fields", "files", "memory", "units"},
    "demand": {"operations", "units"},
    "capture": {"memory", "operations", "fields", "files", "printable", "units"},
    "workload": {"memory", "capture", "arrays", "fields", "files", "units"},
    "strategy": {"workload", "capture", "files", "operations", "units"},
    "traffic": {"demand", "strategy", "workload", "capture", "arrays", "memory", "operations", "units"},
    "fabric": {"hardware", "collectives", "demand"} | SHARED - {"npz", "progress"},
    "engine": BEFORE_ENGINE - {"capture"},
    "worldfile": {"engine"} | BEFORE_ENGINE,
    "track": {"engine"} | BEFORE_ENGINE,
    "case": {"engine"} | BEFORE_ENGINE,
    "search": {"case", "engine"} | BEFORE_ENGINE,
    "apply": {"search", "case", "engine"} | BEFORE_ENGINE,
    "emulate": {"apply", "search", "case", "engine"} | BEFORE_ENGINE,
    "report": {"search", "case", "engine"} | BEFORE_ENGINE,
    "study": {"search", "report", "case", "scheduling", "track", "engine"} | BEFORE_ENGINE,
    "api": {"study", "search", "report", "worldfile", "case", "engine"} | BEFORE_ENGINE,
    "browse": {"study", "search", "report", "case", "engine"} | BEFORE_ENGINE,
    "papers": {"study", "report", "search", "case", "engine"} | BEFORE_ENGINE,  # and no other stage imports it
    "cli": {"browse", "api", "study", "search", "emulate", "apply", "report", "worldfile", "case", "engine"}
    | BEFORE_ENGINE,
    "__main__": {"cli"},
}
TORCH = ("capture", "apply", "emulate")  # run inside jobs of torch
# Config groups whose files are modules, and the packages of these.
STAGES = {
    "workload": "workload",
    "strategy": "strategy",
    "fabric": "fabric",
    "fidelity": "engine",
    "executor": "engine",
}
DATA_GROUPS = {
    "gpu": "topoflow.workload.gpu.Gpu",
    "prices": "topoflow.fabric.prices.Prices",
    "cluster": "topoflow.scheduling.base.GroupedCluster",
}
# Names that say the part of a thing in one sentence instead of the thing.
VAGUE_NAMES = frozenset({"found", "own", "each", "law", "asked", "made", "given", "kept", "told", "apart"})
VAGUE_CPP_NAMES = VAGUE_NAMES | {
    *("came", "come", "coming", "got", "had", "how", "least", "little", "mine", "most", "rest", "which", "who"),
}
USER_KEYS: dict[str, set[str]] = {}  # module -> fields whose names users write into their own files

ROOMS = sorted(path for path in (PACKAGE / "papers").iterdir() if (path / "experiment").is_dir())
EXPERIMENTS = sorted(path for room in ROOMS for path in (room / "experiment").glob("*.yaml"))


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "configs" not in path.relative_to(PACKAGE).parts)


def imports(path: Path) -> Iterator[str]:
    """Every module that ``path`` imports, dotted; ``from a import b`` counts as ``a.b``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def stage_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    stage = stage_of(path)
    if stage == "__init__":
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "topoflow" and len(parts) > 1 and parts[1] in MAY_IMPORT:
            assert parts[1] in MAY_IMPORT[stage] | {stage}, f"{stage} may not import {name}"
        if name.startswith("topoflow._C"):
            # A profile has millions of events, and what is done for each tiny collective of a job slows it.
            others = ("event_list.py", "recording.py", "recorder.py")
            assert stage == "engine" or path.name in others, f"only engine/ may import _C, not {path}"
        if name.startswith("torch.distributed"):
            assert stage in TORCH, f"only {' and '.join(TORCH)} may import torch.distributed, not {stage}"
        if parts[0] in ("matplotlib", "mpltern", "plotly", "seaborn"):
            assert stage == "report", f"only report/ may import a plotting library, not {stage}"


def test_a_name_is_one_class() -> None:
    """Public classes of the package, whatever their module."""
    places: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert not {name: paths for name, paths in places.items() if len(paths) > 1}


def bound_names(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of every variable, parameter, attribute, function and class that ``text`` binds."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str()):
                yield node.lineno, node.asname
            case ast.ExceptHandler(name=str()) | ast.MatchAs(name=str()) | ast.MatchStar(name=str()):
                yield node.lineno, node.name


def test_a_name_says_the_thing() -> None:
    """``waiting_tasks``, not ``found``; ``trace``, not ``each``."""
    vague = []
    for path in modules():
        module = path.relative_to(PACKAGE).as_posix()
        names = [(0, path.stem), *bound_names(path.read_text())]
        words = VAGUE_NAMES - USER_KEYS.get(module, set())
        vague += [f"{module}:{line}: {name}" for line, name in names if name in words]
    assert vague == []


@pytest.mark.parametrize(
    "binding",
    [
        "found = 1",
        "found: int = 1",
        "(found, other) = 1, 2",
        "[found for found in range(3)]",
        "f = lambda found: 1",
        "def f(*, found): ...",
        "def found(): ...",
        "class found: ...",
        "self.found = 1",
        "(found := 1)",
        "import os as found",
        "for found in (): ...",
    ],
)
def test_a_vague_name_is_noticed_wherever_it_is_bound(binding: str) -> None:
    assert "found" in [name for _, name in bound_names(binding)]


CPP_TEXT = re.compile(  # comments, includes, strings, characters, and names of the standard library
    r"""//[^\n]*|/\*.*?\*/|\#\ *include[^\n]*|"(?:\\.|[^"\\\n])*"|(?<!\d)'(?:\\.|[^'\\\n])+'|\bstd(?:::\w+)+""",
    re.DOTALL | re.VERBOSE,
)


def cpp_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the word of every name of one word in C++, as ``rest`` of ``rest_``, ``kRest`` or ``Rest``."""
    code = CPP_TEXT.sub(lambda match: "\n" * match.group().count("\n"), text)
    for line, content in enumerate(code.splitlines(), 1):
        for name in re.findall(r"(?<![\w'])[A-Za-z_]\w*", content):
            yield line, re.sub(r"^k(?=[A-Z])", "", name).strip("_").lower()


def test_a_name_says_the_thing_in_cpp() -> None:
    folders = ("csrc", "tests/cuda_emulation", "tests/engine")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    sources = [path for path in files if path.suffix in {".h", ".hpp", ".cpp", ".cu"}]
    assert {folder for folder in folders for path in sources if (ROOT / folder) in path.parents} == set(folders)
    vague = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in sources
        for line, word in cpp_words(path.read_text())
        if word in VAGUE_CPP_NAMES
    ]
    assert vague == []


@pytest.mark.parametrize(
    "code", ["int32_t found = 0;", "f(found);", "double found_;", "constexpr int kFound = 1;", "struct Found {};"]
)
def test_a_vague_name_is_noticed_in_cpp(code: str) -> None:
    assert [word for _, word in cpp_words(f"// x\n{code}")].count("found") == 1


@pytest.mark.parametrize(
    "code", ["// found", "/* found\nfound */", 'f("found \\" found")', "#include <found>", "std::endian::found"]
)
def test_no_name_is_seen_where_cpp_has_none(code: str) -> None:
    assert "found" not in [word for _, word in cpp_words(code)]


def test_no_folder_is_a_drawer() -> None:
    drawers = {"utils", "util", "common", "core", "helpers", "misc"}
    named = {part.removesuffix(".py") for path in modules() for part in path.relative_to(PACKAGE).parts}
    assert not drawers & named


def test_simulating_needs_no_torch() -> None:
    """torch is 3 GB of downloads: only what runs in jobs of torch imports it; CUDA arrays in engine, when called."""
    for path in modules():
        tree = ast.parse(path.read_text())
        for node in tree.body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "torch" for name in names):
                assert stage_of(path) in TORCH, f"{path} imports torch when it is imported"


@pytest.mark.parametrize(
    "config",
    sorted(path for stage in STAGES for path in (ROOT / "src" / "topoflow" / "configs" / stage).glob("*.yaml")),
    ids=lambda p: p.stem,
)
def test_a_config_is_the_module_of_its_name(config: Path) -> None:
    """fabric/fat_tree.yaml is fat_tree.py:FatTree in topoflow/fabric, a folder of it or the room of a paper.

    Capitals are free (TopoOpt). A preset of another file, as llama3_70b of transformer, has that file's class.
    """
    content = yaml.safe_load(config.read_text())
    if "_target_" not in content:
        assert (config.parent / f"{content['defaults'][0]}.yaml").is_file()
        return
    module, _, target = content["_target_"].rpartition(".")
    folder = rf"({STAGES[config.parent.name]}(\.[a-z_]+)?|papers(\.[a-z_]+){{1,2}})"
    assert re.fullmatch(rf"topoflow\.{folder}\.{config.stem}", module)
    assert target.lower() == config.stem.replace("_", "")
    assert hasattr(importlib.import_module(module), target)


def test_no_module_asks_for_a_particular_fidelity() -> None:
    """What differs between fidelities is in their packages, so that another one is a package and a config."""
    names = {path.stem for path in (ROOT / "src" / "topoflow" / "configs" / "fidelity").glob("*.yaml")}
    assert names
    for path in modules():
        if path.parent.parent == PACKAGE / "engine" and path.parent.name in names:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                compared = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                assert not compared & names, f"{path}:{node.lineno} compares with the name of a fidelity"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                classes = {part.id.lower() for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
                assert not classes & names, f"{path}:{node.lineno} asks for the class of a fidelity"


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "papers").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_room_of_a_paper_stands_alone(path: Path) -> None:
    """It imports no other room and nothing private, and of study/ only figures."""
    room = path.relative_to(PACKAGE / "papers").parts[0]
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "topoflow":
            assert not any(part.startswith("_") for part in parts[1:]), f"{name} is private"
        if parts[:2] == ["topoflow", "papers"]:
            assert parts[2] == room, f"{room} may not import the room {parts[2]}"
        if parts[:2] == ["topoflow", "study"]:
            assert parts[2] == "figures", f"papers may not import {name}"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_says_what_its_paper_claims_and_what_we_find(room: Path) -> None:
    text = (room / "README.md").read_text()
    figures = sorted((room / "experiment").glob("*.yaml"))
    assert figures
    for config in figures:
        assert f"`{config.stem}`" in text, f"{config.stem} is not in {room.name}/README.md"


@pytest.mark.parametrize("config", EXPERIMENTS, ids=lambda path: path.stem)
def test_a_figure_is_of_a_kind_and_names_its_source(config: Path) -> None:
    """Several figures of a paper are one kind: a module with the class of its name, in the paper's room, or in
    study/figures/ where figures of several papers are of that kind."""
    figure = yaml.safe_load(config.read_text())
    if "_target_" not in figure:  # another figure with other numbers
        (base, _) = figure["defaults"]
        figure = yaml.safe_load(config.with_stem(base).read_text()) | figure
    module, _, target = figure["_target_"].rpartition(".")
    room = config.parent.parent.name
    assert config.stem.partition("_")[0] == room
    assert module.rpartition(".")[0] in ("topoflow.study.figures", f"topoflow.papers.{room}")
    assert target.lower() == module.rpartition(".")[2].replace("_", "")
    assert hasattr(importlib.import_module(module), target)
    assert "Source:" in config.read_text(), f"{config.name}: every figure needs a source"


@pytest.mark.parametrize("group", DATA_GROUPS)
def test_a_table_of_numbers_names_its_sources(group: str) -> None:
    tables = list((ROOT / "src" / "topoflow" / "configs" / group).glob("*.yaml"))
    assert tables
    for table in tables:
        text = table.read_text()
        assert yaml.safe_load(text)["_target_"] == DATA_GROUPS[group]
        assert "Source:" in text, f"{table.name}: every number needs a source"


def kernel_headers() -> list[Path]:
    """Return the headers outside ``csrc/parallel``, which alone knows a GPU from a CPU."""
    return [path for path in (ROOT / "csrc").rglob("*.h") if ROOT / "csrc" / "parallel" not in path.parents]


def test_every_physics_header_names_its_source() -> None:
    headers = [path for path in kernel_headers() if path.parent.name != "csrc"]
    assert headers
    for header in headers:
        assert "Source:" in header.read_text(), f"{header.relative_to(ROOT)} must name its source"


def test_kernels_know_no_torch_no_python_no_cuda() -> None:
    for header in kernel_headers():
        words = re.findall(
            r"#include\s*<(?:torch|pybind11|cuda|Python)|__global__|__device__|cuda[A-Z]\w+", header.read_text()
        )
        assert not words, f"{header.relative_to(ROOT)}: {words}"


def test_one_function_launches_kernels_and_one_gives_shared_memory() -> None:
    """So that device code runs without a GPU (tests/cuda_emulation), which brings its own parallel/kernel.h.

    A variable of a kernel that is shared lies in the memory that ``shared_memory()`` returns.
    """
    files = [path for path in (ROOT / "csrc").rglob("*") if path.suffix in {".h", ".hpp", ".cpp", ".cu"}]
    for syntax in (r"<<<.+>>>\(", r"__shared__"):
        names = [path.name for path in files for _ in re.findall(syntax, path.read_text())]
        assert names == ["kernel.h"], syntax


def test_one_header_includes_thrust_and_one_source_of_each_backend_includes_that() -> None:
    """A compiler takes longer to read Thrust than most kernels (benchmarks/results/build.md)."""
    sources = [path for path in (ROOT / "csrc").rglob("*") if path.suffix in {".h", ".hpp", ".cpp", ".cu"}]
    texts = {path.relative_to(ROOT / "csrc"): path.read_text() for path in sources}
    for include, includers in {
        r"#include <(?:thrust|cub)/": ["parallel/thrust.h"],
        r'#include ".*thrust\.h"': ["cpu/whole_batch.cpp", "cuda/whole_batch.cu"],
    }.items():
        assert sorted(str(path) for path, text in texts.items() if re.search(include, text)) == includers


def test_every_folder_of_modules_is_a_package() -> None:
    """setup.py finds packages by their ``__init__.py``: a folder without one would be missing from the wheel."""
    assert not {path.parent for path in modules() if not (path.parent / "__init__.py").exists()}


def test_the_project_names_no_machine() -> None:
    """Paths of a machine, home folders and hosts do not belong in files that others check out."""
    pattern = re.compile(r"(?<![\w.])/(?:home|root|work|farm)/\w")
    folders = ("src", "csrc", "benchmarks", "integrations", "examples", "docs", ".github")
    pages = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml", "pyproject.toml")
    kinds = {".py", ".h", ".hpp", ".cpp", ".cu", ".yaml", ".yml", ".toml", ".md", ".txt", ".json"}
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in [*files, *(ROOT / page for page in pages)]:
        if path.suffix in kinds:
            assert not pattern.search(path.read_text()), path
