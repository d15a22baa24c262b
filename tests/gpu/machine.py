#!/usr/bin/env python3
"""machine.py: describes this machine as one JSON object: GPUs, driver, the
libraries that a program opens with their versions and files, tools.

  machine.py directories   prints the directories of libraries that the loader
                           does not find (pip's and the toolkit's), with ':'
                           between them, for LD_LIBRARY_PATH

It opens each library, so it runs in a process of its own.
"""
import ctypes
import glob
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys

LIBRARIES = (  # as runtime/cuda/core/rt_cuda_load.c names them
    ("cuBLASLt", ("libcublasLt.so.13", "libcublasLt.so.12"),
     "cublasLtGetVersion"),
    ("cuDNN", ("libcudnn.so.9",), "cudnnGetVersion"),
    ("NCCL", ("libnccl.so.2",), "ncclGetVersion"),
    ("NVRTC", ("libnvrtc.so.13", "libnvrtc.so.12"), None),
)
TOOLKIT = os.environ.get("CUDA_HOME") or "/usr/local/cuda"


def opened(names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def directories():
    """The directories of libraries that the loader does not find by itself. If
    it misses one that is in a directory of pip or of the toolkit, all these
    directories are returned, because the libraries open each other."""
    missing = [names for _, names, _ in LIBRARIES if not opened(names)]
    found = []
    for path in sys.path:
        found += sorted(glob.glob(os.path.join(path, "nvidia", "*", "lib")))
    for path in ("lib64", "lib", "targets/*/lib"):
        found += sorted(glob.glob(os.path.join(TOOLKIT, path)))
    has = any(os.path.exists(os.path.join(directory, name))
              for names in missing for name in names for directory in found)
    return found if has else []


def file_of(names):
    for line in open("/proc/self/maps"):
        path = line.split()[-1]
        if any(f"/{name}" in path for name in names):
            return path
    return None


def version(library, call):
    """The version of a library. NCCL stores it in an argument, other libraries
    return it."""
    try:
        get = getattr(library, call)
    except AttributeError:
        return None
    if call == "ncclGetVersion":
        number = ctypes.c_int(0)
        get(ctypes.byref(number))
        return number.value
    get.restype = ctypes.c_size_t
    return get()


def gpus():
    """Names of GPUs, and the CUDA version of the driver."""
    driver = opened(("libcuda.so.1",))
    if not driver or driver.cuInit(0):
        return [], None
    count, number = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(number))
    driver.cuDeviceGetCount(ctypes.byref(count))
    names = []
    for i in range(count.value):
        name, device = ctypes.create_string_buffer(128), ctypes.c_int(0)
        driver.cuDeviceGet(ctypes.byref(device), i)
        driver.cuDeviceGetName(name, 128, device)
        names.append(name.value.decode())
    return names, f"{number.value // 1000}.{number.value % 1000 // 10}"


def nvidia_smi():
    fields = ("driver_version,memory.total,clocks.max.sm,clocks.max.mem,"
              "power.limit,persistence_mode,ecc.mode.current,mig.mode.current")
    try:
        text = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "-i", "0",
             "--format=csv,noheader"], capture_output=True, text=True,
            timeout=20, stdin=subprocess.DEVNULL).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"nvidia-smi": str(error)}
    return dict(zip(fields.split(","), (x.strip() for x in text.split(","))))


def main():
    if sys.argv[1:] == ["directories"]:
        print(":".join(directories()))
        return
    libraries = {}
    for what, names, call in LIBRARIES:
        library = opened(names)
        libraries[what] = {
            "version": version(library, call) if call and library else None,
            "file": file_of(names) if library else None} if library else None
    names, driver = gpus()
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = None
    tools = [name for name in ("nvcc", "compute-sanitizer", "ncu", "make",
                               os.environ.get("CC", "cc")) if
             shutil.which(name)]
    print(json.dumps({"gpus": names, "cuda": driver, "torch": torch,
                      "libraries": libraries, "smi": nvidia_smi(),
                      "cpus": os.cpu_count(), "tools": tools}))


if __name__ == "__main__":
    main()
