"""The network guard in Python processes. No packet leaves: what is not refused is stopped by a second hook."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from attention_companion.execution.environment import GUARD_SITE
from attention_companion.execution.runner import run

# Raises where the guard did not: the system call itself is never reached.
STOP = """
import sys
class Reached(Exception): pass
def stop(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname",
                 "socket.gethostbyaddr", "socket.getnameinfo"):
        raise Reached(event)
sys.addaudithook(stop)
import socket
try:
    {code}
except Reached as error:
    print("reached", error)
except OSError as error:
    print(type(error).__name__)
"""
OUTWARD = {
    "connect": "socket.socket().connect(('192.0.2.1', 80))",
    "connect_ex": "socket.socket().connect_ex(('192.0.2.1', 80))",
    "create_connection": "socket.create_connection(('192.0.2.1', 80))",
    "connect6": "socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))",
    "sendto": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
    "sendmsg": "socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('192.0.2.1', 9))",
    "getaddrinfo": "socket.getaddrinfo('example.org', 80)",
    "getaddrinfo_bytes": "socket.getaddrinfo(b'example.org', 80)",
    "getaddrinfo_dot": "socket.getaddrinfo('localhost.example.org', 80)",
    "gethostbyname": "socket.gethostbyname('example.org')",
    "gethostbyname_ex": "socket.gethostbyname_ex('example.org')",
    "gethostbyaddr": "socket.gethostbyaddr('192.0.2.1')",
    "getnameinfo": "socket.getnameinfo(('192.0.2.1', 80), 0)",
    "urllib": "import urllib.request; urllib.request.urlopen('http://192.0.2.1/')",
}


def python(code, guarded, **extra):
    """What a fresh interpreter prints, with or without the guard's folder on its path."""
    env = {**os.environ, "PYTHONPATH": str(GUARD_SITE) if guarded else "", **extra}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize("code", OUTWARD.values(), ids=OUTWARD)
def test_every_way_out_is_refused_and_only_by_the_guard(code):
    # OSError subclasses only: URLError wraps the guard's refusal.
    assert python(STOP.format(code=code), guarded=True) in {"NetworkBlocked", "URLError"}
    assert python(STOP.format(code=code), guarded=False).startswith("reached socket.")


@pytest.mark.parametrize(
    "code",
    [
        "socket.socket().connect(('example.org', 80))",
        "socket.socket().connect_ex(('example.org', 80))",
        "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('example.org', 9))",
        "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', 0, ('example.org', 9))",
    ],
)
def test_a_name_is_refused_before_it_is_looked_up(code):
    """Inside C the look-up comes before the audit event; without the guard's wrapper this would ask a name server."""
    source = (GUARD_SITE / "sitecustomize.py").read_text(encoding="utf-8")
    assert "_check_names_first()\n_die" in source
    started = time.monotonic()
    assert python(STOP.format(code=code), guarded=True) == "NetworkBlocked"
    assert time.monotonic() - started < 5  # no resolver was waited for


def test_loopback_unix_sockets_and_pipes_stay_open(tmp_path):
    code = f"""
import socket, asyncio
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "localhost"), (socket.AF_INET, "127.8.9.10")):
    server = socket.socket(family); server.bind(("0.0.0.0", 0)); server.listen()
    socket.create_connection((host, server.getsockname()[1])).close()
u = socket.socket(socket.AF_UNIX); u.bind({str(tmp_path / "s")!r}); u.listen()
socket.socket(socket.AF_UNIX).connect({str(tmp_path / "s")!r})
a, b = socket.socketpair(); a.send(b"x")
async def main(): return 3
print(asyncio.run(main()))
"""
    assert python(code, guarded=True) == "3"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.255.1.2", True), (b"127.0.0.1", True), ("localhost", True), ("LOCALHOST.", True),
        ("::1", True), ("[::1]", True), ("::1%lo", True), ("::ffff:127.0.0.1", True), (None, True), ("", True),
        ("127.0.0.1.example.org", False), ("127.0.0", False), ("127.0.0.256", False), ("128.0.0.1", False),
        ("::2", False), ("::ffff:10.0.0.1", False), ("localhost.example.org", False), (3, False),
    ],
)  # fmt: skip
def test_what_counts_as_loopback(host, loopback):
    code = f"import sitecustomize; print(sitecustomize.is_loopback({host!r}))"
    assert python(code, guarded=True) == str(loopback)


def test_the_next_sitecustomize_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('theirs')\n")
    path = os.pathsep.join([str(GUARD_SITE), str(tmp_path)])
    code = STOP.format(code=OUTWARD["getaddrinfo"])
    assert python(code, guarded=True, PYTHONPATH=path).split() == ["theirs", "NetworkBlocked"]


def test_what_the_guard_does_not_cover():
    """Said in its docstring, and shown: a Python started with -I does not read the environment."""
    inner = STOP.format(code=OUTWARD["connect"])
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', {inner!r}])"
    assert python(code, guarded=True) == "reached socket.connect"


def test_kernel_and_its_python_children_are_guarded_and_loopback_serves(mini_project, tmp_path):
    server = socket.create_server(("127.0.0.1", 0))

    def greet():
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"hello")

    greeter = threading.Thread(target=greet, daemon=True)
    greeter.start()
    mini_project.notebook(
        "13_network",
        f"""
        import socket, subprocess, sys
        print(socket.create_connection(("127.0.0.1", {server.getsockname()[1]})).recv(5).decode())
        try:
            socket.create_connection(("192.0.2.1", 80), timeout=1)
        except PermissionError as error:
            print("blocked:", "companion data fetch" in str(error))
        code = "import socket; socket.getaddrinfo('example.org', 80)"
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        print("child:", "NetworkBlocked" in child.stderr)
        """,
    )
    result = run(mini_project.project, "13_network", "quick")
    greeter.join(timeout=5)
    server.close()
    text = result.executed.read_text(encoding="utf-8")
    assert all(part in text for part in ("hello", "blocked: True", "child: True"))
