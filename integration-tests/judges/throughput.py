#!/usr/bin/env python3
"""What a conversion of a small model costs, and how many a daemon does in a second with one worker and with two.

    throughput.py NEW [--old OLD] [--drops 200] [--rounds 5] [--converts 20] [--only CASE,...]

NEW and OLD are folders with an onnxd and its plugins. Each case is measured with the older program first, in turn for
each round, on the same machine. Cases:

    convert    processor time of `onnxd convert`, with its worker
    once       processor time for each drop of `onnxd once` on one folder of models: of all processes, and of the
               daemon itself
    workers    results in a second of `onnxd run` with 1 and 2 workers, from the first result to the last; two on two
               idle processors should nearly double one. The time of the daemon and of all processes for each of them.

Prints the best and the median: least milliseconds, most results. Needs Linux (/proc) and Python alone. It judges
nothing.
"""
import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 300
TICKS = os.sysconf("SC_CLK_TCK")


def field(number, payload):
    """A field of a protobuf message: an integer, or bytes, text and messages by their length."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    payload = payload.encode() if isinstance(payload, str) else payload
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(number):
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def value(name):
    """`float[4] name`"""
    tensor = field(1, 1) + field(2, field(1, field(1, 4)))
    return field(1, name) + field(2, field(1, tensor))


def small_model(mark):
    """A model of one operator; the text makes its bytes unlike others."""
    node = field(1, "x") + field(2, "y") + field(4, "Relu")
    graph = field(1, node) + field(2, "small") + field(11, value("x")) + field(12, value("y"))
    return field(1, 8) + field(6, mark) + field(7, graph) + field(8, field(2, 17))


def start(words, log):
    with open(log, "ab") as out:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def end(process, log):
    """Milliseconds of processor time, of the process itself and of all below it; ends the script if it failed."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rpartition(") ")[2].split()
    _, status, spent = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        with open(log) as text:
            sys.exit(f"{process.args}: {text.read()[-2000:]}")
    return (int(fields[11]) + int(fields[12])) * 1000 / TICKS, (spent.ru_utime + spent.ru_stime) * 1000


def write(path, content):
    with open(path, "wb") as out:
        out.write(content)


def convert(program, scratch, options):
    model, log = os.path.join(scratch, "net.onnx"), os.path.join(scratch, "log")
    write(model, small_model("convert"))
    words = [[program, "convert", model, "--out", os.path.join(scratch, f"out{n}")] for n in range(options.converts)]
    return {"all": [end(start(of_one, log), log)[1] for of_one in words]}


def site(scratch, drops, workers):
    """A folder with drops in its inbox, and what a command is to set."""
    folder = os.path.join(scratch, "inbox", "team")
    os.makedirs(folder)
    for number in range(drops):
        write(os.path.join(folder, f"net{number}.onnx"), small_model(f"drop {number}"))
    sets = [
        f"paths.root={scratch}", f"state.dir={scratch}/state", "jobs.min_free_mib=0", "intake.settle_ms=500",
        f"worker.parallel_max={workers}",
    ]
    return [word for entry in sets for word in ("--set", entry)]


def results(scratch):
    """When each result was complete, in seconds."""
    folder = os.path.join(scratch, "outbox", "team")
    if not os.path.isdir(folder):
        return []
    reports = (os.path.join(folder, name, "report.json") for name in os.listdir(folder) if not name.startswith("."))
    return sorted(os.stat(path).st_mtime for path in reports if os.path.exists(path))


def once(program, scratch, options):
    sets = site(scratch, options.drops, 1)
    log = os.path.join(scratch, "log")
    own, whole = end(start([program, "once", *sets], log), log)
    found = len(results(scratch))
    if found != options.drops:
        sys.exit(f"{program}: {found} results of {options.drops} drops; see {scratch}")
    return {"all": [whole / found], "daemon": [own / found]}


def daemon(program, scratch, options, workers):
    sets = site(scratch, options.drops, workers)
    log = os.path.join(scratch, "log")
    process = start([program, "run", *sets], log)
    until = time.monotonic() + PATIENCE_S
    while len(results(scratch)) < options.drops and time.monotonic() < until:
        time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    own, whole = end(process, log)
    times = results(scratch)
    if len(times) < 2:
        sys.exit(f"{program}: {len(times)} results within {PATIENCE_S} s")
    rate = (len(times) - 1) / (times[-1] - times[0])
    return {"per s": rate, "all": whole / len(times), "daemon": own / len(times)}


def workers(program, scratch, options):
    found = {}
    for number in (1, 2):
        folder = os.path.join(scratch, str(number))
        os.makedirs(folder)
        measured = daemon(program, folder, options, number)
        found |= {f"{name}, {number}": [figure] for name, figure in measured.items()}
    return found | {"2 to 1": [found["per s, 2"][0] / found["per s, 1"][0]]}


CASES = {"convert": convert, "once": once, "workers": workers}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("new")
    parser.add_argument("--old", help="another folder, to compare with")
    parser.add_argument("--drops", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--converts", type=int, default=20, help="conversions in a round")
    parser.add_argument("--only", default=",".join(CASES))
    options = parser.parse_args()
    programs = {name: os.path.abspath(os.path.join(folder, "onnxd")) for name, folder in
                (("old", options.old), ("new", options.new)) if folder}
    for case in options.only.split(","):
        rows = {name: {} for name in programs}
        for _ in range(options.rounds):
            for name, program in programs.items():
                with tempfile.TemporaryDirectory(prefix="throughput-") as scratch:
                    for figure, found in CASES[case](program, scratch, options).items():
                        rows[name].setdefault(figure, []).extend(found)
        for name, row in rows.items():
            best = {figure: max if figure[0] in "p2" else min for figure in row}
            shown = (f"{f} {best[f](all_of):.2f} ({statistics.median(all_of):.2f})" for f, all_of in row.items())
            print(f"{case:8} {name:4} {'; '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
