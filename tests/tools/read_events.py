#!/usr/bin/env python3
"""read_events.py FILE…: prints the points of TensorBoard's event files.

One JSON object per event: {"step": 3, "loss": 5.25, …}, {"version": …} or
{"start": step}. A checksum that does not match ends the program with an error.
The encoding is that of TFRecord and of TensorFlow's event.proto.
"""
import json
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check(data, stored):
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    if masked != struct.unpack('<I', stored)[0]:
        sys.exit('a checksum does not match')


def records(data):
    at = 0
    while at < len(data):
        check(data[at:at + 8], data[at + 8:at + 12])
        n = struct.unpack('<Q', data[at:at + 8])[0]
        body = data[at + 12:at + 12 + n]
        check(body, data[at + 12 + n:at + 16 + n])
        yield body
        at += 16 + n


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """Yields (field number, value) of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack('<d', data[at:at + 8])[0], at + 8
        elif key & 7 == 5:
            value, at = struct.unpack('<f', data[at:at + 4])[0], at + 4
        else:
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
        yield key >> 3, value


def event(data):
    found = dict(fields(data))
    step = found.get(2, 0)
    if 3 in found:
        return {'version': found[3].decode()}
    if 7 in found:
        return {'start': step} if dict(fields(found[7])) == {1: 1} else {}
    point = {'step': step}
    for number, value in fields(found[5]):
        entry = dict(fields(value))
        assert number == 1
        point[entry[1].decode()] = entry[2]
    return point


for path in sys.argv[1:]:
    with open(path, 'rb') as file:
        for record in records(file.read()):
            print(json.dumps(event(record)))
