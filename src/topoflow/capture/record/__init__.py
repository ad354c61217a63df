"""Recording a PyTorch script: ``torchrun ... -m topoflow.capture run script.py``.

recorder.py          sees what the script communicates, and when
kernels.py           shows every call of torch's c10d operators
c10d.py              what each communication is: its group, tensors, root and peer
operators.py         what each operator computes and moves, on whichever device
iteration_work.py    in which iterations operators are counted
recording.py         rows of events in order, with compute spans between them
training_steps.py    where iterations begin and end
file.py              the rank's file, written while the job runs
"""
