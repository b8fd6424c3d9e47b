"""Who starts, restarts and stops what, in OTP's vocabulary."""
