"""Which kernels of a device communicate, by their name: NCCL's, and those that communicate without NCCL."""

from __future__ import annotations

import re
from functools import lru_cache

# Names are compared in lower case. Sources, where a kernel's name does not say what it does:
COMMUNICATES = re.compile(
    r"nccl|mscclpp|msccl"  # NCCL and RCCL (device/common.h: ncclDevKernel_*), microsoft/mscclpp
    r"|(deep_ep|dpsk::ep)::(?!layout::)"  # deepseek-ai/DeepEP csrc/kernels; get_dispatch_layout only counts tokens
    r"|nvshmem|symm_mem|multimem_"  # NVSHMEM; pytorch c10d/symm_mem/CUDASymmetricMemoryOps.cu
    r"|userbuffers"  # NVIDIA/TransformerEngine comm_gemm_overlap/userbuffers
    r"|cross_device_reduce|quickreduce::"  # vllm csrc/custom_all_reduce.cuh, csrc/quickreduce
    # one_shot_all_reduce, oneShotAllReduceKernel, moeAllToAllKernel, ...; a block or a warp reduces within itself
    r"|(?<!block)(?<!block_)(?<!warp)(?<!warp_)(?<!cta)(?<!cta_)all_?reduce"
    r"|all_?gather|reduce_?scatter|all_?to_?all"
)
PEER_COPY = "ptop"  # "Memcpy PtoP (Device -> Device)": from one GPU to another


@lru_cache(maxsize=2**14)  # a profile has millions of kernels of some hundred names, each up to thousands of characters
def communicates(name: str) -> bool:
    """Return whether a kernel of this name communicates with other ranks."""
    return COMMUNICATES.search(name.lower()) is not None


def copies_to_peer(name: str) -> bool:
    """Return whether a copy of this name is from one GPU to another."""
    return PEER_COPY in name.lower()


def is_nccl(name: str) -> bool:
    """Return whether a kernel of this name is one of NCCL's, whose operations are recorded with their sizes."""
    return "nccl" in name.lower()


def short_name(name: str) -> str:
    """A kernel without its types: ``void (anonymous namespace)::f<float, 8>(float*)`` -> ``f``."""
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", plain, maxsplit=1)[0].strip()[:80] or name[:80]
