"""Supervisors: what is started, restarted and stopped, by OTP's rules."""
