"""What taking a large drop costs: processor time of the daemon and disk, on ext4, XFS and btrfs.

usage: taking.py [--gib 1 8] PROGRAM [PROGRAM...]

A drop is a folder with a small model and a file of random bytes beside it, which no conversion
reads. Each PROGRAM (an onnxd with its plugins beside it) takes the same drop on the same file
system, in turn. Disk is the most that was used meanwhile, beyond the drop itself. Needs root, for
the file systems in files; those whose mkfs is not there are left out. On XFS and btrfs a copy
shares the blocks of the drop.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import onnx
from onnx import TensorProto, helper

MKFS = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}
TICKS = os.sysconf("SC_CLK_TCK")
BLOCK = 1 << 24


def write_model(path):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", [value("x")], [value("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_drop(folder, size):
    folder.mkdir(parents=True)
    write_model(folder / "net.onnx")
    block = os.urandom(BLOCK)
    with open(folder / "beside.bin", "wb") as file:
        for first in range(0, size, BLOCK):
            file.write(first.to_bytes(8, "little") + block[8 : min(BLOCK, size - first)])
        file.flush()
        os.fsync(file.fileno())


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def used(folder):
    stat = os.statvfs(folder)
    return (stat.f_blocks - stat.f_bfree) * stat.f_frsize


def take(program, root, size):
    """Seconds from drop to end, CPU seconds of the daemon, most bytes used beyond the drop."""
    env = {**os.environ, "ONNXD_PATHS_ROOT": str(root), "ONNXD_STATE_DIR": str(root / "state")}
    env |= {"ONNXD_INTAKE_SETTLE_MS": "200", "ONNXD_JOBS_MIN_FREE_MIB": "0"}
    (root / "inbox").mkdir(parents=True)
    with open(root / "log", "w") as log:
        daemon = subprocess.Popen([program, "run"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    while "ready" not in (root / "log").read_text():
        assert daemon.poll() is None, (root / "log").read_text()
        time.sleep(0.05)
    try:
        write_drop(root / "ready", size)
        os.sync()
        before, begin, most = cpu_seconds(daemon.pid), time.monotonic(), 0
        floor = used(root)
        os.rename(root / "ready", root / "inbox" / "net")
        done = root / "outbox" / "net"
        while not done.exists():
            assert time.monotonic() - begin < 600, (root / "log").read_text()
            most = max(most, used(root) - floor)
            time.sleep(0.02)
        seconds = time.monotonic() - begin
        return seconds, cpu_seconds(daemon.pid) - before, most
    finally:
        daemon.terminate()
        daemon.wait()


def on(kind, size, program, scratch):
    image, mount = scratch / f"{kind}.image", scratch / kind
    mount.mkdir(exist_ok=True)
    with open(image, "wb") as file:
        file.truncate(3 * size + (2 << 30))
    subprocess.run([*MKFS[kind], str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=True)
    try:
        return take(program, mount / "site", size)
    finally:
        subprocess.run(["umount", str(mount)], check=True)
        image.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("programs", nargs="+")
    args = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(dir=args.scratch))
    kinds = [kind for kind in MKFS if shutil.which(MKFS[kind][0])]
    print(f"{'file system':12} {'GiB':>4} {'program':32} {'seconds':>8} {'CPU s':>7} {'disk MiB':>9}")
    try:
        for kind in kinds:
            for gib in args.gib:
                for program in args.programs:
                    seconds, cpu, disk = on(kind, gib << 30, program, scratch)
                    print(f"{kind:12} {gib:4} {program[-32:]:32} {seconds:8.1f} {cpu:7.2f} {disk / 2**20:9.0f}", flush=True)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
