"""One module per algorithm of a collective. A new algorithm is a new file here, and nothing else.

Each module has an

    ALGORITHM = Algorithm(ops=("all_reduce",), schedule=..., most_sends=..)

which says what operations it runs, what it needs (ring orders, trees, nothing), who sends which part of the buffer to
whom after what, how many sends that is at most, into how many chunks it cuts bytes, how many bytes all ranks send
(where that is not the least that is possible), and whether it runs inside each server first:
``topoflow.engine.lowering.algorithms`` has the fields. The name of the file is the name of the algorithm, in
``all_reduce=`` of every command and in ``algorithm`` of a world file. ``tests/engine/test_collective_contract.py`` runs
every algorithm found here on real arrays.
"""
