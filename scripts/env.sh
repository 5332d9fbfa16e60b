# shellcheck shell=bash
# Makes a Python environment with this checkout in it.  Sourced by try and test.

# make_environment DIR WHAT: DIR is made when missing; WHAT is given to pip install.
make_environment() {
    local dir=$1
    shift
    local python=${PYTHON:-python3}
    if ! command -v "$python" >/dev/null; then
        echo "nodeprep needs python3; on Debian and Ubuntu: apt-get install python3 python3-venv" >&2
        return 1
    fi
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        echo "nodeprep needs Python 3.10 or newer; $python is $("$python" -V). Set PYTHON=..." >&2
        return 1
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        echo "python3 lacks venv; on Debian and Ubuntu: apt-get install python3-venv" >&2
        return 1
    fi
    [ -x "$dir/bin/python" ] || "$python" -m venv "$dir"
    "$dir/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    # An editable install leaves byte code to the first run, and some environments forbid it there.
    "$dir/bin/python" -m compileall -q nodeprep
}
