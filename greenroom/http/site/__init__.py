"""What is answered outside `/api/`: discovery, the reference page, the probes."""
