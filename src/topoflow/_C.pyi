from collections.abc import Callable, Mapping, Sequence
from typing import Any

has_cuda: bool
architectures: list[int]  # with CUDA: 900 is sm_90
DONE: int
STARVED: int
DEADLOCK: int
CANCELLED: int
NOT_CONVERGED: int
PAUSED: int
NO_CORRELATION: int
PENDING: int
RUNNING: int
FIELDS: dict[str, list[tuple[str, str, str, str]]]  # of each function: name, dtype, shape and content of its arrays

class Fault(RuntimeError): ...

def has_kernels_for(device: int) -> bool: ...
def simulate(arrays: Mapping[str, Any], budget: int, stream: int, merge: float, threads: int) -> int: ...
def gradient(arrays: Mapping[str, Any], budget: int, stream: int, threads: int) -> None: ...
def progressive_filling(arrays: Mapping[str, Any]) -> None: ...
def bound(arrays: Mapping[str, Any], budget: int, stream: int, threads: int) -> None: ...

class ContentionSizes:
    def __init__(
        self,
        *,
        servers: int,
        first_bucket_bytes: float,
        bucket_bytes: float,
        unit: float,
        largest_tree: int,
        coflows: int,
    ) -> None: ...

class WalkSettings:
    def __init__(
        self,
        *,
        ladders: int,
        chains: int,
        first: int,
        seed: int,
        round: int,
        patience: int,
        trades: float,
        stays: float,
        joins: float,
        memory: int,
        binds: bool,
    ) -> None: ...

def numbers(arrays: Mapping[str, Any], key: Sequence[int], counter: Sequence[int], stream: int) -> None: ...
def contention(arrays: Mapping[str, Any], sizes: ContentionSizes, budget: int, stream: int, threads: int) -> None: ...
def walk(
    arrays: Mapping[str, Any],
    sizes: ContentionSizes,
    settings: WalkSettings,
    part: str,
    step: int,
    end: int,
    budget: int,
    stream: int,
    threads: int,
) -> None: ...
def advance(
    arrays: Mapping[str, Any], ready: int, now: float, until: float, latency: float, merge: float
) -> tuple[int, int, int]: ...
def choose_circuits(arrays: Mapping[str, Any], degree: int, discount: float) -> None: ...
def levels(arrays: Mapping[str, Any]) -> None: ...

BLOCKED: int
TOO_LONG: int
NEVER: int
MOST_LOSSES: int
LATENCY_BINS: int
PACKET_SETTINGS: list[tuple[str, str, str]]  # name, type and content of each setting of packets()

def packets(
    arrays: Mapping[str, Any], settings: Mapping[str, float], budget: int, stream: int, threads: int, grain: int
) -> int: ...

REQUEST_GRANT: int
IDEAL: int
DIRECT: int
ACK_NACK: int
ROTOR_LB: int
OPERA: int
PROTOCOLS: int
TURNS: int
ARRIVAL: int
MOST_RESERVATIONS: int
MOST_SAMPLES: int

def slots(arrays: Mapping[str, Any], budget: int, stream: int, threads: int) -> int: ...
def read_events(
    text: bytes, begin: int, end: int, matters: Callable[[bytes, bytes], bool]
) -> dict[str, Any] | None: ...

class Timeline:
    is_paused: bool
    phase: str
    work: Any
    newest_event: Any
    _waited: list[int]
    _last_compute: int | None
    def __init__(
        self,
        queue: Any,
        write: Callable[[Any], None],
        clock: Callable[[], int],
        busy: Callable[[], int],
        work: Any,
        event: Any,
    ) -> None: ...
    def now(self) -> int: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def leave_out(self, busy: int) -> None: ...
    def write(self, row: Any) -> None: ...
    def flush(self) -> None: ...
    def done(self, event: Any) -> None: ...
    def _follows(self) -> list[int]: ...
    def _add(self, row: dict[str, Any], issued: int, after: list[int]) -> Any: ...

class DirectCalls:
    is_sending: bool
    def __init__(
        self,
        recorder: Any,
        recording: Timeline,
        queue: Any,
        most_waiting: int,
        threads: set[int],
        stack_length: Callable[[], int],
        is_profiled: Callable[[], bool],
        work_type: type,
        plain: tuple[type, ...],
    ) -> None: ...
    def method(
        self,
        method: Callable[..., Any],
        of_backend: str,
        has_list: bool,
        has_root: bool,
        rows: Mapping[Any, Any],
        describe: Callable[..., Any],
    ) -> Callable[..., Any]: ...
    def wait(self, method: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]: ...
