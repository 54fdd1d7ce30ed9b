"""The filter of system calls: calls that open mounts to confined code, under their newer names and numbers too."""

from __future__ import annotations

import errno
import struct

import pytest

from prime_lab_mcp.lab.sandbox import confine

_ALLOWED = 0x7FFF0000
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def decided(machine: str, number: int) -> int:
    """What the compiled filter returns for a system call whose arguments are zero, by the rules of classic BPF."""
    code = confine.seccomp_filter(machine, False)
    program = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    accumulator = at = 0
    while True:
        operation, true, false, value = program[at]
        at += 1
        if operation == 0x20:
            accumulator = {0: number, 4: _MACHINES[machine]}.get(value, 0)
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
            at += true if holds[operation] else false


@pytest.mark.parametrize("machine", _MACHINES)
def test_mounts_quotas_and_memory_of_others_have_no_newer_door(machine: str) -> None:
    refused = 0x00050000 | errno.EPERM
    assert {number: decided(machine, number) for number in (428, 467, 443, 448)} == dict.fromkeys(
        (428, 467, 443, 448), refused
    )


@pytest.mark.parametrize("machine", _MACHINES)
def test_a_call_that_is_newer_than_the_list_does_not_exist(machine: str) -> None:
    missing = 0x00050000 | errno.ENOSYS
    assert [decided(machine, number) for number in (470, 600, 0x40000000)] == [missing] * 3
    assert decided(machine, 468) == _ALLOWED
