"""Supervisors, which start, restart and stop services by OTP's rules."""
