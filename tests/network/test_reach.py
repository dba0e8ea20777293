# SPDX-License-Identifier: Apache-2.0
"""What an open cell reaches and what it does not. Every refusal has a control: the same attempt from the host of
this world, where it must succeed, or it would prove nothing."""

import pytest
from conftest import CLOSED, CLOSED6, OWN, OWN6, OWN_OTHER, PORT, PUBLIC, PUBLIC6, PYTHON, RESOLVER


def from_host(world, user, how, address, port=PORT):
    return world.host(PYTHON, user.work / "reach.py", how, address, port, check=False).returncode == 0


def is_refused(world, user, how, address, *flags, port=PORT):
    """Not answered, and nobody heard anything."""
    before = len(world.contacts())
    answered = user.reach(how, address, *flags, port=port)
    heard = [line for line in world.contacts()[before:] if not line.startswith("dns")]
    return not answered and not heard


@pytest.mark.parametrize("how", ["tcp", "udp", "tcp-bound", "udp-bound", "tcp-mapped"])
def test_a_public_address_is_reached(world, user, how):
    assert user.reach(how, PUBLIC)


@pytest.mark.parametrize("how", ["name-tcp", "name-udp"])
def test_names_are_resolved(world, user, how):
    before = len(world.contacts())
    assert user.reach(how, "www.example.org")
    assert any(line.startswith(f"dns-udp {RESOLVER}") for line in world.contacts()[before:])


def test_a_private_resolver_is_open_for_names_only(world, user):
    assert user.reach("dns-udp", RESOLVER, port=53)
    assert user.reach("dns-tcp", RESOLVER, port=53)
    assert from_host(world, user, "tcp", RESOLVER)
    assert is_refused(world, user, "tcp", RESOLVER)
    assert is_refused(world, user, "udp", RESOLVER)


@pytest.mark.parametrize("address", CLOSED)
def test_private_and_metadata_addresses_are_closed(world, user, address):
    assert from_host(world, user, "tcp", address)
    assert from_host(world, user, "udp", address)
    for how in ("tcp", "udp"):
        assert is_refused(world, user, how, address), how


@pytest.mark.parametrize("how", ["tcp-bound", "udp-bound", "tcp-mapped"])
@pytest.mark.parametrize("address", ["10.1.2.3", "169.254.169.254"])
def test_they_are_closed_by_other_ways_too(world, user, how, address):
    control = "tcp" if how == "tcp-mapped" else how.replace("-bound", "")
    assert from_host(world, user, control, address)
    assert is_refused(world, user, how, address)


def test_source_routing_leads_nowhere(world, user):
    assert is_refused(world, user, "udp-routed", "10.1.2.3")
    before = len(world.contacts())
    from_host(world, user, "udp-routed", "10.1.2.3")
    assert world.contacts()[before:] == [f"udp 10.1.2.3 from {OWN}"]


@pytest.mark.parametrize("address", ["127.0.0.1", OWN, OWN_OTHER, "::1", OWN6, "0.0.0.0"])
def test_the_host_itself_is_closed(world, user, address):
    how = "tcp"
    assert from_host(world, user, how, address)
    before = len(world.contacts())
    assert not user.reach("tcp", address)
    assert not user.reach("udp", address)
    assert not [line for line in world.contacts()[before:] if not line.startswith("dns")]


@pytest.mark.parametrize("address", [OWN, OWN_OTHER])
def test_the_host_is_closed_to_sockets_bound_to_the_interface(world, user, address):
    assert is_refused(world, user, "tcp-bound", address)
    assert is_refused(world, user, "udp-bound", address)


