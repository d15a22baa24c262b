"""sass_gate.py: checks the machine code of kernels, as cuobjdump -sass prints
it.

    cuobjdump -sass sm_90a.cubin | sass_gate.py PATTERN [PERCENT]

For each kernel whose name matches the pattern (a regular expression):

  - no access to local memory (LDL, STL): nothing is spilled or indexed there;
  - at least PERCENT (default 60) of the bytes of global loads and stores are
    moved by accesses of 128 bits;
  - in each innermost loop, or in a kernel without loops, no global load follows
    a store, which would delay it since memory may overlap, or a barrier. Loads
    of data that the kernel does not write (LDG.CONSTANT, a norm's weight) may:
    the compiler places them freely, and they come from the cache.

Prints a line for each kernel, and exits with 1 if a rule is broken or no kernel
matches.
"""
import re
import sys

INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*?);")
LOAD = re.compile(r"LDG?\.")
STORE = re.compile(r"STG?\.")
LOCAL = re.compile(r"(LDL|STL)\b")
TARGET = re.compile(r"\s(0x[0-9a-f]+)\s*$")


def kernels(text):
    """The instructions of each kernel: (address, name, operands)."""
    found, code = {}, None
    for line in text:
        head = re.search(r"Function : (\S+)", line)
        if head:
            code = found[head.group(1)] = []
        match = INSTRUCTION.search(line)
        if match and code is not None:
            code.append((int(match.group(1), 16), match.group(2), match.group(3)))
    return found


def size(name):
    for bits, n in ((".128", 16), (".64", 8), (".U16", 2), (".U8", 1)):
        if bits in name:
            return n
    return 4


def loops(code):
    """Address ranges of the innermost loops; all of the code if it has none.
    The branch of an instruction to itself ends every kernel."""
    ranges = []
    for address, name, operands in code:
        target = TARGET.search(operands)
        if name.startswith("BRA") and target:
            head = int(target.group(1), 16)
            if head < address:
                ranges.append((head, address))
    inner = [r for r in ranges
             if not any(o != r and r[0] <= o[0] and o[1] <= r[1] for o in ranges)]
    return inner or [(0, code[-1][0])]


def faults(code, percent):
    accesses = [(a, n) for a, n, _ in code if LOAD.match(n) or STORE.match(n)]
    total = sum(size(n) for _, n in accesses)
    wide = sum(16 for _, n in accesses if size(n) == 16)
    if any(LOCAL.match(n) for _, n, _ in code):
        yield "accesses local memory"
    if 100 * wide < percent * total:
        yield "moves %d of %d bytes by 128 bits" % (wide, total)
    for first, last in loops(code):
        store = barrier = None
        for address, name, _ in code:
            if not first <= address <= last:
                continue
            if STORE.match(name):
                store = address
            elif name.startswith("BAR"):
                barrier = address
            elif not LOAD.match(name) or "CONSTANT" in name:
                continue
            elif store is not None:
                yield "the load at %04x follows the store at %04x" % (address, store)
            elif barrier is not None:
                yield "the load at %04x follows the barrier at %04x" % (address, barrier)


def main():
    pattern = re.compile(sys.argv[1])
    percent = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    matched = broken = 0
    for name, code in kernels(sys.stdin).items():
        if not pattern.search(name) or not code:
            continue
        matched += 1
        found = list(faults(code, percent))
        broken += bool(found)
        print("%s: %s" % (name, "; ".join(found) or "ok"))
    if not matched:
        print("no kernel matches", sys.argv[1])
    return 0 if matched and not broken else 1


if __name__ == "__main__":
    sys.exit(main())
