"""Other engines beside this one on the same machine: what `benchmarks/peers.py` is made of.

`*_worker.py` run in the environment of the engine that they drive (`serving_loop` is what they share) and import
nothing of wingbeat but its own; the other modules run beside the command.
"""
