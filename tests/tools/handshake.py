"""handshake.py: an unknown peer of the port where rank 0 of a job listens.

handshake.py PORT idle N            opens N connections and sends nothing
handshake.py PORT hello [OPTION…]   introduces itself as a rank; prints the answer
    wrong-key       without the job's key
    replay          with a code for the nonce of another connection
    rank=R size=N plan=P host=TEXT
handshake.py PORT serve             plays rank 0 without the key: answers
                                   JOINED to every peer and prints its message

The environment names the job, as in runtime/launch/key.c; runtime/launch/handshake.h
defines the messages.
"""
import hashlib
import hmac
import os
import socket
import struct
import sys
import time

ANSWERS = ["", "joined", "other job", "other token", "other size",
           "other plan", "taken", "no rank"]
VARIABLES = ["PARC_MASTER", "TORCHELASTIC_RUN_ID", "MASTER_PORT",
             "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"]
HELLO = 8 + 4 * 4 + 2 * 8 + 64 + 16 + 32
CHALLENGE = 8 + 16
REPLY = 4 + 4 + 32


def job():
    """The job's number and the key."""
    names = b"".join(os.environ.get(name, "").encode() + b"\0"
                     for name in VARIABLES)
    number = hashlib.sha256(names + b"job").digest()[:8]
    token = os.environ.get("PARC_TOKEN", "").encode()
    return (int.from_bytes(number, sys.byteorder),
            hashlib.sha256(names + token).digest())


def connect(port):
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port), 20)
        except ConnectionRefusedError:
            time.sleep(0.05)
    sys.exit("nothing listens")


def read(s, n):
    data = b""
    while len(data) < n:
        piece = s.recv(n - len(data))
        if not piece:
            break
        data += piece
    return data


def hello(port, options):
    number, key = job()
    s = connect(port)
    nonce = read(s, CHALLENGE)[8:]
    if "wrong-key" in options:
        key = bytes(32)
    if "replay" in options:
        nonce = bytes(16)
    given = dict(o.split("=", 1) for o in options if "=" in o)
    text = b"parcrank" + struct.pack(
        "<IIiiQQ64s16s", 2, 0, int(given.get("rank", 1)),
        int(given.get("size", 4)), number, int(given.get("plan", "7"), 0),
        given.get("host", "stranger").encode().decode("unicode_escape").encode(),
        b"n" * 16)
    code = hmac.new(key, b"rank" + nonce + text, hashlib.sha256).digest()
    s.sendall(text + code)
    reply = read(s, REPLY)
    print(ANSWERS[struct.unpack_from("<I", reply)[0]] if reply else "closed")


def idle(port, n):
    held = [connect(port) for _ in range(n)]
    print(len(held), flush=True)
    time.sleep(20)


def serve(port):
    server = socket.create_server(("127.0.0.1", port))
    while True:
        s, _ = server.accept()
        s.sendall(b"parcrank" + bytes(16))
        print(read(s, HELLO), flush=True)
        s.sendall(struct.pack("<II", 1, 0) + bytes(32))
        s.close()


if __name__ == "__main__":
    where, what, rest = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if what == "idle":
        idle(where, int(rest[0]))
    elif what == "serve":
        serve(where)
    else:
        hello(where, rest)
