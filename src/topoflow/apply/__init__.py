"""Apply a plan to real jobs and hosts: ring orders of process groups, host forwarding, optical switches."""
