"""Code that the HTTP and the realtime port share: addresses, shares, limits, listening, sending."""
