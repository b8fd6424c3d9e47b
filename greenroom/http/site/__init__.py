"""Pages outside `/api/`: the front page, discovery, the docs and the probes."""
