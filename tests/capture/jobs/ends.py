"""For any number of ranks: communicates for some steps, meets a fault at step 3, and ends as argument 1 says."""

import os
import resource
import shutil
import signal
import sys
import threading

import torch
import torch.distributed as dist

how, fault, folder = sys.argv[1], sys.argv[2], sys.argv[3]
if how == "restart" and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
    sys.exit(7)  # before it communicates: gloo itself does not always connect again
dist.init_process_group("gloo")
dist.barrier()
rank = dist.get_rank()
layer = torch.nn.Linear(8, 8)
model = torch.nn.parallel.DistributedDataParallel(layer)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    if step == 2:
        dist.barrier()
        if fault == "removed" and rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
        if fault == "filled" and rank == 0 and os.path.isdir(folder):
            with open(f"{folder}/filling", "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass
        if fault == "bug":  # in the recorder
            from topoflow.capture.record import c10d

            c10d.communication = None
        if fault == "limited":  # ulimit -f, whose signal the script does not ignore as Python does
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        dist.barrier()
print(f"rank {rank} has done its steps", flush=True)
if how == "killed" and rank == 1:
    threading.Event().wait(1.0)  # five times the interval of writing
    os.kill(os.getpid(), signal.SIGKILL)
if how == "exit3":
    sys.exit(3)
if how == "message":
    sys.exit("the script's last words")
if how.startswith("os._exit"):
    os._exit(int(how[-1]))
if how == "raises":
    raise RuntimeError("the script's own error")
if how == "late":  # ends while a communication is under way
    if rank == 1:
        threading.Event().wait(3.0)
    work = dist.all_reduce(torch.ones(8), async_op=True)
    sys.exit(5)
if how not in ("late", "killed"):
    dist.destroy_process_group()
