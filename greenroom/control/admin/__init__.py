"""Operations for operators: each works with a running server and without one."""
