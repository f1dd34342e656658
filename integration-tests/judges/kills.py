#!/usr/bin/env python3
"""Kills the daemon again and again while a consumer takes results away, and counts what was accepted, published and delivered.

    kills.py ONNXD [--kills 1000] [--on ext4,xfs,btrfs,tmpfs,across] [--folder DIR] [--seed N]

Each drop has to be delivered once. The consumer renames every result out of the outbox as soon as it sees it. Half of the
kills come right after a result has shown itself: between the rename and its record.

File systems are made in files and mounted on loop devices, which needs root, mkfs.ext4, mkfs.xfs and mkfs.btrfs. `across`
has the state folder on ext4 and the outbox on tmpfs. With `--on here` everything lies in --folder. Needs Python alone.
"""
import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

# After so many in a row the jobs are finished: no job is started so often that it looks like one that kills daemons.
IN_A_ROW = 8
IMAGE_MIB = 600
# A daemon that finishes nothing for so long is stuck.
PATIENCE_S = 300


def field(number, value):
    """A field of a protobuf message: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def model(mark):
    """A model of one Relu that is unlike those with another mark."""
    dims = field(1, field(1, 1)) + field(1, field(1, 4))
    kind = field(1, field(1, 1) + field(2, dims))
    value = lambda name: field(1, name) + field(2, kind)
    node = field(1, b"x") + field(2, b"y") + field(3, b"relu") + field(4, b"Relu")
    graph = field(1, node) + field(2, b"g") + field(11, value(b"x")) + field(12, value(b"y"))
    return field(1, 8) + field(6, mark.encode()) + field(7, graph) + field(8, field(2, 17))


class Consumer(threading.Thread):
    """Takes every result away at once, and reads it afterwards."""

    def __init__(self, outbox, taken):
        super().__init__(daemon=True)
        self.outbox, self.taken = outbox, taken
        self.delivered, self.count = [], 0
        self.shown, self.ended = threading.Event(), False
        os.makedirs(taken)

    def run(self):
        while not self.ended:
            if not self.look():
                time.sleep(0.0005)

    def look(self):
        found = False
        with contextlib.suppress(FileNotFoundError):
            for entry in list(os.scandir(self.outbox)):
                if not entry.name.startswith(".") and entry.is_dir():
                    to = os.path.join(self.taken, f"{self.count}-{entry.name}")
                    os.rename(entry.path, to)
                    self.shown.set()
                    self.count, found = self.count + 1, True
                    self.delivered.append(to)
        return found

    def names(self):
        """The drop that each result is of. Where its name was taken, `.<job>` follows it."""
        return [os.path.basename(folder).split("-", 1)[1].split(".")[0] for folder in self.delivered]


class Site:
    def __init__(self, onnxd, root, outbox):
        self.onnxd, self.root, self.outbox = onnxd, root, outbox
        self.inbox = os.path.join(root, "inbox")
        for folder in (self.inbox, outbox, os.path.join(root, "state")):
            os.makedirs(folder, exist_ok=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": root,
            "ONNXD_PATHS_ROOT": root,
            "ONNXD_STATE_DIR": os.path.join(root, "state"),
            "ONNXD_OUTPUT_OUTBOX": outbox,
            "ONNXD_INTAKE_SETTLE_MS": "10",
            "ONNXD_JOBS_MIN_FREE_MIB": "0",
            "ONNXD_WORKER_PARALLEL_MAX": "2",
            "ONNXD_LOG_LEVEL": "info",
        }
        self.drops = []

    def start(self, command):
        with open(os.path.join(self.root, "log"), "ab") as log:
            return subprocess.Popen([self.onnxd, command], env=self.env, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=log, start_new_session=True)

    def drop(self, dice):
        """A file, or a folder with one, that is renamed into the inbox. Some have the contents of an earlier one."""
        n = len(self.drops)
        copied = self.drops and dice.random() < 0.15
        mark = dice.choice(self.drops)[1] if copied else f"{self.root}/{n}"
        name = f"net{n:05}"
        self.drops.append((name, mark))
        staged = os.path.join(self.root, "staged")
        os.makedirs(staged)
        with open(os.path.join(staged, "model.onnx"), "wb") as file:
            file.write(model(mark))
        if dice.random() < 0.3:
            os.rename(staged, os.path.join(self.inbox, name))
        else:
            os.rename(os.path.join(staged, "model.onnx"), os.path.join(self.inbox, f"{name}.onnx"))
            os.rmdir(staged)

    def finish(self):
        """Lets all jobs come to their ends."""
        daemon = self.start("once")
        try:
            daemon.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            sys.exit(f"the daemon does not finish\n{self.log()}")

    def log(self):
        with open(os.path.join(self.root, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]

    def jobs(self):
        """All jobs, as the daemon lists them."""
        daemon = self.start("run")
        args = [self.onnxd, "jobs", "list", "--json", "--limit", "1000"]
        until = time.monotonic() + PATIENCE_S
        while True:
            listed = subprocess.run(args, env=self.env, capture_output=True, text=True)
            if listed.returncode == 0:
                break
            if time.monotonic() > until:
                sys.exit(f"no answer: {listed.stderr}")
            time.sleep(0.05)
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(PATIENCE_S)
        return json.loads(listed.stdout)["jobs"]


def time_to_result(site, consumer, dice):
    site.drop(dice)
    consumer.shown.clear()
    begin, daemon = time.monotonic(), site.start("run")
    if not consumer.shown.wait(PATIENCE_S):
        sys.exit(f"no result\n{site.log()}")
    taken = time.monotonic() - begin
    daemon.kill()
    daemon.wait()
    return taken


def kill_once(site, consumer, dice, usual):
    """One life of a daemon; whether it ended right after a result had shown itself."""
    at_result = dice.random() < 0.5
    life = usual * (0.2 + 2.3 * dice.random())
    daemon = site.start("run")
    time.sleep(life * dice.random() * 0.3)
    for _ in range(dice.choice([1, 1, 2])):
        site.drop(dice)
    consumer.shown.clear()
    shown = consumer.shown.wait(max(life, usual * 2)) if at_result else time.sleep(life * 0.7)
    # The worker goes with its daemon; nothing else is in the group.
    daemon.kill()
    daemon.wait()
    return bool(shown)


def run(onnxd, kills, root, outbox, seed):
    """The figures of one file system."""
    dice = random.Random(seed)
    site = Site(onnxd, root, outbox)
    consumer = Consumer(outbox, os.path.join(outbox, "..", "taken"))
    consumer.start()
    time_to_result(site, consumer, dice)
    usual, at_result = time_to_result(site, consumer, dice), 0
    for kill in range(kills):
        if kill and kill % IN_A_ROW == 0:
            site.finish()
        at_result += kill_once(site, consumer, dice, usual)
    site.finish()
    time.sleep(0.2)
    consumer.ended = True
    consumer.join()
    return figures(site, consumer, kills, at_result)


def figures(site, consumer, kills, at_result):
    delivered = {}
    for name in consumer.names():
        delivered[name] = delivered.get(name, 0) + 1
    dropped = [name for name, _ in site.drops]
    left = os.listdir(site.inbox)
    states = {}
    for job in site.jobs():
        states[job["state"]] = states.get(job["state"], 0) + 1
    done = len(os.listdir(os.path.join(site.root, "done")))
    hidden = [n for _, folders, _ in os.walk(site.outbox) for n in folders if n.startswith(".")]
    return {
        "kills": kills,
        "right after a result": at_result,
        "accepted": len(dropped) - len(left),
        "left in the inbox": len(left),
        "published": states.get("succeeded", 0) + states.get("duplicate", 0),
        "other states": {state: n for state, n in states.items() if state not in ("succeeded", "duplicate")},
        "delivered": sum(delivered.values()),
        "lost": sum(name not in delivered for name in dropped),
        "delivered twice": sum(n > 1 for n in delivered.values()),
        "originals in done": done,
        "hidden folders left": len(hidden),
    }


@contextlib.contextmanager
def mounted(kind, base):
    """A new file system of this kind."""
    at, image = os.path.join(base, kind), os.path.join(base, f"{kind}.img")
    os.makedirs(at)
    if kind == "tmpfs":
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={IMAGE_MIB}m", "tmpfs", at], check=True)
    else:
        with open(image, "wb") as file:
            file.truncate(IMAGE_MIB << 20)
        subprocess.run([f"mkfs.{kind}", "-q", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=True)
        if os.path.exists(image):
            os.remove(image)


def on(kind, args, seed):
    """The figures on this kind of file system; None where it cannot be mounted."""
    with contextlib.ExitStack() as stack:
        base = stack.enter_context(tempfile.TemporaryDirectory(dir=args.folder, prefix="kills-"))
        if kind == "here":
            return run(args.onnxd, args.kills, os.path.join(base, "root"), os.path.join(base, "root", "outbox"), seed)
        try:
            state = stack.enter_context(mounted("ext4" if kind == "across" else kind, base))
            out = stack.enter_context(mounted("tmpfs", base)) if kind == "across" else state
        except (OSError, subprocess.CalledProcessError) as e:
            print(f"{kind}: cannot be mounted here: {e}", flush=True)
            return None
        try:
            return run(args.onnxd, args.kills, os.path.join(state, "root"), os.path.join(out, "root", "outbox"), seed)
        finally:
            if args.keep_log:
                shutil.copy(os.path.join(state, "root", "log"), f"{args.keep_log}-{kind}.log")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxd", type=os.path.abspath)
    parser.add_argument("--kills", type=int, default=1000, help="on all file systems together")
    parser.add_argument("--on", default="ext4,xfs,btrfs,tmpfs,across")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--keep-log", default=None, help="first part of the names for logs of the daemon")
    args = parser.parse_args()
    kinds = args.on.split(",")
    args.kills = -(-args.kills // len(kinds))
    print(f"seed {args.seed}", flush=True)
    bad = 0
    for kind in kinds:
        found = on(kind, args, args.seed)
        if found:
            print(f"{kind}: " + ", ".join(f"{what} {n}" for what, n in found.items()), flush=True)
            bad += found["lost"] + found["delivered twice"]
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
