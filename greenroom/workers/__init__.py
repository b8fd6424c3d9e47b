"""One server of several processes.

`parent.py` keeps the sockets, `crew.py` starts and replaces the workers, and `worker.py` is a
worker's end.
"""
