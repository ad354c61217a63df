"""Ctrl-C: one line and exit code 130, wherever it meets the work and whatever a library makes of KeyboardInterrupt."""

import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

from topoflow.arrays import distinct
from topoflow.cli import compare, main
from topoflow.cli.interrupts import RETRY_INTERVAL, Interrupts, interrupts


def test_what_a_library_swallows_is_raised_again():
    with pytest.raises(KeyboardInterrupt), interrupts():  # noqa: PT012
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        time.sleep(60)


def test_what_is_done_about_it_is_not_interrupted():
    done = False
    with suppress(KeyboardInterrupt), interrupts() as pressed:  # it is raised again once it was handled
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            time.sleep(3 * RETRY_INTERVAL)
            done = True
    assert done
    assert pressed.requested


def test_nothing_is_raised_where_it_ends():
    """A retry that comes between the end of the work and the end of the timer would leave the timer on."""
    pressed = Interrupts()
    with suppress(KeyboardInterrupt):
        pressed.interrupt(signal.SIGINT, None)
    pressed.end()
    pressed.retry(signal.SIGALRM, None)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_the_handlers_before_are_restored():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)
    with interrupts():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)) == before
    with interrupts(), suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)) == before


def test_a_timer_of_the_program_continues():
    """As that of a test's time limit: nobody else may stop it."""
    remaining = signal.setitimer(signal.ITIMER_REAL, 100)[0]
    try:
        with interrupts():
            pass
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
    finally:
        signal.setitimer(signal.ITIMER_REAL, remaining)


def test_another_error_in_its_place_is_an_interruption_too(monkeypatch, capsys):
    def run(arguments):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise AttributeError("'NoneType' object has no attribute '_invalidate_flags_cache'") from None

    monkeypatch.setattr(compare, "run", run)
    assert main(["compare"]) == 130
    assert capsys.readouterr().err == "topoflow compare: interrupted\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_python_prints_only_other_errors_that_nobody_can_handle(error, monkeypatch):
    """As those of a finalizer, which is where Ctrl-C may meet a program that frees many objects."""

    class Freed:
        def __del__(self):
            raise error

    printed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: printed.append(what.exc_type))
    before = sys.unraisablehook
    with interrupts():
        Freed()
    assert printed == ([ValueError] if error is ValueError else [])
    assert sys.unraisablehook is before


def test_other_errors_are_errors(monkeypatch):
    def run(arguments):
        raise AttributeError("a mistake of ours")

    monkeypatch.setattr(compare, "run", run)
    with pytest.raises(AttributeError, match="a mistake of ours"):
        main(["compare"])


PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal, wherever the tests run
from topoflow.cli import main
print("started", flush=True)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("seconds", [0.05, 0.15, 0.3, 0.5, 0.7, 3.0])
def test_a_command_ends_wherever_it_is_met(seconds):
    """While it imports, composes its configuration, places or simulates: this one takes 20 s."""
    command = [sys.executable, "-c", PROGRAM, "compare", "servers=128", "workload=moe", "rings=steps"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline() == "started\n"
        time.sleep(seconds)
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=60)
    assert running.returncode == 130
    assert error.splitlines()[-1] in ("topoflow compare: interrupted", "topoflow: interrupted")


IN_A_LIBRARY = """
import ctypes, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from topoflow.cli import compare, main

def run(arguments):
    print("started", flush=True)
    mutex = ctypes.create_string_buffer(256)  # one that is unlocked; a signal does not end the wait for it
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)

compare.run = run
sys.exit(main(["compare"]))
"""


def test_a_command_ends_within_one_long_call_of_a_library():
    """Python runs no handler until the call returns; numpy needs 9 s for the distinct of 100 million numbers."""
    with subprocess.Popen([sys.executable, "-c", IN_A_LIBRARY], stdout=-1, stderr=-1, text=True) as running:
        assert running.stdout.readline() == "started\n"
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=60)
    assert running.returncode == 130
    assert error == "topoflow compare: interrupted\n"


def test_at_the_end_python_looks_for_cycles_among_few_objects():
    """Of the tens of thousands that libraries have made, which takes longer than all else after Ctrl-C."""
    program = """
import atexit, gc
atexit.register(lambda: print(len(gc.get_objects())))  # the first that is registered is the last that is called
from topoflow.cli import main
main(["compare", "fabric=ring", "servers=2", "fidelity=bound"])
print(len(gc.get_objects()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, at_the_end = map(int, done.stdout.split()[-2:])
    assert at_the_end < before / 20


@pytest.mark.parametrize("size", [0, 1, 7, 10_000])
def test_distinct_keys(size):
    """numpy's ``unique`` hashes since 2.3, which takes 70 times as long for millions of keys, and cannot be stopped."""
    keys = np.random.default_rng(size).integers(-50, 5_000, size)
    assert np.array_equal(distinct(keys), np.unique(keys))
