"""The common part of the SDKs, written from the server's own code by `scripts/sdk`.

`reading.py` makes a `Model` of the contract and the endpoint table. Each emitter in `emitters/`
writes the calls of one language from it. `vectors/` writes examples of what passes over the
realtime channel, which the hand-written half of each SDK is tested with.
"""
