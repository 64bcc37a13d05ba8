"""A proxy passes everything, until it is told what to do to it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.eventually import eventually
from tests.support.proxy import Proxy

ProxyTo = Callable[[int], Proxy]


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while received := connection.recv(65536):
                connection.sendall(received)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.fixture
def proxy(echo: int, proxy_to: ProxyTo) -> Proxy:
    return proxy_to(echo)


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with connect(proxy) as connection:
        assert asked(connection, b"hello") == b"hello"
        yield connection


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=30)


def asked(connection: socket.socket, said: bytes) -> bytes:
    connection.sendall(said)
    heard = b""
    while len(heard) < len(said):
        heard += connection.recv(65536)
    return heard


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(0.3)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    return False


def test_everything_passes_in_order(client: socket.socket) -> None:
    body = bytes(range(256)) * 4096
    sender = threading.Thread(target=client.sendall, args=(body,))
    sender.start()
    heard = bytearray()
    while len(heard) < len(body):
        heard += client.recv(65536)
    sender.join()
    assert heard == body


def test_an_end_is_passed_on(client: socket.socket, proxy: Proxy) -> None:
    client.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""
    eventually(lambda: proxy.connections == 0, "the end of the connection")


def test_a_cut_resets_and_new_connections_pass(client: socket.socket, proxy: Proxy) -> None:
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with connect(proxy) as another:
        assert asked(another, b"again") == b"again"
    assert proxy.accepted == 2


def test_a_blackhole_swallows_and_says_nothing(client: socket.socket, proxy: Proxy) -> None:
    proxy.blackhole()
    client.sendall(b"lost")
    assert is_silent(client)
    with connect(proxy) as meanwhile:
        meanwhile.sendall(b"lost too")
        assert is_silent(meanwhile)
    proxy.resume()
    assert is_silent(client)
    with connect(proxy) as afterwards:
        assert asked(afterwards, b"back") == b"back"


def test_what_is_held_comes_later(client: socket.socket, proxy: Proxy) -> None:
    proxy.hold()
    client.sendall(b"later")
    assert is_silent(client)
    proxy.resume()
    client.settimeout(30)
    assert client.recv(5, socket.MSG_WAITALL) == b"later"


def test_a_delay_is_taken_each_way(client: socket.socket, proxy: Proxy) -> None:
    proxy.delay(0.1)
    began = time.monotonic()
    assert asked(client, b"late") == b"late"
    assert time.monotonic() - began >= 0.2


def test_a_throttle_keeps_the_rate(client: socket.socket, proxy: Proxy) -> None:
    proxy.throttle(100_000)
    began = time.monotonic()
    assert asked(client, bytes(30_000)) == bytes(30_000)
    assert time.monotonic() - began >= 0.25


def test_half_open_tells_the_broker_only(proxy_to: ProxyTo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = proxy_to(listener.getsockname()[1])
        listener.settimeout(30)
        with connect(proxy) as client:
            broker, _ = listener.accept()
            with broker:
                broker.settimeout(30)
                # The proxy knows of a connection once something came through it.
                client.sendall(b"hello")
                assert broker.recv(5, socket.MSG_WAITALL) == b"hello"
                proxy.half_open()
                with pytest.raises(ConnectionResetError):
                    broker.recv(1)
            client.sendall(b"to nobody")
            assert is_silent(client)


def test_refused_until_resumed(client: socket.socket, proxy: Proxy) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    assert asked(client, b"still here") == b"still here"
    proxy.resume()
    with connect(proxy) as another:
        assert asked(another, b"again") == b"again"


def test_a_closed_proxy_leaves_no_thread(echo: int, proxy_to: ProxyTo) -> None:
    before = set(threading.enumerate())
    proxy = proxy_to(echo)
    with connect(proxy) as client:
        client.sendall(b"hello")
        eventually(lambda: proxy.connections == 1, "the connection")
        proxy.close()
    mine = [t for t in threading.enumerate() if t not in before and t.name.startswith("proxy")]
    assert mine == []
