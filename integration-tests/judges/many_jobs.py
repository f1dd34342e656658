#!/usr/bin/env python3
"""Measures what a daemon that remembers many jobs takes, and what a small conversion costs.

    many_jobs.py --onnxd ONNXD [--before OLD_ONNXD] [--maker MAKER] [--jobs 100000] [--before-jobs 5000] [--drops 200]

MAKER is `cargo build --release -p onnxd-jobs --example many_jobs`; it repeats the jobs of real conversions in a state
folder. The daemon then starts on it: time to the first answer, memory, disk blocks per job, time of `jobs list`. With
`--before` an older onnxd does the same on fewer jobs, and the newer one takes that state folder over.

Then DROPS small models are converted with one worker and with two. Printed are conversions in a second, their ratio,
and processor time per job of the daemon's own process and of its workers.

It fails where a number is above what the manual promises. Needs Linux and onnx.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SOURCES = 24
PATIENCE_S = 1200
START_S_MAX = 3.0
MEMORY_KIB_MAX = 150 << 10
DISK_BYTES_MAX = 6 << 10
TICKS = os.sysconf("SC_CLK_TCK")


def model(path, number):
    """A network of one node; the number makes it another one."""
    weight = numpy_helper.from_array(np.full((2,), number + 0.5, np.float32), "w")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class Daemon:
    """A running daemon with folders of its own below `root`."""

    def __init__(self, onnxd, root, workers=1):
        self.onnxd, self.root = onnxd, root
        self.socket = os.path.join(root, "control.sock")
        os.makedirs(os.path.join(root, "inbox"), exist_ok=True)
        own = {
            "PATHS_ROOT": root, "STATE_DIR": os.path.join(root, "state"), "CONTROL_SOCKET": self.socket,
            "JOBS_MIN_FREE_MIB": "0", "JOBS_RETAIN_MAX": "1000000", "INTAKE_SETTLE_MS": "300",
            "WORKER_PARALLEL_MAX": str(workers),
        }
        self.environment = {**os.environ, **{f"ONNXD_{key}": value for key, value in own.items()}}
        begun = time.monotonic()
        with open(os.path.join(root, "log"), "a") as log:
            self.process = subprocess.Popen([onnxd, "run"], env=self.environment, stderr=log)
        self.ask("health")
        self.start_s = time.monotonic() - begun

    def ask(self, what, **fields):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if self.process.poll() is not None:
                sys.exit(f"the daemon ended: {open(os.path.join(self.root, 'log')).read()[-2000:]}")
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(PATIENCE_S)
                    connection.connect(self.socket)
                    connection.sendall(json.dumps({"do": what, **fields}).encode() + b"\n")
                    return json.loads(connection.makefile().readline())
            except OSError:
                time.sleep(0.005)
        sys.exit(f"no answer to {what}")

    def memory_kib(self):
        fields = dict(line.split(":", 1) for line in open(f"/proc/{self.process.pid}/status"))
        return {key: int(fields[key].split()[0]) for key in ("VmRSS", "VmHWM")}

    def cpu_s(self):
        """Of its own process, and of the workers that have ended."""
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        own, workers = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        return own / TICKS, workers / TICKS

    def run(self, *arguments):
        done = subprocess.run([self.onnxd, *arguments], env=self.environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{arguments}: {done.stderr}")
        return done.stdout

    def drop(self, count):
        """Converts so many models; the seconds from the first result to the last."""
        hidden = os.path.join(self.root, "drops")
        os.makedirs(hidden)
        for number in range(count):
            model(os.path.join(hidden, f"net{number:05}.onnx"), number)
        for name in os.listdir(hidden):
            os.rename(os.path.join(hidden, name), os.path.join(self.root, "inbox", name))
        first = None
        while True:
            done = self.ask("status")["jobs"].get("succeeded", 0)
            first = first or (done and (done, time.monotonic()))
            if done == count:
                return (count - first[0]) / max(time.monotonic() - first[1], 1e-9)
            time.sleep(0.02)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def disk_bytes(folder):
    """Blocks of all files and folders, as `du` counts them."""
    total = os.lstat(folder).st_blocks
    for above, folders, files in os.walk(folder):
        total += sum(os.lstat(os.path.join(above, name)).st_blocks for name in folders + files)
    return total * 512


def remember(onnxd, maker, root, source, count, form, is_paged):
    """Starts a daemon on many jobs."""
    state = os.path.join(root, "state")
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    copy = os.path.join(root, "source")
    shutil.copytree(source, copy)
    subprocess.run([maker, copy, state, str(count), form], check=True)
    shutil.rmtree(copy)
    return restart(onnxd, root, count, is_paged)


def restart(onnxd, root, count, is_paged):
    state = os.path.join(root, "state")
    daemon = Daemon(onnxd, root)
    memory = daemon.memory_kib()
    own_s, _ = daemon.cpu_s()
    begun = time.monotonic()
    text = daemon.run("jobs", "list", *(["--all"] if is_paged else ["--limit", "1000"]))
    list_s = time.monotonic() - begun
    listed = sum("succeeded" in line for line in text.splitlines())
    total = daemon.ask("jobs.list", limit=1)["total"]
    if total != count or listed != (count if is_paged else min(count, 1000)):
        sys.exit(f"{total} jobs of {count}, {listed} listed")
    job = daemon.ask("jobs.list", limit=1)["jobs"][0]["job"]
    daemon.run("report", job)
    after = daemon.memory_kib()
    daemon.stop()
    disk = disk_bytes(state) / count
    print(
        f"  {count} jobs: start {daemon.start_s:.2f} s ({own_s:.2f} s CPU), RSS {memory['VmRSS'] >> 10} MiB, at most "
        f"{after['VmHWM'] >> 10} MiB, {disk:.0f} bytes of disk per job, {listed} listed in {list_s:.2f} s", flush=True)
    return {"start_s": daemon.start_s, "kib": after["VmHWM"], "disk": disk}


def throughput(onnxd, root, drops):
    rates = []
    for workers in (1, 2):
        shutil.rmtree(root, ignore_errors=True)
        os.makedirs(root)
        daemon = Daemon(onnxd, root, workers)
        before = daemon.cpu_s()
        rates.append(daemon.drop(drops))
        own, work = (1000 * (now - then) / drops for now, then in zip(daemon.cpu_s(), before))
        time.sleep(12)
        memory = daemon.memory_kib()
        daemon.stop()
        disk = disk_bytes(os.path.join(root, "state")) / drops
        print(
            f"  {workers} worker{'s' * (workers > 1)}: {rates[-1]:.1f} conversions in a second; per job {own:.1f} ms "
            f"CPU of the daemon, {work:.1f} ms of workers, {disk:.0f} bytes of state; RSS {memory['VmRSS'] >> 10} MiB",
            flush=True)
    print(f"  two workers are {rates[1] / rates[0]:.2f} times as fast as one", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--before", help="an older onnxd")
    parser.add_argument("--maker", help="the example many_jobs of onnxd-jobs; without it nothing is remembered")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--before-jobs", type=int, default=5_000)
    parser.add_argument("--drops", type=int, default=200)
    parser.add_argument("--folder", help="where to work; temporary without it")
    options = parser.parse_args()
    folder = options.folder or tempfile.mkdtemp(prefix="many-jobs-")
    failures = []
    if options.maker:
        root = os.path.join(folder, "source")
        shutil.rmtree(root, ignore_errors=True)
        os.makedirs(root)
        daemon = Daemon(options.before or options.onnxd, root)
        daemon.drop(SOURCES)
        daemon.stop()
        source, many = os.path.join(root, "state"), os.path.join(folder, "many")
        if options.before:
            print("before:")
            remember(options.before, options.maker, many, source, options.before_jobs, "folders", False)
            print("taken over:")
            restart(options.onnxd, many, options.before_jobs, True)
            restart(options.onnxd, many, options.before_jobs, True)
        print("now:")
        found = remember(options.onnxd, options.maker, many, source, options.jobs, "packed", True)
        limits = {"start_s": START_S_MAX, "kib": MEMORY_KIB_MAX, "disk": DISK_BYTES_MAX}
        failures = [f"{key}: {found[key]:.2f}, at most {most}" for key, most in limits.items() if found[key] > most]
    if options.drops:
        for name, onnxd in (("before", options.before), ("now", options.onnxd)):
            if onnxd:
                print(f"{options.drops} drops, {name}:")
                throughput(onnxd, os.path.join(folder, "drops"), options.drops)
    if not options.folder:
        shutil.rmtree(folder)
    print("\n".join(failures) or "within the limits")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
