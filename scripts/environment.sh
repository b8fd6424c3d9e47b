# shellcheck shell=sh
# For the scripts beside this file, which set $root and source it: `prepare KIND` sets $python to
# the Python of an up-to-date environment (environment.py says how). Nothing but sh and a Python of
# 3.11 to 3.13 with pip is needed. GREENROOM_PYTHON names a Python to use rather than the newest.

unset PYTHONHOME PYTHONPATH

suitable='import importlib.util as u, sys
import venv
right = (3, 11) <= sys.version_info[:2] < (3, 14)
sys.exit(not (right and (u.find_spec("pip") or u.find_spec("ensurepip"))))'

find_python() {
    if [ -n "${GREENROOM_PYTHON:-}" ]; then
        set -- "$GREENROOM_PYTHON"
    else
        set -- python3.13 python3.12 python3.11 python3 python
    fi
    for candidate; do
        if "$candidate" -I -c "$suitable" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    echo "Greenroom needs Python 3.11, 3.12 or 3.13 with pip; found none (looked for: $*)." \
        "Debian and Ubuntu: apt-get install python3 python3-pip." >&2
    return 1
}

prepare() { # KIND
    python=
    for known in "$root/.venv/bin/python" "$root/.venv-$1/bin/python"; do
        if [ -x "$known" ]; then
            python=$("$known" -I "$root/scripts/environment.py" --check "$1") && return
        fi
    done
    maker=$(find_python) || exit 1
    python=$("$maker" -I "$root/scripts/environment.py" "$1") || exit 1
}

run_greenroom() { # ARGS...
    # -P: a folder named http in the working directory must not hide the library's
    PYTHONPATH=$root
    export PYTHONPATH
    unset GREENROOM_PYTHON
    exec "$python" -P -m greenroom "$@"
}
