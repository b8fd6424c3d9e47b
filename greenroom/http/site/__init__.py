"""Pages outside `/api/`: discovery, the reference page, the probes."""