def test_ipv6_is_reached_where_it_is_given(world, user):
    if user.is_root:
        world.host("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
        # answers to the translated address come back by the link
    try:
        assert user.reach("tcp", PUBLIC6)
        assert user.reach("udp", PUBLIC6)
        for address in CLOSED6:
            assert from_host(world, user, "tcp", address), address
            for how in ("tcp", "udp", "tcp-bound"):
                assert is_refused(world, user, how, address), (how, address)
        assert is_refused(world, user, "tcp", OWN6)
    finally:
        world.host("sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/all/forwarding")


def test_ipv6_is_not_there_as_root_while_the_host_passes_none_on(world, user):
    if not user.is_root:
        pytest.skip("pasta needs no forwarding")
    assert not user.reach("tcp", PUBLIC6)


def test_a_named_range_is_open(world, user):
    assert user.reach("tcp", "10.1.2.3", "--net-private", "10.1.2.0/24")
    assert user.reach("udp", "10.1.2.3", "--net-private", "10.1.2.3")
    assert is_refused(world, user, "tcp", "10.255.0.1", "--net-private", "10.1.2.0/24")


def test_a_named_port_is_open_and_no_other(world, user):
    assert user.reach("tcp", "10.1.2.3", "--net-private", f"10.1.2.3:{PORT}")
    assert user.reach("udp", "10.1.2.3", "--net-private", f"10.1.2.0/24:{PORT}")
    assert is_refused(world, user, "tcp", "10.1.2.3", "--net-private", "10.1.2.3:22")


def test_metadata_is_open_by_its_exact_address_only(world, user):
    assert user.reach("tcp", "169.254.169.254", "--net-private", "169.254.169.254")
    assert user.reach("tcp", "100.100.100.200", "--net-private", "100.100.100.200")
    assert user.reach("tcp", "100.64.1.1", "--net-private", "100.64.0.0/10")
    assert is_refused(world, user, "tcp", "100.100.100.200", "--net-private", "100.64.0.0/10")
    r = user.cell("run", "--network", "open", "--net-private", "169.254.0.0/16", "--", "true", check=False)
    assert r.returncode != 0
    assert "one by one" in r.stderr


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.0/8", "0.0.0.0/0", "::1", "::/0", "::ffff:127.0.0.1", OWN, OWN6])
def test_the_host_cannot_be_named(world, user, address):
    r = user.cell("run", "--network", "open", "--net-private", address, "--", "true", check=False)
    assert r.returncode != 0
    assert "host" in r.stderr


def test_two_open_cells_do_not_reach_each_other(world, user):
    code = ("import socket,sys;s=socket.socket();s.bind(('',7777));s.listen();"
        "u=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);u.connect(('203.0.113.10',1));"
        "print(u.getsockname()[0],flush=True);sys.stdin.read()")
    server = user.start("run", "-i", "--network", "open", "-w", user.work, "--", PYTHON, "-c", code)
    try:
        address = server.stdout.readline().strip()
        assert address
        # a control: a program in the other cell reaches its own server by that address
        assert not user.reach("tcp", address)
        assert not user.reach("tcp-bound", address)
        assert not user.reach("tcp", address, "--net-private", address) if user.is_root else True
    finally:
        server.communicate("")
    assert server.returncode == 0


def test_network_none_has_no_way_out(world, user):
    r = user.cell("run", "-w", user.work, "--", PYTHON, "reach.py", "tcp", PUBLIC, PORT, check=False)
    assert r.returncode == 1, r.stderr
    assert not r.stdout.startswith("reached")


def test_a_list_of_domains_is_refused(world, user):
    r = user.cell("run", "--allow", "example.org", "--", "true", check=False)
    assert r.returncode != 0
    assert "network.allow" in r.stderr


def test_a_resolver_on_the_host_is_worked_around(world, user):
    world.set_resolver("127.0.0.53")
    try:
        if user.is_root:
            r = user.cell("run", "--network", "open", "--", "true", check=False)
            assert r.returncode != 0
            assert "--dns" in r.stderr
        assert user.reach("name-tcp", "www.example.org", "--dns", RESOLVER)
    finally:
        world.set_resolver(RESOLVER)


def test_pasta_passes_names_on_to_a_resolver_on_the_loopback(world, user):
    if user.is_root:
        pytest.skip("pasta is for those without root")
    log = world.tmp / "local-resolver"
    world.host("ip", "addr", "replace", "127.0.0.53/32", "dev", "lo")
    world.host.serve(log, "127.0.0.53")
    world.set_resolver("127.0.0.53")
    try:
        assert user.reach("name-tcp", "www.example.org")
        assert "dns-udp 127.0.0.53" in log.read_text()
    finally:
        world.set_resolver(RESOLVER)
        p = world.host.servers.pop()
        p.kill()
        p.wait()
        p.stdout.close()
        world.host("ip", "addr", "del", "127.0.0.53/32", "dev", "lo")


def test_the_interface_cannot_be_changed_from_inside(world, user):
    code = ("import socket;s=socket.socket(socket.AF_NETLINK,socket.SOCK_RAW,0);"
        # RTM_NEWADDR of 10.9.9.9/8 on interface 2, acknowledged
        "s.send(bytes.fromhex('28000000140005060100000000000000')+bytes.fromhex('0208000002000000')+"
        "bytes.fromhex('080002000a090909')+bytes.fromhex('080001000a090909'));"
        "import struct;e=struct.unpack_from('i',s.recv(999),16)[0];print(e)")
    r = user.cell("run", "--network", "open", "--", PYTHON, "-c", code, check=False)
    assert r.stdout.strip() == "-1", r.stdout + r.stderr
