"""Recording a PyTorch script: ``torchrun ... -m topoflow.capture run script.py``.

recorder.py          sees what the script communicates, and when
c10d.py              what each communication is: its group, tensors, root and peer
operators.py         what each operator computes and moves, on whichever device
recording.py         rows of events in order, with compute spans between them
training_steps.py    where iterations begin and end
other_threads.py     communications that are counted but not recorded
file.py              the rank's file, written while the job runs
"""
