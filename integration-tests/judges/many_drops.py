#!/usr/bin/env python3
"""Drops thousands of small models into one top folder, then a few into another one, and prints how long these wait.

    many_drops.py ONNXD FOLDER [--old ONNXD] [--drops 10000] [--seconds 60] [--lives 20] [--same] [--only CASE]

Cases, each for every program that is given, in one run on one machine:

    fair       10,000 drops in `team-a/ann` and `team-a/bob`, and 5 s later 5 in `team-b`: how long each of
               these waits from its rename to the start of its conversion and to its result, beyond the settle time;
               with 1 and 2 workers: results in a second, and what one of them takes of the daemon's processor time;
               the daemon's memory; the size of the state folder for each job
    restarts   the same drops, and a daemon that is stopped every 2.6 s

With --same all models have the same bytes, so that all but the first are answered from an earlier result.
Needs Linux (/proc) and onnx. FOLDER is emptied. Exit status 1 if a drop of `team-b` waits for more than 2 s.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime

import onnx
from onnx import TensorProto, helper

SETTLE_S = 2.0
WAIT_MAX_S = 2.0
LATE = 5
LATER_S = 5.0
LIFE_S = 2.6
PATIENCE_S = 900
TICKS = os.sysconf("SC_CLK_TCK")


def small_model(mark):
    """A model of one operator; the text makes its bytes unlike others."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", value[:1], value[1:])
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8, doc_string=mark).SerializeToString()


