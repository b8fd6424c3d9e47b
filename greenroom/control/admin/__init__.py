"""Operations for operators.

Each one works with a running server and without one.
"""
