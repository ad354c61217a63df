"""``benchmarks/training.py``: what it says of rows, and why not of others."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "training.py"
COLUMNS = (
    "source,model,gpu,n_gpus,tp,pp,dp,cp,ep,vpp,zero,micro_batch,global_batch,seq,precision,recompute,step_time_s,notes"
)
PREDICTED_ROW = '"one",MPT-125m,a100_40gb,8,1,1,8,1,1,1,3 (FSDP),2,32,512,bf16,none,0.05,'
IN_A_SERVER = '"two","Llama3-8B, 4 layers",B200,8,2,2,2,1,1,1,1,,8,1024,FP8,per recipe,0.05,'
UNSAID = [
    '"two",Falcon-180B,H100,8,1,1,8,1,8,1,1,1,8,1024,BF16,none,1,',
    '"two",Llama3-8B,H100,8,2,1,4,1,1,1,FSDP2 sharded,1,6,1024,BF16,none,1,',
    '"two",Llama3-8B,A100 80GB (Selene),8,1,1,8,1,1,1,1,1,8,1024,FP8,none,1,',
    '"two",Llama3-8B,B200,8,1,1,8,1,1,1,1,1,8,1024,INT4,none,1,',
    '"two",Llama3-8B,H100,8,8,1,1,1,1,1,1,3,8,1024,BF16,none,1,',
    '"two",Llama3-8B,H100,8,8,1,1,1,1,1,1,1,8,1024,BF16,none,,',
]


def run(tmp_path: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(lines) + "\n")
    return subprocess.run([sys.executable, str(BENCHMARK), f"rows={file}"], capture_output=True, text=True, check=False)


def test_rows_are_said_with_their_defaults_or_named_with_the_reason(tmp_path: Path) -> None:
    done = run(tmp_path, COLUMNS, PREDICTED_ROW, IN_A_SERVER, *UNSAID)
    assert done.stderr == ""
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("line 2: MPT-125m on 8 a100_40gb: ")
    assert lines[1].startswith("line 3: Llama3-8B, 4 layers on 8 B200 tp=2 pp=2: ")
    assert lines[1].endswith("(micro_batch=1; recompute=none for 'per recipe')")
    reasons = [line.partition("not said: ")[2].split(": ", 2)[2] for line in lines[2:8]]
    assert reasons[0].startswith("model: must be one of ")
    assert reasons[0].endswith(", got Falcon-180B")
    assert reasons[1:] == [
        "global_batch: must be a multiple of the replicas of the model, got 1.5 samples for each, of 2 GPUs",
        "workload.precision.dense: must be a rate of the gpu, float64, float32, tfloat32, float16, bfloat16, "
        "got 'float8_e4m3fn'",
        "precision: must be of 16 bits, FP8 or NVFP4, got INT4",
        "micro_batch: must divide the 8 samples of a replica, got 3",
        "step_time_s: must be positive seconds, got ''",
    ]
    numbers = dict(line.rsplit(" ", 1) for line in lines[8:])
    assert numbers["training.rows"] == "8"
    assert numbers["training.said"] == "2"
    assert {"training.median_error", "training.within_20", "training.source.one.rows"} <= set(numbers)
    assert numbers["training.memory.would_not_run"] == "0"
    assert {"training.gpu.b200.median_error", "training.gpu.a100_40gb.within_20"} <= set(numbers)


def test_a_file_without_a_column_is_refused_in_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, COLUMNS.replace(",zero", ""), PREDICTED_ROW)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "rows.csv: must have the columns source, model, " in done.stderr
    assert done.stderr.endswith("got none of zero\n")


def test_published_peaks_of_memory_under_fsdp_are_within_a_tenth(shared_data: Path, tmp_path: Path) -> None:
    with (shared_data / "training_measurements" / "training.csv").open(newline="") as file:
        published = list(csv.DictReader(file))
    plain = [row for row in published if row["source"].startswith("torchtitan") and row["tp"] == row["cp"] == "1"]
    file = tmp_path / "rows.csv"
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, published[0].keys())
        writer.writeheader()
        writer.writerows(plain)
    done = subprocess.run([sys.executable, str(BENCHMARK), f"rows={file}"], capture_output=True, text=True, check=True)
    numbers = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if line.startswith("training."))
    assert numbers["training.said"] == numbers["training.rows"] == numbers["training.memory.rows"] == "9"
    assert numbers["training.memory.within_10"] == "1.000"
    assert numbers["training.memory.would_not_run"] == "0"
