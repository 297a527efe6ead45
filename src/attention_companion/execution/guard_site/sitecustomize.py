"""Read by every Python that a guarded run starts (the kernel and its Python children): no network, no orphans.

This folder stands first on the run's PYTHONPATH, so the interpreter imports this file at start-up, before any other
code. It uses the standard library alone and imports as little of it as it can.

What the network guard covers: ``socket`` connections (TCP), datagrams and name look-ups made through Python's socket
module, in the kernel and in every Python process it starts with the environment handed down. Loopback and Unix
sockets stay open; the kernel's own messages need them. What it does not cover: sockets opened inside C libraries
(ZeroMQ, a linked libcurl), a name handed to connect() of the private ``_socket`` module (looked up, then refused),
programs that are not Python, and a Python started with -I, -E or -S or with an emptied environment. It is a guard
against accidents, not a sandbox.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing itself is slow to import, and every child process pays
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LOOPBACK_NAMES = {"", "localhost", "localhost.localdomain", "ip6-localhost", "::1", "0.0.0.0", "::"}
_PARENT = "ATTENTION_COMPANION_KERNEL_PARENT"


class NetworkBlocked(PermissionError):
    """Code of a guarded run asked for the network."""


def is_loopback(host: object) -> bool:
    """Whether ``host`` (str, bytes or None, as socket functions take it) names this machine's loopback."""
    if host is None:
        return True
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode("ascii", "replace")
    if not isinstance(host, str):
        return False
    name = host.strip("[]").split("%")[0].rstrip(".").lower()
    if name in _LOOPBACK_NAMES:
        return True
    if name.startswith("::ffff:"):
        name = name[len("::ffff:") :]
    parts = name.split(".")
    return len(parts) == 4 and parts[0] == "127" and all(part.isdigit() and int(part) < 256 for part in parts)


def _refuse(event: str, target: object) -> None:
    raise NetworkBlocked(
        f"network access is blocked while a notebook runs ({event} to {target!r}): results may depend only on keyed "
        "inputs. Fetch data beforehand with `companion data fetch`."
    )


def _address_allowed(address: object) -> bool:
    # A str or bytes address is a Unix socket's path; a tuple starts with the host; families without hosts
    # (netlink, bluetooth, ...) have other shapes and are refused.
    if address is None or isinstance(address, (str, bytes, bytearray)):
        return True
    return isinstance(address, tuple) and len(address) >= 2 and is_loopback(address[0])


def _guard(event: str, args: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        if not _address_allowed(args[1]):
            _refuse(event, args[1])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        if not is_loopback(args[0]):
            _refuse(event, args[0])
    elif event == "socket.getnameinfo":
        address = args[0]
        if isinstance(address, tuple) and address and not is_loopback(address[0]):
            _refuse(event, address)


def _check_names_first() -> None:
    """connect() and sendto() look a name up inside C before the audit event: look at the address before they do."""
    import socket

    def checked(name: str) -> Callable[..., Any]:
        method = getattr(socket.socket, name)

        def call(self: Any, *args: Any) -> Any:
            if args and isinstance(args[-1], tuple) and not _address_allowed(args[-1]):
                _refuse(f"socket.{name}", args[-1])
            return method(self, *args)

        call.__name__ = name
        return call

    for name in ("connect", "connect_ex", "sendto"):
        setattr(socket.socket, name, checked(name))


def _die_with_parent() -> None:
    """Make the kernel die when its runner is killed, even by SIGKILL.

    ipykernel polls its parent's id once a second, which is late and fails where a subreaper adopts orphans. On Linux
    the kernel of the operating system sends SIGKILL itself (PR_SET_PDEATHSIG); elsewhere the poller has to do.
    Only the direct child of the runner asks for it: a grandchild's parent may be a thread that ends early.
    """
    expected = os.environ.get(_PARENT, "")
    if not expected.isdigit() or os.getppid() != int(expected) or not sys.platform.startswith("linux"):
        return
    import ctypes

    pr_set_pdeathsig, sigkill = 1, 9
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, sigkill, 0, 0, 0) != 0:
        sys.stderr.write("attention_companion: prctl(PR_SET_PDEATHSIG) failed; relying on ipykernel's poller\n")
    if os.getppid() != int(expected):  # the runner died before the request was made
        os._exit(1)


def _run_next_sitecustomize() -> None:
    """Run the sitecustomize that this file hides (a distribution's or an environment's own), if there is one."""
    from importlib.machinery import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    spec.loader.exec_module(module_from_spec(spec))


sys.addaudithook(_guard)
_check_names_first()
_die_with_parent()
_run_next_sitecustomize()