class Site:
    """The folders of one daemon, and its log."""

    def __init__(self, onnxd, folder, workers):
        self.onnxd, self.folder, self.workers = onnxd, folder, workers
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(self.at("inbox"))
        self.daemon = None

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def start(self):
        sets = [
            f"paths.root={self.folder}", f"state.dir={self.at('state')}", "jobs.min_free_mib=0", "log.format=json",
            f"worker.parallel_max={self.workers}", f"intake.settle_ms={int(SETTLE_S * 1000)}",
            "jobs.retain_max=1000000",
        ]
        with open(self.at("log"), "ab") as log:
            args = [self.onnxd, "run"] + [word for entry in sets for word in ("--set", entry)]
            self.daemon = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)

    def stop(self):
        self.daemon.send_signal(signal.SIGTERM)
        return self.daemon.wait(timeout=120)

    def drop(self, count, folder, marks):
        """Files below a folder that appears in the inbox at once."""
        staged = self.at("staged")
        for user in ("ann", "bob"):
            os.makedirs(os.path.join(staged, user))
        for number in range(count):
            path = os.path.join(staged, "ann" if number % 2 else "bob", f"net{number}.onnx")
            with open(path, "wb") as out:
                out.write(small_model(marks(number)))
        os.rename(staged, self.at("inbox", folder))

    def results(self, folder):
        return sum(name.endswith("report.json") for _, _, files in os.walk(self.at("outbox", folder)) for name in files)

    def changes(self):
        """Name, state and time of each change of a job, as the log tells them."""
        with open(self.at("log"), errors="replace") as log:
            for line in log:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if "to" in entry and "name" in entry:
                    stamp = datetime.fromisoformat(entry["timestamp"].replace("Z", "+00:00"))
                    yield entry["name"], entry["to"], stamp.timestamp()

    def cpu_s(self):
        """Processor time of the daemon itself, without its workers."""
        with open(f"/proc/{self.daemon.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak_mib(self):
        with open(f"/proc/{self.daemon.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

    def state_bytes(self):
        files = (os.path.join(at, name) for at, _, names in os.walk(self.at("state")) for name in names)
        return sum(os.lstat(path).st_blocks * 512 for path in files if os.path.lexists(path))


def wait_for(what, done, patience=PATIENCE_S):
    until = time.time() + patience
    while not done():
        if time.time() > until:
            print(f"  gave up waiting for {what} after {patience} s")
            return False
        time.sleep(0.05)
    return True


def fair(onnxd, options, workers):
    """Prints one line of figures; the longest wait beyond the settle time."""
    site = Site(onnxd, options.folder, workers)
    site.start()
    site.drop(options.drops, "team-a", lambda n: "same" if options.same else str(n))
    begun = time.time()
    time.sleep(LATER_S)
    dropped, staged = {}, site.at("late")
    os.makedirs(staged)
    os.makedirs(site.at("inbox", "team-b"))
    for number in range(LATE):
        name = f"late{number}"
        path = os.path.join(staged, f"{name}.onnx")
        with open(path, "wb") as out:
            out.write(small_model(f"late {number}"))
        os.rename(path, site.at("inbox", "team-b", f"{name}.onnx"))
        dropped[name] = time.time()
    arrived = {}

    def all_there():
        for name in dropped:
            if name not in arrived and os.path.isdir(site.at("outbox", "team-b", name)):
                arrived[name] = time.time()
        return len(arrived) == LATE

    wait_for("the drops of team-b", all_there)
    before, cpu, at = site.results("team-a"), site.cpu_s(), time.time()
    wait_for("results", lambda: site.results("team-a") >= options.drops, options.seconds)
    results, cpu, took = site.results("team-a") - before, site.cpu_s() - cpu, time.time() - at
    peak, jobs = site.peak_mib(), len({name for name, _, _ in site.changes()})
    site.stop()
    results_at = [at for name, to, at in site.changes() if to == "succeeded" and name not in dropped]
    first = min(results_at, default=float("inf")) - begun - SETTLE_S
    started = {name: at for name, to, at in site.changes() if name in dropped and to == "running"}
    late = sorted(arrived.get(name, float("inf")) - at - SETTLE_S for name, at in dropped.items())
    start = sorted(started.get(name, float("inf")) - at - SETTLE_S for name, at in dropped.items())
    state = site.state_bytes() / max(jobs, 1) / 1024
    print(
        f"  {workers} workers: first result after {first:.1f} s; "
        f"team-b waits {start[0]:.2f} to {start[-1]:.2f} s to start, "
        f"{late[0]:.2f} to\n    {late[-1]:.2f} s to its result; {results / took:.1f} results/s, "
        f"{cpu * 1000 / max(results, 1):.1f} ms of the daemon each; peak {peak:.0f} MiB;\n"
        f"    {state:.0f} KiB of state for each of {jobs} jobs"
    )
    return start[-1]


def restarts(onnxd, options):
    """Prints how far a daemon comes that is stopped every LIFE_S."""
    site = Site(onnxd, options.folder, 1)
    site.drop(options.drops, "team-a", lambda n: "same" if options.same else str(n))
    ended = []
    for _ in range(options.lives):
        site.start()
        time.sleep(LIFE_S)
        ended.append(site.stop())
    taken = len({name for name, to, _ in site.changes() if to == "claimed"})
    results = site.results("team-a")
    print(f"  {options.lives} lives of {LIFE_S} s: {taken} drops taken, {results} results, ended with {set(ended)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("onnxd")
    parser.add_argument("folder")
    parser.add_argument("--old", help="another program, to compare with")
    parser.add_argument("--drops", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=60, help="for which results are counted")
    parser.add_argument("--lives", type=int, default=20)
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--only", choices=["fair", "restarts"])
    options = parser.parse_args()
    options.folder = os.path.abspath(os.path.join(options.folder, "many-drops"))
    print(f"onnx {onnx.__version__}, {options.drops} drops of {len(small_model('0'))} bytes")
    longest = 0.0
    for onnxd in filter(None, (options.old, options.onnxd)):
        print(os.path.abspath(onnxd))
        if options.only != "restarts":
            waits = [fair(os.path.abspath(onnxd), options, workers) for workers in (1, 2)]
            longest = max(waits)
        if options.only != "fair":
            restarts(os.path.abspath(onnxd), options)
    sys.exit(1 if longest > WAIT_MAX_S else 0)


if __name__ == "__main__":
    main()
